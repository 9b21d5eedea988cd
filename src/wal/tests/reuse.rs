//! Segments of a log that is left to the operating system, which are used again while they are in memory.

use super::*;

/// Each of these ends the segment before it.
const LEN: usize = 3_000;

fn log(env: &SimEnv) -> Writer {
    create_with(env, left_to_system(SEGMENT_BYTES))
}

/// Appends records of which each is in a segment of its own, prepared before.
fn fill(writer: &mut Writer, versions: std::ops::RangeInclusive<u64>) {
    for version in versions {
        writer.segments().prepare().unwrap();
        append(writer, &records(version, &[LEN])).unwrap();
    }
}

/// As a flush does: all up to this version is in table files, durably.
fn flushed(writer: &Writer, version: u64) -> SegmentId {
    let segments = writer.segments();
    let first = segments.first_needed(Version::from_ticks(version));
    segments.remove_before(first).unwrap();
    first
}

fn spares(env: &SimEnv) -> usize {
    env.list(dir()).iter().filter(|name| name.ends_with("spare")).count()
}

/// Its header alone is synced before its name is durable; older records are none, wherever power goes.
#[test]
fn a_segment_is_used_again_and_nothing_but_its_header_is_synced() {
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
        for seed in 0..20 {
            let env = machine(seed);
            let mut writer = log(&env);
            fill(&mut writer, 1..=5);
            assert_eq!(spares(&env), 0);
            flushed(&writer, 3);
            assert_eq!(spares(&env), 3);
            let len = env.read_file(&segment(4)).unwrap().len();
            fill(&mut writer, 6..=8);
            assert_eq!(spares(&env), 0);
            assert_eq!(env.read_file(&segment(8)).unwrap().len(), len, "it has its room already");
            let first = flushed(&writer, 6);
            env.crash(style);
            let (found, replayed) = try_replay(&env, first.get(), Recovery::Strict).unwrap();
            let all = records(7, &[LEN, LEN]);
            assert_eq!(found, all[..found.len()]);
            match style {
                CrashStyle::LoseUnsynced => assert!(found.is_empty()),
                CrashStyle::KeepAll => assert_eq!((found.len(), replayed.torn), (2, None)),
                CrashStyle::Torn => {}
            }
        }
    }
}

#[test]
fn what_is_synced_in_a_segment_that_is_used_again_is_durable() {
    let env = machine(1);
    let mut writer = log(&env);
    fill(&mut writer, 1..=5);
    flushed(&writer, 4);
    fill(&mut writer, 6..=8);
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    let (found, replayed) = try_replay(&env, 5, Recovery::Strict).unwrap();
    assert_eq!(found, records(5, &[LEN; 4]));
    assert_eq!(replayed.torn, None);
}

/// There are no more than a flush lets go of, and none of a segment that large commits made long.
#[test]
fn few_are_kept_and_none_that_is_long() {
    let env = machine(1);
    let mut writer = log(&env);
    fill(&mut writer, 1..=9);
    flushed(&writer, 8);
    assert_eq!(spares(&env), 4);

    let env = machine(1);
    let mut writer = log(&env);
    append(&mut writer, &records(1, &[3 * SEGMENT_BYTES as usize])).unwrap();
    fill(&mut writer, 2..=3);
    flushed(&writer, 2);
    assert_eq!(spares(&env), 1);
}

/// Who writes no more has no spares, and a short segment; who writes again has them again.
#[test]
fn space_is_given_back_and_kept_again_for_later_commits() {
    let env = machine(1);
    let mut writer = log(&env);
    fill(&mut writer, 1..=5);
    flushed(&writer, 3);
    let segments = writer.segments();
    segments.prepare().unwrap();
    let last = Version::from_ticks(5);
    assert!(!writer.is_idle_after(Version::from_ticks(4)) && writer.is_idle_after(last));
    segments.give_space_back(last).unwrap();
    assert_eq!(spares(&env), 0);
    writer.end_segment(last).unwrap();
    flushed(&writer, 5);
    assert_eq!(env.list(dir()), ["0000000000000006.log"], "none of what was written till then");
    assert_eq!(env.read_file(&segment(6)).unwrap().len(), 64 + 16, "though it was a spare");
    fill(&mut writer, 6..=9);
    let first = flushed(&writer, 8);
    assert_eq!(spares(&env), 3);
    env.crash(CrashStyle::KeepAll);
    assert_eq!(try_replay(&env, first.get(), Recovery::Strict).unwrap().0, records(9, &[LEN]));
}

/// What a crash leaves of them is not in memory.
#[test]
fn the_next_life_has_no_use_for_them() {
    let env = machine(1);
    let mut writer = log(&env);
    fill(&mut writer, 1..=5);
    let first = flushed(&writer, 4);
    env.crash(CrashStyle::KeepAll);
    assert_eq!(spares(&env), 4);
    let (found, replayed) = try_replay(&env, first.get(), Recovery::Strict).unwrap();
    assert_eq!(found, records(5, &[LEN]));
    let writer = go_on_with(&env, replayed, left_to_system(SEGMENT_BYTES)).unwrap();
    flushed(&writer, 5);
    assert_eq!(env.list(dir()).len(), 1);
}

/// Where a device can sync whole files only.
#[test]
fn a_new_file_is_made_where_a_header_cannot_be_synced_alone() {
    let env = machine(1);
    let mut writer = log(&env);
    fill(&mut writer, 1..=5);
    flushed(&writer, 3);
    env.fail(Fault { times: 1, ..Fault::new(Operation::Write, "log-new", ErrorKind::Unsupported) });
    fill(&mut writer, 6..=7);
    assert_eq!(spares(&env), 1, "one is gone, one is used");
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(try_replay(&env, 4, Recovery::Strict).unwrap().0, records(4, &[LEN; 4]));
}

/// A file is worth another one for what was written to it, or what it had when it was used again; the room
/// made ahead of a few bytes is not.
#[test]
fn a_segment_is_long_by_its_records_or_its_earlier_life() {
    let env = machine(1);
    let mut writer = create_with(&env, left_to_system(8 << 20));
    append(&mut writer, &records(1, &[100])).unwrap();
    assert!(!writer.is_long());
    append(&mut writer, &records(2, &[300 << 10])).unwrap();
    assert!(writer.is_long());
    for version in 3..=4 {
        writer.segments().prepare().unwrap();
        writer.end_segment(Version::from_ticks(version - 1)).unwrap();
        append(&mut writer, &records(version, &[100])).unwrap();
        flushed(&writer, version - 1);
        assert_eq!(writer.is_long(), version == 4);
    }
}
