//! Segments that are prepared: how long they are, and when the writer goes on with them.

use super::*;

/// A writer of segments of up to so many bytes.
fn create_of(env: &SimEnv, bytes: u64) -> Writer {
    let (id, last) = (SegmentId::FIRST, Version::ZERO);
    Writer::create(env.disk(), dir(), id, last, plan(bytes), Vec::new()).unwrap()
}

/// A writer of segments that are too long for all their zeros to be written at once.
fn create_long(env: &SimEnv) -> Writer {
    create_of(env, 10 << 20)
}

fn segment_len(env: &SimEnv, id: u64) -> u64 {
    env.read_file(&segment(id)).unwrap().len() as u64
}

#[test]
fn a_segment_that_has_to_grow_gives_way_to_a_longer_one() {
    for (bytes, longest) in [(10 << 20, 8 << 20), (6 << 20, (6 << 20) + 16)] {
        let env = machine(1);
        let mut writer = create_of(&env, bytes);
        let all = records(1, &[60 << 10; 217]);
        for record in &all {
            append(&mut writer, std::slice::from_ref(record)).unwrap();
            writer.sync().unwrap();
            if writer.wants_next_segment() {
                writer.segments().prepare().unwrap();
            }
        }
        assert!(segment_len(&env, 1) < 3 << 20, "the first ended early");
        assert_eq!(segment_len(&env, 2), 4 << 20, "the second never grows");
        assert_eq!(segment_len(&env, 3), longest);
        assert_eq!(segment_len(&env, 4), longest, "no more is written ahead");
        env.crash(CrashStyle::LoseUnsynced);
        let (found, replayed) = replay_all(&env);
        assert_eq!(found, all);
        assert_eq!(replayed.torn, None);
    }
}

#[test]
fn without_syncs_no_segment_is_given_up_or_written_ahead() {
    for ahead in [Ahead::Nothing, Ahead::Room] {
        let env = machine(1);
        let plan = SegmentPlan { bytes: 40 << 20, ahead, left_to_system: true };
        let (id, last) = (SegmentId::FIRST, Version::ZERO);
        let mut writer = Writer::create(env.disk(), dir(), id, last, plan, Vec::new()).unwrap();
        let all = records(1, &[60 << 10; 100]);
        for record in &all {
            append(&mut writer, std::slice::from_ref(record)).unwrap();
            if writer.wants_next_segment() {
                writer.segments().prepare().unwrap();
            }
        }
        let written = 64 + 100 * record::record_bytes(60 << 10) as u64;
        let room = match ahead {
            Ahead::Room => 1..4 << 20,
            _ => 16..17,
        };
        assert!(room.contains(&(segment_len(&env, 1) - written)), "the first goes on");
        assert_eq!(segment_len(&env, 2), 64 + 16);
        writer.sync().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        let (found, replayed) = replay_all(&env);
        assert_eq!((found, replayed.torn), (all, None));
    }
}

#[test]
fn room_that_is_made_ahead_is_in_proportion_and_given_back_when_the_log_is_closed() {
    let env = machine(1);
    let plan = SegmentPlan { bytes: 10 << 20, ahead: Ahead::Room, left_to_system: true };
    let (id, last) = (SegmentId::FIRST, Version::ZERO);
    let mut writer = Writer::create(env.disk(), dir(), id, last, plan, Vec::new()).unwrap();
    let all = records(1, &[100]);
    append(&mut writer, &all).unwrap();
    assert!((64..1 << 20).contains(&segment_len(&env, 1)));
    writer.close().unwrap();
    assert!(segment_len(&env, 1) < 300);
    assert_eq!(replay_all(&env).0, all);
}

#[test]
fn a_segment_without_room_for_all_its_zeros_is_prepared_short() {
    let env = machine(1);
    let mut writer = create_long(&env);
    let no_room = Fault::new(Operation::Write, "log-new", ErrorKind::StorageFull);
    env.fail(Fault { after: 10, times: 1, ..no_room });
    writer.segments().prepare().unwrap();
    assert_eq!(segment_len(&env, 2), 64 + (256 << 10), "the zeros are given back");
    let all = records(1, &[300 << 10; 30]);
    append(&mut writer, &all).unwrap();
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(replay_all(&env).0, all);
}

/// What is large is written once: no zeros before it, in the segment nor in the next.
#[test]
fn large_records_are_written_without_zeros_ahead() {
    let env = machine(1);
    let mut writer = create_long(&env);
    for record in &records(1, &[100 << 10; 60]) {
        append(&mut writer, std::slice::from_ref(record)).unwrap();
        writer.sync().unwrap();
        if writer.wants_next_segment() {
            writer.segments().prepare().unwrap();
        }
    }
    let records = 60 * ((100 << 10) + 40);
    assert_eq!(segment_len(&env, 1), 64 + records + 16, "it ends where its records do");
    assert_eq!(segment_len(&env, 2), 64 + (256 << 10), "the next has few zeros");
}

/// A segment that large commits made longer than others is not kept to be used again.
#[test]
fn a_segment_that_became_long_gives_its_space_back() {
    for (large, spares) in [(1, 1), (40, 0)] {
        let env = machine(1);
        let mut writer = create_of(&env, 64 << 20);
        append(&mut writer, &records(1, &vec![600 << 10; large])).unwrap();
        writer.sync().unwrap();
        let last = Version::from_ticks(large as u64);
        writer.end_segment(last).unwrap();
        writer.sync().unwrap();
        let segments = writer.segments();
        segments.remove_before(segments.first_needed(last)).unwrap();
        let names = env.list(dir());
        let kept = names.iter().filter(|name| name.ends_with("spare")).count();
        assert_eq!((kept, names.len()), (spares, 1 + spares), "{names:?}");
    }
}

/// The places that the writer gives are where replay, or anybody, finds the payloads.
#[test]
fn payloads_are_where_the_writer_says() {
    let env = machine(1);
    let mut writer = create_long(&env);
    let all = records(1, &[10, 70_000, 0, 5]);
    let refs = all.iter().map(|(version, payload)| RecordRef {
        version: Version::from_ticks(*version),
        payload,
        payload_crc: payload_crc(payload),
    });
    writer.end_segment_after(Version::from_ticks(all[1].0));
    let mut places = Vec::new();
    writer.append_placed(refs.map(|record| (record, ())), |(), place| places.push(place)).unwrap();
    let segments: Vec<_> = places.iter().map(|place| place.segment.get()).collect();
    assert_eq!(segments, [1, 1, 2, 2], "the segment ends after the second record");
    for ((_, payload), place) in all.iter().zip(&places) {
        let bytes = env.read_file(&segment(place.segment.get())).unwrap();
        assert_eq!(bytes[place.offset as usize..][..payload.len()], **payload);
    }
    let mut replayed = Vec::new();
    let mut visit = |record: ReplayedRecord<'_>| {
        replayed.push(LogPlace { segment: record.segment, offset: record.offset });
        Ok(())
    };
    drop(writer);
    let extent = Extent::since(SegmentId::FIRST);
    replay(&env.disk(), dir(), extent, Recovery::Strict, Purpose::Write, &mut visit).unwrap();
    assert_eq!(replayed, places);
}

/// A segment that is kept keeps its bytes, is replayed no more, and is not used again.
#[test]
fn a_kept_segment_is_the_log_s_no_longer() {
    let env = machine(1);
    let mut writer = create_long(&env);
    append(&mut writer, &records(1, &[100, 100])).unwrap();
    let last = Version::from_ticks(2);
    writer.end_segment(Version::from_ticks(1)).unwrap();
    let segments = writer.segments();
    assert!(segments.durable_through(last).unwrap().is_empty(), "a later record is in it");
    writer.end_segment(last).unwrap();
    let sealed = segments.durable_through(last).unwrap();
    assert_eq!(sealed.iter().map(|s| s.id).collect::<Vec<_>>(), [SegmentId::FIRST]);
    let before = env.read_file(&segment(1)).unwrap();
    segments.keep(SegmentId::FIRST).unwrap();
    segments.remove_before(segments.first_needed(last)).unwrap();
    append(&mut writer, &records(3, &[100])).unwrap();
    assert_eq!(env.read_file(&SegmentId::FIRST.values_path(dir())).unwrap(), before);
    assert_eq!(sealed[0].bytes, 64 + 2 * 144 + 40);
    drop(writer);
    let (found, _) = try_replay(&env, 2, Recovery::Strict).unwrap();
    assert_eq!(found, records(3, &[100]));
}

/// R-E22: salvage fills the place that a kept segment has left in the log, not knowing that it was kept.
#[test]
fn what_fills_the_place_of_a_kept_segment_does_not_take_its_name() {
    let env = machine(1);
    let mut writer = create_long(&env);
    append(&mut writer, &records(1, &[100])).unwrap();
    let last = Version::from_ticks(1);
    writer.end_segment(last).unwrap();
    let segments = writer.segments();
    assert_eq!(segments.durable_through(last).unwrap().len(), 1);
    let kept = SegmentId::FIRST.values_path(dir());
    env.write_file(&kept, b"values");
    segments.keep(SegmentId::FIRST).unwrap();
    assert_eq!(env.read_file(&kept).unwrap(), b"values");
}

/// What the log has taken ahead is there for what it has to write.
#[test]
fn a_log_without_room_takes_that_of_the_next_segment() {
    let env = machine(1);
    let mut writer = create_long(&env);
    writer.segments().prepare().unwrap();
    fill_disk(&env, 0);
    let all = records(1, &[1 << 20]);
    append(&mut writer, &all).unwrap();
    writer.sync().unwrap();
    assert_eq!(segment_len(&env, 2), 64 + 16);
    env.set_capacity(None);
    let later = records(2, &[1 << 20; 12]);
    append(&mut writer, &later).unwrap();
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(replay_all(&env).0, [all, later].concat());
}

#[test]
fn a_segment_that_there_is_no_room_for_takes_none() {
    let env = machine(1);
    let mut writer = create_long(&env);
    fill_disk(&env, 70);
    assert!(writer.segments().prepare().is_err());
    assert!(env.list(dir()).iter().all(|name| !name.ends_with("log-new")));
    fill_disk(&env, 100 << 10);
    writer.segments().prepare().unwrap();
    assert_eq!(segment_len(&env, 2), 64 + 16, "it begins without zeros");
    env.set_capacity(None);
    let all = records(1, &[300 << 10; 50]);
    append(&mut writer, &all).unwrap();
    writer.sync().unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(replay_all(&env).0, all);
}

/// Leaves room for so many bytes more.
fn fill_disk(env: &SimEnv, left: u64) {
    let files = env.list(dir()).into_iter();
    let used: u64 = files.map(|name| env.read_file(&dir().join(name)).unwrap().len() as u64).sum();
    env.set_capacity(Some(used + left));
}
