//! R-E22: damage is reported with its file, and never returned as data.

use std::cell::Cell;

use proptest::prelude::*;

use super::footer::{FOOTER_BYTES, Footer, Parsed};
use super::frame::{Body, Frame};
use super::index::BlockHandle;
use super::source::Caching;
use super::*;
use crate::error::Error;

/// Two partitions, several blocks, a key with versions across blocks.
fn rows() -> Vec<Row> {
    let mut rows = entities(24, 2, 12);
    let hot = [rows[11].key.clone(), vec![1]].concat();
    rows.splice(12..12, (1..20).rev().map(|v| Row::put(hot.clone(), v, noise(v, 9))));
    rows.push(Row { key: vec![0xFE], version: 4, kind: Kind::Delete, value: Vec::new() });
    rows.push(Row::put(vec![0xFF], 4, vec![5; 300]));
    rows
}

fn options(compression: Option<i32>) -> WriterOptions {
    WriterOptions { compression, block_bytes: 160 }
}

/// Everything that can be asked of the file, each answer right or [`Error::Corruption`] that
/// names the file; says whether all were right.
fn all_right_or_damage(fixture: &Fixture, rows: &[Row], mode: ReadMode) -> bool {
    let all_right = Cell::new(true);
    let check = |error: Option<Error>| match error {
        None => {}
        Some(Error::Corruption(c)) if c.file == fixture.path => all_right.set(false),
        Some(error) => panic!("{error}"),
    };
    let reader = match fixture.open(mode) {
        Ok(reader) => reader,
        Err(error) => {
            check(Some(error));
            return all_right.get();
        }
    };
    for row in rows {
        check(
            get(&reader, &row.key, row.version)
                .map(|found| assert_eq!(found.as_ref(), Some(row)))
                .err(),
        );
    }
    check(scan(reader.cursor()).map(|found| assert_eq!(found, rows)).err());
    let walked = |mut cursor: SstCursor<'_>| {
        cursor.seek_to_first()?;
        walk(&mut cursor, rows.len())
    };
    check(walked(reader.cursor()).map(|found| assert_eq!(found.len(), 27)).err());
    check(scan_back(&reader).map(|found| assert_eq!(found.len(), 27)).err());
    check(
        reader.estimate(&rows[3].key, &rows[9].key).map(|found| assert_eq!(found.entries, 6)).err(),
    );
    let is_whole = all_right.get();
    match reader.verify() {
        Ok(()) => assert!(is_whole, "verify missed what reading found"),
        Err(error) => check(Some(error)),
    }
    all_right.get()
}

#[test]
fn every_changed_byte_is_found() {
    for compression in [None, Some(1)] {
        let rows = rows();
        let fixture = Fixture::write(&rows, options(compression));
        let whole = fixture.env.read_file(&fixture.path).unwrap();
        for mode in MODES {
            assert!(all_right_or_damage(&fixture, &rows, mode));
            for at in 0..whole.len() {
                for change in [0x01, 0x80, 0xFF] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= change;
                    fixture.env.write_file(&fixture.path, &bytes);
                    assert!(!all_right_or_damage(&fixture, &rows, mode), "byte {at}");
                }
            }
            fixture.env.write_file(&fixture.path, &whole);
        }
    }
}

#[test]
fn every_truncation_is_found() {
    let rows = rows();
    let fixture = Fixture::write(&rows, options(None));
    let whole = fixture.env.read_file(&fixture.path).unwrap();
    for mode in MODES {
        for len in 0..whole.len() {
            fixture.env.write_file(&fixture.path, &whole[..len]);
            assert!(
                matches!(fixture.open(mode), Err(Error::Corruption(c)) if c.file == fixture.path)
            );
        }
        fixture.env.write_file(&fixture.path, &[whole.clone(), vec![0]].concat());
        assert!(matches!(fixture.open(mode), Err(Error::Corruption(_))));
        fixture.env.write_file(&fixture.path, &whole);
    }
}

/// A block written over another of the same length, and a file under another's name.
#[test]
fn misplaced_blocks_and_files_are_found() {
    let rows = entities(40, 1, 12);
    let fixture = Fixture::write(&rows, options(None));
    let mut bytes = fixture.env.read_file(&fixture.path).unwrap();
    let reader = fixture.open(ReadMode::Pread).unwrap();
    let handles = data_blocks(&reader);
    let pair = handles.windows(2).find(|pair| pair[0].len == pair[1].len);
    let pair = pair.expect("the test needs blocks of one length");
    let (a, b) = (pair[0], pair[1]);
    let (from, to) = (a.offset.0 as usize, b.offset.0 as usize);
    bytes.copy_within(from..from + a.len, to);
    fixture.env.write_file(&fixture.path, &bytes);
    for mode in MODES {
        assert!(!all_damage_free(&fixture, mode));
        let other = FileMeta { id: FileId::new(43), ..fixture.meta.clone() };
        let cache = Arc::new(BlockCache::new(0));
        let opened = Reader::open(&*fixture.env.disk(), &fixture.path, &other, cache, mode);
        assert!(matches!(opened, Err(Error::Corruption(_))));
    }
}

fn data_blocks(reader: &Reader) -> Vec<BlockHandle> {
    let mut place = reader.partition(0, Caching::Pass).unwrap();
    let mut handles = Vec::new();
    while let Some(at) = place {
        handles.push(at.handle().unwrap());
        place = at.next().unwrap();
    }
    handles
}

/// Offsets and lengths of all stored blocks, the directory's last.
fn stored_blocks(fixture: &Fixture, bytes: &[u8]) -> Vec<(u64, usize)> {
    let reader = fixture.open(ReadMode::Pread).unwrap();
    let directory = reader.directory();
    let mut handles = data_blocks(&reader);
    handles.extend((0..directory.top.len()).filter_map(|i| directory.top.handle(i)));
    handles.extend((0..directory.filters.len()).filter_map(|i| directory.filters.handle(i, 0)));
    let Ok(Parsed::Footer(footer)) = Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..]) else {
        panic!("no footer");
    };
    let mut blocks: Vec<_> = handles.iter().map(|h| (h.offset.0, h.len)).collect();
    blocks.push((footer.directory.0, footer.directory_len as usize));
    blocks
}

/// A damaged data block takes its own entries along, a damaged index partition those that it leads to, any other
/// block none.
#[test]
fn what_is_whole_of_a_damaged_file_is_shown() {
    let rows = rows();
    for compression in [None, Some(1)] {
        let fixture = Fixture::write(&rows, options(compression));
        let whole = fixture.env.read_file(&fixture.path).unwrap();
        let reader = fixture.open(ReadMode::Pread).unwrap();
        let blocks = data_blocks(&reader);
        let index = *reader.directory().top.handle(0).unwrap();
        assert!(blocks.len() > 5 && reader.directory().top.len() == 1);
        let is_in =
            |block: &BlockHandle, at: usize| (block.offset.0..block.end()).contains(&(at as u64));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fixture.env.write_file(&fixture.path, &bytes);
            // Without its directory nothing is known of a file.
            let Ok(reader) = fixture.open(ReadMode::Pread) else { continue };
            let mut shown = Vec::new();
            let show = |entry: Entry<'_>| {
                shown.push(Row::of(entry));
                Ok(())
            };
            reader.whole_entries(show).unwrap();
            let lost = match blocks.iter().position(|block| is_in(block, at)) {
                Some(number) => {
                    let end = blocks.get(number + 1).map(|block| block.entries_before as usize);
                    blocks[number].entries_before as usize..end.unwrap_or(rows.len())
                }
                None if is_in(&index, at) => 0..rows.len(),
                None => 0..0,
            };
            let mut expected = rows.clone();
            expected.drain(lost);
            assert_eq!(shown, expected, "byte {at}");
        }
    }
}

/// Reads the file in all ways, for a bounded number of steps, and does not care what comes.
fn poke(fixture: &Fixture, rows: &[Row], mode: ReadMode) -> Result<()> {
    let reader = fixture.open(mode)?;
    let _ = reader.verify();
    for row in rows {
        let _ = get(&reader, &row.key, row.version);
        let _ = reader.estimate(&row.key, &[0xFF]);
    }
    for grain in [0, u64::MAX] {
        let _ = reader.split_keys(b"", &[0xFF; 4], grain, &mut |_, _| {});
    }
    let mut cursor = reader.cursor();
    let _ = cursor.seek_to_first();
    for row in rows.iter().cycle().take(200) {
        let _ = cursor.next();
        let _ = cursor.next_key();
        let _ = cursor.previous_key();
        if !cursor.valid() {
            let _ = cursor.seek(&row.key);
        }
    }
    let _ = cursor.seek_to_first();
    let _ = walk(&mut cursor, 200);
    let _ = cursor.seek_to_last();
    for row in rows.iter().cycle().take(200) {
        let _ = cursor.previous_key();
        if !cursor.valid() {
            let _ = cursor.seek_before(&row.key);
        }
    }
    Ok(())
}

/// A walk knows the next block before it opens it, and says of damage there where it is.
#[test]
fn damage_that_a_walk_meets_has_the_offset_of_its_block() {
    let rows = entities(60, 1, 40);
    let whole = Fixture::write(&rows, options(None));
    let bytes = whole.env.read_file(&whole.path).unwrap();
    for (mode, block) in MODES.into_iter().zip([5, 6]) {
        let handle = data_blocks(&whole.open(mode).unwrap())[block];
        let range = handle.offset.0 as usize..handle.end() as usize;
        let mut payload = Frame::parse(&bytes[range.clone()]).unwrap().payload.to_vec();
        // An entry longer than its block.
        payload[..4].fill(0x7F);
        let (mut forged, mut changed) = (Vec::new(), bytes.clone());
        Body::plain(&payload).seal(whole.meta.id, handle.offset, &mut forged);
        changed[range.clone()].copy_from_slice(&forged);
        whole.env.write_file(&whole.path, &changed);
        let reader = whole.open(mode).unwrap();
        let mut cursor = reader.cursor();
        cursor.seek_to_first().unwrap();
        match walk(&mut cursor, rows.len()) {
            Err(Error::Corruption(found)) => assert!(range.contains(&(found.offset as usize))),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A file whose checksums are right and whose content is not: forged, or written by a bug.
    #[test]
    fn a_forged_block_never_panics(
        block in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        mode in prop::sample::select(&MODES[..]),
    ) {
        let rows = rows();
        let fixture = Fixture::write(&rows, options(None));
        let mut bytes = fixture.env.read_file(&fixture.path).unwrap();
        let blocks = stored_blocks(&fixture, &bytes);
        // The directory and the index are few among many, and where most can go wrong.
        let few = &blocks[data_blocks(&fixture.open(mode).unwrap()).len()..];
        let (offset, len) = *block.get(&[&blocks[..], few, few, few].concat());
        let range = offset as usize..offset as usize + len;
        let mut payload = Frame::parse(&bytes[range.clone()]).unwrap().payload.to_vec();
        for (at, byte) in changes {
            *at.get_mut(&mut payload) = byte;
        }
        let mut forged = Vec::new();
        let at = crate::cache::BlockOffset(offset);
        Body::plain(&payload).seal(fixture.meta.id, at, &mut forged);
        bytes[range].copy_from_slice(&forged);
        fixture.env.write_file(&fixture.path, &bytes);
        let _ = poke(&fixture, &rows, mode);
    }
}

fn all_damage_free(fixture: &Fixture, mode: ReadMode) -> bool {
    scan(fixture.open(mode).unwrap().cursor()).is_ok()
}

#[test]
fn a_format_of_a_later_version_is_named() {
    let fixture = Fixture::write(&rows(), options(None));
    let mut bytes = fixture.env.read_file(&fixture.path).unwrap();
    let format = bytes.len() - 16;
    bytes[format] = 3;
    let crc = {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[format..format + 4]);
        hasher.update(&bytes[format + 8..]);
        hasher.finalize()
    };
    bytes[format + 4..format + 8].copy_from_slice(&crc.to_le_bytes());
    fixture.env.write_file(&fixture.path, &bytes);
    for mode in MODES {
        let opened = fixture.open(mode);
        assert!(matches!(opened, Err(Error::UnsupportedFormat { found: 3, supported: 2, .. })));
    }
}
