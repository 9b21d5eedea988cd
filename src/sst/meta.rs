//! [`FileMeta`]: what the manifest keeps of a table file, and the file of itself.

use crate::cache::FileId;
use crate::error::Damage;
use crate::varint::{Decoder, push_slice, push_varint};
use crate::version::Version;

/// What is known of a table file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileMeta {
    pub(crate) id: FileId,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// All entries, tombstones included.
    pub(crate) entries: u64,
    /// Entries of [`Kind::Delete`](crate::entry::Kind::Delete).
    pub(crate) tombstones: u64,
    /// Distinct keys.
    pub(crate) keys: u64,
    /// Keys and values of all entries, before any compression.
    pub(crate) raw_bytes: u64,
    pub(crate) smallest: Box<[u8]>,
    /// Inclusive.
    pub(crate) largest: Box<[u8]>,
    pub(crate) min_version: Version,
    pub(crate) max_version: Version,
}

impl FileMeta {
    /// Appends what [`decode`](Self::decode) reads.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.id.get(),
            self.bytes,
            self.entries,
            self.tombstones,
            self.keys,
            self.raw_bytes,
            self.min_version.ticks(),
            self.max_version.ticks() - self.min_version.ticks(),
        ] {
            push_varint(out, number);
        }
        push_slice(out, &self.smallest);
        push_slice(out, &self.largest);
    }

    /// Reads one, and refuses what no file can be.
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Damage> {
        let start = *decoder;
        let id = FileId::new(decoder.varint("a file's id")?);
        let bytes = decoder.varint("a file's length")?;
        let entries = decoder.varint("a file's number of entries")?;
        let tombstones = decoder.varint("a file's number of tombstones")?;
        let keys = decoder.varint("a file's number of keys")?;
        let raw_bytes = decoder.varint("a file's uncompressed size")?;
        let min_version = decoder.varint("a file's first version")?;
        let version_span = decoder.varint("a file's span of versions")?;
        let smallest: Box<[u8]> = decoder.slice("a file's smallest key")?.into();
        let largest: Box<[u8]> = decoder.slice("a file's largest key")?.into();
        let max_version = min_version.checked_add(version_span);
        let counts_agree = keys >= 1 && keys <= entries && tombstones <= entries;
        match max_version {
            Some(max_version) if counts_agree && smallest <= largest => Ok(Self {
                id,
                bytes,
                entries,
                tombstones,
                keys,
                raw_bytes,
                smallest,
                largest,
                min_version: Version::from_ticks(min_version),
                max_version: Version::from_ticks(max_version),
            }),
            _ => {
                Err(start.damage("the description of a table file", "one that contradicts itself"))
            }
        }
    }
}
