//! [`Storage`]: the simulated disk: names, the inodes they stand for, and locks.
//!
//! Names are a map of paths; changes of names wait in order until their directory is synced. One
//! lock guards everything, so every operation is atomic. A handle carries the epoch it was made
//! in; a crash begins a new epoch, and handles of an older one fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::CrashStyle;
use super::file::SimFile;
use super::inode::{Inode, Random};
use super::locks::Locks;
use super::power::{Fault, Operation, Power};
use crate::env::{Disk, DiskFile, LockGuard};

pub(super) type SharedInode = Arc<Mutex<Inode>>;
type Names = BTreeMap<PathBuf, SharedInode>;

#[derive(Clone, Debug)]
pub(super) struct Storage(Arc<Mutex<State>>);

#[derive(Debug)]
pub(super) struct State {
    names: Names,
    durable_names: Names,
    unsynced_names: Vec<NameChange>,
    dirs: BTreeSet<PathBuf>,
    locks: Locks,
    epoch: u64,
    /// What all files may take together, if that has a limit.
    capacity: Option<u64>,
    memory: Option<u64>,
    pub(super) power: Power,
    pub(super) random: Random,
}

/// A creation (sets), a removal (clears) or a rename (both).
#[derive(Debug)]
struct NameChange {
    clears: Option<PathBuf>,
    sets: Option<(PathBuf, SharedInode)>,
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(path) = &self.clears {
            names.remove(path);
        }
        if let Some((path, inode)) = &self.sets {
            names.insert(path.clone(), Arc::clone(inode));
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        let set = self.sets.as_ref().map(|(path, _)| path);
        self.clears.iter().chain(set).any(|path| path.parent() == Some(dir))
    }
}

impl Storage {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            names: Names::new(),
            durable_names: Names::new(),
            unsynced_names: Vec::new(),
            dirs: BTreeSet::new(),
            locks: Locks::default(),
            epoch: 0,
            capacity: None,
            memory: None,
            power: Power::default(),
            random: Random(seed),
        })))
    }

    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        let epoch = self.0.lock().epoch;
        Arc::new(Handle { storage: self.clone(), epoch })
    }

    pub(super) fn crash(&self, style: CrashStyle) {
        self.0.lock().crash(style);
    }

    pub(super) fn cut_power_after(&self, operations: u64) {
        self.0.lock().power.cut_after(operations);
    }

    pub(super) fn operations(&self) -> u64 {
        self.0.lock().power.operations()
    }

    pub(super) fn fail(&self, fault: Fault) {
        self.0.lock().power.add_fault(fault);
    }

    pub(super) fn clear_faults(&self) {
        self.0.lock().power.clear_faults();
    }

    pub(super) fn set_memory(&self, bytes: Option<u64>) {
        self.0.lock().memory = bytes;
    }

    pub(super) fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }

    pub(super) fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.lock().inode(path)?.lock().bytes().to_vec())
    }

    pub(super) fn write_file(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.0.lock();
        if let Some(dir) = path.parent() {
            state.add_dirs(dir);
        }
        let inode = Arc::new(Mutex::new(Inode::durable(bytes)));
        let change = NameChange { clears: None, sets: Some((path.to_owned(), inode)) };
        state.rename_durably(&change);
    }

    pub(super) fn remove_file(&self, path: &Path) {
        let change = NameChange { clears: Some(path.to_owned()), sets: None };
        self.0.lock().rename_durably(&change);
    }

    pub(super) fn flip(&self, path: &Path, offset: u64) -> io::Result<()> {
        let mut bytes = self.read_file(path)?;
        let byte = usize::try_from(offset).ok().and_then(|offset| bytes.get_mut(offset));
        *byte.ok_or(io::ErrorKind::UnexpectedEof)? ^= 1 << (offset % 8);
        let state = self.0.lock();
        *state.inode(path)?.lock() = Inode::durable(&bytes);
        Ok(())
    }

    pub(super) fn spoil(&self, path: &Path, offset: u64, reads: u32) -> io::Result<()> {
        let inode = self.0.lock().inode(path)?;
        let mut inode = inode.lock();
        let offset = usize::try_from(offset).ok().filter(|offset| *offset < inode.bytes().len());
        inode.spoil(offset.ok_or(io::ErrorKind::UnexpectedEof)?, reads);
        Ok(())
    }

    pub(super) fn list(&self, dir: &Path) -> Vec<String> {
        self.0.lock().list(dir)
    }
}

impl State {
    fn inode(&self, path: &Path) -> io::Result<SharedInode> {
        self.names.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// How many bytes more all files may take, if that has a limit. A file of two names takes its bytes once,
    /// one that has none any more none.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let capacity = self.capacity?;
        let mut inodes: Vec<_> = self.names.values().collect();
        inodes.sort_by_key(|inode| Arc::as_ptr(inode));
        inodes.dedup_by_key(|inode| Arc::as_ptr(inode));
        let used: usize = inodes.iter().map(|inode| inode.lock().bytes().len()).sum();
        Some(capacity.saturating_sub(used as u64))
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let names = self.names.keys().filter(|path| path.parent() == Some(dir));
        names.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    fn add_dirs(&mut self, dir: &Path) {
        self.dirs.extend(dir.ancestors().map(Path::to_owned));
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        let known = path.parent().is_some_and(|dir| self.dirs.contains(dir));
        if known { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    /// Changes names from outside: earlier changes of the same name are durable before.
    fn rename_durably(&mut self, change: &NameChange) {
        for earlier in self.unsynced_names.drain(..) {
            earlier.apply(&mut self.durable_names);
        }
        change.apply(&mut self.names);
        change.apply(&mut self.durable_names);
    }

    fn create(&mut self, path: &Path) -> io::Result<SharedInode> {
        self.check_parent(path)?;
        if let Some(inode) = self.names.get(path) {
            let mut file = inode.lock();
            check_unmapped(&mut file)?;
            file.set_len(0);
            return Ok(Arc::clone(inode));
        }
        let inode = SharedInode::default();
        let sets = Some((path.to_owned(), Arc::clone(&inode)));
        self.change_names(NameChange { clears: None, sets });
        Ok(inode)
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if !self.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let changes = std::mem::take(&mut self.unsynced_names);
        let (synced, rest): (Vec<_>, Vec<_>) = changes.into_iter().partition(|c| c.is_in(dir));
        for change in synced {
            change.apply(&mut self.durable_names);
        }
        self.unsynced_names = rest;
        Ok(())
    }

    fn crash(&mut self, style: CrashStyle) {
        self.epoch += 1;
        self.power.turn_on();
        self.locks.clear();
        let changes = std::mem::take(&mut self.unsynced_names);
        let kept = match style {
            CrashStyle::LoseUnsynced => 0,
            CrashStyle::KeepAll => changes.len(),
            CrashStyle::Torn => self.random.below(changes.len() + 1),
        };
        for change in changes.iter().take(kept) {
            change.apply(&mut self.durable_names);
        }
        self.names = self.durable_names.clone();
        for inode in self.names.values() {
            inode.lock().crash(style, &mut self.random);
        }
    }
}

/// Nobody cuts, replaces or removes a file that is mapped: Windows refuses that. One of several names may go.
pub(super) fn check_unmapped(file: &mut Inode) -> io::Result<()> {
    if file.is_mapped() { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}

/// The disk as seen by what started in one epoch.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    storage: Storage,
    epoch: u64,
}

impl Handle {
    /// The state, for an operation that can be done unless a fault is injected.
    pub(super) fn enter(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.storage.0.lock();
        if state.epoch != self.epoch {
            return Err(io::Error::other("the simulated machine crashed since"));
        }
        state.power.spend(operation)?;
        Ok(state)
    }

    /// The state, for an operation that is done now.
    pub(super) fn begin(
        &self,
        on: Operation,
        paths: &[&Path],
    ) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.enter(on)?;
        state.power.fault(on, paths)?;
        Ok(state)
    }

    fn file(&self, path: &Path, inode: SharedInode) -> Arc<dyn DiskFile> {
        Arc::new(SimFile::new(self.clone(), path.to_owned(), inode))
    }
}

impl Disk for Handle {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.begin(Operation::Create, &[dir])?.add_dirs(dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.begin(Operation::List, &[dir])?;
        if state.dirs.contains(dir) {
            Ok(state.list(dir))
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.begin(Operation::SyncDir, &[dir])?.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let mut state = self.begin(Operation::Lock, &[path])?;
        if !state.locks.is_taken(path) && state.inode(path).is_err() {
            state.create(path)?;
        }
        state.locks.take(path)?;
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned() }))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let mut state = self.begin(Operation::Lock, &[path])?;
        state.locks.take_shared(path)?;
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.begin(Operation::Create, &[path])?.create(path)?;
        Ok(self.file(path, inode))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.begin(Operation::Open, &[path])?.inode(path)?;
        Ok(self.file(path, inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin(Operation::Rename, &[from, to])?;
        let inode = state.inode(from)?;
        state.check_parent(to)?;
        if let Ok(replaced) = state.inode(to) {
            check_unmapped(&mut replaced.lock())?;
        }
        let sets = Some((to.to_owned(), inode));
        state.change_names(NameChange { clears: Some(from.to_owned()), sets });
        Ok(())
    }

    fn share(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin(Operation::Share, &[from, to])?;
        let inode = state.inode(from)?;
        state.check_parent(to)?;
        if state.inode(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.change_names(NameChange { clears: None, sets: Some((to.to_owned(), inode)) });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Operation::Remove, &[path])?;
        let inode = state.inode(path)?;
        if state.names.values().filter(|named| Arc::ptr_eq(named, &inode)).count() == 1 {
            check_unmapped(&mut inode.lock())?;
        }
        state.change_names(NameChange { clears: Some(path.to_owned()), sets: None });
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> Option<u64> {
        self.storage.0.lock().free_bytes()
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.storage.0.lock().memory
    }
}

#[derive(Debug)]
struct SimLock {
    disk: Handle,
    path: PathBuf,
}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.storage.0.lock();
        if state.epoch == self.disk.epoch {
            state.locks.release(&self.path);
        }
    }
}
