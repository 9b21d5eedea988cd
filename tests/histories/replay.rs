//! Holds a history against a model. Every write has a version, and versions are the order: writes are done in that
//! order, and what was read at a version is held against what there is then.

use std::collections::BTreeSet;

use tablestone::Version;

use super::event::{Event, Failure, Seen, Span, Via, What, Write};
use super::history::History;
use super::lives::{Life, Lives, Shown};
use super::order::Order;
use crate::support::model::{Key, Model, TableModel};
use crate::support::query::check_page;

pub(crate) struct Replay<'h> {
    pub(super) history: &'h History,
    pub(super) order: Order,
    pub(super) lives: Lives,
}

/// What is to be done at a version: writes before those that only delete ranges, and reads at last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Write,
    Deletion,
    Read,
}

/// Says at which event a check was when it failed.
struct At<'h>(&'h Event);

impl Drop for At<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("at {:?}", self.0);
        }
    }
}

/// Keeps a history that did not pass.
struct Kept<'h>(&'h History);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let file = std::env::temp_dir().join(format!("history-{}", std::process::id()));
            let events = self.0.events.iter().map(|event| format!("{event:?}\n"));
            let written = std::fs::write(&file, events.collect::<String>());
            eprintln!("all events are in {}: {written:?}", file.display());
        }
    }
}

/// Checks all of it.
pub(crate) fn check(history: &History) {
    let _kept = Kept(history);
    let order = Order::of(history);
    let lives = Lives::of(history, &order);
    let mut replay = Replay { history, order, lives };
    replay.in_order();
    for event in &history.events {
        let _at = At(event);
        replay.explain(event);
    }
}

impl<'h> Replay<'h> {
    fn in_order(&mut self) {
        let mut turns: Vec<_> = self.history.events.iter().filter_map(turn).collect();
        turns.sort_by_key(|(version, turn, event)| (*version, *turn, event.span.begun));
        for turns in turns.chunk_by(|one, next| one.0 == next.0) {
            let version = turns[0].0;
            let of = |wanted| turns.iter().filter(move |it| it.1 == wanted).map(|it| it.2);
            let writes = of(Turn::Write).count();
            assert!(writes <= 1, "two writes of {version}: {:?}", of(Turn::Write).next_back());
            for event in of(Turn::Write) {
                let _at = At(event);
                self.write(event, version);
            }
            self.delete(of(Turn::Deletion), version, writes == 1);
            for event in of(Turn::Read) {
                let _at = At(event);
                self.read(event, version);
            }
        }
    }

    /// A write that was done at a version has its conditions met by what there was before it.
    fn write(&mut self, event: &Event, version: Version) {
        let window = self.order.window(event.span);
        assert!(window.low < version && version < window.high, "not in {window:?}");
        match &event.what {
            What::Write { handle, write, .. } => {
                let of_handle = self.lives.of_handle(*handle, &self.order);
                let life = self.lives.at(handle.table, version).expect("a table to write to");
                assert!(of_handle.contains(&life), "written to another table of that name");
                let life = &mut self.lives.0[life];
                life.was_there(version.previous());
                apply(life, write, version);
            }
            // Lives are made of these.
            What::Birth { .. } | What::Drop { .. } => {}
            _ => unreachable!("not a write"),
        }
    }

    /// Of deletions of ranges that have one version, one was done at most, and the others found nothing after it.
    fn delete<'e>(
        &mut self,
        deletions: impl Iterator<Item = &'e Event>,
        version: Version,
        is_taken: bool,
    ) {
        let mut left = Vec::new();
        for event in deletions {
            let _at = At(event);
            let What::Write { handle, write, .. } = &event.what else { continue };
            let window = self.order.window(event.span);
            assert!(window.low <= version && version < window.high, "not in {window:?}");
            let of_handle = self.lives.of_handle(*handle, &self.order);
            let life = self.lives.at(handle.table, version).expect("a table to delete from");
            assert!(of_handle.contains(&life), "deleted from another table of that name");
            left.push((life, write, event));
        }
        if !is_taken {
            let hidden = |&(life, write, _): &(usize, &Write, _)| {
                let changes = write.changes(&self.lives.0[life].state, version).unwrap_or_default();
                changes.into_iter().map(|(key, _)| key).collect::<BTreeSet<_>>().len()
            };
            let most = left.iter().enumerate().max_by_key(|(_, deletion)| hidden(deletion));
            if let Some((index, _)) = most {
                let (life, write, _) = left.swap_remove(index);
                apply(&mut self.lives.0[life], write, version);
            }
        }
        for (life, write, event) in left {
            let _at = At(event);
            let changes = write.changes(&self.lives.0[life].state, version);
            assert_eq!(changes, Ok(Vec::new()), "nothing was done, and there was something");
        }
    }

    fn read(&mut self, event: &Event, at: Version) {
        match &event.what {
            What::Page { via, spec, start, outcome } => {
                if via.at.is_none() {
                    let window = self.order.window(event.span);
                    assert!(window.low <= at && at < window.high, "not in {window:?}");
                }
                let is_empty = outcome.as_ref().is_ok_and(|page| page.rows.is_empty());
                let Some(state) = self.shown(*via, at, outcome.as_ref().err(), is_empty) else {
                    return;
                };
                let page = outcome.as_ref().expect("a page");
                assert_eq!(page.version, at);
                check_page(spec, state, start.as_ref(), page);
            }
            What::Get { via, keys, outcome } => {
                let is_empty = outcome
                    .as_ref()
                    .is_ok_and(|found| found.iter().all(|seen| *seen == Seen::Absent));
                let Some(state) = self.shown(*via, at, outcome.as_ref().err(), is_empty) else {
                    return;
                };
                let found = outcome.as_ref().expect("entities");
                keys.iter().zip(found).for_each(|(key, seen)| check_seen(state, key, seen));
            }
            What::Open { table, outcome, .. } => self.check_there(*table, at, outcome.is_ok()),
            What::Names { names, .. } => {
                for (name, table) in self.history.tables() {
                    self.check_there(table, at, names.contains(&name));
                }
            }
            What::Dump { tables, .. } => {
                // Tables are made and dropped durably, if there are any whose state could be lost.
                let is_end = event.span == Span::AFTERWARDS;
                let made_at = if is_end { Version::MAX.previous() } else { at };
                self.check_dump(tables, at, made_at);
            }
            What::Snapshot(_) => {
                let window = self.order.window(event.span);
                assert!(window.low <= at && at < window.high, "not in {window:?}");
            }
            _ => unreachable!("not a read"),
        }
    }

    /// What a read through a handle has to be held against; `None` if it was right that it failed, or found nothing.
    fn shown(
        &mut self,
        via: Via,
        at: Version,
        failure: Option<&Failure>,
        is_empty: bool,
    ) -> Option<&TableModel> {
        let lives = self.lives.of_handle(via.handle, &self.order);
        let any = |shown| lives.iter().any(|&life| self.lives.0[life].shown(at) == shown);
        if let Some(failure) = failure {
            assert_eq!(*failure, Failure::TableNotFound);
            assert!(any(Shown::Dropped), "the table was there");
            return None;
        }
        if is_empty && (any(Shown::Unborn) || any(Shown::Perhaps)) {
            return None;
        }
        let life = self.lives.at(via.handle.table, at).filter(|life| lives.contains(life));
        let life = &mut self.lives.0[life.expect("a table")];
        life.was_there(at);
        Some(&life.state)
    }

    fn check_there(&mut self, table: u8, at: Version, is_there: bool) {
        let life = self.lives.at(table, at);
        match life.map(|life| (self.lives.0[life].shown(at), &mut self.lives.0[life])) {
            Some((Shown::Perhaps, life)) if is_there => life.was_there(at),
            Some((Shown::Perhaps, life)) => life.was_not_there(at),
            shown => assert_eq!(shown.is_some(), is_there, "table {table} at {at}"),
        }
    }

    /// A dump has the tables of one version, and what was in them at one.
    fn check_dump(&mut self, found: &Model, at: Version, made_at: Version) {
        for (name, table) in self.history.tables() {
            let rows = found.tables.get(&name);
            self.check_there(table, made_at, rows.is_some());
            if let Some(rows) = rows {
                let life = self.lives.at(table, made_at).expect("it is there");
                let state = &self.lives.0[life].state;
                for key in state.keys().chain(rows.keys()) {
                    assert_eq!(rows.get(key), state.get(key), "{name}, {key:?} at {at}");
                }
            }
        }
    }
}

/// When an event is to be looked at, if it has a version.
fn turn(event: &Event) -> Option<(Version, Turn, &Event)> {
    let (version, turn) = match &event.what {
        What::Write { outcome: Ok(version), write, .. } if write.only_deletes_ranges() => {
            (*version, Turn::Deletion)
        }
        What::Write { outcome: Ok(version), .. } | What::Drop { outcome: Ok(version), .. } => {
            (*version, Turn::Write)
        }
        What::Birth { rows, outcome: Ok(()), .. } => (rows.first()?.1.version, Turn::Write),
        What::Get { via: Via { at: Some(at), .. }, .. }
        | What::Page { via: Via { at: Some(at), .. }, .. }
        | What::Open { at: Some(at), .. }
        | What::Names { at: Some(at), .. }
        | What::Dump { at, .. }
        | What::Snapshot(at) => (*at, Turn::Read),
        What::Page { outcome: Ok(page), .. } => (page.version, Turn::Read),
        _ => return None,
    };
    Some((version, turn, event))
}

fn apply(life: &mut Life, write: &Write, version: Version) {
    let changes = match write.changes(&life.state, version) {
        Ok(changes) => changes,
        Err(failure) => panic!("done, though {failure:?}"),
    };
    for (key, entity) in changes {
        match &entity {
            Some(entity) => drop(life.state.insert(key.clone(), entity.clone())),
            None => drop(life.state.remove(&key)),
        }
        let story = life.stories.entry(key).or_default();
        if story.last().is_some_and(|(since, _)| *since == version) {
            story.pop();
        }
        story.push((version, entity));
    }
}

fn check_seen(state: &TableModel, key: &Key, seen: &Seen) {
    let entity = state.get(key);
    match seen {
        Seen::Absent => assert_eq!(entity, None, "{key:?}"),
        Seen::Present => assert!(entity.is_some(), "{key:?} is not there"),
        Seen::Entity(seen) => assert_eq!(Some(seen), entity, "{key:?}"),
    }
}
