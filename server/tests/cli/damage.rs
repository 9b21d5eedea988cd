//! A damaged data directory: `verify` says what is damaged and where, `salvage` keeps what is whole and gives
//! tables the names back that the catalog has lost.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tablestone::{Database, Entity, EntityTable, Options, Precondition, Recovery};

use crate::support::{Server, Shell, with_engine};

const ACCOUNT: &str = "devstoreaccount1";
const PEOPLE: &str = "{\"PartitionKey\":\"a\",\"RowKey\":\"1\",\"Name\":\"Ann\"}\n\
                      {\"PartitionKey\":\"a\",\"RowKey\":\"2\",\"Name\":\"Bob\"}\n";
const ONE: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n";
const SALVAGE: [&str; 3] = ["salvage", "--data", "data"];
const VERIFY: [&str; 3] = ["verify", "--data", "data"];

/// A shell with a data directory that has the table People.
fn shell() -> Shell {
    let shell = Shell::new();
    import(&shell, "People", PEOPLE);
    shell
}

fn import(shell: &Shell, table: &str, lines: &str) {
    shell.write("lines.jsonl", lines);
    shell.out(&["import", "lines.jsonl", "--table", table, "--data", "data"]);
}

fn query(shell: &Shell, table: &str) -> String {
    shell.out(&["query", table, "--json", "--data", "data"])
}

fn tables(shell: &Shell) -> Vec<String> {
    let lines = shell.out(&["tables", "--json", "--data", "data"]);
    let table = |line: &str| serde_json::from_str::<Value>(line).unwrap()["TableName"].clone();
    lines.lines().map(|line| table(line).as_str().unwrap().to_owned()).collect()
}

fn object(shell: &Shell, command: &[&str]) -> Value {
    serde_json::from_str(&shell.out(&[command, &["--json"]].concat())).unwrap()
}

/// The files of the data directory whose names have this in them, the longest last.
fn files(shell: &Shell, part: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(shell.path("data")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.file_name().unwrap().to_str().unwrap().contains(part)).collect();
    files.sort_by_key(|path| length(path));
    files
}

fn length(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

fn flip_byte(path: &Path, at: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

fn catalog(database: &Database) -> EntityTable {
    database.table("$meta").unwrap().entities()
}

fn lose_row(shell: &Shell, table: &str) {
    with_engine(shell, |database| {
        let row = format!("table:{table}");
        catalog(database).delete(ACCOUNT, row, Precondition::Exists).wait().unwrap();
    });
}

/// Makes a table of the engine with an entity in it.
fn make(database: &Database, name: &str) {
    let table = database.create_table(name).wait().unwrap().entities();
    table.insert(&Entity::new("p", "r")).wait().unwrap();
}

fn engine_tables(shell: &Shell) -> Vec<String> {
    with_engine(shell, |database| database.tables(None, 100).unwrap().names)
}

#[test]
fn damage_in_a_table_file_is_told_and_the_rest_is_kept() {
    let shell = shell();
    // What comes in key order goes into a table file; what comes later stays in the log.
    let row = |row: u32| format!("{{\"PartitionKey\":\"a\",\"RowKey\":\"{row:04}\"}}\n");
    import(&shell, "numbers", &(0..5_000).map(row).collect::<String>());
    import(&shell, "numbers", ONE);

    let whole = object(&shell, &VERIFY);
    let tables = files(&shell, ".sst");
    assert_eq!(whole["files"], tables.len());
    assert_eq!(whole["fileBytes"], tables.iter().map(|path| length(path)).sum::<u64>());
    assert!(whole["logCommits"].as_u64().unwrap() > 2, "{whole}");
    assert_eq!(whole["tornTail"], Value::Null);
    let text = shell.out(&VERIFY);
    for what in ["whole table files", "bytes in them", "commits in the log"] {
        assert!(text.contains(what), "{text}");
    }

    let damaged = tables.last().unwrap();
    flip_byte(damaged, length(damaged) / 2);
    let name = damaged.file_name().unwrap().to_str().unwrap();
    for more in [&[][..], &["--json"]] {
        let failure = shell.run(&[&VERIFY, more].concat()).failure(1);
        let begin = format!("error: {damaged:?} is damaged at offset ");
        assert!(failure.starts_with(&begin), "{failure}");
        assert!(failure.contains(": expected ") && failure.contains(", found "), "{failure}");
        assert!(failure.ends_with("\n`tablestone salvage` keeps what is whole\n"), "{failure}");
    }
    let export =
        shell.run(&["export", "--table", "numbers", "--data", "data", "-o", "numbers.csv"]);
    assert!(export.failure(1).contains("\n`tablestone verify` tells more, and "));
    let merge =
        ["import", "lines.jsonl", "--table", "numbers", "--data", "data", "--mode", "merge"];
    shell.write("lines.jsonl", &(0..5_000).map(row).collect::<String>());
    let failure = shell.run(&merge).failure(1);
    let written = failure.lines().nth(1).unwrap();
    assert!(written.ends_with(" rows were written") && !written.starts_with("0 "), "{failure}");
    assert!(failure.contains("\n`tablestone verify` tells more, and "), "{failure}");

    let salvaged = shell.out(&SALVAGE);
    assert_eq!(salvaged.lines().count(), 1, "{salvaged}");
    assert!(salvaged.contains(name) && salvaged.contains("; lost with it: "), "{salvaged}");
    assert!(salvaged.contains(" of 5000 entries between keys "), "{salvaged}");
    assert!(!damaged.exists() && damaged.with_extension("damaged").exists());
    assert_eq!(object(&shell, &VERIFY)["files"], tables.len(), "what is whole is in a new one");
    assert_eq!(query(&shell, "people"), PEOPLE);
    let left = query(&shell, "numbers");
    assert!(left.ends_with(ONE), "{left}");
    let left = left.lines().count();
    assert!((4_000..5_001).contains(&left), "{left} of 5,001: a block is lost");
    assert_eq!(shell.out(&SALVAGE), "nothing is damaged\n");
}

#[test]
fn each_damaged_file_is_told_of() {
    let shell = shell();
    let row = |row: u32| format!("{{\"PartitionKey\":\"a\",\"RowKey\":\"{row:04}\"}}\n");
    for table in ["numbers", "others"] {
        import(&shell, table, &(0..2_000).map(row).collect::<String>());
    }
    let tables = files(&shell, ".sst");
    let damaged = &tables[tables.len() - 2..];
    damaged.iter().for_each(|path| flip_byte(path, length(path) / 2));
    let failure = shell.run(&VERIFY).failure(1);
    for path in damaged {
        let begin = format!("{path:?} is damaged at offset ");
        assert!(failure.contains(&begin), "{failure}");
    }
    assert_eq!(failure.lines().count(), 3, "{failure}");
    assert_eq!(shell.out(&SALVAGE).lines().count(), 2);
    assert_eq!(query(&shell, "people"), PEOPLE);
}

#[test]
fn a_directory_that_cannot_be_opened_is_told_what_can_be_done() {
    let shell = shell();
    let manifest = files(&shell, "MANIFEST").pop().unwrap();
    flip_byte(&manifest, 9);
    let name = manifest.file_name().unwrap().to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--log", "error"];
    for command in [&serve[..], &["tables", "--data", "data"], &["stat", "--data", "data"]] {
        let failure = shell.run(command).failure(1);
        assert!(failure.contains(name), "{failure}");
        let advice =
            "\n`tablestone verify` tells more, and `tablestone salvage` keeps what is whole\n";
        assert!(failure.ends_with(advice), "{failure}");
    }
    assert!(shell.run(&VERIFY).failure(1).contains(name));
    let salvaged = object(&shell, &SALVAGE);
    let lost = &salvaged["lost"][0];
    assert!(lost["file"].as_str().unwrap().ends_with(name), "{salvaged}");
    assert!(lost["offset"].is_u64() && lost["expected"].is_string() && lost["found"].is_string());
    assert_eq!(query(&shell, "people"), PEOPLE);
    let nothing = json!({ "lost": [], "catalog": null, "named": [], "kept": [] });
    assert_eq!(object(&shell, &SALVAGE), nothing);
}

#[test]
fn a_table_that_has_lost_its_row_is_named_again() {
    let shell = shell();
    lose_row(&shell, "people");
    assert_eq!(tables(&shell), [""; 0]);
    let salvaged = shell.out(&SALVAGE);
    let begin = "table people of account devstoreaccount1 is back: it has what is in devstoreaccount1/people/";
    assert!(salvaged.starts_with(begin) && salvaged.lines().count() == 1, "{salvaged}");
    assert_eq!((tables(&shell), query(&shell, "People")), (vec!["people".into()], PEOPLE.into()));
    assert_eq!(shell.out(&SALVAGE), "nothing is damaged\n");
    let server = Server::start(&shell, "data");
    assert_eq!(shell.out(&["query", "people", "--json", "--url", &server.url]), PEOPLE);
}

#[test]
fn a_name_that_is_taken_is_left_to_who_has_it() {
    let shell = shell();
    lose_row(&shell, "people");
    import(&shell, "people", ONE);
    let before = engine_tables(&shell);
    for _ in 0..2 {
        let salvaged = object(&shell, &SALVAGE);
        assert_eq!(salvaged["named"], json!([]));
        let kept = salvaged["kept"].as_array().unwrap();
        assert_eq!(kept.len(), 1, "{salvaged}");
        assert!(before.contains(&kept[0]["engineTable"].as_str().unwrap().to_owned()));
        assert_eq!(kept[0]["reason"], "account devstoreaccount1 has another table people");
    }
    assert_eq!((engine_tables(&shell), query(&shell, "people")), (before, ONE.into()));
    let text = shell.out(&SALVAGE);
    assert!(text.contains(" is kept under this name, and not served: account "), "{text}");
}

/// Where the log is gone, so are the names of all tables, and the catalog.
#[test]
fn tables_that_have_lost_their_names_are_an_accounts() {
    for by_engine in [false, true] {
        let shell = shell();
        for log in files(&shell, ".log") {
            std::fs::remove_file(log).unwrap();
        }
        let failure = shell.run(&["tables", "--data", "data"]).failure(1);
        assert!(failure.contains("`tablestone salvage` keeps what is whole"), "{failure}");
        if by_engine {
            let options = Options::default().recovery(Recovery::Salvage);
            Database::open(shell.path("data"), options).unwrap().close().unwrap();
        }
        let salvaged = object(&shell, &[&SALVAGE[..], &["--account", "mine"]].concat());
        assert_eq!(salvaged["lost"].as_array().unwrap().is_empty(), by_engine, "{salvaged}");
        let named = salvaged["named"].as_array().unwrap();
        assert_eq!((named.len(), &named[0]["account"]), (1, &"mine".into()), "{salvaged}");
        let name = named[0]["TableName"].as_str().unwrap();
        let number = named[0]["engineTable"].as_str().unwrap().strip_prefix("recovered-").unwrap();
        assert_eq!(name, format!("recovered{number}"));
        let rows = shell.out(&["query", name, "--json", "--data", "data", "--account", "mine"]);
        assert_eq!(rows, PEOPLE);
        assert_eq!(shell.out(&SALVAGE), "nothing is damaged\n");
    }
}

#[test]
fn a_recovered_table_gets_the_next_name_that_is_free() {
    let shell = Shell::new();
    import(&shell, "Recovered7", ONE);
    with_engine(&shell, |database| make(database, "recovered-7"));
    let salvaged = object(&shell, &SALVAGE);
    assert_eq!(salvaged["named"][0]["TableName"], "recovered7x2");
    assert_eq!(tables(&shell), ["Recovered7", "recovered7x2"]);
}

/// What a deletion had begun with is gone; what a creation or a load had, holds entities and may have been a
/// table. It is kept, also where it gets no name.
#[test]
fn intents_say_what_is_to_go() {
    let shell = shell();
    let name = |name: &str| format!("{ACCOUNT}/{name}/a3a1f7b0-52d1-4c8e-9f6e-0d9c7b0f4e11");
    with_engine(&shell, |database| {
        for (intent, table) in
            [("create", "filled"), ("delete", "deleted"), ("load", "loaded"), ("load", "people")]
        {
            make(database, &name(table));
            let intent = Entity::new(ACCOUNT, format!("{intent}:{}", name(table)));
            catalog(database).insert(&intent).wait().unwrap();
        }
        // Nobody misses a table that nothing was in.
        database.create_table(&name("empty")).wait().unwrap();
    });
    let salvaged = object(&shell, &SALVAGE);
    let named = ["filled", "loaded"]
        .map(|table| json!({ "account": ACCOUNT, "TableName": table, "engineTable": name(table) }));
    let reason = format!("account {ACCOUNT} has another table people");
    let kept = json!([{ "engineTable": name("people"), "reason": reason }]);
    let expected = json!({ "lost": [], "catalog": null, "named": named, "kept": kept });
    assert_eq!(salvaged, expected);
    assert_eq!(tables(&shell), ["filled", "loaded", "People"]);
    drop(Server::start(&shell, "data"));
    assert_eq!((query(&shell, "filled"), query(&shell, "loaded")), (ONE.into(), ONE.into()));
    let left = engine_tables(&shell);
    assert!(!left.contains(&name("deleted")) && left.contains(&name("people")), "{left:?}");
}

#[test]
fn a_database_that_no_server_made_gets_no_catalog() {
    let shell = Shell::new();
    with_engine(&shell, |database| {
        make(database, "people");
        make(database, "recovered-7");
    });
    let salvaged = object(&shell, &SALVAGE);
    assert_eq!(salvaged["named"], json!([]));
    assert_eq!(salvaged["kept"].as_array().unwrap().len(), 2, "{salvaged}");
    assert_eq!(salvaged["kept"][0]["reason"], "no server made this database");
    assert_eq!(engine_tables(&shell), ["people", "recovered-7"]);
}

#[test]
fn a_place_without_a_directory_is_explained() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("empty")).unwrap();
    std::fs::create_dir(shell.path("locked")).unwrap();
    shell.write("locked/LOCK", "");
    for command in ["verify", "salvage"] {
        for data in ["missing", "empty", "locked"] {
            let failure = shell.run(&[command, "--data", data]).failure(1);
            let expected =
                format!("error: there is no data directory {data}: name one with --data\n");
            assert_eq!(failure, expected);
        }
        let url = shell.run(&[command, "--url", "http://127.0.0.1:1/mine"]).failure(1);
        assert!(
            url.starts_with(&format!("error: {command} works on a data directory (--data DIR)"))
        );
        let text = "AccountName=mine;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:1/mine";
        let remote = shell.run(&[command, "--connection-string", text]).failure(1);
        assert_eq!(remote, url);
        assert_eq!(shell.run(&[command, "--quick"]).code, Some(2));
    }
    assert!(!shell.path("missing").exists() && files_in(&shell, "empty") == 0);
    std::fs::create_dir(shell.path("other")).unwrap();
    shell.write("other/notes.txt", "");
    let other = shell.run(&["salvage", "--data", "other"]).failure(1);
    assert!(other.contains("is not a tablestone database"), "{other}");
    assert_eq!(files_in(&shell, "other"), 1);
    let account = shell.run(&["salvage", "--data", "other", "--account", "My"]).failure(1);
    assert!(account.contains("\"My\" is no account's name"), "{account}");
}

fn files_in(shell: &Shell, directory: &str) -> usize {
    std::fs::read_dir(shell.path(directory)).unwrap().count()
}

#[test]
fn a_directory_that_a_server_has_open_is_left_alone() {
    let shell = shell();
    let _server = Server::start(&shell, "data");
    for (command, instead) in
        [(VERIFY, "verify works once that has ended"), (SALVAGE, "salvage needs it for itself")]
    {
        let failure = shell.run(&command).failure(1);
        assert_eq!(failure, format!("error: data is open in another process; {instead}\n"));
    }
}

/// The next salvage finds no damage any more, so this one tells of it whatever comes after.
#[test]
fn what_is_lost_is_told_even_if_tables_cannot_be_named() {
    let shell = shell();
    with_engine(&shell, |database| {
        let catalog = database.table("$meta").unwrap();
        catalog.insert(ACCOUNT, "table:odd", "no entity").wait().unwrap();
    });
    let damaged = files(&shell, ".sst").pop().unwrap();
    flip_byte(&damaged, 9);
    for lost in [1, 0] {
        let salvaged = shell.run(&SALVAGE);
        assert_eq!((salvaged.code, salvaged.out.lines().count()), (Some(1), lost), "{salvaged:?}");
        assert!(
            salvaged.err.starts_with("error: cannot read the catalog of tables: "),
            "{salvaged:?}"
        );
    }
}
