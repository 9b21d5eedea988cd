//! The decoders of this room on arbitrary bytes: they may refuse, but not panic. What has a checksum
//! is also encoded from fields that the bytes give: it must be read as it was, and changed be refused.
#![allow(unreachable_pub, reason = "reachable when fuzzing, where the crate exports it")]
#![expect(clippy::expect_used, clippy::panic, reason = "only tests and fuzzing run it")]

use std::path::Path;
use std::sync::Arc;

use super::Reader;
use super::block::Block;
use super::filter::Filter;
use super::footer::{Directory, FOOTER_BYTES, FORMAT, Footer, Parsed};
use super::frame::{Body, Frame};
use super::index::{IndexPartition, NEWEST};
use super::meta::FileMeta;
use crate::cache::{BlockCache, BlockOffset, FileId};
use crate::entry::Kind;
use crate::env::{Env, SimEnv};
use crate::error::{Damage, Error};
use crate::options::ReadMode;
use crate::reference::Reference;
use crate::varint::Decoder;

/// A stored block: its first byte chooses a key to look for in it.
pub fn fuzz_block(data: &[u8]) {
    if let Ok(frame) = Frame::parse(data) {
        let _ = frame.check(FileId::new(1), BlockOffset(0));
        let _ = frame.expand();
    }
    let Some((&len, payload)) = data.split_first() else { return };
    let key = payload.get(..usize::from(len)).unwrap_or_default();
    let _ = walk(payload, key);
}

fn walk(payload: &[u8], key: &[u8]) -> Result<(), Damage> {
    let block = Block::parse(payload)?;
    if let Some(entry) = block.find(key, NEWEST)? {
        assert!(entry.shared <= key.len());
    }
    for restart in 0..=block.restarts() {
        let _ = block.get_after(restart, key, NEWEST);
    }
    let mut at = 0;
    while at < block.end() {
        let entry = block.entry(at)?;
        let (_, value) = block.body(&entry)?;
        if entry.kind(value) == Kind::Reference {
            let _ = Reference::decode(value);
        }
        assert!(entry.next > at);
        at = entry.next;
    }
    Ok(())
}

/// An index partition, and a directory.
pub fn fuzz_index(data: &[u8]) {
    for format in 1..=FORMAT {
        let _ = Directory::decode(data, format);
    }
    let Ok(partition) = IndexPartition::parse(data) else { return };
    let _ = partition.find(data, NEWEST);
    for position in 0..partition.len() {
        let _ = partition.handle(position);
        let _ = partition.fence(position);
    }
}

/// A filter.
pub fn fuzz_filter(data: &[u8]) {
    if let Ok(filter) = Filter::parse(data) {
        for hash in [0, 1, u64::MAX] {
            let _ = filter.may_contain(hash);
        }
    }
}

/// A footer, and the end of a file: a footer with the fields that `data` gives, behind the directory
/// that it is, as it was written and changed.
pub fn fuzz_footer(data: &[u8]) {
    let _ = Footer::decode(data);
    // An input that ends early gives no footer.
    let mut input = Decoder::new(data);
    let _ = changed_footer(&mut input);
    let _ = changed_file(&mut input);
}

fn changed_footer(input: &mut Decoder<'_>) -> Result<(), Damage> {
    let footer = Footer {
        format: input.u8("a format")?.into(),
        file: FileId::new(input.varint("an id")?),
        directory: BlockOffset(input.varint("an offset")?),
        directory_len: input.u32("a length")?,
    };
    let mut bytes = footer.encode();
    assert_eq!(bytes.len(), FOOTER_BYTES);
    match Footer::decode(&bytes) {
        Ok(Parsed::Footer(found)) => assert_eq!(found, footer),
        Ok(Parsed::Unsupported(found)) => assert!(found == footer.format && found > FORMAT),
        Err(damage) => panic!("{footer:?} is refused: {damage:?}"),
    }
    let is_known = footer.format <= FORMAT;
    let longer = [&bytes[..], &[0]].concat();
    assert!(Footer::decode(&longer).is_err());
    let change = Change::read(input)?;
    // Of a later format, only what says so is looked at.
    if change.apply(&mut bytes) && is_known {
        assert!(Footer::decode(&bytes).is_err(), "{footer:?} with {change:?}");
    }
    Ok(())
}

/// A file of nothing but zeros, a directory, and a footer.
fn changed_file(input: &mut Decoder<'_>) -> Result<(), Damage> {
    let change = Change::read(input)?;
    let format = 1 + u32::from(input.u8("a format")?) % FORMAT;
    let mut directory = Directory::decode(input.rest(), format)?;
    let blocks = directory.data_blocks;
    if blocks > BODY_BYTES {
        return Ok(());
    }
    directory.meta.bytes = BODY_BYTES as u64;
    let encoded = directory.encode();
    let again = Directory::decode(&encoded, directory.format())?;
    assert_eq!((&again.meta, again.blocks()), (&directory.meta, directory.blocks()));
    assert_eq!(again.encode(), encoded);

    let id = directory.meta.id;
    let offset = BlockOffset(BODY_BYTES as u64);
    let mut bytes = vec![0; BODY_BYTES];
    Body::plain(&encoded).seal(id, offset, &mut bytes);
    let directory_len = (bytes.len() - BODY_BYTES) as u32;
    let footer = Footer { format: directory.format(), file: id, directory: offset, directory_len };
    bytes.extend(footer.encode());

    let mut meta = directory.meta;
    meta.bytes = bytes.len() as u64;
    assert_eq!(describe(&bytes, id).expect("a whole file"), meta);
    let (_, end) = bytes.split_at_mut(BODY_BYTES);
    if change.apply(end) {
        assert!(describe(&bytes, id).is_err(), "{meta:?} with {change:?}");
    }
    Ok(())
}

/// Bytes before the directory.
const BODY_BYTES: usize = 32;

fn describe(bytes: &[u8], id: FileId) -> Result<FileMeta, Error> {
    let (env, path) = (SimEnv::new(0), Path::new("/file.sst"));
    env.write_file(path, bytes);
    let cache = Arc::new(BlockCache::new(0));
    Reader::describe(&*env.disk(), path, id, cache, ReadMode::Pread)
}

/// Some bits in a row that change: as few are always noticed by a checksum.
#[derive(Debug)]
struct Change {
    at: u16,
    flips: [u8; 2],
}

impl Change {
    fn read(input: &mut Decoder<'_>) -> Result<Self, Damage> {
        let at = u16::from(input.u8("a place")?) << 8 | u16::from(input.u8("a place")?);
        Ok(Self { at, flips: [input.u8("flips")?, input.u8("flips")?] })
    }

    /// Whether anything is changed by it.
    fn apply(&self, bytes: &mut [u8]) -> bool {
        let at = usize::from(self.at) % bytes.len().max(1);
        let changed = bytes.iter_mut().skip(at).zip(self.flips);
        changed.fold(false, |is_changed, (byte, flip)| {
            *byte ^= flip;
            is_changed || flip != 0
        })
    }
}

/// A file's description in the manifest.
pub fn fuzz_file_meta(data: &[u8]) {
    let _ = FileMeta::decode(&mut Decoder::new(data));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_block(&data);
            fuzz_index(&data);
            fuzz_filter(&data);
            fuzz_footer(&data);
            fuzz_file_meta(&data);
        }
    }
}
