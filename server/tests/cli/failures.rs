//! What goes wrong is said where it is, with what was expected; exit codes are 1, or 2 for a wrong
//! command line.

use crate::support::{Server, Shell, THREE, finish, on_each_place, server_that};

#[test]
fn an_import_stops_at_the_first_fault_and_says_how_far_it_came() {
    let good = |number: u32| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{number}\"}}\n");
    on_each_place(|shell, run| {
        for (line, expected) in [
            (
                "{\"PartitionKey\":\"p\",\"RöwKey\" 1}",
                "line 3, column 30: expected a colon, found ",
            ),
            ("[", "line 3, column 1: expected an object, found "),
            (
                "{\"PartitionKey\":\"p\"}",
                "line 3: expected a member RowKey, or --row-key to name another",
            ),
            (
                "{\"PartitionKey\":\"p\",\"RowKey\":\"a/b\"}",
                "line 3: the RowKey \"a/b\" has a character that no key may have",
            ),
            (
                "{\"PartitionKey\":\"p\",\"RowKey\":\"3\",\"A@odata.type\":\"Edm.Int64\",\"A\":\"x\"}",
                "property \"A\": expected Edm.Int64, found \"x\"",
            ),
            (
                "{\"PartitionKey\":\"p\",\"RowKey\":\"3\",\"A-b\":1}",
                "line 3: property \"A-b\": its name may not have '-' at column 2",
            ),
        ] {
            shell.write("bad.jsonl", &[&*good(1), &good(2), line, "\n", &good(4)].concat());
            let failure = run("import bad.jsonl --table bad", &[]).failure(1);
            assert!(
                failure.starts_with("error: bad.jsonl, ") && failure.contains(expected),
                "{failure}"
            );
            assert!(failure.ends_with("\n2 rows were written\n"), "{failure}");
            assert_eq!(run("export --table bad", &[]).out(), good(1) + &good(2));
        }
    });
}

/// An export that was cut within a quoted cell, and quotes that are none: rows that follow are not taken
/// for text.
#[test]
fn a_quote_that_is_not_closed_is_a_fault() {
    let good = "PartitionKey,RowKey,A\np,1,one\n";
    let (open, after) = ("a quote is not closed", "a cell goes on after its closing quote");
    on_each_place(|shell, run| {
        for (rest, expected) in [
            ("p,2,\"two\np,3,three\n", open),
            ("p,2,\"two, as far as it", open),
            ("p,2,\"two\" x\np,3,three\n", after),
        ] {
            shell.write("cut.csv", &(good.to_owned() + rest));
            let failure = run("import cut.csv --table cut", &[]).failure(1);
            let expected = format!("error: cut.csv, line 3: {expected}\n1 row was written\n");
            assert_eq!(failure, expected);
        }
    });
}

/// A table of which nothing was written is not made; one that was there before stays.
#[test]
fn a_fault_of_the_first_entity_makes_no_table() {
    let good = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n";
    let faults = [
        ("bad.jsonl", "[\n".to_owned() + good),
        ("bad.csv", "PartitionKey,RowKey,A\np,1\np,2,3\n".to_owned()),
        ("key.csv", "PartitionKey,RowKey\np,a/b\n".to_owned()),
    ];
    on_each_place(|shell, run| {
        for (file, text) in &faults {
            shell.write(file, text);
            for mode in ["insert", "replace", "merge"] {
                let failure = run("import --table fresh", &[file, "--mode", mode]).failure(1);
                assert!(failure.starts_with(&format!("error: {file}, line ")), "{failure}");
                assert!(failure.ends_with("\n0 rows were written\n"), "{failure}");
            }
        }
        shell.write("good.jsonl", good);
        run("import good.jsonl --table there", &[]).out();
        run("import bad.jsonl --table there", &[]).failure(1);
        run("import bad.jsonl --table fresh", &[]).failure(1);
        assert_eq!(run("export --table there", &[]).out(), good);
        // A file without entities has no fault.
        shell.write("empty.jsonl", "");
        run("import empty.jsonl --table empty", &[]).out();
        let names = run("tables --json", &[]).out();
        let names: Vec<_> = names.lines().filter_map(|line| line.split('"').nth(3)).collect();
        assert_eq!(names, ["empty", "there"]);
    });
}

#[test]
fn faults_of_files_are_found_before_anything_is_made() {
    let shell = Shell::new();
    shell.write("bad.csv", "a,b\n1,2\n");
    shell.write("cut.csv", "PartitionKey,RowKey,A\np,1,2\np,2\n");
    let import = |file: &str, more: &[&str]| {
        shell.run(&[&["import", file, "--table", "abc"], more].concat()).failure(1)
    };
    assert!(import("none.json", &[]).starts_with("error: cannot read none.json: "));
    let column = import("bad.csv", &["--partition-key", "a"]);
    let expected =
        "error: bad.csv, line 1: expected a column RowKey (--row-key to name it), found a, b\n";
    assert_eq!(column, expected);
    let types = import("x.jsonl", &["--types", "a=Int64"]);
    assert_eq!(types, "error: --types is for CSV: JSON has types\n");
    let types = import("cut.csv", &["--types", "A=Edm.String,A=Int64"]);
    assert_eq!(types, "error: --types says twice which type \"A\" has\n");
    let types = import("cut.csv", &["--types", "Timestamp=DateTime"]);
    assert_eq!(types, "error: --types is not for the Timestamp: the server sets it\n");
    shell.write("bad.jsonl", "[");
    assert!(import("bad.jsonl", &[]).ends_with("\n0 rows were written\n"));
    assert!(!shell.path("tablestone-data").exists());
    let cut = import("cut.csv", &[]);
    let expected =
        "error: cut.csv, line 3: expected 3 cells as in the header, found 2\n1 row was written\n";
    assert_eq!(cut, expected);
}

#[test]
fn a_place_that_is_none_is_explained() {
    let shell = Shell::new();
    let missing = shell.run(&["tables"]).failure(1);
    let expected = "error: there is no data directory tablestone-data: name one with --data, or a \
                    server with --url\n";
    assert_eq!(missing, expected);
    assert!(!shell.path("tablestone-data").exists(), "reading makes nothing");
    shell.write("file", "");
    let file = shell.run(&["tables", "--data", "file"]).failure(1);
    let named = format!("{:?}", shell.path("file"));
    assert!(file.starts_with("error: ") && file.contains(&named), "{file}");

    let nobody = shell.run(&["tables", "--url", "http://127.0.0.1:1"]).failure(1);
    let expected = "error: no server answers at http://127.0.0.1:1/devstoreaccount1: ";
    assert!(nobody.starts_with(expected) && nobody.contains("refused"), "{nobody}");
    let no_key = shell.run(&["tables", "--url", "http://127.0.0.1:1/mine"]).failure(1);
    assert!(no_key.contains("set TABLESTONE_KEY"), "{no_key}");
    let no_account = shell.run(&["tables", "--connection-string", "AccountKey=a2V5"]).failure(1);
    assert!(no_account.contains("has no AccountName"), "{no_account}");
    let stat = shell.run(&["stat", "--url", "http://127.0.0.1:1"]).failure(1);
    assert!(stat.contains("--data DIR") && stat.contains("much of it at /metrics"), "{stat}");
    let stat = shell.run(&["stat", "--data", "nowhere"]).failure(1);
    assert!(stat.contains("no data directory nowhere") && !stat.contains("--url"), "{stat}");
}

#[test]
fn a_server_has_its_directory_for_itself() {
    let shell = Shell::new();
    let server = Server::start(&shell, "data");
    let locked = shell.run(&["tables", "--data", "data"]).failure(1);
    let expected = "error: data is open in another process; if that is a server, use --url with its \
                    address\n";
    assert_eq!(locked, expected);
    let mut wrong_key = shell.command(&["tables", "--url", &server.url]);
    wrong_key.env("TABLESTONE_KEY", "a2V5");
    let refused = finish(wrong_key, "").failure(1);
    assert!(refused.contains("AuthenticationFailed: there is no such account"), "{refused}");

    let mut by_environment = shell.command(&["tables"]);
    let key = tablestone_server::config::DEVELOPMENT_KEY;
    let url = &server.url;
    let text = format!(
        "AccountName=devstoreaccount1;AccountKey={key};TableEndpoint={url}/devstoreaccount1/"
    );
    by_environment.env("AZURE_STORAGE_CONNECTION_STRING", text);
    assert_eq!(finish(by_environment, "").out(), "table\n-----\n");
}

#[test]
fn a_table_that_is_not_there_is_told_with_those_that_are() {
    on_each_place(|shell, run| {
        shell.write("one.json", "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n");
        for table in ["one", "two"] {
            run("import one.json --table", &[table]).out();
        }
        for command in [
            "query onee",
            "query onee --json",
            "query onee --format csv",
            "query onee --format csv --select A,B",
            "export --table onee -o made",
        ] {
            let failure = run(command, &[]).failure(1);
            assert!(failure.starts_with("error: there is no table onee in "), "{failure}");
            assert!(failure.ends_with(", only one, two\n"), "{failure}");
        }
        assert!(!shell.path("made").exists(), "no file is made for nothing");
    });
}

/// Linux: a process may be forbidden to write files beyond a length.
#[cfg(target_os = "linux")]
#[test]
fn an_export_that_fails_leaves_the_file_of_that_name_as_it_was() {
    let shell = Shell::new();
    let server = Server::start(&shell, "served");
    let rows = |count: u32| {
        let row = |n| {
            // So that it takes some room compressed too.
            let noise = u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{n:05}\",\"A\":\"{noise:016x}\"}}\n")
        };
        (0..count).map(row).collect::<String>()
    };
    let partial = |shell: &Shell| {
        let files = std::fs::read_dir(shell.path("")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".partial")).collect::<Vec<_>>()
    };
    // What somebody else has is left alone, whatever it is called.
    shell.write("old.jsonl.partial", "of somebody else");
    shell.write("rows.jsonl", &rows(2_500));
    shell.out(&["import", "rows.jsonl", "--table", "rows", "--url", &server.url]);
    let export = ["export", "--table", "rows", "--url", &server.url, "-o"];
    for file in ["old.jsonl", "old.jsonl.zst"] {
        shell.write(file, "what was there");
        let ran = finish(shell.limited(&[&export[..], &[file]].concat()), "");
        assert!(ran.failure(1).contains(&format!("cannot write {file}: File too large")));
        assert_eq!(shell.read(file), "what was there");
        assert_eq!(partial(&shell), ["old.jsonl.partial"]);
    }
    std::os::unix::fs::symlink("old.jsonl", shell.path("link.jsonl")).unwrap();
    shell.out(&[&export[..], &["link.jsonl"]].concat());
    assert_eq!(shell.read("old.jsonl"), rows(2_500));
    assert_eq!(shell.read("old.jsonl.partial"), "of somebody else");
    assert_eq!(partial(&shell), ["old.jsonl.partial"]);
    shell.out(&[&export[..], &["/dev/null"]].concat());
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    let shell = Shell::new();
    for (arguments, expected) in [
        (&["query", "people", "--filter", "Age gtt 5"][..], "column 5: expected "),
        (&["serve", "--listen", "here"], "\"here\" is no address to listen on: expected an IP "),
        (&["serve", "--admin", "10002"], "such as 127.0.0.1:10002"),
        (&["query", "1a"], "a table's name has 3 to 63 letters and digits"),
        (&["query", "abc", "--top", "0"], "0 is not in 1.."),
        (&["query", "abc", "--select", "1,a-b"], "no property can have such a name"),
        (&["query", "abc", "--explain", "--format", "csv"], "cannot be used with"),
        (&["import", "x", "--table", "abc", "--types", "a=Edm.Byte"], "a type such as Edm.Int64"),
        (&["tables", "--data", "d", "--url", "http://x"], "cannot be used with"),
        (&["export"], "--table <NAME>"),
    ] {
        let failure = shell.run(arguments).failure(2);
        assert!(failure.contains(expected), "{failure}");
    }
    for command in ["serve", "import", "export", "query", "tables", "stat"] {
        let help = shell.out(&[command, "-h"]);
        let example = format!("Examples:\n  tablestone {command}");
        assert!(command == "serve" || help.contains(&example), "{help}");
    }
}

/// What cannot be asked is no server's fault. Unix: a command line of Windows has room for less.
#[cfg(unix)]
#[test]
fn a_filter_that_no_address_holds_is_told_so() {
    let shell = Shell::new();
    let filter = format!("A eq '{}'", "x".repeat(70_000));
    let url = "http://127.0.0.1:1";
    let failure = shell.run(&["query", "abc", "--filter", &filter, "--url", url]).failure(1);
    let expected = "error: there can be no such request to http://127.0.0.1:1/devstoreaccount1: ";
    assert!(failure.starts_with(expected) && failure.ends_with("too long\n"), "{failure}");
}

/// Pages that are too long to be taken whole are asked for in smaller ones; one entity that is too long is said
/// to be that.
#[test]
fn answers_that_are_too_long_are_asked_for_in_parts() {
    const ROW: &str = r#"{"value":[{"PartitionKey":"p","RowKey":"r"}]}"#;
    let shell = Shell::new();
    let long: &str = "x".repeat((64 << 20) + 1).leak();
    let (url, asked) = server_that(move |line| {
        let short = line.contains("top=125 ") || line.contains("top=3 ");
        Some(("200 OK", if short { ROW } else { long }))
    });
    for (command, expected) in [
        (&["export", "--table", "abc"][..], "1000 500 250 125"),
        (&["query", "abc", "--json", "--top", "10"], "10 5 3"),
    ] {
        let out = shell.out(&[command, &["--url", &url]].concat());
        assert_eq!(out, "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
        let tops = asked.try_iter().map(|line| match line.split_once("top=") {
            Some((_, top)) => top.split(' ').next().unwrap().to_owned(),
            None => "1000".to_owned(),
        });
        assert_eq!(tops.collect::<Vec<_>>().join(" "), expected);
    }
    let (url, _) = server_that(move |_| Some(("200 OK", long)));
    let failure = shell.run(&["query", "abc", "--top", "2", "--url", &url]).failure(1);
    let expected =
        format!("error: an answer of {url}/devstoreaccount1 is longer than 67108864 bytes\n");
    assert_eq!(failure, expected);
}

/// What is about the only entity of a request is; what is about the request or the account is not.
#[test]
fn a_refusal_of_one_entity_says_which() {
    const TOO_LARGE: &str =
        r#"{"odata.error":{"code":"RequestBodyTooLarge","message":{"value":"It is."}}}"#;
    const NOT_ALLOWED: &str =
        r#"{"odata.error":{"code":"AuthorizationFailure","message":{"value":"No."}}}"#;
    let shell = Shell::new();
    shell.write("one.jsonl", "\n{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    for (status, answer, expected) in [
        (
            "413 Payload Too Large",
            TOO_LARGE,
            "one.jsonl, line 2, entity (\"p\", \"r\"): RequestBodyTooLarge: It is.",
        ),
        // Of what stands before a server.
        (
            "413 Payload Too Large",
            "<html>",
            "one.jsonl, line 2, entity (\"p\", \"r\"): RequestBodyTooLarge: The request body \
             is too large and exceeds the maximum permissible limit.",
        ),
        ("403 Forbidden", NOT_ALLOWED, "URL/devstoreaccount1 refused: AuthorizationFailure: No."),
    ] {
        let (url, _) = server_that(move |line| {
            Some(if line.contains("/$batch ") { (status, answer) } else { ("204 No Content", "") })
        });
        let failure = shell.run(&["import", "one.jsonl", "--table", "abc", "--url", &url]);
        let expected = format!("error: {expected}\n0 rows were written\n").replace("URL", &url);
        assert_eq!(failure.failure(1), expected);
    }
    // Of several it is sent one at last.
    shell.write("three.jsonl", THREE);
    let (url, asked) = server_that(|line| {
        let batch = line.contains("/$batch ");
        Some(if batch { ("413 Payload Too Large", "<html>") } else { ("204 No Content", "") })
    });
    let failure = shell.run(&["import", "three.jsonl", "--table", "abc", "--url", &url]).failure(1);
    assert!(
        failure.starts_with("error: three.jsonl, line 1, entity (\"p\", \"0\"): "),
        "{failure}"
    );
    assert!(asked.try_iter().filter(|line| line.contains("/$batch ")).count() > 1);
}

/// A table that was made for an import of which the server takes nothing goes again; not one that was
/// there, nor one into which somebody else wrote meanwhile.
#[test]
fn an_import_that_is_refused_leaves_no_table_behind() {
    const EXISTS: &str =
        r#"{"odata.error":{"code":"TableAlreadyExists","message":{"value":"It is."}}}"#;
    const REFUSED: &str = r#"{"odata.error":{"code":"InvalidInput","message":{"value":"No."}}}"#;
    const ROW: &str = r#"{"value":[{"PartitionKey":"q","RowKey":"r"}]}"#;
    let shell = Shell::new();
    shell.write("three.jsonl", THREE);
    for (created, rows, deleted) in [
        (("204 No Content", ""), r#"{"value":[]}"#, true),
        (("204 No Content", ""), ROW, false),
        (("409 Conflict", EXISTS), r#"{"value":[]}"#, false),
    ] {
        let (url, asked) = server_that(move |line| {
            Some(match line.split(' ').next() {
                Some("POST") if line.contains("/Tables ") => created,
                Some("POST") => ("400 Bad Request", REFUSED),
                Some("GET") => ("200 OK", rows),
                _ => ("204 No Content", ""),
            })
        });
        let failure = shell.run(&["import", "three.jsonl", "--table", "abc", "--url", &url]);
        let failure = failure.failure(1);
        assert!(
            failure.ends_with("refused: InvalidInput: No.\n0 rows were written\n"),
            "{failure}"
        );
        let delete = "DELETE /devstoreaccount1/Tables('abc') HTTP/1.1";
        assert_eq!(asked.try_iter().any(|line| line == delete), deleted);
    }
}

/// Names of files and directories are any bytes; what is a text is not passed over where it is none. Unix: others have
/// no names of bytes.
#[cfg(unix)]
#[test]
fn what_is_no_unicode_is_a_path_or_an_error() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let shell = Shell::new();
    let name = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let (data, file, exported) = (name(b"data\xff"), name(b"r\xe9.csv"), name(b"\xe9.csv"));
    std::fs::write(shell.path("").join(&file), "PartitionKey,RowKey\np,r\n").unwrap();
    let run = |arguments: &[&OsStr], variable: &str, value: &OsStr| {
        let mut command = shell.command(&[]);
        command.args(arguments).env(variable, value);
        finish(command, "")
    };
    let [import, export, tables, table, abc, output, url, nowhere] =
        ["import", "export", "tables", "--table", "abc", "-o", "--url", "http://127.0.0.1:1"]
            .map(OsStr::new);
    let said = run(&[import, &file, table, abc], "TABLESTONE_DATA", &data);
    assert!(said.out.starts_with("1 row into abc of data"), "{said:?}");
    assert!(shell.path("").join(&data).is_dir() && !shell.path("tablestone-data").exists());
    run(&[export, table, abc, output, &exported], "TABLESTONE_DATA", &data);
    let exported = std::fs::read_to_string(shell.path("").join(&exported)).unwrap();
    assert_eq!(exported, "PartitionKey,RowKey\np,r\n");
    for (arguments, variable) in [
        (&[tables][..], "AZURE_STORAGE_CONNECTION_STRING"),
        (&[tables, url, nowhere], "TABLESTONE_KEY"),
    ] {
        let failure = run(arguments, variable, &data).failure(1);
        assert_eq!(failure, format!("error: {variable} is not of Unicode\n"));
    }
}
