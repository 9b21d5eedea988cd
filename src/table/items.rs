//! [`Items`] and [`ItemStream`]: what is in the pages of a query, one after the other, for an iterator and for
//! a stream.
//!
//! Invariant: a page is read while nothing of the one before is left; so one page is held at a time, and
//! nothing is read that nobody asks for. An error is the last that is given out.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::database::Inner;
use super::task::Task;
use crate::error::Result;

/// A page whose entities are given out one by one.
pub(super) trait ItemPage {
    type Item;

    /// The one at an index, owned.
    fn item(&self, index: usize) -> Option<Result<Self::Item>>;
}

/// What is left of a page.
struct Left<P> {
    page: P,
    given: usize,
}

impl<P: ItemPage> Left<P> {
    fn new(page: P) -> Self {
        Self { page, given: 0 }
    }

    fn give(&mut self) -> Option<Result<P::Item>> {
        let item = self.page.item(self.given)?;
        self.given += 1;
        Some(item)
    }
}

/// The items of pages, which are read in place.
pub(super) struct Items<I, P> {
    left: Option<Left<P>>,
    /// The pages that were not asked for yet.
    pages: Option<I>,
}

impl<I, P> Items<I, P> {
    pub(super) fn new(pages: I) -> Self {
        Self { left: None, pages: Some(pages) }
    }
}

impl<I: Iterator<Item = Result<P>>, P: ItemPage> Items<I, P> {
    pub(super) fn next(&mut self) -> Option<Result<P::Item>> {
        loop {
            if let Some(item) = self.left.as_mut().and_then(Left::give) {
                return Some(item.inspect_err(|_| self.end()));
            }
            self.left = None;
            match self.pages.as_mut()?.next() {
                Some(Ok(page)) => self.left = Some(Left::new(page)),
                ended => {
                    self.end();
                    return ended?.err().map(Err);
                }
            }
        }
    }

    fn end(&mut self) {
        (self.left, self.pages) = (None, None);
    }
}

/// The items of pages, which are read on the reader threads of a database.
pub(super) struct ItemStream<I, P> {
    inner: Arc<Inner>,
    left: Option<Left<P>>,
    reading: Option<Task<Read<I, P>>>,
    /// The pages that were not asked for yet.
    pages: Option<Box<I>>,
}

/// A page, if there was another, and those after it.
type Read<I, P> = Option<(P, Box<I>)>;

impl<I, P> ItemStream<I, P>
where
    I: Iterator<Item = Result<P>> + Send + 'static,
    P: ItemPage + Send + 'static,
{
    pub(super) fn new(inner: Arc<Inner>, pages: I) -> Self {
        Self { inner, left: None, reading: None, pages: Some(Box::new(pages)) }
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<P::Item>>> {
        loop {
            if let Some(item) = self.left.as_mut().and_then(Left::give) {
                if item.is_err() {
                    (self.left, self.pages) = (None, None);
                }
                return Poll::Ready(Some(item));
            }
            self.left = None;
            if let Some(pages) = self.pages.take() {
                self.reading = Some(self.inner.run(move || read(pages)));
            }
            let Some(task) = &mut self.reading else { return Poll::Ready(None) };
            let Poll::Ready(read) = Pin::new(task).poll(context) else { return Poll::Pending };
            self.reading = None;
            match read {
                Ok(Some((page, pages))) => {
                    (self.left, self.pages) = (Some(Left::new(page)), Some(pages));
                }
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

fn read<I: Iterator<Item = Result<P>>, P>(mut pages: Box<I>) -> Result<Read<I, P>> {
    let page = pages.next().transpose()?;
    Ok(page.map(|page| (page, pages)))
}
