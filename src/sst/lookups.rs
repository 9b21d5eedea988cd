//! [`Lookups`]: several keys that are looked up in one table file, in their order.
//!
//! Invariant: the block that is at hand was found right. It answers for a key that is after one of its
//! entries and at or before another: what else the file had of the key would be between the two. For any
//! other key the file is asked as by [`Reader::get`].

use std::sync::Arc;

use super::block::Block;
use super::held::Held;
use super::index::NEWEST;
use super::lookup::{Company, Lookup};
use super::reader::Reader;
use crate::cache::BlockOffset;
use crate::entry::Found;
use crate::error::Result;
use crate::version::Version;

/// What lookups leave for the next one.
#[derive(Debug, Default)]
pub(crate) struct Lookups<'a> {
    near: Option<Near<'a>>,
}

/// The block at hand.
#[derive(Debug)]
struct Near<'a> {
    reader: &'a Reader,
    offset: BlockOffset,
    held: Held<'a>,
    /// Whether two keys in turn were in it.
    is_again: bool,
}

impl<'a> Lookups<'a> {
    /// Whether the last key was in the block of the one before, so that the next may be there, too.
    pub(crate) fn is_near(&self) -> bool {
        self.near.as_ref().is_some_and(|near| near.is_again)
    }

    /// As [`Reader::get`].
    #[inline]
    pub(crate) fn get<R>(
        &mut self,
        reader: &'a Reader,
        lookup: &Lookup<'_>,
        at: Version,
        asked: Asked,
        visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let hint = match asked {
            Asked::Nothing => None,
            Asked::FirstProbes => reader.source().recall(lookup.key_hash),
        };
        // Where the key was found before, the block at hand need not be asked.
        if hint.is_none()
            && let Some(near) = &mut self.near
            && std::ptr::eq(near.reader, reader)
            && let Some(found) = near.find(lookup.key, at.min(NEWEST))
        {
            let Some(found) = found else {
                near.is_again = false; // Filters say so for less.
                return Ok(None);
            };
            let shown = visit(found);
            near.stay();
            return Ok(Some(shown));
        }
        let company = &mut Beside { reader, near: &mut self.near };
        match asked {
            Asked::Nothing => reader.look_up(lookup, None, at, company, visit),
            Asked::FirstProbes => {
                let may_contain = || reader.may_contain(lookup.key_hash);
                reader.look_up_passed(lookup, at, hint, company, may_contain, visit)
            }
        }
    }
}

/// What of a file was asked about a key, without a no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    /// What [`Reader::passes`] asks.
    FirstProbes,
}

/// One of the lookups, in a file.
struct Beside<'l, 'a> {
    reader: &'a Reader,
    near: &'l mut Option<Near<'a>>,
}

impl<'a> Beside<'_, 'a> {
    #[inline]
    fn near(&mut self, offset: BlockOffset) -> Option<&mut Near<'a>> {
        let is_there =
            |near: &&mut Near<'_>| near.offset == offset && std::ptr::eq(near.reader, self.reader);
        self.near.as_mut().filter(is_there)
    }
}

impl<'a> Company<'a> for Beside<'_, 'a> {
    #[inline]
    fn block(&mut self, offset: BlockOffset) -> Option<Held<'a>> {
        self.near(offset).map(|near| near.held.clone())
    }

    #[inline]
    fn leave(&mut self, offset: BlockOffset, held: Held<'a>) {
        match self.near(offset) {
            Some(near) => near.stay(),
            None => {
                let reader = self.reader;
                *self.near = Some(Near { reader, offset, held, is_again: false });
            }
        }
    }
}

impl<'a> Near<'a> {
    /// The newest entry of `key` at or before `at`, or that the file has none. `None`: it may be in
    /// another block.
    #[inline]
    fn find(&self, key: &[u8], at: Version) -> Option<Option<Found<'_>>> {
        // Damage is for who looks the key up to report.
        let block = Block::parse(self.held.payload()).ok()?;
        let restarts = block.restarts_before(key, at).ok()?;
        // A walk to the end of the block would mostly be in vain, but for keys that lie close together.
        if restarts == block.restarts() && !self.is_again {
            return None;
        }
        block.get_between(restarts.checked_sub(1)?, key, at).ok()?
    }

    /// It had another key. What was read for one is kept whole for several.
    #[inline]
    fn stay(&mut self) {
        self.is_again = true;
        if let Held::Read(block) = &self.held {
            self.held = self.reader.source().keep_block(self.offset, Arc::clone(block));
        }
    }
}
