//! The patterns of the table design guide (P-01 to P-23), a few related ones per file: each test
//! asserts the outcome that the guide promises to those who follow, or warns of.

#[path = "../support/mod.rs"]
mod support;

mod archive;
mod base_table;
mod big_entities;
mod bulk_delete;
mod data_series;
mod index_entities;
mod logs;
mod modelling;
mod partitioning;
mod related_rows;
mod retrieval;
mod secondary_index;
mod server_views;

use tablestone::{Database, Entity, EntityPage, EntityTable, EntityView, Filter};

/// A table of entities, made if it is new.
fn table(database: &Database, name: &str) -> EntityTable {
    database.create_table_if_missing(name).wait().unwrap().entities()
}

fn filter(text: &str) -> Filter {
    text.parse().unwrap()
}

/// The entities that a filter lets pass.
fn matching(view: &EntityView, text: &str) -> Vec<Entity> {
    view.query().filter(filter(text)).entities().collect::<Result<_, _>>().unwrap()
}

/// A page of what a filter lets pass.
fn page(view: &EntityView, text: &str) -> EntityPage {
    view.query().filter(filter(text)).page().unwrap()
}

/// An entity that must exist.
fn get(view: &EntityView, partition_key: &str, row_key: &str) -> Entity {
    let found = view.get(partition_key, row_key).unwrap();
    found.unwrap_or_else(|| panic!("{partition_key}/{row_key} does not exist"))
}

/// The RowKeys of entities.
fn row_keys<'a>(entities: impl IntoIterator<Item = &'a Entity>) -> Vec<&'a str> {
    entities.into_iter().map(Entity::row_key).collect()
}

/// The RowKeys of a page.
fn page_row_keys(page: &EntityPage) -> Vec<&str> {
    page.iter().map(|entity| entity.row_key()).collect()
}

/// Names and values, without keys and version: what two copies have in common.
fn properties(entity: &Entity) -> Vec<(&str, &tablestone::Value)> {
    entity.properties().collect()
}
