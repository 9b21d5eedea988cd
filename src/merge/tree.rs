//! [`MergeCursor`]: k sorted cursors as one, by a tournament (loser) tree.
//!
//! Invariant: unless an operation failed, `winner` is the source whose position comes first (by
//! key, then newest version, then lowest index), and every inner node holds the loser of the match
//! played there between the positions its sources have now, and how close that match was. So the
//! next position costs one match a level, and whether any other source stands on the winner's key
//! is written on the winner's path to the root.
//!
//! ```text
//!              winner = 2             after source 2 moved on, only the matches
//!              node 1: 0              at nodes 3 and 1 are played again
//!             /         \
//!        node 2: 1    node 3: 3
//!        /      \      /      \
//!      [0]     [1]   [2]     [3]      leaves are nodes 4 to 7
//! ```

#![expect(
    clippy::indexing_slicing,
    reason = "node and source numbers are below the lengths they were made from; this is the \
              innermost loop of every scan and compaction"
)]

use std::cmp::Ordering;

use crate::entry::Cursor;
use crate::key::{common_prefix, first_eight};

/// Undecided matches after which `shared` is chosen anew. To choose costs a few matches.
const UNDECIDED_LIMIT: u32 = if cfg!(test) { 1 } else { 32 };
/// How many of the bytes that neighbours share stay in the heads, so that the heads still differ
/// when the walk has gone on for a while.
const HEAD_SLACK: usize = 4;

/// Which way positions follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Ascending keys, all versions.
    Forward,
    /// Descending keys, each at its newest version.
    Reverse,
}

/// How close a match was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tie {
    /// The keys differ, or a source is at its end.
    None,
    /// The same key at different versions.
    Key,
    /// The same key at the same version: one entry, present twice.
    Entry,
}

/// The sources that have the winner's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tied {
    No,
    /// One, which lost at the node.
    Once {
        node: usize,
        rival: usize,
    },
    More,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Loser {
    pub(super) source: u32,
    tie: Tie,
}

/// What is known of the source and of the inner node of one number. They are in one list, as a short scan
/// pays for each that is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The eight bytes of the source's key after `shared`, which settle most matches.
    pub(super) head: u64,
    /// Who lost the match at the node; node 0 is not used.
    pub(super) loser: Loser,
    /// Who won it, while the tree is built.
    winner: u32,
}

/// A head that says nothing of the bytes that its key begins with.
pub(super) const UNKNOWN: u64 = u64::MAX;
const EMPTY: Slot = Slot { head: UNKNOWN, loser: Loser { source: 0, tie: Tie::None }, winner: 0 };

/// The entries of several cursors in one order, each entry once.
///
/// Where two sources have the same key at the same version, the one with the lower index is
/// shown. After an error the position is undefined until the next seek.
pub(crate) struct MergeCursor<C> {
    pub(super) sources: Vec<C>,
    /// Bytes that keys hereabouts begin with, so that heads hold bytes that differ.
    shared: Vec<u8>,
    /// As many as sources; none if there is only one.
    pub(super) slots: Vec<Slot>,
    /// Matches that the heads did not settle though the keys differ, since `shared` was chosen.
    undecided: u32,
    pub(super) winner: usize,
    pub(super) order: Order,
    /// The key that tied sources are moved beyond.
    pub(super) key: Vec<u8>,
    /// See [`Cursor::kept`]; known while one source stays the winner.
    pub(super) kept: usize,
}

impl<C: Cursor> MergeCursor<C> {
    /// Merges `sources`, newest first. `shared` is a prefix that most keys are expected to have:
    /// a matter of speed only, which adapts to the keys that are met.
    pub(crate) fn new(sources: Vec<C>, shared: &[u8]) -> Self {
        // One source by itself has nothing to be matched with.
        let (shared, count) = match sources.len() {
            0 | 1 => (&[][..], 0),
            count => (shared, count),
        };
        Self {
            sources,
            shared: shared.to_vec(),
            slots: vec![EMPTY; count],
            undecided: 0,
            winner: 0,
            order: Order::Forward,
            key: Vec::new(),
            kept: 0,
        }
    }

    pub(super) fn build(&mut self) {
        let count = self.slots.len();
        for source in 0..count {
            self.slots[source].head = self.head(source);
        }
        // Beyond the inner nodes are the sources.
        let winner = |slots: &[Slot], node: usize| match slots.get(node) {
            Some(slot) => slot.winner as usize,
            None => node - count,
        };
        for node in (1..count).rev() {
            let (a, b) = (winner(&self.slots, 2 * node), winner(&self.slots, 2 * node + 1));
            let (first, tie) = self.play(a, b);
            let (won, lost) = if first { (a, b) } else { (b, a) };
            self.slots[node].winner = won as u32;
            self.slots[node].loser = Loser { source: lost as u32, tie };
        }
        self.winner = self.slots.get(1).map_or(0, |root| root.winner as usize);
    }

    /// Plays the matches on the winner's path again after it moved.
    #[inline]
    pub(super) fn replay(&mut self) {
        self.winner = self.replay_below(0, self.winner);
        if self.undecided > UNDECIDED_LIMIT {
            self.choose_shared();
        }
    }

    /// Plays the matches of the winner again, and of a source that lost to it at `node`, after both moved.
    #[inline]
    pub(super) fn replay_pair(&mut self, node: usize, rival: usize) {
        // The rival won all its matches below `node`.
        self.slots[node].loser.source = self.replay_below(node, rival) as u32;
        self.replay();
    }

    /// Plays the matches below `top` again on the path of a source that won them and moved. Who
    /// wins them now.
    #[inline]
    fn replay_below(&mut self, top: usize, moved: usize) -> usize {
        let mut up = moved;
        self.slots[up].head = self.next_head(up);
        let mut node = (up + self.sources.len()) / 2;
        while node > top {
            let other = self.slots[node].loser.source as usize;
            let (first, tie) = self.play(up, other);
            if first {
                self.slots[node].loser.tie = tie;
            } else {
                self.slots[node].loser = Loser { source: up as u32, tie };
                up = other;
            }
            node /= 2;
        }
        up
    }

    /// Moves the heads to where the keys differ that the winner is matched with.
    #[cold]
    fn choose_shared(&mut self) {
        self.undecided = 0;
        let key = self.sources[self.winner].key();
        let mut longest = 0;
        let mut node = (self.winner + self.sources.len()) / 2;
        while node > 0 {
            let Loser { source, tie } = self.slots[node].loser;
            if tie == Tie::None {
                let other = self.sources[source as usize].key();
                longest = longest.max(common_prefix(key, other));
            }
            node /= 2;
        }
        self.shared.clear();
        self.shared.extend_from_slice(&key[..longest.saturating_sub(HEAD_SLACK)]);
        for source in 0..self.sources.len() {
            self.slots[source].head = self.head(source);
        }
    }

    /// Whether source `a` comes before source `b`, and by how much.
    #[inline]
    pub(super) fn play(&mut self, a: usize, b: usize) -> (bool, Tie) {
        match self.slots[a].head.cmp(&self.slots[b].head) {
            Ordering::Less => (true, Tie::None),
            Ordering::Greater => (false, Tie::None),
            Ordering::Equal => self.play_in_full(a, b),
        }
    }

    fn play_in_full(&mut self, a: usize, b: usize) -> (bool, Tie) {
        let (left, right) = (&self.sources[a], &self.sources[b]);
        if !(left.valid() && right.valid()) {
            return (left.valid() || (a < b && !right.valid()), Tie::None);
        }
        let keys = match self.order {
            Order::Forward => left.key().cmp(right.key()),
            Order::Reverse => right.key().cmp(left.key()),
        };
        if keys != Ordering::Equal {
            self.undecided += 1;
            return (keys == Ordering::Less, Tie::None);
        }
        match right.version().cmp(&left.version()) {
            Ordering::Less => (true, Tie::Key),
            Ordering::Greater => (false, Tie::Key),
            Ordering::Equal => (a < b, Tie::Entry),
        }
    }

    /// A number that orders positions as their keys do, but for equal numbers.
    #[inline]
    fn head(&self, source: usize) -> u64 {
        let cursor = &self.sources[source];
        if !cursor.valid() {
            return u64::MAX;
        }
        let key = cursor.key();
        let head = match key.get(..self.shared.len()) {
            Some(start) if *start == *self.shared => first_eight(&key[self.shared.len()..]),
            _ if *key < *self.shared => 0,
            _ => u64::MAX,
        };
        self.in_order(head)
    }

    /// The head of a source that went one step on from the key of the head it has.
    #[inline]
    fn next_head(&self, source: usize) -> u64 {
        let cursor = &self.sources[source];
        // Such a head is of a key that began with `shared`.
        let has_shared = !matches!(self.slots[source].head, 0 | u64::MAX);
        if !(has_shared && cursor.kept() >= self.shared.len() && cursor.valid()) {
            return self.head(source);
        }
        let head = first_eight(cursor.key().get(self.shared.len()..).unwrap_or_default());
        self.in_order(head)
    }

    #[inline]
    fn in_order(&self, head: u64) -> u64 {
        match self.order {
            Order::Forward => head,
            Order::Reverse => !head,
        }
    }

    /// Who else has the winner's key.
    #[inline]
    pub(super) fn tied(&self) -> Tied {
        let mut tied = Tied::No;
        let mut node = (self.winner + self.sources.len()) / 2;
        while node > 0 {
            let Loser { source, tie } = self.slots[node].loser;
            if tie != Tie::None {
                let rival = source as usize;
                if !matches!(tied, Tied::No) || self.has_tie_below(node, rival) {
                    return Tied::More;
                }
                tied = Tied::Once { node, rival };
            }
            node /= 2;
        }
        tied
    }

    /// Whether another source has the key of one that won all matches below `top`.
    #[inline]
    fn has_tie_below(&self, top: usize, source: usize) -> bool {
        let mut node = (source + self.sources.len()) / 2;
        while node > top {
            if self.slots[node].loser.tie != Tie::None {
                return true;
            }
            node /= 2;
        }
        false
    }

    /// How close the closest other source is to the winner.
    #[inline]
    pub(super) fn closest(&self) -> Tie {
        let mut node = (self.winner + self.sources.len()) / 2;
        let mut closest = Tie::None;
        while node > 0 {
            closest = closest.max(self.slots[node].loser.tie);
            node /= 2;
        }
        closest
    }
}
