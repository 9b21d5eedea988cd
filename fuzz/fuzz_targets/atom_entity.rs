//! The Atom entry of a write: what is taken is printed as what is taken again.

#![no_main]

use tablestone::{DateTime, Version};
use tablestone_server::wire::atom::{AtomPrinter, parse_entity};
use tablestone_server::wire::{Context, Select, Written};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(body) = parse_entity(data) else { return };
    let entity = body.with_keys("p".to_owned(), "r".to_owned());
    if entity.validate().is_err() {
        return;
    }
    let context = Context { base: "http://h/a", account: "a", table: "T" };
    let printer = AtomPrinter::new(context, DateTime::MIN, &Select::ALL);
    let mut out = Vec::new();
    let written = Written { entity: &entity, version: Version::from_ticks(1) };
    printer.single(&mut out, &written).expect("a sound row");
    let again = parse_entity(&out).expect("our Atom is taken").with_own_keys().expect("keys");
    assert_eq!(format!("{entity:?}"), format!("{again:?}"));
});
