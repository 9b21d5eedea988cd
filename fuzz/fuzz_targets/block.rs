//! A stored data block.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_block(data));
