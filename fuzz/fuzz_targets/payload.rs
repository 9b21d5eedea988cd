//! The payload of a commit: applied whole or refused without a change.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tablestone::fuzzing::fuzz_payload(data));
