//! [`FileMeta`]: what the manifest keeps of a table file, and the file of itself.
//!
//! Layout: a first part, which is all there is where no value is referred to; else the referenced
//! bytes follow it, and the format of what holds the description is the second.

use crate::cache::FileId;
use crate::entry::{Entry, Kind};
use crate::error::Damage;
use crate::reference::{Reference, ReferencedBytes};
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
    /// Entries of [`Kind::Delete`].
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
    /// Of values that are in log segments.
    pub(crate) referenced: ReferencedBytes,
}

impl FileMeta {
    /// Bytes of the file and of the values that it refers to.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.referenced.total())
    }

    /// Bytes of a part of the file, and of the values that it refers to: about its share of them.
    pub(crate) fn with_values(&self, bytes: u64) -> u64 {
        if self.referenced.is_empty() {
            return bytes;
        }
        let whole =
            u128::from(bytes) * u128::from(self.total_bytes()) / u128::from(self.bytes.max(1));
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// Appends what [`decode`](Self::decode) reads: all but the referenced bytes.
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

    /// Reads one that refers to no values, and refuses what no file can be.
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
                referenced: ReferencedBytes::default(),
            }),
            _ => {
                Err(start.damage("the description of a table file", "one that contradicts itself"))
            }
        }
    }
}

/// Counts entries in order into a [`FileMeta`], the same way for writing and for verifying.
#[derive(Debug)]
pub(super) struct Tally {
    entries: u64,
    tombstones: u64,
    keys: u64,
    raw_bytes: u64,
    smallest: Box<[u8]>,
    min_version: Version,
    max_version: Version,
    referenced: ReferencedBytes,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            entries: 0,
            tombstones: 0,
            keys: 0,
            raw_bytes: 0,
            smallest: Box::default(),
            min_version: Version::MAX,
            max_version: Version::ZERO,
            referenced: ReferencedBytes::default(),
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Counts an entry that is an older version of the key before. Fails if it is a reference that
    /// is none.
    pub(super) fn add(&mut self, entry: &Entry<'_>) -> Result<(), Damage> {
        self.entries += 1;
        self.tombstones += u64::from(entry.kind == Kind::Delete);
        self.raw_bytes += (entry.key.len() + entry.value.len()) as u64;
        self.min_version = self.min_version.min(entry.version);
        self.max_version = self.max_version.max(entry.version);
        if entry.kind == Kind::Reference {
            let Reference { place, len, .. } = Reference::decode(entry.value)?;
            self.referenced.add(place.segment, u64::from(len));
        }
        Ok(())
    }

    /// Counts an entry of a new key.
    pub(super) fn add_key(&mut self, entry: &Entry<'_>) -> Result<(), Damage> {
        if self.entries == 0 {
            self.smallest = entry.key.into();
        }
        self.keys += 1;
        self.add(entry)
    }

    pub(super) fn finish(self, id: FileId, bytes: u64, largest: &[u8]) -> FileMeta {
        FileMeta {
            id,
            bytes,
            entries: self.entries,
            tombstones: self.tombstones,
            keys: self.keys,
            raw_bytes: self.raw_bytes,
            smallest: self.smallest,
            largest: largest.into(),
            min_version: self.min_version,
            max_version: self.max_version,
            referenced: self.referenced,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meta() -> impl Strategy<Value = FileMeta> {
        let key = || proptest::collection::vec(any::<u8>(), 0..5);
        (any::<[u64; 3]>(), 1u64..9, 0u64..9, any::<[u64; 2]>(), key(), key()).prop_map(
            |([id, bytes, raw_bytes], keys, more, [v, w], a, b)| FileMeta {
                id: FileId::new(id),
                bytes,
                entries: keys + more,
                tombstones: more,
                keys,
                raw_bytes,
                smallest: a.clone().min(b.clone()).into(),
                largest: a.max(b).into(),
                min_version: Version::from_ticks(v.min(w)),
                max_version: Version::from_ticks(v.max(w)),
                referenced: ReferencedBytes::default(),
            },
        )
    }

    proptest! {
        #[test]
        fn a_description_round_trips(meta in meta()) {
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(FileMeta::decode(&mut decoder).unwrap(), meta);
            decoder.finish().unwrap();
            for len in 0..bytes.len() {
                prop_assert!(FileMeta::decode(&mut Decoder::new(&bytes[..len])).is_err());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = FileMeta::decode(&mut Decoder::new(&bytes));
        }
    }
}
