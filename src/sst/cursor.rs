//! [`SstCursor`]: a position in a table file.
//!
//! Forward, a cursor decodes entry after entry and keeps the key of the current one. How it goes back is
//! in `backward.rs`.

use super::Reader;
use super::ahead::Ahead;
use super::block::{Block, Shape};
use super::current::{Advanced, Current, Older, VERSIONS_WALKED};
use super::held::Held;
use super::index::{BlockHandle, NEWEST};
use super::reader::{BLOCK_END_BYTES, Place};
use super::run::Run;
use super::source::Caching;
use super::way::Way;
use crate::entry::{Cursor, Entry, Kind, Walker};
use crate::error::Result;
use crate::version::Version;

/// Room that is made for a key, so that it does not grow with the first that are put together.
const KEY_ROOM: usize = 128;

/// A position in a table file.
#[derive(Debug)]
pub(crate) struct SstCursor<'a> {
    pub(super) reader: &'a Reader,
    pub(super) caching: Caching,
    way: Way,
    pub(super) block: Option<OpenBlock<'a>>,
    pub(super) current: Current,
    pub(super) run: Run,
}

/// The data block that the cursor is in.
#[derive(Debug)]
pub(super) struct OpenBlock<'a> {
    place: Place<'a>,
    pub(super) handle: BlockHandle,
    pub(super) held: Held<'a>,
    pub(super) shape: Shape,
    ahead: Ahead<'a>,
}

impl<'a> SstCursor<'a> {
    pub(super) fn new(reader: &'a Reader, caching: Caching) -> Self {
        let way = if caching == Caching::Keep { Way::default() } else { Way::long() };
        Self { reader, caching, way, block: None, current: Current::none(), run: Run::default() }
    }

    /// Positions on the first entry at or after (`key`, `at`).
    pub(crate) fn seek_version(&mut self, key: &[u8], at: Version) -> Result<()> {
        let at = at.min(NEWEST);
        let is_near = self.may_be_in_block(key, at)?;
        self.leave();
        if !is_near {
            let place = self.reader.place(key, at, self.caching)?;
            if !self.open(place)? {
                return Ok(());
            }
        }
        if !self.find_in_block(key, at)? && self.open_next()? {
            self.read_entry(0)?;
        }
        Ok(())
    }

    /// Whether (`key`, `at`) is between the current entry and the end of its block: a seek
    /// there needs no index.
    pub(super) fn may_be_in_block(&self, key: &[u8], at: Version) -> Result<bool> {
        let Some(open) = self.block.as_ref().filter(|_| self.current.valid) else {
            return Ok(false);
        };
        let is_after = |k: &[u8], v: Version| k.cmp(key).then(at.cmp(&v)).is_le();
        if !is_after(&self.current.key, self.current.version) {
            return Ok(false);
        }
        let (fence, version) = open.place.fence()?;
        Ok(fence.cmp(key).then(at.cmp(&version)).is_ge())
    }

    /// Is on no entry until one is read.
    pub(super) fn leave(&mut self) {
        self.current.valid = false;
        self.current.kept = 0;
        self.run.clear();
    }

    /// Opens a data block; `false` if there is none.
    pub(super) fn open(&mut self, place: Option<Place<'a>>) -> Result<bool> {
        self.block = None;
        let Some(place) = place else { return Ok(false) };
        let handle = place.handle()?;
        self.reader.source().prefetch_next_end(&handle, BLOCK_END_BYTES);
        let (held, shape) = self.load(&handle, None)?;
        self.block = Some(OpenBlock { place, handle, held, shape, ahead: Ahead::default() });
        Ok(true)
    }

    /// A block to be opened, which may be at hand.
    fn load(&mut self, handle: &BlockHandle, held: Option<Held<'a>>) -> Result<(Held<'a>, Shape)> {
        let held = match held {
            Some(held) => held,
            None => {
                let source = self.reader.source();
                let held = source.load_next(handle, self.caching, &mut self.way)?;
                held.prefetch_shared_end(BLOCK_END_BYTES);
                held
            }
        };
        let shape = Block::parse(held.payload())
            .map_err(|damage| self.reader.damage(damage, handle))?
            .shape();
        Ok((held, shape))
    }

    fn open_next(&mut self) -> Result<bool> {
        let ahead = self.block.as_mut().and_then(|open| open.ahead.take_next());
        let Some((handle, held)) = ahead else {
            let next = match self.block.take() {
                Some(open) => open.place.next()?,
                None => None,
            };
            return self.open(next);
        };
        let (held, shape) = self.load(&handle, held)?;
        let Some(open) = &mut self.block else { return Ok(false) };
        open.place.go_on();
        (open.handle, open.held, open.shape) = (handle, held, shape);
        open.ahead = Ahead::of_near_block();
        Ok(true)
    }

    pub(super) fn open_previous(&mut self) -> Result<bool> {
        let previous = match self.block.take() {
            Some(open) => open.place.previous()?,
            None => None,
        };
        self.open(previous)
    }

    /// Goes to the first entry of the open block at or after (`key`, `at`), if there is one.
    fn find_in_block(&mut self, key: &[u8], at: Version) -> Result<bool> {
        let Some(open) = &mut self.block else { return Ok(false) };
        let current = &mut self.current;
        let payload = open.held.payload();
        let found = Block::parse(payload).and_then(|block| {
            let restart = block.walk_start(key, at)?;
            open.ahead.begin(payload, block.restart(restart));
            let Some(entry) = block.find_from(restart, key, at)? else { return Ok(false) };
            let room = KEY_ROOM.max(key.len());
            if current.key.capacity() < room {
                current.key = Vec::with_capacity(room);
            }
            current.key.clear();
            current.key.extend_from_slice(key.get(..entry.shared).unwrap_or_default());
            current.set(&block, &entry)?;
            Ok(true)
        });
        found.map_err(|damage| self.reader.damage(damage, &open.handle))
    }

    /// Goes to the entry at an offset of the open block; `self.current.key` is the key before.
    /// Whether it is the key of the entry, too.
    #[inline]
    fn read_entry(&mut self, offset: usize) -> Result<bool> {
        let Some(open) = &self.block else { return Ok(false) };
        let block = Block::walk(open.held.payload(), open.shape);
        match self.current.advance(&block, offset) {
            Some(Advanced { is_same, kept, .. }) => {
                self.current.kept = self.current.kept.min(kept);
                Ok(is_same)
            }
            None => self.read_damaged(offset),
        }
    }

    /// Says what is wrong with the entry at an offset of the open block.
    #[cold]
    fn read_damaged(&mut self, offset: usize) -> Result<bool> {
        let Some(open) = &self.block else { return Ok(false) };
        let current = &mut self.current;
        current.valid = false;
        let block = Block::walk(open.held.payload(), open.shape);
        let read = block.entry(offset).and_then(|entry| current.set(&block, &entry));
        read.map(|()| false).map_err(|damage| self.reader.damage(damage, &open.handle))
    }

    /// Goes to the entry after the current one, if there is any. Whether it has the same key.
    #[inline]
    fn step(&mut self) -> Result<bool> {
        let Some(open) = &self.block else { return Ok(false) };
        if self.current.next < open.shape.end {
            return self.read_entry(self.current.next);
        }
        self.current.valid = false;
        if self.open_next()? { self.read_entry(0) } else { Ok(false) }
    }

    /// Goes to the entry of another key, from one that the last move came to.
    fn leave_key(&mut self) -> Result<()> {
        for _ in 0..VERSIONS_WALKED {
            if !self.step()? {
                return Ok(());
            }
        }
        self.pass_versions()
    }

    /// Goes to the next key from one of many versions.
    #[cold]
    fn pass_versions(&mut self) -> Result<()> {
        let key = self.current.key.clone();
        self.seek_version(&key, Version::ZERO)?;
        while self.current.valid && self.current.key == key {
            self.step()?;
        }
        Ok(())
    }
}

impl Cursor for SstCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_version(key, NEWEST)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.leave();
        let first = self.reader.partition(0, self.caching)?;
        if self.open(first)? {
            self.read_entry(0)?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_last(Some(key))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.seek_last(None)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.current.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if self.current.valid { &self.current.key } else { &[] }
    }

    #[inline]
    fn version(&self) -> Version {
        if self.current.valid { self.current.version } else { Version::ZERO }
    }

    #[inline]
    fn kind(&self) -> Kind {
        if self.current.valid { self.current.kind } else { Kind::Delete }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.block {
            Some(open) if self.current.valid => self.current.value(open.held.payload()),
            _ => &[],
        }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let open = self.block.as_ref().filter(|_| self.current.valid)?;
        Some(self.current.entry(open.held.payload()))
    }

    #[inline]
    fn kept(&self) -> usize {
        self.current.kept
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.current.valid {
            self.run.clear();
            self.current.kept = usize::MAX;
            self.step()?;
        }
        Ok(())
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        if !self.current.valid {
            return Ok(());
        }
        self.run.clear();
        self.current.kept = usize::MAX;
        self.leave_key()
    }

    #[inline]
    fn walk(&mut self, walker: &mut impl Walker) -> Result<()> {
        self.run.clear();
        while self.current.valid {
            let Some(OpenBlock { place, held, shape, ahead, .. }) = &mut self.block else { break };
            let (payload, current) = (held.payload(), &mut self.current);
            let block = Block::walk(payload, *shape);
            ahead.begin(payload, current.next);
            let (mut value, mut kept) = (current.value(payload), current.kept);
            current.kept = usize::MAX;
            loop {
                ahead.go(payload, current.next, place);
                let (version, kind) = (current.version, current.kind);
                if !walker.meet(Entry { key: &current.key, version, kind, value }, kept) {
                    current.kept = kept;
                    return Ok(());
                }
                if current.next >= shape.end {
                    break;
                }
                let Some(advanced) = current.advance(&block, current.next) else {
                    break;
                };
                (value, kept) = (advanced.value, advanced.kept);
                if advanced.is_same {
                    current.kept = kept;
                    break;
                }
            }
            // The end of the block, an older version, or damage.
            self.leave_key()?;
        }
        Ok(())
    }

    fn next_at(&mut self, at: Version) -> Result<()> {
        if self.version() <= at {
            return Ok(());
        }
        self.run.clear();
        self.current.kept = usize::MAX;
        for _ in 0..VERSIONS_WALKED {
            if !self.step()? || self.current.version <= at {
                return Ok(());
            }
        }
        let key = self.current.key.clone();
        self.seek_version(&key, at)
    }

    fn previous_key(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if self.run.is_empty() {
            // What is before the key is in its block or, mostly, the one before.
            let key = std::mem::take(&mut self.current.key);
            self.leave();
            return self.go_back(Some(&key));
        }
        self.pop_run()
    }

    fn previous_at(&mut self, at: Version) -> Result<()> {
        if self.version() <= at {
            return Ok(());
        }
        match self.go_older(at)? {
            Older::Found => Ok(()),
            Older::IsNone => self.previous_key(),
            Older::MayFollow => self.seek_older(at),
        }
    }
}
