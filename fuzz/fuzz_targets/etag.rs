//! Texts of ETags, dates, Guids and continuations.

#![no_main]

use tablestone::Continuation;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tablestone::fuzzing::fuzz_etag(data);
    let text = str::from_utf8(data).unwrap_or_default();
    if let Ok(continuation) = text.parse::<Continuation>() {
        assert_eq!(continuation.to_string(), text);
    }
});
