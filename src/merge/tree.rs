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

use crate::entry::{Cursor, Entry, Kind, Walker, walk_by_steps};
use crate::error::Result;
use crate::key::{common_prefix, first_eight};
use crate::version::Version;

/// Undecided matches after which `shared` is chosen anew. To choose costs a few matches.
const UNDECIDED_LIMIT: u32 = if cfg!(test) { 1 } else { 32 };
/// How many of the bytes that neighbours share stay in the heads, so that the heads still differ
/// when the walk has gone on for a while.
const HEAD_SLACK: usize = 4;

/// Which way positions follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Ascending keys, all versions.
    Forward,
    /// Descending keys, each at its newest version.
    Reverse,
}

/// How close a match was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tie {
    /// The keys differ, or a source is at its end.
    None,
    /// The same key at different versions.
    Key,
    /// The same key at the same version: one entry, present twice.
    Entry,
}

#[derive(Clone, Copy, Debug)]
struct Loser {
    source: u32,
    tie: Tie,
}

/// What is known of the source and of the inner node of one number. They are in one list, as a short scan
/// pays for each that is made.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The eight bytes of the source's key after `shared`, which settle most matches.
    head: u64,
    /// Who lost the match at the node; node 0 is not used.
    loser: Loser,
    /// Who won it, while the tree is built.
    winner: u32,
}

const EMPTY: Slot = Slot { head: u64::MAX, loser: Loser { source: 0, tie: Tie::None }, winner: 0 };

/// The entries of several cursors in one order, each entry once.
///
/// Where two sources have the same key at the same version, the one with the lower index is
/// shown. After an error the position is undefined until the next seek.
pub(crate) struct MergeCursor<C> {
    sources: Vec<C>,
    /// Bytes that keys hereabouts begin with, so that heads hold bytes that differ.
    shared: Vec<u8>,
    /// As many as sources; none if there is only one.
    slots: Vec<Slot>,
    /// Matches that the heads did not settle though the keys differ, since `shared` was chosen.
    undecided: u32,
    winner: usize,
    order: Order,
    /// The key that tied sources are moved beyond.
    key: Vec<u8>,
    /// See [`Cursor::kept`]; known while one source stays the winner.
    kept: usize,
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

    /// Moves every source that is at the current key, by `step`, each past that key. The caller
    /// answers for every entry that is left out.
    #[inline]
    fn step_key(&mut self, step: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        match self.closest() {
            Tie::None => self.step_first(step),
            _ => self.step_tied(step, |source, key| source.key() != key),
        }
    }

    /// Goes forward from the current key by `step`, which moves a source to where it has
    /// something to show.
    #[inline]
    pub(super) fn step_forward(&mut self, step: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        self.turn_forward()?;
        self.step_key(step)
    }

    /// Goes backward from the current key by `step`.
    #[inline]
    pub(super) fn step_backward(&mut self, step: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        match self.order {
            Order::Forward => self.turn(Self::seek_before),
            Order::Reverse => self.step_key(step),
        }
    }

    /// As a seek to a key after the current one: sources that are there already stay.
    pub(crate) fn seek_onward(&mut self, key: &[u8]) -> Result<()> {
        if self.order == Order::Reverse {
            return self.seek(key);
        }
        self.place(Order::Forward, |source| {
            if source.valid() && source.key() < key { source.seek(key) } else { Ok(()) }
        })
    }

    /// As a seek to before a key that is at or before the current one: sources that are there
    /// already stay.
    pub(crate) fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        if self.order == Order::Forward {
            return self.seek_before(key);
        }
        self.place(Order::Reverse, |source| {
            if source.valid() && source.key() >= key { source.seek_before(key) } else { Ok(()) }
        })
    }

    #[inline]
    fn step_first(&mut self, step: impl FnOnce(&mut C) -> Result<()>) -> Result<()> {
        if let [only] = &mut *self.sources {
            step(only)?;
            self.kept = only.kept();
            return Ok(());
        }
        let stepped = self.winner;
        if let Some(first) = self.sources.get_mut(stepped) {
            step(first)?;
            self.replay();
            self.kept = if self.winner == stepped { self.sources[stepped].kept() } else { 0 };
        }
        Ok(())
    }

    /// A walk over several sources. One that stays first walks by itself up to the next key of
    /// another.
    fn walk_merged(&mut self, walker: &mut impl Walker) -> Result<()> {
        // No source's number.
        let mut before = usize::MAX;
        while let Some(entry) = self.entry() {
            if self.winner == before && self.closest() == Tie::None {
                if !self.walk_first(walker)? {
                    break;
                }
                before = usize::MAX;
            } else if walker.meet(entry, self.kept) {
                before = self.winner;
                self.step_key(C::next_key)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Lets the first source walk, which alone has its key, for as long as it stays the first.
    /// Whether `walker` wants to go on.
    fn walk_first(&mut self, walker: &mut impl Walker) -> Result<bool> {
        let (first, second) = (self.winner, self.runner_up());
        let Ok([source, rival]) = self.sources.get_disjoint_mut([first, second]) else {
            return Ok(true);
        };
        let mut lead = Lead { walker, rival: &*rival, common: usize::MAX, goes_on: true };
        let walked = source.walk(&mut lead);
        let goes_on = lead.goes_on;
        self.replay();
        self.kept = if self.winner == first { self.sources[first].kept() } else { 0 };
        walked.map(|()| goes_on)
    }

    /// The source that would come first if the winner were not there.
    fn runner_up(&mut self) -> usize {
        let mut node = (self.winner + self.sources.len()) / 2;
        let mut best = self.slots[node].loser.source as usize;
        while node > 1 {
            node /= 2;
            let other = self.slots[node].loser.source as usize;
            if self.play(other, best).0 {
                best = other;
            }
        }
        best
    }

    /// Puts every source at a position and plays all matches.
    fn place(&mut self, order: Order, mut put: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.order = order;
        self.kept = 0;
        for source in &mut self.sources {
            put(source)?;
        }
        self.build();
        Ok(())
    }

    fn build(&mut self) {
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
    fn replay(&mut self) {
        let mut up = self.winner;
        self.slots[up].head = self.head(up);
        let mut node = (up + self.sources.len()) / 2;
        while node > 0 {
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
        self.winner = up;
        if self.undecided > UNDECIDED_LIMIT {
            self.choose_shared();
        }
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
                longest = longest.max(key.iter().zip(other).take_while(|(a, b)| a == b).count());
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
    fn play(&mut self, a: usize, b: usize) -> (bool, Tie) {
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
        match self.order {
            Order::Forward => head,
            Order::Reverse => !head,
        }
    }

    /// How close the closest other source is to the winner.
    #[inline]
    fn closest(&self) -> Tie {
        let mut node = (self.winner + self.sources.len()) / 2;
        let mut closest = Tie::None;
        while node > 0 {
            closest = closest.max(self.slots[node].loser.tie);
            node /= 2;
        }
        closest
    }

    /// Moves every source that stands on the winner's key by `step`, until `passed` says that
    /// the winner stands where it should.
    #[cold]
    fn step_tied(
        &mut self,
        step: impl Fn(&mut C) -> Result<()>,
        passed: impl Fn(&C, &[u8]) -> bool,
    ) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.key());
        let mut stepped = Ok(());
        while stepped.is_ok() && self.valid() && !passed(&self.sources[self.winner], &key) {
            stepped = self.step_first(&step);
        }
        self.key = key;
        self.kept = 0;
        stepped
    }

    /// Sees to it that the sources are placed for going forward from the current key.
    #[inline]
    fn turn_forward(&mut self) -> Result<()> {
        if self.order == Order::Forward { Ok(()) } else { self.turn(Self::seek) }
    }

    #[cold]
    fn turn(&mut self, seek: impl FnOnce(&mut Self, &[u8]) -> Result<()>) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let key = self.key().to_vec();
        seek(self, &key)
    }
}

/// Walks with a source as long as its keys are before that of the source that comes second.
struct Lead<'a, W, C> {
    walker: &'a mut W,
    rival: &'a C,
    /// How many bytes at its front the key compared last has in common with the rival's.
    common: usize,
    /// Whether the walker wants to.
    goes_on: bool,
}

impl<W: Walker, C: Cursor> Lead<'_, W, C> {
    /// Whether the first source is the first no more.
    #[inline(never)]
    fn is_lost(&mut self, key: &[u8]) -> bool {
        let rival = self.rival.key();
        self.common = common_prefix(key, rival);
        self.rival.valid() && *key >= *rival
    }
}

impl<W: Walker, C: Cursor> Walker for Lead<'_, W, C> {
    #[inline(always)]
    fn meet(&mut self, entry: Entry<'_>, kept: usize) -> bool {
        // A key that parts from the rival's where the one before did is on the same side of it.
        if kept <= self.common && self.is_lost(entry.key) {
            return false;
        }
        self.goes_on = self.walker.meet(entry, kept);
        self.goes_on
    }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.place(Order::Forward, |source| source.seek(key))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.place(Order::Forward, C::seek_to_first)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.sources.get(self.winner).is_some_and(C::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.sources.get(self.winner).map_or(&[], C::key)
    }

    #[inline]
    fn version(&self) -> Version {
        self.sources.get(self.winner).map_or(Version::ZERO, C::version)
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.sources.get(self.winner).map_or(Kind::Delete, C::kind)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.sources.get(self.winner).map_or(&[], C::value)
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.sources.get(self.winner)?.entry()
    }

    #[inline]
    fn kept(&self) -> usize {
        self.kept
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.turn_forward()?;
        if self.closest() < Tie::Entry {
            return self.step_first(C::next);
        }
        let version = self.version();
        self.step_tied(C::next, |source, key| source.version() != version || source.key() != key)
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        self.step_forward(C::next_key)
    }

    #[inline]
    fn walk(&mut self, walker: &mut impl Walker) -> Result<()> {
        match (&mut *self.sources, self.order) {
            ([only], Order::Forward) => {
                only.walk(walker)?;
                self.kept = only.kept();
                Ok(())
            }
            (_, Order::Forward) => self.walk_merged(walker),
            (_, Order::Reverse) => walk_by_steps(self, walker),
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.place(Order::Reverse, |source| source.seek_before(key))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.place(Order::Reverse, C::seek_to_last)
    }

    #[inline]
    fn previous_key(&mut self) -> Result<()> {
        self.step_backward(C::previous_key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Op, Row, VecCursor, key, model, op, rows};
    use super::*;

    /// Notes the entries that it meets, of which it wants so many, and holds the cursor to what it
    /// says of them.
    #[derive(Debug, PartialEq, Eq)]
    struct Notes {
        wanted: usize,
        rows: Vec<Row>,
    }

    impl Walker for Notes {
        fn meet(&mut self, entry: Entry<'_>, kept: usize) -> bool {
            if let Some(before) = self.rows.last() {
                assert!(kept <= common_prefix(&before.key, entry.key), "{before:?} {entry:?}");
            }
            let Entry { key, version, kind, value } = entry;
            let (key, version, value) = (key.to_vec(), version.ticks(), value.to_vec());
            self.rows.push(Row { key, version, kind, value });
            self.rows.len() <= self.wanted
        }
    }

    proptest! {
        /// A walk shows what steps would, wherever it begins, and ends where they would.
        #[test]
        fn a_walk_shows_what_steps_show(
            sources in proptest::collection::vec(rows(), 0..5),
            runs in proptest::collection::vec(key(), 0..3),
            shared in key(),
            ops in proptest::collection::vec((op(), 0usize..12), 1..6),
        ) {
            // Of sources that interleave in places only, one stays first for a while.
            let part = |rows: &[Row], run: usize| {
                let of_run = |row: &Row| runs.iter().filter(|cut| **cut <= row.key).count() == run;
                rows.iter().filter(|row| of_run(row)).cloned().collect::<Vec<_>>()
            };
            let all = model(&sources);
            let sources: Vec<_> = (0..=runs.len())
                .map(|run| part(&all, run))
                .chain(sources.first().cloned())
                .collect();
            let cursors = sources.iter().map(|rows| VecCursor::new(rows)).collect();
            let mut cursor = MergeCursor::new(cursors, &shared);
            let mut expected = VecCursor::new(&model(&sources));
            for (op, wanted) in ops {
                prop_assert_eq!(op.apply(&mut cursor), op.apply(&mut expected), "{:?}", op);
                let [mut notes, mut model] = [(); 2].map(|()| Notes { wanted, rows: Vec::new() });
                cursor.walk(&mut notes).unwrap();
                walk_by_steps(&mut expected, &mut model).unwrap();
                prop_assert_eq!(notes, model);
                prop_assert_eq!(Op::Stay.apply(&mut cursor), Op::Stay.apply(&mut expected));
            }
        }

        /// Any walk, both ways, sees what one sorted list of all entries would show.
        #[test]
        fn walks_agree_with_one_sorted_list(
            sources in proptest::collection::vec(rows(), 0..7),
            shared in key(),
            ops in proptest::collection::vec(op(), 1..40),
        ) {
            let cursors = sources.iter().map(|rows| VecCursor::new(rows)).collect();
            let mut cursor = MergeCursor::new(cursors, &shared);
            let mut expected = VecCursor::new(&model(&sources));
            for op in &ops {
                let before = expected.valid().then(|| expected.key().to_vec());
                prop_assert_eq!(op.apply(&mut cursor), op.apply(&mut expected), "{:?}", op);
                // Half of the seeks in either direction go the shorter way.
                if let (Op::Seek(key) | Op::SeekBefore(key), Some(before)) = (op, before) {
                    Op::Seek(before.clone()).apply(&mut cursor);
                    if *key > before {
                        cursor.seek_onward(key).unwrap();
                        Op::Seek(key.clone()).apply(&mut expected);
                    } else {
                        Op::SeekBefore(before).apply(&mut cursor);
                        cursor.seek_back(key).unwrap();
                        Op::SeekBefore(key.clone()).apply(&mut expected);
                    }
                    prop_assert_eq!(Op::Stay.apply(&mut cursor), Op::Stay.apply(&mut expected));
                }
            }
        }
    }
}
