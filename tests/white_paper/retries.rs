//! U-16: a client that never heard the answer tries again (§9.6.1, §9.6.2).

use tablestone::{Entity, EntityTable, Error, Precondition, Version};

use crate::support::TestDb;
use crate::support::sim::CRASH_STYLES;
use crate::world::{get, machine, open, table};

fn blog(text: &str) -> Entity {
    let entity = Entity::new("Channel9", "Oct-29");
    ["A", "B", "C"].into_iter().fold(entity, |entity, name| entity.with(name, text))
}

/// The text that all properties have; anything else is a mixture.
fn text(entity: &Entity) -> String {
    let texts: Vec<&str> =
        entity.properties().filter_map(|(name, _)| entity.get_as(name)).collect();
    assert_eq!(texts, [texts[0]; 3], "a mixture");
    texts[0].to_owned()
}

/// W-260: after a success that it did not hear of, a client is told what it did.
#[test]
fn u_16_what_was_done_already_is_told_to_those_who_try_again() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    let first = blogs.insert(&blog("old")).wait().unwrap();
    let again = blogs.insert(&blog("old")).wait();
    let Err(Error::EntityExists { index: 0, version }) = again else { panic!("{again:?}") };
    assert_eq!(version, first, "which may be its own");

    let second = blogs.replace(&blog("new"), Precondition::Version(first)).wait().unwrap();
    let again = blogs.replace(&blog("new"), Precondition::Version(first)).wait();
    let Err(Error::VersionMismatch { found, .. }) = again else { panic!("{again:?}") };
    assert_eq!(found, second);
    assert_eq!(text(&get(&blogs, "Channel9", "Oct-29")), "new");

    blogs.delete("Channel9", "Oct-29", Precondition::Exists).wait().unwrap();
    let again = blogs.delete("Channel9", "Oct-29", Precondition::Exists).wait();
    assert!(matches!(again, Err(Error::EntityNotFound { index: 0 })), "{again:?}");
    // W-192: the version of a deleted entity is none of a new one in its place.
    blogs.insert(&blog("newer")).wait().unwrap();
    let stale = blogs.delete("Channel9", "Oct-29", Precondition::Version(second)).wait();
    assert!(matches!(stale, Err(Error::VersionMismatch { .. })), "{stale:?}");
}

/// W-258, W-259: to stop waiting for a write does not undo it. A read that follows has the old value
/// or the new one; a second try succeeds, or hears that the first one did.
#[test]
fn u_16_a_write_that_nobody_waits_for_is_done_whole() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    let mut version = blogs.insert(&blog("0")).wait().unwrap();
    for n in 1..200 {
        let (old, new) = ((n - 1).to_string(), n.to_string());
        drop(blogs.replace(&blog(&new), Precondition::Version(version)));
        let read = get(&blogs, "Channel9", "Oct-29");
        let found = text(&read);
        assert!(found == old || found == new, "{found}");
        match blogs.replace(&blog(&new), Precondition::Version(read.version().unwrap())).wait() {
            Ok(second) => version = second,
            Err(Error::VersionMismatch { found: first, .. }) => {
                assert_eq!(found, old, "it was shown the new one, and nobody else writes");
                version = first;
            }
            Err(error) => panic!("{error}"),
        }
        let read = get(&blogs, "Channel9", "Oct-29");
        assert_eq!((text(&read), read.version()), (new, Some(version)));
    }
}

/// What a client does, with the version of the entity as it was before.
type Request = fn(&EntityTable, Version) -> tablestone::Result<Version>;

/// W-259, W-260: with the power gone at any point of it and back again, a request was done wholly
/// or not at all, and a second try says which.
#[test]
fn u_16_after_a_crash_the_entity_is_old_or_new_and_a_second_try_says_which() {
    let replace: Request =
        |blogs, version| blogs.replace(&blog("new"), Precondition::Version(version)).wait();
    let delete: Request =
        |blogs, version| blogs.delete("Channel9", "Oct-29", Precondition::Version(version)).wait();
    let insert: Request =
        |blogs, _| blogs.insert(&Entity::new("Channel9", "Oct-30").with("A", "new")).wait();
    for style in CRASH_STYLES {
        for (name, request) in [("replace", replace), ("delete", delete), ("insert", insert)] {
            for operations in 0.. {
                let (env, options) = machine(operations);
                let blogs = table(&open(&options).unwrap(), "Blogs");
                let version = blogs.insert(&blog("old")).wait().unwrap();
                env.crash_after(operations);
                let outcome = request(&blogs, version);
                drop(blogs);
                env.crash(style);

                let blogs = table(&open(&options).unwrap(), "Blogs");
                let entity = blogs.get("Channel9", "Oct-29").unwrap();
                let is_done = match name {
                    "replace" => text(&entity.unwrap()) == "new",
                    "delete" => entity.is_none(),
                    _ => blogs.exists("Channel9", "Oct-30").unwrap(),
                };
                let context = format!("{style:?}: {name} cut after {operations}: {outcome:?}");
                assert!(is_done || outcome.is_err(), "{context}: acknowledged, and lost");
                let again = request(&blogs, version);
                match (is_done, name, &again) {
                    (false, _, Ok(_))
                    | (true, "replace", Err(Error::VersionMismatch { .. }))
                    | (true, "delete", Err(Error::EntityNotFound { .. }))
                    | (true, "insert", Err(Error::EntityExists { .. })) => {}
                    _ => panic!("{context}; again: {again:?}"),
                }
                if outcome.is_ok() {
                    assert!(operations > 0, "{name}: the power never went");
                    break;
                }
            }
        }
    }
}
