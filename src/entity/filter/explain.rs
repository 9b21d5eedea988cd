//! [`Explain`]: the plan of a query, for people and for the scan.

use std::fmt;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use super::boxes::KeyBoxes;
use super::expr::Filter;
use super::intervals::Interval;
use crate::key::{ALL_KEYS, KeyBounds, single};

/// Ranges that are written out.
const SHOWN_RANGES: usize = 3;

/// How a query finds its entities: which keys it reads, and what it then asks of each entity.
///
/// `Display` says it in words; see [`Filter::explain`].
///
/// ```
/// use tablestone::{Filter, Plan};
///
/// let filter: Filter = "PartitionKey eq 'Sales' and RowKey ge '5' and Age gt 30".parse()?;
/// let explain = filter.explain();
/// assert_eq!(explain.plan(), Plan::RowRange);
/// assert_eq!(explain.residual().unwrap().to_string(), "Age gt 30");
/// # Ok::<(), tablestone::FilterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explain {
    /// In key order.
    ranges: Vec<KeyRange>,
    residual: Option<Filter>,
}

/// The entities of a range of partitions whose RowKeys are in one of a list of ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) partition: KeyBounds,
    /// Ascending and disjoint, one at least. Ranges that follow each other share it if theirs is the same:
    /// ten thousand PartitionKeys times as many RowKeys would not be held in memory.
    pub(crate) rows: Arc<[KeyBounds]>,
}

impl KeyRange {
    fn has_all_rows(&self) -> bool {
        self.rows.first().is_some_and(is_everything)
    }
}

fn is_everything(bounds: &KeyBounds) -> bool {
    *bounds == ALL_KEYS
}

/// How a query finds its entities, from the cheapest to the dearest.
///
/// See [`Explain`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plan {
    /// No key can match: nothing is read.
    Nothing,
    /// One entity is looked up.
    PointRead,
    /// Entities are looked up, each by its keys.
    MultiGet {
        /// How many.
        keys: usize,
    },
    /// A range of RowKeys in one partition is scanned.
    RowRange,
    /// One partition is scanned.
    Partition,
    /// A range of partitions is scanned.
    PartitionRange,
    /// Ranges of RowKeys are looked for in every partition, or in each of a range of partitions.
    SkipScan,
    /// Several ranges of keys are scanned, one after the other in key order.
    Ranges {
        /// How many.
        ranges: usize,
    },
    /// All entities are scanned.
    TableScan,
}

impl Explain {
    pub(super) fn new(boxes: &KeyBoxes<'_>, residual: Option<Filter>) -> Self {
        let mut ranges: Vec<KeyRange> = Vec::with_capacity(boxes.iter().len());
        let mut before = None;
        for boxed in boxes.iter() {
            let rows = match ranges.last() {
                Some(last) if before == Some(&boxed.rows) => Arc::clone(&last.rows),
                _ => boxed.rows.iter().map(Interval::bounds).collect(),
            };
            before = Some(&boxed.rows);
            ranges.push(KeyRange { partition: boxed.partitions.bounds(), rows });
        }
        let residual = residual.filter(|_| !ranges.is_empty());
        Self { ranges, residual }
    }

    /// Which way it is.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let Some(first) = self.ranges.first() else {
            return Plan::Nothing;
        };
        let ranges = self.ranges.iter().map(|range| range.rows.len()).sum();
        if self.are_points() {
            return if ranges == 1 { Plan::PointRead } else { Plan::MultiGet { keys: ranges } };
        }
        if self.ranges.len() > 1 {
            return Plan::Ranges { ranges };
        }
        match (single(&first.partition), first.has_all_rows()) {
            (Some(_), true) => Plan::Partition,
            (Some(_), false) if ranges == 1 => Plan::RowRange,
            (Some(_), false) => Plan::Ranges { ranges },
            (None, false) => Plan::SkipScan,
            (None, true) if is_everything(&first.partition) => Plan::TableScan,
            (None, true) => Plan::PartitionRange,
        }
    }

    /// Whether it is a list of single keys.
    fn are_points(&self) -> bool {
        let is_point = |bounds: &KeyBounds| single(bounds).is_some();
        self.ranges
            .iter()
            .all(|range| is_point(&range.partition) && range.rows.iter().all(is_point))
    }

    /// What is asked of each entity that is read; `None` if its key says that it matches.
    #[must_use]
    pub fn residual(&self) -> Option<&Filter> {
        self.residual.as_ref()
    }

    /// Which keys are read.
    #[cfg(any(test, fuzzing))]
    pub(super) fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    pub(crate) fn into_parts(self) -> (Vec<KeyRange>, Option<Filter>) {
        (self.ranges, self.residual)
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.plan(), self.ranges.first()) {
            (Plan::TableScan, _) => f.write_str("table scan")?,
            (plan, Some(first)) => self.write_plan(f, plan, first)?,
            (_, None) => f.write_str("nothing: no key can match")?,
        }
        match &self.residual {
            Some(residual) => write!(f, "; then filter: {residual}"),
            None => Ok(()),
        }
    }
}

impl Explain {
    fn write_plan(&self, f: &mut fmt::Formatter<'_>, plan: Plan, first: &KeyRange) -> fmt::Result {
        let (partition, rows) = (&first.partition, Rows(&first.rows));
        let one_partition = single(partition);
        let name = Key(one_partition.unwrap_or_default());
        match plan {
            Plan::PointRead => write!(f, "point read: PartitionKey = {name}, {rows}"),
            Plan::MultiGet { keys } => match self.ranges.len() {
                1 => write!(f, "multi-get of {keys} keys in partition {name}: {rows}"),
                partitions => write!(f, "multi-get of {keys} keys in {partitions} partitions"),
            },
            Plan::RowRange => write!(f, "row range in partition {name}: {rows}"),
            Plan::Partition => write!(f, "partition {name}"),
            Plan::PartitionRange => {
                write!(f, "partition range: PartitionKey {}", Range(partition))
            }
            Plan::SkipScan if is_everything(partition) => {
                write!(f, "skip-scan of all partitions: {rows}")
            }
            Plan::SkipScan => {
                write!(f, "skip-scan of partitions: PartitionKey {}, {rows}", Range(partition))
            }
            Plan::Ranges { ranges } if one_partition.is_some() && self.ranges.len() == 1 => {
                write!(f, "{ranges} row ranges in partition {name}: {rows}")
            }
            Plan::Ranges { ranges } => {
                write!(f, "{ranges} ranges: ")?;
                self.write_ranges(f)
            }
            Plan::Nothing | Plan::TableScan => Ok(()),
        }
    }

    fn write_ranges(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.ranges.iter().take(SHOWN_RANGES).enumerate() {
            let separator = if i == 0 { "" } else { " or " };
            write!(f, "{separator}(PartitionKey {}", Range(&range.partition))?;
            if !range.has_all_rows() {
                write!(f, ", {}", Rows(&range.rows))?;
            }
            f.write_str(")")?;
        }
        more(f, self.ranges.len())
    }
}

fn more(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.saturating_sub(SHOWN_RANGES) {
        0 => Ok(()),
        more => write!(f, " or {more} more"),
    }
}

/// A key as text.
struct Key<'a>(&'a [u8]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}

/// Bounds as what keys within are compared with.
struct Range<'a>(&'a KeyBounds);

impl fmt::Display for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(point) = single(self.0) {
            return write!(f, "= {}", Key(point));
        }
        let (low, high) = self.0;
        match low {
            Included(key) => write!(f, ">= {}", Key(key))?,
            Excluded(key) => write!(f, "> {}", Key(key))?,
            Unbounded => {}
        }
        let and = if *low == Unbounded || *high == Unbounded { "" } else { " and " };
        match high {
            Included(key) => write!(f, "{and}<= {}", Key(key)),
            Excluded(key) => write!(f, "{and}< {}", Key(key)),
            Unbounded => Ok(()),
        }
    }
}

/// A list of ranges of RowKeys.
struct Rows<'a>(&'a [KeyBounds]);

impl fmt::Display for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowKey ")?;
        for (i, range) in self.0.iter().take(SHOWN_RANGES).enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { " or " }, Range(range))?;
        }
        more(f, self.0.len())
    }
}
