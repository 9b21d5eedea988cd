//! What has no version is held against all versions that it can be of: those between the newest acknowledged before its
//! call began and the oldest given out after it ended. One of them has to explain all of the answer.

use tablestone::Version;

use super::event::{Event, Failure, Handle, Operation, Seen, What, Write};
use super::lives::{Life, Shown};
use super::order::Window;
use super::replay::Replay;
use crate::support::model::{Entity, Key};

impl Replay<'_> {
    pub(super) fn explain(&self, event: &Event) {
        let window = self.order.window(event.span);
        match &event.what {
            What::Write { handle, write, outcome: Err(failure), .. } => {
                self.explain_failure(*handle, write, failure, window);
            }
            What::Birth { table, outcome: Err(Failure::TableExists), .. } => {
                let is_it = |life: &Life| {
                    life.table == *table && life.earliest < window.high && life.dropped > window.low
                };
                assert!(self.lives.0.iter().any(is_it), "the table was not there: {window:?}");
            }
            What::Drop { table, outcome: Err(Failure::TableNotFound) }
            | What::Open { table, at: None, outcome: Err(Failure::TableNotFound) } => {
                let is_missing = |at: &Version| self.may_be_there(*table, *at) != Some(true);
                assert!(self.instants(window).iter().any(is_missing), "it was there: {window:?}");
            }
            What::Open { table, at: None, outcome: Ok(()) } => {
                let is_there = |at: &Version| self.may_be_there(*table, *at) != Some(false);
                assert!(self.instants(window).iter().any(is_there), "it was not: {window:?}");
            }
            What::Names { at: None, names } => self.explain_names(names, window),
            What::Get { via, outcome, keys } if via.at.is_none() => match outcome {
                Ok(found) => self.explain_found(via.handle, keys, found, window),
                Err(failure) => self.explain_missing(via.handle, failure, window),
            },
            What::Page { via, outcome: Err(failure), .. } if via.at.is_none() => {
                self.explain_missing(via.handle, failure, window);
            }
            _ => {}
        }
    }

    /// A failure names the first operation that fails, of which others may have changed the reason since.
    fn explain_failure(&self, handle: Handle, write: &Write, failure: &Failure, window: Window) {
        let index = match failure {
            Failure::EntityExists { index, .. }
            | Failure::EntityNotFound { index }
            | Failure::VersionMismatch { index, .. }
            | Failure::MergeRefused { index } => *index,
            Failure::Busy | Failure::Unknown => return,
            failure => return self.explain_missing(handle, failure, window),
        };
        let Write::Batch { partition, operations, .. } = write else {
            panic!("it has no conditions");
        };
        let is_right = |index: usize, operation: &Operation, found: Option<&Entity>, fails| {
            let outcome = operation.outcome(index, found);
            if fails { outcome.as_ref() == Err(failure) } else { outcome.is_ok() }
        };
        let holds = |life: &Life| {
            let mut windows = vec![window.and(&life.whole())];
            for (at, operation) in operations.iter().enumerate().take(index + 1) {
                let key = (partition.clone(), operation.row_key.clone());
                let held = life.windows(&key, |found| is_right(at, operation, found, at == index));
                windows = both(&windows, &held);
            }
            !windows.is_empty()
        };
        let lives = self.lives.of_handle(handle, &self.order);
        assert!(
            lives.iter().any(|&life| holds(&self.lives.0[life])),
            "at no version of {window:?} is this so; it was {:#?}",
            operations.get(index).map(|operation| {
                let key = (partition.clone(), operation.row_key.clone());
                lives
                    .iter()
                    .map(|&life| self.lives.0[life].around(&key, window))
                    .collect::<Vec<_>>()
            })
        );
    }

    fn explain_found(&self, handle: Handle, keys: &[Key], found: &[Seen], window: Window) {
        let is_so = |seen: &Seen, entity: Option<&Entity>| match seen {
            Seen::Absent => entity.is_none(),
            Seen::Present => entity.is_some(),
            Seen::Entity(seen) => entity == Some(seen),
        };
        let holds = |life: &Life| {
            let whole = vec![window.and(&life.whole())];
            let windows = keys.iter().zip(found).fold(whole, |windows, (key, seen)| {
                both(&windows, &life.windows(key, |entity| is_so(seen, entity)))
            });
            !windows.is_empty()
        };
        let lives = self.lives.of_handle(handle, &self.order);
        assert!(
            lives.iter().any(|&life| holds(&self.lives.0[life])),
            "at no version of {window:?} are all of these; they were {:#?}",
            lives
                .iter()
                .map(|&life| {
                    keys.iter()
                        .map(|key| self.lives.0[life].around(key, window))
                        .collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        );
    }

    /// The table of the handle had been dropped.
    fn explain_missing(&self, handle: Handle, failure: &Failure, window: Window) {
        assert_eq!(*failure, Failure::TableNotFound);
        let lives = self.lives.of_handle(handle, &self.order);
        let is_dropped = |life: &usize| self.lives.0[*life].dropped < window.high;
        assert!(lives.iter().any(is_dropped), "the table was there: {window:?}");
    }

    fn explain_names(&self, names: &[String], window: Window) {
        let is_so = |at: &Version| {
            self.history.tables().into_iter().all(|(name, table)| {
                let is_there = self.may_be_there(table, *at);
                is_there.is_none_or(|is_there| is_there == names.contains(&name))
            })
        };
        assert!(self.instants(window).iter().any(is_so), "at no version of {window:?}");
    }

    /// Whether there is a table at a version, if that is known.
    fn may_be_there(&self, table: u8, at: Version) -> Option<bool> {
        let Some(life) = self.lives.at(table, at) else { return Some(false) };
        (self.lives.0[life].shown(at) == Shown::Alive).then_some(true)
    }

    /// A version for each set of tables that there was in a window.
    fn instants(&self, window: Window) -> Vec<Version> {
        let changes =
            self.lives.0.iter().flat_map(|life| [life.earliest, life.latest, life.dropped]);
        let within = changes.filter(|at| window.low <= *at && *at < window.high);
        within.chain([window.low]).collect()
    }
}

impl Life {
    /// When it may have been there. Who has a handle on it has seen it.
    fn whole(&self) -> Window {
        Window { low: self.earliest, high: self.dropped }
    }

    /// When something held of a key.
    fn windows(&self, key: &Key, holds: impl Fn(Option<&Entity>) -> bool) -> Vec<Window> {
        let story = self.stories.get(key).map_or(&[][..], |story| story);
        let first = story.first().map_or(Version::MAX, |(since, _)| *since);
        let mut windows = Vec::new();
        if holds(None) {
            windows.push(Window { low: Version::ZERO, high: first });
        }
        for (index, (since, entity)) in story.iter().enumerate() {
            if holds(entity.as_ref()) {
                let until = story.get(index + 1).map_or(Version::MAX, |(next, _)| *next);
                windows.push(Window { low: *since, high: until });
            }
        }
        windows
    }

    /// What a key had in a window and just before, for a message.
    fn around(&self, key: &Key, window: Window) -> Vec<(Version, Option<(Version, usize)>)> {
        let story = self.stories.get(key).map_or(&[][..], |story| story);
        let first = story.partition_point(|(since, _)| *since <= window.low).saturating_sub(1);
        let within = story[first..].iter().take_while(|(since, _)| *since < window.high);
        within
            .map(|(since, entity)| {
                (*since, entity.as_ref().map(|entity| (entity.version, entity.value.len())))
            })
            .collect()
    }
}

/// Where both hold; each list is in order.
fn both(some: &[Window], others: &[Window]) -> Vec<Window> {
    let pairs = some.iter().flat_map(|one| others.iter().map(|other| one.and(other)));
    pairs.filter(|window| !window.is_empty()).collect()
}
