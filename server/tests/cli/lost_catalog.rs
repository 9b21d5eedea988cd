//! `salvage` where the server's catalog of tables has lost its name, and not its rows.

use serde_json::{Value, json};
use tablestone::{Entity, EntityTable, Precondition};

use crate::support::{Server, Shell, with_engine};

const ONE: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n";
const OTHER: [&str; 4] = ["--data", "data", "--account", "other"];
const POLICIES: &str =
    "<SignedIdentifiers><SignedIdentifier><Id>a policy</Id></SignedIdentifier></SignedIdentifiers>";
const SETTINGS: &str = "<StorageServiceProperties><Cors /></StorageServiceProperties>";
const ID: &str = "a3a1f7b0-52d1-4c8e-9f6e-0d9c7b0f4e11";

fn rows(table: &EntityTable) -> Vec<(String, String, Option<String>)> {
    let row = |row: Entity| {
        let policies = row.get_as::<&str>("Acl").map(str::to_owned);
        (row.partition_key().to_owned(), row.row_key().to_owned(), policies)
    };
    table.query().entities().map(|found| row(found.unwrap())).collect()
}

fn salvage(shell: &Shell) -> Value {
    serde_json::from_str(&shell.out(&["salvage", "--json", "--data", "data"])).unwrap()
}

fn tables(shell: &Shell, place: &[&str]) -> Vec<String> {
    let lines = shell.out(&[&["tables", "--json"], place].concat());
    let table = |line: &str| serde_json::from_str::<Value>(line).unwrap()["TableName"].clone();
    lines.lines().map(|line| table(line).as_str().unwrap().to_owned()).collect()
}

/// A row of a table, as the server writes it.
fn table_row(account: &str, name: &str) -> Entity {
    let engine_table = format!("{account}/{name}/{ID}");
    let row = Entity::new(account, format!("table:{name}"));
    row.with("TableName", name).with("EngineTable", engine_table)
}

/// The log's beginning is lost, which has the catalog's name, and not what came later.
#[test]
fn r_s10_the_catalog_has_its_name_again_and_is_no_accounts() {
    let shell = Shell::new();
    shell.write("one.jsonl", ONE);
    shell.out(&["import", "one.jsonl", "--table", "Public", "--data", "data"]);
    shell.out(&[&["import", "one.jsonl", "--table", "Secret"][..], &OTHER].concat());
    with_engine(&shell, |database| {
        let catalog = database.table("$meta").unwrap().entities();
        let policies = Entity::new("other", "table:secret").with("Acl", POLICIES);
        catalog.merge(&policies, Precondition::Exists).wait().unwrap();
        catalog
            .insert(&Entity::new("other", "service").with("Properties", SETTINGS))
            .wait()
            .unwrap();
    });
    std::fs::remove_file(shell.path("data/0000000000000001.log")).unwrap();

    let salvaged = salvage(&shell);
    assert_eq!(salvaged["catalog"], "recovered-1", "{salvaged}");
    assert_eq!(salvaged["kept"], json!([]));
    assert_eq!(shell.out(&["salvage", "--data", "data"]), "nothing is damaged\n");
    with_engine(&shell, |database| {
        assert!(database.table("recovered-1").is_err());
        let rows = rows(&database.table("$meta").unwrap().entities());
        let others = rows.into_iter().filter(|(account, _, _)| account == "other");
        let row = |key: &str, policies: Option<&str>| {
            ("other".to_owned(), key.to_owned(), policies.map(str::to_owned))
        };
        let expected = [row("service", None), row("table:secret", Some(POLICIES))];
        assert_eq!(others.collect::<Vec<_>>(), expected);
    });
    assert_eq!(tables(&shell, &OTHER), ["Secret"]);
    assert_eq!(shell.out(&[&["query", "secret", "--json"][..], &OTHER].concat()), ONE);
    // The row of this one was in what is lost.
    let found = tables(&shell, &["--data", "data"]);
    assert_eq!(found.len(), 1, "{found:?}");
    let server = Server::start(&shell, "data");
    assert_eq!(shell.out(&["query", &found[0], "--json", "--url", &server.url]), ONE);
}

/// Of several the one that was made first; the others are kept, and nobody's.
#[test]
fn r_s10_one_catalog_is_in_force() {
    let shell = Shell::new();
    with_engine(&shell, |database| {
        for (table, name) in [("recovered-10", "late"), ("recovered-9", "early")] {
            let catalog = database.create_table(table).wait().unwrap().entities();
            catalog.insert(&table_row("mine", name)).wait().unwrap();
        }
        let people = database.create_table(&format!("mine/early/{ID}")).wait().unwrap().entities();
        people.insert(&Entity::new("p", "r")).wait().unwrap();
        // A client may store what looks like a part of it.
        let own = database.create_table("recovered-8").wait().unwrap().entities();
        own.insert(&table_row("mine", "early")).wait().unwrap();
        own.insert(&Entity::new("mine", "people")).wait().unwrap();
    });
    for catalog in [json!("recovered-9"), Value::Null] {
        let salvaged = salvage(&shell);
        assert_eq!(salvaged["catalog"], catalog);
        let reason = "it has rows of a catalog of tables";
        let kept = json!([{ "engineTable": "recovered-10", "reason": reason }]);
        assert_eq!(salvaged["kept"], kept, "{salvaged}");
    }
    let place = ["--data", "data", "--account", "mine"];
    assert_eq!(tables(&shell, &place), ["early"]);
    assert_eq!(tables(&shell, &["--data", "data"]), ["recovered8"]);
}
