//! Segment files: their names and their header.
//!
//! Invariant: a header that decodes is whole, and that of the segment that the file is named for.
//!
//! A header is 64 bytes: 0..8 magic, 8..12 CRC-32 of bytes 12..64, 12..16 format, 16..24 segment
//! id, 24..32 version of a commit that all records of the segment follow, 32..40 salt of the
//! records' checksums, 40..64 zeros.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use crate::env::{Disk, NO_FILE_NUMBER};
use crate::error::{Damage, Error, Result};
pub(crate) use crate::reference::SegmentId;
use crate::varint::Decoder;
use crate::version::Version;

/// Length of a segment's header; the first record is behind it.
pub(super) const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"tblstlog";
/// The newest format this build knows.
const FORMAT: u32 = 1;
const EXTENSION: &str = "log";
/// A segment in the making.
pub(super) const NEW_EXTENSION: &str = "log-new";
/// An obsolete segment, kept to become a new one.
pub(super) const SPARE_EXTENSION: &str = "log-spare";
/// A segment that is kept for the large values in it.
const VALUES_EXTENSION: &str = "values";
impl SegmentId {
    /// Its file as long as it is part of the log.
    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        self.named(dir, EXTENSION)
    }

    /// Its file once it is [kept](super::Segments::keep) for the values in it.
    pub(crate) fn values_path(self, dir: &Path) -> PathBuf {
        self.named(dir, VALUES_EXTENSION)
    }

    /// The kept segment that a file's name stands for.
    pub(crate) fn from_values_name(name: &str) -> Option<Self> {
        Self::from_name_with(name, VALUES_EXTENSION)
    }

    pub(super) fn named(self, dir: &Path, extension: &str) -> PathBuf {
        dir.join(format!("{self}.{extension}"))
    }

    /// The segment that a file's name stands for.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::from_name_with(name, EXTENSION)
    }

    pub(super) fn from_name_with(name: &str, extension: &str) -> Option<Self> {
        let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
        let id = Self::new(u64::from_str_radix(digits, 16).ok()?);
        // Also rules out other spellings of the number, such as a sign or capitals.
        (id.to_string() == digits && id.get() < NO_FILE_NUMBER).then_some(id)
    }
}

/// Whether the log gives files such a name.
pub(crate) fn is_ours(name: &str) -> bool {
    let extensions = [EXTENSION, NEW_EXTENSION, SPARE_EXTENSION, VALUES_EXTENSION];
    extensions.iter().any(|extension| SegmentId::from_name_with(name, extension).is_some())
}

/// The header at the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: SegmentId,
    pub(super) after: Version,
    pub(super) salt: u64,
}

impl Header {
    pub(super) fn new(id: SegmentId, after: Version) -> Self {
        // Nobody can know the salt before it is on disk, so nobody can forge a record.
        Self { id, after, salt: RandomState::new().hash_one(id.get()) }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut covered = Vec::with_capacity(HEADER_BYTES);
        covered.extend(FORMAT.to_le_bytes());
        for number in [self.id.get(), self.after.ticks(), self.salt] {
            covered.extend(number.to_le_bytes());
        }
        covered.resize(HEADER_BYTES - 12, 0);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(crc32fast::hash(&covered).to_le_bytes());
        bytes.extend(covered);
        bytes
    }

    pub(super) fn decode(bytes: &[u8], id: SegmentId, path: &Path) -> Result<Self> {
        let format = Self::decode_format(bytes).map_err(|damage| damage.in_file(path, 0))?;
        if format != FORMAT {
            let file = path.into();
            return Err(Error::UnsupportedFormat { file, found: format, supported: FORMAT });
        }
        Self::decode_fields(bytes, id).map_err(|damage| damage.in_file(path, 0))
    }

    fn decode_format(bytes: &[u8]) -> Result<u32, Damage> {
        let mut decoder = Decoder::new(bytes);
        if decoder.bytes(MAGIC.len(), "a log segment's magic")? != MAGIC {
            return Err(Damage::new(0, "a log segment's magic", "other bytes"));
        }
        let crc = decoder.u32("a log segment's checksum")?;
        let covered = decoder.bytes(HEADER_BYTES - 12, "a log segment's header")?;
        if crc32fast::hash(covered) != crc {
            let found = "a header whose checksum does not match";
            return Err(Damage::new(0, "a log segment's header", found));
        }
        Decoder::new(covered).u32("a log segment's format")
    }

    fn decode_fields(bytes: &[u8], expected: SegmentId) -> Result<Self, Damage> {
        let mut decoder = Decoder::new(bytes);
        decoder.bytes(16, "a log segment's header")?;
        let id = SegmentId::new(decoder.u64("a log segment's id")?);
        let after = Version::from_ticks(decoder.u64("a log segment's version")?);
        let salt = decoder.u64("a log segment's salt")?;
        if id != expected {
            let (expected, found) = (format!("log segment {expected}"), format!("segment {id}"));
            return Err(Damage::new(16, expected, found));
        }
        Ok(Self { id, after, salt })
    }
}

/// Makes the log of a new database: one segment without records, which those after `last` go into. Its name is not
/// durable yet.
pub(crate) fn begin_log(disk: &dyn Disk, dir: &Path, id: SegmentId, last: Version) -> Result<()> {
    let path = id.path(dir);
    let file = disk.create(&path).map_err(|e| Error::io("create", &path, e))?;
    let written = file.write_at(&Header::new(id, last).encode(), 0);
    written.map_err(|e| Error::io("write to", &path, e))?;
    file.sync().map_err(|e| Error::io("sync", &path, e))
}

/// A segment that gets no more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedSegment {
    pub(crate) id: SegmentId,
    /// All its records have this version or an earlier one.
    pub(crate) last: Version,
    /// Where it ends; 0 where that is not known, or may not be the log's to know: of one that replay did not look at,
    /// or salvage did.
    pub(crate) bytes: u64,
}
