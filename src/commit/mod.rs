//! Commit: latches, preconditions, group commit, publication, durability.
//!
//! Invariants are argued in [`pipeline`] (order and publication) and [`batch`] (conditions). This
//! room calls the rooms below it: read (for conditions), levels (memtables, back-pressure) and
//! wal. What a commit changes is a [`payload`], in the log and for the memtable alike, [applied](apply)
//! to that.

mod apply;
mod batch;
pub(crate) mod bench;
mod checkpoint;
mod conditions;
mod deletions;
mod draft;
mod driver;
mod durable;
mod gate;
mod gather;
mod handle;
mod import;
mod latch;
mod looks;
#[cfg(all(test, loom))]
mod model;
mod payload;
mod pipeline;
mod ranges;
mod recovery;
mod relay;
mod replay;
mod reserve;
mod sequence;
mod submit;
mod tree_log;
mod waiters;

pub(crate) use batch::{BatchWrite, Incarnation};
pub use conditions::Precondition;
pub(crate) use draft::{BatchLimits, Draft};
pub(crate) use handle::Applied;
pub use handle::Commit;
pub(crate) use import::{ImportRows, import};
pub(crate) use payload::{Payload, Prepared};
pub(crate) use pipeline::Pipeline;
pub(crate) use ranges::{FewRows, delete_rows};
pub(crate) use recovery::open;
pub use recovery::{RecoveryReport, TornTail};
pub(crate) use waiters::thread_waker;

use crate::error::{Error, Limit, Result};

/// Fails if `size` is over `limit`.
pub(crate) fn check_limit(what: Limit, size: usize, limit: usize) -> Result<()> {
    if size > limit {
        let (size, limit) = (size as u64, limit as u64);
        return Err(Error::LimitExceeded { index: None, what, size, limit });
    }
    Ok(())
}

#[cfg(fuzzing)]
pub use apply::fuzz_payload;
