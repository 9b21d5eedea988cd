//! A filter.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_filter(data));
