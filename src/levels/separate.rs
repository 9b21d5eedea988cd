//! Which values a flush leaves where the log wrote them, and which a compaction brings back.
//!
//! A flush of mostly large values has the log end its segment, so that what it flushes is in segments
//! of its own. Each of these of which half or more is values that stay is kept: its values are stored
//! as references. A kept segment of which less than half is still referred to is sparse: compactions
//! that meet references to it store the values, and then its file goes. So values take at most about
//! twice their size, and the log is the only place that most of them are ever written to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::output::Outputs;
use super::tree::Tree;
use super::value_file::{ValueContext, ValueFile};
use super::values::Values;
use super::view::Frozen;
use crate::entry::{Entry, Kind};
use crate::error::Result;
use crate::memtable::Memtable;
use crate::reference::{LogPlace, Reference};
use crate::version::Version;
use crate::wal::SegmentId;

/// Whether large values are half of a memtable's entries or more.
pub(crate) fn is_mostly_large(memtable: &Memtable) -> bool {
    memtable.large_bytes() > 0 && 2 * memtable.large_bytes() >= memtable.entry_bytes() as u64
}

/// A key, where the log has its value, and the value's checksum, if it is known.
struct PlacedKey {
    key: Box<[u8]>,
    place: LogPlace,
    crc: Option<u32>,
}

/// The values that a flush need not write.
#[derive(Default)]
pub(super) struct Separation {
    /// The segments to keep.
    pub(super) kept: Vec<Arc<ValueFile>>,
    /// The first segment that is needed after the flush, as far as it is known.
    pub(super) log_start: Option<SegmentId>,
    /// Where the values in them are, by version; few of a commit are large.
    places: HashMap<Version, Vec<PlacedKey>>,
}

impl Separation {
    /// The reference to a value of the log; `None` if it is to be stored.
    fn reference(&self, entry: &Entry<'_>) -> Option<Reference> {
        let rows = self.places.get(&entry.version)?;
        let row = rows.iter().find(|row| *row.key == *entry.key)?;
        Some(Reference::new(row.place, entry.value, row.crc))
    }
}

impl Tree {
    /// What of frozen memtables up to `last` can stay in the log. All of it is published.
    pub(super) fn separate(&self, batch: &[Frozen], last: Version) -> Result<Separation> {
        let Some(log) = self.log.get() else { return Ok(Separation::default()) };
        if !batch.iter().any(|frozen| is_mostly_large(&frozen.memtable)) {
            return Ok(Separation::default());
        }
        let log = log.end_segment(last);
        let mut staying: BTreeMap<SegmentId, u64> = BTreeMap::new();
        each_newest(batch, |place, len| *staying.entry(place.segment).or_default() += len);
        let context = ValueContext {
            disk: &*self.disk,
            dir: &self.dir,
            read_mode: self.read_mode,
            janitor: &self.janitor,
            read_only: false,
        };
        let mut kept = Vec::new();
        for sealed in log.sealed {
            let bytes = staying.get(&sealed.id).copied().unwrap_or_default();
            if bytes > 0 && 2 * bytes >= sealed.bytes {
                kept.push(Arc::new(ValueFile::of_log(&context, sealed)?));
            }
        }
        let mut separation =
            Separation { kept, log_start: Some(log.start), ..Separation::default() };
        separation.find_places(batch);
        Ok(separation)
    }
}

impl Separation {
    /// The log's first segment that is needed once all up to `last` is in table files, which are written.
    pub(super) fn log_start(&self, tree: &Tree, last: Version) -> Option<SegmentId> {
        self.log_start.or_else(|| tree.log.get()?.release_segment(last))
    }

    fn find_places(&mut self, batch: &[Frozen]) {
        let Self { kept, places, .. } = self;
        for frozen in batch {
            frozen.memtable.each_placed(|row, version, place| {
                if kept.iter().any(|file| file.id() == place.segment) {
                    let row = PlacedKey { key: row.key.clone(), place, crc: row.crc };
                    places.entry(version).or_default().push(row);
                }
            });
        }
    }
}

/// Shows the place and length of each large value that is the newest of its key.
fn each_newest(batch: &[Frozen], mut visit: impl FnMut(LogPlace, u64)) {
    for (index, frozen) in batch.iter().enumerate() {
        let newer = batch.get(index + 1..).unwrap_or_default();
        frozen.memtable.each_placed(|row, version, place| {
            let newest = frozen.memtable.get(&row.key, Version::MAX);
            let in_newer = |newer: &Frozen| newer.memtable.get(&row.key, Version::MAX).is_some();
            if newest.is_some_and(|found| found.version == version) && !newer.iter().any(in_newer) {
                visit(place, row.len as u64);
            }
        });
    }
}

/// How the entries of a rewrite are stored.
pub(super) enum Storing<'a> {
    /// Of a flush: what stays in the log as references.
    Separated(&'a Separation),
    /// Of a compaction: as they are, but for what is in sparse segments.
    Gathered(&'a Values),
}

impl Storing<'_> {
    /// Adds the next entry to the outputs; `starts_key` as for [`Outputs::add`].
    pub(super) fn add(
        &self,
        entry: Entry<'_>,
        starts_key: bool,
        outputs: &mut Outputs<'_>,
    ) -> Result<()> {
        match self {
            Self::Separated(separation) if entry.kind == Kind::Put => {
                let Some(reference) = separation.reference(&entry) else {
                    return outputs.add(entry, starts_key);
                };
                let value = &*reference.encode();
                outputs.add(Entry { kind: Kind::Reference, value, ..entry }, starts_key)
            }
            Self::Gathered(values) if entry.kind == Kind::Reference => {
                let Some(value) = values.read_sparse(entry.value)? else {
                    return outputs.add(entry, starts_key);
                };
                outputs.add(Entry { kind: Kind::Put, value: &value, ..entry }, starts_key)
            }
            _ => outputs.add(entry, starts_key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::LargeRow;
    use crate::tombstone::RangeTombstone;

    #[test]
    fn range_tombstones_do_not_count_beside_large_values() {
        let memtable = Memtable::new();
        let value = vec![7; 100_000];
        memtable.insert(b"key", b"", Version::from_ticks(1), Kind::Put, &value);
        let (key, len) = (b"key"[..].into(), value.len());
        memtable.add_large(Version::from_ticks(1), LargeRow { key, offset: 0, len, crc: None });
        for version in 2..20 {
            let version = Version::from_ticks(version);
            let (start, end) = (b"a"[..].into(), b"b"[..].into());
            memtable.add_range_tombstones(&[RangeTombstone { start, end, version }]);
        }
        assert!(2 * memtable.large_bytes() < memtable.bytes() as u64);
        assert!(is_mostly_large(&memtable));
    }
}
