//! Reads a whole table file and checks all that it says of itself.

use super::Reader;
use super::block::Block;
use super::filter::{Filter, filter_of};
use super::held::Held;
use super::index::BlockHandle;
use super::meta::Tally;
use super::source::Caching;
use super::way::Way;
use crate::entry::Entry;
use crate::error::{Damage, Result};
use crate::key;
use crate::version::Version;

/// What was seen of the file so far.
struct Verifier<'a> {
    reader: &'a Reader,
    filters: Vec<Held<'a>>,
    way: Way,
    tally: Tally,
    last_key: Vec<u8>,
    last_version: Version,
    /// Offset after the last block.
    end: u64,
}

impl Reader {
    /// Reads all blocks, bypassing the cache: checksums, the order of entries, fences, filters,
    /// and the counts in the directory.
    ///
    /// # Errors
    /// The first damage found; what the file system refuses.
    pub(crate) fn verify(&self) -> Result<()> {
        let filters = (0..self.directory().filters.len())
            .map(|filter| self.filter(filter, Caching::Distrust))
            .collect::<Result<_>>()?;
        let mut verifier = Verifier {
            reader: self,
            filters,
            way: Way::long(),
            tally: Tally::new(),
            last_key: Vec::new(),
            last_version: Version::ZERO,
            end: 0,
        };
        let mut next = self.partition(0, Caching::Distrust)?;
        while let Some(place) = next {
            verifier.block(&place.handle()?, place.fence()?)?;
            next = place.next()?;
        }
        verifier.finish()
    }
}

impl Verifier<'_> {
    fn block(&mut self, handle: &BlockHandle, fence: (&[u8], Version)) -> Result<()> {
        let held = self.reader.source().load_next(handle, Caching::Distrust, &mut self.way)?;
        let is_in_place =
            handle.offset.0 == self.end && handle.entries_before == self.tally.entries();
        self.end = handle.end();
        let checked = if is_in_place {
            self.entries(held.payload(), fence)
        } else {
            Err(Damage::new(0, "the block that the index describes", "another"))
        };
        checked.map_err(|damage| self.reader.damage(damage, handle))
    }

    fn entries(&mut self, payload: &[u8], fence: (&[u8], Version)) -> Result<(), Damage> {
        let block = Block::parse(payload)?;
        let (mut at, mut key) = (0, Vec::new());
        while at < block.end() {
            let raw = block.entry(at)?;
            let (version, value) = block.body(&raw)?;
            key.truncate(raw.shared);
            key.extend_from_slice(raw.suffix);
            let entry = Entry { key: &key, version, kind: raw.kind(value), value };
            self.entry(&entry, fence).map_err(|damage| Damage { offset: at as u64, ..damage })?;
            at = raw.next;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>, fence: (&[u8], Version)) -> Result<(), Damage> {
        let order = self.last_key[..].cmp(entry.key);
        if self.tally.entries() == 0 || order.is_lt() {
            self.tally.add_key(entry)?;
            self.check_filters(entry.key)?;
        } else if order.is_eq() && entry.version < self.last_version {
            self.tally.add(entry)?;
        } else {
            return Err(Damage::new(0, "entries in order", "one out of order"));
        }
        if entry.key.cmp(fence.0).then(fence.1.cmp(&entry.version)).is_gt() {
            return Err(Damage::new(0, "entries up to the block's fence", "one after"));
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        self.last_version = entry.version;
        Ok(())
    }

    fn check_filters(&self, entry_key: &[u8]) -> Result<(), Damage> {
        let partition = entry_key.get(..key::partition_len(entry_key)).unwrap_or(entry_key);
        for hash in [key::hash(entry_key), key::hash(partition)] {
            let filter = self.filters.get(filter_of(hash, self.filters.len()));
            let filter = filter.map(|held| Filter::parse(held.payload())).transpose()?;
            if !filter.is_some_and(|filter| filter.may_contain(hash)) {
                return Err(Damage::new(0, "a key that the filter has", "one that it lacks"));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let meta = self.reader.meta();
        let counted = self.tally.finish(meta.id, meta.bytes, &self.last_key);
        if counted == *meta {
            return Ok(());
        }
        let damage = Damage::new(0, "the entries that the directory describes", "others");
        Err(self.reader.damage_at(damage, self.end))
    }
}
