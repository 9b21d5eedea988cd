//! Table files: sorted entries, written once, with index and filter, read in place or cached.
#![allow(dead_code)]

mod cursor;
mod meta;
mod reader;
mod writer;

pub(crate) use crate::cache::FileId;
pub(crate) use cursor::SstCursor;
pub(crate) use meta::FileMeta;
pub(crate) use reader::{Estimate, Reader};
pub(crate) use writer::{Writer, WriterOptions};

use crate::key;

/// Name extension of table files.
pub(crate) const EXTENSION: &str = "sst";

/// The name of a table file in the database directory.
pub(crate) fn file_name(id: FileId) -> String {
    format!("{:016}.{EXTENSION}", id.get())
}

/// The id of the table file with that name, if it is one.
pub(crate) fn parse_file_name(name: &str) -> Option<FileId> {
    let digits = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let all_digits = digits.len() >= 16 && digits.bytes().all(|b| b.is_ascii_digit());
    let id = FileId::new(digits.parse().ok().filter(|_| all_digits)?);
    (file_name(id) == name).then_some(id)
}

/// A key to look up and its hash, computed once for all files that are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) key_hash: u64,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(key: &'a [u8]) -> Self {
        Self { key, key_hash: key::hash(key) }
    }
}
