//! [`BlockBuilder`]: builds blocks, one after another; [`block`](super::block) has their format.
//!
//! Invariant: entries are added in the block's order, by key ascending, then version descending.

use super::block::{RESTART_BYTES, TAIL_BYTES};
use super::prefixes::prefix_of;
use super::raw_entry::{EntryHead, zigzag};
use crate::entry::Entry;
use crate::key::common_prefix;
use crate::varint::{push_wide_varint, varint_len};
use crate::version::Version;

/// Upper bound of an entry's size beside its key and value.
const ENTRY_OVERHEAD: usize = 24;

/// How far a lookup may have to walk: there is a restart after so many entries, and after so many
/// bytes, or twice the key that is whole there, if that is more. So keys that are longer than what
/// follows them are not whole each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestartInterval {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

/// Builds one block after another.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    interval: RestartInterval,
    bytes: Vec<u8>,
    restarts: Vec<Restart>,
    /// Keys at restarts, one after the other.
    restart_keys: Vec<u8>,
    /// Entries since the last restart.
    run: usize,
    /// Where the next restart is, however few they are.
    run_end: usize,
    base: u64,
    last_key: Vec<u8>,
    last_version: Version,
}

#[derive(Clone, Copy, Debug)]
struct Restart {
    offset: usize,
    /// End of its key in `restart_keys`.
    key_end: usize,
}

impl BlockBuilder {
    pub(super) fn new(interval: RestartInterval) -> Self {
        Self {
            interval,
            bytes: Vec::new(),
            restarts: Vec::new(),
            restart_keys: Vec::new(),
            run: 0,
            run_end: 0,
            base: 0,
            last_key: Vec::new(),
            last_version: Version::ZERO,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    pub(super) fn restarts(&self) -> usize {
        self.restarts.len()
    }

    /// Length of the payload if the block were finished now, but for the common prefix.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + RESTART_BYTES * self.restarts.len() + TAIL_BYTES
    }

    /// At most how much an entry adds, of whose key the last one has `common` bytes.
    pub(super) fn entry_len(&self, entry: &Entry<'_>, common: usize) -> usize {
        let shared = if self.needs_restart() { 0 } else { common };
        entry.key.len() - shared + entry.value.len() + ENTRY_OVERHEAD
    }

    /// Key of the entry added last, also after the block was finished.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    pub(super) fn last_version(&self) -> Version {
        self.last_version
    }

    /// How many bytes a key and the last one have in common at their front.
    #[inline]
    pub(super) fn common(&self, key: &[u8]) -> usize {
        common_prefix(&self.last_key, key)
    }

    /// Adds an entry, with what its key and the last one have in [common](Self::common).
    pub(super) fn add(&mut self, entry: &Entry<'_>, common: usize) {
        let Entry { key, version, kind, value } = *entry;
        if self.is_empty() {
            self.base = version.ticks();
        }
        let shared = if self.needs_restart() {
            self.restart_keys.extend_from_slice(key);
            let key_end = self.restart_keys.len();
            self.restarts.push(Restart { offset: self.bytes.len(), key_end });
            self.run = 0;
            self.run_end = self.bytes.len() + self.interval.bytes.max(2 * key.len());
            0
        } else {
            common
        };
        self.run += 1;
        let suffix = key.get(shared..).unwrap_or_default();
        let delta = zigzag(version.ticks().wrapping_sub(self.base));
        let body_len = varint_len(delta) + value.len();
        let tag = body_len << 1 | usize::from(kind.bit());
        EntryHead { shared, unshared: suffix.len(), tag }.push(&mut self.bytes);
        self.bytes.extend_from_slice(suffix);
        push_wide_varint(&mut self.bytes, delta);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(key.get(common..).unwrap_or_default());
        self.last_version = version;
    }

    fn needs_restart(&self) -> bool {
        self.is_empty() || self.run >= self.interval.entries || self.bytes.len() >= self.run_end
    }

    /// Ends the block and gives its payload, until [`clear`](Self::clear).
    pub(super) fn finish(&mut self) -> &[u8] {
        // With one restart there is nothing to search.
        let first = self.restarts.first().filter(|_| self.restarts.len() > 1);
        let first = first.and_then(|r| self.restart_keys.get(..r.key_end)).unwrap_or_default();
        let common = first.get(..common_prefix(first, &self.last_key)).unwrap_or_default();
        let mut start = 0;
        for restart in &self.restarts {
            let key = self.restart_keys.get(start..restart.key_end).unwrap_or_default();
            self.bytes.extend_from_slice(&prefix_of(key, common.len()));
            start = restart.key_end;
        }
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&(restart.offset as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(common);
        self.bytes.extend_from_slice(&self.base.to_le_bytes());
        self.bytes.extend_from_slice(&(common.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.bytes
    }

    /// Starts the next block.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.restart_keys.clear();
        self.run = 0;
    }
}
