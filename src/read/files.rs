//! [`Files`]: one key looked up in several table files.
//!
//! Invariant: files are asked in the order of their age, and none after the one that has the key. What the
//! filters of several are asked is brought near before the first of them is: they come from memory
//! together, instead of one after the other.

use std::sync::Arc;

use crate::entry::Found;
use crate::error::Result;
use crate::levels::{TableFile, View};
use crate::sst::{Lookup, Probes, Question};
use crate::version::Version;

/// So many files are asked side by side.
const SIDE_BY_SIDE: usize = 8;

/// The files of a view that may have an entry of a key, newest first.
pub(super) struct Files<'a> {
    view: &'a View,
    lookup: &'a Lookup<'a>,
    /// What is older is of no interest.
    cover: Version,
    /// The next of them, then none.
    near: [Option<&'a TableFile>; SIDE_BY_SIDE],
    /// What is to be asked of their filters, if they are several.
    questions: Option<[Option<Question>; SIDE_BY_SIDE]>,
    /// Those that were near so far.
    approached: usize,
}

impl<'a> Files<'a> {
    #[inline]
    pub(super) fn new(view: &'a View, lookup: &'a Lookup<'a>, cover: Version) -> Self {
        let near = [None; SIDE_BY_SIDE];
        Self { view, lookup, cover, near, questions: None, approached: 0 }
    }

    /// Brings near what the filters of the next files are asked. There is nothing to gain from one alone,
    /// whose other probes are mostly not needed.
    #[inline]
    pub(super) fn approach(&mut self) {
        self.find_next();
        self.questions = None;
        if let [_, Some(_), ..] = self.near {
            let (hash, probes) = (self.lookup.key_hash, Probes::of(self.lookup.key_hash));
            let question = |file: &TableFile| file.reader.question(hash, probes);
            self.questions = Some(self.near.map(|file| file.and_then(question)));
        }
    }

    #[inline]
    fn find_next(&mut self) {
        let (key, mut before) = (self.lookup.key, self.approached);
        self.near = [None; SIDE_BY_SIDE];
        let mut room = self.near.iter_mut();
        let mut found = |file: &'a TableFile| {
            if file.meta.max_version < self.cover {
                return; // All it has of the key is covered.
            }
            if before > 0 {
                before -= 1;
            } else if let Some(near) = room.next() {
                *near = Some(file);
                self.approached += 1;
            }
        };
        let mut levels = self.view.levels.levels();
        for file in levels.next().unwrap_or_default() {
            if *file.meta.smallest <= *key && *key <= *file.meta.largest {
                found(file);
            }
        }
        levels.filter_map(|files| file_of(files, key)).for_each(|file| found(file));
    }

    /// Shows the newest entry of the key at or before `at` to `visit`: that of the first file that has one.
    #[inline]
    pub(super) fn get<R>(
        &mut self,
        at: Version,
        mut visit: impl FnMut(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        if self.approached == 0 {
            self.approach();
        }
        loop {
            let questions = self.questions.iter().flatten().map(Option::as_ref);
            let questions = questions.chain(std::iter::repeat(None));
            for (file, question) in self.near.iter().zip(questions) {
                let Some(file) = file else { return Ok(None) };
                let shown = file.reader.get(self.lookup, question, at, &mut visit)?;
                if shown.is_some() {
                    return Ok(shown);
                }
            }
            self.approach();
        }
    }
}

/// The file of a level other than 0 that may hold the key.
#[inline]
fn file_of<'a>(files: &'a [Arc<TableFile>], key: &[u8]) -> Option<&'a Arc<TableFile>> {
    if files.is_empty() {
        return None;
    }
    let at = files.partition_point(|file| *file.meta.largest < *key);
    files.get(at).filter(|file| *file.meta.smallest <= *key)
}
