//! How much a key range holds, and where a table can be cut (R-E23).
//!
//! Invariant: of a file, an estimate reads the data blocks that the ends of the range are in, and nothing where it is
//! all in the range; so do split points, and hold as many keys as there are parts and files, times a constant,
//! however large the table (R-E03). Everything else is in the index. A memtable is walked, as its size is bounded by
//! the memory budget.

use super::sources::within;
use crate::entry::Cursor;
use crate::error::Result;
use crate::key::{self, TableId};
use crate::levels::{TableFile, View};
use crate::memtable::Memtable;

/// About how much a key range holds (R-E23).
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let table = database.create_table("readings").wait()?;
/// table.import((0..1_000).map(|n| (format!("sensor-{}", n % 10), format!("{n:04}"), "21.5")))?;
/// let one = table.estimate_partitions("sensor-3".."sensor-4")?;
/// println!("about {} entities in {} bytes", one.entries, one.bytes);
/// assert!(one.entries < table.estimate()?.entries);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// Stored bytes: in files after compression, in memory keys and values.
    pub bytes: u64,
    /// Entries: deleted entities and older versions count until they are compacted away.
    pub entries: u64,
}

/// Entries of a memtable that stand for one fence key of a file.
const ENTRIES_PER_FENCE: u64 = 64;

/// Keys at which a part of what is in files might be cut: parts differ by a few sixteenths at most.
const FENCES_PER_PART: u64 = 16;

/// Keys at which a file might be cut, however small it is: files of level 0 each have rows of all the table.
const FENCES_PER_FILE: u64 = 8;

/// About how much there is with `start <= key < end`: stored bytes and entries, of every version
/// and deletions included.
pub(crate) fn estimate(view: &View, start: &[u8], end: &[u8]) -> Result<Estimate> {
    let mut total = Estimate::default();
    if start >= end {
        return Ok(total);
    }
    for file in files(view, start, end) {
        let part = file.reader.estimate(start, end)?;
        total.bytes += file.meta.with_values(part.bytes);
        total.entries += part.entries;
    }
    for memtable in view.memtables() {
        walk(memtable, start, end, |_, bytes| {
            total.bytes += bytes;
            total.entries += 1;
        })?;
    }
    Ok(total)
}

/// Up to `parts - 1` PartitionKeys, ascending, that cut a table into parts of about equal size;
/// each begins a part.
pub(crate) fn split_points(view: &View, table: TableId, parts: usize) -> Result<Vec<Vec<u8>>> {
    let (start, end) = key::table_range(table);
    let mut fences = fences(view, &start, &end, parts)?;
    fences.sort_unstable();
    let total: u64 = fences.iter().map(|(_, bytes)| bytes).sum();
    // Nothing, or next to nothing, lies before the first fence's partition.
    let first = fences.first().map(|(fence, _)| key::decode(fence).0);
    let mut points: Vec<Vec<u8>> = Vec::new();
    let mut before = 0;
    for (fence, bytes) in fences {
        before += bytes;
        let wanted = points.len() as u64 + 1;
        // In 128 bits: a table may have more bytes than the square root of what 64 bits hold.
        let share = u128::from(total) * u128::from(wanted);
        if wanted >= parts as u64 || u128::from(before) * (parts as u128) < share {
            continue;
        }
        let (partition_key, _) = key::decode(&fence);
        if points.last().or(first.as_ref()).is_some_and(|last| *last < partition_key) {
            points.push(partition_key);
        }
    }
    Ok(points)
}

/// Keys with the bytes that lie between each and the one before it, in no order.
pub(super) fn fences(
    view: &View,
    start: &[u8],
    end: &[u8],
    parts: usize,
) -> Result<Vec<(Vec<u8>, u64)>> {
    let mut stored = 0;
    for file in files(view, start, end) {
        stored += file.reader.estimate(start, end)?.bytes;
    }
    let part_grain = stored / FENCES_PER_PART.saturating_mul(parts as u64).max(1);
    let mut fences = Vec::new();
    for file in files(view, start, end) {
        let grain = part_grain.min(file.meta.bytes / FENCES_PER_FILE);
        file.reader.split_keys(start, end, grain, &mut |fence, bytes| {
            fences.push((fence.to_vec(), file.meta.with_values(bytes)));
        })?;
    }
    for memtable in view.memtables() {
        let (mut entries, mut bytes) = (0, 0);
        walk(memtable, start, end, |key, entry_bytes| {
            entries += 1;
            bytes += entry_bytes;
            if entries % ENTRIES_PER_FENCE == 0 {
                fences.push((key.to_vec(), std::mem::take(&mut bytes)));
            }
        })?;
    }
    Ok(fences)
}

fn files<'a>(view: &'a View, start: &[u8], end: &[u8]) -> impl Iterator<Item = &'a TableFile> {
    let mut levels = view.levels.levels();
    let level_0 = levels.next().unwrap_or_default().iter();
    let overlapping = level_0.filter(|f| *f.meta.smallest < *end && *start <= *f.meta.largest);
    overlapping.chain(levels.flat_map(|files| within(files, start, end))).map(|file| &**file)
}

/// Shows key and size of every entry with `start <= key < end`.
fn walk(
    memtable: &Memtable,
    start: &[u8],
    end: &[u8],
    mut visit: impl FnMut(&[u8], u64),
) -> Result<()> {
    let mut cursor = memtable.cursor();
    cursor.seek(start)?;
    while cursor.valid() && cursor.key() < end {
        visit(cursor.key(), (cursor.key().len() + cursor.value().len()) as u64);
        cursor.next()?;
    }
    Ok(())
}
