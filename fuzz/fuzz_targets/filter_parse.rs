//! The text of a `$filter`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| tablestone::fuzzing::fuzz_filter_parse(text));
