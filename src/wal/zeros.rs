//! Zeros, written ahead of records: whole blocks past the page cache, where records are written so too.

use std::io;

use crate::env::{BLOCK_BYTES, DiskFile};

/// Zeros are written in pieces of up to this.
const ZEROS_PIECE_BYTES: usize = 256 << 10;
static ZEROS: Zeros = Zeros([0; ZEROS_PIECE_BYTES]);

/// Blocks of zeros.
#[repr(align(4096))]
struct Zeros([u8; ZEROS_PIECE_BYTES]);
const _: () = assert!(align_of::<Zeros>() == BLOCK_BYTES);

impl Zeros {
    fn first(&self, bytes: u64) -> &[u8] {
        self.0.get(..bytes as usize).unwrap_or(&self.0)
    }
}

/// Writes zeros between two offsets.
pub(super) fn write_zeros(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    let block = BLOCK_BYTES as u64;
    let mut at = from;
    while at < to {
        let whole_blocks = ((to - at) / block * block).min(ZEROS_PIECE_BYTES as u64);
        if at.is_multiple_of(block) && whole_blocks > 0 {
            file.write_blocks_at(ZEROS.first(whole_blocks), at)?;
            at += whole_blocks;
        } else {
            let part = (block - at % block).min(to - at);
            file.write_at(ZEROS.first(part), at)?;
            at += part;
        }
    }
    Ok(())
}
