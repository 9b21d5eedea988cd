//! Syncs in the background, beside a writer that goes on.

use super::*;

#[test]
fn what_is_appended_meanwhile_is_not_taken_for_durable() {
    let env = machine(1);
    let mut writer = create(&env);
    append(&mut writer, &records(1, &[10, 20])).unwrap();
    let begun = writer.begin_writeback().unwrap();
    append(&mut writer, &records(5, &[30])).unwrap();
    begun.settle().unwrap();
    let third = env.read_file(&segment(1)).unwrap().windows(8).position(|b| b == [5; 8]);
    append(&mut writer, &records(6, &[40])).unwrap();
    env.flip(&segment(1), third.unwrap() as u64).unwrap();
    assert_eq!(replay_all(&env).0, records(1, &[10, 20]), "a torn tail");
}

/// Records that follow say up to where the segment is durable, so damage there is told from a tear.
#[test]
fn damage_below_a_settled_writeback_is_proved() {
    let damaged = |settles: bool| {
        let env = machine(1);
        let mut writer = create(&env);
        append(&mut writer, &records(1, &[10])).unwrap();
        let begun = writer.begin_writeback().unwrap();
        if settles {
            begun.settle().unwrap();
        }
        append(&mut writer, &records(2, &[10])).unwrap();
        env.flip(&segment(1), 70).unwrap();
        try_replay(&env, 1, Recovery::Strict)
    };
    assert_eq!(corruption(damaged(true)).offset, 64);
    assert_eq!(damaged(false).unwrap().0, [], "a torn tail");
}

/// The device tells of it once; who syncs next must hear of it all the same.
#[test]
fn a_writeback_that_failed_fails_the_log() {
    for settles_first in [true, false] {
        let env = machine(1);
        let mut writer = create(&env);
        append(&mut writer, &records(1, &[10])).unwrap();
        let begun = writer.begin_writeback().unwrap();
        env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
        if settles_first {
            assert!(matches!(begun.settle(), Err(Error::Poisoned(_))));
        }
        assert!(matches!(writer.sync(), Err(Error::Poisoned(_))));
        assert!(matches!(begun.settle(), Err(Error::Poisoned(_))));
        assert!(matches!(append(&mut writer, &records(2, &[10])), Err(Error::Poisoned(_))));
        assert!(matches!(writer.begin_writeback(), Err(Error::Poisoned(_))));
    }
}

/// Also where the next does not wait for anything.
#[test]
fn a_writeback_that_failed_fails_the_next_that_begins() {
    type Begin = fn(&mut Writer) -> Result<()>;
    let asked: Begin = |writer| writer.begin_writeback().map(drop);
    let due: Begin = |writer| writer.next_writeback().map(drop);
    for begin in [asked, due] {
        let env = machine(1);
        let mut writer = create(&env);
        append(&mut writer, &records(1, &[10])).unwrap();
        let begun = writer.begin_writeback().unwrap();
        env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
        assert!(matches!(begun.settle(), Err(Error::Poisoned(_))));
        assert!(matches!(begin(&mut writer), Err(Error::Poisoned(_))));
        assert!(matches!(append(&mut writer, &records(2, &[10])), Err(Error::Poisoned(_))));
    }
}

/// Those of a device that is slower than they come would wait for each other.
#[test]
fn none_is_begun_beside_one_that_is_due() {
    let env = machine(1);
    let mut writer = create(&env);
    append(&mut writer, &records(1, &[10])).unwrap();
    let first = writer.next_writeback().unwrap().expect("nothing is under way");
    for version in 2..10 {
        append(&mut writer, &records(version, &[10])).unwrap();
        assert!(writer.next_writeback().unwrap().is_none());
    }
    first.settle().unwrap();
    assert!(writer.next_writeback().unwrap().is_some());
}

#[test]
fn one_that_includes_another_settles_it_first() {
    let env = machine(1);
    let mut writer = create(&env);
    append(&mut writer, &records(1, &[10])).unwrap();
    let first = writer.begin_writeback().unwrap();
    append(&mut writer, &records(2, &[10])).unwrap();
    let second = writer.begin_writeback().unwrap();
    env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, ".log", ErrorKind::Other) });
    assert!(matches!(second.settle(), Err(Error::Poisoned(_))));
    assert!(matches!(first.settle(), Err(Error::Poisoned(_))));
}
