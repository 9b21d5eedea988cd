//! Links of the tree: what a slot of an inner node holds, which is nothing, a leaf or a node.
//!
//! Invariant: the slots of a tree hold links to blocks of the same tree's arenas alone, and these
//! stay until the tree is dropped, so a link is good for as long as the slot it was read from is
//! borrowed. What a link leads to was whole when it was stored, with `Release`.
//!
//! A link is a pointer with the size of node it leads to in its low bits, so that a reader knows
//! how to read a node before it has touched it.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::arena::Arena;
use super::dense::{Node48, Node256};
use super::inner::Inner;
use super::leaf::{Leaf, LeafRef};
use super::sparse::{Node4, Node16};
use crate::sync::{AtomicPtr, Ordering};

/// Inner nodes begin at a cache line, so that those of few children are no more than one.
const ALIGN: usize = if cfg!(loom) { 8 } else { 64 };

/// Where inner nodes are.
pub(super) type InnerArena = Arena<ALIGN>;

const TAG: usize = 0b111;
const LEAF: usize = 0;
const NODE_4: usize = 1;
const NODE_16: usize = 2;
const NODE_48: usize = 3;
const NODE_256: usize = 4;

/// A place for a link.
pub(super) struct Slot(AtomicPtr<u8>);

/// A pointer to a leaf or an inner node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Link<'a> {
    tagged: NonNull<u8>,
    tree: PhantomData<&'a Slot>,
}

// SAFETY: a link is a shared reference to a leaf or a node, which other threads may have as well.
unsafe impl Send for Link<'_> {}
// SAFETY: as above.
unsafe impl Sync for Link<'_> {}

/// What a link leads to.
#[derive(Clone, Copy)]
pub(super) enum Child<'a> {
    Leaf(LeafRef<'a>),
    Inner(Inner<'a>),
}

impl Slot {
    pub(super) fn new(link: Option<Link<'_>>) -> Self {
        Self(AtomicPtr::new(link.map_or(ptr::null_mut(), |link| link.tagged.as_ptr())))
    }

    #[inline]
    pub(super) fn load(&self) -> Option<Link<'_>> {
        let tagged = NonNull::new(self.0.load(Ordering::Acquire))?;
        Some(Link { tagged, tree: PhantomData })
    }

    /// Publishes a link.
    pub(super) fn store(&self, link: Link<'_>) {
        self.0.store(link.tagged.as_ptr(), Ordering::Release);
    }
}

impl<'a> Link<'a> {
    pub(super) fn to_leaf(leaf: LeafRef<'a>) -> Self {
        Self { tagged: leaf.as_ptr().cast(), tree: PhantomData }
    }

    pub(super) fn to_node4(arena: &'a InnerArena, node: Node4) -> Self {
        Self::to_new(arena, node, NODE_4)
    }

    pub(super) fn to_node16(arena: &'a InnerArena, node: Node16) -> Self {
        Self::to_new(arena, node, NODE_16)
    }

    pub(super) fn to_node48(arena: &'a InnerArena, node: Node48) -> Self {
        Self::to_new(arena, node, NODE_48)
    }

    pub(super) fn to_node256(arena: &'a InnerArena, node: Node256) -> Self {
        Self::to_new(arena, node, NODE_256)
    }

    fn to_new<N>(arena: &'a InnerArena, node: N, tag: usize) -> Self {
        const { assert!(align_of::<N>() <= ALIGN && ALIGN > TAG) };
        let block = arena.alloc(size_of::<N>()).cast::<N>();
        // SAFETY: the block is new, large enough and aligned.
        unsafe { block.write(node) };
        Self { tagged: block.cast().map_addr(|address| address | tag), tree: PhantomData }
    }

    #[inline]
    pub(super) fn child(self) -> Child<'a> {
        let tag = self.tagged.addr().get() & TAG;
        let block = self.tagged.as_ptr().map_addr(|address| address & !TAG);
        // SAFETY: a tagged pointer is made of a block's pointer and the tag of what is in it, by
        // `to_leaf` and `to_new`. The block is whole: this link was read by an `Acquire` load from
        // a slot to which it was published, or is the writer's own. It stays, and its fields change
        // by atomics alone, as long as the tree, which is borrowed for 'a.
        unsafe {
            match tag {
                NODE_4 => Child::Inner(Inner::N4(&*block.cast())),
                NODE_16 => Child::Inner(Inner::N16(&*block.cast())),
                NODE_48 => Child::Inner(Inner::N48(&*block.cast())),
                NODE_256 => Child::Inner(Inner::N256(&*block.cast())),
                _ => {
                    debug_assert_eq!(tag, LEAF);
                    let leaf = NonNull::new_unchecked(block.cast::<Leaf>());
                    Child::Leaf(LeafRef::from_ptr(leaf))
                }
            }
        }
    }

    /// Has what it leads to brought near.
    #[inline]
    pub(super) fn prefetch(self) {
        match self.child() {
            Child::Leaf(leaf) => leaf.prefetch(),
            Child::Inner(node) => node.prefetch(),
        }
    }

    /// Has brought near what finding a child will read of it, however large it is.
    #[inline]
    pub(super) fn approach(self) {
        match self.child() {
            Child::Leaf(leaf) => leaf.prefetch(),
            Child::Inner(node) => node.approach(),
        }
    }
}
