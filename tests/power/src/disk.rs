//! [`Disk`]: a disk with a cache that forgets, and what may be left of it when power goes.
//!
//! Invariant: `now` is what the disk was at the beginning with everything in `log` written to it, in
//! order; a write that fails is not in it. What was written before a flush began survives every cut
//! after that flush; of what was written since, each sector may or may not.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What was done to a disk.
#[derive(Debug)]
enum Event {
    Write { start: usize, bytes: Box<[u8]> },
    Flush,
}

/// A disk in memory that remembers in which order it was written and flushed.
#[derive(Debug)]
pub struct Disk {
    at_first: Arc<Vec<u8>>,
    now: Vec<u8>,
    log: Vec<Event>,
    /// Writes that it was asked for, and which of these fail.
    writes: usize,
    failing: Range<usize>,
}

/// What becomes of the sectors that no flush has made durable.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// How many of a hundred are kept.
    pub percent_kept: u8,
    /// What is written as a whole or not at all, in bytes.
    pub sector: usize,
    pub seed: u64,
}

impl Disk {
    pub fn new(bytes: &Arc<Vec<u8>>) -> Self {
        Self {
            at_first: Arc::clone(bytes),
            now: bytes.to_vec(),
            log: Vec::new(),
            writes: 0,
            failing: 0..0,
        }
    }

    /// What is on it, all of it written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.now
    }

    pub fn len(&self) -> usize {
        self.now.len()
    }

    /// How much was done to it: what a cut may come after.
    pub fn events(&self) -> usize {
        self.log.len()
    }

    pub fn read(&self, start: usize, len: usize) -> &[u8] {
        let start = start.min(self.now.len());
        &self.now[start..(start + len).min(self.now.len())]
    }

    /// Has some of the writes fail that come, counted from now on.
    pub fn fail(&mut self, writes: Range<usize>) {
        (self.writes, self.failing) = (0, writes);
    }

    /// Writes all of it, or fails and writes nothing.
    pub fn write(&mut self, start: usize, bytes: &[u8]) -> io::Result<()> {
        self.writes += 1;
        let place = self.now.get_mut(start..start + bytes.len());
        let Some(place) = place.filter(|_| !self.failing.contains(&(self.writes - 1))) else {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        };
        place.copy_from_slice(bytes);
        self.log.push(Event::Write { start, bytes: bytes.into() });
        Ok(())
    }

    pub fn flush(&mut self) {
        self.log.push(Event::Flush);
    }

    /// What is on the disk if power goes after so many events.
    pub fn cut(&self, events: usize, fate: Fate) -> Vec<u8> {
        let done = &self.log[..events];
        let flushed = done.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
        let mut random = StdRng::seed_from_u64(fate.seed);
        let mut left = self.at_first.to_vec();
        for (at, event) in done.iter().enumerate() {
            let Event::Write { start, bytes } = event else { continue };
            let sectors = bytes.chunks(fate.sector).enumerate();
            for (number, sector) in sectors {
                if at < flushed || random.random_range(0..100) < fate.percent_kept {
                    let start = start + number * fate.sector;
                    left[start..start + sector.len()].copy_from_slice(sector);
                }
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: usize = 4;

    fn fate(percent_kept: u8, seed: u64) -> Fate {
        Fate { percent_kept, sector: SECTOR, seed }
    }

    fn disk() -> Disk {
        let mut disk = Disk::new(&Arc::new(vec![0; 64]));
        disk.write(0, &[1; 32]).unwrap();
        disk.flush();
        disk.write(16, &[2; 32]).unwrap();
        disk
    }

    #[test]
    fn what_was_flushed_survives_every_cut() {
        for seed in 0..20 {
            let left = disk().cut(3, fate(50, seed));
            assert_eq!(left[..16], [1; 16]);
            let kept: Vec<_> = left[16..48].chunks(SECTOR).map(|sector| sector[0] == 2).collect();
            assert!(kept.contains(&true) && kept.contains(&false), "some are kept");
            assert!(
                left[16..48].chunks(SECTOR).all(|sector| sector.iter().all(|b| *b == sector[0]))
            );
        }
    }

    #[test]
    fn what_came_after_the_cut_is_not_there() {
        assert_eq!(disk().cut(0, fate(100, 1)), [0; 64]);
        assert_eq!(disk().cut(2, fate(100, 1)), [[1; 32], [0; 32]].concat());
        assert_eq!(disk().cut(3, fate(0, 1)), disk().cut(2, fate(0, 1)));
        assert_eq!(disk().cut(3, fate(100, 1)), disk().read(0, 64));
    }

    #[test]
    fn a_write_that_fails_changes_nothing() {
        let mut disk = Disk::new(&Arc::new(vec![0; 8]));
        disk.fail(1..2);
        assert!(disk.write(4, &[1; 8]).is_err(), "behind the end");
        assert!(disk.write(4, &[1; 4]).is_err(), "as it was told");
        assert_eq!((disk.read(0, 20), disk.events()), (&[0; 8][..], 0));
        disk.write(4, &[1; 4]).unwrap();
        assert_eq!((disk.read(0, 20), disk.events()), (&[0, 0, 0, 0, 1, 1, 1, 1][..], 1));
    }
}
