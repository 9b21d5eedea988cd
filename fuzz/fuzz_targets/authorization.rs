//! Any Authorization header, or any signature in the query string: refused, and never a panic. No
//! input can be signed with a key that is not in it.

#![no_main]

use std::time::{Duration, SystemTime};

use arbitrary::Arbitrary;
use http::{HeaderMap, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use tablestone_server::address::{Place, QueryString};
use tablestone_server::auth::{Account, Signed, SigningKey};
use tablestone_server::wire::xml::SignedIdentifier;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    authorization: Option<&'a [u8]>,
    date: Option<&'a [u8]>,
    path: &'a str,
    query: &'a str,
    seconds: u64,
    peer: Option<[u8; 4]>,
    secure: bool,
}

fuzz_target!(|input: Input<'_>| {
    let Ok(query) = QueryString::parse(input.query) else {
        return;
    };
    let Ok(place) = Place::of(Some("localhost"), input.path, |_| false) else {
        return;
    };
    let mut headers = HeaderMap::new();
    for (name, value) in [("authorization", input.authorization), ("x-ms-date", input.date)] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value).ok()) {
            headers.insert(name, value);
        }
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(input.seconds >> 24);
    let request = Signed {
        method: &Method::GET,
        path: input.path,
        query: &query,
        headers: &headers,
        place: &place,
        peer: input.peer.map(Into::into),
        secure: input.secure,
        now,
    };
    let key = SigningKey::parse("c2VjcmV0").expect("base64");
    let account = Account::new("acct", vec![key]);
    let policy = SignedIdentifier { id: "p".into(), start: None, expiry: None, permission: None };
    let policies = |_: &str| Some([policy]);
    assert!(request.authenticate(&account, policies).is_err());
});
