//! What the scenarios share: tables, instants and the paper's keys of them, pages in few words.

use std::path::Path;
use std::time::Duration;

use tablestone::env::SimEnv;
use tablestone::{
    Database, DateTime, Entity, EntityPage, EntityQuery, EntityTable, EntityView, Filter, Options,
};

use crate::support::sim::{DIR, sim_options};

/// Ticks of 100 ns in a day.
pub(crate) const DAY: u64 = 864_000_000_000;

pub(crate) fn table(database: &Database, name: &str) -> EntityTable {
    database.create_table_if_missing(name).wait().unwrap().entities()
}

/// An instant, or the day that begins with it.
pub(crate) fn at(text: &str) -> DateTime {
    text.parse().unwrap()
}

pub(crate) fn after(instant: DateTime, ticks: u64) -> DateTime {
    DateTime::from_ticks(instant.ticks() + ticks).unwrap()
}

/// The paper's key for newest first (§8.1): what is left of time after the instant, in 19 digits.
/// The count of ticks may begin in any year, as it cancels out.
pub(crate) fn newest_first(instant: DateTime) -> String {
    format!("{:019}", DateTime::MAX.ticks() - instant.ticks())
}

pub(crate) fn filter(text: &str) -> Filter {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What a filter lets pass, in one page.
pub(crate) fn page(view: &EntityView, text: &str) -> EntityPage {
    let page = view.query().filter(filter(text)).page().unwrap();
    assert_eq!(page.continuation(), None, "{text}: the answer does not fit in one page");
    page
}

/// Keys as `partition/row`.
pub(crate) fn keys(page: &EntityPage) -> Vec<String> {
    page.iter().map(|e| format!("{}/{}", e.partition_key(), e.row_key())).collect()
}

pub(crate) fn row_keys(page: &EntityPage) -> Vec<String> {
    page.iter().map(|entity| entity.row_key().to_owned()).collect()
}

pub(crate) fn collect(query: EntityQuery) -> Vec<Entity> {
    query.entities().collect::<Result<_, _>>().unwrap()
}

/// All entities of a table, with their versions.
pub(crate) fn everything(view: &EntityView) -> Vec<Entity> {
    collect(view.query())
}

/// Properties of an entity that must exist.
pub(crate) fn get(view: &EntityView, partition_key: &str, row_key: &str) -> Entity {
    let entity = view.get(partition_key, row_key).unwrap();
    entity.unwrap_or_else(|| panic!("{partition_key}/{row_key} does not exist"))
}

/// A simulated machine with a database on it that nothing in the background disturbs.
pub(crate) fn machine(seed: u64) -> (SimEnv, Options) {
    let env = SimEnv::new(seed);
    let options = sim_options(&env).memory_budget(4 << 20).busy_timeout(Duration::ZERO);
    (env, options)
}

pub(crate) fn open(options: &Options) -> tablestone::Result<Database> {
    Database::open(Path::new(DIR), options.clone())
}
