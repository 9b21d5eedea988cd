//! R-S12: an import over more connections than a server has makes do with those that it has.

use std::fmt::Write;

use crate::support::{Server, Shell};

#[test]
fn r_s12_an_import_makes_do_with_the_connections_that_there_are() {
    let shell = Shell::new();
    let mut input = String::new();
    for number in 1_000..3_000 {
        writeln!(input, r#"{{"PartitionKey":"{number}","RowKey":"r"}}"#).unwrap();
    }
    shell.write("rows.jsonl", &input);
    for connections in ["1", "8"] {
        shell.write("few.toml", &format!("limits.connections = {connections}"));
        let server = Server::with(&shell, connections, &["--config", "few.toml"]);
        for mode in ["insert", "replace", "merge"] {
            let import = ["import", "rows.jsonl", "--table", mode, "--mode", mode];
            let more = ["--connections", "256", "--url", &server.url];
            let said = shell.out(&[&import[..], &more].concat());
            assert!(said.starts_with("2000 rows"), "{said}");
        }
        let exported = shell.out(&["export", "--table", "insert", "--url", &server.url]);
        assert_eq!(exported, input);
    }
}
