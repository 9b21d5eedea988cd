//! Limits of entities and their keys, by whichever write and in either form.

use serde_json::{Map, Value, json};
use tablestone_server::config::Limits;

use super::{POINT, lowered, raised, transaction};
use crate::batch::parts;
use crate::support::Server;

fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    members.into_iter().collect::<Map<_, _>>().into()
}

fn binary(length: usize) -> Value {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(vec![7; length]);
    json!({"B": text, "B@odata.type": "Edm.Binary"})
}

/// Properties with which the entity of keys `p` and `r` has exactly this size by the formula of R-D04, as Guids and a
/// Binary.
fn of_size(size: usize, limits: &Limits) -> Value {
    let guid = json!("c9da6455-213d-42c9-9a79-3e9149a57833");
    let (mut left, mut members) = (size - 4 - 2 * 2, Map::new());
    let mut name = 'A'..='Z';
    let mut name = || name.next().expect("few properties").to_string();
    while left > 8 + 2 + 4 + limits.entity.binary_length {
        let length = limits.entity.binary_length.min(left - 2 * (8 + 2 + 4));
        let name = name();
        members.insert(format!("{name}@odata.type"), json!("Edm.Binary"));
        members.insert(name, binary(length)["B"].clone());
        left -= 8 + 2 + 4 + length;
    }
    if limits.entity.binary_length < 100 && left > 2 * (8 + 2 + 4) + 16 {
        let name = name();
        members.insert(format!("{name}@odata.type"), json!("Edm.Guid"));
        members.insert(name, guid);
        left -= 8 + 2 + 16;
    }
    let name = name();
    members.insert(format!("{name}@odata.type"), json!("Edm.Binary"));
    members.insert(name, binary(left - (8 + 2 + 4))["B"].clone());
    members.into()
}

/// At each limit of an entity: properties within it, some that are one beyond it, the code of that and what its text says.
fn edges(limits: &Limits) -> Vec<(Value, Value, &'static str, String)> {
    let entity = limits.entity;
    let many = |count: usize| object((0..count).map(|n| (format!("P{n}"), json!(true))));
    let named = |length: usize| object([("é".repeat(length), json!(1))]);
    let text = |length: usize| json!({"S": "€".repeat(length)});
    let size = match entity.size {
        size if size % (1 << 20) == 0 => format!("({}MB)", size >> 20),
        size => format!("({size} bytes)"),
    };
    vec![
        (
            many(entity.properties),
            many(entity.properties + 1),
            "TooManyProperties",
            format!("up to {} properties", entity.properties),
        ),
        (
            named(entity.name_length),
            named(entity.name_length + 1),
            "PropertyNameTooLong",
            format!("({})", entity.name_length),
        ),
        (
            text(entity.string_length),
            text(entity.string_length + 1),
            "PropertyValueTooLarge",
            format!("should be {} or less", entity.string_length),
        ),
        (
            binary(entity.binary_length),
            binary(entity.binary_length + 1),
            "PropertyValueTooLarge",
            format!("({} bytes)", entity.binary_length),
        ),
        (of_size(entity.size, limits), of_size(entity.size + 1, limits), "EntityTooLarge", size),
    ]
}

/// R-S05, R-D01, R-D02, R-D04: by whichever write, what is at a limit of entities is stored, what is beyond has the
/// code of the limit, and the text says how much may be.
#[tokio::test]
async fn r_s05_entities_have_the_limits_that_are_set() {
    for limits in [raised(), lowered()] {
        let server = Server::with(limits).await;
        let mut client = server.with_people().await;
        for (within, beyond, code, expected) in edges(&limits) {
            let (within, beyond) = (within.to_string(), beyond.to_string());
            for method in ["PUT", "MERGE"] {
                client.delete(POINT).await;
                assert_eq!(client.send(method, POINT, &[], &within).await.status, 204, "{code}");
                let refused = client.send(method, POINT, &[], &beyond).await;
                assert_eq!(refused.failure(), (400, code), "{method}");
                assert!(refused.message().contains(&expected), "{refused:?}");

                client.delete(POINT).await;
                let other = "/people(PartitionKey='p',RowKey='o')".to_owned();
                let first = ("PUT", other, "{}".to_owned());
                let second = |body: &str| [first.clone(), (method, POINT.to_owned(), body.into())];
                let done = transaction(&mut client, &second(&within)).await;
                assert!(parts(&done).iter().all(|part| part.status == 204), "{code}: {done:?}");
                let refused = parts(&transaction(&mut client, &second(&beyond)).await).remove(0);
                assert_eq!(refused.status, 400);
                assert_eq!(refused.json()["odata.error"]["code"], code, "{method}");
                let message = refused.message();
                assert!(message.starts_with("1:The ") && message.contains(&expected), "{message}");
            }
        }
    }
}

/// R-S05, R-D02: in Atom as in JSON.
#[tokio::test]
async fn r_s05_entities_in_atom_have_the_limits_that_are_set() {
    let server = Server::with(raised()).await;
    let mut client = server.with_people().await;
    let old = [
        ("Content-Type", "application/atom+xml"),
        ("Accept", "application/atom+xml"),
        ("x-ms-version", "2011-08-18"),
    ];
    let d = "http://schemas.microsoft.com/ado/2007/08/dataservices";
    let mut put = async |properties: String| {
        let entry = format!(
            "<entry xmlns='http://www.w3.org/2005/Atom' xmlns:d='{d}' xmlns:m='{d}/metadata'>\
             <content type='application/xml'><m:properties>{properties}</m:properties></content></entry>"
        );
        let answer = client.send("PUT", POINT, &old, entry).await;
        (answer.status, answer.header("x-ms-error-code").map(str::to_owned))
    };
    let named = |length: usize| format!("<d:{0}>x</d:{0}>", "n".repeat(length));
    let many = |count: usize| (0..count).map(|n| format!("<d:P{n}>x</d:P{n}>")).collect::<String>();
    let text = |length: usize| format!("<d:S>{}</d:S>", "€".repeat(length));
    for (within, beyond, code) in [
        (named(300), named(301), "PropertyNameTooLong"),
        (many(255), many(256), "TooManyProperties"),
        (text(40_000), text(40_001), "PropertyValueTooLarge"),
    ] {
        assert_eq!(put(within).await, (204, None), "{code}");
        assert_eq!(put(beyond).await, (400, Some(code.to_owned())));
    }
}

/// R-S05: so do keys, of whatever characters: an insert's, those of an address, and those of a transaction.
#[tokio::test]
async fn r_s05_keys_have_the_length_that_is_set() {
    for limits in [raised(), lowered()] {
        let (server, length) = (Server::with(limits).await, limits.key_length);
        let mut client = server.with_people().await;
        let keys = |partition: usize, row: usize| {
            let body = json!({"PartitionKey": "€".repeat(partition), "RowKey": "é".repeat(row)});
            body.to_string()
        };
        assert_eq!(client.post("/people", &keys(length, length)).await.status, 201);
        let address =
            |length: usize| format!("/people(PartitionKey='p',RowKey='{}')", "x".repeat(length));
        assert_eq!(client.send("PUT", &address(length), &[], "{}").await.status, 204);
        let expected = format!("({} bytes)", 2 * length);
        for refused in [
            client.post("/people", &keys(length + 1, 1)).await,
            client.post("/people", &keys(1, length + 1)).await,
            client.send("PUT", &address(length + 1), &[], "{}").await,
            client.send("MERGE", &address(length + 1), &[], "{}").await,
            parts(
                &transaction(&mut client, &[("POST", "/people".into(), keys(1, length + 1))]).await,
            )
            .remove(0),
        ] {
            let message = refused.message();
            assert_eq!(refused.json()["odata.error"]["code"], "PropertyValueTooLarge");
            assert!(message.contains(&expected), "{message}");
            assert!(message.contains(&format!("should be {length} or less")), "{message}");
        }
    }
}

/// R-S05: the limits of entities are none of keys: each has its own text.
#[tokio::test]
async fn r_s05_a_key_that_is_too_long_is_told_of_as_a_key() {
    let server = Server::with(Limits { key_length: 512, ..lowered() }).await;
    let mut client = server.with_people().await;
    let body = json!({"PartitionKey": "x".repeat(513), "RowKey": ""}).to_string();
    let refused = client.post("/people", &body).await;
    let expected = "The property value exceeds the maximum allowed size (64KB).";
    assert!(refused.message().starts_with(expected), "{refused:?}");
}
