//! Export and import: what was exported makes the same entities.

use crate::support::{Server, Shell, example, on_each_place};

/// Entities of all types in the form of an export, in key order: extremes, what CSV and JSON must
/// escape, one name with several types, and absence beside emptiness. Properties have one order, which
/// CSV gives to all.
const ALL: &str = concat!(
    r#"{"PartitionKey":"","RowKey":"","Empty":"","EmptyBytes@odata.type":"Edm.Binary","EmptyBytes":""}"#,
    "\n",
    r#"{"PartitionKey":"p","RowKey":"1","Text":"a,\"b\"\r\n'c'\\\t\u0001é名😀","Flag":true,"Small":-2147483648,"#,
    r#""Large@odata.type":"Edm.Int64","Large":"-9223372036854775808","Real":0.1,"#,
    r#""Bytes@odata.type":"Edm.Binary","Bytes":"AAEC/w==","#,
    r#""When@odata.type":"Edm.DateTime","When":"1601-01-01T00:00:00Z","#,
    r#""Id@odata.type":"Edm.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#,
    "\n",
    r#"{"PartitionKey":"p","RowKey":"2","Text":" 00501 ","Flag":false,"Small":2147483647,"#,
    r#""Large@odata.type":"Edm.Int64","Large":"9223372036854775807","Real@odata.type":"Edm.Double","Real":"-Infinity","#,
    r#""When@odata.type":"Edm.DateTime","When":"9999-12-31T23:59:59.9999999Z"}"#,
    "\n",
    r#"{"PartitionKey":"p","RowKey":"3","Text":7,"Flag":"true","Small@odata.type":"Edm.Int64","Small":"7","#,
    r#""Large":1e300,"Real@odata.type":"Edm.Double","Real":"NaN","Id":"no guid"}"#,
    "\n",
    r#"{"PartitionKey":"p","RowKey":"3'%","Real":5.0}"#,
    "\n",
    r#"{"PartitionKey":"päß","RowKey":"x',RowKey='y"}"#,
    "\n",
);

#[test]
fn all_types_come_back_from_json_and_csv() {
    on_each_place(|shell, run| {
        shell.write("all.jsonl", ALL);
        let imported = run("import all.jsonl --table first", &[]).out();
        assert!(imported.starts_with("6 rows into first of "), "{imported}");
        assert_eq!(run("export --table first", &[]).out(), ALL);

        run("export --table first -o all.csv", &[]).out();
        run("import all.csv --table second", &[]).out();
        assert_eq!(run("export --table second", &[]).out(), ALL);

        run("export --table second -o again.csv.zst", &[]).out();
        assert_eq!(
            zstd::decode_all(&*std::fs::read(shell.path("again.csv.zst")).unwrap()).unwrap(),
            shell.read("all.csv").into_bytes()
        );
        run("export --table second -o LOUD.CSV.ZST", &[]).out();
        let loud = std::fs::read(shell.path("LOUD.CSV.ZST")).unwrap();
        assert!(loud == std::fs::read(shell.path("again.csv.zst")).unwrap());
        run("import LOUD.CSV.ZST --table third", &[]).out();
        run("export --table third -o third.json.zst", &[]).out();
        run("import third.json.zst --table fourth", &[]).out();
        assert_eq!(run("export --table fourth", &[]).out(), ALL);
    });
}

/// Real data, of many partitions and of partitions of many pages, from a directory to a server and
/// back.
#[test]
fn real_data_moves_between_directory_and_server() {
    let shell = Shell::new();
    let cities = example("cities-sample.jsonl.zst");
    let imported = shell.out(&["import", &cities, "--table", "cities"]);
    assert!(imported.starts_with("13477 rows into cities of tablestone-data in "), "{imported}");
    shell.out(&["export", "--table", "cities", "-o", "cities.csv"]);

    let server = Server::start(&shell, "served");
    let imported = shell.out(&["import", "cities.csv", "--table", "Cities", "--url", &server.url]);
    assert!(imported.starts_with("13477 rows into Cities of http://127.0.0.1:"), "{imported}");
    let back = ["export", "--table", "cities", "--url", &server.url, "-o", "back.jsonl"];
    shell.out(&back);
    let exported = shell.out(&["export", "--table", "cities"]);
    assert_eq!(exported.lines().count(), 13_477);
    assert!(shell.read("back.jsonl") == exported, "both places have the same entities");
}

/// What is imported into a data directory is what a server has there.
#[test]
fn a_server_serves_what_was_imported_into_its_directory() {
    let shell = Shell::new();
    shell.write("all.jsonl", ALL);
    shell.out(&["import", "all.jsonl", "--table", "people", "--data", "data"]);
    let server = Server::start(&shell, "data");
    assert_eq!(shell.out(&["export", "--table", "people", "--url", &server.url]), ALL);
    assert_eq!(
        shell.out(&["tables", "--json", "--url", &server.url]),
        "{\"TableName\":\"people\"}\n"
    );
}

/// R-D02: entities differ freely, so a table may have many more columns than an entity has properties.
#[test]
fn r_d02_entities_of_many_kinds_come_back_from_csv() {
    let entity = |kind| {
        let property = |name| format!(r#","Kind{kind}Property{name}":{name}"#);
        let properties: String = (0..250).map(property).collect();
        format!(r#"{{"PartitionKey":"p","RowKey":"{kind:02}"{properties}}}"#) + "\n"
    };
    let all: String = (0..20).map(entity).collect();
    let shell = Shell::new();
    shell.write("all.jsonl", &all);
    shell.out(&["import", "all.jsonl", "--table", "first"]);
    shell.out(&["export", "--table", "first", "-o", "all.csv"]);
    shell.out(&["import", "all.csv", "--table", "second"]);
    assert!(shell.out(&["export", "--table", "second"]) == all);
}

/// One is told of as one.
#[test]
fn counts_have_their_nouns() {
    on_each_place(|shell, run| {
        for (rows, said) in [
            ("p,1\n", ["1 row into one of ", "1 entity into out.csv in "]),
            ("p,1\np,2\n", ["2 rows into one of ", "2 entities into out.csv in "]),
        ] {
            shell.write("in.csv", &format!("PartitionKey,RowKey\n{rows}"));
            let imported = run("import in.csv --table one", &[]).out();
            assert!(imported.starts_with(said[0]), "{imported}");
            let exported = run("export --table one -o out.csv", &[]).err;
            assert!(exported.starts_with(said[1]), "{exported}");
        }
        shell.write("one.csv", "Key\n1\n2,3\n");
        let keys = ["--partition-key", "Key", "--row-key", "Key"];
        let failure = run("import one.csv --table keys", &keys).failure(1);
        assert!(failure.contains("expected 1 cell as in the header, found 2"), "{failure}");
    });
}

/// As long as names of files get.
#[cfg(unix)]
#[test]
fn an_export_may_have_a_long_name() {
    let shell = Shell::new();
    shell.write("one.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    shell.out(&["import", "one.jsonl", "--table", "one"]);
    for len in [238, 239, 255] {
        let name = format!("{}.jsonl", "x".repeat(len - ".jsonl".len()));
        shell.out(&["export", "--table", "one", "-o", &name]);
        assert_eq!(shell.read(&name), shell.read("one.jsonl"));
    }
}
