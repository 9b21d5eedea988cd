//! [`Squeeze`]: data blocks on their way to the file, compressed by helpers or in place.
//!
//! ```text
//! Writer ── blocks ──► batch ──► batches with helpers ──► in order to the file
//! ```
//!
//! A batch is so large that handing it over costs little. Invariant: blocks come out in the order
//! in which they went in, at points that follow from their lengths alone, never from how fast
//! helpers are; so what is [inside](Squeeze::inside), and with it where files end, is the same
//! in every run.

use std::io;
use std::sync::Arc;

use super::frame::{self, Body};
use super::index::Fence;
use crate::env::{Deferred, InOrder, Jobs};

/// A batch that helpers get. One takes a third of a millisecond at level 1, ten times what it costs
/// to hand it over.
const BATCH_BYTES: usize = 128 << 10;
/// Most bytes in batches that are with helpers.
const HELPED_BYTES: usize = 4 * BATCH_BYTES;

pub(super) struct Squeeze {
    level: i32,
    helpers: Option<Arc<dyn Jobs>>,
    open: Batch,
    helped: InOrder<io::Result<Squeezed>>,
    /// Bytes of all that is helped, as they were put in.
    helped_bytes: usize,
}

/// What the index will say of a data block.
#[derive(Debug)]
pub(super) struct Label {
    pub(super) fence: Fence,
    pub(super) entries_before: u64,
}

/// Payloads, one after the other, and for each its end.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    blocks: Vec<(usize, Label)>,
}

/// A batch, compressed.
#[derive(Debug)]
pub(super) struct Squeezed {
    bytes: Vec<u8>,
    /// End in the bytes, and length before compression.
    blocks: Vec<(usize, usize, Label)>,
    raw_bytes: usize,
}

impl Squeeze {
    /// Compresses at that zstd level.
    pub(super) fn new(level: i32) -> Self {
        let (open, helped) = (Batch::default(), InOrder::default());
        Self { level, helpers: None, open, helped, helped_bytes: 0 }
    }

    /// Lets helpers compress.
    pub(super) fn help(&mut self, helpers: Arc<dyn Jobs>) {
        self.helpers = Some(helpers);
    }

    /// Bytes of payloads that went in and did not come out.
    pub(super) fn inside(&self) -> usize {
        self.open.bytes.len() + self.helped_bytes
    }

    /// Puts a payload in.
    pub(super) fn push(&mut self, payload: &[u8], label: Label) {
        self.open.bytes.extend_from_slice(payload);
        self.open.blocks.push((self.open.bytes.len(), label));
        if let Some(helpers) = &self.helpers
            && self.open.bytes.len() >= BATCH_BYTES
        {
            let (batch, level) = (std::mem::take(&mut self.open), self.level);
            self.helped_bytes += batch.bytes.len();
            self.helped.push(Deferred::new(&**helpers, move || batch.squeeze(level)));
        }
    }

    /// What is to come out now, oldest first.
    pub(super) fn pop(&mut self) -> io::Result<Option<Squeezed>> {
        if self.helpers.is_none() {
            self.pop_any()
        } else if self.helped_bytes > HELPED_BYTES {
            self.pop_helped()
        } else {
            Ok(None)
        }
    }

    /// What comes out at the end, oldest first.
    pub(super) fn pop_any(&mut self) -> io::Result<Option<Squeezed>> {
        if self.helped.len() > 0 {
            return self.pop_helped();
        }
        let open = std::mem::take(&mut self.open);
        if open.blocks.is_empty() { Ok(None) } else { open.squeeze(self.level).map(Some) }
    }

    fn pop_helped(&mut self) -> io::Result<Option<Squeezed>> {
        let Some(squeezed) = self.helped.pop() else { return Ok(None) };
        let squeezed = squeezed.unwrap_or_else(|| Err(io::Error::other("it panicked")))?;
        self.helped_bytes -= squeezed.raw_bytes;
        Ok(Some(squeezed))
    }
}

impl Batch {
    fn squeeze(self, level: i32) -> io::Result<Squeezed> {
        let mut bytes = Vec::new();
        let mut blocks = Vec::with_capacity(self.blocks.len());
        let mut start = 0;
        for (end, label) in self.blocks {
            let payload = self.bytes.get(start..end).unwrap_or_default();
            frame::compress(level, payload, &mut bytes)?;
            blocks.push((bytes.len(), payload.len(), label));
            start = end;
        }
        Ok(Squeezed { bytes, blocks, raw_bytes: start })
    }
}

impl Squeezed {
    /// Its blocks, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Body<'_>, &Label)> {
        let mut start = 0;
        self.blocks.iter().map(move |(end, raw_len, label)| {
            let bytes = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            (Body::compressed(bytes, *raw_len), label)
        })
    }
}
