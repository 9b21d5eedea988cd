//! A server for Azure Table storage clients on the [`tablestone`] engine.
//!
//! The rooms; each calls only rooms below it:
//!
//! | room | holds |
//! | --- | --- |
//! | `wire` | the forms of the protocol's bodies, both directions: JSON, Atom, XML, batch, continuation |

#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_lossless
)]

pub mod address;
pub mod auth;
pub mod body;
pub mod config;
pub mod error;
pub mod headers;
pub mod net;
pub mod service;
pub mod telemetry;
pub mod wire;
