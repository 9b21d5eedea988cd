//! [`Way`]: what one who reads block after block asks the file for.
//!
//! Invariant: every block is asked for at the latest when it is read. Who goes on gets more and more
//! of what comes asked for before, up to a limit; who jumps gets the block alone.

use std::ops::Range;

/// What is asked for at first by one who goes on, and at most.
const FIRST_BYTES: u64 = 32 << 10;
const MOST_BYTES: u64 = 256 << 10;

/// How far the file was asked for, by one who reads it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// Where the last block began.
    from: u64,
    /// Up to where all was asked for from there on.
    asked: u64,
    /// How much beyond a block is asked for.
    ahead: u64,
    /// The same after a jump.
    ahead_at_first: u64,
}

impl Way {
    /// For one who is known to go on.
    pub(super) fn long() -> Self {
        Self { ahead_at_first: MOST_BYTES, ..Self::default() }
    }

    /// What to ask for before the block from `start` to `end` is read.
    pub(super) fn ask(&mut self, start: u64, end: u64) -> Range<u64> {
        if !(self.from..=self.asked).contains(&start) || self.asked == 0 {
            self.ahead = self.ahead_at_first;
            self.from = start;
            self.asked = end + self.ahead;
            return start..self.asked;
        }
        self.from = start;
        // Half of it is left to be read while the next is on its way.
        if end + self.ahead / 2 <= self.asked {
            return end..end;
        }
        self.ahead = (2 * self.ahead).clamp(FIRST_BYTES, MOST_BYTES);
        let from = self.asked;
        self.asked = end + self.ahead;
        from..self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 8 << 10;

    /// What is asked for by one who reads so many blocks from an offset on.
    fn read(way: &mut Way, from: u64, blocks: u64) -> Vec<Range<u64>> {
        let starts = (0..blocks).map(|block| from + block * BLOCK);
        starts
            .map(|start| way.ask(start, start + BLOCK))
            .filter(|range| !range.is_empty())
            .collect()
    }

    #[test]
    fn who_goes_on_asks_for_more_and_more_without_a_gap() {
        let asked = read(&mut Way::default(), 5 << 20, 200);
        assert_eq!(asked[0], 5 << 20..(5 << 20) + BLOCK, "the first block alone");
        assert!(asked.is_sorted_by(|a, b| a.end == b.start));
        assert!(
            asked.len() < 20 && asked.iter().all(|range| range.end - range.start <= 2 * MOST_BYTES)
        );
        let end = asked.last().unwrap().end;
        assert!(((5 << 20) + 200 * BLOCK..=(5 << 20) + 200 * BLOCK + MOST_BYTES).contains(&end));
    }

    #[test]
    fn who_jumps_asks_for_the_block_alone() {
        let mut way = Way::default();
        read(&mut way, 0, 50);
        for start in [1 << 30, 3 << 20, 0, 1 << 20] {
            assert_eq!(way.ask(start, start + BLOCK), start..start + BLOCK);
        }
    }

    #[test]
    fn who_is_known_to_go_on_asks_for_much_at_once() {
        for from in [0, 1 << 20] {
            let mut way = Way::long();
            assert_eq!(way.ask(from, from + BLOCK), from..from + BLOCK + MOST_BYTES);
            assert!(read(&mut way, from + BLOCK, 3).is_empty());
        }
    }
}
