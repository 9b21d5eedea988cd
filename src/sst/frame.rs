//! A stored block: its payload, perhaps compressed, and a trailer that proves what it is.
//!
//! ```text
//! payload | compression u8 | raw length u32 | crc32 u32
//! ```
//!
//! The checksum covers the file's id and the block's offset too, so a whole block at a wrong place
//! is damage like any other. What the cache holds, and what is read in place, is the uncompressed
//! form of this frame, trailer included.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;

use zstd::bulk::{Compressor, Decompressor};

use crate::cache::{BlockOffset, FileId};
use crate::error::Damage;

/// Bytes after the payload.
pub(super) const TRAILER_BYTES: usize = 9;
/// No block is larger: the largest value (64 MiB) and its key fit twice over. A stored length is
/// compared with this before it is believed.
pub(super) const MAX_BLOCK_BYTES: usize = 128 << 20;

const NONE: u8 = 0;
const ZSTD: u8 = 1;

/// A stored block taken apart; nothing is checked but its length and compression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    stored: &'a [u8],
    pub(super) payload: &'a [u8],
    zstd: bool,
    raw_len: usize,
    crc: u32,
}

impl<'a> Frame<'a> {
    #[inline]
    pub(super) fn parse(stored: &'a [u8]) -> Result<Self, Damage> {
        let Some((payload, trailer)) = stored.split_last_chunk::<TRAILER_BYTES>() else {
            return Err(Damage::new(0, "a block with its trailer", "too few bytes"));
        };
        let [compression, r0, r1, r2, r3, c0, c1, c2, c3] = *trailer;
        if compression > ZSTD {
            let at = payload.len() as u64;
            return Err(Damage::new(at, "a compression of 0 or 1", compression.to_string()));
        }
        Ok(Self {
            stored,
            payload,
            zstd: compression == ZSTD,
            raw_len: u32::from_le_bytes([r0, r1, r2, r3]) as usize,
            crc: u32::from_le_bytes([c0, c1, c2, c3]),
        })
    }

    /// The payload of a stored block that is not compressed.
    #[inline]
    pub(super) fn plain_payload(stored: &'a [u8]) -> Option<&'a [u8]> {
        let (payload, trailer) = stored.split_last_chunk::<TRAILER_BYTES>()?;
        trailer.starts_with(&[NONE]).then_some(payload)
    }

    /// Whether the payload must be [expanded](Self::expand) before use.
    #[inline]
    pub(super) fn is_compressed(&self) -> bool {
        self.zstd
    }

    /// Whether this is the block that was written at that place.
    pub(super) fn check(&self, file: FileId, offset: BlockOffset) -> Result<(), Damage> {
        let covered = self.stored.get(..self.stored.len() - 4).unwrap_or_default();
        let crc = checksum(covered, file, offset);
        if crc == self.crc {
            return Ok(());
        }
        let expected = format!("a block with checksum {:#010x}", self.crc);
        Err(Damage::new(0, expected, format!("checksum {crc:#010x}")))
    }

    /// The uncompressed form of a compressed frame.
    pub(super) fn expand(&self) -> Result<Arc<[u8]>, Damage> {
        if self.raw_len > MAX_BLOCK_BYTES {
            let found = format!("a block of {} bytes", self.raw_len);
            return Err(Damage::new(0, format!("at most {MAX_BLOCK_BYTES} bytes"), found));
        }
        let mut bytes = zeros(self.raw_len + TRAILER_BYTES);
        let room = Arc::get_mut(&mut bytes).and_then(|b| b.get_mut(..self.raw_len));
        match decompress(self.payload, room.unwrap_or_default()) {
            Ok(len) if len == self.raw_len => Ok(bytes),
            Ok(len) => {
                let expected = format!("{} bytes after decompression", self.raw_len);
                Err(Damage::new(0, expected, format!("{len} bytes")))
            }
            Err(error) => Err(Damage::new(0, "a zstd frame", error.to_string())),
        }
    }
}

/// Zeroed bytes to be filled while nobody else has them.
pub(super) fn zeros(len: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, len).collect()
}

fn checksum(covered: &[u8], file: FileId, offset: BlockOffset) -> u32 {
    let mut place = [0; 16];
    let (id, at) = place.split_at_mut(8);
    id.copy_from_slice(&file.get().to_le_bytes());
    at.copy_from_slice(&offset.0.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place);
    hasher.update(covered);
    hasher.finalize()
}

fn decompress(compressed: &[u8], out: &mut [u8]) -> std::io::Result<usize> {
    thread_local! {
        // A context costs more to make than a block to decompress.
        static CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    with_context(&CONTEXT, |context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(Decompressor::new()?),
        };
        context.decompress_to_buffer(compressed, out)
    })
}

/// Works with what this thread has, or with something new where the thread ends and has dropped that.
fn with_context<C, T>(
    context: &'static LocalKey<RefCell<Option<C>>>,
    mut work: impl FnMut(&mut Option<C>) -> T,
) -> T {
    let worked = context.try_with(|context| work(&mut context.borrow_mut()));
    worked.unwrap_or_else(|_| work(&mut None))
}

/// A payload as it is to be stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    bytes: &'a [u8],
    compression: u8,
    raw_len: usize,
}

impl<'a> Body<'a> {
    /// As it is.
    pub(super) fn plain(payload: &'a [u8]) -> Self {
        Self { bytes: payload, compression: NONE, raw_len: payload.len() }
    }

    /// What [`compress`] made of a payload of `raw_len` bytes.
    pub(super) fn compressed(bytes: &'a [u8], raw_len: usize) -> Self {
        let compression = if bytes.len() == raw_len { NONE } else { ZSTD };
        Self { bytes, compression, raw_len }
    }

    /// Whether it must be expanded when it is read.
    pub(super) fn is_compressed(&self) -> bool {
        self.compression == ZSTD
    }

    /// Appends the block that is stored at that place.
    pub(super) fn seal(&self, file: FileId, offset: BlockOffset, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.bytes);
        out.push(self.compression);
        out.extend_from_slice(&(self.raw_len as u32).to_le_bytes());
        let crc = checksum(out.get(start..).unwrap_or_default(), file, offset);
        out.extend_from_slice(&crc.to_le_bytes());
    }
}

/// Whether so many bytes for `raw` ones are worth decompressing at every read that misses the cache.
pub(super) fn is_worth_it(compressed: usize, raw: usize) -> bool {
    compressed < raw - raw / 8
}

/// Appends a payload, compressed at that zstd level if that [is worth it](is_worth_it), else as it is. How
/// long it is says which.
pub(super) fn compress(level: i32, payload: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    thread_local! {
        // A context costs more to make than a block to compress.
        static CONTEXT: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    }
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(payload.len()), 0);
    let len = with_context(&CONTEXT, |context| {
        let (_, compressor) = match context {
            Some(kept) if kept.0 == level => kept,
            _ => context.insert((level, Compressor::new(level)?)),
        };
        compressor.compress_to_buffer(payload, out.get_mut(start..).unwrap_or_default())
    })?;
    if is_worth_it(len, payload.len()) {
        out.truncate(start + len);
    } else {
        out.truncate(start);
        out.extend_from_slice(payload);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId::new(7);
    const AT: BlockOffset = BlockOffset(100);

    fn sealed(payload: &[u8], level: Option<i32>) -> Vec<u8> {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        let body = match level {
            Some(level) => {
                compress(level, payload, &mut bytes).unwrap();
                Body::compressed(&bytes, payload.len())
            }
            None => Body::plain(payload),
        };
        body.seal(FILE, AT, &mut out);
        out
    }

    #[test]
    fn a_frame_gives_back_its_payload() {
        let payload = b"abcd".repeat(100);
        let plain = sealed(&payload, None);
        let frame = Frame::parse(&plain).unwrap();
        frame.check(FILE, AT).unwrap();
        assert!(!frame.is_compressed() && frame.payload == payload);

        let compressed = sealed(&payload, Some(1));
        let frame = Frame::parse(&compressed).unwrap();
        frame.check(FILE, AT).unwrap();
        assert!(frame.is_compressed() && compressed.len() < 100);
        let expanded = frame.expand().unwrap();
        assert_eq!(Frame::parse(&expanded).unwrap().payload, payload);
    }

    #[test]
    fn what_does_not_shrink_stays_as_it_is() {
        let noise: Vec<u8> =
            (0..64u64).flat_map(|i| crate::key::hash(&[i as u8]).to_le_bytes()).collect();
        assert!(!Frame::parse(&sealed(&noise, Some(1))).unwrap().is_compressed());
    }

    /// R-E22
    #[test]
    fn a_misplaced_or_changed_block_is_found() {
        let stored = sealed(b"payload", None);
        let frame = Frame::parse(&stored).unwrap();
        assert!(frame.check(FileId::new(8), AT).is_err());
        assert!(frame.check(FILE, BlockOffset(101)).is_err());
        for at in 0..stored.len() {
            let mut changed = stored.clone();
            changed[at] ^= 1;
            assert!(Frame::parse(&changed).and_then(|f| f.check(FILE, AT)).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_declared_length_is_not_believed() {
        let mut stored = sealed(&[0; 1000], Some(1));
        let trailer = stored.len() - TRAILER_BYTES;
        for claim in [999u32, 1001, u32::MAX] {
            stored[trailer + 1..trailer + 5].copy_from_slice(&claim.to_le_bytes());
            assert!(Frame::parse(&stored).unwrap().expand().is_err());
        }
    }
}
