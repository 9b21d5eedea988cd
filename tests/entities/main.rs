//! The data model's requirements through the public API, one behaviour per file; a test's name
//! begins with its requirement.

#[path = "../support/mod.rs"]
mod support;

mod async_reads;
mod conditions;
mod etags;
mod foreign_rows;
mod limits;
mod naive;
mod other_limits;
mod pages;
mod plans;
mod random;
mod selection;
mod snapshots;
mod types;
mod writes;

use tablestone::{Entity, EntityPage, EntityTable, EntityView};

use support::TestDb;

/// The table "t" of entities, empty if it is new.
fn entities(db: &TestDb) -> EntityTable {
    db.t().entities()
}

/// The keys of entities as `partition/row`.
fn keys<'a>(entities: impl IntoIterator<Item = &'a Entity>) -> Vec<String> {
    entities.into_iter().map(|e| format!("{}/{}", e.partition_key(), e.row_key())).collect()
}

/// The keys of a page as `partition/row`.
fn page_keys(page: &EntityPage) -> Vec<String> {
    page.iter().map(|e| format!("{}/{}", e.partition_key(), e.row_key())).collect()
}

/// Keys of the entities that pass a filter.
fn found(view: &EntityView, filter: &str) -> Vec<String> {
    let query = view.query().filter(filter.parse().unwrap());
    keys(&query.entities().collect::<Result<Vec<_>, _>>().unwrap())
}

/// Names and values of an entity, NaN equal to itself.
fn content(entity: &Entity) -> String {
    format!("{:?}", entity.properties().collect::<Vec<_>>())
}
