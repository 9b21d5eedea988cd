//! Queries on the model: [`check_query`] holds a database's pages against it.

use std::ops::Bound;

use tablestone::{Continuation, Database, Page, Query, StopReason, TableView, Version};

use super::model::{
    Entity, Key, Model, TableModel, bounds, partition_key, row_key, stored, within,
};

/// A query, in small numbers.
#[derive(Clone, Debug)]
pub struct QuerySpec {
    pub partitions: (Bound<u8>, Bound<u8>),
    pub rows: (Bound<u8>, Bound<u8>),
    pub reverse: bool,
    pub limit: usize,
    pub bytes: usize,
    pub examined: Option<u64>,
    pub stop_at_partition: bool,
    /// Keeps one entity of this many, about.
    pub one_of: Option<u8>,
    pub start: Option<(u8, u8)>,
}

impl QuerySpec {
    /// Everything, in pages of 1,000.
    pub fn all() -> Self {
        Self {
            partitions: (Bound::Unbounded, Bound::Unbounded),
            rows: (Bound::Unbounded, Bound::Unbounded),
            reverse: false,
            limit: 1000,
            bytes: usize::MAX,
            examined: None,
            stop_at_partition: false,
            one_of: None,
            start: None,
        }
    }

    /// The query for the page that begins at a key.
    pub fn query(&self, view: &TableView, start: Option<&Key>) -> Query {
        let mut query = view
            .query()
            .partitions(bounds(&self.partitions, partition_key))
            .rows(bounds(&self.rows, row_key))
            .limit(self.limit)
            .byte_limit(self.bytes);
        if self.reverse {
            query = query.reverse();
        }
        if let Some(examined) = self.examined {
            query = query.examine_at_most(examined);
        }
        if self.stop_at_partition {
            query = query.stop_at_partition_end();
        }
        if let Some(one_of) = self.one_of {
            query = query.filter(move |row| passes(row.value, one_of));
        }
        match start {
            Some((pk, rk)) => query.continue_from(Continuation::new(pk.clone(), rk.clone())),
            None => query,
        }
    }

    /// The first key that it may return.
    pub fn first(&self) -> Option<Key> {
        self.start.map(|(pk, rk)| (partition_key(pk), row_key(rk)))
    }

    /// What it must return from a key on, in order.
    fn expected<'m>(
        &self,
        model: &'m TableModel,
        start: Option<&Key>,
    ) -> Vec<(&'m Key, &'m Entity)> {
        let partitions = bounds(&self.partitions, partition_key);
        let rows = bounds(&self.rows, row_key);
        let mut expected: Vec<_> = model
            .iter()
            .filter(|(key, _)| within(&partitions, &key.0) && within(&rows, &key.1))
            .filter(|(key, _)| match start {
                Some(start) if self.reverse => *key <= start,
                Some(start) => *key >= start,
                None => true,
            })
            .filter(|(_, entity)| self.one_of.is_none_or(|n| passes(&entity.value, n)))
            .collect();
        if self.reverse {
            expected.reverse();
        }
        expected
    }
}

fn passes(value: &[u8], one_of: u8) -> bool {
    value.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) % one_of == 0
}

/// A page that was read.
#[derive(Clone, Debug)]
pub struct SeenPage {
    pub rows: Vec<(Key, Entity)>,
    pub next: Option<Key>,
    pub reason: StopReason,
    pub examined: u64,
    pub version: Version,
}

impl SeenPage {
    pub fn of(page: &Page) -> Self {
        let key = |next: &Continuation| (next.partition_key().to_vec(), next.row_key().to_vec());
        Self {
            rows: page.iter().map(stored).collect(),
            next: page.continuation().map(key),
            reason: page.stop_reason(),
            examined: page.examined(),
            version: page.version(),
        }
    }
}

/// Reads a query page by page and holds every page against the model (R-E11 to R-E15).
pub fn check_query(view: &TableView, model: &TableModel, spec: &QuerySpec) {
    let mut start = spec.first();
    loop {
        let page = SeenPage::of(&spec.query(view, start.as_ref()).page().unwrap());
        check_page(spec, model, start.as_ref(), &page);
        match page.next {
            Some(next) => start = Some(next),
            None => return,
        }
    }
}

/// Holds the page that begins at a key against the model.
pub fn check_page(spec: &QuerySpec, model: &TableModel, start: Option<&Key>, page: &SeenPage) {
    let expected = spec.expected(model, start);
    assert!(page.rows.len() <= expected.len(), "{spec:?}: more rows than there are: {page:?}");
    let (now, rest) = expected.split_at(page.rows.len());
    for ((found, entity), (key, expected)) in page.rows.iter().zip(now) {
        assert_eq!(&found, key, "{spec:?}");
        assert_eq!(entity.value, expected.value, "{spec:?} at {key:?}");
        if expected.version != Version::ZERO {
            assert_eq!(entity.version, expected.version, "{spec:?} at {key:?}");
        }
    }
    let Some(next) = &page.next else {
        assert_eq!(page.reason, StopReason::End);
        assert!(rest.is_empty(), "{spec:?}: ends {} rows early", rest.len());
        return;
    };
    check_stop(spec, page.reason, page.examined, now, rest);
    check_progress(spec, start, next, now);
    if let Some((first, _)) = rest.first() {
        let is_left_out = if spec.reverse { next < first } else { next > first };
        assert!(!is_left_out, "{spec:?}: goes on at {next:?} and leaves {first:?} out");
    }
}

fn size((key, entity): &(&Key, &Entity)) -> usize {
    key.0.len() + key.1.len() + entity.value.len()
}

/// Whether a page had a reason to stop between `now` and `rest`.
fn check_stop(
    spec: &QuerySpec,
    reason: StopReason,
    examined: u64,
    now: &[(&Key, &Entity)],
    rest: &[(&Key, &Entity)],
) {
    let bytes: usize = now.iter().map(size).sum();
    assert!(now.len() <= spec.limit, "{spec:?}");
    assert!(bytes <= spec.bytes || now.len() == 1, "{spec:?}: {bytes} bytes");
    // Where another partition begins, the row there need not match the filter.
    let may_be_last = spec.one_of.is_some() && reason == StopReason::Partition;
    if reason != StopReason::Examined && !may_be_last {
        assert!(!rest.is_empty(), "{spec:?}: a continuation though nothing is left");
    }
    match reason {
        StopReason::Entities => assert_eq!(now.len(), spec.limit, "{spec:?}"),
        StopReason::Bytes => {
            if let Some(next) = rest.first() {
                assert!(
                    bytes + size(next) > spec.bytes,
                    "{spec:?}: {bytes} and {} fit",
                    size(next)
                );
            }
        }
        StopReason::Examined => assert!(examined >= spec.examined.unwrap(), "{spec:?}"),
        StopReason::Partition => {
            assert!(spec.stop_at_partition);
            assert!(now.iter().all(|row| row.0.0 == now[0].0.0), "{spec:?}");
        }
        other => panic!("{spec:?}: stopped for {other:?}"),
    }
}

fn check_progress(spec: &QuerySpec, start: Option<&Key>, next: &Key, now: &[(&Key, &Entity)]) {
    let is_after = |key: &Key| if spec.reverse { next < key } else { next > key };
    if let Some((last, _)) = now.last() {
        assert!(is_after(last), "{spec:?}: {next:?} is not beyond {last:?}");
    }
    if let Some(start) = start {
        assert!(is_after(start), "{spec:?}: from {start:?} to {next:?} is no progress");
    }
}

/// Holds the whole database against the model.
pub fn check_all(database: &Database, model: &Model) {
    let names: Vec<String> = model.tables.keys().cloned().collect();
    assert_eq!(database.tables(None, usize::MAX).unwrap().names, names);
    for (name, table) in &model.tables {
        check_query(&database.table(name).unwrap(), table, &QuerySpec::all());
    }
}
