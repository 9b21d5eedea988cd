//! The manifest: round trips, torn ends, damage, formats of the future.

use std::path::Path;

use proptest::prelude::*;

use super::super::edit::{EDIT_FORMAT, Edit, EditError, FileRecord, Inventory};
use super::super::manifest::{
    CURRENT, CURRENT_MAGIC, HEADER_BYTES, MANIFEST_MAGIC, MOST_GROWTH_BYTES, Manifest, ManifestId,
    encode_header, encode_record,
};
use super::super::recover::recover;
use super::*;
use crate::env::BLOCK_BYTES;
use crate::error::Error;
use crate::reference::ReferencedBytes;
use crate::sst::{FileId, FileMeta};

fn meta(id: u64, first: &[u8], last: &[u8]) -> FileMeta {
    FileMeta {
        id: FileId::new(id),
        bytes: 4096,
        entries: 10,
        tombstones: 2,
        keys: 9,
        raw_bytes: 9000,
        smallest: first.into(),
        largest: last.into(),
        min_version: v(3),
        max_version: v(12),
        referenced: ReferencedBytes::default(),
    }
}

pub(super) fn tombstone(start: &[u8], end: &[u8], version: u64) -> RangeTombstone {
    RangeTombstone { start: start.into(), end: end.into(), version: v(version) }
}

pub(super) fn edit(step: u64) -> Edit {
    let file = |id: u64| FileRecord {
        level: Level::new(id % 2).unwrap(),
        gc_bound: v(id),
        meta: meta(id, &[id as u8], &[id as u8, 7]),
    };
    Edit {
        added: vec![file(2 * step), file(2 * step + 1)],
        removed: if step > 1 { vec![FileId::new(2 * step - 2)] } else { Vec::new() },
        tombstones_added: vec![tombstone(b"a", b"b", step)],
        tombstones_removed: if step > 1 { vec![tombstone(b"a", b"b", step - 1)] } else { vec![] },
        flushed: v(step),
        log_start: SegmentId::new(step),
        log_end: Version::ZERO,
        next_file: FileId::new(2 * step + 2),
    }
}

pub(super) fn whole(inventory: &Inventory) -> Edit {
    Edit {
        added: inventory.files.values().cloned().collect(),
        removed: Vec::new(),
        tombstones_added: inventory.tombstones.iter().cloned().collect(),
        tombstones_removed: Vec::new(),
        flushed: inventory.flushed,
        log_start: inventory.log_start,
        log_end: inventory.log_end,
        next_file: inventory.next_file,
    }
}

/// A manifest with four edits, and what the tree is after each.
pub(super) fn written() -> (SimEnv, Vec<Inventory>) {
    let env = SimEnv::new(1);
    let disk = env.disk();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut manifest = Manifest::new(disk, DIR.into(), ManifestId::NONE);
    let mut inventory = Inventory::new();
    let mut states = Vec::new();
    for step in 1..=4 {
        inventory.apply(edit(step)).unwrap();
        manifest.commit(Some(&edit(step)), || whole(&inventory), Vec::new).unwrap();
        states.push(inventory.clone());
    }
    (env, states)
}

pub(super) fn read(env: &SimEnv, mode: Recovery) -> Result<Inventory> {
    recover(&*env.disk(), Path::new(DIR), mode).map(|found| found.unwrap().inventory)
}

pub(super) fn manifest_path(number: u64) -> PathBuf {
    Path::new(DIR).join(ManifestId(number).file_name())
}

fn current_path() -> PathBuf {
    Path::new(DIR).join(CURRENT)
}

#[test]
fn edits_add_up_and_come_back() {
    let (env, states) = written();
    assert_eq!(read(&env, Recovery::Strict).unwrap(), states[3]);
    env.crash(crate::env::CrashStyle::LoseUnsynced);
    assert_eq!(read(&env, Recovery::Strict).unwrap(), states[3], "every edit is synced");
}

/// R-E22: a cut anywhere leaves the state after some edit, or is damage.
#[test]
fn a_torn_end_is_trimmed_and_nothing_else() {
    let (env, states) = written();
    let path = manifest_path(1);
    let bytes = env.read_file(&path).unwrap();
    for len in 0..bytes.len() {
        env.write_file(&path, &bytes[..len]);
        match read(&env, Recovery::Strict) {
            Ok(found) => assert!(states.contains(&found)),
            Err(Error::Corruption(corruption)) => assert_eq!(corruption.file, path),
            Err(other) => panic!("{other}"),
        }
    }
    for junk in [&[0u8; 40][..], &[0xFF; 40], b"anything"] {
        env.write_file(&path, &[&bytes, junk].concat());
        assert_eq!(read(&env, Recovery::Strict).unwrap(), states[3]);
    }
}

/// Where the manifest's last edit begins, and where it ends.
pub(super) fn last_edit() -> std::ops::Range<u64> {
    let len = |step| encode_record(ManifestId(1), step - 1, &edit(step)).len() as u64;
    let start = HEADER_BYTES as u64 + (1..4).map(len).sum::<u64>();
    start..start + len(4)
}

/// R-E22: a flipped bit in any byte of any edit is found and named; in what proves the last one it is nothing.
#[test]
fn r_e22_every_flip_in_an_edit_is_found() {
    let (env, states) = written();
    for path in [manifest_path(1), current_path()] {
        let bytes = env.read_file(&path).unwrap();
        for offset in 0..bytes.len() as u64 {
            env.flip(&path, offset).unwrap();
            match read(&env, Recovery::Strict) {
                Ok(found) => {
                    assert!(path == manifest_path(1) && offset >= last_edit().end, "{offset}");
                    assert_eq!(found, states[3]);
                }
                Err(Error::Corruption(corruption)) => assert_eq!(corruption.file, path),
                Err(other) => panic!("{other}"),
            }
            env.write_file(&path, &bytes);
        }
    }
}

/// R-E22: also where those behind it could do without it.
#[test]
fn r_e22_an_edit_that_is_missing_is_damage() {
    let edits = [10, 20, 30].map(|id| {
        let meta = meta(id, &[id as u8], &[id as u8, 7]);
        let added = vec![FileRecord { level: Level::ONE, gc_bound: v(0), meta }];
        Edit { added, tombstones_added: Vec::new(), next_file: FileId::new(id + 1), ..edit(1) }
    });
    let records = edits.iter().zip(0..).map(|(edit, at)| encode_record(ManifestId(1), at, edit));
    let records: Vec<_> = records.collect();
    let (env, _) = written();
    let path = manifest_path(1);
    let header = env.read_file(&path).unwrap()[..HEADER_BYTES].to_vec();
    let reads = |records: &[&[u8]]| {
        env.write_file(&path, &[&[&*header], records].concat().concat());
        read(&env, Recovery::Strict).map(|inventory| inventory.files.len())
    };
    let [first, second, third] = [0, 1, 2].map(|at: usize| &*records[at]);
    assert_eq!(reads(&[first, second, third]).unwrap(), 3);
    for damaged in [&[second, third][..], &[first, third], &[first, third, second]] {
        assert!(matches!(reads(damaged), Err(Error::Corruption(_))));
    }
}

/// A power cut may take the proof of the last edit, which is then told from a torn one by nothing.
#[test]
fn an_edit_without_its_proof_is_whole_or_torn() {
    let (env, states) = written();
    env.crash(crate::env::CrashStyle::LoseUnsynced);
    let bytes = env.read_file(&manifest_path(1)).unwrap();
    assert_eq!(bytes.len() as u64, last_edit().end);
    assert_eq!(read(&env, Recovery::Strict).unwrap(), states[3]);
    for offset in last_edit() {
        env.flip(&manifest_path(1), offset).unwrap();
        assert_eq!(read(&env, Recovery::Strict).unwrap(), states[2]);
        env.write_file(&manifest_path(1), &bytes);
    }
}

#[test]
fn salvage_keeps_what_comes_before_the_damage() {
    let (env, states) = written();
    let path = manifest_path(1);
    let bytes = env.read_file(&path).unwrap();
    env.flip(&path, bytes.len() as u64 / 2).unwrap();
    assert!(read(&env, Recovery::Strict).is_err());
    let found = recover(&*env.disk(), Path::new(DIR), Recovery::Salvage).unwrap().unwrap();
    assert!(states.contains(&found.inventory));
    assert_eq!(found.lost.len(), 1);
    env.write_file(&path, &bytes);
    env.flip(&current_path(), 3).unwrap();
    assert_eq!(read(&env, Recovery::Salvage).unwrap(), states[3], "the manifest itself is whole");
}

#[test]
fn formats_of_the_future_are_refused_by_name() {
    let (env, states) = written();
    let future = |magic| {
        let mut header = encode_header(magic, 1);
        header[8] = 2;
        let crc = crc32fast::hash(&header[..HEADER_BYTES - 4]).to_le_bytes();
        header[HEADER_BYTES - 4..].copy_from_slice(&crc);
        header
    };
    let refused = |env: &SimEnv, path: &Path| match read(env, Recovery::Strict) {
        Err(Error::UnsupportedFormat { file, found: 2, supported: 1 }) => &*file == path,
        _ => false,
    };
    let current = env.read_file(&current_path()).unwrap();
    env.write_file(&current_path(), &future(CURRENT_MAGIC));
    assert!(refused(&env, &current_path()));
    env.write_file(&current_path(), &current);
    let bytes = env.read_file(&manifest_path(1)).unwrap();
    env.write_file(&manifest_path(1), &[&future(MANIFEST_MAGIC)[..], &bytes[24..]].concat());
    assert!(refused(&env, &manifest_path(1)));
    env.write_file(&manifest_path(1), &bytes);
    assert_eq!(read(&env, Recovery::Strict).unwrap(), states[3]);
    let mut encoded = edit(1).encode();
    encoded[0] = EDIT_FORMAT + 1;
    assert!(matches!(Edit::decode(&encoded), Err(EditError::Format(_))));
}

#[test]
fn a_long_manifest_is_replaced() {
    let env = SimEnv::new(1);
    let disk = env.disk();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut manifest = Manifest::new(disk, DIR.into(), ManifestId::NONE);
    let mut inventory = Inventory::new();
    let mut left_behind = Vec::new();
    for step in 1..8 {
        let mut edit = edit(step);
        edit.added.truncate(0);
        edit.removed.truncate(0);
        let long = vec![b'x'; 400 << 10];
        edit.tombstones_added = vec![tombstone(&long, b"y", step)];
        edit.tombstones_removed = vec![tombstone(&long, b"y", step)];
        inventory.apply(edit.clone()).unwrap();
        left_behind.extend(manifest.commit(Some(&edit), || whole(&inventory), Vec::new).unwrap());
    }
    assert!(!left_behind.is_empty());
    assert!(!left_behind.contains(&manifest_path(manifest.current().unwrap().0)));
    assert_eq!(read(&env, Recovery::Strict).unwrap(), inventory);
}

#[test]
fn a_long_edit_begins_a_manifest() {
    let (env, states) = written();
    let mut manifest = Manifest::new(env.disk(), DIR.into(), ManifestId(1));
    let mut inventory = states[3].clone();
    for (step, current) in [(5, 2), (6, 3)] {
        let long =
            Edit { tombstones_added: vec![tombstone(&[b'x'; 1 << 20], b"y", step)], ..edit(step) };
        let long = Edit { tombstones_removed: Vec::new(), ..long };
        inventory.apply(long.clone()).unwrap();
        manifest.commit(Some(&long), || whole(&inventory), Vec::new).unwrap();
        assert_eq!(manifest.current(), Some(ManifestId(current)));
    }
    assert_eq!(read(&env, Recovery::Strict).unwrap(), inventory);
}

/// Lengths that no file can have that was written here are damage before anything behind is read: a device
/// that fails there is not asked.
#[test]
fn files_are_read_within_bounds() {
    let (env, states) = written();
    let first = encode_record(ManifestId(1), 0, &edit(1)).len();
    let most = (HEADER_BYTES + first) as u64 + MOST_GROWTH_BYTES;
    for (path, most) in [(manifest_path(1), most), (current_path(), HEADER_BYTES as u64)] {
        let bytes = env.read_file(&path).unwrap();
        let mut long = bytes.clone();
        long.resize(most as usize + 2 * BLOCK_BYTES, 0);
        env.write_file(&path, &long);
        env.spoil(&path, most + BLOCK_BYTES as u64).unwrap();
        match read(&env, Recovery::Strict) {
            Err(Error::Corruption(damage)) => {
                assert_eq!((&damage.file, damage.offset), (&path, most));
                assert_eq!(damage.expected, "the end of the file");
                assert_eq!(damage.found, format!("{} bytes", long.len()));
            }
            other => panic!("expected damage of {path:?}, got {other:?}"),
        }
        env.write_file(&path, &bytes);
    }
    let mut long = env.read_file(&manifest_path(1)).unwrap();
    long.resize(most as usize, 0);
    env.write_file(&manifest_path(1), &long);
    assert_eq!(read(&env, Recovery::Strict).unwrap(), states[3], "a torn end");
}

/// Files of one level that overlap, or have one key, would hide each other's entries.
#[test]
fn r_e22_files_that_overlap_are_damage() {
    for (last, is_damage) in [(4, false), (5, true), (6, true)] {
        let env = SimEnv::new(1);
        env.disk().create_dir_all(Path::new(DIR)).unwrap();
        let file = |id, first, last| FileRecord {
            level: Level::ONE,
            gc_bound: v(0),
            meta: meta(id, &[first], &[last]),
        };
        let added = vec![file(50, 0, last), file(51, 5, 9)];
        let edit = Edit { added, next_file: FileId::new(60), ..edit(1) };
        let mut manifest = Manifest::new(env.disk(), DIR.into(), ManifestId::NONE);
        manifest.commit(Some(&edit), || edit.clone(), Vec::new).unwrap();
        let found = read(&env, Recovery::Strict);
        let is_found = matches!(&found, Err(Error::Corruption(_)));
        assert_eq!(is_found, is_damage, "{last}: {found:?}");
    }
}

#[test]
fn an_edit_that_does_not_follow_is_damage() {
    let mut inventory = Inventory::new();
    inventory.apply(edit(1)).unwrap();
    let base = Edit { added: Vec::new(), tombstones_added: Vec::new(), ..edit(1) };
    assert!(inventory.clone().apply(base.clone()).is_ok());
    let wrong = [
        Edit { removed: vec![FileId::new(99)], ..base.clone() },
        Edit { added: edit(1).added, ..base.clone() },
        Edit { flushed: v(0), ..base.clone() },
        Edit { log_start: SegmentId::NONE, ..base.clone() },
        Edit { tombstones_removed: vec![tombstone(b"a", b"c", 1)], ..base.clone() },
        Edit { next_file: FileId::new(1), added: edit(2).added, ..base },
    ];
    for edit in wrong {
        assert!(inventory.clone().apply(edit).is_err());
    }
    let next = edit(2).added.iter().map(|file| file.meta.id).max().unwrap();
    let added = edit(2).added;
    assert!(inventory.clone().apply(Edit { next_file: next, added, ..edit(2) }).is_err());
    let overlapping =
        FileRecord { level: Level::ONE, gc_bound: v(0), meta: meta(50, &[0], &[200]) };
    inventory.files.insert(FileId::new(50), overlapping);
    assert!(inventory.check().is_err());
}

/// R-E22: also where its checksum is right.
#[test]
fn r_e22_what_no_writer_writes_is_no_edit() {
    let covering = |end: &[u8]| {
        let tombstones_added = vec![tombstone(b"b", end, 3)];
        Edit { added: Vec::new(), tombstones_added, ..edit(3) }.encode()
    };
    let whole = covering(b"c");
    assert!(Edit::decode(&whole).is_ok());
    let (longer, before) = ([&*whole, &[0]].concat(), [&[0], &whole[1..]].concat());
    for wrong in [longer, before, covering(b"b"), covering(b"a"), Vec::new()] {
        assert!(matches!(Edit::decode(&wrong), Err(EditError::Damage(_))), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Edit::decode(&[&[EDIT_FORMAT], &*bytes].concat());
    }

    #[test]
    fn changed_edits_decode_or_are_refused(at in 0usize..300, to: u8) {
        let mut bytes = edit(3).encode();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(edit) = Edit::decode(&bytes) {
            prop_assert_eq!(Edit::decode(&edit.encode()).unwrap(), edit);
        }
    }
}

/// R-E10: a compaction that is at work when the log is closed may begin a new manifest after it.
#[test]
fn r_e10_where_the_log_ended_is_known_though_a_manifest_is_begun_after() {
    let mut world = World::new(1);
    world.put(key(1), "1");
    world.flush();
    let end = v(7);
    world.tree.log_closed(end).unwrap();
    let current = || world.tree.manifest.lock().current();
    let before = current();
    while current() == before {
        world.tree.install(crate::levels::state::Change::default()).unwrap();
    }
    world.env.crash(crate::env::CrashStyle::KeepAll);
    assert_eq!(open(&world.env, &world.options).unwrap().log_end, end);
}
