//! The body of a batch: whatever comes is answered, and what is taken lies within the body, in
//! order.

#![no_main]

use tablestone_server::wire::batch::{Batch, parse};

const LIMIT: usize = 5;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let requests = match parse("multipart/mixed; boundary=b", data, LIMIT) {
        Ok(Batch::ChangeSet(requests)) => requests,
        Ok(Batch::Query(query)) => vec![query],
        Ok(Batch::Nothing) => Vec::new(),
        Err(error) => {
            assert!(error.offset <= data.len());
            return;
        }
    };
    assert!(requests.len() <= LIMIT);
    let start = data.as_ptr() as usize;
    let mut end = start;
    for request in requests {
        assert!(!request.method.is_empty() && !request.target.is_empty());
        // A request line that is that of the part before may be the one there.
        let method = request.method.as_ptr() as usize;
        let body = request.body.as_ptr() as usize;
        assert!(start <= method && method < body && end < body);
        end = body + request.body.len();
    }
    assert!(end <= start + data.len());
});
