//! The command line: what each command does to a data directory and to a server, as a person would
//! see it.

mod connections;
mod damage;
#[cfg(target_os = "linux")]
mod descriptors;
mod failures;
mod import;
mod interrupted;
mod limits;
mod loading;
mod lost_catalog;
#[path = "../processes/mod.rs"]
mod processes;
mod reading;
mod round_trip;
mod support;
#[cfg(target_os = "linux")]
mod threads;
