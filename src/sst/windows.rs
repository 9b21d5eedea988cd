//! [`Windows`]: what one who reads here and there asks a file for.
//!
//! Invariant: while there is memory to spare, neighbours come once with each part of a file: what the
//! system dropped again meanwhile comes without them.

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

    /// What to ask for before a block is read. One that is compressed is needed whole, and would come page
    /// by page otherwise. Those that are not are filters, indexes and the newest levels alone, unless
    /// compression is off: they are asked for when they are read first, and of them neighbours come later
    /// too.
    pub(super) fn ask(&self, block: Range<u64>, compressed: bool, to_spare: bool) -> Range<u64> {
        match (to_spare, compressed) {
            (true, true) => self.ask_once(&block).unwrap_or(block),
            (true, false) => self.ask_once(&block).unwrap_or_default(),
            (false, true) => block,
            (false, false) => around(&block),
        }
    }

    /// The windows that a block lies in, if they were not all asked for.
    fn ask_once(&self, block: &Range<u64>) -> Option<Range<u64>> {
        let around = around(block);
        let windows = around.start / WINDOW_BYTES..around.end / WINDOW_BYTES;
        if windows.clone().all(|window| self.asked.is_set(window as usize)) {
            return None;
        }
        windows.for_each(|window| self.asked.set(window as usize));
        Some(around)
    }
}

/// The windows that a block lies in.
fn around(block: &Range<u64>) -> Range<u64> {
    let start = block.start / WINDOW_BYTES * WINDOW_BYTES;
    start..block.end.div_ceil(WINDOW_BYTES) * WINDOW_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: u64 = WINDOW_BYTES;

    #[test]
    fn neighbours_come_once_while_there_is_memory_to_spare() {
        for compressed in [false, true] {
            let windows = Windows::new(10 * W + 5);
            let ask = |block| windows.ask(block, compressed, true);
            let alone = |block| if compressed { block } else { 0..0 };
            assert_eq!(ask(W + 100..W + 8_000), W..2 * W);
            assert_eq!(ask(W..2 * W), alone(W..2 * W));
            assert_eq!(ask(W + 100..W + 8_000), alone(W + 100..W + 8_000));
            assert_eq!(ask(10 * W..10 * W + 5), 10 * W..11 * W, "the last");
            assert_eq!(ask(10 * W + 1..10 * W + 5), alone(10 * W + 1..10 * W + 5));
        }
    }

    #[test]
    fn without_memory_to_spare_only_what_is_read_in_place_has_neighbours() {
        let windows = Windows::new(10 * W);
        for _ in 0..2 {
            assert_eq!(windows.ask(W + 100..W + 8_000, true, false), W + 100..W + 8_000);
            assert_eq!(windows.ask(W + 100..W + 8_000, false, false), W..2 * W);
        }
    }

    #[test]
    fn a_block_in_two_windows_is_there_once_both_are() {
        let windows = Windows::new(10 * W);
        let asked = |block| !windows.ask(block, false, true).is_empty();
        assert!(asked(3 * W..3 * W + 1));
        assert_eq!(windows.ask(4 * W - 1..4 * W + 1, false, true), 3 * W..5 * W);
        assert!(!asked(4 * W - 1..4 * W + 1));
        assert!(!asked(4 * W + 9..4 * W + 10));
        assert!(asked(0..1));
    }
}
