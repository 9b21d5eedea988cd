//! [`replaying`]: puts what is replayed into a memtable, by two threads.
//!
//! Invariant: all rows of a partition are inserted by one thread, in the order of the log; the start of
//! a range deletion counts as one. A record is checked by the thread that reads it before either
//! applies it, so a log is refused at its first bad record. A log shorter than a batch is replayed by one.
//!
//! A killed process's log of 200,000 entities is opened in 0.80 of the time (`peers --work open-killed
//! --entities 1000000`, 55 ms beside 68, medians of nine rounds in turn). To let the other thread apply
//! all, while this one only reads, was no faster: reading is a fifth of the work.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, scope};

use super::apply;
use crate::error::Result;
use crate::key;
use crate::memtable::Memtable;
use crate::reference::LogPlace;
use crate::version::Version;
use crate::wal::{ReplayedRecord, Visit};

/// Payloads that are applied together: that takes much longer than to wake a thread.
const BATCH_BYTES: usize = 256 << 10;
/// Batches that wait for the helper.
const WAITING: usize = 2;
/// Of 16 partitions, so many are the helper's: the other thread reads and checks as well.
const HELPED: u64 = 9;

/// Where replayed records go.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) memtable: &'a Memtable,
    /// Table files have what is not later, though its segment is still there for later commits.
    pub(super) flushed: Version,
    pub(super) large_value_bytes: usize,
}

/// Calls `replay` with what takes the records that it shows; all are applied when this returns.
pub(super) fn replaying<R>(
    target: Target<'_>,
    replay: impl FnOnce(&mut Visit<'_>) -> Result<R>,
) -> Result<R> {
    scope(|scope| {
        let mut reading = Reading { scope, target, batch: Batch::default(), helper: None };
        let replayed = replay(&mut |record| reading.take(record))?;
        reading.hand_over();
        Ok(replayed)
    })
}

/// Whose partitions.
#[derive(Clone, Copy)]
enum Share {
    All,
    Reader,
    Helper,
}

impl Share {
    fn has(self, prefix: &[u8]) -> bool {
        let helped = || key::hash(prefix) >> 60 < HELPED;
        match self {
            Self::All => true,
            Self::Reader => !helped(),
            Self::Helper => helped(),
        }
    }
}

/// Records with copies of their payloads.
#[derive(Default)]
struct Batch {
    payloads: Vec<u8>,
    /// Each with the end of its payload.
    records: Vec<(Version, LogPlace, usize)>,
}

impl Batch {
    fn push(&mut self, record: &ReplayedRecord<'_>) {
        let place = LogPlace { segment: record.segment, offset: record.offset };
        self.payloads.extend_from_slice(record.payload);
        self.records.push((record.version, place, self.payloads.len()));
    }

    fn apply(&self, target: Target<'_>, share: Share) {
        let Target { memtable, large_value_bytes: large, .. } = target;
        let mut inserts = memtable.inserts();
        let mut start = 0;
        for &(version, place, end) in &self.records {
            let payload = self.payloads.get(start..end).unwrap_or_default();
            let wanted = |prefix: &[u8]| share.has(prefix);
            let applied = apply::apply_again(payload, version, &mut inserts, large, wanted);
            debug_assert!(applied.is_ok(), "a payload that was checked decodes");
            // The helper comes last: by now the memtable knows of all its large rows.
            memtable.place_large(version, place);
            start = end;
        }
        inserts.finish();
    }

    fn clear(&mut self) {
        self.payloads.clear();
        self.records.clear();
    }
}

/// What the thread has that reads.
struct Reading<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    target: Target<'scope>,
    batch: Batch,
    helper: Option<Helper>,
}

/// The way to the other thread, which ends when this is dropped.
struct Helper {
    batches: SyncSender<Batch>,
    /// Batches to be used again.
    done: Receiver<Batch>,
}

impl Helper {
    fn start<'s>(scope: &'s Scope<'s, '_>, target: Target<'s>) -> std::io::Result<Self> {
        let (batches, waiting) = sync_channel(WAITING);
        let (back, done) = channel();
        let thread = Builder::new().name("tablestone-replay".into());
        thread.spawn_scoped(scope, move || help(target, &waiting, &back))?;
        Ok(Self { batches, done })
    }
}

fn help(target: Target<'_>, waiting: &Receiver<Batch>, back: &Sender<Batch>) {
    for mut batch in waiting {
        batch.apply(target, Share::Helper);
        batch.clear();
        // Of the last ones nobody has use.
        let _ = back.send(batch);
    }
}

impl Reading<'_, '_> {
    fn take(&mut self, record: ReplayedRecord<'_>) -> Result<()> {
        if record.version <= self.target.flushed {
            return Ok(());
        }
        apply::check(record.payload)
            .map_err(|damage| damage.in_file(record.file, record.offset))?;
        self.batch.push(&record);
        if self.batch.payloads.len() >= BATCH_BYTES {
            if self.helper.is_none() {
                // Without one, this thread does all.
                self.helper = Helper::start(self.scope, self.target).ok();
            }
            self.hand_over();
        }
        Ok(())
    }

    /// Applies its share of the batch, and leaves the rest to the helper, if there is one.
    fn hand_over(&mut self) {
        let Some(Helper { batches, done }) = &self.helper else {
            self.batch.apply(self.target, Share::All);
            self.batch.clear();
            return;
        };
        self.batch.apply(self.target, Share::Reader);
        let empty = done.try_recv().unwrap_or_default();
        // It fails if the helper panicked, which the scope says when it ends.
        let _ = batches.send(std::mem::replace(&mut self.batch, empty));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::path::Path;

    use super::super::payload::Payload;
    use super::*;
    use crate::entry::{Cursor, Kind};
    use crate::error::Error;
    use crate::reference::SegmentId;

    const FILE: &str = "/db/log";
    const LARGE: usize = 600;

    /// A commit to two partitions, now and then with a deletion, a range deletion, or a large value.
    fn payload(number: u64) -> Vec<u8> {
        let mut payload = Payload::default();
        for (section, partition) in [(1, number % 23), (2, 23 + number % 31)] {
            let prefix = [partition as u8 + 1, 0];
            let row = [(number / 40 % 5) as u8 + 1, 0];
            let len = if number % 20 == section { LARGE } else { LARGE / 2 };
            payload.rows(&prefix, 2);
            match number % 7 {
                0 => payload.delete_encoded(&row),
                _ => payload.put_encoded(&row, &number.to_le_bytes().repeat(len / 8)),
            }
            payload.put_encoded(b"row\0", &number.to_le_bytes());
        }
        if number.is_multiple_of(50) {
            payload.delete_range(&[(number % 60) as u8], &[(number % 60) as u8 + 2]);
        }
        payload.buffer().to_vec()
    }

    fn offset(number: u64) -> u64 {
        number * 10_000
    }

    /// Replays records 1 to `count`, which have these bytes.
    fn replay(
        memtable: &Memtable,
        flushed: u64,
        count: u64,
        bytes: impl Fn(u64) -> Vec<u8>,
    ) -> Result<()> {
        let flushed = Version::from_ticks(flushed);
        replaying(Target { memtable, flushed, large_value_bytes: LARGE }, |visit| {
            (1..=count).try_for_each(|number| {
                visit(ReplayedRecord {
                    version: Version::from_ticks(number),
                    segment: SegmentId::FIRST,
                    payload: &bytes(number),
                    file: Path::new(FILE),
                    offset: offset(number),
                })
            })
        })
    }

    type Row = (Vec<u8>, Version, Kind, Vec<u8>);

    /// What a memtable has.
    #[derive(Debug, PartialEq)]
    struct Content {
        rows: Vec<Row>,
        tombstones: String,
        /// Keys of large values, and where these are.
        large: Vec<(Vec<u8>, u64)>,
    }

    fn content(memtable: &Memtable) -> Content {
        let (mut rows, mut large) = (Vec::new(), Vec::new());
        let mut cursor = memtable.cursor();
        cursor.seek_to_first().unwrap();
        while let Some(entry) = cursor.entry() {
            rows.push((entry.key.to_vec(), entry.version, entry.kind, entry.value.to_vec()));
            cursor.next().unwrap();
        }
        memtable.each_placed(|row, _, place| large.push((row.key.to_vec(), place.offset)));
        large.sort();
        Content { rows, tombstones: format!("{:?}", memtable.range_tombstones()), large }
    }

    /// As one thread would, record after record: of logs of many batches, of one, and of nothing.
    #[test]
    fn all_that_is_replayed_is_applied_in_order() {
        for (flushed, count) in [(0, 0), (0, 1), (0, 300), (0, 3_000), (1_700, 3_000)] {
            let expected = Memtable::new();
            for number in flushed + 1..=count {
                let version = Version::from_ticks(number);
                let place = LogPlace { segment: SegmentId::FIRST, offset: offset(number) };
                let (payload, mut inserts) = (payload(number), expected.inserts());
                apply::apply_again(&payload, version, &mut inserts, LARGE, |_| true).unwrap();
                inserts.finish();
                expected.place_large(version, place);
            }
            let memtable = Memtable::new();
            replay(&memtable, flushed, count, payload).unwrap();
            assert_eq!(content(&memtable), content(&expected), "{count} records");
        }
    }

    /// R-E22: the first bad record is named, wherever it is, and nothing of what follows is applied.
    #[test]
    fn a_record_that_is_no_payload_is_damage_and_ends_the_replay() {
        for (bad, count) in [(1, 1), (5, 9), (1, 3_000), (2_999, 3_000), (3_000, 3_000)] {
            let memtable = Memtable::new();
            let bytes = |number| if number >= bad { vec![9] } else { payload(number) };
            match replay(&memtable, 0, count, bytes) {
                Err(Error::Corruption(damage)) => {
                    assert_eq!((damage.file, damage.offset), (FILE.into(), offset(bad) + 1));
                }
                other => panic!("{other:?}"),
            }
            let newest = content(&memtable).rows.into_iter().map(|(_, version, ..)| version).max();
            assert!(newest.is_none_or(|newest| newest.ticks() < bad));
        }
    }
}
