//! Entities in and out: types, metadata levels, keys of all kinds (R-S02, R-S03, R-S04).

use serde_json::json;

use crate::support::Server;

const POINT: &str = "/people(PartitionKey='p',RowKey='r')";

/// R-S04: every type comes back as it was sent.
#[tokio::test]
async fn r_s04_every_type_comes_back() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let sent = json!({
        "PartitionKey": "p", "RowKey": "r",
        "Text": "é\"\\\n", "Flag": true, "Small": 5, "Double": 5.5, "Whole": 5.0,
        "Big": "9007199254740993", "Big@odata.type": "Edm.Int64",
        "When": "2020-01-02T03:04:05.1234567Z", "When@odata.type": "Edm.DateTime",
        "Id": "C9DA6455-213D-42C9-9A79-3E9149A57833", "Id@odata.type": "Edm.Guid",
        "Bytes": "AAH/", "Bytes@odata.type": "Edm.Binary",
        "Odd": "NaN", "Odd@odata.type": "Edm.Double",
        "Nothing": null, "Less": null, "Less@odata.type": "Edm.Int64",
    });
    let inserted = client.post("/people", &sent.to_string()).await;
    assert_eq!(inserted.status, 201, "{inserted:?}");
    let got = client.get(POINT).await;
    assert_eq!((got.status, got.json()), (200, inserted.json()));
    let mut expected = sent;
    expected["Id"] = json!("c9da6455-213d-42c9-9a79-3e9149a57833");
    for gone in ["Nothing", "Less", "Less@odata.type"] {
        expected.as_object_mut().unwrap().remove(gone);
    }
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&got.json()[name], value, "{name}");
    }
    assert!(got.text().contains(r#""Whole":5.0"#), "a double is seen to be one");
    assert_eq!(got.json().get("Nothing"), None);
}

/// R-S03: three levels of metadata.
#[tokio::test]
async fn r_s03_metadata_comes_as_asked_for() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let inserted = client.post("/people", r#"{"PartitionKey":"p","RowKey":"r","A":1}"#).await;
    let etag = inserted.header("etag").unwrap().to_owned();
    assert!(etag.starts_with("W/\"datetime'20"), "{etag}");
    let base = "http://localhost/devstoreaccount1";
    let location = format!("{base}/people(PartitionKey='p',RowKey='r')");
    assert_eq!(inserted.header("location"), Some(&*location));

    let mut level = async |accept: &str| {
        let got = client.send("GET", POINT, &[("Accept", accept)], "").await;
        assert_eq!(got.header("etag"), Some(&*etag));
        (got.header("content-type").unwrap().to_owned(), got.json())
    };
    let (content_type, none) = level("application/json;odata=nometadata").await;
    assert_eq!(content_type, "application/json;odata=nometadata;streaming=true;charset=utf-8");
    let names: Vec<_> = none.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["A", "PartitionKey", "RowKey", "Timestamp"]);
    for accept in ["application/json", "application/json;odata=minimalmetadata", "*/*"] {
        let (content_type, minimal) = level(accept).await;
        assert!(content_type.contains("minimalmetadata"), "{content_type}");
        assert_eq!(minimal["odata.etag"], *etag);
        assert_eq!(minimal["odata.metadata"], format!("{base}/$metadata#people/@Element"));
        assert_eq!(minimal.get("odata.id"), None);
    }
    let (_, full) = level("application/json;odata=fullmetadata").await;
    assert_eq!(full["odata.id"], *location);
    assert_eq!(full["odata.type"], "devstoreaccount1.people");
    assert_eq!(full["odata.editLink"], "people(PartitionKey='p',RowKey='r')");
    assert_eq!(full["Timestamp@odata.type"], "Edm.DateTime");
}

/// R-S02: of the keys in an address that the server gives, quotes are doubled and no more, as recorded of the service.
#[tokio::test]
async fn r_s02_quotes_in_an_address_are_doubled() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let inserted = client.post("/people", r#"{"PartitionKey":"%27-\"ô","RowKey":"'O''B'"}"#).await;
    let keys = "PartitionKey='%2527-%22%C3%B4',RowKey='''O''''B'''";
    let address = format!("http://localhost/devstoreaccount1/people({keys})");
    assert_eq!(inserted.header("location"), Some(&*address));
}

/// R-S02: keys with everything that is something else elsewhere.
#[tokio::test]
async fn r_s02_any_key_is_found_under_its_address() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let keys = [
        ("", ""),
        ("O'Brien", "''"),
        ("x',RowKey='y", ")"),
        ("100%", "%25"),
        ("a b+c", "&=;,"),
        ("é€😀", "\u{2028}"),
        ("<a>", "\"quoted\""),
    ];
    for (number, (partition, row)) in keys.iter().enumerate() {
        let entity = json!({"PartitionKey": partition, "RowKey": row, "Number": number});
        let inserted = client.post("/people", &entity.to_string()).await;
        assert_eq!(inserted.status, 201, "{partition} {row}");
        // The address that the server gives.
        let location = inserted.header("location").unwrap();
        let path = location.strip_prefix("http://localhost/devstoreaccount1").unwrap();
        let got = client.get(path).await;
        assert_eq!(got.json()["Number"], number, "{path}");
        assert_eq!(
            (&got.json()["PartitionKey"], &got.json()["RowKey"]),
            (&json!(partition), &json!(row))
        );
    }
    // As JavaScript writes it: quotes doubled and left as they are.
    assert_eq!(
        client.get("/people(PartitionKey='O''Brien',RowKey='''''')").await.json()["Number"],
        1
    );
    // A key is decoded once.
    let twice = client.get("/people(PartitionKey='100%2525',RowKey='%2525')").await;
    assert_eq!(twice.failure(), (404, "ResourceNotFound"));
}

#[tokio::test]
async fn select_gives_what_it_names() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    client.post("/people", r#"{"PartitionKey":"p","RowKey":"r","A":1,"B":2}"#).await;
    let accept = [("Accept", "application/json;odata=nometadata")];
    let got = client.send("GET", &format!("{POINT}?$select=B,%20Missing"), &accept, "").await;
    assert_eq!(got.json(), json!({"B": 2, "Missing": null}));
}

/// R-S06: a filter holds for a request for one entity too: what it does not match is not found.
#[tokio::test]
async fn r_s06_a_filter_holds_for_one_entity() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let inserted = client.post("/people", r#"{"PartitionKey":"p","RowKey":"r","A":1,"B":2}"#).await;
    assert_eq!(inserted.status, 201, "{inserted:?}");
    for filter in ["A%20eq%201", "", "RowKey%20eq%20'r'", "not%20(C%20eq%201)", "true"] {
        let got = client.get(&format!("{POINT}?$filter={filter}&$select=B")).await;
        assert_eq!((got.status, &got.json()["B"]), (200, &json!(2)), "{filter}");
        assert_eq!(got.header("etag"), inserted.header("etag"), "{filter}");
    }
    for filter in ["A%20eq%202", "RowKey%20eq%20's'", "C%20ne%201", "false"] {
        let got = client.get(&format!("{POINT}?$filter={filter}")).await;
        assert_eq!(got.failure(), (404, "ResourceNotFound"), "{filter}");
    }
    let other = client.get("/people(PartitionKey='p',RowKey='s')?$filter=true").await;
    assert_eq!(other.failure(), (404, "ResourceNotFound"));
    let malformed = client.get(&format!("{POINT}?$filter=A%20eq")).await;
    assert_eq!(malformed.failure(), (400, "InvalidInput"));
}

/// R-S04: Atom both ways, for a client of before 2015-12-11.
#[tokio::test]
async fn r_s04_old_clients_speak_atom() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let old = [
        ("Accept", "application/atom+xml,application/xml"),
        ("Content-Type", "application/atom+xml"),
        ("x-ms-version", "2011-08-18"),
    ];
    let entry = r#"<?xml version="1.0" encoding="utf-8"?>
        <entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices"
          xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"
          xmlns="http://www.w3.org/2005/Atom">
          <title /><author><name /></author><updated>2008-09-18T23:46:19.3857256Z</updated><id/>
          <content type="application/xml"><m:properties>
            <d:PartitionKey>p</d:PartitionKey><d:RowKey>r</d:RowKey>
            <d:Age m:type="Edm.Int32">23</d:Age><d:Name>Ann</d:Name>
          </m:properties></content>
        </entry>"#;
    let inserted = client.send("POST", "/people", &old, entry).await;
    assert_eq!(inserted.status, 201, "{inserted:?}");
    assert!(inserted.header("content-type").unwrap().starts_with("application/atom+xml"));
    let got = client.send("GET", POINT, &old, "").await;
    assert!(got.text().contains(r#"<d:Age m:type="Edm.Int32">23</d:Age>"#), "{}", got.text());
    assert_eq!(client.get(POINT).await.json()["Name"], "Ann", "and JSON reads what Atom wrote");
    // Errors are XML then.
    let missing = client.send("GET", "/people(PartitionKey='p',RowKey='x')", &old, "").await;
    assert_eq!(missing.header("content-type"), Some("application/xml;charset=utf-8"));
    assert_eq!(missing.failure(), (404, "ResourceNotFound"));
}

/// A `comp` without a value asks for nothing.
#[tokio::test]
async fn an_empty_comp_is_none() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(client.post("/people?comp=", entity).await.status, 201);
    let point = "/people(PartitionKey='p',RowKey='r')?comp=";
    assert_eq!(client.send("PUT", point, &[], entity).await.status, 204);
    assert_eq!(client.get(point).await.status, 200);
    assert_eq!(client.get("/people?comp=").await.json()["value"].as_array().unwrap().len(), 1);
}

/// R-S04: what .NET reads as a value, as the service does, though nobody prints it so.
#[tokio::test]
async fn r_s04_values_in_forms_that_are_only_read() {
    const GUID: &str = "c9da6455-213d-42c9-9a79-3e9149a57833";
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let braces = format!("{{{GUID}}}");
    let parentheses = format!(" ({}) ", GUID.to_uppercase());
    for (row, (form, text, value)) in [
        // Bits of the last digit that belong to no byte.
        ("Binary", "AQJ=", Some("AQI=")),
        ("Binary", " A Q = =", Some("AQ==")),
        ("Binary", "AR==", Some("AQ==")),
        ("Binary", "AR", None),
        ("Guid", &*braces, Some(GUID)),
        ("Guid", &*parentheses, Some(GUID)),
        ("Guid", &braces[..37], None),
        ("Guid", &braces.replace('}', ")"), None),
        ("Guid", &braces.replace('-', ""), None),
        ("DateTime", "2000-01-01T24:00:00Z", None),
    ]
    .into_iter()
    .enumerate()
    {
        let body = format!(
            r#"{{"PartitionKey":"p","RowKey":"{row}","A@odata.type":"Edm.{form}","A":"{text}"}}"#
        );
        let stored = client.post("/people", &body).await;
        assert_eq!(stored.status, if value.is_some() { 201 } else { 400 }, "{text}: {stored:?}");
        assert_eq!(stored.json()["A"].as_str(), value, "{text}");
    }
}
