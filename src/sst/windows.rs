//! [`Windows`]: what one who reads here and there asks a file for.
//!
//! Invariant: where neighbours come too, each part of a file is asked for once: what the system dropped
//! again meanwhile comes page by page.

use std::ops::Range;

use super::bits::Bits;

/// What comes together where neighbours are asked for too.
const WINDOW_BYTES: u64 = 64 << 10;

/// Which parts of a file were asked for while there was memory to spare.
#[derive(Debug)]
pub(super) struct Windows {
    asked: Bits,
}

impl Windows {
    pub(super) fn new(file_len: u64) -> Self {
        Self { asked: Bits::new(file_len.div_ceil(WINDOW_BYTES) as usize) }
    }

    /// What to ask for with the neighbours, before a block is read: nothing, if that was done.
    pub(super) fn ask_once(&self, block: &Range<u64>) -> Range<u64> {
        let around = around(block);
        let windows = around.start / WINDOW_BYTES..around.end / WINDOW_BYTES;
        if windows.clone().all(|window| self.asked.is_set(window as usize)) {
            return block.end..block.end;
        }
        windows.for_each(|window| self.asked.set(window as usize));
        around
    }
}

/// The windows that a block lies in.
pub(super) fn around(block: &Range<u64>) -> Range<u64> {
    let start = block.start / WINDOW_BYTES * WINDOW_BYTES;
    start..block.end.div_ceil(WINDOW_BYTES) * WINDOW_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: u64 = WINDOW_BYTES;

    #[test]
    fn each_window_is_asked_for_once() {
        let windows = Windows::new(10 * W + 5);
        assert_eq!(windows.ask_once(&(W + 100..W + 8_000)), W..2 * W);
        assert!(windows.ask_once(&(W..2 * W)).is_empty());
        assert!(windows.ask_once(&(W + 100..W + 8_000)).is_empty());
        assert_eq!(windows.ask_once(&(10 * W..10 * W + 5)), 10 * W..11 * W, "the last");
        assert!(windows.ask_once(&(10 * W + 1..10 * W + 5)).is_empty());
    }

    #[test]
    fn a_block_in_two_windows_is_there_once_both_are() {
        let windows = Windows::new(10 * W);
        windows.ask_once(&(3 * W..3 * W + 1));
        assert_eq!(windows.ask_once(&(4 * W - 1..4 * W + 1)), 3 * W..5 * W);
        assert!(windows.ask_once(&(4 * W - 1..4 * W + 1)).is_empty());
        assert!(windows.ask_once(&(4 * W + 9..4 * W + 10)).is_empty());
        assert_eq!(windows.ask_once(&(0..1)), 0..W);
    }
}
