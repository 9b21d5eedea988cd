//! The decoders of this room on arbitrary bytes: they may refuse, but not panic, and what they
//! accept must be the same in every way of reading it.
#![cfg_attr(not(fuzzing), expect(unreachable_pub, reason = "reached from outside only by fuzzing"))]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use super::codec::{EncodedRow, MergeError, Patch, Projection, PropertyName, Slot, encode};
use super::{DateTime, ETag, Entity, EntityLimits, EntityRef, Guid, IfMatch, RowError, ValueRef};
use crate::version::Version;

/// The first byte says where the rest is cut into two rows.
pub fn fuzz_entity_row(data: &[u8]) {
    let Some((&at, rest)) = data.split_first() else { return };
    let (a, b) = rest.split_at(rest.len() * usize::from(at) / 255);
    check_row(a);
    check_row(b);
    check_merge(a, b);
}

/// Texts of tags, dates and Guids.
pub fn fuzz_etag(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(IfMatch::Version(version)) = text.parse() {
            assert_eq!(ETag(version).to_string().parse(), Ok(IfMatch::Version(version)));
        }
        check_text::<DateTime>(text);
        check_text::<Guid>(text);
    }
    if let Some(&bytes) = data.first_chunk() {
        let version = Version::from_ticks(u64::from_le_bytes(bytes));
        let instant = DateTime::from(version);
        check_text::<DateTime>(&instant.to_string());
        let tag = ETag(version).to_string().parse();
        assert_eq!(tag, Ok(IfMatch::Version(Version::from_ticks(instant.ticks()))));
    }
}

fn check_text<T: FromStr + Display + Debug + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>().ok(), Some(value));
    }
}

fn view(row: &[u8]) -> Result<EntityRef<'_>, RowError> {
    EntityRef::new(b"p", b"r", Version::ZERO, row)
}

/// Reads a row in every way.
pub(super) fn check_row(row: &[u8]) {
    let Ok(view) = view(row) else { return };
    let _ = format!("{view:?}");
    for (name, _) in view.properties().flatten() {
        let _ = view.get(name);
    }
    let _ = view.get("Name");
    let mut values = Vec::new();
    let shown = view.each_value(&mut values);
    assert!(shown.is_err() || values.len() == view.len());
    for (property, value) in view.properties().zip(values) {
        // Its name may be damaged.
        assert!(
            property.is_err() || property.is_ok_and(|(_, found)| same(Some(found), Some(value)))
        );
    }
    let Ok(entity) = view.to_entity() else { return };
    assert_eq!(entity.len(), view.len());
    for (name, value) in entity.properties() {
        assert!(same(view.get(name).ok().flatten(), Some(value.borrowed())));
    }
    check_projection(row, &entity);
    if let Ok(again) = encode(&entity) {
        assert_same(&decoded(&again), &entity);
    }
}

fn decoded(row: &[u8]) -> Entity {
    match view(row).and_then(|view| view.to_entity()) {
        Ok(entity) => entity,
        Err(error) => unreachable!("{error} in a row that was just made"),
    }
}

/// A projection on every second property, twice, so that hints are used.
fn check_projection(row: &[u8], entity: &Entity) {
    let Ok(row) = EncodedRow::parse(row) else { return };
    let mut projection = Projection::new(entity.properties().step_by(2).map(|(name, _)| name));
    for _ in 0..2 {
        let mut out = Vec::new();
        assert_eq!(projection.push(&row, &mut out), Ok(()));
        let chosen = decoded(&out);
        assert_eq!(chosen.len(), entity.len().div_ceil(2));
        for (name, value) in chosen.properties() {
            assert!(same(Some(value.borrowed()), entity.get(name).map(Into::into)));
        }
    }
    for (at, (name, _)) in entity.properties().enumerate() {
        let found = row.find(&PropertyName::new(name), &mut Slot::default());
        assert_eq!(found.ok().flatten(), row.slots().nth(at));
    }
}

/// Merges `patch` into `row`; if both are entities, as the decoded ones merge.
pub(super) fn check_merge(row: &[u8], patch: &[u8]) {
    let Ok(patch) = view(patch).and_then(|view| view.to_entity()) else { return };
    let limits = EntityLimits::default();
    let Ok(sealed) = Patch::new(&patch, &limits) else { return };
    let merged = sealed.apply(Some(row), &limits);
    let Ok(old) = view(row).and_then(|view| view.to_entity()) else { return };
    let mut expected = old;
    for (name, value) in patch.properties() {
        expected.set(name, value.clone());
    }
    match merged {
        Ok(merged) => assert_same(&decoded(&merged), &expected),
        Err(MergeError::Entity(_)) => assert!(expected.validate().is_err()),
        Err(MergeError::Row(error)) => unreachable!("{error} in a row that decodes"),
    }
}

fn assert_same(a: &Entity, b: &Entity) {
    assert_eq!(a.len(), b.len());
    for ((name_a, a), (name_b, b)) in a.properties().zip(b.properties()) {
        assert!(name_a == name_b && same(Some(a.into()), Some(b.into())));
    }
}

/// Equal, or both NaN of the same bits.
fn same(a: Option<ValueRef<'_>>, b: Option<ValueRef<'_>>) -> bool {
    match (a, b) {
        (Some(ValueRef::Double(a)), Some(ValueRef::Double(b))) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_entity_row(&data);
            fuzz_etag(&data);
        }
    }
}
