//! Texts of ETags, dates and Guids.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_etag(data));
