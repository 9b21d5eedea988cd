//! Loading: entity group transactions of up to 100 entities, several of them under way at once.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tablestone::{Batch, Commit, Database, Table, Version};

use crate::input::{self, Entity};
use crate::support::{Input, Outcome, bytes, each, ensure, grouped, rate, say, step, time};

/// The limit of an entity group transaction.
const ENTITIES_IN_A_BATCH: usize = 100;
/// A batch is sent early when its values reach this, well below the limit of 4 MiB.
const BYTES_IN_A_BATCH: usize = 1 << 20;
/// Batches that wait for their sync at once: they share it.
const UNDER_WAY: usize = 16;

/// What the table must hold: values by PartitionKey and RowKey.
pub(crate) struct Loaded {
    pub(crate) partitions: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    pub(crate) entities: u64,
}

impl Loaded {
    /// The partition with the most entities.
    pub(crate) fn largest(&self) -> (&Vec<u8>, &BTreeMap<Vec<u8>, Vec<u8>>) {
        self.partitions.iter().max_by_key(|(_, rows)| rows.len()).expect("the input has entities")
    }

    /// About `count` entities, spread over all.
    pub(crate) fn some(&self, count: u64) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
        let all = self.partitions.iter().flat_map(|(partition_key, rows)| {
            rows.iter().map(move |(row_key, value)| (&**partition_key, &**row_key, &**value))
        });
        all.step_by((self.entities / count).max(1) as usize)
    }

    pub(crate) fn has(&self, partition_key: &[u8], row_key: &[u8]) -> bool {
        self.partitions.get(partition_key).is_some_and(|rows| rows.contains_key(row_key))
    }

    /// Remembers an entity; says whether its key came before.
    fn remember(&mut self, entity: &Entity) -> bool {
        let rows = self.partitions.entry(entity.partition_key.clone()).or_default();
        let repeated = rows.insert(entity.row_key.clone(), entity.value.clone()).is_some();
        self.entities += u64::from(!repeated);
        repeated
    }
}

/// Loads all lines of the input. Where a key repeats, the last line wins.
pub(crate) fn load(database: &Database, table: &Table, mut input: Input) -> Outcome<Loaded> {
    let began = step(format!("Load {} under sync durability", input.path()));
    let before = database.stats();
    let mut loaded = Loaded { partitions: BTreeMap::new(), entities: 0 };
    let mut writer = Writer::new(table);
    let mut repeated = 0;
    while let Some(entity) = input.next(input::parse)? {
        if loaded.remember(&entity) {
            repeated += 1;
            // A batch takes each RowKey once: the earlier line goes first, in a batch before.
            writer.send(&entity.partition_key)?;
        }
        writer.push(entity)?;
    }
    writer.finish()?;
    let took = began.elapsed();
    ensure(loaded.entities > 0, || format!("{} has no lines", input.path()))?;
    input.finish();
    say(format!(
        "{} entities in {} partitions, {} of values; {}",
        grouped(loaded.entities),
        grouped(loaded.partitions.len() as u64),
        bytes(writer.bytes),
        match repeated {
            0 => "no key repeats".to_owned(),
            n => format!("{n} keys repeat, their last line was kept"),
        }
    ));
    say(format!(
        "{} batches of up to {ENTITIES_IN_A_BATCH}, {UNDER_WAY} under way at once, in {}: {} \
         entities a second",
        grouped(writer.batches),
        time(took),
        rate(loaded.entities, took),
    ));
    let syncs = database.stats().syncs - before.syncs;
    say(format!("{} syncs of the log, {} each", grouped(syncs), each(took, syncs)));
    Ok(loaded)
}

/// Collects entities of each partition into batches and keeps some batches under way.
struct Writer<'a> {
    table: &'a Table,
    open: HashMap<Vec<u8>, (Batch, usize)>,
    under_way: VecDeque<Commit<Version>>,
    batches: u64,
    bytes: u64,
}

impl<'a> Writer<'a> {
    fn new(table: &'a Table) -> Self {
        let (open, under_way) = (HashMap::new(), VecDeque::new());
        Self { table, open, under_way, batches: 0, bytes: 0 }
    }

    fn push(&mut self, entity: Entity) -> Outcome {
        let Entity { partition_key, row_key, value } = entity;
        self.bytes += value.len() as u64;
        let (batch, bytes) = self
            .open
            .entry(partition_key.clone())
            .or_insert_with(|| (Batch::new(&partition_key), 0));
        *bytes += value.len();
        batch.upsert(row_key, value);
        if batch.len() == ENTITIES_IN_A_BATCH || *bytes >= BYTES_IN_A_BATCH {
            self.send(&partition_key)?;
        }
        Ok(())
    }

    /// Commits what is collected for a partition; waits for the oldest if many are under way.
    fn send(&mut self, partition_key: &[u8]) -> Outcome {
        let Some((batch, _)) = self.open.remove(partition_key) else {
            return Ok(());
        };
        if self.under_way.len() == UNDER_WAY
            && let Some(oldest) = self.under_way.pop_front()
        {
            oldest.wait()?;
        }
        let mut commit = self.table.commit(batch);
        // Of lines with one key the last is to win, also where the engine holds writes back.
        commit.order()?;
        self.under_way.push_back(commit);
        self.batches += 1;
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        let open: Vec<_> = self.open.keys().cloned().collect();
        for partition_key in open {
            self.send(&partition_key)?;
        }
        for commit in self.under_way.drain(..) {
            commit.wait()?;
        }
        Ok(())
    }
}
