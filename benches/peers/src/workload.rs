//! The data that every engine is given: keys, values and choices among them, from one seed.
//!
//! Entities are numbered in key order. Partitions have zipfian weight, the heavy ones scattered
//! among the light, so a uniform choice of an entity is already a skewed choice of a partition.
//! Everything is a function of the seed and the number of entities; no engine sees other data.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// Exponent of the partitions' weights and of the popularity of entities: YCSB's.
const SKEW: f64 = 0.99;
/// Entities of a partition, on average.
const MEAN_PARTITION: u64 = 100;
/// One entity in this many is large.
const LARGE_ONE_IN: u64 = 500;
/// Bytes of an ordinary value; with its keys an entity has about 200.
const VALUE_BYTES: std::ops::Range<usize> = 100..240;
const LARGE_VALUE_BYTES: std::ops::Range<usize> = 4 << 10..32 << 10;
/// Bytes of text that values are cut from: more than any compressor's window over a block, and few
/// enough that to make a value, which is within the time of a work, does not wait for memory.
const POOL_BYTES: usize = 512 << 10;
/// A prime above the number of entities, far from round: multiplication by it permutes them.
const SCATTER: u128 = 2_654_435_761;

/// Entities from one that the guide to the partitions names to the next.
const GUIDE: u64 = 64;

/// Bytes at the front of each value that hold its version.
pub const VERSION_BYTES: usize = 8;

pub type Rng = SmallRng;

/// Partition and row key of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub partition: Vec<u8>,
    pub row: Vec<u8>,
}

impl Key {
    pub fn len(&self) -> usize {
        self.partition.len() + self.row.len()
    }
}

/// An entity with its value, as it is written.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub key: Key,
    pub value: Vec<u8>,
}

impl Row {
    pub fn len(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// All entities that a database is loaded with.
pub struct Dataset {
    /// Number of the first entity of each partition, in key order, and their total.
    starts: Vec<u64>,
    /// A partition of every [`GUIDE`]-th entity: where to begin to look for that of another.
    guide: Vec<u32>,
    heaviest: usize,
    popularity: Zipf<f64>,
    pool: Vec<u8>,
    seed: u64,
}

impl Dataset {
    pub fn new(entities: u64, seed: u64) -> Self {
        let partitions = (entities / MEAN_PARTITION).max(1);
        let weights: Vec<f64> =
            (0..partitions).map(|p| (scatter(p, partitions) as f64 + 1.0).powf(-SKEW)).collect();
        let total: f64 = weights.iter().sum();
        let mut starts = vec![0];
        let mut seen = 0.0;
        for weight in &weights {
            seen += weight;
            starts.push(((seen / total) * entities as f64).round() as u64);
        }
        let heaviest = (0..weights.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
        let popularity = Zipf::new(entities.max(1) as f64, SKEW).expect("a valid distribution");
        let guide = (0..entities)
            .step_by(GUIDE as usize)
            .map(|entity| starts.partition_point(|start| *start <= entity) as u32 - 1)
            .collect();
        let heaviest = heaviest.unwrap_or(0);
        Self { starts, guide, heaviest, popularity, pool: text(seed, POOL_BYTES), seed }
    }

    pub fn entities(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// A generator of a thread's own.
    pub fn rng(&self, thread: u64) -> Rng {
        Rng::seed_from_u64(self.seed ^ (thread + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The numbers of all entities in random order.
    pub fn shuffled(&self) -> Vec<u64> {
        let mut order: Vec<u64> = (0..self.entities()).collect();
        order.shuffle(&mut self.rng(u64::MAX - 1));
        order
    }

    /// The partition that has the entity with this number.
    fn partition(&self, entity: u64) -> usize {
        let mut partition = self.guide[(entity / GUIDE) as usize] as usize;
        while self.starts[partition + 1] <= entity {
            partition += 1;
        }
        partition
    }

    /// Makes `key` that of the entity with this number; keys are in the order of the numbers.
    pub fn key(&self, entity: u64, key: &mut Key) {
        self.slot(entity, 0, key);
    }

    /// Makes it one right after the entity's, which no entity has until it is inserted.
    pub fn absent(&self, entity: u64, key: &mut Key) {
        self.slot(entity, 1, key);
    }

    fn slot(&self, entity: u64, odd: u64, key: &mut Key) {
        let partition = self.partition(entity);
        partition_key(partition, &mut key.partition);
        row_key((entity - self.starts[partition]) * 2 + odd, &mut key.row);
    }

    /// The partition with the most entities: its key, its first entity and their number.
    pub fn heaviest(&self) -> (Vec<u8>, u64, u64) {
        let first = self.starts[self.heaviest];
        let mut key = Vec::new();
        partition_key(self.heaviest, &mut key);
        (key, first, self.starts[self.heaviest + 1] - first)
    }

    /// Any entity, all alike: heavy partitions are chosen by their weight.
    pub fn uniform(&self, rng: &mut Rng) -> u64 {
        rng.random_range(0..self.entities())
    }

    /// An entity by its popularity: few are asked for most of the time, wherever they lie.
    pub fn popular(&self, rng: &mut Rng) -> u64 {
        let rank = self.popularity.sample(rng) as u64 - 1;
        scatter(rank.min(self.entities() - 1), self.entities())
    }

    /// A different entity for each number below their count, in no order.
    pub fn scattered(&self, number: u64) -> u64 {
        scatter(number % self.entities(), self.entities())
    }

    /// Up to 100 entities of one partition, without gap: what a transaction of a group writes.
    pub fn group(&self, rng: &mut Rng) -> std::ops::Range<u64> {
        let first = self.uniform(rng);
        let partition = self.partition(first);
        let end = self.starts[partition + 1];
        let start = self.starts[partition].max(first.min(end.saturating_sub(100)));
        start..end.min(start + 100)
    }

    /// A new value in `value`: its version, then text of which about half is compressible.
    pub fn value(&self, rng: &mut Rng, version: u64, value: &mut Vec<u8>) {
        let large = rng.random_range(0..LARGE_ONE_IN) == 0;
        let bytes =
            if large { rng.random_range(LARGE_VALUE_BYTES) } else { rng.random_range(VALUE_BYTES) };
        let text = bytes - VERSION_BYTES;
        let from = rng.random_range(0..self.pool.len() - text);
        value.clear();
        value.extend_from_slice(&version.to_le_bytes());
        value.extend_from_slice(&self.pool[from..from + text]);
    }

    /// Text of which no part is like another, for values larger than those of entities.
    pub fn text(&self, bytes: usize) -> Vec<u8> {
        text(self.seed, bytes)
    }

    /// Makes `row` the entity as it is loaded, the same in every run.
    pub fn row(&self, entity: u64, row: &mut Row) {
        let mut rng = Rng::seed_from_u64(self.seed ^ entity.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        self.value(&mut rng, entity, &mut row.value);
        self.key(entity, &mut row.key);
    }
}

/// The key of the partition with this number.
pub fn partition_key(number: usize, key: &mut Vec<u8>) {
    numbered::<8>(b"customer-", number as u64, key);
}

/// The key of a partition's row with this number.
pub fn row_key(number: u64, key: &mut Vec<u8>) {
    numbered::<10>(b"order-", number, key);
}

/// A name and a number of so many digits. Nothing is allocated for it once the key was used: what
/// keys cost is within the time that works are measured for.
fn numbered<const DIGITS: usize>(name: &[u8], mut number: u64, key: &mut Vec<u8>) {
    const { assert!(DIGITS.is_multiple_of(2)) };
    let mut digits = [0; DIGITS];
    for pair in digits.rchunks_exact_mut(2) {
        let two = (number % 100) as u8;
        pair.copy_from_slice(&[b'0' + two / 10, b'0' + two % 10]);
        number /= 100;
    }
    key.clear();
    key.extend_from_slice(name);
    key.extend_from_slice(&digits);
}

/// A permutation of the numbers below `count`.
fn scatter(number: u64, count: u64) -> u64 {
    (u128::from(number) * SCATTER % u128::from(count)) as u64
}

/// Property names and words, with random digits between them, as entities have.
fn text(seed: u64, bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "Name",
        "Address",
        "Status",
        "delivered",
        "Quantity",
        "Price",
        "Timestamp",
        "Warehouse",
        "pending",
        "Reference",
        "Customer",
        "Comment",
    ];
    let mut rng = Rng::seed_from_u64(seed);
    let mut text = String::with_capacity(bytes + 32);
    while text.len() < bytes {
        text.push_str(WORDS[rng.random_range(0..WORDS.len())]);
        text.push_str(&format!(":{:08x};", rng.random::<u32>()));
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const ENTITIES: u64 = 20_000;

    impl Dataset {
        fn key_of(&self, entity: u64) -> Key {
            let mut key = Key::default();
            self.key(entity, &mut key);
            key
        }

        fn row_of(&self, entity: u64) -> Row {
            let mut row = Row::default();
            self.row(entity, &mut row);
            row
        }
    }

    #[test]
    fn one_seed_gives_one_dataset_and_another_seed_another() {
        let rows = |seed| {
            let data = Dataset::new(ENTITIES, seed);
            (0..100).map(|n| data.row_of(n * 7).value).collect::<Vec<_>>()
        };
        assert_eq!(rows(1), rows(1));
        assert_ne!(rows(1), rows(2));
        let data = Dataset::new(ENTITIES, 1);
        let mut threads = [data.rng(0), data.rng(1), data.rng(0)];
        let drawn: Vec<u64> = threads.iter_mut().map(|rng| data.popular(rng)).collect();
        assert_eq!(drawn[0], drawn[2]);
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn keys_are_distinct_and_in_the_order_of_the_numbers() {
        let data = Dataset::new(ENTITIES, 1);
        assert_eq!(data.entities(), ENTITIES);
        let keys: Vec<Key> = (0..ENTITIES).map(|n| data.key_of(n)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(keys[0].partition, b"customer-00000000");
        assert_eq!(keys[1].row, b"order-0000000002");
        let absent = |entity| {
            let mut key = Key::default();
            data.absent(entity, &mut key);
            key
        };
        let absent: BTreeSet<Key> = (0..ENTITIES).map(absent).collect();
        assert_eq!(absent.len(), keys.len());
        assert!(keys.iter().all(|key| !absent.contains(key)));
    }

    #[test]
    fn partitions_have_zipfian_weight() {
        let data = Dataset::new(ENTITIES, 1);
        let mut sizes: Vec<u64> = data.starts.windows(2).map(|w| w[1] - w[0]).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let (key, first, size) = data.heaviest();
        assert_eq!((size, data.key_of(first).partition), (sizes[0], key));
        // The weight of rank r is (r + 1)^-0.99 of the first's.
        for rank in [1, 3, 9, 30] {
            let expected = sizes[0] as f64 / f64::from(rank as u32 + 1).powf(SKEW);
            let ratio = sizes[rank] as f64 / expected;
            assert!((0.95..1.05).contains(&ratio), "rank {rank} is {ratio} of what it should be");
        }
    }

    #[test]
    fn popular_entities_are_few_and_scattered() {
        let data = Dataset::new(ENTITIES, 1);
        let mut rng = data.rng(0);
        let mut drawn: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..100_000 {
            *drawn.entry(data.popular(&mut rng)).or_default() += 1;
        }
        let mut counts: Vec<u64> = drawn.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let harmonic: f64 = (1..=ENTITIES).map(|rank| (rank as f64).powf(-SKEW)).sum();
        let first = counts[0] as f64 / 100_000.0 * harmonic;
        assert!((0.9..1.1).contains(&first), "the first is {first} of its share");
        let hottest: Vec<u64> = drawn.iter().filter(|d| *d.1 > 500).map(|d| *d.0).collect();
        assert!(hottest.windows(2).any(|pair| pair[1] - pair[0] > 100));
    }

    #[test]
    fn permutations_and_groups_stay_within_the_data() {
        let data = Dataset::new(ENTITIES, 1);
        let scattered: BTreeSet<u64> = (0..ENTITIES).map(|n| data.scattered(n)).collect();
        assert_eq!(scattered.len() as u64, ENTITIES);
        let shuffled: BTreeSet<u64> = data.shuffled().into_iter().collect();
        assert_eq!(shuffled, scattered);
        let mut rng = data.rng(0);
        for _ in 0..1_000 {
            let group = data.group(&mut rng);
            assert!((1..=100).contains(&(group.end - group.start)));
            assert_eq!(data.key_of(group.start).partition, data.key_of(group.end - 1).partition);
        }
    }

    #[test]
    fn entities_have_about_200_bytes_and_some_are_large() {
        let data = Dataset::new(ENTITIES, 1);
        let sizes: Vec<usize> = (0..ENTITIES).map(|n| data.row_of(n).len()).collect();
        let large = sizes.iter().filter(|size| **size > 1_000).count();
        assert!((20..70).contains(&large), "{large} large entities");
        let ordinary: Vec<usize> = sizes.into_iter().filter(|size| *size < 1_000).collect();
        let mean = ordinary.iter().sum::<usize>() / ordinary.len();
        assert!((190..215).contains(&mean), "{mean} bytes on average");
    }
}
