//! Reads what is whole of a damaged table file.
//!
//! Invariant: an entry is shown only if the checksum of its block holds, the block has entries to its end, and
//! all of them come after those shown before. What is in other blocks is passed over.

use std::ops::Range;

use super::Reader;
use super::block::Block;
use super::index::{BlockHandle, NEWEST};
use super::source::Caching;
use crate::entry::{Entry, Kind};
use crate::error::{Damage, Error, Result};
use crate::version::Version;

/// An entry of a block; its value lies in the block's payload.
struct Whole {
    key: Vec<u8>,
    version: Version,
    kind: Kind,
    value: Range<usize>,
}

impl Whole {
    fn comes_after(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| {
            before.key < self.key || (before.key == self.key && before.version > self.version)
        })
    }
}

impl Reader {
    /// Shows the entries of all whole blocks to `visit`, in order.
    ///
    /// # Errors
    /// What `visit` reports; what the file system refuses.
    pub(crate) fn whole_entries(
        &self,
        mut visit: impl FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut last = None;
        for partition in 0..self.directory().top.len() {
            let Some(mut place) = whole(self.partition(partition, Caching::Distrust))?.flatten()
            else {
                continue;
            };
            let mut handle = whole(place.handle())?;
            while let Some(block) = handle {
                self.whole_block(&block, &mut last, &mut visit)?;
                handle = place.next_at_hand();
                place.go_on();
            }
        }
        Ok(())
    }

    fn whole_block(
        &self,
        handle: &BlockHandle,
        last: &mut Option<Whole>,
        visit: &mut impl FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(held) = whole(self.source().load(handle, Caching::Distrust))? else {
            return Ok(());
        };
        let payload = held.payload();
        let Ok(entries) = entries(payload, last.as_ref()) else { return Ok(()) };
        for Whole { key, version, kind, value } in &entries {
            let value = payload.get(value.clone()).unwrap_or_default();
            visit(Entry { key, version: *version, kind: *kind, value })?;
        }
        *last = entries.into_iter().next_back().or(last.take());
        Ok(())
    }
}

/// What was read, unless it is damaged.
fn whole<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Corruption(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The entries of a block that comes after an entry.
fn entries(payload: &[u8], before: Option<&Whole>) -> Result<Vec<Whole>, Damage> {
    let block = Block::parse(payload)?;
    let (mut at, mut entries) = (0, Vec::<Whole>::new());
    while at < block.end() {
        let raw = block.entry(at)?;
        let (version, value) = block.body(&raw)?;
        let shared = entries.last().map_or(&[][..], |entry| &entry.key).get(..raw.shared);
        let Some(shared) = shared.filter(|_| version <= NEWEST) else {
            return Err(Damage::new(at as u64, "an entry of a table file", "another"));
        };
        let key = [shared, raw.suffix].concat();
        let value_at = raw.next - value.len()..raw.next;
        let entry = Whole { key, version, kind: raw.kind(value), value: value_at };
        if !entry.comes_after(entries.last().or(before)) {
            return Err(Damage::new(at as u64, "entries in order", "one out of order"));
        }
        entries.push(entry);
        at = raw.next;
    }
    Ok(entries)
}
