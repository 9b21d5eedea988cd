//! [`when_there_is_room`]: what the log writes to a disk that is full is written again for a while.
//!
//! A flush or a compaction that takes the last room fails of it, and gives all that it had taken back, within
//! milliseconds: commits need not fail with it, and the database need not be read-only from then on.
//! Invariant: what is written again is all of what was written, at the same place, and nothing was written
//! behind it.

use std::io;
use std::thread;
use std::time::Duration;

use super::segments::Segments;
use crate::env::is_full;

/// Twice as long each time: about a second in all, for which commits wait anyway while a disk is slow.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const WAITS: u32 = 10;

/// Calls `write` until it finds room; if it does not for long, that is the outcome.
pub(super) fn when_there_is_room(
    segments: &Segments,
    write: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    match write() {
        Err(error) if is_full(&error) => wait_for_room(segments, write),
        written => written,
    }
}

#[cold]
fn wait_for_room(segments: &Segments, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
    tracing::warn!("the disk is full: the log waits for room");
    for doubled in 0..WAITS {
        // What cannot be removed gives no room.
        let _ = segments.give_way();
        thread::sleep(FIRST_WAIT * (1 << doubled));
        match write() {
            Err(error) if is_full(&error) => {}
            written => return written,
        }
    }
    segments.resort();
    write()
}
