//! What the tests share: small databases, a model of the public API, a simulated machine that
//! crashes, a way to poll a future, waits that end.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod fixture;
pub mod hooked;
pub mod model;
pub mod query;
pub mod sim;
pub mod strategies;
pub mod task;
pub mod wait;

pub use fixture::{Depth, TestDb, all_rows, key, keys, options, read_mode};
