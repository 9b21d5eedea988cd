//! The front room: what users hold. Database, tables, batches, queries, pages, snapshots.
//!
//! Invariant: every handle is owned (`Clone + Send + Sync + 'static`) and keeps the database
//! open; the last one to go closes it in order. This room checks limits and turns the user's
//! words into calls of the commit and read rooms; it holds no data of its own.

mod batch;
mod catalog;
mod continuation;
mod database;
mod import;
mod items;
mod load;
mod page;
mod query;
mod rows;
mod snapshot;
mod stats;
mod strays;
#[expect(clippy::module_inception, reason = "the file of the type that the room is named after")]
mod table;
mod task;
mod typed;
mod view;

pub use batch::Batch;
pub use catalog::TableList;
pub use continuation::Continuation;
pub use database::Database;
pub use import::ImportReport;
pub use load::TableLoader;
pub use page::{Page, PageEnd, Row};
pub use query::{Pages, Query};
pub use rows::{KeyedRow, KeyedRowStream, KeyedRows};
pub use snapshot::Snapshot;
pub use stats::Stats;
pub use table::Table;
pub use task::Task;
pub use typed::{
    Entities, EntityBatch, EntityPage, EntityPages, EntityQuery, EntityRows, EntityStream,
    EntityTable, EntityView,
};
pub use view::TableView;
