//! Where the process may have few files open, a command says so, or makes do with them.

use std::fmt::Write;

use crate::support::{Server, Shell, finish};

/// Whichever is the first that it does not get.
#[test]
fn a_command_that_gets_no_descriptor_says_so() {
    let shell = Shell::new();
    shell.write("one.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    let server = Server::start(&shell, "data");
    shell.out(&["import", "one.jsonl", "--table", "one", "--url", &server.url]);
    let export = ["export", "--table", "one", "-o", "out.jsonl", "--url", &server.url];
    let import = ["import", "one.jsonl", "--table", "one", "--url", &server.url];
    // Where it gets all, there is no such address to listen on.
    let serve = ["serve", "--log", "error", "--data", "served", "--listen", "192.0.2.1:1"];
    for number in 4..20 {
        for arguments in [&export[..], &import, &serve] {
            let ran = finish(shell.with_descriptors(number, arguments), "");
            if ran.code != Some(0) {
                let failure = ran.failure(1);
                assert!(failure.starts_with("error: cannot "), "{number}: {failure}");
                assert_eq!(failure.lines().count(), 1, "{failure}");
            }
        }
    }
    assert_eq!(shell.read("out.jsonl"), shell.read("one.jsonl"));
}

/// R-S12: over as many connections as there are descriptors for.
#[test]
fn r_s12_an_import_makes_do_with_the_descriptors_that_there_are() {
    let shell = Shell::new();
    let mut input = String::new();
    for number in 1_000..1_200 {
        writeln!(input, r#"{{"PartitionKey":"{number}","RowKey":"r"}}"#).unwrap();
    }
    shell.write("rows.jsonl", &input);
    let server = Server::start(&shell, "data");
    for number in [6, 10, 20] {
        let table = format!("few{number}");
        let import = ["import", "rows.jsonl", "--table", &table, "--url", &server.url];
        let import = [&import[..], &["--connections", "64"]].concat();
        let said = finish(shell.with_descriptors(number, &import), "").out();
        assert!(said.starts_with("200 rows"), "{said}");
    }
}
