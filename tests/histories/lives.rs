//! The lives of tables: from the commit that gave a name until the one that took it away.
//!
//! The version of a drop is told, that of a creation is not. It is between the drop before and the first write to the
//! table, and between what was seen when its call began and what came after it ended; what is seen of the table tells
//! more.

use std::collections::BTreeMap;

use tablestone::Version;

use super::event::{Had, Handle, What};
use super::history::History;
use super::order::{Order, Window};
use crate::support::model::{Entity, Key, TableModel};

/// What a key had, and since when.
pub(crate) type Story = Vec<(Version, Option<Entity>)>;

#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) table: u8,
    /// It began at this version or later …
    pub(crate) earliest: Version,
    /// … and had by this one.
    pub(crate) latest: Version,
    /// [`Version::MAX`] if it goes on.
    pub(crate) dropped: Version,
    /// As far as the history was replayed.
    pub(crate) state: TableModel,
    pub(crate) stories: BTreeMap<Key, Story>,
}

/// What a read at a version may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// There is no table yet, so nothing.
    Unborn,
    /// What the table has, or nothing: when it began is not known so well.
    Perhaps,
    Alive,
    Dropped,
}

impl Life {
    fn new(table: u8, born: Window, dropped: Version, rows: &[(Key, Entity)]) -> Self {
        let stories = rows
            .iter()
            .map(|(key, entity)| (key.clone(), vec![(Version::ZERO, Some(entity.clone()))]));
        Self {
            table,
            earliest: born.low,
            latest: born.high,
            dropped,
            state: rows.iter().cloned().collect(),
            stories: stories.collect(),
        }
    }

    pub(crate) fn shown(&self, at: Version) -> Shown {
        if at >= self.dropped {
            Shown::Dropped
        } else if at >= self.latest {
            Shown::Alive
        } else if at >= self.earliest {
            Shown::Perhaps
        } else {
            Shown::Unborn
        }
    }

    /// It was seen to be there at a version.
    pub(crate) fn was_there(&mut self, at: Version) {
        self.latest = self.latest.min(at);
        assert!(self.earliest <= self.latest, "seen before it can have been made: {self:?}");
    }

    /// It was seen not to be there yet at a version.
    pub(crate) fn was_not_there(&mut self, at: Version) {
        self.earliest = self.earliest.max(at.next());
        assert!(self.earliest <= self.latest, "not seen after it must have been made: {self:?}");
    }
}

/// In the order of tables, and of each in the order of time.
#[derive(Debug)]
pub(crate) struct Lives(pub(crate) Vec<Life>);

impl Lives {
    pub(crate) fn of(history: &History, order: &Order) -> Self {
        let mut lives = Vec::new();
        for (name, table) in history.tables() {
            let base = history.base.tables.get(&name).map(|rows| (**rows).clone());
            lives.extend(lives_of(history, order, table, base));
        }
        Self(lives)
    }

    /// The life that a table has at a version, if it has one.
    pub(crate) fn at(&self, table: u8, version: Version) -> Option<usize> {
        let is_it = |life: &Life| life.table == table && version < life.dropped;
        let found = self.0.iter().position(is_it)?;
        (self.0[found].earliest <= version).then_some(found)
    }

    /// Those that a handle may be on.
    pub(crate) fn of_handle(&self, handle: Handle, order: &Order) -> Vec<usize> {
        let window = match handle.had {
            Had::Within(span) => order.window(span),
            Had::At(version) => Window { low: version, high: version.next() },
        };
        let may_be = |life: &Life| {
            life.table == handle.table && life.dropped > window.low && life.earliest < window.high
        };
        let lives = self.0.iter().enumerate().filter(|(_, life)| may_be(life));
        let lives: Vec<_> = lives.map(|(index, _)| index).collect();
        assert!(!lives.is_empty(), "a handle on a table that there was not: {handle:?}");
        lives
    }
}

fn lives_of(history: &History, order: &Order, table: u8, base: Option<TableModel>) -> Vec<Life> {
    let mut births: Vec<(Window, &[(Key, Entity)])> = Vec::new();
    let mut drops = Vec::new();
    for event in &history.events {
        match &event.what {
            What::Birth { table: of, rows, outcome: Ok(()) } if *of == table => {
                let Window { low, high } = order.window(event.span);
                // Its own version is neither.
                births.push((Window { low: low.next(), high: high.previous() }, rows));
            }
            What::Drop { table: of, outcome: Ok(version) } if *of == table => drops.push(*version),
            _ => {}
        }
    }
    drops.sort_unstable();
    let (mut lives, mut taken, mut before) = (Vec::new(), Vec::new(), Version::ZERO);
    let base: Option<Vec<_>> = base.map(|rows| rows.into_iter().collect());
    if let Some(base) = &base {
        births.push((Window { low: Version::ZERO, high: Version::ZERO }, base));
    }
    for dropped in drops.into_iter().chain([Version::MAX]) {
        // Each life has one birth: of those that can have been in it, the one that must have been first.
        let can_be = |(_, (born, _)): &(usize, &(Window, _))| {
            born.low < dropped && (born.high > before || born.high == Version::ZERO)
        };
        let possible = || births.iter().enumerate().filter(can_be);
        let left = possible().filter(|(index, _)| !taken.contains(index));
        let Some((index, (_, rows))) = left.min_by_key(|(_, (born, _))| born.high) else {
            assert_eq!(dropped, Version::MAX, "table {table} is dropped and was not there");
            break;
        };
        taken.push(index);
        // If others could have been, it was when any of them was. Those have no rows.
        let low = possible().map(|(_, (born, _))| born.low).min().unwrap_or_default();
        let high = possible().map(|(_, (born, _))| born.high).max().unwrap_or_default();
        let born = Window { low: low.max(before), high: high.min(dropped.previous()) };
        lives.push(Life::new(table, born, dropped, rows));
        before = dropped;
    }
    assert_eq!(taken.len(), births.len(), "table {table} is made twice: {births:?}");
    lives
}
