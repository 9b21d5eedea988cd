//! How an [`SstCursor`] goes back: to the key before, or to an older entry.
//!
//! It takes keys from a [`Run`](super::run::Run), and looks up only the first key of a block, whose newest
//! entry may be in a block before (DESIGN.md, 9.5 has figures).

use super::block::Block;
use super::current::Older;
use super::cursor::SstCursor;
use super::index::NEWEST;
use super::reader::Place;
use super::run::FirstEntry;
use crate::entry::Cursor;
use crate::error::Result;
use crate::version::Version;

impl SstCursor<'_> {
    /// Goes to the newest entry of the current key at or before `at`, if it is near. The run stays, as
    /// the block does.
    pub(super) fn go_older(&mut self, at: Version) -> Result<Older> {
        let Some(open) = &self.block else { return Ok(Older::IsNone) };
        let block = Block::walk(open.held.payload(), open.shape);
        let gone = self.current.go_older(&block, at);
        gone.map_err(|damage| self.reader.damage(damage, &open.handle))
    }

    /// The same where it may be in a block after, or behind many entries of the key; if there is none,
    /// goes to the key before.
    #[cold]
    pub(super) fn seek_older(&mut self, at: Version) -> Result<()> {
        let is_at_end = self.block.as_ref().is_some_and(|open| self.current.next >= open.shape.end);
        if is_at_end && self.may_be_in_block(&self.current.key, at)? {
            // It would be in this block, but is not.
            return self.previous_key();
        }
        let key = self.current.key.clone();
        self.seek_version(&key, at)?;
        if self.current.valid && self.current.key == key {
            return Ok(());
        }
        self.seek_last(Some(&key))
    }

    /// Positions on the newest entry of the last key, or of the last before `before`.
    pub(super) fn seek_last(&mut self, before: Option<&[u8]>) -> Result<()> {
        self.leave();
        self.run.begin();
        let place = match before {
            Some(key) => self.reader.place(key, NEWEST, self.caching)?,
            None => None,
        };
        let place = match place {
            Some(place) => Some(place),
            None => {
                let last = self.reader.directory().top.len().checked_sub(1);
                let last = last.map(|p| self.reader.partition(p, self.caching)).transpose()?;
                last.flatten().map(Place::last)
            }
        };
        if self.open(place)? { self.go_back(before) } else { Ok(()) }
    }

    /// Goes to the last key before `before` in the open block or those before it.
    pub(super) fn go_back(&mut self, before: Option<&[u8]>) -> Result<()> {
        loop {
            if self.fill_run(before)? {
                return self.pop_run();
            }
            if !self.open_previous()? {
                return Ok(());
            }
        }
    }

    /// Notes the keys of the last run of the open block that begins before `before`, if any does.
    fn fill_run(&mut self, before: Option<&[u8]>) -> Result<bool> {
        let Some(open) = &self.block else { return Ok(false) };
        let run = &mut self.run;
        let filled = Block::parse(open.held.payload()).and_then(|block| {
            let restarts = match before {
                Some(key) => block.restarts_before(key, NEWEST)?,
                None => block.restarts(),
            };
            run.fill(&block, restarts, before)?;
            Ok(!run.is_empty())
        });
        filled.map_err(|damage| self.reader.damage(damage, &open.handle))
    }

    /// Goes to the last key of the run.
    pub(super) fn pop_run(&mut self) -> Result<()> {
        let Some(open) = &self.block else { return Ok(()) };
        let (current, run) = (&mut self.current, &mut self.run);
        current.valid = false;
        current.kept = 0;
        let popped = Block::parse(open.held.payload()).and_then(|block| {
            let first = run.pop(&block, &mut current.key)?;
            if let Some(FirstEntry::At(offset)) = first {
                current.set_body(&block, &block.entry(offset)?)?;
            }
            Ok(first)
        });
        match popped {
            Ok(Some(FirstEntry::Unknown)) => {
                let key = std::mem::take(&mut self.current.key);
                self.seek_version(&key, NEWEST)
            }
            Ok(_) => Ok(()),
            Err(damage) => Err(self.reader.damage(damage, &open.handle)),
        }
    }
}
