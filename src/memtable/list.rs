//! The skip list that orders the nodes by key.
//!
//! Invariant: level 0 links all nodes in ascending order of key, each key once; every level above
//! links a part of the nodes of the level below, in the same order. Nodes are only ever added, so
//! a link once seen between two nodes still leads from the one to the other, through whatever has
//! come between.
//!
//! A reader follows links read with `Acquire`. A writer makes the node, points its link at the
//! successor, and exchanges the predecessor's link for itself with `Release`; if another writer
//! came first, it looks for its place again from that predecessor. Level 0 is linked first: from
//! then on the node is in the list, and the levels above are only shortcuts.

use std::array;
use std::ptr;

use super::arena::Arena;
use super::node::{NewRecord, Node, NodeRef};
use crate::key;
use crate::sync::{AtomicPtr, Ordering};

/// With one node in four on the next level, enough for 4^12 nodes.
const MAX_HEIGHT: usize = if cfg!(loom) { 2 } else { 12 };

type Link = AtomicPtr<Node>;

pub(super) struct List {
    arena: Arena,
    head: [Link; MAX_HEIGHT],
}

/// Where a key belongs on one level: the node before it (none: the head) and the one after.
#[derive(Clone, Copy)]
struct Place<'a> {
    before: Option<NodeRef<'a>>,
    after: Option<NodeRef<'a>>,
}

impl List {
    pub(super) fn new() -> Self {
        Self { arena: Arena::new(), head: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The node of that key.
    pub(super) fn get(&self, key: &[u8]) -> Option<NodeRef<'_>> {
        self.at_or_after(key).filter(|node| node.key() == key)
    }

    /// Adds a record to the key's node, which is made if there is none.
    pub(super) fn insert(&self, key: &[u8], new: NewRecord<'_>) {
        let mut places = [Place { before: None, after: None }; MAX_HEIGHT];
        let mut before = None;
        for (level, place) in places.iter_mut().enumerate().rev() {
            *place = self.place(key, level, before);
            before = place.before;
        }
        let mut at_base = before_and_after(&places);
        let mut made: Option<NodeRef<'_>> = None;
        loop {
            if let Some(same) = at_base.after.filter(|after| after.key() == key) {
                same.push(&self.arena, new);
                return;
            }
            let node =
                *made.get_or_insert_with(|| NodeRef::new(&self.arena, key, height_of(key), new));
            if self.link_in(node, 0, at_base) {
                break;
            }
            at_base = self.place(key, 0, at_base.before);
        }
        if let Some(node) = made {
            self.link_above(node, &places);
        }
    }

    fn link_above<'a>(&'a self, node: NodeRef<'a>, places: &[Place<'a>]) {
        for (level, &place) in places.iter().enumerate().take(node.height()).skip(1) {
            let mut place = place;
            while !self.link_in(node, level, place) {
                place = self.place(node.key(), level, place.before);
            }
        }
    }

    /// Links a node between two neighbours; `false` if they no longer are.
    fn link_in<'a>(&'a self, node: NodeRef<'a>, level: usize, place: Place<'a>) -> bool {
        let after = place.after.map_or(ptr::null_mut(), NodeRef::as_ptr);
        let (Some(own), Some(link)) = (node.link(level), self.link(place.before, level)) else {
            return true;
        };
        // Published by the exchange below, which is on what readers come through.
        own.store(after, Ordering::Relaxed);
        link.compare_exchange(after, node.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Where `key` belongs on `level`, at or after `from`, which is before it.
    fn place<'a>(&'a self, key: &[u8], level: usize, from: Option<NodeRef<'a>>) -> Place<'a> {
        let mut before = from;
        loop {
            let after = self.following(before, level);
            match after {
                Some(node) if node.key() < key => before = after,
                _ => return Place { before, after },
            }
        }
    }

    fn link<'a>(&'a self, node: Option<NodeRef<'a>>, level: usize) -> Option<&'a Link> {
        match node {
            Some(node) => node.link(level),
            None => self.head.get(level),
        }
    }

    fn following<'a>(&'a self, node: Option<NodeRef<'a>>, level: usize) -> Option<NodeRef<'a>> {
        let next = self.link(node, level)?.load(Ordering::Acquire);
        // SAFETY: links hold null or nodes of `self.arena`, stored with `Release` by `link_in`.
        unsafe { NodeRef::from_link(next) }
    }

    fn place_at_base(&self, key: &[u8]) -> Place<'_> {
        let mut place = Place { before: None, after: None };
        for level in (0..MAX_HEIGHT).rev() {
            place = self.place(key, level, place.before);
        }
        place
    }

    pub(super) fn first(&self) -> Option<NodeRef<'_>> {
        self.following(None, 0)
    }

    pub(super) fn last(&self) -> Option<NodeRef<'_>> {
        let mut last = None;
        for level in (0..MAX_HEIGHT).rev() {
            while let Some(next) = self.following(last, level) {
                last = Some(next);
            }
        }
        last
    }

    pub(super) fn next<'a>(&'a self, node: NodeRef<'a>) -> Option<NodeRef<'a>> {
        self.following(Some(node), 0)
    }

    /// The first node with a key at or after `key`.
    pub(super) fn at_or_after(&self, key: &[u8]) -> Option<NodeRef<'_>> {
        self.place_at_base(key).after
    }

    /// The last node with a key before `key`.
    pub(super) fn before(&self, key: &[u8]) -> Option<NodeRef<'_>> {
        self.place_at_base(key).before
    }
}

fn before_and_after<'a>(places: &[Place<'a>; MAX_HEIGHT]) -> Place<'a> {
    places.first().copied().unwrap_or(Place { before: None, after: None })
}

/// The height of a key's node: from its hash, so that it needs no state and tests repeat.
fn height_of(key: &[u8]) -> usize {
    (1 + key::hash(key).trailing_zeros() as usize / 2).min(MAX_HEIGHT)
}
