//! The end of a table file, where reading it begins: footer and directory.
//!
//! ```text
//! data block* | index partition* | filter* | directory | footer
//! directory = FileMeta | number of data blocks | top index | filter index     (a stored block)
//!             | referenced bytes, in format 2
//! footer    = directory offset u64 | directory length u32 | file id u64
//!             | crc32 u32 of the fields before and the format
//!             | format u32 | crc32 u32 of format and magic | magic 8 bytes
//! ```
//!
//! A file has format 2 if entries in it refer to values in log segments, which builds that know only
//! format 1 must not take for deletions; else it has format 1.
//!
//! The last 16 bytes stay what they are in every later format, so that a file of such a format is
//! told from a damaged one.

use super::FileMeta;
use super::filter_index::FilterIndex;
use super::index::TopIndex;
use crate::cache::{BlockOffset, FileId};
use crate::error::Damage;
use crate::reference::ReferencedBytes;
use crate::varint::{Decoder, push_varint};

/// The newest format this build knows: of files that refer to values.
pub(super) const FORMAT: u32 = 2;
/// The format of files that do not.
const FORMAT_WITHOUT_REFERENCES: u32 = 1;
pub(super) const FOOTER_BYTES: usize = 40;

const MAGIC: [u8; 8] = *b"tblstone";
const FIELDS_BYTES: usize = 20;

/// Which file this is and where its directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) format: u32,
    pub(super) file: FileId,
    pub(super) directory: BlockOffset,
    /// Stored bytes of the directory, with its trailer.
    pub(super) directory_len: u32,
}

/// What a footer may turn out to be.
#[derive(Debug)]
pub(super) enum Parsed {
    Footer(Footer),
    /// A whole footer of a format this build does not know.
    Unsupported(u32),
}

impl Footer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(&self.directory.0.to_le_bytes());
        out.extend_from_slice(&self.directory_len.to_le_bytes());
        out.extend_from_slice(&self.file.get().to_le_bytes());
        let crc = fields_crc(&out, self.format);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&self.format.to_le_bytes());
        out.extend_from_slice(&format_crc(self.format).to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }

    /// Reads the last [`FOOTER_BYTES`] of a file.
    pub(super) fn decode(bytes: &[u8]) -> Result<Parsed, Damage> {
        let mut decoder = Decoder::new(bytes);
        let fields = decoder.bytes(FIELDS_BYTES, "a footer")?;
        let at = decoder;
        let crc = decoder.u32("a footer's checksum")?;
        let at_format = decoder;
        let format = decoder.u32("a format number")?;
        let crc_of_format = decoder.u32("a format's checksum")?;
        let magic = decoder.bytes(MAGIC.len(), "the mark of a table file")?;
        decoder.finish()?;
        if magic != MAGIC || crc_of_format != format_crc(format) {
            return Err(at_format.damage("the end of a table file", "other bytes"));
        }
        if format > FORMAT {
            return Ok(Parsed::Unsupported(format));
        }
        if crc != fields_crc(fields, format) {
            return Err(at.damage("the checksum of the footer", format!("{crc:#010x}")));
        }
        let mut fields = Decoder::new(fields);
        Ok(Parsed::Footer(Self {
            format,
            directory: BlockOffset(fields.u64("the directory's offset")?),
            directory_len: fields.u32("the directory's length")?,
            file: FileId::new(fields.u64("the file's id")?),
        }))
    }
}

fn fields_crc(fields: &[u8], format: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(fields);
    hasher.update(&format.to_le_bytes());
    hasher.finalize()
}

fn format_crc(format: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&format.to_le_bytes());
    hasher.update(&MAGIC);
    hasher.finalize()
}

/// What is kept of an open file.
#[derive(Debug)]
pub(super) struct Directory {
    /// Its `bytes` are those before the directory: the whole length is not known when the
    /// directory is written.
    pub(super) meta: FileMeta,
    pub(super) data_blocks: usize,
    pub(super) top: TopIndex,
    pub(super) filters: FilterIndex,
}

impl Directory {
    /// Number of stored blocks beside the directory.
    pub(super) fn blocks(&self) -> usize {
        self.data_blocks.saturating_add(self.top.len()).saturating_add(self.filters.len())
    }

    /// Ordinal of the first filter.
    pub(super) fn filter_ordinals(&self) -> usize {
        self.data_blocks.saturating_add(self.top.len())
    }

    /// The format of the file.
    pub(super) fn format(&self) -> u32 {
        if self.meta.referenced.is_empty() { FORMAT_WITHOUT_REFERENCES } else { FORMAT }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.meta.encode(&mut out);
        push_varint(&mut out, self.data_blocks as u64);
        self.top.encode(&mut out);
        self.filters.encode(&mut out);
        if self.format() != FORMAT_WITHOUT_REFERENCES {
            self.meta.referenced.encode(&mut out);
        }
        out
    }

    /// Reads the directory's payload in a file of that format.
    pub(super) fn decode(payload: &[u8], format: u32) -> Result<Self, Damage> {
        let mut decoder = Decoder::new(payload);
        let mut meta = FileMeta::decode(&mut decoder)?;
        let at = decoder;
        let data_blocks = decoder.length("a number of data blocks", u32::MAX as usize)?;
        // Every block takes bytes before the directory.
        if data_blocks as u64 > meta.bytes {
            return Err(at.damage("a number of data blocks", "more than the file has bytes"));
        }
        let top = TopIndex::decode(&mut decoder)?;
        let filters = FilterIndex::decode(&mut decoder)?;
        if format != FORMAT_WITHOUT_REFERENCES {
            meta.referenced = ReferencedBytes::decode(&mut decoder)?;
        }
        decoder.finish()?;
        Ok(Self { meta, data_blocks, top, filters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer {
            format: 1,
            file: FileId::new(9),
            directory: BlockOffset(1 << 40),
            directory_len: 77,
        }
    }

    /// R-E22
    #[test]
    fn any_changed_bit_of_a_footer_is_found() {
        let bytes = footer().encode();
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert!(matches!(Footer::decode(&bytes), Ok(Parsed::Footer(f)) if f == footer()));
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&changed).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Footer::decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn a_later_format_is_told_from_damage() {
        let mut bytes = footer().encode();
        bytes[24..28].copy_from_slice(&3u32.to_le_bytes());
        bytes[28..32].copy_from_slice(&format_crc(3).to_le_bytes());
        bytes[..20].fill(0xEE);
        assert!(matches!(Footer::decode(&bytes), Ok(Parsed::Unsupported(3))));
    }
}
