//! Entry point for fuzzing the log: arbitrary bytes as a segment, and a log as a writer leaves it,
//! whole and then damaged, of which is known what a replay gives.
//!
//! The input of the second is read from front to back: the shape of the log, the records of each
//! segment, and what happens to the files, until it ends. Numbers behind its end are 0.
#![cfg_attr(not(fuzzing), expect(unreachable_pub, reason = "reached from outside only by fuzzing"))]
#![expect(clippy::expect_used, clippy::panic, reason = "only tests and fuzzing run it")]

use std::path::Path;

use super::record::{
    HEADER_BYTES, Header, Kind, NOTHING_DURABLE, Place, TERMINATOR, payload_crc, push_record,
    record_bytes,
};
use super::replay::{Extent, Purpose, Replayed, replay};
use super::segment::{self, SegmentId};
use super::{Ahead, RecordRef, SegmentPlan, Writer};
use crate::env::{Env, SimEnv};
use crate::error::{Error, Result};
use crate::options::Recovery;
use crate::version::Version;

const DIR: &str = "/db";

/// Replays arbitrary bytes, and a log that is built and damaged as they say.
pub fn fuzz_replay(data: &[u8]) {
    replay_bytes(data);
    let mut input = Pieces(data);
    let log = Log::write(&mut input);
    let mut files: Vec<_> = log.files.iter().cloned().map(Some).collect();
    while !input.0.is_empty() {
        damage(&mut files, &mut input);
    }
    Damaged { log: &log, files: &files }.check();
}

/// Replays arbitrary bytes as a segment, and behind a whole header: an error at most.
fn replay_bytes(data: &[u8]) {
    let header = segment::Header { id: SegmentId::FIRST, after: Version::ZERO, salt: 0 };
    let behind_header = [header.encode().as_slice(), data].concat();
    for bytes in [data, &behind_header] {
        for mode in [Recovery::Strict, Recovery::Salvage] {
            let env = machine(&[Some(bytes.to_vec())]);
            if replay_all(&env, mode).is_ok() {
                let again = replay_all(&env, mode);
                assert!(
                    again.is_ok_and(|(_, again)| again.lost.is_empty() && again.torn.is_none())
                );
            }
        }
    }
}

/// What is left of the input.
struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    /// So many bytes, or those that are left.
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A record or a seal, and where it was written.
struct Item {
    file: usize,
    start: usize,
    header: Header,
    payload: Vec<u8>,
}

impl Item {
    fn end(&self) -> usize {
        self.start + record_bytes(self.payload.len())
    }

    /// Whether it says that all below that place of a segment was synced.
    fn proves(&self, file: usize, place: usize) -> bool {
        let durable_end = self.header.durable_end;
        match self.file.cmp(&file) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => durable_end > place as u64,
            std::cmp::Ordering::Greater => durable_end > NOTHING_DURABLE,
        }
    }
}

/// A log as it was written.
struct Log {
    files: Vec<Vec<u8>>,
    items: Vec<Item>,
    last: Version,
}

/// Most segments of a log, and most records in each.
const SEGMENTS: u8 = 3;
const RECORDS: u8 = 8;
/// Longest payload that is not a copy of the log.
const PAYLOAD_BYTES: u8 = 64;

/// Bits of the shape of a log, above the number of segments: what its last segment has, and what all
/// files have behind their end.
const SEALED: u8 = 1 << 4;
const RECYCLED: u8 = 1 << 5;

impl Log {
    fn write(input: &mut Pieces<'_>) -> Self {
        let shape = input.byte();
        let count = 1 + shape % SEALED % SEGMENTS;
        let mut log = Self { files: Vec::new(), items: Vec::new(), last: Version::ZERO };
        for number in 1..=count {
            let salt = u64::from(input.byte()) << 32;
            let id = SegmentId::new(number.into());
            let header = segment::Header { id, after: log.last, salt };
            log.files.push(header.encode());
            for _ in 0..input.byte() % RECORDS {
                log.append(header, Kind::Batch, input);
            }
            if number < count || shape & SEALED != 0 {
                log.append(header, Kind::Seal, input);
            }
            log.end_file(shape);
        }
        log
    }

    fn append(&mut self, segment: segment::Header, kind: Kind, input: &mut Pieces<'_>) {
        let durable = input.byte();
        let file = self.files.len() - 1;
        let Some(bytes) = self.files.last_mut() else { return };
        let payload = match kind {
            Kind::Seal => Vec::new(),
            Kind::Batch => match input.byte() {
                u8::MAX => bytes.clone(),
                len => input.take((len % PAYLOAD_BYTES).into()).to_vec(),
            },
        };
        if kind == Kind::Batch {
            self.last = Version::from_ticks(self.last.ticks() + 1);
        }
        let before = self.items.last().filter(|item| item.file == file);
        let start = bytes.len();
        let header = Header {
            payload_len: payload.len() as u32,
            payload_crc: payload_crc(&payload),
            kind,
            version: self.last,
            durable_end: match durable % 4 {
                0 => NOTHING_DURABLE,
                1 => segment::HEADER_BYTES as u64,
                2 => before.map_or(segment::HEADER_BYTES, |item| item.start) as u64,
                _ => start as u64,
            },
        };
        let place = Place { segment: segment.id, salt: segment.salt, offset: start as u64 };
        push_record(bytes, header, place, &payload);
        self.items.push(Item { file, start, header, payload });
    }

    /// Writes what stands behind the last record, and has the file be as long as it was before.
    fn end_file(&mut self, shape: u8) {
        let Some(bytes) = self.files.last_mut() else { return };
        bytes.extend(TERMINATOR);
        if shape & RECYCLED != 0 {
            let earlier = earlier_life();
            bytes.extend(earlier.get(bytes.len()..).unwrap_or_default());
        }
    }

    fn records(&self) -> Vec<Record> {
        self.items.iter().filter_map(record).collect()
    }
}

type Record = (Version, Vec<u8>);

fn record(item: &Item) -> Option<Record> {
    let is_batch = item.header.kind == Kind::Batch;
    is_batch.then(|| (item.header.version, item.payload.clone()))
}

/// What a file held before it became a segment of this log.
fn earlier_life() -> Vec<u8> {
    let header = segment::Header { id: SegmentId::new(99), after: Version::ZERO, salt: 77 };
    let mut bytes = header.encode();
    for version in 1..=12 {
        let payload = [version as u8; 16];
        let header = Header {
            payload_len: payload.len() as u32,
            payload_crc: payload_crc(&payload),
            kind: Kind::Batch,
            version: Version::from_ticks(version),
            durable_end: segment::HEADER_BYTES as u64,
        };
        let offset = bytes.len() as u64;
        let place = Place { segment: SegmentId::new(99), salt: 77, offset };
        push_record(&mut bytes, header, place, &payload);
    }
    bytes
}

/// Does one thing to one of the files.
fn damage(files: &mut [Option<Vec<u8>>], input: &mut Pieces<'_>) {
    let (what, which) = (input.byte(), usize::from(input.byte()));
    let source = files.get(usize::from(what >> 4) % files.len()).cloned().flatten();
    let which = which % files.len();
    let Some(slot) = files.get_mut(which) else { return };
    let Some(file) = slot else { return };
    let at = input.number() % (file.len() + 1);
    let (_, rest) = file.split_at_mut(at);
    match what % 5 {
        0 => file.truncate(at),
        // An error of so few bits in a row is always noticed by a checksum.
        1 => rest.iter_mut().zip(input.take(4)).for_each(|(byte, flip)| *byte ^= flip),
        2 => {
            let len = input.number() % (rest.len() + 1);
            rest.iter_mut().take(len).for_each(|byte| *byte = 0);
        }
        3 => {
            let source = source.unwrap_or_default();
            let from = input.number() % (source.len() + 1);
            let copied = source.iter().skip(from).take(input.byte().into());
            rest.iter_mut().zip(copied).for_each(|(byte, copied)| *byte = *copied);
        }
        _ => *slot = None,
    }
}

/// A log and what became of its files.
struct Damaged<'a> {
    log: &'a Log,
    files: &'a [Option<Vec<u8>>],
}

impl Damaged<'_> {
    fn check(&self) {
        let (written, expected) = (self.log.records(), self.strictly());
        let env = machine(self.files);
        match (replay_all(&env, Recovery::Strict), &expected) {
            (Ok((found, replayed)), Some(expected)) => {
                assert_eq!(found, *expected, "a strict replay");
                assert_eq!(replayed.last_version, check_report(&found, &replayed));
                check_again(&env, &found, &replayed);
            }
            (Err(Error::Corruption(_)), None) => {
                let left = self.files.iter().zip(1..).map(|(_, id)| read(&env, id));
                assert!(
                    left.eq(self.files.iter().cloned()),
                    "a replay that fails leaves the files"
                );
            }
            (outcome, expected) => panic!("strictly {outcome:?}, not {expected:?}"),
        }
        let env = machine(self.files);
        let (found, replayed) =
            replay_all(&env, Recovery::Salvage).expect("salvage refuses nothing");
        match expected {
            Some(expected) => assert_eq!(found, expected, "salvage of what is whole"),
            None => self.check_salvaged(&written, &found, &replayed),
        }
        check_report(&found, &replayed);
        // Where nothing is left, the writer begins the log anew.
        if self.files.iter().any(Option::is_some) {
            check_again(&env, &found, &replayed);
        }
    }

    /// What a strict replay gives; `None` if it must fail.
    fn strictly(&self) -> Option<Vec<Record>> {
        let count = self.files.iter().rposition(Option::is_some)? + 1;
        if !(0..count).all(|file| self.has_header(file)) {
            return None;
        }
        let items = || self.log.items.iter().filter(|item| item.file < count);
        let whole = items().take_while(|item| self.is_whole(item)).count();
        if let Some(bad) = items().nth(whole)
            && items().any(|item| self.is_left(item) && item.proves(bad.file, bad.start))
        {
            return None;
        }
        Some(items().take(whole).filter_map(record).collect())
    }

    /// What was written, in order and without what is damaged, but with all that is whole and was synced,
    /// as a record says that is left.
    fn check_salvaged(&self, written: &[Record], found: &[Record], replayed: &Replayed) {
        assert!(!replayed.lost.is_empty(), "nothing says why a strict replay fails");
        let mut rest = written.iter();
        assert!(found.iter().all(|record| rest.any(|other| other == record)), "{found:?}");
        for item in &self.log.items {
            let is_proved = self.log.items.iter().any(|other| {
                self.is_left(other)
                    && self.has_header(other.file)
                    && other.proves(item.file, item.start - 1)
            });
            if is_proved && self.has_header(item.file) && self.is_whole(item) {
                let is_found = record(item).is_none_or(|record| found.contains(&record));
                assert!(is_found, "{:?} is lost", item.header);
            }
        }
    }

    fn has_header(&self, file: usize) -> bool {
        self.is_as_written(file, 0, segment::HEADER_BYTES)
    }

    fn is_whole(&self, item: &Item) -> bool {
        self.is_as_written(item.file, item.start, item.end())
    }

    /// Whether the header of a record is left, with what it says.
    fn is_left(&self, item: &Item) -> bool {
        self.is_as_written(item.file, item.start, item.start + HEADER_BYTES)
    }

    fn is_as_written(&self, file: usize, start: usize, end: usize) -> bool {
        let written = self.log.files.get(file).and_then(|bytes| bytes.get(start..end));
        let found = self.files.get(file).and_then(Option::as_ref);
        written.is_some() && found.and_then(|bytes| bytes.get(start..end)) == written
    }
}

/// Gives the last version that was found.
fn check_report(found: &[Record], replayed: &Replayed) -> Version {
    assert_eq!(replayed.records, found.len() as u64);
    let last = found.last().map_or(Version::ZERO, |(version, _)| *version);
    assert!(replayed.last_version >= last);
    last
}

/// A replay leaves a log that is whole and holds the same, and a writer goes on with it.
fn check_again(env: &SimEnv, found: &[Record], before: &Replayed) {
    let (mut again, replayed) = replay_all(env, Recovery::Strict).expect("a log that was replayed");
    assert_eq!(again, found, "replayed a second time");
    assert!(replayed.lost.is_empty(), "{:?}", replayed.lost);
    // Bytes of a later segment, which the writer would have made anew.
    let next = before.next_segment_id.path(Path::new(DIR));
    assert!(replayed.torn.as_ref().is_none_or(|torn| torn.file == next), "{replayed:?}");
    again.push((replayed.last_version.next(), b"the next record".to_vec()));
    go_on(env, replayed, again.last().expect("it was pushed")).expect("a sound machine");
    let (found, _) = replay_all(env, Recovery::Strict).expect("a log that was closed");
    assert_eq!(found, again, "replayed after the next record");
}

fn go_on(env: &SimEnv, replayed: Replayed, (version, payload): &Record) -> Result<()> {
    let (id, last, older) = (replayed.next_segment_id, replayed.last_version, replayed.segments);
    let plan = SegmentPlan { bytes: 4 << 10, ahead: Ahead::Zeros, left_to_system: false };
    let mut writer = Writer::create(env.disk(), Path::new(DIR), id, last, plan, older)?;
    let payload_crc = payload_crc(payload);
    writer.append([RecordRef { version: *version, payload, payload_crc }].into_iter())?;
    writer.close().map(drop)
}

/// A machine with these files as the first segments.
fn machine(files: &[Option<Vec<u8>>]) -> SimEnv {
    let env = SimEnv::new(0);
    env.disk().create_dir_all(Path::new(DIR)).expect("a sound machine");
    for (file, id) in files.iter().zip(1..) {
        if let Some(bytes) = file {
            env.write_file(&SegmentId::new(id).path(Path::new(DIR)), bytes);
        }
    }
    env
}

fn read(env: &SimEnv, id: u64) -> Option<Vec<u8>> {
    env.read_file(&SegmentId::new(id).path(Path::new(DIR))).ok()
}

fn replay_all(env: &SimEnv, mode: Recovery) -> Result<(Vec<Record>, Replayed)> {
    let mut found = Vec::new();
    let visit = &mut |record: super::ReplayedRecord<'_>| {
        found.push((record.version, record.payload.to_vec()));
        Ok(())
    };
    let extent = Extent::since(SegmentId::FIRST);
    let replayed = replay(&env.disk(), Path::new(DIR), extent, mode, Purpose::Write, visit)?;
    Ok((found, replayed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_damaged_log_gives_what_is_whole_or_an_error(
            data in proptest::collection::vec(
                prop_oneof![Just(0u8), Just(1u8), any::<u8>()],
                0..300,
            ),
        ) {
            fuzz_replay(&data);
        }
    }
}
