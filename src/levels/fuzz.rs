//! Entry points for fuzzing the manifest: any bytes are read or refused, never a panic.
#![cfg_attr(not(fuzzing), expect(unreachable_pub, reason = "reached from outside only by fuzzing"))]

use std::path::PathBuf;

use super::edit::{Edit, Inventory};
use super::manifest::{MANIFEST_MAGIC, ManifestId, encode_header, encode_record};
use super::recover::parse_manifest;
use crate::options::Recovery;

/// Reads `data` as an edit, as the records of a manifest, and as a record that was synced.
pub fn fuzz_manifest(data: &[u8]) {
    let id = ManifestId(1);
    let header = encode_header(MANIFEST_MAGIC, id.0);
    let parse = |records: &[u8]| {
        for mode in [Recovery::Strict, Recovery::Salvage] {
            let bytes = [&header[..], records].concat();
            let _ = parse_manifest(&bytes, id, PathBuf::from("MANIFEST-000001"), mode);
        }
    };
    parse(data);
    if let Ok(edit) = Edit::decode(data) {
        assert_eq!(Edit::decode(&edit.encode()).ok(), Some(edit.clone()));
        parse(&[encode_record(id, 0, &edit), encode_record(id, 1, &edit)].concat());
        let _ = Inventory::new().apply(edit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            fuzz_manifest(&data);
            fuzz_manifest(&[&[1], &*data].concat());
        }
    }
}
