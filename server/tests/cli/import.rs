//! Import: forms of input, keys and types that are said, what becomes of what is there.

use std::fmt::Write;

use crate::support::{Shell, finish, on_each_place};

const TWO: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"A\":1,\"B\":1}\n\
                   {\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"A\":1,\"B\":1}\n";
const CHANGED: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"A\":2}\n";

#[test]
fn modes_say_what_becomes_of_what_is_there() {
    on_each_place(|shell, run| {
        shell.write("two.json", TWO);
        shell.write("changed.json", CHANGED);
        let query = || run("query modes --json --filter", &["RowKey eq '2'"]).out();
        run("import two.json --table modes --mode insert", &[]).out();
        let refused = run("import changed.json --table modes --mode insert", &[]).failure(1);
        assert!(
            refused.starts_with("error: changed.json, line 1, entity (\"p\", \"2\"): "),
            "{refused}"
        );
        assert!(refused.ends_with("\n0 rows were written\n"), "{refused}");
        run("import changed.json --table modes --mode merge", &[]).out();
        assert_eq!(query(), "{\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"A\":2,\"B\":1}\n");
        run("import changed.json --table modes", &[]).out();
        assert_eq!(query(), CHANGED);
        assert_eq!(run("query modes --json", &[]).out().lines().count(), 2);
    });
}

#[test]
fn columns_can_be_keys_and_have_types() {
    let csv = "id,Country,Population,Code,Founded,Note\n\
               1,de,82,00501,1990-10-03T00:00Z,\n\
               2,fr,68,12,,\"a, b\"\n";
    let expected = "{\"PartitionKey\":\"de\",\"RowKey\":\"1\",\"Population@odata.type\":\"Edm.Int64\",\
        \"Population\":\"82\",\"Code\":\"00501\",\"Founded@odata.type\":\"Edm.DateTime\",\
        \"Founded\":\"1990-10-03T00:00:00Z\"}\n\
        {\"PartitionKey\":\"fr\",\"RowKey\":\"2\",\"Population@odata.type\":\"Edm.Int64\",\
        \"Population\":\"68\",\"Code\":\"12\",\"Note\":\"a, b\"}\n";
    on_each_place(|shell, run| {
        shell.write("states.csv", csv);
        let types = ["--types", "Population=Edm.Int64,Code=String"];
        run("import states.csv --table states --partition-key Country --row-key id", &types).out();
        assert_eq!(run("export --table states", &[]).out(), expected);
    });
}

#[test]
fn json_members_can_be_keys() {
    let shell = Shell::new();
    let input = "{\"id\":17,\"zone\":\"x\",\"A\":true}\n\n{\"zone\":\"\",\"id\":\"18\",\"RowKey\":\"no\"}\n";
    let import = ["import", "-", "--table", "mapped", "--partition-key", "zone", "--row-key", "id"];
    let imported = finish(shell.command(&import), input).out();
    assert!(imported.starts_with("2 rows"), "{imported}");
    let expected = "{\"PartitionKey\":\"\",\"RowKey\":\"18\"}\n\
                    {\"PartitionKey\":\"x\",\"RowKey\":\"17\",\"A\":true}\n";
    for stdout in [&[][..], &["-o", "-"], &["-o", "/dev/stdout"]] {
        assert_eq!(shell.out(&[&["export", "--table", "mapped"], stdout].concat()), expected);
    }
}

/// Some writers of files begin with a byte order mark, also of files of which one is made.
#[test]
fn json_may_begin_with_a_byte_order_mark() {
    let shell = Shell::new();
    let input =
        "\u{feff}\r\n\u{feff}{\"id\":\"17\",\"zone\":\"x\"}\r\n{\"id\":\"18\",\"zone\":\"x\"}\r\n";
    let import = ["import", "-", "--table", "marked", "--partition-key", "zone", "--row-key", "id"];
    assert!(finish(shell.command(&import), input).out().starts_with("2 rows"));
    let wrong = finish(shell.command(&import), "\u{feff}{\"id\" 1}\n").failure(1);
    assert!(wrong.starts_with("error: stdin, line 1, column 7: expected a colon"), "{wrong}");
}

/// As they are written: numbers that are one as Doubles are two keys.
#[test]
fn members_that_are_keys_keep_their_digits() {
    let shell = Shell::new();
    let numbers = ["1700000000000", "1234567890123456789", "1234567890123456790", "12.50", "true"];
    let input: String = numbers.map(|id| format!("{{\"zone\":\"x\",\"id\":{id}}}\n")).concat();
    let import = ["import", "-", "--table", "digits", "--partition-key", "zone", "--row-key", "id"];
    finish(shell.command(&import), &input).out();
    let row = |key| format!("{{\"PartitionKey\":\"x\",\"RowKey\":\"{key}\"}}\n");
    let mut sorted = numbers;
    sorted.sort_unstable();
    assert_eq!(shell.out(&["export", "--table", "digits"]), sorted.map(row).concat());
}

/// Any member can be a key, also the other key, one that is no property, and one for both.
#[test]
fn keys_can_be_swapped_or_the_same() {
    let shell = Shell::new();
    let input =
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\\u0041\",\"Timestamp\":\"t\",\"a\":1,\"b\":2}\n";
    for (number, (partition, row, expected)) in [
        ("RowKey", "PartitionKey", r#""PartitionKey":"rA","RowKey":"p","a":1,"b":2"#),
        ("RowKey", "RowKey", r#""PartitionKey":"rA","RowKey":"rA","a":1,"b":2"#),
        ("a", "a", r#""PartitionKey":"1","RowKey":"1","b":2"#),
        ("a", "Timestamp", r#""PartitionKey":"1","RowKey":"t","b":2"#),
    ]
    .into_iter()
    .enumerate()
    {
        let table = format!("keys{number}");
        let keys = ["--partition-key", partition, "--row-key", row];
        let import = shell.command(&[&["import", "-", "--table", &table][..], &keys].concat());
        finish(import, input).out();
        assert_eq!(shell.out(&["export", "--table", &table]), format!("{{{expected}}}\n"));
    }
    let import = ["import", "-", "--table", "missing", "--row-key", "a"];
    let failure =
        finish(shell.command(&import), "{\"PartitionKey\":\"p\",\"a\":null}\n").failure(1);
    assert!(failure.contains("expected a member a for the RowKey"), "{failure}");
}

/// Of the same keys the last of the file stays, though groups are written at the same time. Rows are
/// counted, and said to be.
#[test]
fn of_the_same_keys_the_last_wins() {
    let mut input = String::new();
    for number in 0..500 {
        let partition = number % 7;
        writeln!(input, r#"{{"PartitionKey":"p","RowKey":"r","A":{number}}}"#).unwrap();
        writeln!(input, r#"{{"PartitionKey":"{partition}","RowKey":"{number}"}}"#).unwrap();
    }
    on_each_place(|shell, run| {
        shell.write("same.jsonl", &input);
        for mode in ["replace", "merge"] {
            let imported = run("import same.jsonl --table same --mode", &[mode]).out();
            assert!(imported.starts_with("1000 rows"), "{imported}");
            let last = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":499}\n";
            assert_eq!(run("query same --json --filter", &["PartitionKey eq 'p'"]).out(), last);
        }
        assert_eq!(run("export --table same", &[]).out().lines().count(), 501);
    });
}

/// A hundred entities of a partition may be larger than a transaction can be.
#[test]
fn large_entities_fit() {
    let text = "\\u0001".repeat(30_000);
    let mut input = String::new();
    for number in 100..220 {
        writeln!(input, r#"{{"PartitionKey":"p","RowKey":"{number}","A":"{text}"}}"#).unwrap();
    }
    on_each_place(|shell, run| {
        shell.write("large.jsonl", &input);
        run("import large.jsonl --table large --connections 2", &[]).out();
        assert!(run("export --table large", &[]).out() == input);
    });
}

/// R-S05: what is within the limits goes into a table that is there, however much of it is stored: text of three
/// bytes a UTF-16 unit, by which entities are gathered, and entities larger than a transaction.
#[test]
fn r_s05_entities_within_the_limits_go_in_in_every_mode() {
    let shell = Shell::new();
    let line = |row: u32, bytes: usize| {
        let text = "名".repeat(bytes / 3);
        format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"A\":\"{text}\"}}\n")
    };
    shell.write("there.jsonl", &line(1, 0));
    shell.write("large.jsonl", &(100..172).map(|row| line(row, 90_000)).collect::<String>());
    shell.write("one.jsonl", &line(2, 6 << 20));
    shell.write("raised.toml", "[limits.entity]\nsize = 8388608\nstring_length = 3000000");
    for mode in ["insert", "replace", "merge"] {
        let place = ["--table", "large", "--data", mode, "--mode", mode];
        shell.out(&[&["import", "there.jsonl"][..], &place].concat());
        let said = shell.out(&[&["import", "large.jsonl"][..], &place].concat());
        assert!(said.starts_with("72 rows"), "{said}");
        let import = ["import", "one.jsonl", "--config", "raised.toml"];
        assert!(shell.out(&[&import[..], &place].concat()).starts_with("1 row "), "{mode}");
    }
}

/// The name of a column is any text.
#[test]
fn columns_that_are_keys_may_begin_with_a_minus() {
    on_each_place(|shell, run| {
        shell.write("minus.csv", "-a,-b\np,1\n");
        let keys = ["--partition-key", "-a", "--row-key", "-b"];
        run("import minus.csv --table minus", &keys).out();
        let expected = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n";
        assert_eq!(run("export --table minus", &[]).out(), expected);
    });
}

/// What the system or a library says of a file is told of what it is about.
#[test]
fn what_an_input_is_not_is_said() {
    let shell = Shell::new();
    shell.write("text.csv.zst", "PartitionKey,RowKey\n");
    std::fs::create_dir(shell.path("dir")).unwrap();
    let said = |file: &str, expected: &str| {
        let failure = shell.run(&["import", file, "--table", "abc"]).failure(1);
        assert!(failure.starts_with(&format!("error: {expected}")), "{failure}");
    };
    said("text.csv.zst", "text.csv.zst, line 1: cannot be decompressed as zstd: ");
    if cfg!(unix) {
        said("dir", "cannot read dir: is a directory\n");
    }
}
