//! Tables of entities: the calls of [`Table`](super::Table) with typed properties.
//!
//! Invariant: whatever is written through these handles obeys the data model's limits, and
//! whatever is read is an entity, or the error says which row is not.

mod batch;
mod page;
mod query;
mod stream;
mod table;
mod view;

pub use batch::EntityBatch;
pub use page::{EntityPage, EntityRows};
pub use query::{Entities, EntityPages, EntityQuery};
pub use stream::EntityStream;
pub use table::EntityTable;
pub use view::EntityView;
