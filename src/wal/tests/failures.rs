//! Errors of the device, at each of its operations: none is taken for a success (R-E10).

use super::*;

/// What a log does to its files.
const OPERATIONS: [Operation; 5] =
    [Operation::Write, Operation::Sync, Operation::SetLen, Operation::Rename, Operation::SyncDir];

/// The one after `after` others fails.
fn fail_once(env: &SimEnv, on: Operation, after: u64) {
    env.fail(Fault { after, times: 1, ..Fault::new(on, DIR, ErrorKind::Other) });
}

/// Groups that are gathered, one that is larger than what zeros are written ahead for, and records that are written
/// from where they are; each is synced.
fn append_all(writer: &mut Writer, all: &[Record]) -> (usize, Result<()>) {
    let mut synced = 0;
    for group in all.chunks(2) {
        let outcome = append(writer, group).and_then(|()| writer.sync());
        if outcome.is_err() {
            return (synced, outcome.map(drop));
        }
        synced += group.len();
    }
    (synced, writer.close().map(drop))
}

/// What was said to be synced is there, whatever failed before or after it.
#[test]
fn r_e10_whichever_operation_of_a_writer_fails_nothing_is_lost_that_was_acknowledged() {
    let all = records(1, &[10, 20, 3_000, 300_000, 5, 70_000, 1_000, 1_000, 9, 80_000]);
    for ahead in [Ahead::Zeros, Ahead::Room, Ahead::Nothing] {
        let plan = SegmentPlan { bytes: 100 << 10, ahead, left_to_system: false };
        for on in OPERATIONS {
            let (mut failures, mut after, mut successes) = (0, 0, 0);
            // What is made ahead may fail; and behind the last operation of its kind nothing does.
            while successes < 12 {
                let env = machine(1);
                let mut writer = create_with(&env, plan);
                fail_once(&env, on, after);
                let (synced, outcome) = append_all(&mut writer, &all);
                env.crash(CrashStyle::LoseUnsynced);
                env.clear_faults();
                let (found, _) = replay_all(&env);
                let at = format!("{ahead:?}, {on:?} {after}");
                assert!(found.len() >= synced, "{at}: {} of {synced}", found.len());
                assert_eq!(found, all[..found.len()], "{at}");
                failures += usize::from(outcome.is_err());
                successes = if outcome.is_ok() { successes + 1 } else { 0 };
                after += 1;
            }
            let matters = matches!(on, Operation::Write | Operation::Sync);
            assert!(failures > 3 || !matters, "{ahead:?}, {on:?}: {failures}");
        }
    }
}

/// What a replay returned is durable, and what follows it is found: or the replay fails, and another does it.
#[test]
fn r_e10_whichever_operation_of_a_replay_fails_what_it_returned_stays() {
    for on in OPERATIONS {
        let mut failures = 0;
        for after in 0..12 {
            let env = machine(1);
            let mut writer = create(&env);
            let all = records(1, &[10, 2_000, 1_000, 10]);
            append(&mut writer, &all[..3]).unwrap();
            // It left the bytes in the cache, as clean as if they were on the disk.
            env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
            writer.sync().unwrap_err();
            drop(writer);
            env.clear_faults();
            fail_once(&env, on, after);
            let replayed = try_replay(&env, 1, Recovery::Strict);
            env.clear_faults();
            failures += usize::from(replayed.is_err());
            let Ok((found, replayed)) = replayed else { continue };
            assert_eq!(found, all[..3], "{on:?} {after}");
            let mut writer = go_on(&env, replayed).unwrap();
            append(&mut writer, &all[3..]).unwrap();
            writer.sync().unwrap();
            env.crash(CrashStyle::LoseUnsynced);
            assert_eq!(replay_all(&env).0, all, "{on:?} {after}");
        }
        let matters = matches!(on, Operation::Write | Operation::Sync);
        assert!(failures > 1 || !matters, "{on:?}: {failures}");
    }
}
