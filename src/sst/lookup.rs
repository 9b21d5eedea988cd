//! [`Reader::get`]: a lookup of one key in a table file.
//!
//! It touches one filter, one index partition and one data block, and copies nothing; where the key was
//! found before, it needs no index. One of [many](super::Lookups) does the same, and leaves its block to
//! the next one.

use std::sync::Arc;

use super::block::Block;
use super::filter::{FirstBits, Probes, filter_of};
use super::held::Held;
use super::index::{BlockHandle, NEWEST};
use super::reader::{BLOCK_END_BYTES, INDEX_END_BYTES, Reader};
use super::row;
use super::source::Caching;
use crate::cache::{BlockOffset, Hint};
use crate::entry::Found;
use crate::error::Result;
use crate::key;
use crate::version::Version;

/// Most bytes of a block that are brought near for a lookup to walk over.
const WALKED_BYTES: usize = 1 << 10;

/// A row is kept without its block if it has at most this part of its bytes.
const SMALL_ROW_PART: usize = 4;

/// A key to look up and its hash, computed once for all sources that are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) key_hash: u64,
    pub(crate) is_likely_absent: bool,
}

impl<'a> Lookup<'a> {
    #[inline]
    pub(crate) fn new(key: &'a [u8]) -> Self {
        Self { key, key_hash: key::hash(key), is_likely_absent: false }
    }

    /// Of a key that is likely to be nowhere: what files are asked comes while memtables are asked.
    #[inline]
    pub(crate) fn likely_absent(key: &'a [u8]) -> Self {
        Self { is_likely_absent: true, ..Self::new(key) }
    }
}

/// What of a file's filter is to be asked about a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    filter: u32,
    bits: FirstBits,
}

/// Where lookups leave the block that they found their key in, or would have.
pub(super) trait Company<'a> {
    /// The block, if it was left there.
    fn block(&mut self, offset: BlockOffset) -> Option<Held<'a>>;

    fn leave(&mut self, offset: BlockOffset, held: Held<'a>);
}

/// A lookup that is the only one.
struct Alone;

impl<'a> Company<'a> for Alone {
    #[inline]
    fn block(&mut self, _: BlockOffset) -> Option<Held<'a>> {
        None
    }

    #[inline]
    fn leave(&mut self, _: BlockOffset, _: Held<'a>) {}
}

impl Reader {
    /// What to ask about the key with this hash, which has these probes. Brings near what the answer takes.
    #[inline]
    pub(crate) fn question(&self, key_hash: u64, probes: Probes) -> Option<Question> {
        let filters = &self.directory().filters;
        let filter = filter_of(key_hash, filters.len());
        let bits = FirstBits::new(probes, filters.bits(filter)?);
        let start = filters.start_of(filter)?;
        for offset in bits.offsets() {
            self.source().prefetch_line(start + offset);
        }
        Some(Question { filter: filter as u32, bits })
    }

    /// Brings near the hints of the key with this hash.
    #[inline]
    pub(crate) fn prefetch_hints(&self, key_hash: u64) {
        self.source().prefetch_hints(key_hash);
    }

    /// `false`: the file has no entry of the key, as the first probes of its filter show. Else what its hint
    /// leads to is brought near.
    #[inline]
    pub(crate) fn passes(&self, key_hash: u64, question: &Question) -> Result<bool> {
        let passes = self.ask_filter(question.filter as usize, |filter| {
            filter.ask_bits(key_hash, &question.bits).is_some()
        })?;
        if passes && let Some(hint) = self.source().recall(key_hash) {
            self.source().prefetch_hinted(&hint);
        }
        Ok(passes)
    }

    /// Shows the newest entry of the key at or before `at` to `visit`. Who has the
    /// [question](Self::question) spares the filter to make it.
    pub(crate) fn get<R>(
        &self,
        lookup: &Lookup<'_>,
        question: Option<&Question>,
        at: Version,
        visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        self.look_up(lookup, question, at, &mut Alone, visit)
    }

    #[inline]
    pub(super) fn look_up<'a, R>(
        &'a self,
        lookup: &Lookup<'_>,
        question: Option<&Question>,
        at: Version,
        company: &mut impl Company<'a>,
        visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let hash = lookup.key_hash;
        let number = match question {
            Some(question) => question.filter as usize,
            None => filter_of(hash, self.directory().filters.len()),
        };
        self.ask_filter(number, |filter| {
            // The first probes before the hint, whose memory an absent key had to wait for in vain; the
            // other probes after it, since what it leads to needs none.
            let rest = match question {
                Some(question) => filter.ask_bits(hash, &question.bits),
                None => filter.ask(hash),
            };
            let Some(rest) = rest else { return Ok(None) };
            let hint = self.source().recall(hash);
            if let Some(hint) = &hint {
                self.source().prefetch_hinted(hint);
            }
            self.look_up_passed(lookup, at, hint, company, || Ok(rest.may_contain()), visit)
        })?
    }

    /// The same of a key that passed the first probes and perhaps has a hint; `may_contain` asks the other
    /// probes.
    #[inline]
    pub(super) fn look_up_passed<'a, R>(
        &'a self,
        lookup: &Lookup<'_>,
        at: Version,
        hint: Option<Hint>,
        company: &mut impl Company<'a>,
        may_contain: impl FnOnce() -> Result<bool>,
        visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let at = at.min(NEWEST);
        let (source, hash) = (self.source(), lookup.key_hash);
        if let Some(hint) = hint
            && let Some(held) = source.load_hinted(&hint)
            && let Ok(block) = Block::parse(held.payload())
            && let Ok(Some(found)) = block.get_after(hint.restart, lookup.key, at)
        {
            let shown = visit(found);
            company.leave(BlockOffset(hint.offset), held);
            return Ok(Some(shown));
        }
        if let Some(row) = source.row(hash)
            && let Some(found) = row::find(&row, lookup.key, at)
        {
            return Ok(Some(visit(found)));
        }
        let top = &self.directory().top;
        let number = top.find(lookup.key, at);
        let Some(partition) = top.handle(number) else { return Ok(None) };
        // It comes while the filter is asked the rest.
        source.prefetch_end(partition, INDEX_END_BYTES);
        if !may_contain()? {
            return Ok(None);
        }
        let Some(handle) = self.locate(number, lookup.key, at)? else { return Ok(None) };
        self.search(lookup, at, &handle, company, visit)
    }

    /// As [`get`](Self::get), without any help, in the block that must have the key.
    fn search<'a, R>(
        &'a self,
        lookup: &Lookup<'_>,
        at: Version,
        handle: &BlockHandle,
        company: &mut impl Company<'a>,
        visit: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>> {
        let held = match company.block(handle.offset) {
            Some(held) => held,
            None => self.load_block(handle)?,
        };
        let found = Block::parse(held.payload()).and_then(|block| {
            let restart = block.walk_start(lookup.key, at)?;
            let walked = block.restart(restart)..block.restart(restart + 1);
            held.prefetch(walked.start..walked.end.min(walked.start + WALKED_BYTES));
            let found = block.get_from(restart, lookup.key, at)?;
            Ok(found.map(|found| (found, restart, walked)))
        });
        let found = found.map_err(|damage| self.damage(damage, handle))?;
        let shown = found.map(|(found, restart, walked)| {
            let is_kept = match &held {
                Held::Read(block) => self.keep(handle, block, lookup, at, &found),
                Held::Mapped(_) | Held::Shared(_) => true,
            };
            if is_kept {
                let (offset, len) = (handle.offset.0, handle.len);
                let is_cached = !matches!(held, Held::Mapped(_));
                let hint = Hint { offset, len, is_cached, restart, walked };
                self.source().note(lookup.key_hash, &hint);
            }
            visit(found)
        });
        company.leave(handle.offset, held);
        Ok(shown)
    }

    #[inline]
    fn load_block(&self, handle: &BlockHandle) -> Result<Held<'_>> {
        self.source().prefetch_end(handle, BLOCK_END_BYTES);
        let held = self.source().load(handle, Caching::Pass)?;
        held.prefetch_shared_end(BLOCK_END_BYTES);
        Ok(held)
    }

    /// Has the cache hold what was found in a block that it did not have: the row, or the block if the
    /// cache [wants](super::source::Source::wants_block) it or the row is much of it. `true`: the block.
    fn keep(
        &self,
        handle: &BlockHandle,
        block: &Arc<[u8]>,
        lookup: &Lookup<'_>,
        at: Version,
        found: &Found<'_>,
    ) -> bool {
        // Of an earlier version it is not known to be the newest.
        let sees_newest = at >= self.directory().meta.max_version;
        let is_small = (lookup.key.len() + found.value.len()) * SMALL_ROW_PART <= block.len();
        if sees_newest && is_small && !self.source().wants_block(handle) {
            self.source().keep_row(lookup.key_hash, row::encode(lookup.key, found));
            return false;
        }
        self.source().keep_block(handle.offset, Arc::clone(block));
        true
    }
}
