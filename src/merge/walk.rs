//! Walks over a [`MergeCursor`]: a source that stays first, alone or with one rival, goes on by itself.
//!
//! Invariant: who walks by itself has before it, of all sources, the key that comes first. So what
//! it shows is what steps would show, and no match is played until another source's turn comes. A scan
//! over 100,000 rows that were deleted one by one takes half of the time for it (`cargo bench --bench
//! engine -- scan-after`).

#![expect(
    clippy::indexing_slicing,
    reason = "node and source numbers are below the lengths they were made from"
)]

use super::tree::{MergeCursor, Tied, UNKNOWN};
use crate::entry::{Cursor, Entry, Walker};
use crate::error::Result;
use crate::key::common_prefix;

impl<C: Cursor> MergeCursor<C> {
    /// Forward over several sources, as [`Cursor::walk`].
    pub(super) fn walk_merged(&mut self, walker: &mut impl Walker) -> Result<()> {
        let mut before = None;
        while let Some(entry) = self.entry() {
            let (first, tied) = (self.winner, self.tied());
            let stays = before == Some((first, tied));
            before = None;
            let goes_on = match tied {
                Tied::No if stays => self.walk_first(walker)?,
                Tied::Once { node, rival } if stays => self.walk_pair(node, rival, walker)?,
                _ if walker.meet(entry, self.kept) => {
                    before = Some((first, tied));
                    self.step_key(tied, C::next_key)?;
                    true
                }
                _ => false,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Lets the first source walk, which alone has its key, for as long as it stays the first.
    /// Whether `walker` wants to go on.
    fn walk_first(&mut self, walker: &mut impl Walker) -> Result<bool> {
        let first = self.winner;
        let second = self.first_loser(None, first, 0, 0).unwrap_or(first);
        let Ok([source, next]) = self.sources.get_disjoint_mut([first, second]) else {
            return Ok(true);
        };
        let mut lead = Lead::new(walker, Some(next));
        let walked = source.walk(&mut lead);
        let goes_on = lead.goes_on;
        let kept = source.kept();
        // It may have gone many steps.
        self.slots[first].head = UNKNOWN;
        self.replay();
        self.kept = if self.winner == first { kept } else { 0 };
        walked.map(|()| goes_on)
    }

    /// Lets the first source walk with its only rival, who lost at `node` with an older version of
    /// its key, for as long as both go from one key to the same next one and stay the first: a
    /// run of keys that were overwritten or deleted. Whether `walker` wants to go on.
    fn walk_pair(&mut self, node: usize, rival: usize, walker: &mut impl Walker) -> Result<bool> {
        let first = self.winner;
        let third = self.first_loser(None, first, 0, node);
        let third = self.first_loser(third, rival, node, node);
        let (newer, older, next) = match third {
            Some(third) => match self.sources.get_disjoint_mut([first, rival, third]) {
                Ok([newer, older, third]) => (newer, older, Some(&*third)),
                Err(_) => return Ok(true),
            },
            None => match self.sources.get_disjoint_mut([first, rival]) {
                Ok([newer, older]) => (newer, older, None),
                Err(_) => return Ok(true),
            },
        };
        let mut lead = Lead::new(walker, next);
        let mut kept = self.kept;
        while let Some(entry) = newer.entry()
            && lead.meet(entry, kept)
        {
            newer.next_key()?;
            older.next_key()?;
            kept = newer.kept().min(older.kept());
            if !hides(newer, older, kept) {
                break;
            }
        }
        let goes_on = lead.goes_on;
        self.slots[first].head = UNKNOWN;
        self.slots[rival].head = UNKNOWN;
        self.replay_pair(node, rival);
        self.kept = if self.winner == first || self.winner == rival { kept } else { 0 };
        Ok(goes_on)
    }

    /// Who comes first of `best` and those who lost on the path of `source` below `top`, but at `except`.
    fn first_loser(
        &mut self,
        mut best: Option<usize>,
        source: usize,
        top: usize,
        except: usize,
    ) -> Option<usize> {
        let mut node = (source + self.sources.len()) / 2;
        while node > top {
            let loser = self.slots[node].loser.source as usize;
            if node != except && best.is_none_or(|best| self.play(loser, best).0) {
                best = Some(loser);
            }
            node /= 2;
        }
        best
    }
}

/// Whether both sources have the same key, and the first the newer version of it. Of either key,
/// `kept` bytes are those of the one before, which was the same.
#[inline]
fn hides<C: Cursor>(newer: &C, older: &C, kept: usize) -> bool {
    newer.valid()
        && older.valid()
        && newer.key().get(kept..) == older.key().get(kept..)
        && newer.version() > older.version()
}

/// Walks with a source as long as its keys are before that of the one that comes next.
struct Lead<'a, W, C> {
    walker: &'a mut W,
    next: Option<&'a C>,
    /// How many bytes at its front the key compared last has in common with that one's, and what that one
    /// has there; 0 where it ends.
    common: usize,
    byte: u8,
    /// Whether the walker wants to.
    goes_on: bool,
}

impl<'a, W: Walker, C: Cursor> Lead<'a, W, C> {
    fn new(walker: &'a mut W, next: Option<&'a C>) -> Self {
        Self { walker, next, common: usize::MAX, byte: 0, goes_on: true }
    }

    /// Whether the first source is the first no more.
    #[inline(never)]
    fn is_lost(&mut self, key: &[u8]) -> bool {
        let Some(next) = self.next.filter(|next| next.valid()).map(C::key) else {
            (self.common, self.byte) = (0, 0);
            return false;
        };
        self.common = common_prefix(key, next);
        let byte = next.get(self.common);
        self.byte = byte.copied().unwrap_or(0);
        key.get(self.common) >= byte
    }

    /// Whether a key with at least `kept` bytes of the one before is before the next one as that is: it
    /// parts from the next one where that does, by the same byte or by another that is less, too.
    #[inline]
    fn is_ahead(&self, key: &[u8], kept: usize) -> bool {
        kept > self.common
            || kept == self.common && key.get(kept).is_some_and(|byte| *byte < self.byte)
    }
}

impl<W: Walker, C: Cursor> Walker for Lead<'_, W, C> {
    #[inline(always)]
    fn meet(&mut self, entry: Entry<'_>, kept: usize) -> bool {
        if !self.is_ahead(entry.key, kept) && self.is_lost(entry.key) {
            return false;
        }
        self.goes_on = self.walker.meet(entry, kept);
        self.goes_on
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Op, Row, VecCursor, key, model, op, rows};
    use super::*;
    use crate::entry::{Kind, walk_by_steps};

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

    /// After each operation a walk follows, which wants so many entries.
    fn walks_as_steps_would(sources: &[Vec<Row>], shared: &[u8], ops: &[(Op, usize)]) {
        let cursors = sources.iter().map(|rows| VecCursor::new(rows)).collect();
        let mut cursor = MergeCursor::new(cursors, shared);
        let mut expected = VecCursor::new(&model(sources));
        for (op, wanted) in ops {
            assert_eq!(op.apply(&mut cursor), op.apply(&mut expected), "{op:?}");
            let [mut notes, mut model] =
                [(); 2].map(|()| Notes { wanted: *wanted, rows: Vec::new() });
            cursor.walk(&mut notes).unwrap();
            walk_by_steps(&mut expected, &mut model).unwrap();
            assert_eq!(notes, model);
            assert_eq!(Op::Stay.apply(&mut cursor), Op::Stay.apply(&mut expected));
        }
    }

    /// Two sources have the first keys in common; then each has others, or a third comes between.
    #[test]
    fn a_run_of_overwritten_keys_ends_where_its_sources_part() {
        let run = |keys: &[[u8; 2]], version| {
            let row =
                |key: &[u8; 2]| Row { key: key.to_vec(), version, kind: Kind::Put, value: vec![] };
            keys.iter().map(row).collect::<Vec<_>>()
        };
        let parting =
            [run(&[[1, 1], [1, 2], [1, 3], [1, 5]], 2), run(&[[1, 1], [1, 2], [1, 3], [2, 5]], 1)];
        walks_as_steps_would(&parting, &[], &[(Op::First, 9)]);
        let all = [[1, 1], [1, 2], [1, 3], [2, 1], [2, 3], [2, 4]];
        let interrupted = [run(&all, 2), run(&all, 1), run(&[[2, 2]], 3)];
        walks_as_steps_would(&interrupted, &[1], &[(Op::First, 9)]);
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
            walks_as_steps_would(&sources, &shared, &ops);
        }

        /// The same where most keys are in two sources, the newer version mostly in one of them.
        #[test]
        fn a_walk_over_what_was_overwritten_shows_what_steps_show(
            keys in proptest::collection::vec(
                (
                    prop_oneof![8 => Just(0b11u8), 1 => 0u8..32],
                    prop_oneof![8 => Just(9u64), 1 => 0u64..4],
                ),
                1..60,
            ),
            reversed in any::<bool>(),
            shared in key(),
            ops in proptest::collection::vec((op(), 0usize..60), 1..6),
        ) {
            let mut sources = vec![Vec::new(); 5];
            for (number, (holders, version)) in keys.into_iter().enumerate() {
                // Some keys part from the one before within its last byte, and some before it.
                let key = [vec![1; number / 16], vec![2, (number % 16) as u8]].concat();
                for (at, source) in sources.iter_mut().enumerate() {
                    let version = if at == 0 { version } else { at as u64 };
                    let row = Row { key: key.clone(), version, kind: Kind::Put, value: vec![at as u8] };
                    source.extend((holders >> at & 1 == 1).then_some(row));
                }
            }
            if reversed {
                sources.reverse();
            }
            sources.iter_mut().for_each(|rows| rows.sort_by(|a, b| a.key.cmp(&b.key)));
            walks_as_steps_would(&sources, &shared, &ops);
        }
    }
}
