//! [`Edit`]: one record of the manifest, and [`Inventory`], the sum of all of them.
//!
//! Invariant: an edit that does not follow from the edits before it (removes a file that is not
//! there, adds one twice, makes two files of a level overlap) is damage, never applied in part.
//!
//! Layout, in varints but for the first byte: edit format, next file id, flushed version, first
//! log segment, in format 3 the version up to which the log has what is not flushed; then four lists, each with its length
//! before it: files added (level, version bound of the range tombstones applied, description, from format 2
//! on bytes of log segments that it refers to), file ids removed, range tombstones added and removed (start,
//! end, version).

use std::collections::{BTreeMap, BTreeSet};

use super::state::Level;
use crate::error::Damage;
use crate::reference::ReferencedBytes;
use crate::sst::{FileId, FileMeta};
use crate::tombstone::RangeTombstone;
use crate::varint::{Decoder, push_slice, push_varint};
use crate::version::Version;
use crate::wal::SegmentId;

/// The newest layout of an edit this build knows: it may say how far the log goes.
pub(crate) const EDIT_FORMAT: u8 = 3;
/// The layout in which a file added ends with its referenced bytes.
const EDIT_FORMAT_WITH_REFERENCES: u8 = 2;
/// The layout of an edit that adds no file which refers to values.
const EDIT_FORMAT_WITHOUT_REFERENCES: u8 = 1;

/// A table file as the manifest knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRecord {
    pub(crate) level: Level,
    pub(crate) gc_bound: Version,
    pub(crate) meta: FileMeta,
}

/// One atomic step of the tree's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) added: Vec<FileRecord>,
    /// Applied before `added`: a file in both moves to another level.
    pub(crate) removed: Vec<FileId>,
    pub(crate) tombstones_added: Vec<RangeTombstone>,
    /// Applied after `tombstones_added`.
    pub(crate) tombstones_removed: Vec<RangeTombstone>,
    pub(crate) flushed: Version,
    pub(crate) log_start: SegmentId,
    /// The log has everything up to this version, but for what is flushed: it was closed so, or files went for what
    /// it has. Zero if that is not said.
    pub(crate) log_end: Version,
    /// No file with this id or a later one was ever part of the tree.
    pub(crate) next_file: FileId,
}

/// Why bytes are not an edit this build can apply.
#[derive(Debug)]
pub(crate) enum EditError {
    Damage(Damage),
    /// A later build wrote it.
    Format(u8),
}

impl From<Damage> for EditError {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl Edit {
    /// The oldest layout that can say all of it: earlier builds read what they can.
    fn format(&self) -> u8 {
        let refers = |file: &FileRecord| !file.meta.referenced.is_empty();
        if self.log_end > Version::ZERO {
            EDIT_FORMAT
        } else if self.added.iter().any(refers) {
            EDIT_FORMAT_WITH_REFERENCES
        } else {
            EDIT_FORMAT_WITHOUT_REFERENCES
        }
    }

    /// One that follows this one and changes nothing.
    pub(super) fn proof(&self) -> Self {
        Self::unchanged(self.flushed, self.log_start, self.log_end, self.next_file)
    }

    /// An edit of a tree that is and stays so.
    pub(super) fn unchanged(
        flushed: Version,
        log_start: SegmentId,
        log_end: Version,
        next_file: FileId,
    ) -> Self {
        Self {
            added: Vec::new(),
            removed: Vec::new(),
            tombstones_added: Vec::new(),
            tombstones_removed: Vec::new(),
            flushed,
            log_start,
            log_end,
            next_file,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let format = self.format();
        let mut out = vec![format];
        for number in [self.next_file.get(), self.flushed.ticks(), self.log_start.get()] {
            push_varint(&mut out, number);
        }
        if format == EDIT_FORMAT {
            push_varint(&mut out, self.log_end.ticks());
        }
        push_varint(&mut out, self.added.len() as u64);
        for file in &self.added {
            push_varint(&mut out, u64::from(file.level.get()));
            push_varint(&mut out, file.gc_bound.ticks());
            file.meta.encode(&mut out);
            if format != EDIT_FORMAT_WITHOUT_REFERENCES {
                file.meta.referenced.encode(&mut out);
            }
        }
        push_varint(&mut out, self.removed.len() as u64);
        for id in &self.removed {
            push_varint(&mut out, id.get());
        }
        push_tombstones(&mut out, &self.tombstones_added);
        push_tombstones(&mut out, &self.tombstones_removed);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, EditError> {
        let format = bytes.first().copied().unwrap_or_default();
        if format > EDIT_FORMAT {
            return Err(EditError::Format(format));
        }
        let mut decoder = Decoder::new(bytes);
        decoder.bytes(1, "the format of an edit")?;
        if format < EDIT_FORMAT_WITHOUT_REFERENCES {
            return Err(Damage::new(0, "the format of an edit", "0").into());
        }
        let edit = Self {
            next_file: FileId::new(decoder.varint("the next file id")?),
            flushed: Version::from_ticks(decoder.varint("the flushed version")?),
            log_start: SegmentId::new(decoder.varint("the first log segment")?),
            log_end: match format {
                EDIT_FORMAT => Version::from_ticks(decoder.varint("how far the log goes")?),
                _ => Version::ZERO,
            },
            added: list(&mut decoder, "the number of files added", |d| file(d, format))?,
            removed: list(&mut decoder, "the number of files removed", |d| {
                Ok(FileId::new(d.varint("the id of a file removed")?))
            })?,
            tombstones_added: list(&mut decoder, "the number of tombstones added", tombstone)?,
            tombstones_removed: list(&mut decoder, "the number of tombstones removed", tombstone)?,
        };
        if !decoder.is_empty() {
            return Err(decoder.damage("the end of the edit", "more bytes").into());
        }
        Ok(edit)
    }
}

fn push_tombstones(out: &mut Vec<u8>, tombstones: &[RangeTombstone]) {
    push_varint(out, tombstones.len() as u64);
    for tombstone in tombstones {
        push_slice(out, &tombstone.start);
        push_slice(out, &tombstone.end);
        push_varint(out, tombstone.version.ticks());
    }
}

/// A length and that many items. Every item takes a byte or more, so a length that lies runs into
/// the end of the bytes before it costs memory.
fn list<'a, T>(
    decoder: &mut Decoder<'a>,
    what: &'static str,
    mut item: impl FnMut(&mut Decoder<'a>) -> Result<T, Damage>,
) -> Result<Vec<T>, Damage> {
    let len = decoder.length(what, decoder.rest().len())?;
    (0..len).map(|_| item(decoder)).collect()
}

fn file(decoder: &mut Decoder<'_>, format: u8) -> Result<FileRecord, Damage> {
    let start = *decoder;
    let level = decoder.varint("a level")?;
    let Some(level) = Level::new(level) else {
        return Err(start.damage("a level", level.to_string()));
    };
    let gc_bound = Version::from_ticks(decoder.varint("a version bound")?);
    let mut meta = FileMeta::decode(decoder)?;
    if format != EDIT_FORMAT_WITHOUT_REFERENCES {
        meta.referenced = ReferencedBytes::decode(decoder)?;
    }
    Ok(FileRecord { level, gc_bound, meta })
}

fn tombstone(decoder: &mut Decoder<'_>) -> Result<RangeTombstone, Damage> {
    let start = decoder.slice("the start of a range tombstone")?;
    let end = decoder.slice("the end of a range tombstone")?;
    let version = Version::from_ticks(decoder.varint("the version of a range tombstone")?);
    if start >= end {
        return Err(decoder.damage("a range tombstone", "one that covers nothing"));
    }
    Ok(RangeTombstone { start: start.into(), end: end.into(), version })
}

/// All that a manifest says, without a file being open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inventory {
    pub(crate) files: BTreeMap<FileId, FileRecord>,
    pub(crate) tombstones: BTreeSet<RangeTombstone>,
    pub(crate) flushed: Version,
    pub(crate) log_start: SegmentId,
    pub(crate) log_end: Version,
    pub(crate) next_file: FileId,
}

impl Inventory {
    /// What there is before the first edit.
    pub(crate) fn new() -> Self {
        Self {
            files: BTreeMap::new(),
            tombstones: BTreeSet::new(),
            flushed: Version::ZERO,
            log_start: SegmentId::FIRST,
            log_end: Version::ZERO,
            next_file: FileId::new(1),
        }
    }

    /// Whether there was any, before it or in its files.
    pub(super) fn tells_of_commits(&self) -> bool {
        !self.files.is_empty() || self.flushed.max(self.log_end) > Version::ZERO
    }

    /// Makes one step; the offset of damage is that of the whole edit. After an error the
    /// inventory is not to be used.
    pub(crate) fn apply(&mut self, edit: Edit) -> Result<(), Damage> {
        let refuse =
            |found: String| Err(Damage::new(0, "an edit that follows from those before", found));
        if edit.flushed < self.flushed || edit.log_start < self.log_start {
            return refuse("one that steps back in the log".to_owned());
        }
        for id in edit.removed {
            if self.files.remove(&id).is_none() {
                return refuse(format!("one that removes file {}, which is not there", id.get()));
            }
        }
        for file in edit.added {
            let id = file.meta.id;
            if id >= edit.next_file {
                return refuse(format!(
                    "one that adds file {} before its id is given out",
                    id.get()
                ));
            }
            if self.files.insert(id, file).is_some() {
                return refuse(format!("one that adds file {} again", id.get()));
            }
        }
        self.tombstones.extend(edit.tombstones_added);
        for tombstone in edit.tombstones_removed {
            if !self.tombstones.remove(&tombstone) {
                return refuse("one that removes a range tombstone that is not there".to_owned());
            }
        }
        self.flushed = edit.flushed;
        self.log_start = edit.log_start;
        // It stays so: the log only goes on from there.
        self.log_end = self.log_end.max(edit.log_end);
        self.next_file = edit.next_file;
        Ok(())
    }

    /// Checks that the files of each level but the first are disjoint.
    pub(crate) fn check(&self) -> Result<(), Damage> {
        let mut levels: BTreeMap<Level, Vec<&FileMeta>> = BTreeMap::new();
        for file in self.files.values().filter(|f| f.level > Level::ZERO) {
            levels.entry(file.level).or_default().push(&file.meta);
        }
        for files in levels.values_mut() {
            files.sort_by(|a, b| a.smallest.cmp(&b.smallest));
            if !files.is_sorted_by(|a, b| a.largest < b.smallest) {
                return Err(Damage::new(0, "levels of disjoint files", "files that overlap"));
            }
        }
        Ok(())
    }
}
