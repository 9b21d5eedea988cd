//! Opening a tree: the files that the manifest names, and clearing away those that it does not.
//!
//! Invariant: a strict opening that fails has changed no file. Files are removed only after the log was
//! replayed: by [`Tree::start`], if nothing was found damaged, and by [`Tree::put_in_order`], once what is in
//! them is in others.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::edit::{FileRecord, Inventory};
use super::file::{Janitor, TableFile};
use super::manifest::{CURRENT_TEMPORARY, ManifestId};
use super::recover::{Recovered, make_durable, newest_manifest, recover};
use super::state::{LevelState, assemble};
use super::tree::{Found, OpenContext, Opened, Tree};
use super::value_file::{ValueContext, ValueFile};
use super::values::Values;
use crate::cache::BlockCache;
use crate::env::{Disk, ReadAround, damaged_name};
use crate::error::{Corruption, Damage, Error, Result};
use crate::options::{ReadMode, Recovery};
use crate::salvage;
use crate::sst::{self, FileId, FileMeta, Reader};
use crate::tombstone::RangeTombstones;
use crate::version::Version;
use crate::wal::SegmentId;

impl Tree {
    /// Opens the files of a directory, or an empty tree for one that holds no database yet, and
    /// says what was left out of it, which happens under salvage only. Changes nothing there (to write, the
    /// manifest is written again as it is) but, under salvage, the names of damaged files, beside which it
    /// writes what is whole of them.
    ///
    /// # Errors
    /// Damage, a format of the future, what the file system refuses.
    pub(crate) fn open(context: OpenContext<'_>) -> Result<Opened> {
        let (disk, jobs) = (Arc::clone(&context.disk), Arc::clone(&context.jobs));
        let janitor = Arc::new(Janitor::new(disk, jobs, Arc::clone(&context.metrics)));
        let around = (context.options.recovery == Recovery::Salvage)
            .then(|| ReadAround::new(Arc::clone(&context.disk)));
        let opening = Opening {
            disk: around.as_ref().map_or(&*context.disk, |around| around),
            dir: &context.dir,
            cache: &context.cache,
            read_mode: around.as_ref().map_or(context.options.read_mode, |_| ReadMode::Pread),
            recovery: context.options.recovery,
            read_only: context.options.read_only,
            janitor: &janitor,
        };
        let cut_off = opening.cut_off()?;
        let recovered = recover(opening.disk, opening.dir, opening.recovery)?;
        let is_new = recovered.is_none();
        let mut recovered = match recovered {
            Some(recovered) => recovered,
            None => opening.nothing()?,
        };
        recovered.lost.extend(unreadable(around.as_ref()));
        let manifest_tail = if !is_new && recovered.lost.is_empty() && !opening.read_only {
            make_durable(&*context.disk, opening.dir, recovered.end)?
        } else {
            None
        };
        let is_salvage = opening.is_salvage();
        let is_unordered = is_salvage && opening.lacks_edits(&mut recovered, cut_off.is_some())?;
        let Recovered { mut inventory, newest, mut lost, .. } = recovered;
        lost.extend(cut_off);
        let log_end = inventory.log_end;
        let mut next_file = opening.next_file(inventory.next_file)?;
        if is_unordered {
            salvage::begin(opening.disk, opening.dir)?;
            opening.take_all(&mut inventory, &mut lost)?;
        }
        let levels = opening.levels(inventory, &mut next_file, &mut lost)?;
        lost.extend(unreadable(around.as_ref()));
        around.iter().for_each(ReadAround::complete);
        let is_damaged = !lost.is_empty();
        let found = Found {
            levels,
            newest_manifest: newest,
            manifest_tail,
            next_file,
            janitor,
            is_new,
            is_damaged,
            is_unordered,
        };
        // Until it is flushed, the log has to have everything up to there; a salvaged log may have less.
        let still_needed = if is_salvage { Version::ZERO } else { log_end };
        let tree = Self::new(context, found);
        tree.manifest.lock().reaches(still_needed);
        Ok(Opened { tree, log_end, lost })
    }

    /// Begins background work, once the log was replayed: makes a new database exist, and removes
    /// files that are not part of the tree.
    ///
    /// # Errors
    /// What writing the manifest reports.
    pub(crate) fn start(&self) -> Result<()> {
        self.keep_values();
        self.prove_manifest();
        self.ensure_manifest()?;
        if !self.is_damaged() {
            self.remove_orphans()?;
        }
        self.start_schedule();
        Ok(())
    }

    /// The segments that files refer to are the log's no longer: a crash may have left them their names.
    pub(super) fn keep_values(&self) {
        self.keep_segments(self.kept_segments().into_iter());
    }

    /// The segments that files refer to, in order, by whatever name they have.
    pub(crate) fn kept_segments(&self) -> Vec<SegmentId> {
        self.views.load().levels.values.files().map(|file| file.id()).collect()
    }

    /// The first id for a segment of the log that no other had: none before it is of this log any more, and
    /// some were kept for their values.
    ///
    /// # Errors
    /// What the file system refuses.
    pub(crate) fn first_free_segment(&self) -> Result<SegmentId> {
        let names = self.disk.list(&self.dir).map_err(|e| Error::io("list", &self.dir, e))?;
        let kept = names.iter().filter_map(|name| SegmentId::from_values_name(name)).max();
        Ok(kept.map_or(SegmentId::NONE, SegmentId::next).max(self.log_start()))
    }

    /// Removes table files and manifests that a crash left behind. Files with later ids than those
    /// found at the opening may be in the making.
    fn remove_orphans(&self) -> Result<()> {
        let names = self.disk.list(&self.dir).map_err(|e| Error::io("list", &self.dir, e))?;
        let view = self.views.load();
        let known: HashSet<FileId> = view.levels.files().map(|(_, file)| file.id()).collect();
        let current = self.manifest.lock().current();
        for name in names {
            let old_table = sst::parse_file_name(&name)
                .is_some_and(|id| id < self.first_new_file && !known.contains(&id));
            let old_values = SegmentId::from_values_name(&name)
                .is_some_and(|id| !view.levels.values.contains(id));
            let old_manifest = ManifestId::from_file_name(&name)
                .is_some_and(|id| current.is_some_and(|current| id < current));
            if old_table || old_values || old_manifest || name == CURRENT_TEMPORARY {
                self.janitor.remove(self.dir.join(name));
            }
        }
        Ok(())
    }
}

pub(super) struct Opening<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) dir: &'a Path,
    pub(super) cache: &'a Arc<BlockCache>,
    pub(super) read_mode: ReadMode,
    recovery: Recovery,
    read_only: bool,
    pub(super) janitor: &'a Arc<Janitor>,
}

impl Opening<'_> {
    fn is_salvage(&self) -> bool {
        self.recovery == Recovery::Salvage
    }

    /// The mark of a salvage that was cut off, as damage, if there is one.
    ///
    /// # Errors
    /// That damage, unless this is salvage.
    fn cut_off(&self) -> Result<Option<Corruption>> {
        match salvage::check(self.disk, self.dir) {
            Ok(()) => Ok(None),
            Err(error) => self.recovery.tolerate(error).map(Some),
        }
    }

    /// The table files in the directory.
    pub(super) fn files_there(&self) -> Result<BTreeSet<FileId>> {
        let names = self.disk.list(self.dir).map_err(|e| Error::io("list", self.dir, e))?;
        Ok(names.iter().filter_map(|name| sst::parse_file_name(name)).collect())
    }

    /// The first file id that was never used, not even for a file that a crash left behind.
    fn next_file(&self, of_manifest: FileId) -> Result<FileId> {
        let taken = self.files_there()?.last().copied();
        Ok(taken.map_or(of_manifest, |id| of_manifest.max(id.next())))
    }

    /// For a directory that holds no database yet. Its log begins with the oldest segment there is, or with the first.
    fn nothing(&self) -> Result<Recovered> {
        let names = self.disk.list(self.dir).map_err(|e| Error::io("list", self.dir, e))?;
        let mut nothing = Recovered::nothing(newest_manifest(&names));
        let oldest = names.iter().filter_map(|name| SegmentId::from_name(name)).min();
        nothing.inventory.log_start = oldest.unwrap_or(SegmentId::FIRST);
        Ok(nothing)
    }

    fn levels(
        &self,
        inventory: Inventory,
        next_file: &mut FileId,
        lost: &mut Vec<Corruption>,
    ) -> Result<LevelState> {
        let mut files = Vec::with_capacity(inventory.files.len());
        let values = self.values(&inventory, lost)?;
        let every = Values::all(&values);
        for record in inventory.files.into_values() {
            let path = self.dir.join(sst::file_name(record.meta.id));
            match self.open_file(&record, &path, &every) {
                Ok(file) => files.push((record.level, Arc::new(file))),
                Err(error) => {
                    let corruption = self.recovery.tolerate(error)?;
                    salvage::begin(self.disk, self.dir)?;
                    let kept = self.keep_whole(&record, &path, &every, *next_file)?;
                    *next_file = next_file.next();
                    lost.push(self.set_aside(&record, &path, kept.as_ref(), corruption));
                    files.extend(kept.map(|file| (record.level, Arc::new(file))));
                }
            }
        }
        let tombstones = RangeTombstones::new(inventory.tombstones.into_iter().collect());
        Ok(assemble(files, values, tombstones, inventory.flushed, inventory.log_start))
    }

    /// The log segments that files refer to. Under salvage, those that are there.
    fn values(
        &self,
        inventory: &Inventory,
        lost: &mut Vec<Corruption>,
    ) -> Result<Vec<Arc<ValueFile>>> {
        let (disk, dir, read_mode, janitor) = (self.disk, self.dir, self.read_mode, self.janitor);
        let context = ValueContext { disk, dir, read_mode, janitor, read_only: self.read_only };
        let files = inventory.files.values();
        let segments = files.flat_map(|file| file.meta.referenced.iter().map(|(id, _)| id));
        let mut values = Vec::new();
        for id in segments.collect::<BTreeSet<_>>() {
            match ValueFile::open(&context, id) {
                Ok(file) => values.push(Arc::new(file)),
                Err(error) => lost.push(self.recovery.tolerate(error)?),
            }
        }
        Ok(values)
    }

    fn open_file(&self, record: &FileRecord, path: &Path, values: &Values) -> Result<TableFile> {
        let cache = Arc::clone(self.cache);
        let opened = Reader::open(self.disk, path, &record.meta, cache, self.read_mode);
        let reader = opened.map_err(|error| missing(error, record, path))?;
        let (meta, janitor) = (record.meta.clone(), Arc::clone(self.janitor));
        let file = TableFile::new(meta, reader, record.gc_bound, path.to_owned(), janitor);
        if self.is_salvage() {
            file.verify(values)?;
        }
        Ok(file)
    }

    pub(super) fn rename_damaged(&self, path: &Path) {
        let name = damaged_name(self.disk, &path.with_extension(""));
        if let Err(error) = name.and_then(|name| self.disk.rename(path, &name)) {
            tracing::warn!(?path, %error, "a damaged file keeps its name");
        }
    }

    /// Renames a damaged file out of the way, and says what was in it and is not in the one that was kept.
    fn set_aside(
        &self,
        record: &FileRecord,
        path: &Path,
        kept: Option<&TableFile>,
        mut corruption: Corruption,
    ) -> Corruption {
        self.rename_damaged(path);
        let FileMeta { entries, ref smallest, ref largest, .. } = record.meta;
        let gone = entries.saturating_sub(kept.map_or(0, |file| file.meta.entries));
        let (first, last) = (smallest.escape_ascii(), largest.escape_ascii());
        let lost =
            format!("; lost with it: {gone} of {entries} entries between keys {first} and {last}");
        corruption.found.to_mut().push_str(&lost);
        tracing::error!(%corruption, "set a damaged file aside");
        corruption
    }
}

/// What salvage could not read since it was asked last.
fn unreadable(around: Option<&ReadAround>) -> impl Iterator<Item = Corruption> {
    around.map(ReadAround::take_unreadable).into_iter().flatten().map(Corruption::unreadable)
}

/// A file that the manifest names and that is not there is damage.
fn missing(error: Error, record: &FileRecord, path: &Path) -> Error {
    match error {
        Error::Io(io) if io.source.kind() == io::ErrorKind::NotFound => {
            let expected = format!("a table file of {} bytes", record.meta.bytes);
            Damage::new(0, expected, "no file").in_file(path, 0)
        }
        error => error,
    }
}
