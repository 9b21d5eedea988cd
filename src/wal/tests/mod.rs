//! What the log promises, on the simulated machine: order, writing, replay; the rest is in files by topic.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

mod crashes;
mod damage;
mod failures;
mod reuse;
mod rotation;
mod salvage;
mod segments;
mod unreadable;
mod writeback;

use super::*;
use crate::env::{CrashStyle, Env, Fault, Operation, SimEnv};
use crate::error::{Corruption, Damage, Error, Result};
use crate::options::Recovery;
use crate::reference::LogPlace;
use crate::version::Version;

const DIR: &str = "/db";
const SEGMENT_BYTES: u64 = 4 << 10;

type Record = (u64, Vec<u8>);

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn segment(id: u64) -> PathBuf {
    SegmentId::new(id).path(dir())
}

fn machine(seed: u64) -> SimEnv {
    let env = SimEnv::new(seed);
    env.disk().create_dir_all(dir()).unwrap();
    env
}

fn create(env: &SimEnv) -> Writer {
    create_with(env, plan(SEGMENT_BYTES))
}

fn create_with(env: &SimEnv, plan: SegmentPlan) -> Writer {
    Writer::create(env.disk(), dir(), SegmentId::FIRST, Version::ZERO, plan, Vec::new()).unwrap()
}

fn go_on(env: &SimEnv, replayed: Replayed) -> Result<Writer> {
    go_on_with(env, replayed, plan(SEGMENT_BYTES))
}

fn go_on_with(env: &SimEnv, replayed: Replayed, plan: SegmentPlan) -> Result<Writer> {
    let (id, last) = (replayed.next_segment_id, replayed.last_version);
    Writer::create(env.disk(), dir(), id, last, plan, replayed.segments)
}

/// Records with versions from `first` on, and payloads of these lengths.
fn records(first: u64, lens: &[usize]) -> Vec<Record> {
    let record = |(version, len): (u64, &usize)| (version, vec![version as u8 | 1; *len]);
    (first..).zip(lens).map(record).collect()
}

fn append(writer: &mut Writer, records: &[Record]) -> Result<()> {
    writer.append(records.iter().map(|(version, payload)| RecordRef {
        version: Version::from_ticks(*version),
        payload,
        payload_crc: payload_crc(payload),
    }))
}

fn try_replay(env: &SimEnv, first: u64, mode: Recovery) -> Result<(Vec<Record>, Replayed)> {
    let mut found = Vec::new();
    let extent = Extent::since(SegmentId::new(first));
    let replayed = replay(&env.disk(), dir(), extent, mode, Purpose::Write, &mut |record| {
        found.push((record.version.ticks(), record.payload.to_vec()));
        Ok(())
    })?;
    Ok((found, replayed))
}

fn replay_all(env: &SimEnv) -> (Vec<Record>, Replayed) {
    try_replay(env, 1, Recovery::Strict).unwrap()
}

fn corruption(outcome: Result<(Vec<Record>, Replayed)>) -> Corruption {
    match outcome {
        Err(Error::Corruption(corruption)) => *corruption,
        other => panic!("expected a corruption, got {other:?}"),
    }
}

fn snapshot(env: &SimEnv) -> Vec<(String, Vec<u8>)> {
    let bytes = |name: String| (name.clone(), env.read_file(&dir().join(name)).unwrap());
    env.list(dir()).into_iter().map(bytes).collect()
}

#[test]
fn records_are_replayed_in_order_over_many_segments() {
    let env = machine(1);
    let mut writer = create(&env);
    let all = records(10, &[0, 1, 7, 8, 9, 1_000, 3_000, 4_000, 9_000, 5, 2_000, 2_000, 0]);
    append(&mut writer, &all[..3]).unwrap();
    append(&mut writer, &[]).unwrap();
    append(&mut writer, &all[3..]).unwrap();
    writer.close().unwrap();
    assert!(matches!(append(&mut writer, &records(99, &[1])), Err(Error::Poisoned(_))));
    env.crash(CrashStyle::LoseUnsynced);

    let before = snapshot(&env);
    let (found, replayed) = replay_all(&env);
    assert_eq!(found, all);
    assert_eq!(snapshot(&env), before, "a log that was closed is not written to");
    assert_eq!((replayed.records, replayed.last_version.ticks()), (13, 22));
    assert!(replayed.torn.is_none() && replayed.lost.is_empty());
    assert!(replayed.segments.len() > 3);
    assert_eq!(replayed.next_segment_id.get(), replayed.segments.len() as u64 + 1);
    let first = replayed.segments[0];
    let behind = all.iter().filter(|(version, _)| *version > first.last.ticks()).cloned();
    let (found, _) = try_replay(&env, 2, Recovery::Strict).unwrap();
    assert_eq!(found, behind.collect::<Vec<_>>(), "replay begins where it is told");
    assert_eq!(try_replay(&env, 0, Recovery::Strict).unwrap().0, all);
}

#[test]
fn a_log_goes_on_after_a_crash_and_another() {
    let env = machine(1);
    let mut all = Vec::new();
    let mut writer = create(&env);
    for round in 0..5 {
        let group = records(round * 10 + 1, &[100, 900, 50, 3_000]);
        append(&mut writer, &group).unwrap();
        writer.sync().unwrap();
        append(&mut writer, &records(round * 10 + 9, &[100])).unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        all.extend(group);
        let (found, replayed) = replay_all(&env);
        assert_eq!(found, all);
        writer = go_on(&env, replayed).unwrap();
    }
}

#[test]
fn opening_and_closing_a_log_does_not_make_it_grow() {
    let env = machine(1);
    let mut names = Vec::new();
    for round in 0..6 {
        let (_, replayed) = try_replay(&env, 0, Recovery::Strict).unwrap();
        let mut writer = go_on(&env, replayed).unwrap();
        writer.segments().prepare().unwrap();
        if round % 2 == 1 {
            writer.close().unwrap();
        } else {
            env.crash(CrashStyle::KeepAll);
        }
        names.push(env.list(dir()));
    }
    assert!(names.iter().all(|names| names.len() == 2), "{names:?}");
    for round in 0..6 {
        let (found, replayed) = try_replay(&env, 0, Recovery::Strict).unwrap();
        assert_eq!(found.len() as u64, round);
        let mut writer = go_on(&env, replayed).unwrap();
        append(&mut writer, &records(round + 1, &[100])).unwrap();
        writer.close().unwrap();
    }
    for round in 1..=6 {
        assert!(env.read_file(&segment(round)).unwrap().len() < 300, "no zeros are kept");
    }
}

#[test]
fn versions_out_of_order_are_refused_and_change_nothing() {
    let env = machine(1);
    let mut writer = create(&env);
    let all = records(5, &[3, 3]);
    append(&mut writer, &all).unwrap();
    let again = append(&mut writer, &records(6, &[3]));
    assert!(matches!(again, Err(Error::InvalidArgument(_))));
    writer.close().unwrap();
    assert_eq!(replay_all(&env).0, all);
}

fn plan(bytes: u64) -> SegmentPlan {
    SegmentPlan { bytes, ahead: Ahead::Zeros, left_to_system: false }
}

fn left_to_system(bytes: u64) -> SegmentPlan {
    SegmentPlan { bytes, ahead: Ahead::Room, left_to_system: true }
}

#[test]
fn obsolete_segments_are_recycled_and_their_older_records_are_stale() {
    for rounds in 30..40 {
        let env = machine(1);
        let mut writer = create(&env);
        let segments = writer.segments();
        let (mut first, mut flushed) = (SegmentId::FIRST, 0);
        for round in 0..rounds {
            append(&mut writer, &records(round * 3 + 1, &[700, 13, 1_300])).unwrap();
            writer.sync().unwrap();
            if writer.wants_next_segment() {
                segments.prepare().unwrap();
                assert!(!writer.wants_next_segment());
            }
            if round % 4 == 3 {
                flushed = round * 3 - 1;
                first = segments.first_needed(Version::from_ticks(flushed));
                segments.remove_before(first).unwrap();
                assert!(env.list(dir()).len() <= 13, "{:?}", env.list(dir()));
            }
        }
        env.crash(CrashStyle::LoseUnsynced);
        let (found, replayed) = try_replay(&env, first.get(), Recovery::Strict).unwrap();
        let last = rounds * 3;
        assert_eq!(found.last().unwrap().0, last);
        assert!(found.first().unwrap().0 <= flushed + 1);
        assert_eq!(found.len() as u64, last + 1 - found.first().unwrap().0);
        assert_eq!(replayed.torn, None, "an older life's records are no torn tail");
        let removed = Version::from_ticks(last);
        let mut writer = go_on(&env, replayed).unwrap();
        let segments = writer.segments();
        segments.remove_before(segments.first_needed(removed)).unwrap();
        append(&mut writer, &records(last + 1, &[5])).unwrap();
        assert!(env.list(dir()).len() <= 9, "the active one and eight spares");
    }
}

/// Synced records over three segments, of which each has one that proves the segments before.
fn three_segments(env: &SimEnv) -> Vec<Record> {
    let mut writer = create(env);
    let all = records(1, &[1_500; 6]);
    for record in &all {
        append(&mut writer, std::slice::from_ref(record)).unwrap();
        writer.sync().unwrap();
    }
    assert_eq!(env.list(dir()).len(), 3);
    all
}

#[test]
fn a_failed_write_or_sync_is_an_error_and_ends_the_writer() {
    for on in [Operation::Write, Operation::Sync] {
        let env = machine(1);
        let mut writer = create(&env);
        let all = records(1, &[10, 20]);
        append(&mut writer, &all[..1]).unwrap();
        writer.sync().unwrap();
        env.fail(Fault { times: 1, ..Fault::new(on, ".log", ErrorKind::Other) });
        let outcome = append(&mut writer, &all[1..]).and_then(|()| writer.sync());
        let Err(Error::Io(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!((&*error.path, error.source.kind()), (&*segment(1), ErrorKind::Other));
        assert!(matches!(writer.sync(), Err(Error::Poisoned(_))));
        assert!(matches!(append(&mut writer, &records(5, &[1])), Err(Error::Poisoned(_))));
        env.crash(CrashStyle::KeepAll);
        let (found, _) = replay_all(&env);
        assert!(found == all[..1] || found == all);
    }
}

/// R-E10: a record for which there was room is not refused for want of more.
#[test]
fn zeros_ahead_that_do_not_fit_fail_no_record() {
    let env = machine(1);
    let (id, last) = (SegmentId::FIRST, Version::ZERO);
    let mut writer =
        Writer::create(env.disk(), dir(), id, last, plan(8 << 20), Vec::new()).unwrap();
    let size = || env.read_file(&segment(1)).unwrap().len();
    let zeros = size();
    let all = records(1, &[1_000; 300]);
    // The record that goes beyond the zeros is the first write, the next zeros are the second.
    let within = all.iter().scan(0, |end, record| {
        *end += crate::wal::record::record_bytes(record.1.len());
        Some(*end)
    });
    let within = within.take_while(|end| segment::HEADER_BYTES + end < zeros).count();
    append(&mut writer, &all[..within]).unwrap();
    assert_eq!(size(), zeros);
    let no_room = Fault::new(Operation::Write, ".log", ErrorKind::StorageFull);
    env.fail(Fault { after: 1, times: 1, ..no_room });
    append(&mut writer, &all[within..=within]).unwrap();
    assert!(size() < zeros + 500_000, "{} bytes, and {zeros} before", size());
    append(&mut writer, &all[within + 1..]).unwrap();
    assert!(size() > zeros + 500_000, "{} bytes, and {zeros} before", size());
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(replay_all(&env).0, all);
}

/// A process that is killed leaves in the cache what a failed sync never brought to the disk.
#[test]
fn what_a_replay_returned_is_durable_even_after_a_failed_sync() {
    for seed in 0..20 {
        let env = machine(seed);
        let mut writer = create(&env);
        append(&mut writer, &records(1, &[10, 2_000])).unwrap();
        env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
        writer.sync().unwrap_err();
        let (found, _) = replay_all(&env);
        assert_eq!(found.len(), 2);
        env.crash(CrashStyle::LoseUnsynced);
        assert_eq!(replay_all(&env).0, found);
    }
}

/// The same when the machine crashes while the log is replayed after that: the seal must not be
/// on the disk before what it says is synced.
#[test]
fn a_replay_that_crashes_can_be_repeated() {
    for seed in 0..200 {
        let env = machine(seed);
        let mut writer = create(&env);
        let all = records(1, &[10, 2_000]);
        append(&mut writer, &all).unwrap();
        env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
        writer.sync().unwrap_err();
        env.crash_after(seed % 5);
        let _ = try_replay(&env, 1, Recovery::Strict);
        env.crash(CrashStyle::Torn);
        let (found, _) = replay_all(&env);
        assert_eq!(found, all[..found.len()]);
    }
}

#[test]
fn a_next_segment_that_cannot_be_made_does_not_fail_commits() {
    let env = machine(1);
    let mut writer = create(&env);
    env.fail(Fault::new(Operation::Create, ".log", ErrorKind::StorageFull));
    let all = records(1, &[3_000; 5]);
    append(&mut writer, &all[..3]).unwrap();
    env.clear_faults();
    append(&mut writer, &all[3..]).unwrap();
    writer.close().unwrap();
    assert_eq!(replay_all(&env).0, all);
}

/// Each try waits for the file system while all commits wait for the log.
#[test]
fn a_next_segment_that_cannot_be_made_is_not_tried_for_each_record() {
    let env = machine(1);
    let mut writer = create(&env);
    env.fail(Fault::new(Operation::Create, ".log", ErrorKind::StorageFull));
    let (mut before, mut wanted) = (0, 0);
    let all = records(1, &[100; 300]);
    for (n, record) in all.iter().enumerate() {
        append(&mut writer, std::slice::from_ref(record)).unwrap();
        wanted += usize::from(writer.wants_next_segment());
        if n == 100 {
            before = env.operations();
        }
    }
    let tries = env.operations() - before - 199;
    assert!((1..=20).contains(&tries), "{tries} operations beside those that write");
    assert!((1..=20).contains(&wanted), "wanted {wanted} times");
    env.clear_faults();
    writer.close().unwrap();
    assert_eq!(replay_all(&env).0, all);
}

#[test]
fn an_error_of_the_visitor_ends_the_replay() {
    let env = machine(1);
    three_segments(&env);
    let before = snapshot(&env);
    let (log, mode) = (Extent::since(SegmentId::FIRST), Recovery::Strict);
    let outcome =
        replay(&env.disk(), dir(), log, mode, Purpose::Write, &mut |_| Err(Error::Closed));
    assert!(matches!(outcome, Err(Error::Closed)));
    assert_eq!(snapshot(&env), before);
}

#[test]
fn the_payload_is_where_the_visitor_is_told() {
    let env = machine(1);
    three_segments(&env);
    let (log, mode) = (Extent::since(SegmentId::FIRST), Recovery::Strict);
    let visit = &mut |record: ReplayedRecord<'_>| {
        let bytes = env.read_file(record.file).unwrap();
        assert_eq!(&bytes[record.offset as usize..][..record.payload.len()], record.payload);
        Ok(())
    };
    replay(&env.disk(), dir(), log, mode, Purpose::Write, visit).unwrap();
}

#[test]
fn foreign_files_are_left_alone_and_leftovers_are_removed() {
    let env = machine(1);
    for name in ["notes.log", "+000000000000001.log", "000000000000000A.log", "x.sst"] {
        env.write_file(&dir().join(name), b"not ours");
    }
    for id in 1..=10 {
        env.write_file(&dir().join(format!("{id:016x}.log-spare")), b"old");
    }
    env.write_file(&dir().join("0000000000000001.log-new"), b"half");
    let mut writer = create(&env);
    append(&mut writer, &records(1, &[5])).unwrap();
    writer.close().unwrap();
    let names = env.list(dir());
    assert_eq!(names.iter().filter(|name| name.ends_with("spare")).count(), 8);
    assert!(!names.iter().any(|name| name.ends_with("new")));
    assert_eq!(names.len(), 13);
    assert_eq!(replay_all(&env).0.len(), 1);
    let _: Arc<Segments> = writer.segments();
}

/// One that an earlier life left, whose segments were longer, or that large commits made so.
#[test]
fn a_spare_that_is_too_long_is_removed_and_not_used() {
    let limit = 2 * plan(SEGMENT_BYTES).most_zeros() as usize;
    for (len, is_used) in [(limit, true), (limit + 1, false)] {
        let env = machine(1);
        env.write_file(&dir().join("0000000000000009.log-spare"), &vec![0; len]);
        let mut writer = create(&env);
        writer.segments().prepare().unwrap();
        let spares = env.list(dir()).into_iter().filter(|name| name.ends_with("spare"));
        assert_eq!(spares.count(), 0, "{len}");
        let prepared = env.read_file(&segment(2)).unwrap().len();
        assert_eq!(prepared == len, is_used, "{prepared} bytes");
        assert!(prepared <= limit);
        append(&mut writer, &records(1, &[5])).unwrap();
        writer.close().unwrap();
        assert_eq!(replay_all(&env).0.len(), 1);
    }
}
