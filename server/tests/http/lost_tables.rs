//! What a crash or a salvage leaves of tables: engine's tables without a row in the catalog, and rows
//! without a table of the engine. What clients may have stored is never dropped for it.

use tablestone::{Entity, EntityTable};

use crate::support::{Server, Signing};

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r","A":1}"#;
const POINT: &str = "/people(PartitionKey='p',RowKey='r')";

/// Makes a table of the engine that the catalog does not know, with an entity in it or without.
fn make(server: &Server, name: &str, entities: usize) {
    let table = server.service.database().create_table(name).wait().unwrap().entities();
    for row in 0..entities {
        table.insert(&Entity::new("p", row.to_string())).wait().unwrap();
    }
}

fn catalog(server: &Server) -> EntityTable {
    server.service.database().table("$meta").unwrap().entities()
}

/// The tables of the engine but for the catalog.
fn engine_tables(server: &Server) -> Vec<String> {
    let names = server.service.database().tables(None, 100).unwrap().names;
    names.into_iter().filter(|name| name != "$meta").collect()
}

/// The name of the engine's table that has a table's entities.
fn engine_table(server: &Server, table: &str) -> String {
    let part = format!("/{table}/");
    engine_tables(server).into_iter().find(|name| name.contains(&part)).unwrap()
}

fn intents(server: &Server) -> Vec<String> {
    // Nobody waits for the end of an intent but this.
    server.service.database().sync().unwrap();
    let rows = catalog(server).query().entities().map(|row| row.unwrap().row_key().to_owned());
    rows.filter(|key| !key.starts_with("table:")).collect()
}

async fn names(client: &mut Signing) -> Vec<String> {
    let list = client.get("/Tables").await.json();
    let names = list["value"].as_array().unwrap().iter().map(|table| &table["TableName"]);
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// A salvage gives rows that lost their table's name to a table of a name of its own, and may lose the row
/// of a table in the catalog; builds without intents left half-made tables.
#[tokio::test]
async fn tables_that_nobody_began_to_make_or_to_delete_are_kept() {
    let server = Server::start().await;
    server.with_people().await;
    let kept = ["devstoreaccount1/half/1", "devstoreaccount1/lost/2", "recovered-7"];
    for (entities, name) in kept.iter().enumerate() {
        make(&server, name, entities);
    }
    let before = engine_tables(&server);
    let server = server.restart().await.restart().await;
    assert_eq!(engine_tables(&server), before);
    let rows = server.service.database().table("recovered-7").unwrap().query();
    assert_eq!(rows.page().unwrap().len(), 2);
    assert_eq!(names(&mut server.client().await).await, ["people"]);
}

#[tokio::test]
async fn what_the_server_left_half_done_is_ended() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(client.post("/people", ENTITY).await.status, 201);
    drop(client);
    let people = engine_table(&server, "people");
    for (name, entities) in
        [("a/made/1", 0), ("a/deleted/1", 2), ("a/filled/1", 1), ("a/loaded/1", 2)]
    {
        make(&server, name, entities);
    }
    for intent in [
        "create:a/made/1",
        "create:a/not/made",
        "delete:a/deleted/1",
        "delete:a/gone/1",
        "load:a/loaded/1",
        "load:a/not/loaded",
        // Of tables that hold something after all: salvage has lost the commits that took these away.
        "create:a/filled/1",
        &format!("create:{people}"),
        &format!("delete:{people}"),
        &format!("load:{people}"),
    ] {
        catalog(&server).insert(&Entity::new("devstoreaccount1", intent)).wait().unwrap();
    }
    let server = server.restart().await;
    assert_eq!(engine_tables(&server), ["a/filled/1", &people]);
    assert_eq!(intents(&server), [""; 0]);
    assert_eq!(server.client().await.get(POINT).await.json()["A"], 1);
}

#[tokio::test]
async fn nothing_is_left_of_the_intents_of_what_was_done() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(client.post("/Tables", r#"{"TableName":"other"}"#).await.status, 201);
    assert_eq!(client.delete("/Tables('other')").await.status, 204);
    drop(client);
    assert_eq!(intents(&server), [""; 0]);
    assert_eq!(engine_tables(&server).len(), 1);
}

/// One table that is lost keeps nobody from the others.
#[tokio::test]
async fn a_table_whose_data_is_lost_is_none() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(client.post("/Tables", r#"{"TableName":"other"}"#).await.status, 201);
    assert_eq!(client.post("/people", ENTITY).await.status, 201);
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>a policy</Id></SignedIdentifier></SignedIdentifiers>";
    assert_eq!(client.send("PUT", "/other?comp=acl", &[], policies).await.status, 204);
    drop(client);
    let other = engine_table(&server, "other");
    server.service.database().drop_table(&other).wait().unwrap();

    let server = server.restart().await;
    let mut client = server.client().await;
    assert_eq!(client.get(POINT).await.json()["A"], 1);
    assert_eq!(names(&mut client).await, ["people"]);
    assert_eq!(client.get("/other()").await.failure(), (404, "TableNotFound"));
    assert_eq!(client.get("/Tables('other')").await.failure(), (404, "ResourceNotFound"));
    assert_eq!(client.delete("/Tables('other')").await.failure(), (404, "ResourceNotFound"));
    assert_eq!(client.post("/Tables", r#"{"TableName":"Other"}"#).await.status, 201);
    assert_eq!(client.post("/other", ENTITY).await.status, 201);
    drop(client);

    let server = server.restart().await;
    let mut client = server.client().await;
    assert_eq!(names(&mut client).await, ["Other", "people"]);
    assert_eq!(client.get("/other()").await.json()["value"].as_array().unwrap().len(), 1);
    let policies = client.get("/other?comp=acl").await;
    assert!(!policies.text().contains("a policy"), "{}", policies.text());
}
