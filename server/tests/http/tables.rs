//! Tables: created, found, deleted, created again (R-S01, R-S10).

use crate::support::{SECOND_ACCOUNT, SECOND_KEY, Server};

#[tokio::test]
async fn a_table_is_created_with_or_without_its_body() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let created = client.post("/Tables", r#"{"TableName":"People"}"#).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["TableName"], "People");
    let base = "http://localhost/devstoreaccount1";
    assert_eq!(created.json()["odata.metadata"], format!("{base}/$metadata#Tables/@Element"));
    assert_eq!(created.header("location"), Some(&*format!("{base}/Tables('People')")));
    assert_eq!(created.header("preference-applied"), None);

    let prefer = [("Prefer", "return-no-content")];
    let quiet = client.send("POST", "/Tables", &prefer, r#"{"TableName":"quiet"}"#).await;
    assert_eq!((quiet.status, quiet.text()), (204, ""));
    assert_eq!(quiet.header("preference-applied"), Some("return-no-content"));
    assert_eq!(quiet.header("dataserviceid"), quiet.header("location"));

    let prefer = [("Prefer", "return-content")];
    let loud = client.send("POST", "/Tables", &prefer, r#"{"TableName":"loud"}"#).await;
    assert_eq!((loud.status, loud.header("preference-applied")), (201, Some("return-content")));
}

/// R-S01: what creates nothing says what it would have kept to all the same, as the service was recorded to.
#[tokio::test]
async fn r_s01_failures_to_create_repeat_what_was_preferred() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(client.post("/people", entity).await.status, 201);
    for (path, body, expected) in [
        ("/Tables", r#"{"TableName":"people"}"#, (409, "TableAlreadyExists")),
        ("/Tables", r#"{"TableName":"no-name"}"#, (400, "InvalidResourceName")),
        ("/people", entity, (409, "EntityAlreadyExists")),
    ] {
        for preferred in ["return-no-content", "return-content"] {
            let failed = client.send("POST", path, &[("Prefer", preferred)], body).await;
            assert_eq!(failed.failure(), expected);
            assert_eq!(failed.header("preference-applied"), Some(preferred), "{path} {body}");
        }
        assert_eq!(client.post(path, body).await.header("preference-applied"), None);
    }
    let missing = "/people(PartitionKey='p',RowKey='no')";
    let headers = [("Prefer", "return-no-content"), ("If-Match", "*")];
    let failed = client.send("PUT", missing, &headers, "{}").await;
    assert_eq!((failed.status, failed.header("preference-applied")), (404, None));
}

/// Protocol 4: a name is taken in any case, keeps the case it was created in, and is used in any.
#[tokio::test]
async fn a_tables_name_has_a_case_and_is_known_in_any() {
    let server = Server::start().await;
    let mut client = server.client().await;
    assert_eq!(client.post("/Tables", r#"{"TableName":"PeoPle"}"#).await.status, 201);
    let again = client.post("/Tables", r#"{"TableName":"pEOpLE"}"#).await;
    assert_eq!(again.failure(), (409, "TableAlreadyExists"));
    assert_eq!(client.get("/Tables('people')").await.json()["TableName"], "PeoPle");
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let inserted = client.post("/PEOPLE", entity).await;
    assert_eq!(inserted.status, 201);
    let metadata = inserted.json()["odata.metadata"].to_string();
    assert!(metadata.contains("#PeoPle/@Element"), "{metadata}");
    assert_eq!(client.get("/pEOPLE(PartitionKey='p',RowKey='r')").await.status, 200);
}

/// R-S10: a deleted table can be created again at once, and is empty.
#[tokio::test]
async fn r_s10_a_deleted_table_is_gone_at_once() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let point = "/people(PartitionKey='p',RowKey='r')";
    for _ in 0..3 {
        assert_eq!(client.post("/people", entity).await.status, 201);
        assert_eq!(client.delete("/Tables('People')").await.status, 204);
        assert_eq!(client.get(point).await.failure(), (404, "TableNotFound"));
        assert_eq!(client.post("/people", entity).await.failure(), (404, "TableNotFound"));
        assert_eq!(client.get("/Tables('people')").await.failure(), (404, "ResourceNotFound"));
        let gone = client.delete("/Tables('people')").await;
        assert_eq!(gone.failure(), (404, "ResourceNotFound"));
        assert_eq!(client.post("/Tables", r#"{"TableName":"People"}"#).await.status, 201);
        assert_eq!(client.get(point).await.failure(), (404, "ResourceNotFound"));
    }
}

/// R-S01: accounts do not see each other's tables.
#[tokio::test]
async fn r_s01_every_account_has_its_own_tables() {
    let server = Server::start().await;
    let mut first = server.with_people().await;
    let mut second = server.client_of(SECOND_ACCOUNT, SECOND_KEY).await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r","Of":"first"}"#;
    assert_eq!(first.post("/people", entity).await.status, 201);
    assert_eq!(second.post("/people", entity).await.failure(), (404, "TableNotFound"));
    assert_eq!(second.post("/Tables", r#"{"TableName":"people"}"#).await.status, 201);
    let point = "/people(PartitionKey='p',RowKey='r')";
    assert_eq!(second.get(point).await.failure(), (404, "ResourceNotFound"));
    assert_eq!(second.delete("/Tables('people')").await.status, 204);
    assert_eq!(first.get(point).await.json()["Of"], "first");
}

/// R-S01: an account can be named by the host.
#[tokio::test]
async fn r_s01_an_account_is_named_by_host_or_by_path() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let host = "devstoreaccount1.table.example.com:80";
    let table = br#"{"TableName":"people"}"#;
    let created = client.send_to(host, "POST", "/Tables", &[], table).await;
    assert_eq!(created.status, 201);
    let location = created.header("location");
    assert_eq!(location, Some(&*format!("http://{host}/Tables('people')")));
    assert_eq!(client.get("/Tables('people')").await.status, 200);
    // Names of hosts have no case. What is signed has the account's own.
    let host = "DevStoreAccount1.Table.example.com:80";
    let found = client.send_to(host, "GET", "/Tables('people')", &[], b"").await;
    assert_eq!(found.status, 200, "{found:?}");
    let metadata = format!("http://{host}/$metadata#Tables/@Element");
    assert_eq!(found.json()["odata.metadata"], metadata);
    let host = "devstoreaccount1-SECONDARY.table.example.com";
    let found = client.send_to(host, "GET", "/Tables('people')", &[], b"").await;
    assert_eq!(found.status, 200, "{found:?}");
    // Nor have those of a transaction's parts.
    let point = "http://DEVSTOREACCOUNT1.table.example.com/people(PartitionKey='p',RowKey='r')";
    let batch = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\
         Content-Type: application/http\r\n\r\nPUT {point} HTTP/1.1\r\n\
         Content-Type: application/json\r\n\r\n{{}}\r\n--c--\r\n--b--\r\n"
    );
    let mixed = [("Content-Type", "multipart/mixed; boundary=b")];
    let host = "DevStoreAccount1.table.example.com";
    let done = client.send_to(host, "POST", "/$batch", &mixed, batch.as_bytes()).await;
    assert!(done.status == 202 && done.text().contains("HTTP/1.1 204"), "{done:?}");
}

#[tokio::test]
async fn tables_and_settings_outlive_the_server() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(client.post("/Tables", r#"{"TableName":"Dropped"}"#).await.status, 201);
    let entity = r#"{"PartitionKey":"p","RowKey":"r","A":5}"#;
    assert_eq!(client.post("/people", entity).await.status, 201);
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>a policy</Id></SignedIdentifier></SignedIdentifiers>";
    assert_eq!(client.send("PUT", "/people?comp=acl", &[], policies).await.status, 204);
    let service = "/?restype=service&comp=properties";
    let cors = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins>\
        <AllowedMethods>GET</AllowedMethods><AllowedHeaders/><ExposedHeaders/>\
        <MaxAgeInSeconds>7</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";
    assert_eq!(client.send("PUT", service, &[], cors).await.status, 202);
    assert_eq!(client.delete("/Tables('dropped')").await.status, 204);
    drop(client);

    let server = server.restart().await;
    let mut client = server.client().await;
    assert_eq!(client.get("/people(PartitionKey='p',RowKey='r')").await.json()["A"], 5);
    assert!(client.get("/people?comp=acl").await.text().contains("<Id>a policy</Id>"));
    assert!(client.get(service).await.text().contains("<MaxAgeInSeconds>7</MaxAgeInSeconds>"));
    let gone = client.get("/Tables('dropped')").await;
    assert_eq!(gone.failure(), (404, "ResourceNotFound"));
    let names = server.service.database().tables(None, 10).unwrap().names;
    assert_eq!(names.len(), 2, "the catalog and one table: {names:?}");
}

/// R-S05: names that no table may have.
#[tokio::test]
async fn r_s05_a_tables_name_has_its_rules() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let long = "x".repeat(64);
    for (name, code) in [
        ("my-table", "InvalidResourceName"),
        ("1table", "InvalidResourceName"),
        ("täble", "InvalidResourceName"),
        ("ab", "OutOfRangeInput"),
        (&long, "OutOfRangeInput"),
        ("tables", "InvalidInput"),
    ] {
        let created = client.post("/Tables", &format!(r#"{{"TableName":"{name}"}}"#)).await;
        assert_eq!(created.failure(), (400, code), "{name}");
    }
    assert_eq!(client.post("/Tables", "{}").await.failure(), (400, "PropertiesNeedValue"));
    assert_eq!(client.post("/Tables", "[]").await.failure(), (400, "InvalidInput"));
}

/// R-S06: a table has a name; what else the server keeps of it is nobody's to ask for.
#[tokio::test]
async fn r_s06_tables_are_asked_for_by_name() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for name in ["people", "places"] {
        let created = client.post("/Tables", &format!(r#"{{"TableName":"{name}"}}"#)).await;
        assert_eq!(created.status, 201);
    }
    let found = client.get("/Tables?$filter=TableName%20gt%20'people'").await.json();
    assert_eq!(found["value"], serde_json::json!([{"TableName": "places"}]));
    for other in ["Acl", "EngineTable", "PartitionKey", "RowKey", "Timestamp"] {
        let filter = format!("/Tables?$filter=TableName%20eq%20'people'%20or%20{other}%20ne%20''");
        assert_eq!(client.get(&filter).await.failure(), (400, "InvalidInput"), "{other}");
    }
}

/// Of clients that create one table at the same time, one does, and all can use it afterwards.
#[tokio::test]
async fn racing_creations_have_one_winner() {
    let server = Server::start().await;
    let mut tasks = Vec::new();
    for number in 0..8 {
        let mut client = server.client().await;
        tasks.push(tokio::spawn(async move {
            let created = client.post("/Tables", r#"{"TableName":"people"}"#).await.status;
            let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{number}"}}"#);
            (created, client.post("/people", &entity).await.status)
        }));
    }
    let mut created = Vec::new();
    for task in tasks {
        let (status, inserted) = task.await.unwrap();
        assert_eq!(inserted, 201);
        created.push(status);
    }
    created.sort_unstable();
    assert_eq!(created, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(server.service.database().tables(None, 100).unwrap().names.len(), 2);
}
