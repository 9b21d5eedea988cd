//! Import into a new table of a data directory: entities in key order are loaded, and what does not
//! come in order is written as into any table, in every mode.

use std::io::Write;

use serde_json::Value;

use crate::processes::{self, Watched};
use crate::support::Shell;

fn line(partition: &str, row: &str, a: u32) -> String {
    format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"A\":{a}}}\n")
}

fn rows(partition: &str, rows: std::ops::Range<u32>) -> String {
    rows.map(|row| line(partition, &format!("{row:04}"), row)).collect()
}

/// Entities by level; level 0 and the log are where all writes but loads begin.
fn loaded(shell: &Shell) -> u64 {
    let stat: Value = serde_json::from_str(&shell.out(&["stat", "--json"])).unwrap();
    let levels = stat["levels"].as_array().unwrap().iter();
    levels.filter(|level| level["level"] != 0).map(|level| level["entries"].as_u64().unwrap()).sum()
}

fn import(shell: &Shell, mode: &str) -> crate::support::Ran {
    shell.run(&["import", "in.jsonl", "--table", "loaded", "--mode", mode])
}

const MODES: [&str; 3] = ["insert", "replace", "merge"];

#[test]
fn a_new_table_in_key_order_goes_straight_into_table_files() {
    for mode in MODES {
        let shell = Shell::new();
        let input = rows("p", 0..900) + &rows("q", 0..900);
        shell.write("in.jsonl", &input);
        let imported = import(&shell, mode).out();
        assert!(imported.starts_with("1800 rows into loaded of "), "{imported}");
        assert_eq!(loaded(&shell), 1800, "{mode}");
        assert!(shell.out(&["export", "--table", "loaded"]) == input);
        assert!(shell.out(&["tables"]).contains("loaded"));
        // What is there is written to as ever.
        let again = import(&shell, mode);
        match mode {
            "insert" => {
                let refused = again.failure(1);
                assert!(refused.contains("there is an entity of these keys"), "{refused}");
                assert!(refused.ends_with("\n0 rows were written\n"), "{refused}");
            }
            _ => assert!(again.out().starts_with("1800 rows")),
        }
        assert!(shell.out(&["export", "--table", "loaded"]) == input);
    }
}

/// Where space matters more, all files are compressed, and read as ever.
#[test]
fn files_are_compressed_as_is_said() {
    let stored = |how: &[&str]| {
        let shell = Shell::new();
        let input = rows("p", 0..5_000);
        shell.write("in.jsonl", &input);
        shell.out(&[&["import", "in.jsonl", "--table", "loaded"], how].concat());
        assert!(shell.out(&["export", "--table", "loaded"]) == input);
        let stat: Value = serde_json::from_str(&shell.out(&["stat", "--json"])).unwrap();
        let levels = stat["levels"].as_array().unwrap().iter();
        levels.map(|level| level["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    let plain = stored(&[]);
    assert!(stored(&["--compression", "zstd:3"]) < plain / 2);
    assert_eq!(stored(&["--compression", "none"]), plain);
    let shell = Shell::new();
    shell.write("in.jsonl", &rows("p", 0..1));
    let how = ["import", "in.jsonl", "--table", "loaded", "--compression", "zip"];
    assert!(shell.run(&how).failure(2).contains("\"zip\" is no compression: expected automatic"));
}

/// A file of a few bytes may add to entities that are far larger than a transaction may be.
#[test]
fn small_merges_go_into_large_entities() {
    let shell = Shell::new();
    let text = "x".repeat(32_000);
    let large: String =
        (b'B'..b'J').map(|name| format!(",\"{}\":\"{text}\"", name as char)).collect();
    let of = |more: &str| -> String {
        let line =
            |row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:02}\",\"A\":1{more}}}\n");
        (0..20).map(line).collect()
    };
    shell.write("in.jsonl", &of(&large));
    import(&shell, "insert").out();
    shell.write("in.jsonl", &of(",\"K\":2"));
    assert!(import(&shell, "merge").out().starts_with("20 rows"));
    assert!(shell.out(&["export", "--table", "loaded"]) == of(&format!("{large},\"K\":2")));
}

#[test]
fn what_comes_out_of_order_is_written_after_what_was_loaded() {
    for mode in MODES {
        let shell = Shell::new();
        shell.write("in.jsonl", &(rows("p", 100..400) + &rows("p", 0..50) + &rows("q", 0..50)));
        let imported = import(&shell, mode).out();
        assert!(imported.starts_with("400 rows into loaded of "), "{imported}");
        assert_eq!(loaded(&shell), 300, "{mode}");
        let expected = rows("p", 0..50) + &rows("p", 100..400) + &rows("q", 0..50);
        assert!(shell.out(&["export", "--table", "loaded"]) == expected);
    }
}

/// Keys that come again, right after the first and later: the modes say what becomes of them.
#[test]
fn the_same_keys_again_are_as_the_mode_has_it() {
    let more = "{\"PartitionKey\":\"p\",\"RowKey\":\"0299\",\"B\":1}\n";
    for mode in MODES {
        for between in ["", &rows("q", 0..7)] {
            let shell = Shell::new();
            shell.write("in.jsonl", &(rows("p", 0..300) + between + more));
            let imported = import(&shell, mode);
            let query = ["query", "loaded", "--json", "--filter", "RowKey eq '0299'"];
            let found = shell.out(&query);
            let written = 300 + between.lines().count();
            match mode {
                "insert" => {
                    let refused = imported.failure(1);
                    let place = format!(
                        "error: in.jsonl, line {}, entity (\"p\", \"0299\"): there is",
                        written + 1
                    );
                    assert!(refused.starts_with(&place), "{refused}");
                    let ends = format!("\n{written} rows were written\n");
                    assert!(refused.ends_with(&ends), "{refused}");
                    assert_eq!(found, line("p", "0299", 299));
                }
                _ => {
                    let counted = format!("{} rows", written + 1);
                    assert!(imported.out().starts_with(&counted));
                    let merged = more.replace("\"B\"", "\"A\":299,\"B\"");
                    assert_eq!(found, if mode == "merge" { merged } else { more.to_owned() });
                }
            }
        }
    }
}

#[test]
fn a_fault_leaves_all_before_it_loaded_or_not() {
    for (before, expected) in [
        (rows("p", 0..200), rows("p", 0..200)),
        (rows("p", 50..200) + &rows("p", 0..50), rows("p", 0..200)),
    ] {
        for mode in MODES {
            let shell = Shell::new();
            shell.write("in.jsonl", &format!("{before}[\n{}", rows("q", 0..9)));
            let count = before.lines().count();
            let failure = import(&shell, mode).failure(1);
            let place = format!("error: in.jsonl, line {}, column 1: ", count + 1);
            assert!(failure.starts_with(&place), "{failure}");
            assert!(failure.ends_with(&format!("\n{count} rows were written\n")), "{failure}");
            assert_eq!(shell.out(&["export", "--table", "loaded"]), expected);
        }
    }
}

/// More than a pipe holds, so that most of it was taken when all of it is written.
#[test]
fn an_interrupted_load_leaves_nothing_and_can_be_run_again() {
    let shell = Shell::new();
    let input = rows("p", 0..9999);
    assert!(input.len() > 300_000, "{}", input.len());
    let mut child = shell.command(&["import", "-", "--table", "loaded"]).spawn().unwrap();
    let _watched = Watched::new(&child);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    processes::tell_to_stop(&child);
    assert!(processes::was_stopped(child.wait().unwrap()));
    assert_eq!(shell.out(&["tables", "--json"]), "");
    assert_eq!(loaded(&shell), 0);
    shell.write("in.jsonl", &input);
    import(&shell, "insert").out();
    assert!(shell.out(&["export", "--table", "loaded"]) == input);
}
