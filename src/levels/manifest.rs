//! The manifest: the durable history of which table files make up the tree.
//!
//! Invariant: `CURRENT` names a manifest whose first record describes a whole state, and that was
//! synced before `CURRENT` named it. Each later record is synced before anything is written behind it. So a
//! record that fails its check is damage if it is the first or if a valid one follows, and
//! otherwise the torn end of a write that was never acknowledged: leaving it out is right, since
//! an edit moves entries between files (and the log) without changing what the tree holds, and
//! what it made obsolete is removed only after it is synced.
//!
//! That the last edit was synced is said by its *proof*, an edit that changes nothing, written behind it once
//! it is. Nobody waits for the proof's own sync, and the next edit takes its place. Until the device has it,
//! damage to the edit cannot be told from a torn one. So an edit that makes nothing obsolete, which nobody would
//! miss, as of a table that was loaded, is the first record of a manifest of its own.
//!
//! ```text
//! CURRENT       = header("TSCURRNT", number of the manifest)
//! MANIFEST-NNN  = header("TSMANIFS", NNN) record*
//! header        = magic [8], format u32, number u64, crc32 u32 of the 20 bytes before
//! record        = crc32 u32, length u32, ordinal u64 (0, 1, ..), edit [length]
//! ```
//!
//! The crc32 of a record covers the manifest's number and all but itself. Numbers are little-endian.
//!
//! An opening that finds it whole goes on behind its last record, once all of it is durable, and proves that one again.
//!
//! After a failed write or sync nobody knows what the file holds, so it is never written again:
//! the next edit goes into a new manifest. Until that one is current, the files which the failed
//! edit added must stay: the edit may turn out to be durable after all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::edit::Edit;
use crate::env::{Disk, DiskFile, NO_FILE_NUMBER};
use crate::error::{Error, Result};
use crate::version::Version;

/// The file that names the manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// What `CURRENT` is called until it is whole.
pub(super) const CURRENT_TEMPORARY: &str = "CURRENT.tmp";
const PREFIX: &str = "MANIFEST-";

pub(super) const FORMAT: u32 = 1;
pub(super) const CURRENT_MAGIC: [u8; 8] = *b"TSCURRNT";
pub(super) const MANIFEST_MAGIC: [u8; 8] = *b"TSMANIFS";
pub(super) const HEADER_BYTES: usize = 24;
pub(super) const RECORD_HEADER_BYTES: usize = 16;

/// A manifest that has grown past its first record by this much is replaced by a new one, and so is one to which
/// a longer edit would be added: opening reads all of it.
const ROLL_BYTES: u64 = 1 << 20;
/// What has grown by more is no manifest. Far above what one grows by, as nothing is gained by a near bound.
pub(super) const MOST_GROWTH_BYTES: u64 = 64 << 20;
const _: () = assert!(MOST_GROWTH_BYTES >= 2 * ROLL_BYTES);

/// Number of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManifestId(pub(super) u64);

impl ManifestId {
    /// Before the first.
    pub(super) const NONE: Self = Self(0);

    pub(super) fn file_name(self) -> String {
        format!("{PREFIX}{:06}", self.0)
    }

    pub(super) fn from_file_name(name: &str) -> Option<Self> {
        let id = Self(name.strip_prefix(PREFIX)?.parse().ok()?);
        (id.file_name() == name && id.0 < NO_FILE_NUMBER).then_some(id)
    }
}

pub(super) fn encode_header(magic: [u8; 8], number: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    let fields = [&magic[..], &FORMAT.to_le_bytes(), &number.to_le_bytes()].concat();
    let crc = crc32fast::hash(&fields).to_le_bytes();
    out.iter_mut().zip(fields.into_iter().chain(crc)).for_each(|(to, from)| *to = from);
    out
}

/// The checksum of a record, from its bytes after the checksum.
pub(super) fn record_crc(manifest: ManifestId, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&manifest.0.to_le_bytes());
    hasher.update(rest);
    hasher.finalize()
}

pub(super) fn encode_record(manifest: ManifestId, ordinal: u64, edit: &Edit) -> Vec<u8> {
    let payload = edit.encode();
    let mut rest = Vec::with_capacity(payload.len() + RECORD_HEADER_BYTES);
    rest.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    rest.extend_from_slice(&ordinal.to_le_bytes());
    rest.extend_from_slice(&payload);
    let mut out = record_crc(manifest, &rest).to_le_bytes().to_vec();
    out.append(&mut rest);
    out
}

/// Writes the manifest; used under a lock.
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The newest number used, even if for a manifest that never became current.
    newest: ManifestId,
    /// The manifest to append to; none after a failure.
    tail: Option<Tail>,
    /// Manifests to be removed once another one is current.
    retired: Vec<ManifestId>,
    /// Files of edits of which it is not known whether they are durable.
    doubtful: Vec<PathBuf>,
    /// The log has to have everything up to this version that is not flushed; zero if it was closed by nobody, and no
    /// file relies on it.
    log_end: Version,
}

/// The end of a manifest that can be appended to.
pub(super) struct Tail {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    id: ManifestId,
    end: End,
}

/// Where records of a manifest end.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// That far from the start of the file.
    pub(super) bytes: u64,
    /// Of the record that follows.
    pub(super) ordinal: u64,
    /// Where the first record ends.
    pub(super) first: u64,
}

impl End {
    /// After another record of that length.
    pub(super) fn add(&mut self, record: usize) {
        self.bytes += record as u64;
        if self.ordinal == 0 {
            self.first = self.bytes;
        }
        self.ordinal += 1;
    }
}

impl Manifest {
    /// Goes on after `newest`, with a new manifest.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf, newest: ManifestId) -> Self {
        let retired = if newest == ManifestId::NONE { Vec::new() } else { vec![newest] };
        Self {
            disk,
            dir,
            newest,
            tail: None,
            retired,
            doubtful: Vec::new(),
            log_end: Version::ZERO,
        }
    }

    /// Goes on in the newest manifest, which is current, if this is its tail.
    pub(super) fn with_tail(mut self, tail: Option<Tail>) -> Self {
        if tail.is_some() {
            self.retired.clear();
            self.tail = tail;
        }
        self
    }

    /// Has the last edit be followed by a proof, if another one can be.
    pub(super) fn prove(&self, proof: &Edit) {
        self.tail.iter().for_each(|tail| tail.prove(proof));
    }

    /// Notes how far the log has to go, if that is known. What comes after, as of a compaction that was at work, says
    /// so too.
    pub(crate) fn reaches(&mut self, log_end: Version) -> Version {
        self.log_end = self.log_end.max(log_end);
        self.log_end
    }

    /// Whether there is a current manifest that can be written to.
    pub(crate) fn is_open(&self) -> bool {
        self.tail.is_some()
    }

    /// The manifest that `CURRENT` names, if it can be written to.
    pub(super) fn current(&self) -> Option<ManifestId> {
        self.tail.as_ref().map(|tail| tail.id)
    }

    /// Makes an edit durable, or without one the state that `whole` describes, to which it leads: by a new
    /// manifest. Returns files that are known from now on not to be part of the tree.
    ///
    /// After an error it is unknown whether the edit is durable: `added` is kept in mind as
    /// doubtful, the state is not to be changed.
    pub(crate) fn commit(
        &mut self,
        edit: Option<&Edit>,
        whole: impl FnOnce() -> Edit,
        added: impl FnOnce() -> Vec<PathBuf>,
    ) -> Result<Vec<PathBuf>> {
        let record = edit.and_then(|edit| Some((self.tail.as_ref()?.record(edit)?, edit)));
        let done = match (&mut self.tail, record) {
            (Some(tail), Some((record, edit))) => {
                tail.append(&record).map(|()| tail.prove(&edit.proof()))
            }
            _ => self.roll(&whole()),
        };
        match done {
            Ok(()) if self.retired.is_empty() => Ok(Vec::new()),
            Ok(()) => Ok(self.take_retired()),
            Err(error) => {
                self.retired.extend(self.tail.take().map(|tail| tail.id));
                self.doubtful.extend(added());
                Err(error)
            }
        }
    }

    /// Files that a new current manifest leaves behind.
    fn take_retired(&mut self) -> Vec<PathBuf> {
        let retired = self.retired.drain(..).map(|id| self.dir.join(id.file_name()));
        self.doubtful.drain(..).chain(retired).collect()
    }

    /// Begins a new manifest with a whole state and makes it current.
    fn roll(&mut self, whole: &Edit) -> Result<()> {
        let id = ManifestId(self.newest.0 + 1);
        self.newest = id;
        let path = self.dir.join(id.file_name());
        let bytes =
            [&encode_header(MANIFEST_MAGIC, id.0)[..], &encode_record(id, 0, whole)].concat();
        let file = match self.write_new(&path, &bytes) {
            Ok(file) => file,
            Err(error) => {
                let _ = self.disk.remove(&path);
                return Err(error);
            }
        };
        if let Err(error) = self.sync_dir().and_then(|()| self.set_current(id)) {
            self.retired.push(id);
            return Err(error);
        }
        let end = bytes.len() as u64;
        self.retired.extend(self.tail.take().map(|tail| tail.id));
        self.tail = Some(Tail::new(file, path, id, End { bytes: end, ordinal: 1, first: end }));
        Ok(())
    }

    fn set_current(&self, id: ManifestId) -> Result<()> {
        let temporary = self.dir.join(CURRENT_TEMPORARY);
        let current = self.dir.join(CURRENT);
        self.write_new(&temporary, &encode_header(CURRENT_MAGIC, id.0))?;
        self.disk.rename(&temporary, &current).map_err(|e| Error::io("rename", &temporary, e))?;
        self.sync_dir()
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<Arc<dyn DiskFile>> {
        let file = self.disk.create(path).map_err(|e| Error::io("create", path, e))?;
        file.write_at(bytes, 0).map_err(|e| Error::io("write", path, e))?;
        file.sync().map_err(|e| Error::io("sync", path, e))?;
        Ok(file)
    }

    fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir).map_err(|e| Error::io("sync directory", &self.dir, e))
    }
}

impl Tail {
    pub(super) fn new(file: Arc<dyn DiskFile>, path: PathBuf, id: ManifestId, end: End) -> Self {
        Self { file, path, id, end }
    }

    /// The record of an edit, if there is to be another one.
    fn record(&self, edit: &Edit) -> Option<Vec<u8>> {
        if self.end.bytes >= self.end.first + ROLL_BYTES {
            return None;
        }
        let record = encode_record(self.id, self.end.ordinal, edit);
        (record.len() as u64 <= ROLL_BYTES).then_some(record)
    }

    fn append(&mut self, record: &[u8]) -> Result<()> {
        let at = self.end.bytes;
        self.file.write_at(record, at).map_err(|e| Error::io("write", &self.path, e))?;
        self.file.sync().map_err(|e| Error::io("sync", &self.path, e))?;
        self.end.add(record.len());
        Ok(())
    }

    /// Has the last record, which was synced, be followed by its proof. Where that cannot be written nothing is
    /// proved; whether the file can still be synced, the next edit finds out.
    fn prove(&self, proof: &Edit) {
        let record = encode_record(self.id, self.end.ordinal, proof);
        let _ = self.file.write_at(&record, self.end.bytes);
    }
}
