//! A server for Azure Table storage clients on the [`tablestone`] engine.
//!
//! Its rooms are its top-level modules; each calls only rooms below it:
//!
//! | room | holds |
//! | --- | --- |
//! | `cli` | the commands of the binary |
//! | `client` | a client of the protocol: an account's tables over HTTP |
//! | `service` | every operation of the protocol |
//! | `config` | the configuration: options, environment, file, defaults |
//! | `net` | connections: listening, TLS, HTTP, limits, the admin port |
//! | `auth` | accounts, signatures, and what these grant |
//! | `wire` | the protocol's bodies, parsed and printed: JSON, Atom, XML, batch, continuation |
//! | `telemetry` | metrics and the access log |
//! | `address`, `headers` | what a request's address and headers ask for |
//! | `body`, `error` | bodies and their memory, the protocol's errors |

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
pub mod cli;
pub mod client;
pub mod config;
pub mod error;
pub mod headers;
pub mod net;
pub mod service;
pub mod telemetry;
pub mod wire;
