//! [`EntityStream`]: the entities of a query for async code.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::page::EntityPage;
use super::query::EntityPages;
use crate::entity::Entity;
use crate::error::Result;
use crate::table::database::Inner;
use crate::table::items::ItemStream;

/// Stream of the entities of a query; ends after the last or the first error. Dropping it gives up
/// the page that is being read.
///
/// ```
/// use futures_util::StreamExt;
/// use tablestone::{Database, Entity, EntityTable, Options, Result};
///
/// /// Who is in a partition: from an async function, on no runtime in particular.
/// async fn names(people: &EntityTable, partition_key: &str) -> Result<Vec<String>> {
///     let mut people = people.query().partition(partition_key).select(["Name"]).stream();
///     let mut names = Vec::new();
///     while let Some(person) = people.next().await {
///         names.extend(person?.get_as("Name"));
///     }
///     Ok(names)
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// # let people = database.create_table("people").wait()?.entities();
/// # people.insert(&Entity::new("Sales", "1").with("Name", "Ann")).wait()?;
/// # assert_eq!(futures_executor::block_on(names(&people, "Sales"))?, ["Ann"]);
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct EntityStream(ItemStream<EntityPages, EntityPage>);

impl EntityStream {
    pub(super) fn new(inner: Arc<Inner>, pages: EntityPages) -> Self {
        Self(ItemStream::new(inner, pages))
    }
}

impl Stream for EntityStream {
    type Item = Result<Entity>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Entity>>> {
        self.0.poll_next(context)
    }
}

impl fmt::Debug for EntityStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityStream").finish_non_exhaustive()
    }
}
