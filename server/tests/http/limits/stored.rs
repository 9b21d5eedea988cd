//! What the limits of writes leave alone: what is stored already, and the server's own tables.

use serde_json::{Map, Value, json};
use tablestone_server::config::Limits;

use super::{POINT, lowered, raised};
use crate::support::Server;

/// R-S05: limits of entities and keys are limits of writes: what was stored within larger ones is read, found by its
/// names, selected and deleted.
#[tokio::test]
async fn r_s05_what_was_stored_within_other_limits_is_served() {
    let (key, name) = ("k".repeat(3_000), "n".repeat(300));
    let point = format!("/people(PartitionKey='{key}',RowKey='{key}')");
    let texts = (0..20).map(|n| (format!("Text{n}"), json!("x".repeat(40_000))));
    let large: Map<String, Value> = texts.chain([(name.clone(), json!(7))]).collect();
    let large = json!(large).to_string();
    for limits in [lowered(), Limits::default()] {
        let server = Server::with(raised()).await;
        let mut client = server.with_people().await;
        assert_eq!(client.send("PUT", &point, &[], &large).await.status, 204);
        let before = client.get(&point).await.json();
        let server = server.restart_with(limits).await;
        let mut client = server.client().await;
        assert_eq!(client.get(&point).await.json(), before);
        let accept = [("Accept", "application/json;odata=nometadata")];
        let found = format!("/people()?$select={name}&$filter={name}%20eq%207");
        let found = client.send("GET", &found, &accept, "").await;
        assert_eq!(found.json(), json!({"value": [{&*name: 7}]}));
        // Whatever its keys are, it may become as small as entities are, and be deleted.
        let any = [("If-Match", "*")];
        let refused = client.send("MERGE", &point, &any, "{}").await;
        assert_eq!(refused.failure(), (400, "EntityTooLarge"));
        let changed = client.send("PUT", &point, &any, "{}").await;
        let expected = if 4 * key.len() < limits.entity.size { 204 } else { 400 };
        assert_eq!(changed.status, expected, "{changed:?}");
        assert_eq!(client.delete(&point).await.status, 204);
        assert_eq!(client.get(&point).await.failure(), (404, "ResourceNotFound"));
        assert_eq!(client.delete(&point).await.failure(), (404, "ResourceNotFound"));
    }
}

/// R-S05, R-S08, R-S09: the server's own tables have no limits of clients' entities: with the smallest, there are
/// tables, policies and settings.
#[tokio::test]
async fn r_s09_the_smallest_limits_are_none_of_the_catalog() {
    let mut limits = Limits {
        page_entities: 1,
        page_bytes: 1,
        transaction_operations: 1,
        key_length: 1,
        ..Limits::default()
    };
    limits.body.bytes = 1_024;
    let entity = &mut limits.entity;
    (entity.properties, entity.name_length, entity.string_length) = (1, 1, 1);
    (entity.binary_length, entity.size) = (1, 1);
    let server = Server::with(limits).await;
    let mut client = server.client().await;
    let longest = "t".repeat(63);
    for table in ["people", &longest] {
        let created = client.post("/Tables", &json!({"TableName": table}).to_string()).await;
        assert_eq!(created.status, 201, "{created:?}");
    }
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>reader</Id><AccessPolicy>\
        <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    assert_eq!(client.send("PUT", "/people?comp=acl", &[], policies).await.status, 204);
    let settings = |origin: &str| {
        format!(
            "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>{origin}</AllowedOrigins>\
             <AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*\
             </ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors>\
             </StorageServiceProperties>"
        )
    };
    // As long as a body may be, of origins as long as they may be.
    let origin = "o".repeat(1_024 - settings("").len());
    let origins: Vec<_> = origin.as_bytes().chunks(200).map(|part| &part[1..]).collect();
    let origin = format!(",{}", String::from_utf8(origins.join(&b',')).unwrap());
    let service = "/?restype=service&comp=properties";
    let set = client.send("PUT", service, &[], settings(&origin)).await;
    assert_eq!(set.status, 202, "{set:?}");
    let server = server.restart_with(limits).await;
    let mut client = server.client().await;
    assert!(client.get("/people?comp=acl").await.text().contains("<Id>reader</Id>"));
    assert!(client.get(service).await.text().contains(&origin[1..]));
    let refused = client.send("PUT", POINT, &[], "{}").await;
    assert_eq!(refused.failure(), (400, "EntityTooLarge"));
    assert_eq!(client.send("DELETE", &format!("/Tables('{longest}')"), &[], "").await.status, 204);
}
