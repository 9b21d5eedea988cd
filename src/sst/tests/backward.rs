//! What a cursor decodes to go back.

use super::*;

/// R-E19: a scan in reverse passes range tombstones by such seeks, and wants one key after each. Who goes on gets longer
/// runs.
#[test]
fn a_seek_backward_decodes_the_entries_of_one_restart() {
    let key = |n: u32| key::encode(key::TableId::FIRST, b"p", format!("{n:06}").as_bytes());
    let rows: Vec<Row> = (0..2_000).map(|n| Row::put(key(n), 7, b"value".to_vec())).collect();
    let fixture = Fixture::write(&rows, WriterOptions::default());
    for mode in MODES {
        let reader = fixture.open(mode).unwrap();
        let mut cursor = reader.cursor();
        let mut decoded = Vec::new();
        for n in (1..2_000).step_by(7) {
            cursor.seek_before(&key(n)).unwrap();
            assert_eq!(cursor.key(), key(n - 1));
            decoded.push(cursor.run.len());
            cursor.previous_key().unwrap();
            assert_eq!(cursor.valid(), n > 1);
        }
        // The key itself is the first of a run for one in sixteen.
        let longer = decoded.iter().filter(|decoded| **decoded >= 16).count();
        assert!(longer * 10 < decoded.len(), "{longer} of {}", decoded.len());

        cursor.seek_to_last().unwrap();
        let mut longest = 0;
        for n in (0..2_000).rev() {
            assert_eq!(cursor.key(), key(n));
            longest = longest.max(cursor.run.len());
            cursor.previous_key().unwrap();
        }
        assert!(longest > 48, "{longest}");
    }
}
