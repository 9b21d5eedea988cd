//! Every limit of the service as a setting: in force at its edge, with its code and in its text; and what was stored
//! within others (R-S05, R-S12).

mod entities;
mod requests;
mod stored;

use tablestone_server::config::Limits;

use crate::batch::{TYPE, change_set, part};
use crate::support::{Answer, Signing};

const BASE: &str = "http://localhost/devstoreaccount1";
const POINT: &str = "/people(PartitionKey='p',RowKey='r')";

/// Each limit of entities and keys is more than the service's.
fn raised() -> Limits {
    let mut limits = Limits { key_length: 3_000, ..Limits::default() };
    let entity = &mut limits.entity;
    (entity.properties, entity.name_length) = (255, 300);
    (entity.string_length, entity.binary_length, entity.size) = (40_000, 100_000, 2 << 20);
    limits
}

/// Each is less, and small enough that two are not in each other's way.
fn lowered() -> Limits {
    let mut limits = Limits { key_length: 6, ..Limits::default() };
    let entity = &mut limits.entity;
    (entity.properties, entity.name_length) = (3, 5);
    (entity.string_length, entity.binary_length, entity.size) = (10, 20, 90);
    limits
}

/// A transaction of operations on rows of one partition.
async fn transaction(client: &mut Signing, requests: &[(&str, String, String)]) -> Answer {
    let requests = requests.iter().map(|(method, target, body)| {
        part(&format!("{method} {BASE}{target}"), &["Prefer: return-no-content"], body)
    });
    let body = change_set(&requests.collect::<Vec<_>>());
    client.send("POST", "/$batch", &[TYPE], body).await
}
