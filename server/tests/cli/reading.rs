//! Query, tables, stat: what people are shown.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tablestone::{Database, Entity, Options};

use crate::processes::Watched;
use crate::support::{Shell, example, on_each_place};

const PEOPLE: &str = r#"{"PartitionKey":"a","RowKey":"1","Name":"Änne","Age":7}
{"PartitionKey":"a","RowKey":"2","Name":"Bob, Jr.","Age":41,"Note":"two\nlines"}
{"PartitionKey":"b","RowKey":"1","Name":"名前","Weight":70.5}
"#;

#[test]
fn a_query_is_an_aligned_table() {
    let expected = "\
PartitionKey  RowKey  Name      Age  Note        Weight
------------  ------  --------  ---  ----------  ------
a             1       Änne        7
a             2       Bob, Jr.   41  two\\nlines
b             1       名前                         70.5
";
    on_each_place(|shell, run| {
        shell.write("people.jsonl", PEOPLE);
        run("import people.jsonl --table people", &[]).out();
        assert_eq!(run("query people", &[]).out(), expected);
        assert_eq!(run("query people --json", &[]).out(), PEOPLE);
        assert_eq!(run("query People --format json --top 1", &[]).out().lines().count(), 1);
        let csv = run("query people --format csv --top 2", &[]).out();
        let expected =
            "PartitionKey,RowKey,Name,Age,Note\na,1,Änne,7,\na,2,\"Bob, Jr.\",41,\"two\nlines\"\n";
        assert_eq!(csv, expected);
        let old = run("query people --select Name,Age --filter", &["Age gt 7"]).out();
        assert_eq!(old, "Name      Age\n--------  ---\nBob, Jr.   41\n");
        let none =
            run("query people --json --select Age,RowKey --filter", &["PartitionKey eq 'b'"]);
        assert_eq!(none.out(), "{\"Age\":null,\"RowKey\":\"1\"}\n");
        let stamp = run("query people --json --top 1 --select Timestamp", &[]).out();
        let stamp: Value = serde_json::from_str(&stamp).unwrap();
        let stamp: tablestone::DateTime = stamp["Timestamp"].as_str().unwrap().parse().unwrap();
        let age = std::time::SystemTime::now().duration_since(stamp.to_system_time().unwrap());
        assert!(age.unwrap().as_secs() < 3600, "{stamp}");
    });
}

/// What addresses give a meaning to is text in a filter.
#[test]
fn filters_have_any_text() {
    let odd = "a&b=c+d%20#?/ 'ä';";
    on_each_place(|shell, run| {
        let line = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"A\":\"{odd}\"}}\n");
        shell.write("odd.jsonl", &(line.clone() + "{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}"));
        run("import odd.jsonl --table odd", &[]).out();
        let filter = format!("A eq '{}'", odd.replace('\'', "''"));
        assert_eq!(run("query odd --json --filter", &[&filter]).out(), line);
    });
}

/// A filter may begin with a number below zero.
#[test]
fn filters_may_begin_with_a_minus() {
    on_each_place(|shell, run| {
        let line = |a: i32| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{a}\",\"A\":{a}}}\n");
        shell.write("numbers.jsonl", &(line(-3) + &line(7)));
        run("import numbers.jsonl --table numbers", &[]).out();
        assert_eq!(run("query numbers --json --filter", &["-1 lt A"]).out(), line(7));
        assert_eq!(run("export --table numbers --filter", &["-1 gt A"]).out(), line(-3));
    });
}

#[test]
fn a_plan_is_explained() {
    let shell = Shell::new();
    let explain = |filter: &str| shell.out(&["query", "any", "--explain", "--filter", filter]);
    assert_eq!(
        explain("PartitionKey eq 'DE' and Latitude gt 54.0"),
        "partition \"DE\"; then filter: Latitude gt 54.0\n"
    );
    assert_eq!(shell.out(&["query", "any", "--explain"]), "table scan\n");
    let object = shell.out(&["query", "any", "--explain", "--json", "--filter", "A eq 'x'"]);
    assert_eq!(object, "{\"plan\":\"table scan; then filter: A eq 'x'\"}\n");
}

/// Pages of a server, and more entities than a table for people has.
#[test]
fn long_answers_are_cut_for_people_and_whole_for_programs() {
    on_each_place(|_, run| {
        run("import --table cities", &[&example("cities-sample.jsonl.zst")]).out();
        let shown = run("query cities", &[]);
        assert!(shown.err.contains("the first 1000: --top N shows more"), "{}", shown.err);
        assert_eq!(shown.out().lines().count(), 1_002);
        assert_eq!(run("query cities --top 2345", &[]).out().lines().count(), 2_347);
        let germany = ["PartitionKey eq 'DE'"];
        assert_eq!(run("query cities --json --filter", &germany).out().lines().count(), 7_650);
    });
}

#[test]
fn tables_and_stat_tell_of_a_directory() {
    let shell = Shell::new();
    shell.out(&["import", &example("cities-sample.jsonl.zst"), "--table", "cities"]);
    shell.write("people.jsonl", PEOPLE);
    shell.out(&["import", "people.jsonl", "--table", "People"]);
    let tables = shell.out(&["tables", "--json"]);
    let tables: Vec<Value> =
        tables.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tables.len(), 2);
    assert_eq!(
        (&tables[0]["TableName"], &tables[1]["TableName"]),
        (&"cities".into(), &"People".into())
    );
    let entities = tables[0]["estimatedEntities"].as_u64().unwrap();
    assert!((6_000..30_000).contains(&entities), "{entities}");
    assert!(tables[0]["estimatedBytes"].as_u64() > tables[1]["estimatedBytes"].as_u64());
    let text = shell.out(&["tables"]);
    assert!(
        text.starts_with("table   entities, about  bytes, about\n") && text.lines().count() == 4,
        "{text}"
    );

    let help = shell.out(&["tables", "--help"]);
    assert!(help.contains("overwritten and deleted ones count until they are compacted"), "{help}");

    let stat: Value = serde_json::from_str(&shell.out(&["stat", "--json"])).unwrap();
    let bytes = stat["fileBytes"].as_u64().unwrap() + stat["memtableBytes"].as_u64().unwrap();
    assert!(bytes > 500_000, "{stat}");
    assert!(stat["levels"].is_array() && stat["debtBytes"].is_u64(), "{stat}");
    let text = shell.out(&["stat"]);
    for what in ["level  files  bytes", "table files", "debt", "cached"] {
        assert!(text.contains(what), "{text}");
    }
}

/// Of any directory, a program's own as a server's; beside who has it open, what to do instead is what can be done.
#[test]
fn stat_tells_of_any_directory_and_where_else_to_ask() {
    let shell = Shell::new();
    let database = Database::open(shell.path("program"), Options::default()).unwrap();
    let people = database.create_table("people").wait().unwrap();
    people.insert("a", "1", "Anna").wait().unwrap();
    let stat = ["stat", "--json", "--data", "program"];
    let failure = shell.run(&stat).failure(1);
    let expected =
        "error: program is open in another process; a server tells much of it at /metrics";
    assert!(failure.starts_with(expected) && !failure.contains("--url"), "{failure}");
    drop(people);
    database.close().unwrap();
    let stat: Value = serde_json::from_str(&shell.out(&stat)).unwrap();
    let bytes = stat["fileBytes"].as_u64().unwrap() + stat["memtableBytes"].as_u64().unwrap();
    assert!(bytes > 0, "{stat}");
}

/// What there is to compact is left to who writes, too: who reads does not know how files are to be
/// compressed.
#[test]
fn what_reads_a_directory_changes_nothing_in_it_and_others_may_read_meanwhile() {
    let shell = Shell::new();
    shell.write("people.jsonl", PEOPLE);
    shell.out(&["import", "people.jsonl", "--table", "people"]);
    let data = shell.path("tablestone-data");
    let database = Database::open(&data, Options::default().background_threads(0)).unwrap();
    let names = database.tables(None, 9).unwrap().names;
    let people = names.iter().find(|name| name.contains("/people/")).unwrap();
    let people = database.table(people).unwrap().entities();
    let text = "x".repeat(30_000);
    for row in 0..12 {
        let entity = Entity::new("c", row.to_string()).with("Text", &*text);
        people.insert(&entity).wait().unwrap();
        database.flush().unwrap();
    }
    drop(people);
    database.close().unwrap();
    let files = || {
        let paths = std::fs::read_dir(&data).unwrap().map(|file| file.unwrap().path());
        paths.map(|path| (std::fs::read(&path).unwrap(), path)).collect::<BTreeSet<_>>()
    };
    let before = files();
    assert!(before.len() >= 12, "{} files", before.len());
    // It waits for who reads more than a pipe holds, for long enough to compact this many times.
    let mut child = shell.command(&["export", "--table", "people"]).spawn().unwrap();
    let _watched = Watched::new(&child);
    let mut exported = BufReader::new(child.stdout.take().unwrap());
    exported.read_line(&mut String::new()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    for command in ["stat", "verify", "tables"] {
        shell.out(&[command]);
    }
    let written = shell.run(&["import", "people.jsonl", "--table", "people"]).failure(1);
    assert!(written.contains("is open in another process"), "{written}");
    assert!(files() == before);
    exported.read_to_end(&mut Vec::new()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(files() == before);
}

/// A directory may be of a program that has not made its tables yet, or of a server that was killed.
#[test]
fn what_reads_a_directory_makes_and_drops_nothing() {
    let shell = Shell::new();
    let names = |data: &str| {
        let database = Database::open(shell.path(data), Options::default()).unwrap();
        let names = database.tables(None, 9).unwrap().names;
        database.close().unwrap();
        names
    };
    Database::open(shell.path("program"), Options::default()).unwrap().close().unwrap();
    shell.out(&["stat", "--data", "program"]);
    assert_eq!(shell.out(&["tables", "--json", "--data", "program"]), "");
    shell.run(&["export", "--table", "people", "--data", "program"]).failure(1);
    assert!(names("program").is_empty());

    shell.write("people.jsonl", PEOPLE);
    shell.out(&["import", "people.jsonl", "--table", "people", "--data", "served"]);
    let database = Database::open(shell.path("served"), Options::default()).unwrap();
    database.create_table("devstoreaccount1/half/1").wait().unwrap();
    let intent = Entity::new("devstoreaccount1", "create:devstoreaccount1/half/1");
    database.table("$meta").unwrap().entities().insert(&intent).wait().unwrap();
    database.close().unwrap();
    let before = names("served");
    for command in
        [&["stat"][..], &["tables"], &["query", "people"], &["export", "--table", "people"]]
    {
        shell.out(&[command, &["--data", "served"]].concat());
        assert_eq!(names("served"), before, "{command:?}");
    }
    shell.out(&["import", "people.jsonl", "--table", "people", "--data", "served"]);
    assert_eq!(names("served").len(), before.len() - 1, "who writes ends what was begun");
}

#[test]
fn an_account_has_its_own_tables() {
    let shell = Shell::new();
    shell.write("people.jsonl", PEOPLE);
    shell.out(&["import", "people.jsonl", "--table", "people", "--account", "mine"]);
    assert_eq!(shell.out(&["tables", "--json"]), "");
    assert!(shell.out(&["tables", "--account", "mine"]).contains("people"));
}

/// A reader that has seen enough is no failure.
#[test]
fn output_may_be_closed_early() {
    let shell = Shell::new();
    shell.out(&["import", &example("cities-sample.jsonl.zst"), "--table", "cities"]);
    for command in [&["export", "--table"][..], &["query", "--format", "csv"], &["query", "--json"]]
    {
        let mut child = shell.command(&[command, &["cities"]].concat()).spawn().unwrap();
        let _watched = Watched::new(&child);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains("PartitionKey"), "{line}");
        drop(out);
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*errors), (Some(0), ""));
    }
    // So too for what is said beside it, whether or not the command succeeds.
    for (command, code) in [(["query", "cities"], 0), (["query", "missing"], 1)] {
        let mut child = shell.command(&command).stdout(Stdio::null()).spawn().unwrap();
        let _watched = Watched::new(&child);
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

/// Linux: it has a device that is full.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_named() {
    use crate::support::finish;

    let shell = Shell::new();
    shell.write("rows.jsonl", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    shell.out(&["import", "rows.jsonl", "--table", "abc"]);
    let full = || std::fs::File::create("/dev/full").unwrap();
    for command in ["export --table abc", "export --table abc --format csv", "query abc", "tables"]
    {
        let mut command = shell.command(&command.split(' ').collect::<Vec<_>>());
        command.stdout(full());
        let failure = finish(command, "").failure(1);
        assert!(failure.starts_with("error: cannot write stdout: No space left"), "{failure}");
    }
    let failure = shell.run(&["export", "--table", "abc", "-o", "/dev/full"]).failure(1);
    assert!(failure.starts_with("error: cannot write /dev/full: No space left"), "{failure}");
}
