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
    /// no other, none where the range has all of the file.
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
        if *key <= *self.meta().smallest {
            return Ok(Estimate::default());
        }
        let Some(place) = self.place(key, NEWEST, Caching::Keep)? else {
            return Ok(Estimate { bytes: self.data_bytes(), entries: self.meta().entries });
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

    /// Shows keys with `start < key < end`, ascending, each with the stored bytes that are before it and after
    /// the key shown before, about `grain` of them or a little more. A key is the front of one of the file's,
    /// long enough to be greater than the keys before it, or the last one of the file. Where `grain` is more
    /// than an index partition stands for, nothing is read.
    pub(crate) fn split_keys(
        &self,
        start: &[u8],
        end: &[u8],
        grain: u64,
        visit: &mut dyn FnMut(&[u8], u64),
    ) -> Result<()> {
        let mut bytes = 0;
        let mut pass = |fence: &[u8], version: Version, more: u64| {
            bytes += more;
            let is_last = *fence == *self.meta().largest;
            // Between two versions of one key there is nothing to cut.
            let may_cut = (version == Version::MAX && bytes >= grain) || is_last;
            if may_cut && start < fence && fence < end {
                visit(fence, std::mem::take(&mut bytes));
            }
            fence < end
        };
        let top = &self.directory().top;
        if grain > self.data_bytes() / (top.len() as u64).max(1) {
            let mut number = top.find(start, NEWEST);
            while let Some((fence, version)) = top.fence(number)
                && pass(fence, version, self.bytes_of_partition(number))
            {
                number += 1;
            }
            return Ok(());
        }
        let mut next = self.place(start, NEWEST, Caching::Keep)?;
        while let Some(place) = next {
            let (fence, version) = place.fence()?;
            if !pass(fence, version, place.handle()?.len as u64) {
                break;
            }
            next = place.next()?;
        }
        Ok(())
    }

    /// About how many bytes of data blocks are under an index partition: the share of its entries.
    fn bytes_of_partition(&self, number: usize) -> u64 {
        let (top, all) = (&self.directory().top, self.meta().entries);
        let before = |number| top.handle(number).map_or(all, |handle| handle.entries_before);
        let entries = before(number + 1).saturating_sub(before(number));
        (u128::from(self.data_bytes()) * u128::from(entries) / u128::from(all.max(1))) as u64
    }

    /// Stored bytes of all data blocks.
    fn data_bytes(&self) -> u64 {
        self.directory().top.handle(0).map_or(0, |handle| handle.offset.0)
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
