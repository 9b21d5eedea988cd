//! Estimates, shares and split keys of a file are near the truth, and add up (R-E23).

use super::*;

const ROWS: u32 = 30_000;

/// A file of so many rows, whose keys are their numbers, with many index partitions.
fn small_blocks() -> Fixture {
    let row = |n: u32| Row::put(n.to_be_bytes().into(), 1, vec![7; 50]);
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    let options = WriterOptions { block_bytes: 512, ..WriterOptions::default() };
    Fixture::write(&rows, options)
}

fn of_small_blocks() -> Reader {
    small_blocks().open(ReadMode::Mmap).unwrap()
}

fn data_bytes(reader: &Reader) -> u64 {
    reader.directory().top.handle(0).unwrap().offset.0
}

/// R-E23
#[test]
fn estimates_count_entries_and_share_out_bytes() {
    let rows = entities(5_000, 1, 100);
    let fixture = Fixture::write(&rows, WriterOptions::default());
    let reader = fixture.open(ReadMode::Pread).unwrap();
    let data_bytes = data_bytes(&reader);
    for (from, to) in [(0, 5_000), (0, 1), (10, 10), (20, 10), (77, 4_321), (4_999, 5_000)] {
        let key = |i: usize| rows.get(i).map_or(vec![0xFF], |row| row.key.clone());
        let estimate = reader.estimate(&key(from), &key(to)).unwrap();
        let count = to.saturating_sub(from) as u64;
        assert_eq!(estimate.entries, count);
        let bytes = data_bytes * count / 5_000;
        assert!(estimate.bytes.abs_diff(bytes) < 300, "{} {bytes}", estimate.bytes);
    }
    assert_eq!(reader.estimate(b"", &[0xFF]).unwrap().entries, 5_000);
}

/// What the index's fences say is right to about a partition, and adds up.
#[test]
fn shares_are_about_those_of_the_entries() {
    let (count, reader) = (ROWS, of_small_blocks());
    let partition = 1.0 / (reader.directory().top.len() - 1) as f64;
    assert!(partition < 0.1, "{partition}");
    let share = |from: u32, to: u32| reader.share(&from.to_be_bytes(), &to.to_be_bytes());
    for (from, to) in [(0, 300), (10_000, 15_000), (15_000, 30_000), (7, 8), (7, 7)] {
        let expected = f64::from(to - from) / f64::from(count);
        let (found, middle) = (share(from, to), from.midpoint(to));
        assert!((found - expected).abs() <= partition, "{from}..{to}: {found}");
        let parts = share(from, middle) + share(middle, to);
        assert!((found - parts).abs() < 1e-9, "{from}..{to}: {found} {parts}");
    }
    assert_eq!((reader.share(b"", &[0xFF]), share(count, u32::MAX)), (1.0, 0.0));
    let parts: f64 = (0..count).step_by(150).map(|n| share(n, n + 75)).sum();
    assert!((0.35..0.65).contains(&parts), "half of all, in many ranges: {parts}");
}

/// R-E23
#[test]
fn split_keys_ascend_and_account_for_all_blocks() {
    let rows = entities(5_000, 10, 100);
    let reader = Fixture::write(&rows, WriterOptions::default()).open(ReadMode::Mmap).unwrap();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut total = 0;
    reader
        .split_keys(b"", &[0xFF], 0, &mut |key, bytes| {
            assert!(keys.last().is_none_or(|last| **last < *key));
            keys.push(key.to_vec());
            total += bytes;
        })
        .unwrap();
    assert_eq!(total, data_bytes(&reader));
    assert_eq!(keys.len(), reader.directory().data_blocks);
    let (low, high) = (&rows[1000].key, &rows[2000].key);
    let mut inner = Vec::new();
    reader.split_keys(low, high, 0, &mut |key, _| inner.push(key.to_vec())).unwrap();
    let expected: Vec<_> = keys.into_iter().filter(|k| k > low && k < high).collect();
    assert_eq!(inner, expected);
}

/// However many blocks a file has, so many keys are shown as the grain allows, and each part has about as many bytes.
#[test]
fn split_keys_are_as_far_apart_as_is_asked() {
    let (count, reader) = (ROWS, of_small_blocks());
    let (all, partitions) = (data_bytes(&reader), reader.directory().top.len() as u64);
    assert!(partitions > 10, "{partitions}");
    for grain in [all / 100, all / 12, all / 3, all * 2] {
        let (mut shown, mut total, mut before) = (0, 0, 0);
        reader
            .split_keys(b"", &[0xFF], grain, &mut |key, bytes| {
                let padded: Vec<u8> = key.iter().copied().chain([0; 4]).take(4).collect();
                let rank = u32::from_be_bytes(padded.try_into().unwrap());
                let entries = u64::from(rank) - before;
                let expected = u128::from(all) * u128::from(entries) / u128::from(count);
                let error = u128::from(bytes).abs_diff(expected);
                assert!(error <= u128::from(all / 500), "{bytes} before {rank}: {expected}");
                (shown, total, before) = (shown + 1, total + bytes, u64::from(rank));
            })
            .unwrap();
        assert!(shown <= all / grain + 1, "{shown} keys with a grain of {grain} out of {all}");
        assert!(shown >= all / (grain + all / partitions * 2), "{shown}, {grain} out of {all}");
        assert!(total.abs_diff(all) <= partitions, "{total} {all}");
    }
}

/// Where blocks are damaged, what reads none of them goes on: an estimate of all, and keys far apart.
#[test]
fn what_the_directory_tells_is_not_read() {
    let fixture = small_blocks();
    let data = data_bytes(&fixture.open(ReadMode::Mmap).unwrap()) as usize;
    let mut bytes = fixture.env.read_file(&fixture.path).unwrap();
    bytes[..data + 1_000].fill(7);
    fixture.env.write_file(&fixture.path, &bytes);
    let reader = fixture.open(ReadMode::Mmap).unwrap();
    assert_eq!(reader.estimate(b"", &[0xFF]).unwrap().entries, u64::from(ROWS));
    assert!(reader.estimate(&7u32.to_be_bytes(), &[0xFF]).is_err());
    let split = |grain| reader.split_keys(b"", &[0xFF], grain, &mut |_, _| {});
    assert!(split(data as u64 / 3).is_ok() && split(0).is_err());
}
