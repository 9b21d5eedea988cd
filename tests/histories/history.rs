//! A history: what was there before, and what happened then.

use std::collections::BTreeSet;

use tablestone::{Result, Version};

use super::event::{Event, Failure, What};
use super::program::TABLES;
use crate::support::model::{Key, Model, table_name};

#[derive(Debug, Default)]
pub(crate) struct History {
    /// What was there before anything happened.
    pub(crate) base: Model,
    pub(crate) events: Vec<Event>,
    /// Tables of which it is not known whether they were made or dropped at last, or what was written. Nothing is
    /// said of these.
    pub(crate) unknown: BTreeSet<u8>,
}

impl History {
    pub(crate) fn new(base: Model) -> Self {
        Self { base, events: Vec::new(), unknown: BTreeSet::new() }
    }

    /// What came of writes whose outcome is not known is told by their markers: those that are there were done, at
    /// that version, and of the others nothing was seen by anybody. Nothing is known of a table that cannot be read.
    pub(crate) fn resolve(&mut self, version_of: impl Fn(u8, &Key) -> Result<Option<Version>>) {
        for event in &mut self.events {
            if let What::Write { handle, marker: Some(marker), outcome, .. } = &mut event.what
                && *outcome == Err(Failure::Unknown)
            {
                event.span.ended = u64::MAX;
                match version_of(handle.table, marker) {
                    Ok(Some(version)) => *outcome = Ok(version),
                    Ok(None) => {}
                    Err(_) => drop(self.unknown.insert(handle.table)),
                }
            }
        }
    }

    /// Leaves out what is about tables that may or may not have been made or dropped at last.
    pub(crate) fn leave_out_unknown(&mut self) {
        for event in &self.events {
            if let What::Birth { table, outcome: Err(Failure::Unknown), .. }
            | What::Drop { table, outcome: Err(Failure::Unknown) } = &event.what
            {
                self.unknown.insert(*table);
            }
        }
        let unknown = &self.unknown;
        self.events.retain(|event| !event.what.table().is_some_and(|it| unknown.contains(&it)));
    }

    /// All tables that there may be and of which something can be said.
    pub(crate) fn tables(&self) -> Vec<(String, u8)> {
        let known = (0..TABLES as u8).filter(|table| !self.unknown.contains(table));
        known.map(|table| (table_name(table), table)).collect()
    }
}

/// At which version a table has a row.
pub(crate) fn version_of(model: &Model, table: u8, key: &Key) -> Result<Option<Version>> {
    Ok(model.table(table).and_then(|rows| rows.get(key)).map(|entity| entity.version))
}
