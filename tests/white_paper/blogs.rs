//! U-02, U-03: a table of blogs (§4.2 to §4.8), and two who change one blog at a time (§5).

use std::thread;

use tablestone::{Entity, EntityTable, Error, IfMatch, Plan, Precondition};

use crate::support::{Depth, TestDb};
use crate::world::{everything, filter, get, keys, page, table};

fn blog(channel: &str, day: &str, text: &str, rating: i32) -> Entity {
    Entity::new(channel, day).with("Text", text).with("Rating", rating)
}

/// The header `If-Match` of a client that read an entity.
fn if_match(read: &Entity) -> Precondition {
    let header = read.etag().unwrap().to_string();
    header.parse::<IfMatch>().unwrap().into()
}

/// U-02: create, insert, list, query a property, get, update, delete.
#[test]
fn u_02_blogs_are_created_read_updated_and_deleted() {
    let db = TestDb::new();
    assert!(matches!(db.table("Blogs"), Err(Error::TableNotFound(_))));
    let blogs = db.create_table("Blogs").wait().unwrap().entities();
    assert_eq!(db.tables(None, 10).unwrap().names, ["Blogs"]);

    let inserted = blogs.insert(&blog("Channel9", "Oct-29", "Hello cloud", 3)).wait().unwrap();
    let read = get(&blogs, "Channel9", "Oct-29");
    assert_eq!((read.version(), read.len()), (Some(inserted), 2));
    assert_eq!((read.get_as("Text"), read.get_as("Rating")), (Some("Hello cloud"), Some(3)));
    let listed = everything(&blogs);
    assert_eq!(listed, [read]);

    // An update of the text is a merge: the rating stays.
    let changed = Entity::new("Channel9", "Oct-29").with("Text", "Hello again");
    let updated = blogs.merge(&changed, Precondition::Exists).wait().unwrap();
    assert!(updated > inserted);
    let read = get(&blogs, "Channel9", "Oct-29");
    assert_eq!((read.get_as("Text"), read.get_as("Rating")), (Some("Hello again"), Some(3)));

    blogs.delete("Channel9", "Oct-29", Precondition::Exists).wait().unwrap();
    assert_eq!(blogs.get("Channel9", "Oct-29").unwrap(), None);
    assert_eq!(everything(&blogs), []);
}

/// U-02: a rating is found in the whole table, keys at the cost of one look-up (W-066, W-133).
#[test]
fn u_02_a_rating_is_looked_for_in_every_partition_and_a_key_in_one_place() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let blogs = table(&db, "Blogs");
        let all = (0..400).map(|n| {
            let (channel, day) = (format!("Channel{}", n % 8), format!("{:03}", n / 8));
            blog(&channel, &day, "some text", n % 5)
        });
        let mut rated_3: Vec<_> = all
            .clone()
            .filter(|entity| entity.get_as("Rating") == Some(3))
            .map(|entity| format!("{}/{}", entity.partition_key(), entity.row_key()))
            .collect();
        rated_3.sort_unstable();
        for entity in all {
            blogs.insert(&entity).wait().unwrap();
        }
        depth.settle(&db);
        let found = page(&blogs, "Rating eq 3");
        assert_eq!(keys(&found), rated_3, "{depth:?}");
        assert_eq!((found.len(), found.examined()), (80, 400), "{depth:?}");

        let one = "PartitionKey eq 'Channel3' and RowKey eq '010'";
        let query = blogs.query().filter(filter(one));
        assert_eq!(query.explain().plan(), Plan::PointRead);
        let found = query.page().unwrap();
        assert_eq!((keys(&found), found.examined()), (vec!["Channel3/010".into()], 1));
        assert!(page(&blogs, "PartitionKey eq 'Channel3' and RowKey eq '999'").is_empty());
    }
}

/// U-03: of two clients that read the same version, the one that writes second must read again.
#[test]
fn u_03_the_second_of_two_who_read_one_version_has_to_read_again() {
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    blogs.insert(&blog("Channel9", "Oct-29", "Hello", 3)).wait().unwrap();
    let first = get(&blogs, "Channel9", "Oct-29");
    let second = get(&blogs, "Channel9", "Oct-29");
    assert_eq!(if_match(&first), if_match(&second));

    let by_first = first.clone().with("Rating", 4);
    let v2 = blogs.replace(&by_first, if_match(&first)).wait().unwrap();
    let by_second = second.clone().with("Text", "Goodbye");
    for late in [
        blogs.replace(&by_second, if_match(&second)).wait(),
        blogs.merge(&by_second, if_match(&second)).wait(),
        // W-186: deletes too.
        blogs.delete("Channel9", "Oct-29", if_match(&second)).wait(),
    ] {
        let Err(Error::VersionMismatch { index: 0, expected, found }) = late else {
            panic!("not a mismatch: {late:?}");
        };
        assert_eq!((Some(expected), found), (second.version(), v2));
    }
    let unharmed = get(&blogs, "Channel9", "Oct-29");
    assert_eq!((unharmed.get_as("Text"), unharmed.get_as("Rating")), (Some("Hello"), Some(4)));

    // It reads again, applies its change to that, and succeeds.
    let again = unharmed.clone().with("Text", "Goodbye");
    let v3 = blogs.replace(&again, if_match(&unharmed)).wait().unwrap();
    let now = get(&blogs, "Channel9", "Oct-29");
    assert_eq!((now.get_as("Text"), now.get_as("Rating")), (Some("Goodbye"), Some(4)));
    assert!(now.version() == Some(v3) && v3 > v2);

    // `If-Match: *` writes whatever the version is (W-187), but not what does not exist (W-188).
    let any: Precondition = "*".parse::<IfMatch>().unwrap().into();
    blogs.replace(&by_second, any).wait().unwrap();
    assert_eq!(get(&blogs, "Channel9", "Oct-29").get_as("Rating"), Some(3));
    let absent = blogs.replace(&blog("Channel9", "Oct-30", "", 0), any).wait();
    assert!(matches!(absent, Err(Error::EntityNotFound { index: 0 })), "{absent:?}");
}

/// Reads, adds one and writes if nobody did in between, until that succeeds.
fn add_one(blogs: &EntityTable) {
    loop {
        let read = get(blogs, "Channel9", "Oct-29");
        let rating: i32 = read.get_as("Rating").unwrap();
        match blogs.replace(&read.clone().with("Rating", rating + 1), if_match(&read)).wait() {
            Ok(_) => return,
            Err(Error::VersionMismatch { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// U-03, its stress form: no increment is lost (W-185).
#[test]
fn u_03_ratings_that_many_raise_at_once_lose_no_vote() {
    const THREADS: i32 = 4;
    const VOTES: i32 = 100;
    let db = TestDb::new();
    let blogs = table(&db, "Blogs");
    blogs.insert(&blog("Channel9", "Oct-29", "Hello", 0)).wait().unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..VOTES).for_each(|_| add_one(&blogs)));
        }
    });
    assert_eq!(get(&blogs, "Channel9", "Oct-29").get_as("Rating"), Some(THREADS * VOTES));
}
