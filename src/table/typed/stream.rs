//! [`EntityStream`]: the entities of a query for async code.
//!
//! Invariant: a page is read on a reader thread while nothing of the one before is left; so one
//! page is held at a time, and nothing is read that nobody polls for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::page::EntityPage;
use super::query::EntityPages;
use crate::entity::Entity;
use crate::error::Result;
use crate::table::database::Inner;
use crate::table::task::Task;

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
pub struct EntityStream {
    inner: Arc<Inner>,
    /// A page, and how many of its entities were given out.
    giving: Option<(EntityPage, usize)>,
    reading: Option<Task<Read>>,
    /// The pages that were not asked for yet.
    pages: Option<Box<EntityPages>>,
}

/// A page, if there was another, and those after it.
type Read = Option<(EntityPage, Box<EntityPages>)>;

impl EntityStream {
    pub(super) fn new(inner: Arc<Inner>, pages: EntityPages) -> Self {
        Self { inner, giving: None, reading: None, pages: Some(Box::new(pages)) }
    }

    /// The next entity of the page at hand.
    fn give(&mut self) -> Option<Result<Entity>> {
        let (page, given) = self.giving.as_mut()?;
        let entity = page.entity(*given);
        *given += 1;
        match entity {
            Some(Ok(_)) => {}
            Some(Err(_)) => (self.giving, self.pages) = (None, None),
            None => self.giving = None,
        }
        entity
    }
}

fn read(mut pages: Box<EntityPages>) -> Result<Read> {
    let page = pages.next().transpose()?;
    Ok(page.map(|page| (page, pages)))
}

impl Stream for EntityStream {
    type Item = Result<Entity>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Entity>>> {
        loop {
            if let Some(entity) = self.give() {
                return Poll::Ready(Some(entity));
            }
            if let Some(pages) = self.pages.take() {
                self.reading = Some(self.inner.run(move || read(pages)));
            }
            let Some(task) = &mut self.reading else { return Poll::Ready(None) };
            let Poll::Ready(read) = Pin::new(task).poll(context) else { return Poll::Pending };
            self.reading = None;
            match read {
                Ok(Some((page, pages))) => {
                    (self.giving, self.pages) = (Some((page, 0)), Some(pages));
                }
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl fmt::Debug for EntityStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityStream").field("reading", &self.reading).finish_non_exhaustive()
    }
}
