//! A log segment, replayed: arbitrary bytes are refused or give whole records.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_replay(data));
