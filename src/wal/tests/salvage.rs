//! R-E22: what salvage keeps of a damaged log, and what it says that it lost.

use super::*;

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

/// Salvages a log of which table files refer to one segment.
fn salvage_keeping(env: &SimEnv, kept: u64) -> (Vec<Record>, Replayed) {
    let kept = [SegmentId::new(kept)];
    let extent = Extent { kept: &kept, ..Extent::since(SegmentId::NONE) };
    let mut found = Vec::new();
    let mut visit = |record: ReplayedRecord<'_>| {
        found.push((record.version.ticks(), record.payload.to_vec()));
        Ok(())
    };
    let (disk, mode) = (env.disk(), Recovery::Salvage);
    let replayed = replay(&disk, dir(), extent, mode, Purpose::Write, &mut visit).unwrap();
    (found, replayed)
}

/// R-E22: bytes beside the damaged record are still referred to. Nothing of this log was synced, so that no record says
/// that the kept segment, or the one before, is no torn tail.
#[test]
fn a_segment_that_table_files_refer_to_stays_as_it_is() {
    for (damaged, first_of_it) in [(1, 0), (2, 2)] {
        for at in [5, 100] {
            let env = machine(1);
            let mut writer = create(&env);
            let all = records(1, &[1_500; 6]);
            append(&mut writer, &all).unwrap();
            drop(writer);
            env.flip(&segment(damaged), at).unwrap();
            let kept = env.read_file(&segment(2)).unwrap();
            let (found, replayed) = salvage_keeping(&env, 2);
            assert_eq!(env.read_file(&segment(2)).unwrap(), kept, "damage in {damaged} at {at}");
            assert_eq!(replayed.lost[0].file, segment(damaged));
            let gone = if at < 64 { 2 } else { 1 };
            assert_eq!(found, [&all[..first_of_it], &all[first_of_it + gone..]].concat());
            assert!(replayed.torn.is_none());
        }
    }
}

/// R-E22: however many segments are missing before it.
#[test]
fn a_segment_that_table_files_refer_to_keeps_its_name() {
    let env = machine(1);
    let all = three_segments(&env);
    let far = segment(500);
    env.write_file(&far, b"no segment");
    let (found, replayed) = salvage_keeping(&env, 500);
    assert_eq!((found, env.read_file(&far).unwrap()), (all, b"no segment".to_vec()));
    assert!(replayed.lost.iter().any(|lost| lost.file == far));
    assert_eq!(replayed.next_segment_id.get(), 501);
}
