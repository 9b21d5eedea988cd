//! What the system does with processes that tests start.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[allow(dead_code, reason = "not every test has a use for all")]
mod system;

#[allow(unused_imports, reason = "not every test has a use for all")]
pub(crate) use system::*;
