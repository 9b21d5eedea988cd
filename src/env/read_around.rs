//! [`ReadAround`]: a disk that has something to show for what the device fails to read, so that salvage
//! comes to what is behind it.
//!
//! Invariant: what it makes up is in whole blocks of [`FILLER`], which no checksum accepts, and it knows the
//! place of each. What it does not know of was read. Once the gaps are settled the bytes of a file are the same
//! at each reading, made up or not, or the reading fails: so what is written after that has nothing made up in it
//! but in the gaps that are known. Once salvage has read all, reads fail as they do.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{BLOCK_BYTES, COPY_BYTES, Disk, DiskFile, LockGuard, Mapping};

/// What every byte is that cannot be read; zeros would look like the end of a log.
const FILLER: u8 = 0xBD;

/// A disk like another, but for reads that fail. Its files cannot be mapped, which would show nothing for them.
#[derive(Debug)]
pub(crate) struct ReadAround {
    disk: Arc<dyn Disk>,
    gaps: Arc<Mutex<Gaps>>,
}

/// What could not be read.
#[derive(Debug, Default)]
struct Gaps {
    files: BTreeMap<PathBuf, BTreeMap<u64, Gap>>,
    stage: Stage,
}

/// A block that could not be read.
#[derive(Debug)]
struct Gap {
    /// What the system said.
    reason: String,
    /// It was given out by [`ReadAround::take_unreadable`].
    is_told: bool,
}

/// What becomes of a read that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It is a gap, if it was none before.
    #[default]
    Looking,
    /// An error, but in a gap, which is never read again.
    Settled,
    /// An error.
    Complete,
}

impl Gaps {
    fn add(&mut self, file: &Path, block: u64, error: &io::Error) {
        let blocks = self.files.entry(file.to_owned()).or_default();
        blocks.entry(block).or_insert_with(|| Gap { reason: error.to_string(), is_told: false });
    }

    /// Whether something of it is in a gap, and the gaps are settled.
    fn covers(&self, file: &Path, offset: u64, len: usize) -> bool {
        let Some(blocks) = self.files.get(file).filter(|_| self.stage == Stage::Settled) else {
            return false;
        };
        blocks.range(block_of(offset)..offset + len as u64).next().is_some()
    }
}

/// Where the block begins that an offset is in.
fn block_of(offset: u64) -> u64 {
    offset - offset % BLOCK_BYTES as u64
}

/// Bytes of a file that the device fails to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// What the system said of the first of them.
    pub(crate) reason: String,
}

impl ReadAround {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, gaps: Arc::default() }
    }

    /// Reads a file through: whatever cannot be read of it is known afterwards.
    ///
    /// # Errors
    /// `NotFound` if there is none; what else the file system refuses, but for reads.
    pub(crate) fn survey(&self, path: &Path) -> io::Result<()> {
        let file = self.open(path)?;
        let len = file.len()?;
        let mut buffer = vec![0; len.min(COPY_BYTES) as usize];
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(COPY_BYTES) as usize;
            file.read_at(buffer.get_mut(..piece).unwrap_or_default(), at)?;
            at += piece as u64;
        }
        Ok(())
    }

    /// Whether a part of that file could not be read so far.
    pub(crate) fn has_gaps(&self, path: &Path) -> bool {
        self.gaps.lock().files.contains_key(path)
    }

    /// What could not be read so far, and is told for the first time.
    pub(crate) fn take_unreadable(&self) -> Vec<Unreadable> {
        let mut told: Vec<Unreadable> = Vec::new();
        for (file, blocks) in &mut self.gaps.lock().files {
            for (&offset, gap) in blocks.iter_mut().filter(|(_, gap)| !gap.is_told) {
                gap.is_told = true;
                let bytes = BLOCK_BYTES as u64;
                match told.last_mut() {
                    Some(last) if last.file == *file && last.offset + last.bytes == offset => {
                        last.bytes += bytes;
                    }
                    _ => {
                        let (file, reason) = (file.clone(), gap.reason.clone());
                        told.push(Unreadable { file, offset, bytes, reason });
                    }
                }
            }
        }
        told
    }

    /// From here on the gaps are those that are known, whatever the device gives of them, and any other read
    /// that fails is an error, of files that are open too. Files with gaps are not to be written to.
    pub(crate) fn settle(&self) {
        self.gaps.lock().stage = Stage::Settled;
    }

    /// From here on a read that fails is an error, of files that are open too.
    pub(crate) fn complete(&self) {
        self.gaps.lock().stage = Stage::Complete;
    }
}

impl Disk for ReadAround {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        self.disk.lock(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let (file, path) = (self.disk.open(path)?, path.to_owned());
        let (disk, gaps) = (Arc::clone(&self.disk), Arc::clone(&self.gaps));
        Ok(Arc::new(FileAround { file, path, disk, gaps }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn share(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.share(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        self.disk.free_bytes(dir)
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.disk.memory_bytes()
    }
}

#[derive(Debug)]
struct FileAround {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    disk: Arc<dyn Disk>,
    gaps: Arc<Mutex<Gaps>>,
}

impl FileAround {
    /// Whether something of it is never to be read.
    fn is_gap(&self, offset: u64, len: usize) -> bool {
        self.gaps.lock().covers(&self.path, offset, len)
    }

    /// Reads what lies in one block, or makes it up.
    fn read_block(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.is_gap(offset, buf.len()) {
            if offset + buf.len() as u64 > self.file.len()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf.fill(FILLER);
            return Ok(());
        }
        let Err(error) = read_once(&*self.file, buf, offset)? else { return Ok(()) };
        // A disk that is gone has nothing behind it.
        let answers = self.path.parent().is_none_or(|dir| self.disk.list(dir).is_ok());
        let mut gaps = self.gaps.lock();
        if gaps.stage != Stage::Looking || !answers {
            return Err(error);
        }
        let block = block_of(offset);
        tracing::warn!(file = ?self.path, offset = block, %error, "cannot read a block, and goes on");
        gaps.add(&self.path, block, &error);
        buf.fill(FILLER);
        Ok(())
    }
}

/// Reads, and says of an error whether it is of what is there.
fn read_once(file: &dyn DiskFile, buf: &mut [u8], offset: u64) -> io::Result<io::Result<()>> {
    match file.read_at(buf, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(error),
        read => Ok(read),
    }
}

impl DiskFile for FileAround {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if !self.is_gap(offset, buf.len()) && read_once(&*self.file, buf, offset)?.is_ok() {
            return Ok(());
        }
        let (mut rest, mut at) = (buf, offset);
        while !rest.is_empty() {
            let in_block = BLOCK_BYTES - (at % BLOCK_BYTES as u64) as usize;
            let (piece, after) = rest.split_at_mut(in_block.min(rest.len()));
            self.read_block(piece, at)?;
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }

    fn write_durably_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_durably_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn map(&self) -> io::Result<Mapping> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Env, SimEnv};
    use super::*;

    /// What can be read is read, whatever the pieces are that are asked for.
    #[test]
    fn only_whole_blocks_are_made_up() {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        let (env, path) = (SimEnv::new(1), Path::new("/db/file"));
        let bytes: Vec<u8> = (0..5 * BLOCK + 100).map(|at| at as u8).collect();
        env.write_file(path, &bytes);
        for offset in [BLOCK, 2 * BLOCK + 7, 5 * BLOCK + 99] {
            env.spoil(path, offset).unwrap();
        }
        let around = ReadAround::new(env.disk());
        let file = around.open(path).unwrap();
        let mut expected = bytes.clone();
        expected[BLOCK_BYTES..3 * BLOCK_BYTES].fill(FILLER);
        expected[5 * BLOCK_BYTES..].fill(FILLER);
        for (offset, len) in
            [(0, bytes.len()), (5, 10), (4_000, 200), (4_096, 4_096), (8_000, 9_000)]
        {
            let mut read = vec![0; len];
            file.read_at(&mut read, offset as u64).unwrap();
            assert_eq!(read, expected[offset..offset + len], "{offset}");
        }
        assert_eq!(
            file.read_at(&mut [0; 2], 5 * BLOCK + 99).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        assert!(file.map().is_err());
        assert!(around.has_gaps(path) && !around.has_gaps(Path::new("/db/fil")));
        let gap = |offset, bytes| {
            let (file, reason) = (path.to_owned(), "unreadable block".to_owned());
            Unreadable { file, offset, bytes, reason }
        };
        assert_eq!(around.take_unreadable(), [gap(BLOCK, 2 * BLOCK), gap(5 * BLOCK, BLOCK)]);
        assert_eq!(around.take_unreadable(), []);
        around.survey(path).unwrap();
        assert_eq!(around.take_unreadable(), [], "each is told once");
        assert!(around.has_gaps(path), "and known all the same");
        around.complete();
        assert!(file.read_at(&mut [0; 10], BLOCK).is_err() && around.survey(path).is_err());
        // Written to again it can be read.
        file.write_at(&bytes, 0).unwrap();
        around.survey(path).unwrap();
        assert_eq!(around.take_unreadable(), []);
    }

    /// What was written after a reading that showed it is what the next one shows.
    #[test]
    fn settled_gaps_stay_and_no_others_come() {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        let (env, path) = (SimEnv::new(1), Path::new("/db/file"));
        env.write_file(path, &[7; 3 * BLOCK_BYTES + 100]);
        env.spoil(path, BLOCK).unwrap();
        env.spoil(path, 3 * BLOCK).unwrap();
        env.spoil_after(path, 2 * BLOCK, 2).unwrap();
        let around = ReadAround::new(env.disk());
        let file = around.open(path).unwrap();
        around.survey(path).unwrap();
        around.settle();
        // The device gives it, this time.
        env.disk().open(path).unwrap().write_at(&[7], BLOCK).unwrap();
        let mut expected = vec![7; 3 * BLOCK_BYTES + 100];
        expected[BLOCK_BYTES..2 * BLOCK_BYTES].fill(FILLER);
        expected[3 * BLOCK_BYTES..].fill(FILLER);
        let mut read = vec![0; expected.len()];
        file.read_at(&mut read, 0).unwrap();
        assert_eq!(read, expected);
        assert!(file.read_at(&mut read, 0).is_err(), "what was no gap is none now");
        assert!(file.read_at(&mut [0; 1], 3 * BLOCK - 1).is_err());
        file.read_at(&mut [0; 100], 3 * BLOCK).unwrap();
        let beyond = file.read_at(&mut [0; 2], 3 * BLOCK + 99).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(around.take_unreadable().len(), 2);
    }
}
