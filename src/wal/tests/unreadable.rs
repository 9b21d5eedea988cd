//! R-E22: what salvage keeps of a log of which the device fails to read some blocks, and that files with such blocks
//! are not used again.

use super::record::HEADER_BYTES;
use super::*;
use crate::env::BLOCK_BYTES;

/// A record begins where the last block of a segment does.
const LEN: usize = 96 - HEADER_BYTES;
const SEGMENT_BLOCKS: u64 = 8;

/// Records in two segments, none of which says that anything was synced.
fn unsynced(env: &SimEnv) -> Vec<Record> {
    written(env, None)
}

/// Records in two segments. Those after the one that is synced say so.
fn written(env: &SimEnv, synced: Option<u64>) -> Vec<Record> {
    let mut writer = create_with(env, plan(SEGMENT_BLOCKS * BLOCK_BYTES as u64));
    let all = records(1, &[LEN; 450]);
    for record in &all {
        append(&mut writer, std::slice::from_ref(record)).unwrap();
        if synced == Some(record.0) {
            writer.sync().unwrap();
        }
    }
    drop(writer);
    all
}

/// The records that salvage keeps if a block of the first segment cannot be read, which a strict replay refuses,
/// and all there were.
fn kept(block: u64) -> (Vec<Record>, Vec<Record>) {
    let env = machine(1);
    let all = unsynced(&env);
    let whole = env.read_file(&segment(1)).unwrap();
    let offset = block * BLOCK_BYTES as u64;
    env.spoil(&segment(1), offset).unwrap();
    match try_replay(&env, 1, Recovery::Strict) {
        Err(Error::Io(io)) => assert_eq!((io.action, io.path), ("read", segment(1))),
        other => panic!("expected an unreadable segment, got {other:?}"),
    }
    let (found, replayed) = try_replay(&env, 1, Recovery::Salvage).unwrap();
    let told = replayed.lost.iter().any(|lost| (&lost.file, lost.offset) == (&segment(1), offset));
    assert!(told, "{:?}", replayed.lost);
    let set_aside = PathBuf::from(format!("{}.damaged", segment(1).display()));
    assert_eq!(env.read_file(&set_aside).unwrap(), whole, "nothing made up is kept");
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(replay_all(&env).0, found, "the next opening is strict");
    (found, all)
}

/// Nothing says that what is behind the block was synced, so to a strict replay it would be a tear.
#[test]
fn records_on_both_sides_of_a_block_are_kept() {
    for block in 1..SEGMENT_BLOCKS - 1 {
        let (found, mut all) = kept(block);
        let record_bytes = record::record_bytes(LEN) as u64;
        let spoiled = block * BLOCK_BYTES as u64..(block + 1) * BLOCK_BYTES as u64;
        all.retain(|(version, _)| {
            let start = 64 + (version - 1) * record_bytes;
            start + record_bytes <= spoiled.start || start >= spoiled.end
        });
        assert_eq!(found, all, "block {block}");
    }
}

/// Without its seal a segment would be the last.
#[test]
fn later_segments_are_kept_where_a_seal_or_a_header_cannot_be_read() {
    let env = machine(1);
    unsynced(&env);
    let seal = replay_all(&env).1.segments[0].bytes - HEADER_BYTES as u64;
    for block in [0, seal / BLOCK_BYTES as u64] {
        let (found, all) = kept(block);
        assert!(found.len() < all.len(), "block {block}");
        let in_first = (SEGMENT_BLOCKS as usize * BLOCK_BYTES) / record::record_bytes(LEN);
        let later = all.iter().filter(|(version, _)| *version > in_first as u64);
        assert!(later.clone().count() > 100);
        assert!(later.clone().all(|record| found.contains(record)), "block {block}");
    }
}

/// A log as the device gives it that reads all of it again: the same files, and no block that fails.
fn healed(env: &SimEnv) -> SimEnv {
    let healed = machine(1);
    snapshot(env).iter().for_each(|(name, bytes)| healed.write_file(&dir().join(name), bytes));
    healed
}

/// Whatever the reading at which a block begins to fail: what is shown is what is there afterwards, what is not
/// is told, and where that cannot be, the log is as it was.
#[test]
fn a_block_that_begins_to_fail_in_a_salvage_is_told_of_or_ends_it() {
    let block = 3 * BLOCK_BYTES as u64;
    // What is not proved is hardened, what is damaged is written anew.
    for (synced, damage) in [(None, None), (Some(440), Some(100))] {
        let (mut failed, mut kept) = (0, 0);
        for reads in 0..8 {
            let context = format!("after {reads} reads, {damage:?}");
            let env = machine(1);
            written(&env, synced);
            damage.iter().for_each(|at| env.flip(&segment(1), *at).unwrap());
            let whole = healed(&env);
            env.spoil_after(&segment(1), block, reads).unwrap();
            match try_replay(&env, 1, Recovery::Salvage) {
                Ok((found, replayed)) => {
                    kept += 1;
                    let is_told = replayed.lost.iter().any(|lost| lost.offset == block);
                    let (all, _) = try_replay(&whole, 1, Recovery::Salvage).unwrap();
                    assert_eq!(is_told, found != all, "{context}");
                    assert_eq!(replay_all(&healed(&env)).0, found, "{context}");
                }
                Err(Error::Io(io)) => {
                    failed += 1;
                    assert_eq!((io.action, io.path), ("read", segment(1)), "{context}");
                    let logs = |env: &SimEnv| {
                        let files = snapshot(env).into_iter();
                        files.filter(|(name, _)| name.ends_with(".log")).collect::<Vec<_>>()
                    };
                    assert_eq!(logs(&env), logs(&whole), "{context}");
                    let (found, replayed) = try_replay(&env, 1, Recovery::Salvage).unwrap();
                    assert!(replayed.lost.iter().any(|lost| lost.offset == block), "{context}");
                    assert!(found.len() > 350, "{context}: {} records", found.len());
                }
                Err(error) => panic!("{context}: {error:?}"),
            }
        }
        assert!(failed > 1 && kept > 1, "{failed} salvages failed, {kept} did not");
    }
}

/// What is behind later records is read by who opens the log, to look for more.
#[test]
fn a_file_that_cannot_be_read_is_not_used_again() {
    for is_spoiled in [false, true] {
        let env = machine(1);
        let last = unsynced(&env).len() as u64;
        let plan = plan(SEGMENT_BLOCKS * BLOCK_BYTES as u64);
        let mut writer = go_on_with(&env, replay_all(&env).1, plan).unwrap();
        let segments = writer.segments();
        let first = segments.first_needed(Version::from_ticks(last));
        segments.remove_before(first).unwrap();
        let spares = env.list(dir()).into_iter().filter(|name| name.ends_with("spare"));
        let spares: Vec<_> = spares.map(|name| dir().join(name)).collect();
        assert_eq!(spares.len(), 2);
        for spare in spares.iter().filter(|_| is_spoiled) {
            let last_byte = env.read_file(spare).unwrap().len() as u64 - 1;
            env.spoil(spare, last_byte).unwrap();
        }
        segments.prepare().unwrap();
        let prepared = env.read_file(&segment(first.get() + 1)).unwrap();
        let is_used_again = prepared[BLOCK_BYTES..].iter().any(|byte| *byte != 0);
        let all = records(last + 1, &[LEN; 2]);
        append(&mut writer, &all[..1]).unwrap();
        writer.end_segment(Version::from_ticks(last + 1)).unwrap();
        append(&mut writer, &all[1..]).unwrap();
        writer.sync().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        assert_eq!(try_replay(&env, first.get(), Recovery::Strict).unwrap().0, all);
        assert_eq!(is_used_again, !is_spoiled);
    }
}
