//! [`PageBuilder`]: fills a page with the live rows that a scan offers, until one is refused.
//!
//! Invariant: a refused row changes nothing, and a page without rows refuses none for its size,
//! so a page can always be continued and always makes progress (R-E12).

use super::limits::{PartitionStop, ScanLimits, WhenFull, Work};
use super::page::{PageData, Piece, RowRef, RowSlot, StopReason};
use super::range::Continuation;
use crate::entry::{Entry, Kind};
use crate::error::{Error, Limit, Result};
use crate::key;
use crate::version::Version;

/// Most stored bytes a page may ask for: offsets in a page are 32-bit numbers, and the row that
/// exceeds this, and what a projection adds, must be in their reach.
const BYTES_LIMIT: usize = 1 << 30;

/// Room that is made for a page before it is known how much will be in it.
const RESERVED_ROWS: usize = 256;
const RESERVED_BYTES: usize = 64 << 10;

/// What a hook returns: small, as it is called for every row.
pub(crate) type HookResult<T> = Result<T, Box<Error>>;

type Predicate<'p> = dyn FnMut(RowRef<'_>) -> HookResult<bool> + 'p;
type Projection<'p> = dyn FnMut(RowRef<'_>, &mut Vec<u8>) -> HookResult<()> + 'p;
type Visitor<'p> = dyn FnMut(RowRef<'_>) -> HookResult<()> + 'p;

/// What the caller decides about stored bytes before they are copied. An error ends the page.
#[derive(Default)]
pub(crate) struct ScanHooks<'p> {
    /// Which entities are wanted; all, if there is none.
    pub(crate) predicate: Option<&'p mut Predicate<'p>>,
    pub(crate) take: Take<'p>,
}

/// How an entity that is wanted is taken.
#[derive(Default)]
pub(crate) enum Take<'p> {
    /// It is copied into the page.
    #[default]
    Copy,
    /// Its keys are copied, and what this appends for its value.
    Project(&'p mut Projection<'p>),
    /// It is lent to this, and not in the page.
    Lend(&'p mut Visitor<'p>),
    /// Likewise, but without the values that are in the log, which are not read.
    Keys(&'p mut Visitor<'p>),
}

/// What came of offering a row to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// It is in the page, or the predicate does not want it.
    Taken,
    /// It is in the page, which is complete with it.
    Last,
    /// The page ends before it.
    Refused(StopReason),
}

/// A page while it is filled.
pub(super) struct PageBuilder<'p> {
    bytes: Vec<u8>,
    rows: Vec<RowSlot>,
    /// How many entities it has taken, and their stored bytes.
    taken: usize,
    stored_bytes: usize,
    /// With how many entities it is complete.
    last: usize,
    limits: ScanLimits,
    hooks: ScanHooks<'p>,
    partition: Partition,
    /// Whether the RowKey offered last has no escapes.
    is_plain: bool,
    /// A RowKey without its escapes, for the few that have any.
    row_key: Vec<u8>,
}

/// The partition of the row offered last.
#[derive(Default)]
struct Partition {
    /// The encoded prefix of its keys; empty before the first row.
    prefix: Vec<u8>,
    key: Vec<u8>,
    /// Whether the key has no escapes.
    is_plain: bool,
    /// Where its key is in the page, once one of its rows is.
    piece: Option<Piece>,
}

impl Partition {
    /// Goes on to the partition of a key that has at least the first `common` bytes of the one before. Where
    /// partitions have a row each, this is done for every row: what they have in common stays.
    fn enter(&mut self, key: &[u8], common: usize) {
        self.piece = None;
        let table = key::table_len(key);
        if self.is_plain
            && common >= table
            && let Some(rest) = key.get(common..).and_then(key::plain_component)
        {
            self.prefix.truncate(common);
            self.prefix.extend_from_slice(rest);
            self.key.truncate(common - table);
            self.key.extend_from_slice(inner(rest, 0));
            return;
        }
        self.begin(key, table);
    }

    #[cold]
    fn begin(&mut self, key: &[u8], table: usize) {
        let prefix = key.get(..key::partition_len(key)).unwrap_or_default();
        if self.prefix.is_empty() {
            // Most pages have one partition: lists that grow would cost a hundredth of a short one.
            self.prefix = Vec::with_capacity(prefix.len());
            self.key = Vec::with_capacity(prefix.len());
        }
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        self.key.clear();
        let escaped = inner(prefix, table);
        key::push_unescaped(&mut self.key, escaped);
        self.is_plain = self.key.len() == escaped.len();
    }
}

impl<'p> PageBuilder<'p> {
    pub(super) fn new(limits: ScanLimits, hooks: ScanHooks<'p>) -> Self {
        let limits = ScanLimits {
            entities: limits.entities.max(1),
            bytes: limits.bytes.min(BYTES_LIMIT),
            ..limits
        };
        Self {
            bytes: Vec::new(),
            rows: Vec::new(),
            taken: 0,
            stored_bytes: 0,
            last: match limits.when_full {
                WhenFull::End => limits.entities,
                WhenFull::LookOn => usize::MAX,
            },
            limits,
            hooks,
            partition: Partition::default(),
            is_plain: false,
            row_key: Vec::new(),
        }
    }

    /// Whether it looks at no value.
    pub(super) fn takes_keys_alone(&self) -> bool {
        self.hooks.predicate.is_none() && matches!(self.hooks.take, Take::Keys(_))
    }

    /// How many more entities there may be.
    pub(super) fn room(&self) -> usize {
        self.limits.entities.saturating_sub(self.taken)
    }

    /// Offers an entity that was looked up.
    #[inline(never)]
    pub(super) fn offer_point(
        &mut self,
        key: &[u8],
        version: Version,
        value: &[u8],
    ) -> Result<Offered> {
        self.offer(Entry { key, version, kind: Kind::Put, value }, 0)
    }

    /// Offers a live row whose key has at least the first `common` bytes of the one offered
    /// before. Inlined into the walk: a call costs a plain scan a nanosecond a row.
    #[inline(always)]
    pub(super) fn offer(&mut self, entry: Entry<'_>, common: usize) -> Result<Offered> {
        let Entry { key, version, value, .. } = entry;
        let prefix = &*self.partition.prefix;
        if prefix.is_empty() || (common < prefix.len() && !key.starts_with(prefix)) {
            if self.limits.partition == PartitionStop::Stop && !self.partition.prefix.is_empty() {
                return Ok(Offered::Refused(StopReason::Partition));
            }
            self.partition.enter(key, common);
        }
        let prefix = self.partition.prefix.len();
        let escaped = inner(key, prefix);
        let plain = if self.is_plain { common.saturating_sub(prefix) } else { 0 };
        let row_key = key::unescaped(escaped, plain, &mut self.row_key);
        self.is_plain = row_key.len() == escaped.len();
        let row = RowRef { partition_key: &self.partition.key, row_key, version, value };
        if let Some(wants) = &mut self.hooks.predicate
            && !wants(row).map_err(|error| *error)?
        {
            return Ok(Offered::Taken);
        }
        if self.taken >= self.limits.entities {
            return Ok(Offered::Refused(StopReason::Entities));
        }
        let size = row.stored_bytes();
        if self.taken > 0 && self.stored_bytes + size > self.limits.bytes {
            return Ok(Offered::Refused(StopReason::Bytes));
        }
        self.taken += 1;
        self.stored_bytes += size;
        let Self { bytes, rows, .. } = self;
        match &mut self.hooks.take {
            Take::Lend(lend) | Take::Keys(lend) => lend(row).map_err(|error| *error)?,
            take => {
                if rows.is_empty() {
                    let room = self.limits.entities.min(RESERVED_ROWS);
                    rows.reserve(room);
                    bytes.reserve(size.saturating_mul(room).min(RESERVED_BYTES));
                }
                let partition_key = match self.partition.piece {
                    Some(piece) => piece,
                    None => *self.partition.piece.insert(push(bytes, &self.partition.key)?),
                };
                let row_key_at = bytes.len();
                bytes.extend_from_slice(row_key);
                let value_at = bytes.len();
                match take {
                    Take::Project(project) => project(row, bytes).map_err(|error| *error)?,
                    _ => bytes.extend_from_slice(value),
                }
                let end = bytes.len();
                let slot = RowSlot::new(partition_key, row_key_at, value_at, end, version);
                rows.push(slot.ok_or_else(|| beyond_reach(end))?);
            }
        }
        Ok(if self.taken == self.last { Offered::Last } else { Offered::Taken })
    }

    /// The page, with `next` the key at which the next one starts.
    pub(super) fn finish(
        self,
        stop: StopReason,
        next: Option<Continuation>,
        &Work { examined, deletions, .. }: &Work<'_>,
    ) -> PageData {
        let Self { bytes, rows, taken, stored_bytes, .. } = self;
        PageData { bytes, rows, taken, stored_bytes, stop, next, examined, deletions }
    }
}

/// What lies behind the first `skip` bytes of a key or prefix, but for its last terminator.
#[inline]
fn inner(key: &[u8], skip: usize) -> &[u8] {
    let end = key.len().saturating_sub(1);
    key.get(skip..end).unwrap_or_default()
}

fn push(bytes: &mut Vec<u8>, piece: &[u8]) -> Result<Piece> {
    let start = bytes.len();
    bytes.extend_from_slice(piece);
    Piece::new(start, bytes.len()).ok_or_else(|| beyond_reach(bytes.len()))
}

/// Says that so many bytes are more than a page may have.
#[cold]
fn beyond_reach(size: usize) -> Error {
    Error::LimitExceeded {
        index: None,
        what: Limit::Value,
        size: size as u64,
        limit: u64::from(u32::MAX),
    }
}
