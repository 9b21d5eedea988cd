//! The body of a write: what is taken is JSON to another reader too, and is printed as what reads
//! back the same. Lines as bodies that are decoded in turn are what each is alone.

#![no_main]

use tablestone::{Entity, Version};
use tablestone_server::headers::Metadata;
use tablestone_server::wire::json::{EntityDecoder, EntityPrinter, decode_entity};
use tablestone_server::wire::{Context, Select, Written};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    check_in_turn(data);
    let Ok(body) = decode_entity(data) else { return };
    let plain = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    check_json(plain);
    let entity = body.with_keys("p".to_owned(), "r".to_owned());
    if entity.validate().is_err() {
        return;
    }
    let text = print(&entity);
    check_json(&text);
    let again = decode_entity(&text).expect("our JSON is taken").with_own_keys().expect("keys");
    // Debug compares NaN with itself.
    assert_eq!(format!("{entity:?}"), format!("{again:?}"));
    assert_eq!(print(&again), text);
});

/// What a body is decoded as, value or error, is not for those before it to say.
fn check_in_turn(data: &[u8]) {
    let mut decoder = EntityDecoder::default();
    for body in data.split(|&byte| byte == b'\n') {
        let (in_turn, alone) = (decoder.decode(body), decode_entity(body));
        assert_eq!(format!("{in_turn:?}"), format!("{alone:?}"));
    }
}

/// By a reader that makes nothing of it: numbers may be out of any range, and names mean nothing.
fn check_json(text: &[u8]) {
    serde_json::from_slice::<&serde_json::value::RawValue>(text).expect("it is JSON");
}

fn print(entity: &Entity) -> Vec<u8> {
    let context = Context { base: "http://h/a", account: "a", table: "T" };
    let printer = EntityPrinter::new(context, Metadata::Full, &Select::ALL);
    let mut out = Vec::new();
    let written = Written { entity, version: Version::from_ticks(1) };
    printer.single(&mut out, &written).expect("a sound row");
    out
}
