//! [`SimFile`]: an open file of the simulated disk.
//!
//! Invariant: whatever is done to it, the machine has power for, and the fault for it if there is one.

use std::io;
use std::path::PathBuf;

use parking_lot::MutexGuard;

use super::disk::{Handle, SharedInode, State, check_unmapped};
use super::power::Operation;
use crate::env::{BLOCK_BYTES, DiskFile, Mapping};

/// No simulated file grows beyond this: an offset past it is a mistake of the caller.
const MAX_FILE_BYTES: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct SimFile {
    disk: Handle,
    path: PathBuf,
    inode: SharedInode,
}

impl SimFile {
    pub(super) fn new(disk: Handle, path: PathBuf, inode: SharedInode) -> Self {
        Self { disk, path, inode }
    }

    fn begin(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        self.disk.begin(operation, &[&self.path])
    }

    /// How long the file may be, as there is room.
    fn longest(&self, state: &State) -> u64 {
        let len = self.inode.lock().bytes().len() as u64;
        state.free_bytes().map_or(u64::MAX, |free| len.saturating_add(free))
    }

    fn check_room(&self, state: &State, end: u64) -> io::Result<()> {
        if end > self.longest(state) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// A position in a file as an index, if the end of what is there is within bounds.
fn position(offset: u64, len: usize) -> io::Result<usize> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(offset as usize),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let _state = self.begin(Operation::Read)?;
        let mut inode = self.inode.lock();
        let start = position(offset, buf.len())?;
        let place = start..start + buf.len();
        if inode.bytes().len() < place.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !inode.is_readable(place.clone()) {
            return Err(io::Error::other("unreadable block"));
        }
        buf.copy_from_slice(inode.bytes().get(place).unwrap_or_default());
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.enter(Operation::Write)?;
        let start = position(offset, data.len())?;
        let mut outcome = state.power.fault(Operation::Write, &[&self.path]);
        let mut written = match outcome {
            Ok(()) => data.len(),
            Err(_) => state.random.below(data.len()),
        };
        let room = self.longest(&state).saturating_sub(offset);
        if written as u64 > room {
            written = room as usize;
            outcome = Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(data) = data.get(..written).filter(|data| !data.is_empty()) {
            self.inode.lock().write(start, data);
        }
        outcome
    }

    /// Takes only what a device would.
    fn write_blocks_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let is_aligned = data.as_ptr().align_offset(BLOCK_BYTES) == 0
            && data.len().is_multiple_of(BLOCK_BYTES)
            && offset.is_multiple_of(BLOCK_BYTES as u64);
        if is_aligned {
            self.write_at(data, offset)
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    /// Of what else was written nothing is durable by it.
    fn write_durably_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.enter(Operation::Write)?;
        let start = position(offset, data.len())?;
        state.power.fault(Operation::Write, &[&self.path])?;
        state.power.fault(Operation::Sync, &[&self.path])?;
        self.check_room(&state, offset + data.len() as u64)?;
        self.inode.lock().write_durably(start, data);
        Ok(())
    }

    fn reserve(&self, _from: u64, to: u64) {
        if self.len().is_ok_and(|len| len < to) {
            let _ = self.set_len(to);
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.enter(Operation::Sync)?;
        let outcome = state.power.fault(Operation::Sync, &[&self.path]);
        match outcome {
            Ok(()) => self.inode.lock().sync(),
            Err(_) => self.inode.lock().sync_failed(&mut state.random),
        }
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        let _state = self.begin(Operation::Read)?;
        Ok(self.inode.lock().bytes().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let state = self.begin(Operation::SetLen)?;
        self.check_room(&state, len)?;
        let mut inode = self.inode.lock();
        check_unmapped(&mut inode)?;
        inode.set_len(position(len, 0)?);
        Ok(())
    }

    fn map(&self) -> io::Result<Mapping> {
        let _state = self.begin(Operation::Read)?;
        let mut inode = self.inode.lock();
        let all = 0..inode.bytes().len();
        if !inode.is_readable(all) {
            return Err(io::Error::other("unreadable block"));
        }
        Ok(Mapping::held(inode.map()))
    }
}
