//! Segments that are prepared: how long they are, and when the writer goes on with them.

use super::*;

/// A writer of segments that are too long for all their zeros to be written at once.
fn create_long(env: &SimEnv) -> Writer {
    let (id, last) = (SegmentId::FIRST, Version::ZERO);
    Writer::create(env.disk(), dir(), id, last, plan(10 << 20), Vec::new()).unwrap()
}

fn segment_len(env: &SimEnv, id: u64) -> u64 {
    env.read_file(&segment(id)).unwrap().len() as u64
}

#[test]
fn a_segment_that_has_to_grow_gives_way_to_a_longer_one() {
    let env = machine(1);
    let mut writer = create_long(&env);
    let all = records(1, &[100 << 10; 130]);
    for record in &all {
        append(&mut writer, std::slice::from_ref(record)).unwrap();
        writer.sync().unwrap();
        if writer.wants_next_segment() {
            writer.segments().prepare().unwrap();
        }
    }
    assert!(segment_len(&env, 1) < 3 << 20, "the first ended early");
    assert_eq!(segment_len(&env, 2), 4 << 20, "the second never grows");
    assert_eq!(segment_len(&env, 3), 8 << 20);
    assert_eq!(segment_len(&env, 4), (10 << 20) + 16, "no segment is longer than it may be");
    env.crash(CrashStyle::LoseUnsynced);
    let (found, replayed) = replay_all(&env);
    assert_eq!(found, all);
    assert_eq!(replayed.torn, None);
}

#[test]
fn without_syncs_no_segment_is_given_up_or_written_ahead() {
    let env = machine(1);
    let plan = SegmentPlan { bytes: 10 << 20, zeros_ahead: false };
    let (id, last) = (SegmentId::FIRST, Version::ZERO);
    let mut writer = Writer::create(env.disk(), dir(), id, last, plan, Vec::new()).unwrap();
    for record in &records(1, &[100 << 10; 60]) {
        append(&mut writer, std::slice::from_ref(record)).unwrap();
        if writer.wants_next_segment() {
            writer.segments().prepare().unwrap();
        }
    }
    assert!(segment_len(&env, 1) > 6 << 20, "the first goes on");
    assert_eq!(segment_len(&env, 2), 64 + (256 << 10), "the next has few zeros");
}

#[test]
fn a_segment_without_room_for_all_its_zeros_is_prepared_short() {
    let env = machine(1);
    let mut writer = create_long(&env);
    let no_room = Fault::new(Operation::Write, "log-new", ErrorKind::StorageFull);
    env.fail(Fault { after: 100, times: 1, ..no_room });
    writer.segments().prepare().unwrap();
    assert_eq!(segment_len(&env, 2), 64 + (256 << 10), "the zeros are given back");
    let all = records(1, &[300 << 10; 30]);
    append(&mut writer, &all).unwrap();
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(replay_all(&env).0, all);
}
