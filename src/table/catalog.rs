//! The catalog: table names to incarnation ids, kept as entities of a table of the engine's own.
//!
//! Invariants: a name is created and dropped by a commit like any other, so the log orders it
//! with the writes to its table (R-E17); ids are never given out twice; a dropped table's handle
//! never writes again, because the drop holds every latch while it marks the incarnation.
//!
//! The catalog is partition "" of table 0: RowKey "" holds the next id, every other RowKey is a
//! name and holds its id, each as a varint.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::commit::{Applied, Incarnation, Payload, Pipeline, Prepared};
use crate::entry::Kind;
use crate::error::{Error, Result};
use crate::key::{self, TableId};
use crate::read;
use crate::sst::Lookup;
use crate::varint::{push_varint, read_varint};
use crate::version::Version;

/// RowKey of the entity that holds the next table id.
const NEXT_ID: &[u8] = b"";

/// A part of the list of tables, in byte order of their names.
///
/// ```
/// use tablestone::{Database, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// for name in ["bees", "ants", "cats"] {
///     database.create_table(name).wait()?;
/// }
/// let first = database.tables(None, 2)?;
/// assert_eq!(first.names, ["ants", "bees"]);
/// let rest = database.tables(first.next.as_deref(), 2)?;
/// assert_eq!((rest.names, rest.next), (vec!["cats".to_owned()], None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableList {
    /// The names.
    pub names: Vec<String>,
    /// Give this to the next call; `None` at the end of the list.
    pub next: Option<String>,
}

/// Names to incarnations, with the incarnations that handles are open on.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// By id; an incarnation without handles costs nothing but its catalog entry (R-E03).
    open: Mutex<HashMap<TableId, Weak<Incarnation>>>,
}

/// What the catalog says of a name, durable or not.
struct Entry {
    /// Of the commit that created or dropped it; zero if it never was.
    version: Version,
    id: Option<TableId>,
}

impl Catalog {
    /// Under the latches it needs: creates a table, or says that it exists.
    pub(super) fn create(&self, pipeline: &Pipeline, name: &str) -> Applied<Arc<Incarnation>> {
        let partition = key::encode_partition(TableId::CATALOG, b"");
        let _latch = pipeline.latches().lock(key::hash(&partition));
        let (entry, next) = match (lookup(pipeline, name.as_bytes()), lookup(pipeline, NEXT_ID)) {
            (Ok(entry), Ok(next)) => (entry, next.id.unwrap_or(TableId::FIRST)),
            (Err(error), _) | (_, Err(error)) => return Applied::failed(Version::ZERO, error),
        };
        if entry.id.is_some() {
            return Applied::failed(entry.version, Error::TableExists(name.into()));
        }
        let mut payload = Payload::default();
        payload.rows(&partition, 2);
        payload.put(NEXT_ID, &encode_id(next.next()));
        payload.put(name.as_bytes(), &encode_id(next));
        let version = pipeline.submit(&Prepared::new(payload));
        Applied::done(version, self.incarnation(next, name))
    }

    /// Drops a table: its name goes, and a range tombstone covers its keys, in one commit.
    pub(super) fn drop_table(&self, pipeline: &Pipeline, name: &str) -> Applied<Version> {
        // Every writer waits for the latches, so what has to come from disk is read before.
        let prepared = lookup(pipeline, name.as_bytes())
            .and_then(|entry| entry.id.map_or(Ok(true), |id| is_blank(pipeline, id)));
        let _latches = pipeline.latches().lock_all();
        let (entry, was_blank) = match (lookup(pipeline, name.as_bytes()), prepared) {
            (Ok(entry), Ok(was_blank)) => (entry, was_blank),
            (Err(error), _) | (_, Err(error)) => return Applied::failed(Version::ZERO, error),
        };
        let Some(id) = entry.id else {
            return Applied::failed(entry.version, Error::TableNotFound(name.into()));
        };
        let mut payload = Payload::default();
        payload.rows(&key::encode_partition(TableId::CATALOG, b""), 1);
        payload.delete(name.as_bytes());
        let (low, high) = (key::encode_table(id), key::prefix_end(&key::encode_table(id)));
        // Tables that come and go unused leave nothing behind.
        if !was_blank || !is_blank(pipeline, id).unwrap_or(false) {
            payload.delete_range(&low, &high);
        }
        let version = pipeline.submit_deletion(&Prepared::new(payload), &low, &high);
        if let Some(open) = self.open.lock().remove(&id).and_then(|weak| weak.upgrade()) {
            open.drop_at(version);
        }
        Applied::done(version, version)
    }

    /// The incarnation that a name stands for, once that is durable.
    pub(super) fn open(&self, pipeline: &Pipeline, name: &str) -> Result<Arc<Incarnation>> {
        // The registry's lock keeps a drop from marking handles between look-up and entry. A drop
        // waits for it with all latches held, so what has to come from disk is read before.
        lookup(pipeline, name.as_bytes())?;
        let (entry, found) = {
            let mut open = self.open.lock();
            let entry = lookup(pipeline, name.as_bytes())?;
            let found = entry.id.map(|id| entered(&mut open, id, name));
            (entry, found)
        };
        pipeline.wait(entry.version)?;
        found.ok_or_else(|| Error::TableNotFound(name.into()))
    }

    fn incarnation(&self, id: TableId, name: &str) -> Arc<Incarnation> {
        entered(&mut self.open.lock(), id, name)
    }
}

/// The incarnation with this id; all handles on a table share one.
fn entered(
    open: &mut HashMap<TableId, Weak<Incarnation>>,
    id: TableId,
    name: &str,
) -> Arc<Incarnation> {
    if let Some(incarnation) = open.get(&id).and_then(Weak::upgrade) {
        return incarnation;
    }
    if open.len() == open.capacity() {
        open.retain(|_, weak| weak.strong_count() > 0);
    }
    let incarnation = Incarnation::new(id, name);
    open.insert(id, Arc::downgrade(&incarnation));
    incarnation
}

/// Whether nothing was ever stored in a table, or nothing is left of it.
fn is_blank(pipeline: &Pipeline, table: TableId) -> Result<bool> {
    read::is_blank(&pipeline.tree().view(), table)
}

fn lookup(pipeline: &Pipeline, row_key: &[u8]) -> Result<Entry> {
    let key = key::encode(TableId::CATALOG, b"", row_key);
    let found =
        read::get_raw(&pipeline.tree().view(), &Lookup::new(&key), Version::MAX, |found| {
            let id = (found.kind == Kind::Put).then(|| decode_id(found.value));
            Entry { version: found.version, id }
        })?;
    Ok(found.unwrap_or(Entry { version: Version::ZERO, id: None }))
}

fn encode_id(id: TableId) -> Vec<u8> {
    let mut out = Vec::new();
    push_varint(&mut out, id.get());
    out
}

/// Catalog values are written by this file alone and checksummed below it.
fn decode_id(value: &[u8]) -> TableId {
    TableId::new(read_varint(value).map_or(0, |(id, _)| id))
}
