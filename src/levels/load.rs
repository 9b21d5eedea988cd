//! [`Load`]: rows in key order on their way into [files](LoadFiles) of a new table.
//!
//! Who adds rows only copies them into chunks; background jobs write these to the files, a chunk
//! each, so that loads and compactions take turns. Invariant: no row waits for a background thread
//! to be free: while many chunks wait and nobody is writing, who adds the next one writes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::load_files::LoadFiles;
use super::reserved::Reservation;
use crate::env::{JobClass, Jobs};
use crate::error::{Error, Result};
use crate::version::Version;

/// A chunk is handed over at this size: large beside what that costs, small beside a memtable.
const CHUNK_BYTES: usize = 256 << 10;
/// Most chunks that wait, and most bytes in them if there is more than one: a chunk ends with a row of any
/// size.
const WAITING: usize = 4;
const WAITING_BYTES: usize = 2 * WAITING * CHUNK_BYTES;
/// What a chunk that is kept may have room for.
const SPARE_BYTES: usize = 2 * CHUNK_BYTES;

/// Rows in key order. Dropping it removes what was written.
pub(crate) struct Load {
    shared: Arc<Shared>,
    chunk: Chunk,
}

/// Keys and values one after the other, and their lengths.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    lengths: Vec<(usize, usize)>,
}

/// What who adds and who writes have in common.
struct Shared {
    state: Mutex<State>,
    /// A chunk was written.
    written: Condvar,
    jobs: Arc<dyn Jobs>,
}

struct State {
    /// Oldest first.
    waiting: VecDeque<Chunk>,
    /// To be filled again.
    spare: Vec<Chunk>,
    files: Desk,
    /// A job that writes a chunk is queued or runs.
    has_job: bool,
}

impl State {
    /// Whether so much waits that who adds rows waits too.
    fn is_behind(&self) -> bool {
        let bytes = || self.waiting.iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
        let many = self.waiting.len();
        many > WAITING || (many > 1 && bytes() > WAITING_BYTES)
    }
}

/// Who has the files.
enum Desk {
    Free(Box<LoadFiles>),
    Taken,
    /// They could not be written, for a reason that is told once.
    Broken(Option<Error>),
}

type Locked<'a> = MutexGuard<'a, State>;

impl Load {
    /// All rows get this version, which must be older than any deletion of theirs.
    pub(crate) fn new(reservation: Reservation, version: Version) -> Self {
        let jobs = Arc::clone(&reservation.tree.jobs);
        let files = Desk::Free(Box::new(LoadFiles::new(reservation, version)));
        let (waiting, spare) = (VecDeque::new(), Vec::new());
        let state = Mutex::new(State { waiting, spare, files, has_job: false });
        let shared = Arc::new(Shared { state, written: Condvar::new(), jobs });
        Self { shared, chunk: Chunk::default() }
    }

    /// Adds the next row: keys ascend, within the reservation.
    ///
    /// # Errors
    /// What writing this row or one before reported; then no more can be added.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.chunk.bytes.extend_from_slice(key);
        self.chunk.bytes.extend_from_slice(value);
        self.chunk.lengths.push((key.len(), value.len()));
        if self.chunk.bytes.len() < CHUNK_BYTES {
            return Ok(());
        }
        let mut state = self.shared.state.lock();
        let next = state.spare.pop().unwrap_or_default();
        state.waiting.push_back(std::mem::replace(&mut self.chunk, next));
        while state.is_behind() {
            state = self.shared.write_or_wait(state)?;
        }
        Shared::queue_job(&self.shared, &mut state);
        Ok(())
    }

    /// Makes all rows part of the tree, durably.
    ///
    /// # Errors
    /// What writing reports. If it is the manifest's, it is not known whether they are part of it.
    pub(crate) fn install(mut self) -> Result<()> {
        let mut state = self.shared.state.lock();
        state.waiting.push_back(std::mem::take(&mut self.chunk));
        loop {
            match std::mem::replace(&mut state.files, Desk::Taken) {
                Desk::Free(files) if state.waiting.is_empty() => {
                    drop(state);
                    return files.install();
                }
                other => state.files = other,
            }
            state = self.shared.write_or_wait(state)?;
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.state.lock().waiting.clear();
    }
}

impl Shared {
    /// Writes a chunk, or waits while somebody else does.
    fn write_or_wait<'a>(&'a self, mut state: Locked<'a>) -> Result<Locked<'a>> {
        match std::mem::replace(&mut state.files, Desk::Taken) {
            Desk::Free(files) => Ok(self.write(state, files)),
            Desk::Taken => {
                self.written.wait(&mut state);
                Ok(state)
            }
            Desk::Broken(error) => {
                state.files = Desk::Broken(None);
                Err(error.unwrap_or_else(|| {
                    Error::InvalidArgument("rows before could not be written".into())
                }))
            }
        }
    }

    /// Writes the chunk that waits longest, if any does.
    fn write<'a>(&'a self, mut state: Locked<'a>, mut files: Box<LoadFiles>) -> Locked<'a> {
        let Some(mut chunk) = state.waiting.pop_front() else {
            state.files = Desk::Free(files);
            return state;
        };
        drop(state);
        let unfinished = Unfinished(self);
        let written = chunk.write_to(&mut files);
        std::mem::forget(unfinished);
        chunk.empty();
        let mut state = self.state.lock();
        state.files = match written {
            Ok(()) => Desk::Free(files),
            Err(error) => Desk::Broken(Some(error)),
        };
        state.spare.push(chunk);
        self.written.notify_all();
        state
    }

    fn queue_job(this: &Arc<Self>, state: &mut State) {
        if state.waiting.is_empty() || std::mem::replace(&mut state.has_job, true) {
            return;
        }
        let shared = Arc::clone(this);
        let job = Box::new(move || {
            let mut state = shared.state.lock();
            match std::mem::replace(&mut state.files, Desk::Taken) {
                Desk::Free(files) => {
                    state = shared.write(state, files);
                    state.has_job = false;
                    Self::queue_job(&shared, &mut state);
                }
                // Who has them queues another job.
                taken => (state.files, state.has_job) = (taken, false),
            }
        });
        this.jobs.spawn_after(JobClass::Compaction, Duration::ZERO, job);
    }
}

impl Chunk {
    /// To be filled again.
    fn empty(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.bytes.shrink_to(SPARE_BYTES);
    }

    fn write_to(&self, files: &mut LoadFiles) -> Result<()> {
        let mut rest = &self.bytes[..];
        for &(key_len, value_len) in &self.lengths {
            let (key, after) = rest.split_at_checked(key_len).unwrap_or_default();
            let (value, after) = after.split_at_checked(value_len).unwrap_or_default();
            files.add(key, value)?;
            rest = after;
        }
        Ok(())
    }
}

/// Breaks the load when dropped, which a panic does to whoever has the files.
struct Unfinished<'a>(&'a Shared);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.state.lock().files = Desk::Broken(None);
        self.0.written.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(bytes: usize) -> Chunk {
        Chunk { bytes: vec![0; bytes], lengths: Vec::new() }
    }

    #[test]
    fn few_large_chunks_wait_and_none_is_kept_as_large() {
        let is_behind = |chunks: &[usize]| {
            let waiting = chunks.iter().map(|bytes| chunk(*bytes)).collect();
            let (spare, files) = (Vec::new(), Desk::Taken);
            State { waiting, spare, files, has_job: false }.is_behind()
        };
        assert!(!is_behind(&[CHUNK_BYTES + 1_000; WAITING]));
        assert!(is_behind(&[CHUNK_BYTES; WAITING + 1]));
        assert!(!is_behind(&[20 * CHUNK_BYTES]), "one waits whatever it has");
        assert!(is_behind(&[20 * CHUNK_BYTES, CHUNK_BYTES]));
        let mut huge = chunk(20 * CHUNK_BYTES);
        huge.empty();
        assert!(huge.bytes.capacity() <= SPARE_BYTES);
    }
}
