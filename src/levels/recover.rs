//! Reads `CURRENT` and the manifest it names back into an [`Inventory`].
//!
//! Invariant: nothing is believed before its checksum holds, and a strict recovery returns either
//! the state of the last acknowledged edit (or of the one that was under way) or an error. No more is held in
//! memory of a file than one that was written here may have, whatever length the file system says it has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::edit::{EDIT_FORMAT, Edit, EditError, Inventory};
use super::manifest::{
    CURRENT, CURRENT_MAGIC, CURRENT_TEMPORARY, End, FORMAT, HEADER_BYTES, MANIFEST_MAGIC,
    MOST_GROWTH_BYTES, ManifestId, RECORD_HEADER_BYTES, Tail, record_crc,
};
use crate::env::{Disk, DiskFile, open_if_there};
use crate::error::{Corruption, Damage, Error, Result};
use crate::options::Recovery;
use crate::salvage;
use crate::sst;
use crate::wal::SegmentId;

/// What the manifest of a database says.
pub(crate) struct Recovered {
    pub(crate) inventory: Inventory,
    /// The newest manifest there is.
    pub(crate) newest: ManifestId,
    /// Under salvage: what could not be read.
    pub(crate) lost: Vec<Corruption>,
    /// What is at its end and no edit: a part of one that was under way, which is no damage, or of one that was lost.
    pub(crate) torn: Option<Corruption>,
    /// Where the next edit goes, unless a new manifest has to be begun.
    pub(super) end: Option<End>,
}

impl Recovered {
    /// For where no manifest can be read. The newest there is, if there is any, is not written over: a power cut meanwhile
    /// could leave parts of both.
    pub(super) fn nothing(newest: ManifestId) -> Self {
        Self { inventory: Inventory::new(), newest, lost: Vec::new(), torn: None, end: None }
    }
}

/// Reads the manifest of the database in `dir`; `None` if there is no database yet: without `CURRENT` no commit was
/// acknowledged, unless that is lost, as what [is there](tells_of_commits) besides then says.
pub(crate) fn recover(disk: &dyn Disk, dir: &Path, mode: Recovery) -> Result<Option<Recovered>> {
    let names = disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
    let newest = newest_manifest(&names);
    let id = match read_current(disk, &dir.join(CURRENT)) {
        Ok(Some(id)) => id,
        Ok(None) if !tells_of_commits(disk, dir, &names)? => return Ok(None),
        Ok(None) => {
            let missing = Damage::new(0, "the name of the manifest", "no file");
            return salvage(disk, dir, &names, missing.in_file(&dir.join(CURRENT), 0), mode);
        }
        Err(error) => return salvage(disk, dir, &names, error, mode),
    };
    match read_manifest(disk, dir, id, mode) {
        Ok(Parsed { inventory, damage, torn, end }) => {
            // Salvage may find less of the log than this manifest says that there is.
            let is_kept = mode == Recovery::Strict && torn.is_none() && newest <= id;
            Ok(Some(Recovered {
                inventory,
                newest: newest.max(id),
                lost: damage.into_iter().collect(),
                torn,
                end: is_kept.then_some(end),
            }))
        }
        Err(error) => salvage(disk, dir, &names, error, mode),
    }
}

/// Whether there is a file, or a manifest that tells of any, of a database or checkpoint that was made. One that is being
/// made for the first time has none, and a manifest that may be torn.
fn tells_of_commits(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<bool> {
    let is_stored = |name: &String| {
        sst::parse_file_name(name).is_some() || SegmentId::from_values_name(name).is_some()
    };
    if names.iter().any(is_stored) {
        return Ok(true);
    }
    for id in names.iter().filter_map(|name| ManifestId::from_file_name(name)) {
        match read_manifest(disk, dir, id, Recovery::Salvage) {
            Ok(Parsed { inventory, .. }) if inventory.tells_of_commits() => return Ok(true),
            Ok(_) | Err(Error::Corruption(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Makes durable what was read of the manifest, as all that follows relies on it: it may be in the system's cache alone,
/// where a process that was killed, or whose sync failed, left it. Later edits go behind `end`.
pub(super) fn make_durable(disk: &dyn Disk, dir: &Path, end: Option<End>) -> Result<Option<Tail>> {
    let Some(id) = read_current(disk, &dir.join(CURRENT))? else { return Ok(None) };
    let path = dir.join(id.file_name());
    let Some(content) = Content::open(disk, &path)? else { return Ok(None) };
    let bytes = content.read(content.len)?;
    let written = content.file.write_at(&bytes, 0).and_then(|()| content.file.sync());
    written.map_err(|e| Error::io("write to", &path, e))?;
    disk.sync_dir(dir).map_err(|e| Error::io("sync directory", dir, e))?;
    let file = content.file;
    Ok(end.map(|end| Tail::new(file, path, id, end)))
}

pub(super) fn newest_manifest(names: &[String]) -> ManifestId {
    names.iter().filter_map(|n| ManifestId::from_file_name(n)).max().unwrap_or(ManifestId::NONE)
}

/// Under salvage, the newest manifest that can be read at all replaces the one that cannot.
fn salvage(
    disk: &dyn Disk,
    dir: &Path,
    names: &[String],
    error: Error,
    mode: Recovery,
) -> Result<Option<Recovered>> {
    let corruption = mode.tolerate(error)?;
    let mut ids: Vec<_> = names.iter().filter_map(|n| ManifestId::from_file_name(n)).collect();
    ids.sort_by(|a, b| b.cmp(a));
    let newest = newest_manifest(names);
    for id in ids {
        if let Ok(Parsed { inventory, damage, torn, .. }) = read_manifest(disk, dir, id, mode) {
            let lost = std::iter::once(corruption).chain(damage).collect();
            return Ok(Some(Recovered { inventory, newest, lost, torn, end: None }));
        }
    }
    Ok(Some(Recovered { lost: vec![corruption], ..Recovered::nothing(newest) }))
}

/// A file that is read from its beginning.
struct Content<'a> {
    file: Arc<dyn DiskFile>,
    path: &'a Path,
    len: u64,
}

impl<'a> Content<'a> {
    /// `None` if there is no such file.
    fn open(disk: &dyn Disk, path: &'a Path) -> Result<Option<Self>> {
        let opened = open_if_there(disk, path).map_err(|e| Error::io("open", path, e))?;
        let Some(file) = opened else { return Ok(None) };
        let len = file.len().map_err(|e| Error::io("measure", path, e))?;
        Ok(Some(Self { file, path, len }))
    }

    /// So many bytes, or what there is.
    fn read(&self, most: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.len.min(most)).unwrap_or(usize::MAX)];
        self.file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", self.path, e))?;
        Ok(bytes)
    }

    /// That it ends there, or before.
    fn check_ends(&self, most: u64) -> Result<()> {
        if self.len <= most {
            return Ok(());
        }
        let found = format!("{} bytes", self.len);
        Err(Damage::new(most, "the end of the file", found).in_file(self.path, 0))
    }
}

fn read_current(disk: &dyn Disk, path: &Path) -> Result<Option<ManifestId>> {
    let Some(content) = Content::open(disk, path)? else { return Ok(None) };
    let most = HEADER_BYTES as u64;
    let number = read_header(&content.read(most)?, CURRENT_MAGIC, path)?;
    content.check_ends(most)?;
    Ok(Some(ManifestId(number)))
}

/// Checks a header; returns the number in it.
fn read_header(bytes: &[u8], magic: [u8; 8], path: &Path) -> Result<u64> {
    let damage = |expected: &'static str, found: String| {
        Err(Damage::new(0, expected, found).in_file(path, 0))
    };
    let header = bytes.first_chunk::<HEADER_BYTES>();
    let Some((fields, crc)) = header.and_then(|h| h.split_last_chunk::<4>()) else {
        return damage("a header of 24 bytes", format!("{} bytes", bytes.len()));
    };
    if crc32fast::hash(fields) != u32::from_le_bytes(*crc) {
        return damage("a header with a valid checksum", "another checksum".to_owned());
    }
    let Some((found_magic, rest)) = fields.split_first_chunk::<8>() else {
        return damage("a magic number", "none".to_owned());
    };
    if *found_magic != magic {
        return damage("the magic number of this kind of file", format!("{found_magic:02x?}"));
    }
    let (format, number) = rest.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    let format = u32::from_le_bytes(*format);
    if format > FORMAT {
        return Err(Error::UnsupportedFormat {
            file: path.into(),
            found: format,
            supported: FORMAT,
        });
    }
    match number.first_chunk::<8>() {
        Some(number) if format == FORMAT => Ok(u64::from_le_bytes(*number)),
        _ => damage("a format of 1 or more", format.to_string()),
    }
}

/// Reads a manifest to its end; under salvage, up to the first damage.
fn read_manifest(disk: &dyn Disk, dir: &Path, id: ManifestId, mode: Recovery) -> Result<Parsed> {
    let path = dir.join(id.file_name());
    let Some(content) = Content::open(disk, &path)? else {
        return Err(Damage::new(0, "the manifest that CURRENT names", "no file").in_file(&path, 0));
    };
    let start = content.read((HEADER_BYTES + RECORD_HEADER_BYTES) as u64)?;
    read_header(&start, MANIFEST_MAGIC, &path)?;
    let most = most_bytes(&start);
    content.check_ends(most)?;
    let bytes = content.read(most)?;
    parse_manifest(&bytes, id, path, mode)
}

/// How long a manifest may be that begins so, with its header and that of its first record.
fn most_bytes(start: &[u8]) -> u64 {
    let len = start.get(HEADER_BYTES + 4..).and_then(<[u8]>::first_chunk);
    let first = u64::from(len.map_or(0, |len| u32::from_le_bytes(*len)));
    (HEADER_BYTES + RECORD_HEADER_BYTES) as u64 + first + MOST_GROWTH_BYTES
}

/// What the bytes of a manifest say.
pub(super) struct Parsed {
    pub(super) inventory: Inventory,
    /// Under salvage: where it ends too early.
    damage: Option<Corruption>,
    torn: Option<Corruption>,
    /// The end of the last valid record.
    end: End,
}

/// Reads the bytes of a manifest.
pub(super) fn parse_manifest(
    bytes: &[u8],
    id: ManifestId,
    path: PathBuf,
    mode: Recovery,
) -> Result<Parsed> {
    let number = read_header(bytes, MANIFEST_MAGIC, &path)?;
    if number != id.0 {
        let found = format!("number {number}");
        return Err(Damage::new(12, "the number in the file's name", found).in_file(&path, 0));
    }
    let start = End { bytes: HEADER_BYTES as u64, ordinal: 0, first: 0 };
    let mut reading = Reading { path, id, bytes, end: start };
    let mut inventory = Inventory::new();
    loop {
        let before = (mode == Recovery::Salvage).then(|| inventory.clone());
        match reading.next(&mut inventory) {
            Ok(true) => {}
            Ok(false) => {
                let checked = inventory.check();
                checked.map_err(|damage| damage.in_file(&reading.path, HEADER_BYTES as u64))?;
                let end = reading.end;
                let torn = (reading.at() < bytes.len()).then(|| Corruption {
                    file: reading.path,
                    offset: end.bytes,
                    expected: "the edit after which the log begins later".into(),
                    found: "a torn end".into(),
                });
                return Ok(Parsed { inventory, damage: None, torn, end });
            }
            Err(Error::Corruption(corruption)) if reading.end.ordinal > 0 => match before {
                Some(inventory) => {
                    let damage = Some(*corruption);
                    return Ok(Parsed { inventory, damage, torn: None, end: reading.end });
                }
                None => return Err(Error::Corruption(corruption)),
            },
            Err(error) => return Err(error),
        }
    }
}

struct Reading<'a> {
    path: PathBuf,
    id: ManifestId,
    bytes: &'a [u8],
    /// Of what was read.
    end: End,
}

impl Reading<'_> {
    fn at(&self) -> usize {
        usize::try_from(self.end.bytes).unwrap_or(usize::MAX)
    }

    /// Applies the next record; `false` at the end, torn or clean.
    fn next(&mut self, inventory: &mut Inventory) -> Result<bool> {
        let rest = self.bytes.get(self.at()..).unwrap_or_default();
        let expected = self.end.ordinal;
        let Some(payload) = valid_record(self.id, rest, |ordinal| ordinal == expected) else {
            return self.check_end(rest).map(|()| false);
        };
        let base = self.end.bytes + RECORD_HEADER_BYTES as u64;
        let edit = match Edit::decode(payload) {
            Ok(edit) => edit,
            Err(EditError::Damage(damage)) => return Err(damage.in_file(&self.path, base)),
            Err(EditError::Format(found)) => {
                return Err(Error::UnsupportedFormat {
                    file: self.path.as_path().into(),
                    found: u32::from(found),
                    supported: u32::from(EDIT_FORMAT),
                });
            }
        };
        inventory.apply(edit).map_err(|damage| damage.in_file(&self.path, base))?;
        self.end.add(RECORD_HEADER_BYTES + payload.len());
        Ok(true)
    }

    /// There is no valid record at `rest`: decides whether that is the end, or damage.
    fn check_end(&self, rest: &[u8]) -> Result<()> {
        let End { bytes: at, ordinal, .. } = self.end;
        let damage = |found: &'static str| {
            Err(Damage::new(at, "a record with a valid checksum", found).in_file(&self.path, 0))
        };
        if ordinal == 0 {
            return damage("none, where the first one was synced before the file was used");
        }
        let ordinals = ordinal + 1..ordinal + 1 + rest.len() as u64;
        let later = |at: usize| {
            let rest = rest.get(at..).unwrap_or_default();
            valid_record(self.id, rest, |ordinal| ordinals.contains(&ordinal)).is_some()
        };
        if (0..rest.len()).any(later) {
            return damage("none, and a later record that was written only after it was synced");
        }
        if !rest.is_empty() {
            tracing::warn!(file = ?self.path, offset = at, bytes = rest.len(), "trimmed a torn edit");
        }
        Ok(())
    }
}

/// The payload of the record at the front of `bytes`, if there is a valid one with such an ordinal.
fn valid_record(
    manifest: ManifestId,
    bytes: &[u8],
    expected: impl FnOnce(u64) -> bool,
) -> Option<&[u8]> {
    let (crc, rest) = bytes.split_first_chunk::<4>()?;
    let (len, after) = rest.split_first_chunk::<4>()?;
    let (ordinal, after) = after.split_first_chunk::<8>()?;
    let payload = after.get(..u32::from_le_bytes(*len) as usize)?;
    if !expected(u64::from_le_bytes(*ordinal)) {
        return None;
    }
    let covered = rest.get(..RECORD_HEADER_BYTES - 4 + payload.len())?;
    (record_crc(manifest, covered) == u32::from_le_bytes(*crc)).then_some(payload)
}

/// Whether the tree gives files such a name.
pub(crate) fn is_ours(name: &str) -> bool {
    name == CURRENT
        || name == CURRENT_TEMPORARY
        || name == salvage::MARK
        || ManifestId::from_file_name(name).is_some()
        || sst::parse_file_name(name).is_some()
        || name.ends_with(".tmp")
        || name.ends_with(".damaged")
}
