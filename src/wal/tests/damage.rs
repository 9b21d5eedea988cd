//! R-E22: a torn tail of the log is trimmed; any other damage is an error that names file and offset, and no record.

use super::*;

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
