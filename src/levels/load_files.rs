//! [`LoadFiles`]: the files of a table that is being loaded.
//!
//! Rows come in key order, so they go straight into files, each for the first level that has room
//! for it. All become part of the tree by one edit; until then they are removed when dropped. They
//! hold no range tombstone back: none can be about their keys that is not newer than all of them.

use std::sync::Arc;

use super::output::{Cut, Outputs};
use super::reserved::Reservation;
use super::state::Level;
use super::targets;
use super::tree::Tree;
use crate::entry::{Entry, Kind};
use crate::error::Result;
use crate::version::Version;

/// Files for the keys of a reservation.
pub(super) struct LoadFiles {
    reservation: Reservation,
    version: Version,
    /// Bytes of all keys and values so far.
    raw_bytes: u64,
    /// The file that is being written, and its level.
    current: Option<(Level, Outputs<'static, Arc<Tree>>)>,
    /// Those before it, with their lengths, or about what these will be.
    done: Vec<(Level, u64, Outputs<'static, Arc<Tree>>)>,
}

impl LoadFiles {
    /// All entries get this version.
    pub(super) fn new(reservation: Reservation, version: Version) -> Self {
        Self { reservation, version, raw_bytes: 0, current: None, done: Vec::new() }
    }

    /// Adds the next entry.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let entry = Entry { key, version: self.version, kind: Kind::Put, value };
        let file_bytes = self.reservation.tree.sizing.file_bytes;
        self.raw_bytes += (key.len() + value.len()) as u64;
        match &mut self.current {
            Some((_, file)) if file.written_bytes() < file_bytes => file.add(entry, true),
            _ => {
                self.end_file()?;
                let level = self.next_level();
                let tree = Arc::clone(&self.reservation.tree);
                let cut = Cut { file_bytes, grandparents: &[] };
                let state = &tree.views.load().levels;
                let zstd = tree.compression.zstd_at(level, state, self.raw_bytes);
                let file = Outputs::new(tree, zstd, self.version, cut).helped();
                self.current.insert((level, file)).1.add(entry, true)
            }
        }
    }

    /// Where the next file is to rest: in the first level that has room for it.
    fn next_level(&self) -> Level {
        let Tree { views, sizing, .. } = &*self.reservation.tree;
        let state = &views.load().levels;
        let has_room = |level: &Level| {
            let ours = self.done.iter().filter(|(at, ..)| at == level);
            let ours: u64 = ours.map(|(_, bytes, _)| bytes).sum();
            let bytes = state.bytes(*level) + ours + sizing.file_bytes;
            bytes <= targets::target(sizing, *level)
        };
        let mut sorted = Level::all().filter(|&level| level > Level::ZERO);
        sorted.find(has_room).unwrap_or(Level::LAST)
    }

    /// Ends the current file beside what comes next; those before it have ended then.
    fn end_file(&mut self) -> Result<()> {
        if let Some((level, mut file)) = self.current.take() {
            if let Some((_, _, before)) = self.done.last_mut() {
                before.settle(0)?;
            }
            let bytes = file.written_bytes();
            file.end_file()?;
            self.done.push((level, bytes, file));
        }
        Ok(())
    }

    /// Makes the files part of the tree, durably.
    ///
    /// # Errors
    /// What writing reports. If it is the manifest's, it is not known whether they are part of it.
    pub(super) fn install(mut self) -> Result<()> {
        self.end_file()?;
        for (_, _, file) in &mut self.done {
            file.settle(0)?;
        }
        if let Some((_, _, last)) = self.done.last() {
            last.sync_names()?;
        }
        // While the files are still removed if that fails.
        self.reservation.tree.ensure_manifest()?;
        let files: Vec<_> = std::mem::take(&mut self.done)
            .into_iter()
            .flat_map(|(level, _, file)| file.into_files().into_iter().map(move |f| (level, f)))
            .collect();
        if files.is_empty() { Ok(()) } else { self.reservation.tree.install_new(files) }
    }
}
