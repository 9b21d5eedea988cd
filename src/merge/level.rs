//! [`LevelCursor`]: files that do not overlap, in key order, as one sequence of entries.
//!
//! Invariant: the cursor is on an entry of the file numbered `at`, or on none and `cursor` is not
//! valid. Only that file is open; a file is opened when the cursor comes to it.

use std::sync::Arc;

use super::{CacheUse, SortedFile};
use crate::entry::{Cursor, Entry, Kind, Walker};
use crate::error::Result;
use crate::version::Version;

/// A position in a run of files.
pub(crate) struct LevelCursor<'a, F: SortedFile + 'a> {
    files: &'a [Arc<F>],
    cache: CacheUse,
    at: usize,
    cursor: Option<F::Cursor<'a>>,
}

impl<'a, F: SortedFile> LevelCursor<'a, F> {
    /// Over files in key order of which no two have a key in common.
    pub(crate) fn new(files: &'a [Arc<F>], cache: CacheUse) -> Self {
        Self { files, cache, at: 0, cursor: None }
    }

    /// See [`Source::skip_forward`](super::Source::skip_forward).
    pub(crate) fn skip_forward(&mut self, cover: Version, to: &[u8]) -> Result<()> {
        if self.newest() >= cover {
            return self.next_key();
        }
        while self.file().is_some_and(|file| file.newest() < cover && file.largest() < to) {
            self.close_and_go(self.at + 1);
        }
        match self.file() {
            Some(file) if file.newest() < cover => self.in_file(|cursor| cursor.seek(to)),
            _ => self.in_file(Cursor::seek_to_first),
        }
    }

    /// See [`Source::skip_backward`](super::Source::skip_backward).
    pub(crate) fn skip_backward(&mut self, cover: Version, to: &[u8]) -> Result<()> {
        if self.newest() >= cover {
            return self.previous_key();
        }
        while self.file().is_some_and(|file| file.newest() < cover && file.smallest() >= to) {
            self.close_and_go(self.at.wrapping_sub(1));
        }
        match self.file() {
            Some(file) if file.newest() < cover => self.in_file(|cursor| cursor.seek_before(to)),
            _ => self.in_file(Cursor::seek_to_last),
        }
    }

    fn file(&self) -> Option<&'a F> {
        self.files.get(self.at).map(|file| &**file)
    }

    fn newest(&self) -> Version {
        self.file().map_or(Version::MAX, F::newest)
    }

    fn close_and_go(&mut self, at: usize) {
        if self.at != at {
            self.at = at;
            self.cursor = None;
        }
    }

    /// Positions in the current file, if there is one.
    fn in_file(&mut self, put: impl FnOnce(&mut F::Cursor<'a>) -> Result<()>) -> Result<()> {
        match self.file() {
            Some(file) => put(self.cursor.get_or_insert_with(|| file.cursor(self.cache))),
            None => Ok(()),
        }
    }

    /// Moves on while the current file has nothing more.
    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        while !self.valid() && self.at < self.files.len() {
            self.close_and_go(self.at + 1);
            self.in_file(Cursor::seek_to_first)?;
        }
        Ok(())
    }

    /// Moves back while the current file has nothing before.
    #[inline]
    fn settle_backward(&mut self) -> Result<()> {
        while !self.valid() && self.at < self.files.len() {
            self.close_and_go(self.at.wrapping_sub(1));
            self.in_file(Cursor::seek_to_last)?;
        }
        Ok(())
    }
}

impl<F: SortedFile> Cursor for LevelCursor<'_, F> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.close_and_go(self.files.partition_point(|file| file.largest() < key));
        self.in_file(|cursor| cursor.seek(key))?;
        self.settle_forward()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.close_and_go(0);
        self.in_file(Cursor::seek_to_first)?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after = self.files.partition_point(|file| file.smallest() < key);
        self.close_and_go(after.wrapping_sub(1));
        self.in_file(|cursor| cursor.seek_before(key))?;
        self.settle_backward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.close_and_go(self.files.len().wrapping_sub(1));
        self.in_file(Cursor::seek_to_last)?;
        self.settle_backward()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], Cursor::key)
    }

    #[inline]
    fn version(&self) -> Version {
        self.cursor.as_ref().map_or(Version::ZERO, Cursor::version)
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.cursor.as_ref().map_or(Kind::Delete, Cursor::kind)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], Cursor::value)
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref()?.entry()
    }

    #[inline]
    fn kept(&self) -> usize {
        self.cursor.as_ref().map_or(0, Cursor::kept)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.valid() { Ok(()) } else { self.settle_forward() }
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next_key()?;
        if cursor.valid() { Ok(()) } else { self.settle_forward() }
    }

    #[inline]
    fn walk(&mut self, walker: &mut impl Walker) -> Result<()> {
        while let Some(cursor) = &mut self.cursor {
            cursor.walk(walker)?;
            if cursor.valid() {
                break;
            }
            self.settle_forward()?;
        }
        Ok(())
    }

    #[inline]
    fn previous_key(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.previous_key()?;
        if cursor.valid() { Ok(()) } else { self.settle_backward() }
    }

    fn next_at(&mut self, at: Version) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next_at(at)?;
        if cursor.valid() { Ok(()) } else { self.settle_forward() }
    }

    fn previous_at(&mut self, at: Version) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.previous_at(at)?;
        if cursor.valid() { Ok(()) } else { self.settle_backward() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Op, Run, VecCursor, op, rows, run};
    use super::*;

    proptest! {
        /// Any walk over a sorted list cut into files sees what the list itself shows.
        #[test]
        fn walks_agree_with_one_file(
            rows in rows(),
            cuts in proptest::collection::vec(0usize..12, 0..4),
            ops in proptest::collection::vec(op(), 1..40),
        ) {
            let files = run(&rows, &cuts);
            let mut cursor = LevelCursor::<Run>::new(&files, CacheUse::Keep);
            let mut expected = VecCursor::new(&rows);
            for op in &ops {
                prop_assert_eq!(op.apply(&mut cursor), op.apply(&mut expected), "{:?}", op);
            }
        }

        /// A skip leaves out only what is covered, and always moves.
        #[test]
        fn a_skip_passes_only_what_is_covered(
            rows in rows(),
            cuts in proptest::collection::vec(0usize..12, 0..4),
            from in any::<proptest::sample::Index>(),
            to in super::super::testing::key(),
            cover in 0u64..5,
        ) {
            prop_assume!(!rows.is_empty());
            let files = run(&rows, &cuts);
            let start = from.get(&rows).key.clone();
            let cover = Version::from_ticks(cover);
            let passed = |key: &Vec<u8>, newer: bool| {
                rows.iter().any(|r| r.key == *key && newer == (r.version >= cover.ticks()))
            };
            if start < to {
                let mut cursor = LevelCursor::<Run>::new(&files, CacheUse::Keep);
                cursor.seek(&start).unwrap();
                cursor.skip_forward(cover, &to).unwrap();
                prop_assert!(!cursor.valid() || cursor.key() > &*start);
                let reached = Op::Stay.apply(&mut cursor).map(|row| row.key);
                for row in rows.iter().filter(|r| r.key > start) {
                    if reached.as_ref().is_none_or(|reached| row.key < *reached) {
                        prop_assert!(row.key < to && !passed(&row.key, true));
                    }
                }
            } else {
                let mut cursor = LevelCursor::<Run>::new(&files, CacheUse::Keep);
                cursor.seek(&start).unwrap();
                cursor.skip_backward(cover, &to).unwrap();
                prop_assert!(!cursor.valid() || cursor.key() < &*start);
                let reached = Op::Stay.apply(&mut cursor).map(|row| row.key);
                for row in rows.iter().filter(|r| r.key < start) {
                    if reached.as_ref().is_none_or(|reached| row.key > *reached) {
                        prop_assert!(row.key >= to && !passed(&row.key, true));
                    }
                }
            }
        }
    }
}
