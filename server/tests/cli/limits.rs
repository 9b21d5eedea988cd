//! An import within other limits than the table service's, which a configuration file says (R-S05).

use crate::support::{Server, Shell};

const CONFIG: &str =
    "[limits]\nkey_length = 600\n[limits.entity]\nname_length = 300\nstring_length = 40000";

/// A line of an entity with a long key, name or text.
fn line(key: usize, name: usize, text: usize) -> String {
    let (key, name, text) = ("k".repeat(key), "n".repeat(name), "é".repeat(text));
    format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{key}\",\"{name}\":\"{text}\"}}\n")
}

/// Into a directory and at a server that has them: what is exported there is what was imported.
#[test]
fn r_s05_an_import_keeps_the_limits_of_a_configuration() {
    let shell = Shell::new();
    shell.write("limits.toml", CONFIG);
    shell.write("long.jsonl", &(line(1, 1, 40_000) + &line(2, 300, 1) + &line(600, 1, 1)));
    let server = Server::with(&shell, "served", &["--config", "limits.toml"]);
    for place in [["--data", "data"], ["--url", &server.url]] {
        let import = ["import", "long.jsonl", "--table", "long", "--config", "limits.toml"];
        let said = shell.out(&[&import[..], &place].concat());
        assert!(said.starts_with("3 rows into long"), "{said}");
        let exported = shell.out(&[&["export", "--table", "long"][..], &place].concat());
        shell.write("again.jsonl", &exported);
        let again = ["import", "again.jsonl", "--table", "again", "--config", "limits.toml"];
        shell.out(&[&again[..], &place].concat());
        assert_eq!(shell.out(&[&["export", "--table", "again"][..], &place].concat()), exported);
        // A table that is there is written in other ways.
        let merge = ["--mode", "merge"];
        shell.out(&[&again[..], &place, &merge].concat());
        shell.out(&[&again[..], &place].concat());
    }
    // Limits of what a request may ask for are none of who has the directory.
    shell.write("limits.toml", &CONFIG.replace("key", "transaction_operations = 1\nkey"));
    let merge = ["--mode", "merge", "--data", "data"];
    let again = ["import", "again.jsonl", "--table", "again", "--config", "limits.toml"];
    shell.out(&[&again[..], &merge].concat());
}

/// What is beyond them is refused where it stands, also without a file: then they are the service's.
#[test]
fn r_s05_an_import_refuses_what_is_beyond_the_limits() {
    let shell = Shell::new();
    shell.write("limits.toml", CONFIG);
    let with = ["--config", "limits.toml"];
    for (line, expected, config) in [
        (line(513, 1, 1), "the RowKey is longer than 512 UTF-16 units", &[][..]),
        (line(1, 256, 1), "256 characters, over the limit of 255", &[]),
        (line(1, 1, 32_769), "32769 UTF-16 units, over the limit of 32768", &[]),
        (line(601, 1, 1), "the RowKey is longer than 600 UTF-16 units", &with),
        (line(1, 301, 1), "301 characters, over the limit of 300", &with),
        (line(1, 1, 40_001), "40001 UTF-16 units, over the limit of 40000", &with),
    ] {
        shell.write("long.jsonl", &line);
        let import = ["import", "long.jsonl", "--table", "long", "--data", "data"];
        let said = shell.run(&[&import[..], config].concat()).failure(1);
        assert!(said.contains(expected) && said.contains("long.jsonl, line 1"), "{said}");
    }
    shell.write("long.csv", &format!("PartitionKey,RowKey,{}\np,r,1\n", "n".repeat(300)));
    let import = ["import", "long.csv", "--table", "long", "--data", "data"];
    let said = shell.run(&import).failure(1);
    assert!(said.contains("over the limit of 255"), "{said}");
    shell.out(&[&import[..], &with].concat());
    shell.write("limits.toml", "[limits.entity]\nproperties = 256");
    let said = shell.run(&[&import[..], &with].concat()).failure(1);
    assert!(said.contains("limits.entity.properties is 256: expected 1 to 255"), "{said}");
}

/// R-S06: a server with smaller pages gives as many entities as are wanted all the same.
#[test]
fn r_s06_a_server_with_smaller_pages_is_read() {
    let shell = Shell::new();
    shell.write("small.toml", "limits.page_entities = 2");
    shell.write("five.jsonl", &(1..=5).map(|key| line(key, 1, 1)).collect::<String>());
    let server = Server::with(&shell, "served", &["--config", "small.toml"]);
    let place = ["--url", &server.url];
    shell.out(&[&["import", "five.jsonl", "--table", "five"][..], &place].concat());
    let query = |more: &[&str]| {
        let out = shell.out(&[&["query", "five", "--json"][..], more, &place].concat());
        out.lines().count()
    };
    assert_eq!((query(&[]), query(&["--top", "1"])), (5, 1));
    assert_eq!((query(&["--top", "3"]), query(&["--top", "9"])), (3, 5));
    let shown = shell.out(&[&["query", "five"][..], &place].concat());
    assert_eq!(shown.matches("\np ").count(), 5, "{shown}");
}

/// R-S12: a server that takes smaller transactions than the service does gets those, and all that was to be written.
#[test]
fn r_s12_a_server_with_smaller_transactions_is_written() {
    let shell = Shell::new();
    shell.write("rows.jsonl", &(1..=250).map(|key| line(key, 1, 100)).collect::<String>());
    shell.write("large.jsonl", &(line(1, 1, 100) + &line(2, 1, 20_000)));
    shell.write("long.jsonl", &(1..=60).map(|key| line(key, 1, 30_000)).collect::<String>());
    for limits in ["transaction_operations = 7", "body_bytes = 20000", "body_bytes = 5000"] {
        shell.write("small.toml", &format!("limits.{limits}"));
        let served = format!("served with {limits}");
        let server = Server::with(&shell, &served, &["--config", "small.toml"]);
        let place = ["--url", &server.url];
        let said = shell.out(&[&["import", "rows.jsonl", "--table", "rows"][..], &place].concat());
        assert!(said.starts_with("250 rows into rows"), "{said}");
        let exported = shell.out(&[&["export", "--table", "rows"][..], &place].concat());
        assert_eq!(exported.lines().count(), 250);
        if limits.starts_with("body") {
            let large = ["import", "large.jsonl", "--table", "large"];
            let said = shell.run(&[&large[..], &place].concat()).failure(1);
            let expected =
                "error: large.jsonl, line 2, entity (\"p\", \"kk\"): RequestBodyTooLarge: ";
            assert!(
                said.starts_with(expected) && said.ends_with("\n1 row was written\n"),
                "{said}"
            );
        }
    }
    shell.write("small.toml", "limits.body_bytes = 100000");
    let server = Server::with(&shell, "served long", &["--config", "small.toml"]);
    let long = ["import", "long.jsonl", "--table", "long", "--url", &server.url];
    assert!(shell.out(&long).starts_with("60 rows into long"));
}
