//! R-D08: ETags as text, out of a read and into a condition.

use tablestone::{ETag, Entity, Error, IfMatch, Precondition, Version};

use super::entities;
use super::support::TestDb;

fn entity(n: i32) -> Entity {
    Entity::new("p", "r").with("N", n)
}

fn condition(tag: &str) -> Precondition {
    tag.parse::<IfMatch>().unwrap().into()
}

#[test]
fn r_d08_the_tag_that_was_read_is_the_condition_to_write() {
    let db = TestDb::new();
    let t = entities(&db);
    let version = t.insert(&entity(1)).wait().unwrap();
    let tag = t.get("p", "r").unwrap().unwrap().etag().unwrap();
    assert_eq!(tag, ETag(version));
    let text = tag.to_string();
    t.replace(&entity(2), condition(&text)).wait().unwrap();
    let late = t.merge(&entity(3), condition(&text)).wait();
    assert!(matches!(late, Err(Error::VersionMismatch { .. })), "{late:?}");
    // The tag that a page shows is the same as that of a point read.
    let page = t.query().page().unwrap();
    let shown = page.iter().next().unwrap().etag();
    assert_eq!(Some(shown), t.get("p", "r").unwrap().unwrap().etag());
    t.delete("p", "r", condition(&shown.to_string().replace("%3A", ":"))).wait().unwrap();
}

#[test]
fn r_d08_a_star_is_any_version_and_a_foreign_tag_none() {
    let db = TestDb::new();
    let t = entities(&db);
    let missing = t.merge(&entity(1), condition("*")).wait();
    assert!(matches!(missing, Err(Error::EntityNotFound { .. })), "{missing:?}");
    let missing = t.merge(&entity(1), condition("W/\"other\"")).wait();
    assert!(matches!(missing, Err(Error::EntityNotFound { .. })), "{missing:?}");
    t.insert(&entity(1)).wait().unwrap();
    t.merge(&entity(2), condition("*")).wait().unwrap();
    let foreign = t.merge(&entity(3), condition("W/\"other\"")).wait();
    assert!(
        matches!(foreign, Err(Error::VersionMismatch { expected: Version::ZERO, .. })),
        "{foreign:?}"
    );
    assert_eq!(t.get("p", "r").unwrap().unwrap().get_as("N"), Some(2));
}
