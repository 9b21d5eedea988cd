//! The catalog: table names to incarnation ids, kept as entities of a table of the engine's own.
//!
//! Invariants: a name is created and dropped by a commit like any other, so the log orders it
//! with the writes to its table (R-E17); ids are never given out twice; a dropped table's handle
//! never writes again, because the drop holds every latch while it marks the incarnation.
//!
//! The catalog is partition "" of table 0: RowKey "" holds the next id, every other RowKey is a
//! name and holds its id, each as a varint. In partition "loads" are tables that have no name [yet](loads).

mod loads;
mod registry;

use std::sync::Arc;

use self::loads::Loads;
pub(super) use self::loads::{Begun, LOADS, LoadedName};
use self::registry::Registry;
use crate::activity::Activity;
use crate::commit::{Applied, FewRows, Incarnation, Payload, Pipeline, Prepared, check_limit};
use crate::entry::Kind;
use crate::error::{Damage, Error, Limit, Result};
use crate::key::{self, TableId};
use crate::read;
use crate::sst::Lookup;
use crate::varint::{push_varint, read_varint};
use crate::version::Version;

/// Longest table name in bytes.
const TABLE_NAME_BYTES: usize = 512;
/// RowKey of the entity that holds the next table id.
const NEXT_ID: &[u8] = b"";
/// PartitionKey of the names.
pub(super) const NAMES: &[u8] = b"";

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
    open: Registry,
    loads: Loads,
}

/// Why a name cannot be given, and the version from which on that is visible.
struct Taken {
    upto: Version,
    error: Error,
}

impl Taken {
    fn into_applied<T>(self) -> Applied<T> {
        Applied::failed(self.upto, self.error)
    }
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
        let _latch = pipeline.latches().lock(key::hash(&names()));
        self.create_latched(pipeline, name)
    }

    /// Under the latches it needs: creates a table, unless it exists.
    pub(super) fn ensure(&self, pipeline: &Pipeline, name: &str) -> Applied<Arc<Incarnation>> {
        let _latch = pipeline.latches().lock(key::hash(&names()));
        match self.find(pipeline, name) {
            Applied { result: Err(Error::TableNotFound(_)), .. } => {
                self.create_latched(pipeline, name)
            }
            found => found,
        }
    }

    fn create_latched(&self, pipeline: &Pipeline, name: &str) -> Applied<Arc<Incarnation>> {
        let next = match free_id(pipeline, name) {
            Ok(next) => next,
            Err(taken) => return taken.into_applied(),
        };
        let mut payload = Payload::default();
        payload.rows(&names(), 2);
        payload.put(NEXT_ID, &encode_id(next.next()));
        payload.put(name.as_bytes(), &encode_id(next));
        let version = pipeline.submit(&Prepared::new(payload));
        Applied::done(version, self.open.lock(next).enter(next, name, version))
    }

    /// Drops a table: its name goes, and a range tombstone covers its keys, or its entities are deleted if they are few
    /// and in memory, in one commit.
    pub(super) fn drop_table(&self, pipeline: &Pipeline, name: &str) -> Applied<Version> {
        // Every writer waits for the latches, so what has to come from disk is read before. Rows that are damaged
        // are rows: a table can be dropped whatever became of them.
        let is_blank = |id| is_blank(pipeline, id).unwrap_or(false);
        let was_blank =
            lookup(pipeline, name.as_bytes()).is_ok_and(|entry| entry.id.is_some_and(is_blank));
        let _latches = pipeline.latches().lock_all();
        let entry = match lookup(pipeline, name.as_bytes()) {
            Ok(entry) => entry,
            Err(error) => return Applied::failed(Version::ZERO, error),
        };
        let Some(id) = entry.id else {
            return Applied::failed(entry.version, Error::TableNotFound(name.into()));
        };
        let mut payload = Payload::default();
        payload.rows(&names(), 1);
        payload.delete(name.as_bytes());
        let (low, high) = key::table_range(id);
        // Tables that come and go with little in them leave no range behind: a memtable is full of few, and each has
        // all of them put in order anew while every writer waits.
        match FewRows::in_memory(pipeline, id, &low, &high) {
            Some(few) => few.delete(&mut payload),
            None if was_blank && is_blank(id) => {}
            None => payload.delete_range(&low, &high),
        }
        // Whoever sees the drop finds its handles marked. The registry's part is locked before there is anything that
        // others could wait for.
        let open = self.open.lock(id);
        let mark = |version| {
            if let Some(open) = open.get(id) {
                open.drop_at(version);
            }
            drop(open);
        };
        let prepared = Prepared::new(payload);
        let version = pipeline.submit_deletion_noting(&prepared, &low, &high, mark);
        self.loads.note_dropped(name, version);
        Applied::done(version, version)
    }

    /// Gives out no id up to this one any more.
    pub(super) fn skip_ids(pipeline: &Pipeline, upto: TableId) -> Result<()> {
        let names = &names();
        let _latch = pipeline.latches().lock(key::hash(names));
        let next = lookup(pipeline, NEXT_ID)?;
        if upto >= next.id.unwrap_or(TableId::FIRST) {
            let mut payload = Payload::default();
            payload.rows(names, 1);
            payload.put(NEXT_ID, &encode_id(upto.next()));
            pipeline.submit(&Prepared::new(payload));
        }
        Ok(())
    }

    /// Gives a table that has lost its name the first free one of `recovered-ID`, `recovered-ID-2` …
    pub(super) fn name_stray(pipeline: &Pipeline, id: TableId) -> Result<String> {
        let names = &names();
        let _latch = pipeline.latches().lock(key::hash(names));
        let mut name = format!("recovered-{id}");
        for further in 2_u64.. {
            if lookup(pipeline, name.as_bytes())?.id.is_none() {
                break;
            }
            name = format!("recovered-{id}-{further}");
        }
        let mut payload = Payload::default();
        payload.rows(names, 1);
        payload.put(name.as_bytes(), &encode_id(id));
        pipeline.submit(&Prepared::new(payload));
        Ok(name)
    }

    /// Whether that is a name [given](Self::name_stray) to this table.
    pub(super) fn is_of_stray(name: &str, id: TableId) -> bool {
        let further = name.strip_prefix(&format!("recovered-{id}"));
        let is_number = |further: &str| further.parse::<u64>().is_ok();
        further.is_some_and(|it| it.is_empty() || it.strip_prefix('-').is_some_and(is_number))
    }

    /// The id in the value of a name, if it is one.
    pub(super) fn id_of(value: &[u8]) -> Option<TableId> {
        decode_id(value).ok()
    }

    /// The incarnation that a name stands for, once that is durable.
    pub(super) fn open(&self, pipeline: &Pipeline, name: &str) -> Result<Arc<Incarnation>> {
        let Applied { upto, result } = self.find(pipeline, name);
        pipeline.wait(upto)?;
        result
    }

    /// The incarnation that a name stands for.
    pub(super) fn find(&self, pipeline: &Pipeline, name: &str) -> Applied<Arc<Incarnation>> {
        match self.enter(pipeline, name) {
            Ok((upto, Some(found))) => Applied::done(upto, found),
            Ok((upto, None)) => Applied::failed(upto, Error::TableNotFound(name.into())),
            Err(error) => Applied::failed(Version::ZERO, error),
        }
    }

    /// The incarnation that a name stands for, and since when.
    fn enter(
        &self,
        pipeline: &Pipeline,
        name: &str,
    ) -> Result<(Version, Option<Arc<Incarnation>>)> {
        let mut found = lookup(pipeline, name.as_bytes())?;
        while let Some(id) = found.id {
            // The registry's lock keeps a drop from coming between look-up and entry. A drop
            // waits for it with all latches held, so what has to come from disk was read before.
            let mut open = self.open.lock(id);
            found = lookup(pipeline, name.as_bytes())?;
            if found.id == Some(id) {
                return Ok((found.version, Some(open.enter(id, name, found.version))));
            }
        }
        Ok((found.version, None))
    }

    /// The incarnation that a name stood for at a version that a snapshot keeps. It may be dropped since, of which who
    /// reads at that version hears nothing.
    pub(super) fn open_at(
        &self,
        pipeline: &Pipeline,
        name: &str,
        at: Version,
    ) -> Result<Arc<Incarnation>> {
        let Entry { id, version } = lookup_at(pipeline, name.as_bytes(), at)?;
        let id = id.ok_or_else(|| Error::TableNotFound(name.into()))?;
        Ok(self.open.lock(id).enter(id, name, version))
    }

    /// What was done through handles on any table.
    pub(super) fn activity(&self) -> Activity {
        self.open.activity()
    }
}

pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::InvalidArgument("a table's name cannot be empty".into()));
    }
    check_limit(Limit::TableName, name.len(), TABLE_NAME_BYTES)
}

/// The next id, if the name is free. The caller has the latch of the names.
fn free_id(pipeline: &Pipeline, name: &str) -> Result<TableId, Taken> {
    match (lookup(pipeline, name.as_bytes()), lookup(pipeline, NEXT_ID)) {
        (Ok(Entry { id: None, .. }), Ok(next)) => Ok(next.id.unwrap_or(TableId::FIRST)),
        (Ok(entry), Ok(_)) => {
            Err(Taken { upto: entry.version, error: Error::TableExists(name.into()) })
        }
        (Err(error), _) | (_, Err(error)) => Err(Taken { upto: Version::ZERO, error }),
    }
}

/// The encoded partition of the names.
fn names() -> Vec<u8> {
    key::encode_partition(TableId::CATALOG, NAMES)
}

/// Whether nothing was ever stored in a table, or nothing is left of it.
fn is_blank(pipeline: &Pipeline, table: TableId) -> Result<bool> {
    read::is_blank(&pipeline.tree().view(), table)
}

fn lookup(pipeline: &Pipeline, row_key: &[u8]) -> Result<Entry> {
    lookup_at(pipeline, row_key, Version::MAX)
}

fn lookup_at(pipeline: &Pipeline, row_key: &[u8], at: Version) -> Result<Entry> {
    let key = key::encode(TableId::CATALOG, NAMES, row_key);
    let found = read::get_raw(&pipeline.tree().view(), &Lookup::new(&key), at, |found| {
        (found.version, (found.kind == Kind::Put).then(|| decode_id(found.value)))
    })?;
    let (version, id) = found.unwrap_or((Version::ZERO, None));
    let id = id.transpose().map_err(|damage| in_catalog(pipeline, damage))?;
    Ok(Entry { version, id })
}

fn encode_id(id: TableId) -> Vec<u8> {
    let mut out = Vec::new();
    push_varint(&mut out, id.get());
    out
}

/// The catalog itself has no name, nor a load.
fn decode_id(bytes: &[u8]) -> Result<TableId, Damage> {
    match read_varint(bytes) {
        Some((id, len)) if len == bytes.len() && TableId::new(id) >= TableId::FIRST => {
            Ok(TableId::new(id))
        }
        _ => Err(Damage::new(0, "the id of a table in the catalog", format!("{bytes:?}"))),
    }
}

/// Its checksum was right: in which file it is, is not known.
#[cold]
fn in_catalog(pipeline: &Pipeline, damage: Damage) -> Error {
    damage.in_file(&pipeline.tree().dir, 0)
}

#[cfg(test)]
impl Catalog {
    /// Holds up whoever needs the registry.
    pub(super) fn locked(&self) -> Vec<impl Drop + '_> {
        self.open.lock_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_e22_what_is_no_id_of_a_table_is_damage_and_not_the_catalogs() {
        for id in [1, 127, 128, u64::MAX] {
            let id = TableId::new(id);
            assert_eq!(decode_id(&encode_id(id)).unwrap(), id);
        }
        let catalog = encode_id(TableId::CATALOG);
        for bytes in [&b""[..], b"\x80", b"\x01\x00", &catalog, &[0xFF; 11]] {
            let damage = decode_id(bytes).unwrap_err();
            assert_eq!(damage.expected, "the id of a table in the catalog", "{bytes:?}");
        }
    }
}
