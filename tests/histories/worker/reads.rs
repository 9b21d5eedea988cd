//! Reads: of the newest state, and of snapshots that are held.

use std::sync::Arc;

use tablestone::{Row, Snapshot};

use super::{Reader, STABLE, Worker};
use crate::event::{Failure, Had, Handle, Seen, Via, What};
use crate::program;
use crate::support::model::{Entity, row_key, table_name};
use crate::support::query::SeenPage;

impl Worker<'_> {
    /// The newest state of a table, or that of a snapshot.
    pub(super) fn reader(&mut self) -> Option<Reader> {
        if self.rng.percent(30)
            && let Some(snapshot) = self.snapshots.last().cloned()
        {
            return self.reader_at(&snapshot);
        }
        let (table, handle) = self.any_table()?;
        Some(Reader { view: (*table).clone(), via: Via { handle, at: None } })
    }

    pub(super) fn reader_at(&mut self, snapshot: &Snapshot) -> Option<Reader> {
        let at = Some(snapshot.version());
        if self.rng.percent(50) {
            let (table, handle) = self.any_table()?;
            let view = table.at(snapshot).expect("a snapshot of this database");
            return Some(Reader { view, via: Via { handle, at } });
        }
        let table = self.rng.pick(&[STABLE, 1, 2]);
        let (span, opened) = self.shared.timed(|| snapshot.table(&table_name(table)));
        let opened = self.outcome(opened);
        let outcome = opened.as_ref().map(drop).map_err(Clone::clone);
        self.note(span, What::Open { table, at, outcome });
        let handle = Handle { table, had: Had::At(snapshot.version()) };
        Some(Reader { view: opened.ok()?, via: Via { handle, at } })
    }

    pub(super) fn get(&mut self) {
        let Some(Reader { view, via }) = self.reader() else { return };
        let entity = |row: Row| Entity { version: row.version, value: row.value };
        let seen = |row: Option<Row>| row.map_or(Seen::Absent, |row| Seen::Entity(entity(row)));
        let (pk, rk) = program::key(&mut self.rng);
        let (keys, (span, found)) = match self.rng.below(5) {
            0 => {
                let exists = || view.exists(&pk, &rk);
                let (span, found) = self.shared.timed(exists);
                let seen = |exists| if exists { Seen::Present } else { Seen::Absent };
                (vec![(pk, rk)], (span, found.map(|exists| vec![seen(exists)])))
            }
            1..3 => {
                let (span, found) = self.shared.timed(|| view.get(&pk, &rk));
                (vec![(pk, rk)], (span, found.map(|row| vec![seen(row)])))
            }
            _ => {
                let rows = 1 + self.rng.below(20);
                let rows: Vec<_> =
                    (0..rows).map(|_| row_key(program::row(&mut self.rng))).collect();
                let (span, found) = self.shared.timed(|| view.get_many(&pk, &rows));
                let keys = rows.into_iter().map(|rk| (pk.clone(), rk)).collect();
                (keys, (span, found.map(|rows| rows.into_iter().map(seen).collect())))
            }
        };
        let outcome = self.outcome(found);
        for (key, seen) in keys.iter().zip(outcome.iter().flatten()) {
            if let (Seen::Entity(entity), None) = (seen, via.at) {
                self.seen.insert((via.handle.table, key.clone()), entity.version);
            }
        }
        if outcome == Err(Failure::TableNotFound) {
            self.give_up(via.handle.table);
        }
        self.note(span, What::Get { via, keys, outcome });
    }

    /// Goes on with a query, or begins one.
    pub(super) fn page(&mut self) {
        let (reader, spec, start) = match self.query.take() {
            Some(query) if self.rng.percent(80) => query,
            _ => {
                let Some(reader) = self.reader() else { return };
                let spec = program::query(&mut self.rng);
                let start = spec.first();
                (reader, spec, start)
            }
        };
        let query = spec.query(&reader.view, start.as_ref());
        let jitter = Arc::clone(&self.shared.jitter);
        let query = match self.rng.percent(30) {
            true => query.filter(move |_| {
                jitter.pause();
                true
            }),
            false => query,
        };
        let (span, page) = self.shared.timed(|| query.page());
        let outcome = self.outcome(page).map(|page| SeenPage::of(&page));
        let via = reader.via;
        let next = outcome.as_ref().ok().and_then(|page| page.next.clone());
        self.query = next.map(|next| (reader, spec.clone(), Some(next)));
        if outcome.as_ref().err() == Some(&Failure::TableNotFound) {
            self.give_up(via.handle.table);
        }
        self.note(span, What::Page { via, spec, start, outcome });
    }

    pub(super) fn take_snapshot(&mut self) {
        if self.snapshots.len() >= 2 {
            let oldest_or_newest = self.rng.below(self.snapshots.len());
            self.snapshots.remove(oldest_or_newest);
        }
        let (span, snapshot) = self.shared.timed(|| self.shared.database.snapshot());
        self.note(span, What::Snapshot(snapshot.version()));
        self.snapshots.push(snapshot);
    }

    pub(super) fn names(&mut self) {
        let snapshot = self.snapshots.first().filter(|_| self.rng.clone().percent(50)).cloned();
        let list = || match &snapshot {
            Some(snapshot) => snapshot.tables(None, usize::MAX),
            None => self.shared.database.tables(None, usize::MAX),
        };
        let (span, listed) = self.shared.timed(list);
        if let Ok(list) = self.outcome(listed) {
            let at = snapshot.map(|snapshot| snapshot.version());
            self.note(span, What::Names { at, names: list.names });
        }
    }
}
