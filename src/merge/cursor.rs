//! How a [`MergeCursor`] moves: by steps, each past an entry or a key, and by seeks.
//!
//! Invariant: every move leaves the tree with its matches played between the positions that the
//! sources have then. A step moves the sources that are on the current key and no others; a move in
//! the other direction seeks from there. To an older version of the key a walk needs no such move.

#![expect(
    clippy::indexing_slicing,
    reason = "node and source numbers are below the lengths they were made from"
)]

use super::tree::{MergeCursor, Order, Tie, Tied};
use crate::entry::{Cursor, Entry, Kind, Walker, walk_by_steps};
use crate::error::Result;
use crate::version::Version;

impl<C: Cursor> MergeCursor<C> {
    /// Moves every source that is at the current key, by `step`, each past that key: the winner, and
    /// those `tied` with it. The caller answers for every entry that is left out.
    #[inline]
    pub(super) fn step_key(
        &mut self,
        tied: Tied,
        step: impl Fn(&mut C) -> Result<()>,
    ) -> Result<()> {
        match tied {
            Tied::No => self.step_first(step),
            Tied::Once { node, rival } => self.step_pair(node, rival, step),
            Tied::More => self.step_tied(step, |source, key| source.key() != key),
        }
    }

    /// Goes forward from the current key by `step`, which moves a source to where it has
    /// something to show.
    #[inline]
    pub(super) fn step_forward(&mut self, step: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        self.turn_forward()?;
        self.step_key(self.tied(), step)
    }

    /// Goes backward from the current key by `step`.
    #[inline]
    pub(super) fn step_backward(&mut self, step: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        match self.order {
            Order::Forward => self.turn(Self::seek_before),
            Order::Reverse => self.step_key(self.tied(), step),
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

    /// Moves the winner and its only rival, who lost at `node`, past their key.
    #[inline]
    fn step_pair(
        &mut self,
        node: usize,
        rival: usize,
        step: impl Fn(&mut C) -> Result<()>,
    ) -> Result<()> {
        let first = self.winner;
        step(&mut self.sources[first])?;
        step(&mut self.sources[rival])?;
        self.replay_pair(node, rival);
        let moved = self.winner == first || self.winner == rival;
        self.kept = if moved { self.sources[self.winner].kept() } else { 0 };
        Ok(())
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

    /// Moves every source that is on the current key, and newer than `at` there, by `step`: to what it has
    /// of the key at or before that, or past the key. The others stay.
    fn step_to(&mut self, at: Version, step: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        match self.tied() {
            Tied::Once { node, rival } if self.sources[rival].version() > at => {
                self.step_pair(node, rival, step)
            }
            Tied::No | Tied::Once { .. } => self.step_first(step),
            Tied::More => {
                self.step_tied(step, |source, key| source.version() <= at || source.key() != key)
            }
        }
    }

    /// Sees to it that the sources are placed for going forward from the current key.
    #[inline]
    fn turn_forward(&mut self) -> Result<()> {
        if self.order == Order::Forward { Ok(()) } else { self.turn_to_entry() }
    }

    /// Of the key, a walk back may be on an older version.
    #[cold]
    fn turn_to_entry(&mut self) -> Result<()> {
        let version = self.version();
        self.turn(Self::seek)?;
        self.next_at(version)
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

    /// A lower bound of what the key has in common with the key before it, on which hangs what walks need not
    /// compare. A source knows it of its own last move. The merge says the same where that was its own last
    /// move too: the winner moved alone, or with its only rival from the key of both, and is first again; where
    /// another source's turn has come, and after seeks, it says 0. `walk_first` lets the walker hear it from
    /// the source itself, which it may because it is called only if the source *stays*: the walker met its key
    /// before this one, and the step from there moved that source alone. `walk_pair` takes the smaller of two,
    /// as it compares both keys beyond it. Who watches for a bound (the end of a scan's span, the key of the
    /// source that is next) knows how many bytes the key compared last has in *common* with it: a key that
    /// keeps more than these of the key before parts from the bound at the same byte, so it is on the same
    /// side, and has as many in common; any other is compared, or told apart by the byte at which it parts. And
    /// the smallest number since a row was offered to a page is one of bytes in *common with the offered* key:
    /// only what is behind them is compared with its partition, and looked through for escapes.
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

    fn next_at(&mut self, at: Version) -> Result<()> {
        if self.version() <= at {
            return Ok(());
        }
        self.turn_forward()?;
        self.step_to(at, |source| source.next_at(at))
    }

    fn previous_at(&mut self, at: Version) -> Result<()> {
        if self.version() <= at {
            return Ok(());
        }
        if self.order == Order::Forward {
            self.turn(|merge, key| merge.seek_before(&[key, &[0]].concat()))?;
        }
        self.step_to(at, |source| source.previous_at(at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Op, Row, VecCursor, key, model, op, rows};
    use super::*;

    /// Every key is in each source, at versions of its own; the source after the last has half of them,
    /// newer than all.
    #[test]
    fn a_walk_at_a_version_seeks_no_source_again() {
        let row =
            |key: u8, version: u64| Row { key: vec![key], version, kind: Kind::Put, value: vec![] };
        let source = |newest: u64| -> Vec<Row> {
            (0..100).flat_map(|key| [row(key, newest), row(key, newest - 1)]).collect()
        };
        let mut sources = [source(6), source(4), source(2)].to_vec();
        sources.push((0..100).step_by(2).map(|key| row(key, 9)).collect());
        for at in 0..10 {
            let newest = |key: u8| if at == 9 && key.is_multiple_of(2) { 9 } else { at.min(6) };
            let expected = (0..100).map(|key| (key, newest(key)));
            let mut expected: Vec<_> = expected.filter(|(_, version)| *version > 0).collect();
            for forward in [true, false] {
                let cursors = sources.iter().map(|rows| VecCursor::new(rows)).collect();
                let mut cursor = MergeCursor::new(cursors, &[]);
                let put = if forward { Cursor::seek_to_first } else { Cursor::seek_to_last };
                put(&mut cursor).unwrap();
                let (version, mut found) = (Version::from_ticks(at), Vec::new());
                while cursor.valid() {
                    let is_newer = cursor.version() > version;
                    if !is_newer {
                        found.push((cursor.key()[0], cursor.version().ticks()));
                    }
                    let step = match (forward, is_newer) {
                        (true, true) => cursor.next_at(version),
                        (true, false) => cursor.next_key(),
                        (false, true) => cursor.previous_at(version),
                        (false, false) => cursor.previous_key(),
                    };
                    step.unwrap();
                }
                assert_eq!(found, expected);
                assert!(cursor.sources.iter().all(|source| source.seeks == 1));
                expected.reverse();
            }
        }
    }

    proptest! {
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
