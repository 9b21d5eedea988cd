//! One byte string of a partition and a row key, for engines that know no partitions.
//!
//! `partition 0x00 row`: ordered by partition, then row, because no partition of the workload
//! contains a zero byte. It lies in memory that is used again, as with any user who cares.

use std::cell::Cell;
use std::ops::Deref;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

#[derive(Clone)]
pub(super) struct Key(Vec<u8>);

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.0));
    }
}

/// The key of an entity.
pub(super) fn encode(partition: &[u8], row: &[u8]) -> Key {
    let mut key = SPARE.take();
    key.clear();
    key.extend_from_slice(partition);
    key.push(0);
    key.extend_from_slice(row);
    Key(key)
}

/// The first key after those of a partition.
pub(super) fn partition_end(partition: &[u8]) -> Key {
    let mut key = SPARE.take();
    key.clear();
    key.extend_from_slice(partition);
    key.push(1);
    Key(key)
}
