//! [`Groups`]: entities gathered by partition, to be written up to a hundred or a few MiB at once.
//!
//! Invariants: no more than a bounded number of entities and bytes is held; of the entities that are
//! held, or were handed out since the last settling, no two have the same keys, so groups can be
//! written in any order and at the same time.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use tablestone::Entity;

use crate::cli::input::Line;

/// Entities of a transaction, as the service has it.
const GROUP: usize = 100;
/// Bytes of entities that make a group complete, as the service counts them: no more than a few
/// transactions, as each connection has one group and another waits.
const GROUP_BYTES: usize = 4 << 20;
/// Most entities held, and most bytes as the service counts them.
const MAX_HELD: usize = 50_000;
const MAX_HELD_BYTES: usize = 64 << 20;
/// Keys that are known to be different: 16 MiB of them at most.
const MAX_KNOWN: usize = 1 << 20;

/// Entities of one partition.
pub(super) type Group = Vec<Line>;

/// A group that may become larger.
#[derive(Default)]
struct Growing {
    group: Group,
    bytes: usize,
}

/// Entities by partition.
#[derive(Default)]
pub(super) struct Groups {
    by_partition: HashMap<Box<str>, Growing>,
    held: usize,
    bytes: usize,
    /// Hashes of keys, by the map's own hasher.
    known: HashSet<u64>,
}

impl Groups {
    /// Whether all that came before must be written before this entity: it may have the keys of one
    /// of them.
    pub(super) fn must_settle(&self, entity: &Entity) -> bool {
        self.known.len() >= MAX_KNOWN || self.known.contains(&self.hash(entity))
    }

    /// All that came before is written.
    pub(super) fn settled(&mut self) {
        self.known.clear();
    }

    /// Adds an entity; gives its group if that is complete.
    pub(super) fn add(&mut self, line: Line) -> Option<Group> {
        self.known.insert(self.hash(&line.entity));
        let size = line.entity.size();
        self.held += 1;
        self.bytes += size;
        let partition_key = line.entity.partition_key();
        if !self.by_partition.contains_key(partition_key) {
            self.by_partition.insert(partition_key.into(), Growing::default());
        }
        let growing = self.by_partition.get_mut(partition_key)?;
        if growing.group.len() + 1 < GROUP && growing.bytes + size < GROUP_BYTES {
            growing.bytes += size;
            growing.group.push(line);
            return None;
        }
        let Growing { group: mut full, bytes } = self.by_partition.remove(partition_key)?;
        full.push(line);
        self.held -= full.len();
        self.bytes -= bytes + size;
        Some(full)
    }

    /// Whether no more should be held.
    pub(super) fn is_full(&self) -> bool {
        self.held >= MAX_HELD || self.bytes >= MAX_HELD_BYTES
    }

    /// Hands out all groups, in the order of their first lines: of the same input the same one fails.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Group> + use<> {
        (self.held, self.bytes) = (0, 0);
        let groups = self.by_partition.drain().map(|(_, growing)| growing.group);
        let mut groups: Vec<_> = groups.collect();
        groups.sort_unstable_by_key(|group| group.first().map(|line| line.number));
        groups.into_iter()
    }

    fn hash(&self, entity: &Entity) -> u64 {
        self.known.hasher().hash_one((entity.partition_key(), entity.row_key()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(partition_key: &str, number: u64) -> Line {
        Line { number, entity: Entity::new(partition_key, number.to_string()) }
    }

    #[test]
    fn groups_are_of_one_partition_and_at_most_a_hundred() {
        let mut groups = Groups::default();
        for number in 0..99 {
            assert!(groups.add(line("a", number)).is_none());
            assert!(groups.add(line("b", number)).is_none());
        }
        let full = groups.add(line("a", 99)).unwrap();
        assert_eq!(full.len(), 100);
        assert!(full.iter().all(|line| line.entity.partition_key() == "a"));
        assert!(full.is_sorted_by_key(|line| line.number));
        let rest: Vec<_> = groups.drain().collect();
        assert_eq!((rest.len(), rest[0].len()), (1, 99));
        assert_eq!((groups.held, groups.bytes), (0, 0));
        assert_eq!(groups.drain().count(), 0);
    }

    /// An import that stops at an entity that is there stops at the same one again.
    #[test]
    fn groups_are_handed_out_in_order() {
        let mut groups = Groups::default();
        for number in 0..300 {
            groups.add(line(&(number * 7 % 100).to_string(), number));
        }
        let firsts: Vec<_> = groups.drain().map(|group| group[0].number).collect();
        assert_eq!(firsts, (0..100).collect::<Vec<_>>());
    }

    /// Groups that wait for connections take no more than a few transactions each.
    #[test]
    fn groups_of_large_entities_are_smaller() {
        let large = |row: u64| {
            let entity = (0..8).fold(Entity::new("p", row.to_string()), |entity, at| {
                entity.with(format!("Bytes{at}"), vec![0; 60 << 10])
            });
            Line { number: row, entity }
        };
        let size = |group: &Group| group.iter().map(|line| line.entity.size()).sum::<usize>();
        let mut groups = Groups::default();
        let full: Vec<_> = (0..50).filter_map(|row| groups.add(large(row))).collect();
        assert!(full.len() > 3);
        for group in &full {
            assert!((GROUP_BYTES..GROUP_BYTES + (1 << 20)).contains(&size(group)));
        }
        let (held, bytes) = (groups.held, groups.bytes);
        let rest: Vec<_> = groups.drain().collect();
        assert_eq!((rest[0].len(), size(&rest[0])), (held, bytes));
        assert_eq!(full.iter().map(Vec::len).sum::<usize>() + held, 50);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut groups = Groups::default();
        for number in 0..MAX_HELD {
            assert!(!groups.is_full());
            groups.add(line(&number.to_string(), 0));
        }
        assert!(groups.is_full());
        let mut groups = Groups::default();
        let large = Entity::new("p", "r").with("Bytes", vec![0; 64 << 10]);
        let fits = MAX_HELD_BYTES / large.size();
        for number in 0..=fits as u64 {
            assert!(!groups.is_full());
            let entity = Entity::new(number.to_string(), "r").with("Bytes", vec![0; 64 << 10]);
            groups.add(Line { number, entity });
        }
        assert!(groups.is_full());
    }

    #[test]
    fn the_same_keys_wait_for_each_other() {
        let mut groups = Groups::default();
        groups.add(line("a", 1));
        assert!(!groups.must_settle(&line("a", 2).entity));
        assert!(!groups.must_settle(&line("b", 1).entity));
        assert!(!groups.must_settle(&Entity::new("", "a1")));
        assert_eq!(groups.drain().count(), 1);
        assert!(groups.must_settle(&line("a", 1).entity), "it may be under way");
        groups.settled();
        assert!(!groups.must_settle(&line("a", 1).entity));
    }
}
