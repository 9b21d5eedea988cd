//! A segment that ends is synced beside commits to the next: who waits for what, what a crash in
//! between may leave, and what proves that it was no crash.

use super::*;

/// Each of these ends the segment before it.
const LEN: usize = 3_000;

fn append_one(writer: &mut Writer, version: u64) {
    append(writer, &records(version, &[LEN])).unwrap();
}

/// One record in each of the segments 1 to `count`, none of them synced.
fn unsynced(env: &SimEnv, count: u64) -> Writer {
    let mut writer = create(env);
    (1..=count).for_each(|version| append_one(&mut writer, version));
    writer
}

/// A sync of this file fails once.
fn fail_sync(env: &SimEnv, path: &Path) {
    let path = path.to_str().unwrap();
    env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, path, ErrorKind::Other) });
}

fn fill(env: &SimEnv, id: u64, from: usize) {
    let mut bytes = env.read_file(&segment(id)).unwrap();
    bytes[from..].fill(0);
    env.write_file(&segment(id), &bytes);
}

fn versions(found: &[Record]) -> Vec<u64> {
    found.iter().map(|(version, _)| *version).collect()
}

#[test]
fn an_append_does_not_wait_for_the_sync_of_a_segment_that_ends() {
    let env = machine(1);
    let mut writer = unsynced(&env, 1);
    writer.segments().prepare().unwrap();
    env.fail(Fault::new(Operation::Sync, ".log", ErrorKind::Other));
    append_one(&mut writer, 2);
    let ended = writer.due_writeback().unwrap().expect("a background job is to sync it");
    assert!(writer.due_writeback().unwrap().is_none(), "once");
    env.clear_faults();
    ended.settle().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(versions(&replay_all(&env).0), [1]);
}

/// What is acknowledged in one segment is durable in all before.
#[test]
fn a_sync_waits_for_the_segments_before() {
    let env = machine(1);
    let mut writer = unsynced(&env, 3);
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(versions(&replay_all(&env).0), [1, 2, 3]);

    for failing in 1..=3 {
        let env = machine(1);
        let mut writer = unsynced(&env, 3);
        let begun = writer.begin_writeback().unwrap();
        fail_sync(&env, &segment(failing));
        assert!(writer.sync().is_err(), "segment {failing}");
        assert!(matches!(begun.settle(), Err(Error::Poisoned(_))));
        assert!(matches!(append(&mut writer, &records(9, &[1])), Err(Error::Poisoned(_))));
        assert!(writer.close().is_err());
    }
}

/// A job that syncs a segment makes those before durable first: what is left is a prefix.
#[test]
fn segments_become_durable_in_order() {
    let env = machine(1);
    let mut writer = unsynced(&env, 3);
    let second = writer.due_writeback().unwrap().unwrap();
    second.settle().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(versions(&replay_all(&env).0), [1, 2]);
}

#[test]
fn few_segments_are_unsynced_at_once() {
    let env = machine(1);
    drop(unsynced(&env, 9));
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(versions(&replay_all(&env).0), [1, 2, 3, 4, 5]);
}

/// Nobody asked to sync it, and no segment stays: the device sees nothing of it, whatever its length.
#[test]
fn what_is_left_to_the_system_is_not_synced() {
    let env = machine(1);
    let mut writer = create_with(&env, left_to_system(SEGMENT_BYTES));
    for version in 1..=9 {
        writer.segments().prepare().unwrap();
        env.fail(Fault::new(Operation::Sync, ".log", ErrorKind::Other));
        append_one(&mut writer, version);
        assert!(writer.due_writeback().unwrap().is_none());
        env.clear_faults();
    }
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(replay_all(&env).0.len(), 9);
}

/// Who asks for a sync is likely to ask again, and then waits for little.
#[test]
fn after_a_sync_that_was_asked_for_little_is_left_to_the_system() {
    let mut writer = create_with(&machine(1), left_to_system(20 << 20));
    let mut version = 0;
    let mut written_back = |writer: &mut Writer, mib: u64| {
        (0..mib)
            .filter(|_| {
                version += 1;
                append(writer, &records(version, &[1 << 20])).unwrap();
                let begun = writer.due_writeback().unwrap();
                begun.inspect(|begun| begun.settle().unwrap()).is_some()
            })
            .count()
    };
    assert_eq!(written_back(&mut writer, 15), 0);
    writer.begin_writeback().unwrap().settle().unwrap();
    // To the end of the third segment from this one on: each fourth, and each that ended.
    assert!((12..=15).contains(&written_back(&mut writer, 45)));
    assert!(written_back(&mut writer, 15) <= 1);
    writer.keep_segment();
    assert!(
        written_back(&mut writer, 20) >= 2,
        "large values are to be durable when they are flushed"
    );
}

/// R-E08: a segment that was not synced is torn, later ones are not: what is left is a prefix, the
/// rest is reported, and does not come back.
#[test]
fn what_follows_a_tear_goes_with_it() {
    for (lost, kept) in [(1, &[][..]), (2, &[1]), (3, &[1, 2])] {
        let env = machine(1);
        drop(unsynced(&env, 4));
        let from = 64 + if lost == 2 { 40 } else { 0 };
        fill(&env, lost, from);
        let (found, replayed) = replay_all(&env);
        assert_eq!(versions(&found), kept, "segment {lost} is torn");
        let torn = replayed.torn.as_ref().expect("it is reported");
        assert_eq!((&torn.file, torn.offset), (&segment(lost), 64));
        assert!(torn.bytes >= (4 - lost) * LEN as u64, "{torn:?}");
        assert!(replayed.lost.is_empty());
        assert!(!env.list(dir()).contains(&format!("{}.log", SegmentId::new(4))));

        let mut writer = go_on(&env, replayed).unwrap();
        append_one(&mut writer, 20);
        writer.sync().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        let (found, replayed) = replay_all(&env);
        assert_eq!(versions(&found), [kept, &[20]].concat());
        assert_eq!(replayed.torn, None);
    }
}

/// Wherever the power goes again while segments behind a tear are removed, also such as have no records.
#[test]
fn no_gap_is_left_where_later_segments_are_removed() {
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
        for cut in 0..10 {
            let env = machine(cut);
            drop(unsynced(&env, 4));
            // All of it reached the disk, but for what these are emptied of.
            (1..=4).for_each(|id| fill(&env, id, if id % 2 == 1 { 64 } else { LEN }));
            env.crash_after(cut);
            let _ = try_replay(&env, 1, Recovery::Strict);
            env.crash(style);
            assert_eq!(versions(&replay_all(&env).0), [0; 0], "{style:?} after {cut}");
            assert_eq!(versions(&replay_all(&env).0), [0; 0]);
        }
    }
}

/// R-E22: a record written once a segment was known to be synced proves it: then a tear is damage. So
/// is one in a log of builds that synced a segment before any record of the next.
#[test]
fn damage_of_a_segment_that_was_synced_is_no_tear() {
    for proof_in in [3, 4] {
        let env = machine(1);
        let mut writer = unsynced(&env, 3);
        if proof_in == 4 {
            append_one(&mut writer, 4);
        }
        writer.sync().unwrap();
        append(&mut writer, &records(5, &[10])).unwrap();
        for damaged in 1..proof_in {
            let whole = env.read_file(&segment(damaged)).unwrap();
            for from in [64, 104, 64 + record::record_bytes(LEN)] {
                fill(&env, damaged, from);
                let before = snapshot(&env);
                let damage = corruption(try_replay(&env, 1, Recovery::Strict));
                assert_eq!(damage.file, segment(damaged), "from {from}");
                assert_eq!(snapshot(&env), before, "a failed replay leaves files as they are");
            }
            env.write_file(&segment(damaged), &whole);
        }
    }
}

/// The proof counts wherever it is: behind a tear of its own segment too.
#[test]
fn a_proof_behind_a_tear_is_found() {
    let env = machine(1);
    let mut writer = unsynced(&env, 1);
    append(&mut writer, &records(2, &[LEN, 10])).unwrap();
    writer.segments().durable_through(Version::from_ticks(1)).unwrap();
    append(&mut writer, &records(8, &[10])).unwrap();
    let mut second = env.read_file(&segment(2)).unwrap();
    second[64..104].fill(0xA5);
    env.write_file(&segment(2), &second);
    fill(&env, 1, 104);
    assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).file, segment(1));
    let (found, replayed) = try_replay(&env, 1, Recovery::Salvage).unwrap();
    assert!(found.is_empty() && replayed.lost.len() == 1 && replayed.torn.is_some());
}

/// After a kill all is in the system's cache. What is replayed from there is durable before any record
/// that proves it is written.
#[test]
fn what_a_killed_process_left_is_durable_once_it_is_replayed() {
    for sync_fails in [false, true] {
        for seed in 0..20 {
            let env = machine(seed);
            let mut writer = unsynced(&env, 3);
            if sync_fails {
                fail_sync(&env, &segment(1 + seed % 3));
                writer.sync().unwrap_err();
            }
            let (found, replayed) = replay_all(&env);
            assert_eq!(versions(&found), [1, 2, 3]);
            let mut next = go_on(&env, replayed).unwrap();
            append(&mut next, &records(7, &[10])).unwrap();
            next.sync().unwrap();
            env.crash(CrashStyle::LoseUnsynced);
            assert_eq!(versions(&replay_all(&env).0), [1, 2, 3, 7]);
        }
    }
}

/// After a close every bad record is damage, though nothing follows the segment that ended.
#[test]
fn a_close_proves_the_segment_before_an_empty_one() {
    let env = machine(1);
    let mut writer = unsynced(&env, 1);
    writer.end_segment(Version::from_ticks(1)).unwrap();
    writer.close().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(versions(&replay_all(&env).0), [1]);
    fill(&env, 1, 64);
    assert_eq!(corruption(try_replay(&env, 1, Recovery::Strict)).file, segment(1));
}

/// A file is neither removed nor used again while its sync is under way, and not kept before it is over.
#[test]
fn a_segment_is_let_go_once_its_sync_is_over() {
    let last = Version::from_ticks(1);
    for asked in [false, true] {
        let env = machine(1);
        let mut writer = unsynced(&env, 2);
        let segments = writer.segments();
        fail_sync(&env, &segment(1));
        if asked {
            writer.due_writeback().unwrap().unwrap().settle().unwrap_err();
        }
        let first = segments.first_needed(last);
        assert_eq!(first.get(), 2);
        assert_eq!(segments.remove_before(first).is_err(), asked);
        assert_eq!(env.list(dir()).contains(&format!("{}.log", SegmentId::FIRST)), asked);
        // One that was begun is another's to fail.
        assert_eq!(append(&mut writer, &records(9, &[1])).is_err(), asked);
    }

    let env = machine(1);
    let writer = unsynced(&env, 2);
    fail_sync(&env, &segment(1));
    assert!(matches!(writer.segments().durable_through(last), Err(Error::Poisoned(_))));
}

/// What is flushed is in table files: who is to sync the log later has nothing to do with it.
#[test]
fn a_segment_that_was_let_go_is_not_synced() {
    let env = machine(1);
    let mut writer = create_with(&env, left_to_system(SEGMENT_BYTES));
    append_one(&mut writer, 1);
    let begun = writer.begin_writeback().unwrap();
    (2..=4).for_each(|version| append_one(&mut writer, version));
    env.fail(Fault::new(Operation::Sync, segment(1).to_str().unwrap(), ErrorKind::Other));
    env.fail(Fault::new(Operation::Sync, segment(2).to_str().unwrap(), ErrorKind::Other));
    let segments = writer.segments();
    segments.remove_before(segments.first_needed(Version::from_ticks(2))).unwrap();
    begun.settle().unwrap();
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    let (found, _) = try_replay(&env, 3, Recovery::Strict).unwrap();
    assert_eq!(versions(&found), [3, 4]);
}
