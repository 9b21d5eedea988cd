//! A client that does what a random program says, and notes what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};
use tablestone::{IfMatch, Version};

use crate::batch::{BASE, change_set, failure, part, parts, post};
use crate::support::{Answer, Signing};

/// PartitionKey and RowKey.
pub(super) type Key = (String, String);

/// Two properties, of which a merge sets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entity {
    pub(super) version: Version,
    pub(super) a: Option<u64>,
    pub(super) b: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    None,
    Absent,
    Exists,
    Version(Version),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Put,
    Merge,
    Delete,
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) key: Key,
    pub(super) condition: Condition,
    pub(super) change: Change,
    /// What it stores.
    pub(super) number: u64,
}

/// Status and code.
pub(super) type Refusal = (u16, String);

#[derive(Debug)]
pub(super) enum What {
    /// The version, if that is told, or which operation was refused.
    Write {
        operations: Vec<Operation>,
        outcome: Result<Option<Version>, (usize, Refusal)>,
    },
    /// The first entities of a partition from a RowKey on, and whether these are all.
    Read {
        from: Key,
        to_end: bool,
        found: BTreeMap<Key, Entity>,
    },
    Get {
        key: Key,
        found: Option<Entity>,
    },
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) what: What,
}

pub(super) struct Worker {
    client: Signing,
    number: u64,
    steps: u64,
    random: u64,
    stamps: Arc<AtomicU64>,
    seen: BTreeMap<Key, Version>,
    events: Vec<Event>,
}

const ROWS: usize = 6;

impl Worker {
    pub(super) fn new(client: Signing, seed: u64, number: u64, stamps: Arc<AtomicU64>) -> Self {
        let random = seed.wrapping_mul(1000) + number;
        Self { client, number, steps: 0, random, stamps, seen: BTreeMap::new(), events: Vec::new() }
    }

    pub(super) async fn run(mut self, steps: u32) -> Vec<Event> {
        for _ in 0..steps {
            self.steps += 1;
            match self.below(10) {
                0..4 => self.single().await,
                4..7 => self.transaction().await,
                7..9 => self.get().await,
                _ => self.query().await,
            }
        }
        self.events
    }

    /// SplitMix64.
    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&mut self, begun: u64, what: What) {
        let ended = self.stamp();
        self.events.push(Event { begun, ended, what });
    }

    fn partition(&mut self) -> String {
        format!("p{}", self.below(2))
    }

    fn operation(&mut self, partition: &str, row: usize) -> Operation {
        let key = (partition.to_owned(), format!("r{row}"));
        let seen = self.seen.get(&key).copied();
        let change = match self.below(10) {
            0..5 => Change::Put,
            5..8 => Change::Merge,
            _ => Change::Delete,
        };
        let condition = match (self.below(6), seen) {
            (0 | 1, _) if change == Change::Put => Condition::Absent,
            (0..3, _) if change != Change::Delete => Condition::None,
            (3, Some(version)) | (4, Some(version)) => Condition::Version(version),
            _ => Condition::Exists,
        };
        Operation { key, condition, change, number: self.steps * 100 + self.number }
    }

    async fn single(&mut self) {
        let (partition, row) = (self.partition(), self.below(ROWS));
        let operation = self.operation(&partition, row);
        // When an entity of any version was deleted is not told: that is for transactions.
        if operation.change == Change::Delete
            && !matches!(operation.condition, Condition::Version(_))
        {
            return;
        }
        let (method, path, headers, body) = operation.request();
        let headers: Vec<_> = headers.iter().filter_map(|header| header.split_once(": ")).collect();
        let begun = self.stamp();
        let answer = self.client.send(method, &path, &headers, body).await;
        let outcome = match answer.status {
            200..300 => Ok(answer.header("etag").map(version)),
            status => Err((0, (status, answer.code().to_owned()))),
        };
        self.wrote(begun, vec![operation], outcome);
    }

    /// A transaction has an entity of this client's own, so that its version is told whatever else it does.
    async fn transaction(&mut self) {
        let partition = self.partition();
        let mut rows: Vec<_> = (0..ROWS).collect();
        let mut operations = Vec::new();
        for _ in 0..1 + self.below(4) {
            let row = rows.swap_remove(self.below(rows.len()));
            let mut operation = self.operation(&partition, row);
            if operation.change == Change::Put && self.below(2) == 0 {
                operation.condition = Condition::None;
            }
            operations.push(operation);
        }
        operations.push(Operation {
            key: (partition, format!("s{}", self.number)),
            condition: Condition::None,
            change: Change::Put,
            number: self.steps * 100 + self.number,
        });
        let requests = operations.iter().map(|operation| {
            let (method, path, headers, body) = operation.request();
            let headers: Vec<_> = headers.iter().map(String::as_str).collect();
            part(&format!("{method} {BASE}{path}"), &headers, &body)
        });
        let body = change_set(&requests.collect::<Vec<_>>());
        let begun = self.stamp();
        let answer = post(&mut self.client, &body).await;
        let answers = parts(&answer);
        let outcome = match answers.last().filter(|_| answers.len() == operations.len()) {
            Some(last) if last.status < 300 => Ok(Some(version(header(last, "ETag")))),
            _ => {
                let (status, code, message) = failure(&answer);
                let index = message.split_once(':').and_then(|(index, _)| index.parse().ok());
                Err((index.expect("an index"), (status, code)))
            }
        };
        if let Ok(Some(expected)) = outcome {
            let tags = answers.iter().filter_map(|answer| answer.headers.get("ETag"));
            assert!(tags.into_iter().all(|tag| version(tag) == expected), "{answers:?}");
        }
        self.wrote(begun, operations, outcome);
    }

    fn wrote(
        &mut self,
        begun: u64,
        operations: Vec<Operation>,
        outcome: Result<Option<Version>, (usize, Refusal)>,
    ) {
        if let Ok(Some(version)) = outcome {
            let keys = operations.iter().map(|operation| (operation.key.clone(), version));
            self.seen.extend(keys);
        }
        self.note(begun, What::Write { operations, outcome });
    }

    async fn get(&mut self) {
        let key = (self.partition(), format!("r{}", self.below(ROWS)));
        let path = format!("/people(PartitionKey='{}',RowKey='{}')", key.0, key.1);
        let begun = self.stamp();
        let answer = self.client.get(&path).await;
        let found = match answer.status {
            200 => Some(entity(&answer.json())),
            _ => {
                assert_eq!(answer.failure(), (404, "ResourceNotFound"));
                None
            }
        };
        self.seen.extend(found.map(|entity| (key.clone(), entity.version)));
        self.note(begun, What::Get { key, found });
    }

    async fn query(&mut self) {
        let from = (self.partition(), format!("r{}", self.below(ROWS)));
        let mut path = format!(
            "/people()?$filter=PartitionKey%20eq%20'{}'%20and%20RowKey%20ge%20'{}'",
            from.0, from.1
        );
        if self.below(2) == 0 {
            path += "&$top=3";
        }
        let begun = self.stamp();
        let answer = self.client.get(&path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        let rows = body["value"].as_array().expect("rows").iter();
        let text = |row: &Value, name: &str| row[name].as_str().expect("a key").to_owned();
        let found = rows.map(|row| ((text(row, "PartitionKey"), text(row, "RowKey")), entity(row)));
        let to_end = answer.header("x-ms-continuation-nextpartitionkey").is_none();
        let found = found.collect();
        self.note(begun, What::Read { from, to_end, found });
    }
}

impl Operation {
    /// Method, path, headers and body.
    fn request(&self) -> (&'static str, String, Vec<String>, String) {
        let (pk, rk) = &self.key;
        let path = format!("/people(PartitionKey='{pk}',RowKey='{rk}')");
        let if_match = match self.condition {
            Condition::None | Condition::Absent => Vec::new(),
            Condition::Exists => vec!["If-Match: *".to_owned()],
            Condition::Version(version) => {
                vec![format!("If-Match: {}", tablestone::ETag(version))]
            }
        };
        let number = self.number;
        match (self.change, self.condition) {
            (Change::Put, Condition::Absent) => {
                let body = json!({ "PartitionKey": pk, "RowKey": rk, "A": number });
                ("POST", "/people".to_owned(), Vec::new(), body.to_string())
            }
            (Change::Put, _) => ("PUT", path, if_match, json!({ "A": number }).to_string()),
            (Change::Merge, _) => ("MERGE", path, if_match, json!({ "B": number }).to_string()),
            (Change::Delete, _) => ("DELETE", path, if_match, String::new()),
        }
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).unwrap_or_else(|| panic!("no {name}: {answer:?}"))
}

fn version(tag: &str) -> Version {
    match tag.parse() {
        Ok(IfMatch::Version(version)) => version,
        other => panic!("{tag} is no tag of ours: {other:?}"),
    }
}

fn entity(row: &Value) -> Entity {
    let row: &Map<_, _> = row.as_object().expect("an entity");
    let number = |name: &str| row.get(name).map(|value| value.as_u64().expect("a number"));
    let tag = row["odata.etag"].as_str().expect("a tag");
    Entity { version: version(tag), a: number("A"), b: number("B") }
}
