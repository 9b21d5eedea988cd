//! [`ScanRequest`]: one page from a list of ranges.
//!
//! Invariant: ranges are gone through in key order under one view, each by a walk or, where it
//! names its entities, by reading these; all fill one page and share its limits. The page may stop
//! before any range it has not begun, at a key that is beyond all that was examined and not beyond
//! anything that was not. So no key is lost and none comes twice, wherever a page ends.

use std::ops::Range;

use super::builder::{Offered, PageBuilder, ScanHooks};
use super::limits::{ScanLimits, Work};
use super::multi::multi_get_unresolved;
use super::page::{PageData, StopReason};
use super::point::get;
use super::range::{Continuation, Direction, ScanRange, Span};
use super::scan::{Scan, ScanContext, Walked};
use super::sources::{Tombstones, sources};
use crate::entry::Kind;
use crate::env::Clock;
use crate::error::Result;
use crate::key::{self, TableId};
use crate::levels::View;
use crate::sst::Lookup;
use crate::version::Version;

/// Points of a partition that are looked up together.
const POINTS_AT_ONCE: usize = 64;
/// Bytes of their values that are held. What is beyond, or in the log, is read once the page comes to it.
const HELD_BYTES: usize = 256 << 10;

/// What a page is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanRequest<'q> {
    pub(crate) table: TableId,
    /// Ascending; no two have a PartitionKey in common.
    pub(crate) ranges: &'q [ScanRange],
    pub(crate) direction: Direction,
    /// Where the page before ended.
    pub(crate) start: Option<&'q Continuation>,
}

/// A page of the entities that are asked for, as they are at `at`.
pub(crate) fn scan(
    view: &View,
    request: ScanRequest<'_>,
    limits: &ScanLimits,
    hooks: ScanHooks<'_>,
    at: Version,
    clock: &dyn Clock,
) -> Result<PageData> {
    let tombstones = Tombstones::of(view);
    let page = PageBuilder::new(*limits, hooks);
    PageScan { view, tombstones: &tombstones, request, at, work: Work::new(limits, clock), page }
        .run()
}

struct PageScan<'a, 'p> {
    view: &'a View,
    tombstones: &'a Tombstones,
    request: ScanRequest<'a>,
    at: Version,
    work: Work<'a>,
    page: PageBuilder<'p>,
}

/// How a range is read.
enum Keys<'a> {
    /// By its keys: a PartitionKey, and RowKeys in the page's order.
    Points(&'a [u8], Vec<&'a [u8]>),
    /// By a walk.
    Span(Span),
}

/// Why a page ends before all its ranges have, and where the next one starts.
struct Stop {
    reason: StopReason,
    next: Option<Continuation>,
}

impl<'a> PageScan<'a, '_> {
    fn run(mut self) -> Result<PageData> {
        let stop = match self.request.direction {
            Direction::Forward => self.through(self.ranges_left().iter()),
            Direction::Reverse => self.through(self.ranges_left().iter().rev()),
        }?;
        let Stop { reason, next } = stop.unwrap_or(Stop { reason: StopReason::End, next: None });
        Ok(self.page.finish(reason, next, &self.work))
    }

    /// The ranges that may have keys from the start on.
    fn ranges_left(&self) -> &'a [ScanRange] {
        let ranges = self.request.ranges;
        let Some((pk, _)) = self.request.start else { return ranges };
        let left = match self.request.direction {
            Direction::Forward => ranges.get(ranges.partition_point(|r| r.ends_before(pk))..),
            Direction::Reverse => ranges.get(..ranges.partition_point(|r| !r.begins_after(pk))),
        };
        left.unwrap_or_default()
    }

    fn through(&mut self, ranges: impl Iterator<Item = &'a ScanRange>) -> Result<Option<Stop>> {
        let start = self.request.start;
        let start_key = start.map(|(pk, rk)| key::encode(self.request.table, pk, rk));
        let mut before: Option<(&ScanRange, u64)> = None;
        for range in ranges {
            let Some(keys) = self.keys_left(range, start_key.as_deref()) else { continue };
            if let Some((before, examined)) = before {
                // A range without entities costs a seek all the same.
                if self.work.examined == examined && self.work.left() > 0 {
                    self.work.examined += 1;
                }
                if let Some(reason) = self.work.is_over()
                    && let Some(next) = self.between(before, range)
                {
                    return Ok(Some(Stop { reason, next: Some(next) }));
                }
            }
            before = Some((range, self.work.examined));
            let stop = match keys {
                Keys::Points(pk, row_keys) => self.read_points(pk, &row_keys)?,
                Keys::Span(span) => self.walk(span)?,
            };
            if stop.is_some() {
                return Ok(stop);
            }
        }
        Ok(None)
    }

    /// What is left of a range from the start on.
    fn keys_left(&self, range: &'a ScanRange, start_key: Option<&[u8]>) -> Option<Keys<'a>> {
        let ScanRequest { table, direction, start, .. } = self.request;
        let Some((pk, mut row_keys)) = range.points() else {
            let span = range.span(table)?;
            return match start_key {
                Some(start) => span.from(start, direction),
                None => Some(span),
            }
            .map(Keys::Span);
        };
        if let Some((start_pk, start_rk)) = start
            && *start_pk == pk
        {
            match direction {
                Direction::Forward => row_keys.retain(|rk| *rk >= &**start_rk),
                Direction::Reverse => row_keys.retain(|rk| *rk <= &**start_rk),
            }
        }
        if direction == Direction::Reverse {
            row_keys.reverse();
        }
        (!row_keys.is_empty()).then_some(Keys::Points(pk, row_keys))
    }

    /// A key to go on from that is beyond one range and not beyond the next. There may be none:
    /// then the page does go on, at least to the first key that is stored.
    fn between(&self, before: &ScanRange, next: &ScanRange) -> Option<Continuation> {
        let table = self.request.table;
        let encode = |(pk, rk): &Continuation| key::encode(table, pk, rk);
        match self.request.direction {
            // No PartitionKey may fit between the ends of a range.
            Direction::Forward => Some(next.first_key())
                .filter(|key| next.span(table).is_some_and(|span| encode(key) < span.high)),
            Direction::Reverse => next
                .last_key()
                .filter(|key| before.span(table).is_some_and(|span| encode(key) < span.low)),
        }
    }

    fn walk(&mut self, span: Span) -> Result<Option<Stop>> {
        let context = self.context(&span)?;
        let direction = self.request.direction;
        let walked = Scan::new(context, span, direction, &mut self.work, &mut self.page).run()?;
        Ok(match walked {
            Walked::Through => None,
            Walked::Complete => Some(COMPLETE),
            Walked::Stopped(reason, next) => Some(Stop { reason, next: Some(next) }),
        })
    }

    fn context(&self, span: &Span) -> Result<ScanContext<'a, crate::levels::TableFile>> {
        let shadow = self.tombstones.shadow(&span.low, &span.high, self.at);
        let values = &*self.view.levels.values;
        Ok(ScanContext { sources: sources(self.view, span)?, shadow, values, at: self.at })
    }

    /// Takes entities of one partition into the page by their keys, in the page's order.
    fn read_points(&mut self, pk: &[u8], row_keys: &[&[u8]]) -> Result<Option<Stop>> {
        let mut points = Points::new(self.view, self.request.table, pk, self.at);
        let mut rest = row_keys;
        while !rest.is_empty() {
            let room = self.page.room().saturating_add(1).min(POINTS_AT_ONCE);
            let useful = usize::try_from(self.work.left()).unwrap_or(usize::MAX).clamp(1, room);
            let (now, later) = rest.split_at(useful.min(rest.len()));
            rest = later;
            points.look_up(now)?;
            for (index, row_key) in now.iter().enumerate() {
                let stop =
                    |reason| Some(Stop { reason, next: Some((pk.to_vec(), row_key.to_vec())) });
                if let Some(reason) = self.work.is_over() {
                    return Ok(stop(reason));
                }
                self.work.examined += 1;
                match points.offer(index, row_key, &mut self.page)? {
                    Offered::Taken => {}
                    Offered::Last => return Ok(Some(COMPLETE)),
                    Offered::Refused(reason) => return Ok(stop(reason)),
                }
            }
        }
        Ok(None)
    }
}

const COMPLETE: Stop = Stop { reason: StopReason::Top, next: None };

/// Entities of a partition that are read by their keys, some at a time.
struct Points<'a> {
    view: &'a View,
    at: Version,
    prefix: Vec<u8>,
    held: Vec<Held>,
    values: Vec<u8>,
    key: Vec<u8>,
}

/// What is known of a point that was looked up.
#[derive(Clone)]
enum Held {
    Nothing,
    /// Its version, and where its value is held.
    Value(Version, Range<usize>),
    /// It was not looked up, or its value is in the log, or too large to be held.
    Unread,
}

impl<'a> Points<'a> {
    fn new(view: &'a View, table: TableId, pk: &[u8], at: Version) -> Self {
        let prefix = key::encode_partition(table, pk);
        Self { view, at, prefix, held: Vec::new(), values: Vec::new(), key: Vec::new() }
    }

    /// Looks up several points at once, which is cheaper than one by one (R-E16).
    fn look_up(&mut self, row_keys: &[&[u8]]) -> Result<()> {
        let Self { held, values, .. } = self;
        held.clear();
        values.clear();
        if let [_] = row_keys {
            held.push(Held::Unread);
            return Ok(());
        }
        held.resize(row_keys.len(), Held::Nothing);
        multi_get_unresolved(self.view, &self.prefix, row_keys, self.at, |index, found| {
            let start = values.len();
            let is_held = found.kind == Kind::Put && start + found.value.len() <= HELD_BYTES;
            let looked_up = if is_held {
                values.extend_from_slice(found.value);
                Held::Value(found.version, start..values.len())
            } else {
                Held::Unread
            };
            if let Some(place) = held.get_mut(index) {
                *place = looked_up;
            }
            Ok(())
        })
    }

    /// Offers one of those looked up last to the page, if it exists.
    fn offer(
        &mut self,
        index: usize,
        row_key: &[u8],
        page: &mut PageBuilder<'_>,
    ) -> Result<Offered> {
        self.key.clear();
        self.key.extend_from_slice(&self.prefix);
        key::push_component(&mut self.key, row_key);
        let offered = match self.held.get(index) {
            Some(Held::Value(version, value)) => {
                let value = self.values.get(value.clone()).unwrap_or_default();
                Some(page.offer_point(&self.key, *version, value))
            }
            Some(Held::Unread) => get(self.view, &Lookup::new(&self.key), self.at, |found| {
                page.offer_point(&self.key, found.version, found.value)
            })?,
            Some(Held::Nothing) | None => None,
        };
        offered.unwrap_or(Ok(Offered::Taken))
    }
}
