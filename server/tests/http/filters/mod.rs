//! A property: what a query answers over HTTP is what the protocol's words say of each entity
//! (R-S06, protocol 6). Tables, filters, `$top` and `$select` are random; the judge ([`judge`]) is
//! written from the words alone and shares nothing with the server.

mod generate;
mod judge;

use std::sync::atomic::{AtomicU32, Ordering};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngSeed};
use serde_json::Value as Json;

use self::generate::Query;
use self::judge::{Entity, Expression};
use crate::support::{Server, Signing};

const CASES: u32 = 400;

/// The same tables and queries each time, unless `PROPTEST_CASES` asks for a campaign.
fn config() -> ProptestConfig {
    let seeds = FileFailurePersistence::Direct("proptest-regressions/filters.txt");
    let config =
        ProptestConfig { failure_persistence: Some(Box::new(seeds)), ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig { cases: CASES, rng_seed: RngSeed::Fixed(6), ..config },
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Every page of a query, until there is no continuation.
async fn pages(client: &mut Signing, table: &str, query: &str) -> Vec<Vec<Json>> {
    let (mut pages, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/{table}()?{query}{next}")).await;
        assert_eq!(page.status, 200, "{query}: {page:?}");
        pages.push(page.json()["value"].as_array().expect("a page").clone());
        let header = |name| page.header(name).map(encode);
        let Some(partition) = header("x-ms-continuation-nextpartitionkey") else {
            return pages;
        };
        next = format!("&NextPartitionKey={partition}");
        if let Some(row) = header("x-ms-continuation-nextrowkey") {
            next += &format!("&NextRowKey={row}");
        }
        assert!(pages.len() < 200, "{query}: no end");
    }
}

/// Creates a table with these entities, which learn their Timestamps; those before `flushed` go to
/// a file.
async fn fill(server: &Server, entities: &mut [Entity], flushed: usize) -> String {
    static TABLES: AtomicU32 = AtomicU32::new(0);
    let table = format!("table{}", TABLES.fetch_add(1, Ordering::Relaxed));
    let mut client = server.client().await;
    let created = client.post("/Tables", &format!(r#"{{"TableName":"{table}"}}"#)).await;
    assert_eq!(created.status, 201, "{created:?}");
    for (index, entity) in entities.iter_mut().enumerate() {
        if index == flushed {
            server.service.database().flush().expect("a flush");
        }
        let body = Json::from(entity.body()).to_string();
        let inserted = client.post(&format!("/{table}"), &body).await;
        assert_eq!(inserted.status, 201, "{body}: {inserted:?}");
        entity.written(&inserted.json());
    }
    table
}

/// What the answer must be: the entities that pass, in order, each as it was selected.
fn expected(entities: &[Entity], query: &Query) -> Vec<Json> {
    let passes = |entity: &&Entity| query.filter.as_ref().is_none_or(|it| it.holds(entity));
    entities.iter().filter(passes).map(|entity| entity.shown(query.select.as_deref())).collect()
}

fn query_string(query: &Query) -> String {
    let mut parts = Vec::new();
    parts.extend(query.filter.as_ref().map(|it| format!("$filter={}", encode(&it.to_string()))));
    parts.extend(query.top.map(|top| format!("$top={top}")));
    parts.extend(
        query.select.as_ref().map(|names| format!("$select={}", encode(&names.join(", ")))),
    );
    parts.join("&")
}

async fn check(server: &Server, mut entities: Vec<Entity>, flushed: usize, queries: &[Query]) {
    let table = fill(server, &mut entities, flushed).await;
    entities.sort_by(|a, b| a.keys().cmp(&b.keys()));
    let mut client = server.client().await;
    for query in queries {
        let text = query_string(query);
        let found = pages(&mut client, &table, &text).await;
        let expected = expected(&entities, query);
        let shown = query.filter.as_ref().map(Expression::to_string);
        assert_eq!(found.concat(), expected, "{shown:?} {text}");
        // Pages are full, and only the last has no continuation.
        let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
        let (last, full) = lengths.split_last().expect("a page");
        let top = query.top.unwrap_or(1_000);
        assert!(full.iter().all(|length| *length == top), "{shown:?} {text}: {lengths:?}");
        assert!(*last > 0 || full.is_empty(), "{shown:?} {text}: {lengths:?}");
    }
}

#[test]
fn r_s06_queries_answer_what_the_protocol_says() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(Server::start());
    let (tables, queries) = (generate::entities(), generate::queries());
    proptest!(config(), |((entities, flushed) in tables, queries in queries)| {
        runtime.block_on(check(&server, entities, flushed, &queries));
    });
}
