//! The footer of a table file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_footer(data));
