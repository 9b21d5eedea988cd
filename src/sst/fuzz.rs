//! The decoders of this room on arbitrary bytes: they may refuse, but not panic.
#![allow(unreachable_pub, reason = "reachable when fuzzing, where the crate exports it")]

use super::block::Block;
use super::filter::Filter;
use super::footer::{Directory, FORMAT, Footer};
use super::frame::Frame;
use super::index::{IndexPartition, NEWEST};
use super::meta::FileMeta;
use crate::cache::{BlockOffset, FileId};
use crate::entry::Kind;
use crate::error::Damage;
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

/// A footer.
pub fn fuzz_footer(data: &[u8]) {
    let _ = Footer::decode(data);
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
