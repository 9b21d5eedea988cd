//! Inner nodes of the tree: by one byte of the key to the child that has it, in four sizes.
//!
//! Invariant: the keys below a node agree in their first `depth` bytes; the byte at `depth` leads
//! to a child, and the key that ends there is the terminal. Children are added and replaced, never
//! removed, by whoever holds the node's latch, until a larger node takes its place; then it stays
//! as it is, for readers that came before.

use std::ptr;

use super::dense::{Node48, Node256};
use super::leaf::LeafRef;
use super::link::{Child, InnerArena, Link, Slot};
use super::sparse::{Node4, Node16};
use crate::key::common_prefix;
use crate::prefetch::{LINE_BYTES, prefetch};
use crate::sync::Mutex;

/// Whether the tree still leads to a node; held in its latch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Current,
    /// A larger node has taken its place: what is changed in it, no reader would see.
    Replaced,
}

/// What nodes of all sizes begin with.
pub(super) struct Header {
    latch: Mutex<Life>,
    depth: u32,
    /// The [`tail`] of the keys at `depth`.
    tail: u64,
    /// The leaf whose key ends at `depth`.
    terminal: Slot,
}

/// An inner node of any size.
#[derive(Clone, Copy)]
pub(super) enum Inner<'a> {
    N4(&'a Node4),
    N16(&'a Node16),
    N48(&'a Node48),
    N256(&'a Node256),
}

macro_rules! each_size {
    ($inner:expr, $node:ident => $result:expr) => {
        match $inner {
            Inner::N4($node) => $result,
            Inner::N16($node) => $result,
            Inner::N48($node) => $result,
            Inner::N256($node) => $result,
        }
    };
}

/// The bytes of a key before `depth`, up to eight of them, the last in the lowest byte.
#[inline]
fn tail(key: &[u8], depth: usize) -> u64 {
    let before = key.get(..depth).unwrap_or(key);
    match before.last_chunk::<8>() {
        Some(last) => u64::from_be_bytes(*last),
        None => before.iter().fold(0, |tail, &byte| tail << 8 | u64::from(byte)),
    }
}

/// Length of the common prefix of two keys that agree up to `from`.
#[inline]
pub(super) fn common_len(a: &[u8], b: &[u8], from: usize) -> usize {
    from + common_prefix(a.get(from..).unwrap_or_default(), b.get(from..).unwrap_or_default())
}

impl Header {
    /// For the keys that begin as `key` does, up to `depth`.
    pub(super) fn new(key: &[u8], depth: usize) -> Self {
        debug_assert!(depth <= key.len());
        Self {
            latch: Mutex::new(Life::Current),
            depth: depth as u32,
            tail: tail(key, depth),
            terminal: Slot::new(None),
        }
    }

    /// For a node that is to take another's place.
    fn like(other: &Self) -> Self {
        Self {
            latch: Mutex::new(Life::Current),
            depth: other.depth,
            tail: other.tail,
            terminal: Slot::new(other.terminal.load()),
        }
    }
}

impl<'a> Inner<'a> {
    #[inline]
    fn header(self) -> &'a Header {
        each_size!(self, node => &node.header)
    }

    /// Length of what the keys below have in common; the byte there tells the children apart.
    #[inline]
    pub(super) fn depth(self) -> usize {
        self.header().depth as usize
    }

    pub(super) fn latch(self) -> &'a Mutex<Life> {
        &self.header().latch
    }

    /// Where the leaf is whose key ends at the depth.
    pub(super) fn terminal(self) -> &'a Slot {
        &self.header().terminal
    }

    /// The slot of the child with that byte, if there is such a child.
    #[inline]
    pub(super) fn slot(self, byte: u8) -> Option<&'a Slot> {
        each_size!(self, node => node.slot(byte))
    }

    /// The first child with a byte at or after `from`.
    #[inline]
    pub(super) fn child_from(self, from: usize) -> Option<(u8, Link<'a>)> {
        let (byte, slot) = each_size!(self, node => node.at_or_after(from))?;
        Some((byte, slot.load()?))
    }

    /// Has its first line brought near.
    #[inline]
    pub(super) fn prefetch(self) {
        each_size!(self, node => prefetch(node));
    }

    /// Has brought near its first line, and of one whose bytes of children are beyond that these too.
    #[inline]
    pub(super) fn approach(self) {
        self.prefetch();
        if let Self::N16(node) = self {
            prefetch(ptr::from_ref(node).cast::<u8>().wrapping_add(LINE_BYTES));
            prefetch(ptr::from_ref(node).cast::<u8>().wrapping_add(2 * LINE_BYTES));
        }
    }

    /// The last child with a byte before `end`.
    pub(super) fn before(self, end: usize) -> Option<(u8, &'a Slot)> {
        each_size!(self, node => node.before(end))
    }

    /// Adds a child, if there is room. The caller holds the latch.
    pub(super) fn add(self, byte: u8, child: Link<'a>) -> bool {
        each_size!(self, node => node.add(byte, child))
    }

    /// Some leaf below.
    pub(super) fn any_leaf(self) -> Option<LeafRef<'a>> {
        let mut inner = self;
        loop {
            let below = match inner {
                Self::N4(node) => node.slots.first()?.load(),
                Self::N16(node) => node.any_leaf.load(),
                Self::N48(node) => node.any_leaf.load(),
                Self::N256(node) => node.any_leaf.load(),
            };
            match below?.child() {
                Child::Leaf(leaf) => return Some(leaf),
                Child::Inner(node) => inner = node,
            }
        }
    }

    /// How long a beginning the keys below and `key` have in common, up to the depth, given that
    /// they agree up to `from`.
    // Always: a put passes some five nodes, and takes a tenth more instructions with calls.
    #[inline(always)]
    pub(super) fn agrees_to(self, key: &[u8], from: usize) -> usize {
        let depth = self.depth();
        let gap = depth - from;
        if gap == 0 {
            return depth;
        }
        if gap <= 8 && key.len() >= depth {
            let differ = (tail(key, depth) ^ self.header().tail) << (64 - 8 * gap);
            return if differ == 0 { depth } else { from + differ.leading_zeros() as usize / 8 };
        }
        let below = self.any_leaf().map_or(&[][..], LeafRef::key);
        common_len(below, key, from).min(depth)
    }

    /// A node of the next size with the same children, and one more. The caller holds the latch.
    pub(super) fn grown(
        self,
        arena: &'a InnerArena,
        byte: u8,
        child: Link<'a>,
    ) -> Option<Link<'a>> {
        let header = Header::like(self.header());
        let any_leaf = Link::to_leaf(self.any_leaf()?);
        let link = match self {
            Self::N4(_) => Link::to_node16(arena, Node16::new(header, any_leaf)),
            Self::N16(_) => Link::to_node48(arena, Node48::new(header, any_leaf)),
            Self::N48(_) | Self::N256(_) => Link::to_node256(arena, Node256::new(header, any_leaf)),
        };
        if let Child::Inner(larger) = link.child() {
            let mut from = 0;
            while let Some((byte, child)) = self.child_from(from) {
                larger.add(byte, child);
                from = usize::from(byte) + 1;
            }
            larger.add(byte, child);
        }
        Some(link)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::entry::Kind;
    use crate::memtable::leaf::{LeafArena, NewRecord};
    use crate::version::Version;

    /// Two keys that agree in a beginning of any length, and perhaps part after it.
    fn two_keys() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let part = |len| proptest::collection::vec(0u8..3, 0..len);
        (part(40), part(12), part(12))
            .prop_map(|(same, a, b)| ([&same[..], &a].concat(), [&same[..], &b].concat()))
    }

    fn naive_common_len(a: &[u8], b: &[u8]) -> usize {
        a.iter().zip(b).take_while(|(x, y)| x == y).count()
    }

    proptest! {
        #[test]
        fn common_len_is_that_of_a_byte_by_byte_search((a, b) in two_keys(), from in 0usize..40) {
            let expected = naive_common_len(&a, &b);
            let from = from.min(expected);
            prop_assert_eq!(common_len(&a, &b, from), expected);
            prop_assert_eq!(common_len(&b, &a, from), expected);
        }

        #[test]
        fn a_node_agrees_with_a_key_as_the_keys_below_it_do(
            (below, key) in two_keys(),
            depth in 0usize..40,
            from in 0usize..40,
        ) {
            prop_assume!(!below.is_empty());
            let depth = depth.min(below.len() - 1);
            let common = naive_common_len(&below, &key);
            let from = from.min(common).min(depth);
            let (leaves, inners) = (LeafArena::new(Arc::default()), InnerArena::new(Arc::default()));
            let new = NewRecord::new(Version::ZERO, Kind::Put, b"");
            let leaf = LeafRef::new(&leaves, &below, new);
            let node = Link::to_node4(&inners, Node4::new(Header::new(&below, depth)));
            let Child::Inner(node) = node.child() else { panic!("it is a node") };
            prop_assert!(node.add(below[depth], Link::to_leaf(leaf)));
            prop_assert_eq!(node.agrees_to(&key, from), common.min(depth));
        }
    }
}
