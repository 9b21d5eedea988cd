//! Locks by key, for engines whose conditional write would be a transaction of its own kind: what
//! a user who has one process and wants an ETag check builds around a plain key-value store.
//!
//! Only conditional writes take the lock, as the works never mix them with others on an entity
//! whose outcome they check. It is held until the write is acknowledged; two entities rarely share
//! a stripe, so that writers to one partition still share the engine's syncs, if it shares any.

use std::hash::{BuildHasher, RandomState};

use parking_lot::{Mutex, MutexGuard};

const STRIPES: usize = 1 << 12;

pub(super) struct Stripes {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Stripes {
    pub(super) fn new() -> Self {
        Self { locks: (0..STRIPES).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }

    pub(super) fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.locks[self.hasher.hash_one(key) as usize % STRIPES].lock()
    }
}
