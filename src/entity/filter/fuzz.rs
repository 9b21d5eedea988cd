//! Filters on arbitrary texts and entities: parsing may refuse but not panic, and every way to
//! evaluate a filter agrees with the requirement's words.
#![cfg_attr(not(fuzzing), expect(unreachable_pub, reason = "reached from outside only by fuzzing"))]
#![expect(clippy::expect_used, reason = "only tests and fuzzing run it")]

use std::ops::RangeBounds;

use super::naive::passes;
use super::{CompiledFilter, Filter, StoredRow};
use crate::entity::Entity;
use crate::entity::codec::encode;
use crate::key::KeyBounds;
use crate::version::Version;

/// A text is refused at a place in it, or prints as a text that parses to the same filter.
pub fn fuzz_filter_parse(text: &str) {
    match Filter::parse(text) {
        Ok(filter) => {
            assert!(Filter::parse(&filter.to_string()).as_ref() == Ok(&filter), "{filter}");
            let _ = filter.explain().to_string();
        }
        Err(error) => {
            let after = error.column - 1 + error.length;
            assert!(error.column > 0 && after <= text.chars().count(), "{error}");
        }
    }
}

/// Evaluates a filter on entities, one after the other: compiled as a whole, and planned.
pub fn fuzz_filter_eval(filter: &Filter, entities: &[(Entity, Version)]) {
    let mut compiled = CompiledFilter::new(filter);
    let explain = filter.explain();
    let mut residual = explain.residual().map(CompiledFilter::new);
    for (entity, version) in entities {
        let Ok(bytes) = encode(entity) else { continue };
        let row = StoredRow {
            partition_key: entity.partition_key().as_bytes(),
            row_key: entity.row_key().as_bytes(),
            version: *version,
            bytes: &bytes,
        };
        let expected = passes(filter, entity, *version);
        assert_eq!(compiled.matches(row), Ok(expected), "{filter}: {row:?}");
        let left = residual.as_mut().map_or(Ok(true), |residual| residual.matches(row));
        let places = explain.places(row.partition_key, row.row_key);
        assert!(places <= 1, "{explain}: {row:?}");
        assert_eq!(places == 1 && left.expect("a row"), expected, "{explain}: {row:?}");
    }
}

impl super::Explain {
    /// In how many ranges of the plan a key is.
    pub(super) fn places(&self, partition_key: &[u8], row_key: &[u8]) -> usize {
        let ranges = self.ranges().iter().filter(|keys| within(partition_key, &keys.partition));
        ranges.map(|keys| keys.rows.iter().filter(|rows| within(row_key, rows)).count()).sum()
    }
}

fn within(key: &[u8], bounds: &KeyBounds) -> bool {
    let bounds = (bounds.0.as_ref().map(|b| &b[..]), bounds.1.as_ref().map(|b| &b[..]));
    RangeBounds::<[u8]>::contains(&bounds, key)
}
