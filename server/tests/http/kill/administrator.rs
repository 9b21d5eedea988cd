//! A client that creates, fills and deletes tables, and sets their policies.

use std::net::SocketAddr;

use super::Random;
use crate::process::client;
use crate::support::{Answer, Signing};

const TABLES: u64 = 4;

/// What a table holds: the number of the step that wrote it, for its row and for its policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Table {
    row: Option<u64>,
    policy: Option<u64>,
}

/// What it knows of its tables; none where there is no table.
pub(super) struct Administrator {
    random: Random,
    step: u64,
    tables: Vec<Option<Table>>,
    /// The table that was being changed, and what it was to be.
    doubtful: Option<(usize, Option<Table>)>,
    pub(super) acknowledged: u64,
}

fn table(number: usize) -> String {
    format!("table{number}")
}

fn point(number: usize) -> String {
    format!("/{}(PartitionKey='p',RowKey='r')", table(number))
}

impl Administrator {
    pub(super) fn new() -> Self {
        let tables = (0..TABLES).map(|_| None).collect();
        Self { random: Random(99), step: 0, tables, doubtful: None, acknowledged: 0 }
    }

    /// The number of tables that there are.
    pub(super) fn tables(&self) -> usize {
        self.tables.iter().flatten().count()
    }

    /// Changes tables until the connection breaks.
    pub(super) async fn work(mut self, address: SocketAddr) -> Self {
        let mut client = client(address).await;
        loop {
            self.step += 1;
            let number = self.random.below(TABLES) as usize;
            let (after, answer) = self.change(&mut client, number).await;
            let Some(answer) = answer else {
                self.doubtful = Some((number, after));
                return self;
            };
            assert!((200..300).contains(&answer.status), "{answer:?}");
            self.tables[number] = after;
            self.acknowledged += 1;
        }
    }

    /// Any change of a table; what it is to be, and the answer.
    async fn change(
        &mut self,
        client: &mut Signing,
        number: usize,
    ) -> (Option<Table>, Option<Answer>) {
        let (name, step) = (table(number), self.step);
        let Some(before) = self.tables[number] else {
            let body = format!(r#"{{"TableName":"{name}"}}"#);
            let created = client.try_send("POST", "/Tables", &[], body).await;
            return (Some(Table::default()), created);
        };
        match self.random.below(3) {
            0 => {
                let path = format!("/Tables('{name}')");
                (None, client.try_send("DELETE", &path, &[], "").await)
            }
            1 => {
                let body = format!(r#"{{"Step":{step}}}"#);
                let after = Table { row: Some(step), ..before };
                (Some(after), client.try_send("PUT", &point(number), &[], body).await)
            }
            _ => {
                let id = format!("<SignedIdentifier><Id>{step}</Id></SignedIdentifier>");
                let body = format!("<SignedIdentifiers>{id}</SignedIdentifiers>");
                let after = Table { policy: Some(step), ..before };
                let path = format!("/{name}?comp=acl");
                (Some(after), client.try_send("PUT", &path, &[], body).await)
            }
        }
    }

    /// Holds what is there against what is known; what was found is known from then on.
    pub(super) async fn check(&mut self, client: &mut Signing) {
        let doubtful = self.doubtful.take();
        for number in 0..self.tables.len() {
            let found = read(client, number).await;
            let known = self.tables[number];
            let perhaps = doubtful.filter(|(changed, _)| *changed == number);
            let holds = found == known || perhaps.is_some_and(|(_, after)| found == after);
            assert!(holds, "{}: {found:?}, known {known:?}, perhaps {perhaps:?}", table(number));
            self.tables[number] = found;
        }
    }
}

async fn read(client: &mut Signing, number: usize) -> Option<Table> {
    let there = client.get(&format!("/Tables('{}')", table(number))).await;
    let row = client.get(&point(number)).await;
    if there.status == 404 {
        assert_eq!(row.failure(), (404, "TableNotFound"));
        return None;
    }
    let row = match row.status {
        404 => None,
        _ => Some(row.json()["Step"].as_u64().expect("a step")),
    };
    let policies = client.get(&format!("/{}?comp=acl", table(number))).await;
    assert_eq!(policies.status, 200, "{policies:?}");
    let id = policies.text().split_once("<Id>").and_then(|(_, rest)| rest.split_once("</Id>"));
    let policy = id.map(|(id, _)| id.parse().expect("a step"));
    Some(Table { row, policy })
}
