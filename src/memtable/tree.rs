//! The tree that finds and orders the leaves: an adaptive radix tree with path compression.
//!
//! Invariant: every inserted leaf is reached from the root by the bytes of its key, from before
//! its insert returns on; leaves are in the order of their keys.
//!
//! An inner node stands only where keys part, so what all keys of a partition have in common costs
//! nothing to pass, and the number of nodes on a path does not grow with the length of keys.
//!
//! ```text
//!   keys  device/07, device/12, device/13        ┌ '0' ─► leaf device/07
//!                                 node, depth 7 ─┤
//!                                                └ '1' ─► node, depth 8 ─┬ '2' ─► leaf device/12
//!                                                                        └ '3' ─► leaf device/13
//! ```
//!
//! Readers take no latch: they follow links, each of which leads to something whole. A writer
//! finds its place as a reader does, then latches the one node it changes, and checks that it is
//! still current and the slot still holds what it saw; otherwise it looks again. That is enough:
//! - what a link leads to agrees with the key up to the depth seen, whatever has since come in
//!   between, so a place once found stays right until that node or slot changes;
//! - a node is replaced by a larger one only with its parent's latch and its own held, so no child
//!   is added to a node that has been copied;
//! - latches are taken from the root down, so that there is no circle of waiting.

use std::ops::Range;
use std::sync::Arc;

use super::inner::{Header, Inner, Life, common_len};
use super::leaf::{LeafArena, LeafRef, NewRecord};
use super::link::{Child, InnerArena, Link, Slot};
use super::pool::ChunkPool;
use super::sparse::Node4;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::version::Version;

pub(super) struct Tree {
    root: Slot,
    root_latch: Mutex<Life>,
    leaves: LeafArena,
    inners: InnerArena,
    kept: Kept,
}

/// Payloads that have values of leaves.
#[derive(Default)]
struct Kept {
    payloads: Mutex<Vec<Arc<Vec<u8>>>>,
    /// Of the values.
    bytes: AtomicUsize,
}

/// A slot, with the latch of the node that it is in.
#[derive(Clone, Copy)]
struct Edge<'a> {
    slot: &'a Slot,
    latch: &'a Mutex<Life>,
}

/// An insert under way.
struct Insert<'a, 'k> {
    tree: &'a Tree,
    key: &'k [u8],
    new: NewRecord<'k>,
    /// The leaf, once it was made.
    made: Option<LeafRef<'a>>,
}

/// What an attempt came to.
#[derive(PartialEq, Eq)]
enum Attempt {
    Done,
    /// Another writer changed the place first.
    Again,
}

impl<'a> Edge<'a> {
    /// Latches the node, if it is current and the slot holds `expected` still.
    fn latch_if(self, expected: Option<Link<'a>>) -> Option<MutexGuard<'a, Life>> {
        let life = self.latch.lock();
        (*life == Life::Current && self.slot.load() == expected).then_some(life)
    }
}

impl Tree {
    pub(super) fn new(pool: &Arc<ChunkPool>) -> Self {
        Self {
            root: Slot::new(None),
            root_latch: Mutex::new(Life::Current),
            leaves: LeafArena::new(Arc::clone(pool)),
            inners: InnerArena::new(Arc::clone(pool)),
            kept: Kept::default(),
        }
    }

    pub(super) fn root(&self) -> Option<Link<'_>> {
        self.root.load()
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.bytes() + self.inners.bytes() + self.kept.bytes.load(Ordering::Relaxed)
    }

    /// At least as many as [`bytes`](Self::bytes) says, for less.
    pub(super) fn room(&self) -> usize {
        self.leaves.room() + self.inners.room() + self.kept.bytes.load(Ordering::Relaxed)
    }

    /// Number of records, in all leaves.
    pub(super) fn records(&self) -> u64 {
        // A leaf shares a block with its first record; every other has a block of its own.
        self.leaves.blocks()
    }

    /// The leaf of that key.
    pub(super) fn get(&self, key: &[u8]) -> Option<LeafRef<'_>> {
        let mut link = self.root()?;
        loop {
            match link.child() {
                Child::Leaf(leaf) => return (leaf.key() == key).then_some(leaf),
                Child::Inner(node) => {
                    let depth = node.depth();
                    let slot = match key.get(depth) {
                        Some(&byte) => node.slot(byte)?,
                        None if key.len() == depth => node.terminal(),
                        None => return None,
                    };
                    link = slot.load()?;
                }
            }
        }
    }

    /// Adds a record to the leaf of that key, which is made if there is none.
    pub(super) fn insert(&self, key: &[u8], new: NewRecord<'_>) {
        assert!(u32::try_from(key.len()).is_ok(), "a key is shorter than 4 GiB");
        let mut insert = Insert { tree: self, key, new, made: None };
        while insert.attempt() == Attempt::Again {}
    }

    /// Adds a record whose value is a part of a payload, which is kept.
    #[cold]
    pub(super) fn insert_kept(
        &self,
        key: &[u8],
        version: Version,
        payload: &Arc<Vec<u8>>,
        value: Range<usize>,
    ) {
        let bytes = payload.get(value).unwrap_or_default();
        self.kept.bytes.fetch_add(payload.capacity(), Ordering::Relaxed);
        self.kept.payloads.lock().push(Arc::clone(payload));
        // SAFETY: as long as the tree has the payload, which is as long as the arena, nobody else can
        // have it alone: a vector that is shared stays as it is.
        self.insert(key, unsafe { NewRecord::kept(version, bytes) });
    }
}

impl<'a> Insert<'a, '_> {
    fn attempt(&mut self) -> Attempt {
        let mut edge = Edge { slot: &self.tree.root, latch: &self.tree.root_latch };
        let mut agreed = 0;
        loop {
            let Some(link) = edge.slot.load() else { return self.fill(edge) };
            let node = match link.child() {
                Child::Leaf(leaf) => {
                    let common = common_len(leaf.key(), self.key, agreed);
                    if common == self.key.len() && common == leaf.key().len() {
                        leaf.push(&self.tree.leaves, self.new);
                        return Attempt::Done;
                    }
                    return self.split(edge, link, leaf, common);
                }
                Child::Inner(node) => node,
            };
            let depth = node.depth();
            let common = node.agrees_to(self.key, agreed);
            if common < depth {
                return match node.any_leaf() {
                    Some(leaf) => self.split(edge, link, leaf, common),
                    None => Attempt::Again,
                };
            }
            (edge.slot, agreed) = match self.key.get(depth) {
                None => (node.terminal(), depth),
                Some(&byte) => match node.slot(byte) {
                    None => return self.add(edge, link, node, byte),
                    Some(slot) => (slot, depth + 1),
                },
            };
            edge.latch = node.latch();
        }
    }

    fn leaf(&mut self) -> Link<'a> {
        let Self { tree, key, new, made } = self;
        Link::to_leaf(*made.get_or_insert_with(|| LeafRef::new(&tree.leaves, key, *new)))
    }

    /// Puts the leaf into an empty slot: the root's, or the terminal of a node.
    fn fill(&mut self, edge: Edge<'a>) -> Attempt {
        let leaf = self.leaf();
        let Some(_latched) = edge.latch_if(None) else { return Attempt::Again };
        edge.slot.store(leaf);
        Attempt::Done
    }

    /// Puts a node where the key and what is below the edge part, at `depth`; `below` is a leaf
    /// of the latter.
    fn split(
        &mut self,
        edge: Edge<'a>,
        link: Link<'a>,
        below: LeafRef<'a>,
        depth: usize,
    ) -> Attempt {
        let leaf = self.leaf();
        let Some(_latched) = edge.latch_if(Some(link)) else { return Attempt::Again };
        let node = Node4::new(Header::new(self.key, depth));
        let node = Link::to_node4(&self.tree.inners, node);
        if let Child::Inner(inner) = node.child() {
            for (key, child) in [(below.key(), link), (self.key, leaf)] {
                match key.get(depth) {
                    Some(&byte) => {
                        inner.add(byte, child);
                    }
                    None => inner.terminal().store(child),
                }
            }
        }
        edge.slot.store(node);
        Attempt::Done
    }

    /// Adds the leaf to a node that has no child for its byte; a full one is replaced.
    fn add(&mut self, edge: Edge<'a>, link: Link<'a>, node: Inner<'a>, byte: u8) -> Attempt {
        let leaf = self.leaf();
        {
            let life = node.latch().lock();
            if *life == Life::Replaced || node.slot(byte).is_some() {
                return Attempt::Again;
            }
            if node.add(byte, leaf) {
                return Attempt::Done;
            }
        }
        let Some(_latched) = edge.latch_if(Some(link)) else { return Attempt::Again };
        let mut life = node.latch().lock();
        if *life == Life::Replaced || node.slot(byte).is_some() {
            return Attempt::Again;
        }
        let Some(larger) = node.grown(&self.tree.inners, byte, leaf) else {
            return Attempt::Again;
        };
        edge.slot.store(larger);
        *life = Life::Replaced;
        Attempt::Done
    }
}
