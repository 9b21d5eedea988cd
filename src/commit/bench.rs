//! What a commit writes, as a benchmark of this package sees it.

use super::apply::apply;
use super::payload::{Payload, Prepared};
use crate::key::{self, TableId};
use crate::memtable::Memtable;
use crate::version::Version;

/// The payload of a commit.
#[derive(Debug)]
pub struct BenchPayload(Prepared);

impl BenchPayload {
    /// Encodes puts of rows of one partition.
    #[must_use]
    pub fn encode(partition_key: &[u8], row_keys: &[Vec<u8>], value: &[u8]) -> Self {
        let each = value.len() + 32;
        let mut payload = Payload::with_capacity(row_keys.len() * each + partition_key.len() + 16);
        payload.rows(&key::encode_partition(TableId::FIRST, partition_key), row_keys.len());
        for row_key in row_keys {
            payload.put(row_key, value);
        }
        Self(Prepared::new(payload))
    }

    /// Puts it into a memtable, again and again at the next version; entries that it then has.
    #[must_use]
    pub fn apply(&self, times: u64) -> u64 {
        let memtable = Memtable::with_budget(64 << 20);
        for ticks in 1..=times {
            let applied = apply(&self.0, Version::from_ticks(ticks), &memtable, usize::MAX);
            debug_assert!(applied.is_ok(), "what was encoded is decoded");
        }
        memtable.entries()
    }
}
