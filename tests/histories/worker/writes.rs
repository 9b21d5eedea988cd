//! Writes: begun, left under way, and waited for in all the ways there are.

use std::time::Duration;

use tablestone::{Table, Version};

use super::{MARKED, STABLE, UnderWay, Worker};
use crate::event::{Begun, Failure, Handle, What, Write};
use crate::program::{self, Drafts, Markers, marker};
use crate::support::model::Key;
use crate::support::task::block_on;

impl Worker<'_> {
    pub(super) fn write(&mut self) {
        let Some((table, handle)) = self.any_table() else { return };
        let step = self.number();
        let partition = program::partition(&mut self.rng);
        let is_marked = handle.table == STABLE && partition == MARKED;
        // Nobody will wait for it.
        let is_dropped = is_marked && self.rng.percent(25);
        let markers = match self.shared.crashing {
            Some(_) => Markers::Store,
            None if is_dropped => Markers::Store,
            None if is_marked => Markers::Keep,
            None => Markers::None,
        };
        let marker = (markers == Markers::Store).then(|| marker(partition, step));
        let kind = self.rng.below(10);
        let mut drafts = Drafts { rng: &mut self.rng, step };
        let write = match kind {
            0 if !is_dropped => drafts.import(marker.clone()),
            1 if marker.is_none() => drafts.deletion(partition, markers),
            _ => {
                let seen = |key: &Key| self.seen.get(&(handle.table, key.clone())).copied();
                drafts.batch(partition, markers, seen)
            }
        };
        match self.begin(&table, handle, write, marker) {
            Some(under_way) if is_dropped => drop(under_way),
            under_way => self.under_way.extend(under_way),
        }
    }

    /// Notes that a write was begun, and what came of it if that is known.
    fn begin(
        &mut self,
        table: &Table,
        handle: Handle,
        write: Write,
        marker: Option<Key>,
    ) -> Option<UnderWay> {
        let (span, begun) = self.shared.timed(|| write.begin(table));
        let (event, outcome) = (self.events.len(), Err(Failure::Unknown));
        self.note(span, What::Write { handle, write, marker, is_durable: false, outcome });
        match begun {
            Begun::Commit(commit) => {
                self.events[event].span.ended = u64::MAX;
                Some(UnderWay { event, commit })
            }
            Begun::Done(result) => {
                let outcome = self.outcome(result);
                self.end(event, outcome, false);
                None
            }
        }
    }

    /// What came of a write.
    fn end(&mut self, event: usize, outcome: Result<Version, Failure>, durable: bool) {
        let What::Write { handle, write, outcome: noted, is_durable, .. } =
            &mut self.events[event].what
        else {
            return;
        };
        let table = handle.table;
        if let (Write::Batch { partition, operations, .. }, Some(version)) =
            (&*write, outcome.as_ref().map_or_else(Failure::found, |version| Some(*version)))
        {
            for operation in operations {
                let key = (partition.clone(), operation.row_key.clone());
                self.seen.insert((table, key), version);
            }
        }
        *is_durable = durable && outcome.is_ok();
        let is_missing = outcome == Err(Failure::TableNotFound);
        *noted = outcome;
        if is_missing {
            self.give_up(table);
        }
    }

    /// Waits for one of the writes under way, in one of the ways there are.
    pub(super) fn finish_one(&mut self) {
        let UnderWay { event, mut commit } =
            self.under_way.swap_remove(self.rng.below(self.under_way.len()));
        // Nobody wakes a task on a machine whose jobs are stepped.
        let ways: &[u8] = match self.shared.crashing {
            None => &[0, 0, 1, 2, 3, 4, 5],
            Some(_) => &[0, 0, 1, 2],
        };
        let way = self.rng.pick(ways);
        let result = match way {
            0 => commit.wait(),
            1 => match commit.wait_timeout(Duration::from_micros(50)) {
                Ok(Some(version)) => Ok(version),
                Ok(None) => commit.wait(),
                Err(error) => Err(error),
            },
            2 => commit.durable().wait(),
            3 => block_on(commit),
            4 => {
                commit.drive();
                block_on(commit)
            }
            _ => match commit.order() {
                Ok(()) => block_on(commit.durable()),
                Err(error) => Err(error),
            },
        };
        let is_durable = matches!(way, 2 | 5);
        self.events[event].span.ended = self.shared.stamps.next();
        let outcome = self.outcome(result);
        self.end(event, outcome, is_durable);
    }
}
