//! Where the system has no thread to give, a command says so, or makes do with those that it has.

use std::fmt::Write;

use crate::support::{Server, Shell, finish};

const NO_THREAD: &str = "error: cannot start a thread: ";

/// Whichever of its threads is the first that it does not get: none is waited for that never comes.
#[test]
fn a_server_that_does_not_get_its_threads_says_so() {
    let shell = Shell::new();
    let serve = ["serve", "--log", "error", "--data", "data", "--listen"];
    for threads in 0..12 {
        // Where it gets all, there is no such address to listen on.
        let failure = finish(shell.cramped(threads, &[&serve[..], &["192.0.2.1:1"]].concat()), "");
        let failure = failure.failure(1);
        let said =
            [NO_THREAD, "error: cannot start the background threads of ", "error: cannot listen"];
        assert!(said.iter().any(|said| failure.starts_with(said)), "{threads}: {failure}");
        assert_eq!(failure.lines().count(), 1, "{failure}");
    }
}

#[test]
fn an_export_that_gets_no_thread_says_so_and_leaves_nothing() {
    let shell = Shell::new();
    shell.write("one.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    let server = Server::start(&shell, "data");
    let url = ["--url", &server.url];
    shell.out(&[&["import", "one.jsonl", "--table", "one"][..], &url].concat());
    let export = [&["export", "--table", "one", "-o", "out.jsonl"][..], &url].concat();
    let failure = finish(shell.cramped(0, &export), "").failure(1);
    assert!(
        failure.starts_with("error: cannot write out.jsonl: Resource temporarily"),
        "{failure}"
    );
    let names = std::fs::read_dir(shell.path("")).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["data", "one.jsonl"]);
}

/// R-S12: as it does with the connections that a server lets it have.
#[test]
fn r_s12_an_import_makes_do_with_the_threads_that_there_are() {
    let shell = Shell::new();
    let mut input = String::new();
    for number in 1_000..1_500 {
        writeln!(input, r#"{{"PartitionKey":"{number}","RowKey":"r"}}"#).unwrap();
    }
    shell.write("rows.jsonl", &input);
    let server = Server::start(&shell, "data");
    let import = |threads, table: &str| {
        let import = ["import", "rows.jsonl", "--table", table, "--connections", "256"];
        finish(shell.cramped(threads, &[&import[..], &["--url", &server.url]].concat()), "")
    };
    let none = import(0, "none").failure(1);
    assert!(none.starts_with(NO_THREAD) && none.ends_with("\n0 rows were written\n"), "{none}");
    let some = import(3, "some").out();
    assert!(some.starts_with("500 rows"), "{some}");
    let export = |table| shell.out(&["export", "--table", table, "--url", &server.url]);
    assert_eq!(export("some"), input);
    let tables = shell.out(&["tables", "--json", "--url", &server.url]);
    assert_eq!(tables.lines().count(), 1, "none is made for nothing: {tables}");
}
