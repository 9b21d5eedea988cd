//! Any host, path and query string: an address or an error, never a panic; and the address that the
//! server gives for an entity means that entity.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tablestone_server::address::{Address, Parameter, QueryString, Resource, push_entity_address};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    host: Option<&'a str>,
    path: &'a str,
    query: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    if let Ok(query) = QueryString::parse(input.query) {
        for parameter in Parameter::ALL {
            let _ = query.given(*parameter);
        }
    }
    let Ok(address) = Address::parse(input.host, input.path, |name| name.len() == 4) else {
        return;
    };
    assert!(!address.account.is_empty());
    let Resource::Entity { table, partition_key, row_key } = &address.resource else {
        return;
    };
    let mut again = String::from("/acct/");
    // A table's name is not encoded: those that can exist need no encoding.
    push_entity_address(&mut again, "t", partition_key, row_key);
    let again = Address::parse(Some("localhost"), &again, |_| false).expect("the server's own");
    let (table_again, keys) = match again.resource {
        Resource::Entity { table, partition_key, row_key } => (table, (partition_key, row_key)),
        other => panic!("{other:?}"),
    };
    assert_eq!(table_again, "t");
    assert_eq!((&keys.0, &keys.1), (partition_key, row_key), "{table}");
});
