//! The body of a write: what is taken is JSON to another reader too, and is printed as what reads
//! back the same.

#![no_main]

use tablestone::{Entity, Version};
use tablestone_server::headers::Metadata;
use tablestone_server::wire::json::{EntityPrinter, decode_entity};
use tablestone_server::wire::{Context, Select, Written};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(body) = decode_entity(data) else { return };
    let plain = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(plain) {
        // That reader makes a value of every number, also of those that we pass over.
        assert_eq!(error.to_string().split(" at ").next(), Some("number out of range"), "{error}");
    }
    let entity = body.with_keys("p".to_owned(), "r".to_owned());
    if entity.validate().is_err() {
        return;
    }
    let text = print(&entity);
    serde_json::from_slice::<serde_json::Value>(&text).expect("our JSON is JSON");
    let again = decode_entity(&text).expect("our JSON is taken").with_own_keys().expect("keys");
    // Debug compares NaN with itself.
    assert_eq!(format!("{entity:?}"), format!("{again:?}"));
    assert_eq!(print(&again), text);
});

fn print(entity: &Entity) -> Vec<u8> {
    let context = Context { base: "http://h/a", account: "a", table: "T" };
    let printer = EntityPrinter::new(context, Metadata::Full, &Select::ALL);
    let mut out = Vec::new();
    let written = Written { entity, version: Version::from_ticks(1) };
    printer.single(&mut out, &written).expect("a sound row");
    out
}
