//! Two stored entities, read in every way and merged.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_entity_row(data));
