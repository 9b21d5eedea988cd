//! [`Addresses`]: how much of a process its maps may take.
//!
//! Of 64 bits there are enough for any database. Of 32 bits a few gigabytes are for everything: where maps had all of
//! them, nothing else could be allocated any more.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Over all databases of the process, each file twice: on 32 bits a third of what a process has, or a quarter.
const MOST_MAPPED: usize = if usize::BITS < 64 { 1 << 30 } else { usize::MAX };

/// Those of this process.
pub(super) static ADDRESSES: Addresses = Addresses::new(MOST_MAPPED);

/// Addresses for maps.
pub(super) struct Addresses {
    most: usize,
    taken: AtomicUsize,
}

/// Some of them, until dropped.
pub(super) struct Taken {
    addresses: &'static Addresses,
    bytes: usize,
}

impl Addresses {
    const fn new(most: usize) -> Self {
        Self { most, taken: AtomicUsize::new(0) }
    }

    /// As many as that, if so many are left.
    pub(super) fn take(&'static self, bytes: usize) -> Option<Taken> {
        let more = |taken: usize| taken.checked_add(bytes).filter(|all| *all <= self.most);
        // They order nothing: who has some has a map of its own.
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Taken { addresses: self, bytes })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.addresses.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_what_is_dropped_is_there_again() {
        static FEW: Addresses = Addresses::new(100);
        let first = FEW.take(60).unwrap();
        assert!(FEW.take(41).is_none() && FEW.take(usize::MAX).is_none());
        let second = FEW.take(40).unwrap();
        assert!(FEW.take(1).is_none() && FEW.take(0).is_some());
        drop(first);
        assert!(FEW.take(61).is_none());
        drop(second);
        FEW.take(100).unwrap();
    }
}
