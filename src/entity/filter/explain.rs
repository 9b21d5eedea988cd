//! [`Explain`]: the plan of a query, for people and for the scan.

use std::fmt;

use super::boxes::{KeyBox, KeyBoxes};
use super::expr::Filter;
use super::intervals::Interval;

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
    boxes: KeyBoxes,
    residual: Option<Filter>,
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
    pub(super) fn new(boxes: KeyBoxes, residual: Option<Filter>) -> Self {
        let residual = residual.filter(|_| !boxes.is_empty());
        Self { boxes, residual }
    }

    /// Which way it is.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut boxes = self.boxes.iter();
        let Some(first) = boxes.next() else {
            return Plan::Nothing;
        };
        let ranges = self.boxes.iter().map(|boxed| boxed.rows().len()).sum();
        if self.boxes.are_points() {
            return if ranges == 1 { Plan::PointRead } else { Plan::MultiGet { keys: ranges } };
        }
        if boxes.next().is_some() {
            return Plan::Ranges { ranges };
        }
        match (first.single_partition(), first.has_all_rows()) {
            (Some(_), true) => Plan::Partition,
            (Some(_), false) if ranges == 1 => Plan::RowRange,
            (Some(_), false) => Plan::Ranges { ranges },
            (None, false) => Plan::SkipScan,
            (None, true) if self.boxes.is_everything() => Plan::TableScan,
            (None, true) => Plan::PartitionRange,
        }
    }

    /// What is asked of each entity that is read; `None` if its key says that it matches.
    #[must_use]
    pub fn residual(&self) -> Option<&Filter> {
        self.residual.as_ref()
    }

    /// Which keys are read.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn boxes(&self) -> &KeyBoxes {
        &self.boxes
    }

    pub(crate) fn into_parts(self) -> (KeyBoxes, Option<Filter>) {
        (self.boxes, self.residual)
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.plan(), self.boxes.iter().next()) {
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
    fn write_plan(&self, f: &mut fmt::Formatter<'_>, plan: Plan, first: &KeyBox) -> fmt::Result {
        let (partition, rows) = (&first.partitions, Rows(&first.rows));
        let name = Key(&partition.low);
        match plan {
            Plan::PointRead => write!(f, "point read: PartitionKey = {name}, {rows}"),
            Plan::MultiGet { keys } => match self.boxes.iter().len() {
                1 => write!(f, "multi-get of {keys} keys in partition {name}: {rows}"),
                partitions => write!(f, "multi-get of {keys} keys in {partitions} partitions"),
            },
            Plan::RowRange => write!(f, "row range in partition {name}: {rows}"),
            Plan::Partition => write!(f, "partition {name}"),
            Plan::PartitionRange => {
                write!(f, "partition range: PartitionKey {}", Range(partition))
            }
            Plan::SkipScan if partition.is_everything() => {
                write!(f, "skip-scan of all partitions: {rows}")
            }
            Plan::SkipScan => {
                write!(f, "skip-scan of partitions: PartitionKey {}, {rows}", Range(partition))
            }
            Plan::Ranges { ranges }
                if first.single_partition().is_some() && self.boxes.iter().len() == 1 =>
            {
                write!(f, "{ranges} row ranges in partition {name}: {rows}")
            }
            Plan::Ranges { ranges } => {
                write!(f, "{ranges} ranges: ")?;
                self.write_boxes(f)
            }
            Plan::Nothing | Plan::TableScan => Ok(()),
        }
    }

    fn write_boxes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, boxed) in self.boxes.iter().take(SHOWN_RANGES).enumerate() {
            let separator = if i == 0 { "" } else { " or " };
            write!(f, "{separator}(PartitionKey {}", Range(&boxed.partitions))?;
            if !boxed.has_all_rows() {
                write!(f, ", {}", Rows(&boxed.rows))?;
            }
            f.write_str(")")?;
        }
        more(f, self.boxes.iter().len())
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

/// An interval as what its keys are compared with.
struct Range<'a>(&'a Interval);

impl fmt::Display for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        if let Some(point) = self.0.as_point() {
            return write!(f, "= {}", Key(point));
        }
        let (low, high) = self.0.bounds();
        match &low {
            Included(key) => write!(f, ">= {}", Key(key))?,
            Excluded(key) => write!(f, "> {}", Key(key))?,
            Unbounded => {}
        }
        let and = if low == Unbounded || high == Unbounded { "" } else { " and " };
        match &high {
            Included(key) => write!(f, "{and}<= {}", Key(key)),
            Excluded(key) => write!(f, "{and}< {}", Key(key)),
            Unbounded => Ok(()),
        }
    }
}

/// A list of intervals of RowKeys.
struct Rows<'a>(&'a [Interval]);

impl fmt::Display for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowKey ")?;
        for (i, interval) in self.0.iter().take(SHOWN_RANGES).enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { " or " }, Range(interval))?;
        }
        more(f, self.0.len())
    }
}
