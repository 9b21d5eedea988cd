//! R-E11: entities as a snapshot has them, by every kind of read.

use tablestone::{Entity, Filter, Precondition};

use super::support::{Depth, TestDb};
use super::{content, entities};

#[test]
fn r_e11_a_snapshot_keeps_its_entities_whatever_is_written() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = entities(&db);
        let entity = |n: usize| Entity::new("p", format!("{n:02}")).with("N", n as i32);
        t.import((0..20).map(entity)).unwrap();
        let snapshot = db.snapshot();
        let then = t.at(&snapshot).unwrap();
        for n in 0..20 {
            match n % 3 {
                0 => t.delete("p", format!("{n:02}"), Precondition::Exists).wait(),
                1 => t.merge(&entity(n).with("N", "text"), Precondition::Exists).wait(),
                _ => t.replace(&entity(n).with("N", -1), Precondition::Exists).wait(),
            }
            .unwrap();
        }
        t.insert(&entity(99)).wait().unwrap();
        depth.settle(&db);

        let all: Vec<_> = then.query().entities().map(Result::unwrap).collect();
        assert_eq!(all.len(), 20);
        for (n, got) in all.iter().enumerate() {
            assert_eq!(content(got), content(&entity(n)));
            assert!(got.version().unwrap() <= snapshot.version());
            assert_eq!(then.get("p", got.row_key()).unwrap().as_ref(), Some(got));
        }
        let many = then.get_many("p", &["00", "99", "07"]).unwrap();
        assert_eq!(many.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
        let small = || Filter::property("N").lt(5).and(Filter::property("N").ge(0));
        assert_eq!(then.query().filter(small()).entities().count(), 5);
        assert_eq!(t.query().filter(Filter::property("N").eq(-1)).entities().count(), 6);
        // Each page of the snapshot is of the same version; those of the table are not.
        let versions: Vec<_> =
            then.query().limit(6).pages().map(|page| page.unwrap().version()).collect();
        assert_eq!(versions, [snapshot.version(); 4]);
    }
}

/// A query is of one version, whoever writes while its page is read.
#[test]
fn r_e11_an_entity_is_never_seen_half_merged() {
    let db = TestDb::new();
    let t = entities(&db);
    let both = |n: i32| Entity::new("p", "r").with("A", n).with("B", n);
    t.insert(&both(0)).wait().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1..400 {
                t.merge(&both(n), Precondition::Exists).wait().unwrap();
            }
        });
        while !writer.is_finished() {
            let entity = t.query().entities().next().unwrap().unwrap();
            assert_eq!(entity.get_as::<i32>("A"), entity.get_as("B"));
            let found = t.query().filter(Filter::property("A").ge(0)).page().unwrap();
            assert_eq!(found.len(), 1);
        }
    });
}
