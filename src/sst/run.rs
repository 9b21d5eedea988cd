//! [`Run`]: keys in reverse order out of a block that can only be read forward.
//!
//! A run is the entries between two restarts a few apart. They are decoded once, each key with the
//! place of its first entry, and given back from the last; then the run before is decoded. A key
//! whose entries reach back into the run before is followed there. The first run after a seek is short, and each is
//! longer than the one after it: who seeks may want a few keys only, as a scan that passes range tombstones in reverse
//! wants one of each range.

use super::block::Block;
use crate::error::Damage;

/// Restarts in the first run after a seek.
const FIRST_RESTARTS: usize = 1;
/// The most that a run has: at most about 2 KiB of small entries are decoded for one key.
const MOST_RESTARTS: usize = 4;

/// Keys before the current entry, to be given back from the last.
#[derive(Debug)]
pub(super) struct Run {
    keys: Vec<u8>,
    items: Vec<Item>,
    /// Number of the restart at which the run begins.
    restart: usize,
    /// How many restarts the next is to have.
    restarts: usize,
    /// The key of the entry being decoded.
    key: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// Where the key begins in `keys`; it ends where the next begins.
    key_start: usize,
    /// Where its first entry in the run is.
    offset: usize,
}

/// Where the newest entry of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstEntry {
    /// At this offset of the block.
    At(usize),
    /// It is the first key of the block, and its newest entry may be in a block before.
    Unknown,
}

impl Default for Run {
    fn default() -> Self {
        let (keys, items, key) = (Vec::new(), Vec::new(), Vec::new());
        Self { keys, items, restart: 0, restarts: FIRST_RESTARTS, key }
    }
}

impl Run {
    /// Is to begin anew, from where a seek leads.
    pub(super) fn begin(&mut self) {
        self.clear();
        self.restarts = FIRST_RESTARTS;
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.items.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Notes the keys less than `before` of the run that ends at a restart.
    pub(super) fn fill(
        &mut self,
        block: &Block<'_>,
        end: usize,
        before: Option<&[u8]>,
    ) -> Result<(), Damage> {
        self.clear();
        self.key.clear();
        self.restart = end.saturating_sub(self.restarts);
        self.restarts = MOST_RESTARTS.min(2 * self.restarts);
        let mut at = block.restart(self.restart);
        while at < block.restart(end) {
            let entry = block.entry(at)?;
            let is_same_key = !self.items.is_empty() && entry.has_key(&self.key);
            self.key.truncate(entry.shared);
            self.key.extend_from_slice(entry.suffix);
            if before.is_some_and(|before| *self.key >= *before) {
                break;
            }
            if !is_same_key {
                self.items.push(Item { key_start: self.keys.len(), offset: at });
                self.keys.extend_from_slice(&self.key);
            }
            at = entry.next;
        }
        Ok(())
    }

    /// Takes the last key into `key`, and says where its newest entry is; `None` at the end.
    pub(super) fn pop(
        &mut self,
        block: &Block<'_>,
        key: &mut Vec<u8>,
    ) -> Result<Option<FirstEntry>, Damage> {
        let Some(mut last) = self.items.pop() else { return Ok(None) };
        key.clear();
        key.extend_from_slice(self.keys.get(last.key_start..).unwrap_or_default());
        loop {
            self.keys.truncate(last.key_start);
            if !self.items.is_empty() {
                return Ok(Some(FirstEntry::At(last.offset)));
            }
            if self.restart == 0 {
                return Ok(Some(FirstEntry::Unknown));
            }
            self.fill(block, self.restart, None)?;
            let same_key = |item: &Item| self.keys.get(item.key_start..) == Some(key.as_slice());
            match self.items.last().copied().filter(same_key) {
                Some(item) => last = item,
                None => return Ok(Some(FirstEntry::At(last.offset))),
            }
            self.items.pop();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
}
