//! Tables: made, loaded, dropped, and the handles on them.

use tablestone::Table;

use super::{STABLE, Worker};
use crate::event::{Had, Handle, What};
use crate::program::Drafts;
use crate::shared::Crashing;
use crate::support::model::{Entity, table_name};

impl Worker<'_> {
    /// Whether it makes and drops tables: where markers have to tell what is left, one thread alone.
    pub(super) fn makes_tables(&self) -> bool {
        self.shared.crashing.is_none() || self.thread == 1
    }

    /// Gives a handle to the threads that do not make tables.
    pub(super) fn share(&self, table: u8) {
        if let Some(Crashing { tables, .. }) = &self.shared.crashing {
            tables.lock().unwrap()[usize::from(table)] = self.tables[usize::from(table)].clone();
        }
    }

    /// A handle on a table: one had before, or a new one.
    pub(super) fn table(&mut self, table: u8) -> Option<(Table, Handle)> {
        if let Some(handle) = self.tables[usize::from(table)].clone() {
            return Some(handle);
        }
        if let (Some(Crashing { tables, .. }), false) = (&self.shared.crashing, self.makes_tables())
        {
            self.tables[usize::from(table)] = tables.lock().unwrap()[usize::from(table)].clone();
            return self.tables[usize::from(table)].clone();
        }
        let open = || self.shared.database.table(&table_name(table));
        let (span, opened) = self.shared.timed(open);
        let opened = self.outcome(opened);
        let outcome = opened.as_ref().map(drop).map_err(Clone::clone);
        self.note(span, What::Open { table, at: None, outcome });
        self.tables[usize::from(table)] =
            opened.ok().map(|opened| (opened, Handle { table, had: Had::Within(span) }));
        self.share(table);
        self.tables[usize::from(table)].clone()
    }

    pub(super) fn any_table(&mut self) -> Option<(Table, Handle)> {
        let table = self.rng.pick(&[STABLE, STABLE, 1, 1, 2]);
        self.table(table)
    }

    /// A handle on a table that was dropped is mostly given up.
    pub(super) fn give_up(&mut self, table: u8) {
        if self.rng.percent(60) && table != STABLE {
            self.tables[usize::from(table)] = None;
        }
    }

    pub(super) fn change_tables(&mut self) {
        if !self.makes_tables() {
            return self.pause();
        }
        let table = self.rng.pick(&[1, 2]);
        match self.rng.below(10) {
            0..2 => self.create(table),
            2..5 => self.load(table),
            5..8 => {
                self.tables[usize::from(table)] = None;
                self.table(table);
            }
            _ => self.drop_table(table),
        }
    }

    pub(super) fn drop_table(&mut self, table: u8) {
        let shared = self.shared;
        let _phase = shared.phases.as_ref().map(|phases| phases[usize::from(table)].write());
        let name = table_name(table);
        let (span, dropped) = shared.timed(|| shared.wait(shared.database.drop_table(&name)));
        let outcome = self.outcome(dropped);
        self.note(span, What::Drop { table, outcome });
    }

    pub(super) fn create(&mut self, table: u8) {
        let shared = self.shared;
        let _phase = shared.phases.as_ref().map(|phases| phases[usize::from(table)].read());
        let name = table_name(table);
        let (span, created) = shared.timed(|| shared.wait(shared.database.create_table(&name)));
        let created = self.outcome(created);
        let outcome = created.as_ref().map(drop).map_err(Clone::clone);
        self.note(span, What::Birth { table, rows: Vec::new(), outcome });
        if let Ok(created) = created {
            let handle = Handle { table, had: Had::Within(span) };
            self.tables[usize::from(table)] = Some((created, handle));
            self.share(table);
        }
    }

    pub(super) fn load(&mut self, table: u8) {
        let shared = self.shared;
        let Some(phases) = &shared.phases else { return self.create(table) };
        let _phase = phases[usize::from(table)].read();
        let step = self.number();
        let rows = Drafts { rng: &mut self.rng, step }.load();
        let is_abandoned = self.rng.percent(15);
        let load = || {
            let mut loader = self.shared.database.load_table(&table_name(table))?;
            for ((pk, rk), value) in &rows {
                loader.put(pk, rk, value)?;
            }
            if is_abandoned {
                return Ok(None);
            }
            let report = loader.finish()?;
            if self.shared.crashing.is_some() {
                self.shared.database.sync()?;
            }
            Ok(Some(report.version))
        };
        let (span, loaded) = self.shared.timed(load);
        let loaded = self.outcome(loaded);
        if loaded == Ok(None) {
            return;
        }
        let version = loaded.as_ref().ok().copied().flatten().unwrap_or_default();
        let entity = |(key, value)| (key, Entity { version, value });
        let (rows, outcome) = (rows.into_iter().map(entity).collect(), loaded.map(drop));
        self.note(span, What::Birth { table, rows, outcome });
    }
}
