//! The description of a table file in the manifest.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_file_meta(data));
