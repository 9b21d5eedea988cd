//! The cursor over a memtable.
//!
//! Invariant: while valid, it is on a record of a leaf, and `path` holds the inner nodes from the
//! root to that leaf, with the branch taken in each.
//!
//! Nodes on the path may be replaced while the cursor is on them. They keep what they had, so the
//! cursor meets every leaf that was there when it was positioned by a seek, in order and once, and
//! may or may not meet what came later.
//!
//! Forward, it has looked one branch ahead and has had that brought near: rows that were written in
//! random order take 0.5 to 0.8 of the time, rows in key order 0.9 to 1.4 (`cargo bench --bench memtable -- scan`).

use std::cmp::Ordering;

use super::inner::{Inner, common_len};
use super::leaf::{LeafRef, RecordRef};
use super::link::{Child, Link};
use super::tree::Tree;
use crate::entry::{Cursor, Entry, Found, Kind};
use crate::error::Result;
use crate::version::Version;

/// Room for the path of most keys, made at once: one that grows comes to what malloc does not keep for
/// each thread (1,032 bytes in glibc), so that threads wait for each other. Short pages by two threads
/// ran at 1.36 times the rate (`peers --work ycsb-e-2`, medians of four rounds in turn).
const USUAL_DEPTH: usize = 20;
const _: () = assert!(USUAL_DEPTH * size_of::<Step<'_>>() <= 1_000);

/// A [`Cursor`] over a memtable.
pub(crate) struct MemtableCursor<'a> {
    tree: &'a Tree,
    path: Vec<Step<'a>>,
    position: Option<(LeafRef<'a>, RecordRef<'a>)>,
    /// See [`Cursor::kept`].
    kept: usize,
}

/// A node on the path, and which way it goes on.
#[derive(Clone, Copy)]
struct Step<'a> {
    node: Inner<'a>,
    branch: Branch,
    after: After<'a>,
}

/// The branch after the one that was taken.
#[derive(Clone, Copy)]
enum After<'a> {
    NotLookedFor,
    /// It is brought near already.
    Is(u8, Link<'a>),
    IsNone,
}

impl<'a> Step<'a> {
    fn new(node: Inner<'a>, branch: Branch) -> Self {
        Self { node, branch, after: After::NotLookedFor }
    }

    /// Takes the next branch, and has the one after it brought near.
    fn advance(&mut self) -> Option<Link<'a>> {
        let (byte, link) = match self.after {
            After::Is(byte, link) => (byte, link),
            After::IsNone => return None,
            After::NotLookedFor => self.node.child_from(match self.branch {
                Branch::Terminal => 0,
                Branch::Byte(byte) => usize::from(byte) + 1,
            })?,
        };
        self.branch = Branch::Byte(byte);
        self.look_ahead(usize::from(byte) + 1);
        Some(link)
    }

    fn look_ahead(&mut self, from: usize) {
        self.after = match self.node.child_from(from) {
            Some((byte, link)) => {
                link.prefetch();
                After::Is(byte, link)
            }
            None => After::IsNone,
        };
    }
}

#[derive(Clone, Copy)]
enum Branch {
    Terminal,
    Byte(u8),
}

impl<'a> MemtableCursor<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree, path: Vec::with_capacity(USUAL_DEPTH), position: None, kept: 0 }
    }

    fn be_at(&mut self, leaf: LeafRef<'a>) {
        self.position = Some((leaf, leaf.newest()));
    }

    /// Makes the path that of `key`, as far as there are keys that begin as it does. If it ends at
    /// something: that, and how all the keys in it compare to `key`. If not, `key` has a branch of
    /// its own in the last node, where nothing is.
    fn follow(&mut self, key: &[u8]) -> Option<(Link<'a>, Ordering)> {
        self.path.clear();
        self.position = None;
        let mut link = self.tree.root()?;
        let mut agreed = 0;
        loop {
            let node = match link.child() {
                Child::Leaf(leaf) => {
                    let common = common_len(leaf.key(), key, agreed);
                    return Some((link, leaf.key().get(common..).cmp(&key.get(common..))));
                }
                Child::Inner(node) => node,
            };
            let depth = node.depth();
            let common = node.agrees_to(key, agreed);
            let Some(&byte) = key.get(depth).filter(|_| common == depth) else {
                // The keys below part from `key` before the depth, or are longer than it.
                let below = node.any_leaf()?.key();
                let differ = below.get(common).cmp(&key.get(common));
                let order = if common == depth { Ordering::Greater } else { differ };
                return Some((link, order));
            };
            self.path.push(Step::new(node, Branch::Byte(byte)));
            link = node.slot(byte)?.load()?;
            agreed = depth + 1;
        }
    }

    /// Goes to the first leaf below a link.
    fn descend_to_first(&mut self, mut link: Link<'a>) {
        loop {
            match link.child() {
                Child::Leaf(leaf) => return self.be_at(leaf),
                Child::Inner(node) => match first_branch(node) {
                    Some((step, next)) => {
                        self.path.push(step);
                        link = next;
                    }
                    None => return,
                },
            }
        }
    }

    /// Goes to the last leaf below a link.
    fn descend_to_last(&mut self, mut link: Link<'a>) {
        loop {
            match link.child() {
                Child::Leaf(leaf) => return self.be_at(leaf),
                Child::Inner(node) => match last_branch(node, 256) {
                    Some((branch, next)) => {
                        self.path.push(Step::new(node, branch));
                        link = next;
                    }
                    None => return,
                },
            }
        }
    }

    /// Goes to the newest record of the leaf at or before `at`, if there is one.
    fn go_older(&mut self, at: Version) -> bool {
        let Some((leaf, record)) = self.position else { return false };
        let Some(older) = record.newest_at(at) else { return false };
        self.position = Some((leaf, older));
        self.kept = leaf.key().len();
        true
    }

    /// Goes to the first leaf right of the path.
    fn advance(&mut self) {
        self.position = None;
        while let Some(step) = self.path.last_mut() {
            if let Some(link) = step.advance() {
                self.kept = step.node.depth();
                return self.descend_to_first(link);
            }
            self.path.pop();
        }
    }

    /// Goes to the last leaf left of the path.
    fn retreat(&mut self) {
        self.position = None;
        while let Some(step) = self.path.last_mut() {
            if let Branch::Byte(byte) = step.branch
                && let Some((branch, link)) = last_branch(step.node, usize::from(byte))
            {
                *step = Step::new(step.node, branch);
                self.kept = step.node.depth();
                return self.descend_to_last(link);
            }
            self.path.pop();
        }
    }
}

fn first_branch(node: Inner<'_>) -> Option<(Step<'_>, Link<'_>)> {
    let mut step = Step::new(node, Branch::Terminal);
    match node.terminal().load() {
        Some(link) => Some((step, link)),
        None => {
            let link = step.advance()?;
            Some((step, link))
        }
    }
}

/// The last branch with a byte before `end`; the terminal is before all.
fn last_branch(node: Inner<'_>, end: usize) -> Option<(Branch, Link<'_>)> {
    match node.before(end) {
        Some((byte, slot)) => Some((Branch::Byte(byte), slot.load()?)),
        None => Some((Branch::Terminal, node.terminal().load()?)),
    }
}

impl Cursor for MemtableCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self.follow(key) {
            Some((link, Ordering::Equal | Ordering::Greater)) => self.descend_to_first(link),
            Some((_, Ordering::Less)) | None => self.advance(),
        }
        self.kept = 0;
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seek(b"")
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        match self.follow(key) {
            Some((link, Ordering::Less)) => self.descend_to_last(link),
            Some((_, Ordering::Equal | Ordering::Greater)) | None => self.retreat(),
        }
        self.kept = 0;
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.path.clear();
        self.position = None;
        self.kept = 0;
        if let Some(root) = self.tree.root() {
            self.descend_to_last(root);
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        self.position.is_some()
    }

    fn key(&self) -> &[u8] {
        self.position.map_or(&[], |(leaf, _)| leaf.key())
    }

    fn version(&self) -> Version {
        self.position.map_or(Version::ZERO, |(_, record)| record.version())
    }

    fn kind(&self) -> Kind {
        self.position.map_or(Kind::Delete, |(_, record)| record.kind())
    }

    fn value(&self) -> &[u8] {
        self.position.map_or(&[], |(_, record)| record.value())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (leaf, record) = self.position?;
        let Found { version, kind, value } = record.found();
        Some(Entry { key: leaf.key(), version, kind, value })
    }

    fn kept(&self) -> usize {
        self.kept
    }

    fn next(&mut self) -> Result<()> {
        let Some((leaf, record)) = self.position else { return Ok(()) };
        match record.older() {
            Some(older) => {
                self.position = Some((leaf, older));
                self.kept = leaf.key().len();
            }
            None => self.advance(),
        }
        Ok(())
    }

    fn next_key(&mut self) -> Result<()> {
        if self.valid() {
            self.advance();
        }
        Ok(())
    }

    fn next_at(&mut self, at: Version) -> Result<()> {
        if self.valid() && !self.go_older(at) {
            self.advance();
        }
        Ok(())
    }

    fn previous_key(&mut self) -> Result<()> {
        if self.valid() {
            self.retreat();
        }
        Ok(())
    }

    fn previous_at(&mut self, at: Version) -> Result<()> {
        if self.valid() && !self.go_older(at) {
            self.retreat();
        }
        Ok(())
    }
}
