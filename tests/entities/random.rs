//! Random writes on a model and on a database; random queries, page by page, against the model
//! filtered entity by entity (R-D05, R-D07, R-D09, R-D10, R-E05, R-E07, R-E12).

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use proptest::sample::select;
use tablestone::{
    Continuation, Entity, EntityBatch, EntityQuery, EntityTable, EntityView, Error, Precondition,
    Result, Snapshot, StopReason, Version,
};

use super::naive::{Condition, KEYS, NAMES, condition, key, value};
use super::support::{Depth, TestDb};
use super::{content, entities};

type Model = BTreeMap<(String, String), Entity>;

#[derive(Clone, Copy, Debug)]
enum If {
    Nothing,
    Absent,
    Exists,
    Current,
    Stale,
}

impl If {
    fn precondition(self, stored: Option<&Entity>) -> Precondition {
        let current = stored.and_then(Entity::version).unwrap_or(Version::ZERO);
        match self {
            Self::Nothing => Precondition::None,
            Self::Absent => Precondition::Absent,
            Self::Exists => Precondition::Exists,
            Self::Current => Precondition::Version(current),
            Self::Stale => Precondition::Version(Version::from_ticks(current.ticks() + 1)),
        }
    }

    /// What a database says of it, for the operation at an index.
    fn check(self, index: usize, stored: Option<&Entity>) -> Result<(), Failure> {
        match (self, stored) {
            (Self::Absent, Some(_)) => Err(Failure::Exists(index)),
            (Self::Exists | Self::Current | Self::Stale, None) => Err(Failure::NotFound(index)),
            (Self::Stale, Some(_)) => Err(Failure::Mismatch(index)),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Exists(usize),
    NotFound(usize),
    Mismatch(usize),
    Duplicate(usize),
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::EntityExists { index, .. } => Failure::Exists(*index),
        Error::EntityNotFound { index } => Failure::NotFound(*index),
        Error::VersionMismatch { index, .. } => Failure::Mismatch(*index),
        Error::DuplicateRowKey { index, .. } => Failure::Duplicate(*index),
        other => panic!("{other}"),
    }
}

#[derive(Clone, Debug)]
enum Action {
    Put,
    Merge,
    Delete,
}

#[derive(Clone, Debug)]
struct Operation {
    row_key: &'static str,
    action: Action,
    condition: If,
    properties: Vec<(&'static str, Option<tablestone::Value>)>,
}

#[derive(Clone, Debug)]
enum Step {
    Commit(&'static str, Vec<Operation>),
    Settle(Depth),
    Snapshot,
}

fn operation() -> impl Strategy<Value = Operation> {
    let action =
        prop_oneof![4 => Just(Action::Put), 3 => Just(Action::Merge), 1 => Just(Action::Delete)];
    let condition = prop_oneof![
        6 => Just(If::Nothing),
        4 => select(vec![If::Absent, If::Exists, If::Current, If::Stale]),
    ];
    let property = (select(&NAMES[..]), proptest::option::weighted(0.9, value()));
    let properties = proptest::collection::vec(property, 0..4);
    (key(), action, condition, properties).prop_map(|(row_key, action, condition, properties)| {
        Operation { row_key, action, condition, properties }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let commit = (key(), proptest::collection::vec(operation(), 1..5))
        .prop_map(|(partition_key, operations)| Step::Commit(partition_key, operations));
    let single = (key(), operation()).prop_map(|(pk, operation)| Step::Commit(pk, vec![operation]));
    let settle = select(&Depth::ALL[..]).prop_map(Step::Settle);
    let step = prop_oneof![12 => single, 4 => commit, 1 => settle, 1 => Just(Step::Snapshot)];
    proptest::collection::vec(step, 0..60)
}

impl Operation {
    fn entity(&self, partition_key: &str) -> Entity {
        let properties = self.properties.iter().cloned();
        properties.fold(Entity::new(partition_key, self.row_key), |entity, (name, value)| {
            entity.with(name, value)
        })
    }

    /// As a call of its own or as part of a batch: one of several spellings of the same.
    fn add_to(&self, batch: &mut EntityBatch, partition_key: &str, stored: Option<&Entity>) {
        let (entity, precondition) =
            (self.entity(partition_key), self.condition.precondition(stored));
        match (&self.action, precondition) {
            (Action::Put, Precondition::Absent) => batch.insert(&entity),
            (Action::Put, Precondition::None) => batch.insert_or_replace(&entity),
            (Action::Put, precondition) => batch.put(&entity, precondition),
            (Action::Merge, Precondition::None) => batch.insert_or_merge(&entity),
            (Action::Merge, precondition) => batch.merge(&entity, precondition),
            (Action::Delete, precondition) => batch.delete(self.row_key, precondition),
        };
    }

    fn begin(
        &self,
        table: &EntityTable,
        partition_key: &str,
        stored: Option<&Entity>,
    ) -> tablestone::Commit<Version> {
        let (entity, precondition) =
            (self.entity(partition_key), self.condition.precondition(stored));
        match (&self.action, precondition) {
            (Action::Put, Precondition::Absent) => table.insert(&entity),
            (Action::Put, Precondition::None) => table.insert_or_replace(&entity),
            (Action::Put, precondition) => table.replace(&entity, precondition),
            (Action::Merge, Precondition::None) => table.insert_or_merge(&entity),
            (Action::Merge, precondition) => table.merge(&entity, precondition),
            (Action::Delete, precondition) => {
                table.delete(partition_key, self.row_key, precondition)
            }
        }
    }

    fn apply(&self, model: &mut Model, partition_key: &str) {
        let key = (partition_key.to_owned(), self.row_key.to_owned());
        match self.action {
            Action::Delete => drop(model.remove(&key)),
            Action::Put => drop(model.insert(key, self.entity(partition_key))),
            Action::Merge => {
                let stored = model.entry(key).or_insert_with(|| self.entity(partition_key));
                // Null leaves what is stored (R-D05): the entity does not have it.
                for (name, value) in self.entity(partition_key).properties() {
                    stored.set(name, value.clone());
                }
            }
        }
    }
}

/// Whether the batch may be done, as the model says.
fn check(model: &Model, partition_key: &str, operations: &[Operation]) -> Result<(), Failure> {
    for (index, operation) in operations.iter().enumerate() {
        if operations.iter().take(index).any(|other| other.row_key == operation.row_key) {
            return Err(Failure::Duplicate(index));
        }
        let key = (partition_key.to_owned(), operation.row_key.to_owned());
        operation.condition.check(index, model.get(&key))?;
    }
    Ok(())
}

fn commit(table: &EntityTable, model: &mut Model, partition_key: &str, operations: &[Operation]) {
    let stored =
        |row_key: &str| model.get(&(partition_key.to_owned(), row_key.to_owned())).cloned();
    let begun = match operations {
        [single] => single.begin(table, partition_key, stored(single.row_key).as_ref()),
        several => {
            let mut batch = EntityBatch::new(partition_key);
            for operation in several {
                operation.add_to(&mut batch, partition_key, stored(operation.row_key).as_ref());
            }
            table.commit(batch)
        }
    };
    let outcome = begun.wait();
    let expected = check(model, partition_key, operations);
    assert_eq!(outcome.as_ref().map(drop).map_err(failure), expected, "{operations:?}");
    if outcome.is_ok() {
        for operation in operations {
            operation.apply(model, partition_key);
            // What was stored has the commit's version; the model learns it by reading.
            let key = (partition_key.to_owned(), operation.row_key.to_owned());
            if let Some(entity) = model.get_mut(&key) {
                let read = table.get(partition_key, operation.row_key).unwrap().unwrap();
                assert_eq!(read.version(), outcome.as_ref().ok().copied());
                assert_eq!(content(&read), content(entity));
                *entity = read;
            }
        }
    }
}

#[derive(Clone, Debug)]
struct QuerySpec {
    condition: Condition,
    /// Whether the filter takes the way through its text.
    as_text: bool,
    partitions: Option<(Bound<&'static str>, Bound<&'static str>)>,
    rows: Option<(Bound<&'static str>, Bound<&'static str>)>,
    select: Option<Vec<&'static str>>,
    top: Option<u64>,
    limit: usize,
    examined: Option<u64>,
    stop_at_partition: bool,
    reverse: bool,
    start: Option<(&'static str, &'static str)>,
}

fn bounds() -> impl Strategy<Value = (Bound<&'static str>, Bound<&'static str>)> {
    let bound = || {
        prop_oneof![
            1 => Just(Bound::Unbounded),
            2 => key().prop_map(Bound::Included),
            2 => key().prop_map(Bound::Excluded),
        ]
    };
    (bound(), bound())
}

fn query() -> impl Strategy<Value = QuerySpec> {
    let names = || select([&NAMES[..], &["PartitionKey", "Timestamp", "Absent"]].concat());
    let keys = (
        proptest::option::weighted(0.2, bounds()),
        proptest::option::weighted(0.2, bounds()),
        proptest::option::weighted(0.1, (key(), key())),
    );
    let kept = (
        proptest::option::weighted(0.3, proptest::collection::vec(names(), 0..4)),
        proptest::option::weighted(0.2, 0u64..12),
    );
    let limits = (
        prop_oneof![1usize..6, Just(1000)],
        proptest::option::weighted(0.3, 1u64..20),
        proptest::bool::weighted(0.2),
    );
    (condition(), any::<bool>(), keys, kept, limits, proptest::bool::weighted(0.3)).prop_map(
        |(condition, as_text, (partitions, rows, start), (select, top), limits, reverse)| {
            let (limit, examined, stop_at_partition) = limits;
            QuerySpec {
                condition,
                as_text,
                partitions,
                rows,
                select,
                top,
                limit,
                examined,
                stop_at_partition,
                reverse,
                start,
            }
        },
    )
}

impl QuerySpec {
    fn query(&self, view: &EntityView) -> EntityQuery {
        let filter = self.condition.filter();
        let filter = if self.as_text { filter.to_string().parse().unwrap() } else { filter };
        let mut query = view.query().filter(filter).limit(self.limit);
        if let Some(bounds) = self.partitions {
            query = query.partitions::<&str>(bounds);
        }
        if let Some(bounds) = self.rows {
            query = query.rows::<&str>(bounds);
        }
        if let Some(names) = &self.select {
            query = query.select(names.iter().copied());
        }
        if let Some(top) = self.top {
            query = query.top(top);
        }
        if let Some(examined) = self.examined {
            query = query.examine_at_most(examined);
        }
        if self.stop_at_partition {
            query = query.stop_at_partition_end();
        }
        if self.reverse {
            query = query.reverse();
        }
        match self.start {
            Some((partition_key, row_key)) => {
                query.continue_from(Continuation::new(partition_key, row_key))
            }
            None => query,
        }
    }

    /// What passes, in order, however many are wanted.
    fn passing<'m>(&self, model: &'m Model) -> Vec<&'m Entity> {
        let within = |bounds: &Option<(Bound<&str>, Bound<&str>)>, key: &str| {
            bounds.is_none_or(|(low, high)| {
                let above = match low {
                    Bound::Included(low) => low <= key,
                    Bound::Excluded(low) => low < key,
                    Bound::Unbounded => true,
                };
                above
                    && match high {
                        Bound::Included(high) => key <= high,
                        Bound::Excluded(high) => key < high,
                        Bound::Unbounded => true,
                    }
            })
        };
        let started = |entity: &Entity| {
            let key = (entity.partition_key(), entity.row_key());
            self.start.is_none_or(|start| if self.reverse { key <= start } else { key >= start })
        };
        let mut passing: Vec<&Entity> = model
            .values()
            .filter(|e| within(&self.partitions, e.partition_key()))
            .filter(|e| within(&self.rows, e.row_key()))
            .filter(|e| started(e) && self.condition.holds(e))
            .collect();
        if self.reverse {
            passing.reverse();
        }
        passing
    }

    /// What of an entity is in a page.
    fn selected(&self, entity: &Entity) -> String {
        let Some(names) = &self.select else { return content(entity) };
        let mut selected = Entity::new(entity.partition_key(), entity.row_key());
        for name in names {
            selected.set(*name, entity.get(name).cloned());
        }
        content(&selected)
    }

    fn check(&self, view: &EntityView, model: &Model) {
        let passing = self.passing(model);
        let top = self.top.map_or(usize::MAX, |top| top as usize);
        let wanted = &passing[..passing.len().min(top)];
        let mut got = 0;
        for page in self.query(view).pages() {
            let page = page.unwrap();
            for entity in page.to_entities().unwrap() {
                let Some(expected) = wanted.get(got) else {
                    panic!("{self:?}: {entity:?} is one too many");
                };
                let key = |e: &Entity| (e.partition_key().to_owned(), e.row_key().to_owned());
                assert_eq!(key(&entity), key(expected), "{self:?}");
                assert_eq!(entity.version(), expected.version(), "{self:?}");
                assert_eq!(content(&entity), self.selected(expected), "{self:?}");
                got += 1;
            }
            self.check_stop(&page, got, wanted.len());
        }
        assert_eq!(got, wanted.len(), "{self:?}");
    }

    /// A page has a continuation if there is more, and only then unless its work was bounded.
    fn check_stop(&self, page: &tablestone::EntityPage, got: usize, wanted: usize) {
        let is_last = page.continuation().is_none();
        let reason = page.stop_reason();
        assert_eq!(is_last, matches!(reason, StopReason::End | StopReason::Top), "{self:?}");
        if is_last {
            assert_eq!(got, wanted, "{self:?}");
        } else if !matches!(reason, StopReason::Examined | StopReason::Partition) {
            assert!(got < wanted, "{self:?}: a continuation, but nothing is left: {reason:?}");
        }
        assert!(page.len() <= self.limit);
    }
}

/// Every entity, one by one, as a full scan shows them.
fn check_all(view: &EntityView, model: &Model) {
    let all: Vec<Entity> = view.query().entities().map(Result::unwrap).collect();
    assert_eq!(all.len(), model.len());
    for (entity, ((pk, rk), expected)) in all.iter().zip(model) {
        assert_eq!((entity.partition_key(), entity.row_key()), (&**pk, &**rk));
        assert_eq!((entity.version(), content(entity)), (expected.version(), content(expected)));
    }
    for pk in KEYS {
        let got = view.get_many(pk, &KEYS).unwrap();
        for (rk, got) in KEYS.iter().zip(got) {
            let expected = model.get(&(pk.to_owned(), (*rk).to_owned()));
            assert_eq!(got.as_ref().map(content), expected.map(content));
            let single = view.get(pk, rk).unwrap();
            assert_eq!(single.as_ref().map(content), expected.map(content));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn r_d10_queries_find_what_a_full_scan_would(
        steps in steps(),
        queries in proptest::collection::vec(query(), 24),
        depth in select(&Depth::ALL[..]),
    ) {
        let db = TestDb::new();
        let table = entities(&db);
        let mut model = Model::new();
        let mut snapshot: Option<(Snapshot, Model)> = None;
        for step in &steps {
            match step {
                Step::Commit(partition_key, operations) => {
                    commit(&table, &mut model, partition_key, operations);
                }
                Step::Settle(depth) => depth.settle(&db),
                Step::Snapshot => snapshot = Some((db.snapshot(), model.clone())),
            }
        }
        depth.settle(&db);
        check_all(&table, &model);
        queries.iter().for_each(|query| query.check(&table, &model));
        if let Some((snapshot, then)) = snapshot {
            let view = table.at(&snapshot).unwrap();
            check_all(&view, &then);
            queries.iter().for_each(|query| query.check(&view, &then));
        }
    }
}
