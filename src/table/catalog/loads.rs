//! Loads in the catalog: tables that are being loaded, and have no name yet.
//!
//! In partition "loads" of table 0 each RowKey is the id of such a table, as a varint, and holds the name to be.
//! Invariant: an id that is given out for a load is there until the commit that gives the table its name, or the
//! one that deletes what there is of it; salvage leaves that to be given another name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{
    Catalog, Entry, NEXT_ID, decode_id, encode_id, free_id, in_catalog, is_blank, lookup, names,
};
use crate::commit::{Applied, Payload, Pipeline, Prepared};
use crate::error::{Error, Result};
use crate::key::{self, TableId};
use crate::levels::Reservation;
use crate::version::Version;

/// PartitionKey of the ids that are being loaded.
pub(in crate::table) const LOADS: &[u8] = b"loads";

/// A load that has begun.
pub(in crate::table) struct Begun {
    pub(in crate::table) id: TableId,
    /// That of its rows.
    pub(in crate::table) version: Version,
    pub(in crate::table) reservation: Reservation,
    pub(in crate::table) name: Arc<LoadedName>,
}

/// The name that a table which is being loaded is to have. While another table has it, the catalog shows that; that it
/// was dropped is noted here, as a compaction may remove the deletion from the catalog.
#[derive(Debug)]
pub(in crate::table) struct LoadedName {
    name: Box<str>,
    /// The version that dropped a table of this name since the load began; zero if none did.
    dropped_at: AtomicU64,
}

impl LoadedName {
    pub(in crate::table) fn as_str(&self) -> &str {
        &self.name
    }

    fn dropped_at(&self) -> Version {
        Version::from_ticks(self.dropped_at.load(Ordering::Acquire))
    }
}

/// The names of loads under way.
#[derive(Debug, Default)]
pub(super) struct Loads(Mutex<Vec<Weak<LoadedName>>>);

impl Loads {
    fn begin(&self, name: &str) -> Arc<LoadedName> {
        let name = Arc::new(LoadedName { name: name.into(), dropped_at: AtomicU64::new(0) });
        let mut loads = self.0.lock();
        loads.retain(|load| load.strong_count() > 0);
        loads.push(Arc::downgrade(&name));
        name
    }

    /// A table of this name was dropped.
    pub(super) fn note_dropped(&self, name: &str, at: Version) {
        let loads = self.0.lock();
        for load in loads.iter().filter_map(Weak::upgrade).filter(|load| *load.name == *name) {
            load.dropped_at.store(at.ticks(), Ordering::Release);
        }
    }
}

impl Catalog {
    /// Gives out an id for a table that is to be loaded before it gets its name.
    pub(in crate::table) fn begin_load(&self, pipeline: &Pipeline, name: &str) -> Applied<Begun> {
        let (names, loads) = (&names(), &loads());
        let _latches = pipeline.latches().lock_many([key::hash(names), key::hash(loads)]);
        let id = match free_id(pipeline, name) {
            Ok(next) => next,
            Err(taken) => return taken.into_applied(),
        };
        // Under the latch: nobody has a later id yet.
        let reservation = Reservation::new(pipeline.tree(), &key::encode_table(id));
        let mut payload = Payload::default();
        payload.rows(names, 1);
        payload.put(NEXT_ID, &encode_id(id.next()));
        payload.rows(loads, 1);
        payload.put(&encode_id(id), name.as_bytes());
        let version = pipeline.submit(&Prepared::new(payload));
        Applied::done(version, Begun { id, version, reservation, name: self.loads.begin(name) })
    }

    /// Gives a table that was loaded its name.
    pub(in crate::table) fn end_load(
        pipeline: &Pipeline,
        id: TableId,
        loaded: &LoadedName,
    ) -> Applied<()> {
        let name = &loaded.name;
        let (names, loads) = (&names(), &loads());
        let _latches = pipeline.latches().lock_many([key::hash(names), key::hash(loads)]);
        match lookup(pipeline, name.as_bytes()) {
            Ok(Entry { id: None, .. }) if loaded.dropped_at() == Version::ZERO => {}
            // Also if it was dropped again: its entities had later versions than these have (R-E04).
            Ok(taken) => {
                let upto = taken.version.max(loaded.dropped_at());
                return Applied::failed(upto, Error::TableExists(name.clone()));
            }
            Err(error) => return Applied::failed(Version::ZERO, error),
        }
        let mut payload = Payload::default();
        payload.rows(names, 1);
        payload.put(name.as_bytes(), &encode_id(id));
        payload.rows(loads, 1);
        payload.delete(&encode_id(id));
        Applied::done(pipeline.submit(&Prepared::new(payload)), ())
    }

    /// Forgets a load, and deletes what the table files have of it.
    pub(in crate::table) fn abandon_load(
        pipeline: &Pipeline,
        id: TableId,
        has_files: bool,
    ) -> Version {
        let loads = &loads();
        let _latch = pipeline.latches().lock(key::hash(loads));
        let mut payload = Payload::default();
        payload.rows(loads, 1);
        payload.delete(&encode_id(id));
        if !has_files {
            return pipeline.submit(&Prepared::new(payload));
        }
        let (low, high) = key::table_range(id);
        payload.delete_range(&low, &high);
        pipeline.submit_deletion(&Prepared::new(payload), &low, &high)
    }

    /// Forgets a load that the process which began it did not end, by the RowKey that says so, with all there is of it
    /// unless `keeps_rows`.
    ///
    /// # Errors
    /// [`Error::Corruption`] if that is no id.
    pub(in crate::table) fn abandon_left_load(
        pipeline: &Pipeline,
        row_key: &[u8],
        keeps_rows: bool,
    ) -> Result<Version> {
        let id = decode_id(row_key).map_err(|damage| in_catalog(pipeline, damage))?;
        let deletes = !keeps_rows && !is_blank(pipeline, id).unwrap_or(false);
        Ok(Self::abandon_load(pipeline, id, deletes))
    }
}

/// Their encoded partition.
fn loads() -> Vec<u8> {
    key::encode_partition(TableId::CATALOG, LOADS)
}
