//! Sizes of key ranges, and keys at which a range can be cut into parts of known size.
//!
//! Invariant: a range and the one that follows it have together what the range over both has.

use super::Reader;
use super::block::Block;
use super::index::NEWEST;
use super::source::Caching;
use crate::error::{Damage, Result};
use crate::version::Version;

/// Approximate content of a key range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Stored bytes, after compression.
    pub(crate) bytes: u64,
    /// Entries, tombstones and older versions included.
    pub(crate) entries: u64,
}

impl Reader {
    /// How much there is with `start <= key < end`: the number of entries is exact, bytes are
    /// the share that the entries have in the blocks at both ends. Reads these two blocks and
    /// no other.
    pub(crate) fn estimate(&self, start: &[u8], end: &[u8]) -> Result<Estimate> {
        if start >= end {
            return Ok(Estimate::default());
        }
        let (start, end) = (self.before(start)?, self.before(end)?);
        Ok(Estimate {
            bytes: end.bytes.saturating_sub(start.bytes),
            entries: end.entries.saturating_sub(start.entries),
        })
    }

    /// About what part of the file's bytes has `start <= key < end`. Reads nothing: it is known which index
    /// partitions end in the range, and they are as long as they have blocks. Where in a partition the range
    /// begins and ends is not: in the middle, on average.
    pub(crate) fn share(&self, start: &[u8], end: &[u8]) -> f64 {
        (self.share_before(end) - self.share_before(start)).max(0.0)
    }

    fn share_before(&self, key: &[u8]) -> f64 {
        let top = &self.directory().top;
        let number = top.find(key, NEWEST);
        let last = top.len().saturating_sub(1);
        let handles = (top.handle(0), top.handle(number), top.handle(last));
        let (Some(first), Some(partition), Some(last)) = handles else { return 1.0 };
        let is_within = number > 0 || *key > *self.meta().smallest;
        let within = if is_within { partition.len as f64 / 2.0 } else { 0.0 };
        let before = partition.offset.0.saturating_sub(first.offset.0) as f64;
        (before + within) / last.end().saturating_sub(first.offset.0).max(1) as f64
    }

    /// How much there is before a key.
    fn before(&self, key: &[u8]) -> Result<Estimate> {
        let Some(place) = self.place(key, NEWEST, Caching::Keep)? else {
            let bytes = self.directory().top.handle(0).map_or(0, |handle| handle.offset.0);
            return Ok(Estimate { bytes, entries: self.meta().entries });
        };
        let handle = place.handle()?;
        let held = self.source().load(&handle, Caching::Keep)?;
        let share = entries_before(held.payload(), key);
        let (before, all) = share.map_err(|damage| self.damage(damage, &handle))?;
        Ok(Estimate {
            bytes: handle.offset.0 + handle.len as u64 * before / all.max(1),
            entries: handle.entries_before.saturating_add(before),
        })
    }

    /// Shows the fence keys of data blocks with `start < fence < end`, ascending, each with the
    /// stored bytes of the blocks before it that were not counted at an earlier fence. A fence
    /// is the front of a key, long enough to be greater than the keys before it, or the last
    /// key of the file.
    pub(crate) fn split_keys(
        &self,
        start: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(&[u8], u64),
    ) -> Result<()> {
        let mut bytes = 0;
        let mut next = self.place(start, NEWEST, Caching::Keep)?;
        while let Some(place) = next {
            bytes += place.handle()?.len as u64;
            let (fence, version) = place.fence()?;
            if fence >= end {
                break;
            }
            // Between two versions of one key there is nothing to cut.
            if (version == Version::MAX || *fence == *self.meta().largest) && fence > start {
                visit(fence, bytes);
                bytes = 0;
            }
            next = place.next()?;
        }
        Ok(())
    }
}

/// Of a block, the number of entries before a key and of all.
fn entries_before(payload: &[u8], key: &[u8]) -> Result<(u64, u64), Damage> {
    let block = Block::parse(payload)?;
    let first = block.find(key, NEWEST)?;
    let (mut at, mut before, mut all) = (0, 0, 0);
    while at < block.end() {
        at = block.entry(at)?.next;
        all += 1;
        before += u64::from(first.is_none_or(|first| at < first.next));
    }
    Ok((before, all))
}
