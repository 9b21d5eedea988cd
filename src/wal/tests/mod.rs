//! What the log promises, on the simulated machine: order, rotation, crashes, damage, salvage.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

mod crashes;
mod failures;
mod reuse;
mod rotation;
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

/// A log of one segment: three synced groups, then one that is not, and where each begins.
fn four_groups(env: &SimEnv) -> (Vec<Record>, Vec<u64>) {
    let mut writer = create(env);
    let all = records(1, &[30, 17, 200, 64, 8, 90]);
    let mut starts = vec![64];
    for group in [&all[..2], &all[2..3], &all[3..4], &all[4..]] {
        append(&mut writer, group).unwrap();
        let bytes: usize = group.iter().map(|(_, p)| record::record_bytes(p.len())).sum();
        starts.push(starts.last().unwrap() + bytes as u64);
        if starts.len() < 5 {
            writer.sync().unwrap();
        }
    }
    (all, starts)
}

#[test]
fn a_torn_tail_is_trimmed_at_every_byte() {
    let env = machine(1);
    let (all, starts) = four_groups(&env);
    let whole = env.read_file(&segment(1)).unwrap();
    let [.., third_end, end] = starts[..] else { panic!() };
    let second_record = third_end + record::record_bytes(8) as u64;
    for cut in third_end..=end {
        for rest in [0, 0xA5] {
            let mut bytes = whole.clone();
            bytes[cut as usize..].fill(rest);
            env.write_file(&segment(1), &bytes);
            check_trimmed(&env, &all, cut, [third_end, second_record, end]);
        }
        env.write_file(&segment(1), &whole[..cut as usize]);
        check_trimmed(&env, &all, cut, [third_end, second_record, end]);
    }
}

fn check_trimmed(env: &SimEnv, all: &[Record], cut: u64, ends: [u64; 3]) {
    let (found, replayed) = replay_all(env);
    // The padding of the last record may be cut: then its bytes are what they were.
    let kept = ends.iter().filter(|end| **end <= cut).count() + 3;
    let more = found.len().saturating_sub(kept);
    assert!(found.len() >= kept && more <= 1 && found == all[..found.len()], "cut at {cut}");
    if let Some(torn) = replayed.torn {
        assert_eq!(torn.file, segment(1));
        assert_eq!(torn.offset, ends[found.len() - 4]);
    }
    let (again, replayed) = replay_all(env);
    assert_eq!((again, replayed.torn), (found, None), "the trimmed segment is sealed");
}

/// R-E22: what was synced is whole or an error, whichever bit flips.
#[test]
fn damage_of_what_was_synced_is_an_error_that_names_file_and_offset() {
    let env = machine(1);
    let (_, starts) = four_groups(&env);
    let third_end = starts[3];
    for at in 0..third_end {
        env.flip(&segment(1), at).unwrap();
        let before = snapshot(&env);
        let damage = corruption(try_replay(&env, 1, Recovery::Strict));
        assert_eq!(damage.file, segment(1));
        assert!(damage.offset <= at && at < damage.offset + 256, "{at}: {damage}");
        assert_eq!(snapshot(&env), before, "a failed replay leaves files as they are");
        env.flip(&segment(1), at).unwrap();
    }
    // Lost sectors are noticed as well as changed bits.
    let mut bytes = env.read_file(&segment(1)).unwrap();
    bytes[64..starts[1] as usize].fill(0);
    env.write_file(&segment(1), &bytes);
    assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).offset, 64);
}

#[test]
fn a_bit_that_flips_in_a_closed_log_is_noticed() {
    let env = machine(1);
    let mut writer = create(&env);
    append(&mut writer, &records(1, &[30, 17])).unwrap();
    writer.close().unwrap();
    let end = 64 + (record::record_bytes(30) + record::record_bytes(17)) as u64;
    for at in 0..end {
        env.flip(&segment(1), at).unwrap();
        assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).file, segment(1));
        env.flip(&segment(1), at).unwrap();
    }
    // The seal itself holds nothing: it is written again.
    for at in end..end + 40 {
        env.flip(&segment(1), at).unwrap();
        assert_eq!(replay_all(&env).0.len(), 2);
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
fn a_missing_segment_is_an_error() {
    for missing in [1, 2] {
        let env = machine(1);
        three_segments(&env);
        env.remove_file(&segment(missing));
        let damage = corruption(try_replay(&env, 1, Recovery::Strict));
        assert_eq!(damage.file, segment(missing));
    }
    let env = machine(1);
    assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).file, segment(1));
    assert!(try_replay(&env, 0, Recovery::Strict).unwrap().0.is_empty());
}

#[test]
fn an_older_segment_without_its_seal_is_an_error() {
    let env = machine(1);
    three_segments(&env);
    let mut bytes = env.read_file(&segment(1)).unwrap();
    let end = 64 + 2 * record::record_bytes(1_500);
    bytes[end..].fill(0);
    env.write_file(&segment(1), &bytes);
    let damage = corruption(try_replay(&env, 1, Recovery::Strict));
    assert_eq!((damage.file, damage.offset), (segment(1), end as u64));
}

#[test]
fn a_segment_under_another_name_and_a_later_format_are_refused() {
    let env = machine(1);
    three_segments(&env);
    let bytes = env.read_file(&segment(1)).unwrap();
    env.write_file(&segment(2), &bytes);
    assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).file, segment(2));

    let mut bytes = bytes;
    bytes[12] = 9;
    let crc = crc32fast::hash(&bytes[12..64]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    env.write_file(&segment(1), &bytes);
    let outcome = try_replay(&env, 1, Recovery::Strict);
    assert!(matches!(outcome, Err(Error::UnsupportedFormat { found: 9, supported: 1, .. })));
}

#[test]
fn salvage_keeps_what_is_whole_and_the_next_replay_is_strict() {
    let env = machine(1);
    let all = three_segments(&env);
    env.flip(&segment(1), 100).unwrap();
    env.flip(&segment(3), 5).unwrap();
    let damaged = env.read_file(&segment(1)).unwrap();
    assert!(try_replay(&env, 1, Recovery::Strict).is_err());
    let (found, replayed) = try_replay(&env, 1, Recovery::Salvage).unwrap();
    assert_eq!(found, all[1..4]);
    let lost: Vec<_> = replayed.lost.iter().map(|lost| (lost.file.clone(), lost.offset)).collect();
    assert_eq!(lost, [(segment(1), 64), (segment(3), 0)]);
    let set_aside = PathBuf::from(format!("{}.damaged", segment(1).display()));
    assert_eq!(env.read_file(&set_aside).unwrap(), damaged);

    env.crash(CrashStyle::LoseUnsynced);
    let (again, replayed) = replay_all(&env);
    assert_eq!(again, all[1..4]);
    let mut writer = go_on(&env, replayed).unwrap();
    append(&mut writer, &records(90, &[5])).unwrap();
    writer.close().unwrap();
    assert_eq!(replay_all(&env).0.len(), 4);
}

/// R-E22: the device may yet give what it failed to read of the first.
#[test]
fn each_salvage_sets_its_own_files_aside() {
    let env = machine(1);
    three_segments(&env);
    let aside = |number| PathBuf::from(format!("{}{number}.damaged", segment(1).display()));
    let far = SegmentId::new(5_000).path(dir());
    for number in ["", ".2", ".3"] {
        env.flip(&segment(1), 70).unwrap();
        env.write_file(&far, number.as_bytes());
        let damaged = env.read_file(&segment(1)).unwrap();
        try_replay(&env, 1, Recovery::Salvage).unwrap();
        assert_eq!(env.read_file(&aside(number)).unwrap(), damaged);
    }
    for number in ["", ".2", ".3"] {
        let far = PathBuf::from(format!("{}{number}.damaged", far.display()));
        assert_eq!(env.read_file(&far).unwrap(), number.as_bytes());
    }
}

/// R-E22: also where only a later segment says that the damaged one was synced.
#[test]
fn salvage_reads_on_behind_damage_that_a_later_segment_proves() {
    let env = machine(1);
    let mut writer = create(&env);
    let mut all = records(1, &[800; 6]);
    append(&mut writer, &all).unwrap();
    writer.sync().unwrap();
    append(&mut writer, &records(7, &[10])).unwrap();
    all.extend(records(7, &[10]));
    drop(writer);
    env.flip(&segment(1), 64 + record::record_bytes(800) as u64 + 50).unwrap();
    assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).file, segment(1));
    let (found, replayed) = try_replay(&env, 1, Recovery::Salvage).unwrap();
    all.remove(1);
    assert_eq!(found, all);
    assert_eq!(replayed.lost.len(), 1);
    assert_eq!(replay_all(&env).0, all);
}

/// R-E22: a record may be whole and yet make no sense.
#[test]
fn salvage_leaves_out_a_record_that_is_refused() {
    let env = machine(1);
    let all = three_segments(&env);
    let mut visit = |record: ReplayedRecord<'_>| {
        if record.version.ticks() != all[2].0 {
            return Ok(());
        }
        Err(Damage::new(record.offset, "operations", "noise").in_file(record.file, 0))
    };
    let replayed = replay(
        &env.disk(),
        dir(),
        Extent::since(SegmentId::new(1)),
        Recovery::Salvage,
        Purpose::Write,
        &mut visit,
    );
    assert_eq!(replayed.unwrap().lost.len(), 1);
    assert_eq!(replay_all(&env).0, [&all[..2], &all[3..]].concat());
}

#[test]
fn salvage_goes_on_behind_missing_segments() {
    let env = machine(1);
    let all = three_segments(&env);
    env.remove_file(&segment(2));
    let far = segment(crate::env::NO_FILE_NUMBER - 1);
    env.write_file(&far, b"no segment");
    let (found, replayed) = try_replay(&env, 1, Recovery::Salvage).unwrap();
    assert_eq!(found, [&all[..2], &all[4..]].concat());
    let lost: Vec<_> = replayed.lost.iter().map(|lost| lost.file.clone()).collect();
    assert_eq!(lost, [segment(2), far]);
    assert_eq!(replayed.next_segment_id.get(), 4);
    assert_eq!(replay_all(&env).0, found);
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
fn a_proof_is_found_where_two_windows_meet() {
    let env = machine(1);
    let (id, last) = (SegmentId::FIRST, Version::ZERO);
    let mut writer =
        Writer::create(env.disk(), dir(), id, last, plan(8 << 20), Vec::new()).unwrap();
    for (version, len) in [(1, scan::WINDOW_BYTES - 56), (3, 10)] {
        append(&mut writer, &records(version, &[len])).unwrap();
        writer.sync().unwrap();
    }
    env.flip(&segment(1), 5_000).unwrap();
    assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).offset, 64);
}

#[test]
fn a_whole_record_out_of_order_is_damage() {
    let env = machine(1);
    let header = segment::Header::new(SegmentId::FIRST, Version::from_ticks(5));
    let mut bytes = header.encode();
    for version in [6, 8, 8] {
        let offset = bytes.len() as u64;
        let place = record::Place { segment: header.id, salt: header.salt, offset };
        let version = Version::from_ticks(version);
        let header = record::Header {
            payload_len: 0,
            payload_crc: payload_crc(&[]),
            kind: record::Kind::Batch,
            version,
            durable_end: 64,
        };
        record::push_record(&mut bytes, header, place, &[]);
    }
    env.write_file(&segment(1), &bytes);
    let damage = corruption(try_replay(&env, 1, Recovery::Strict));
    assert_eq!((damage.offset, &*damage.found), (144, "a record out of order"));
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
fn a_copy_of_the_log_inside_a_value_is_no_record() {
    let env = machine(1);
    let mut writer = create(&env);
    append(&mut writer, &records(1, &[10, 100])).unwrap();
    writer.sync().unwrap();
    append(&mut writer, &records(3, &[10])).unwrap();
    let mut copy = env.read_file(&segment(1)).unwrap();
    copy.truncate(400);
    append(&mut writer, &[(4, copy)]).unwrap();
    // A tear before the copy must not be proven synced by the records in it.
    let third = 64 + (record::record_bytes(10) + record::record_bytes(100)) as u64;
    env.flip(&segment(1), third).unwrap();
    let (found, replayed) = replay_all(&env);
    assert_eq!((found.len(), replayed.torn.unwrap().offset), (2, third));
}

proptest! {
    /// Any damage anywhere: a strict replay returns a prefix of the records or an error, and
    /// salvage only records that were written.
    #[test]
    fn random_damage_never_invents_a_record(
        at in prop::collection::vec((1..=3u64, 0..4_096usize, 1..600usize, any::<u8>()), 1..4),
    ) {
        let env = machine(1);
        let all = three_segments(&env);
        for (id, start, len, fill) in at {
            let mut bytes = env.read_file(&segment(id)).unwrap();
            let end = bytes.len().min(start + len);
            bytes[start.min(end)..end].fill(fill);
            env.write_file(&segment(id), &bytes);
        }
        if let Ok((found, _)) = try_replay(&env, 1, Recovery::Strict) {
            prop_assert_eq!(&found[..], &all[..found.len()]);
        }
        let (found, _) = try_replay(&env, 1, Recovery::Salvage).unwrap();
        prop_assert!(found.iter().all(|record| all.contains(record)));
        prop_assert_eq!(replay_all(&env).0, found);
    }
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
