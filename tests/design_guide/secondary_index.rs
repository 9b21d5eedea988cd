//! P-02, P-03: the same employee under two keys, in one partition or in two.

use tablestone::{
    Entity, EntityBatch, EntityError, EntityTable, Error, Plan, Precondition, Version,
};

use crate::support::{Depth, TestDb};
use crate::{filter, get, matching, page, page_row_keys, properties, row_keys, table};

const DEPARTMENT: &str = "Sales";

fn by_id(id: u32) -> String {
    format!("empid_{id:06}")
}

fn by_mail(mail: &str) -> String {
    format!("email_{mail}")
}

/// Both copies of an employee; that by e-mail does without the age.
fn copies(id: u32, mail: &str) -> (Entity, Entity) {
    let common = |row_key: String| {
        Entity::new(DEPARTMENT, row_key).with("EmployeeId", id as i32).with("Email", mail)
    };
    (common(by_id(id)).with("Age", 30 + id as i32 % 30), common(by_mail(mail)))
}

fn hire(employees: &EntityTable, id: u32, mail: &str) -> Result<Version, Error> {
    let (first, second) = copies(id, mail);
    let mut batch = EntityBatch::new(DEPARTMENT);
    batch.insert(&first).insert(&second);
    employees.commit(batch).wait()
}

/// Three operations: the row of the old address goes, one for the new comes, the other is updated.
fn change_mail(employees: &EntityTable, id: u32, old: &str, new: &str) -> Result<Version, Error> {
    let (_, second) = copies(id, new);
    let update = Entity::new(DEPARTMENT, by_id(id)).with("Email", new);
    let mut batch = EntityBatch::new(DEPARTMENT);
    batch
        .delete(by_mail(old), Precondition::Exists)
        .insert(&second)
        .merge(&update, Precondition::Exists);
    employees.commit(batch).wait()
}

/// 500 employees, whose addresses begin with every letter in turn.
fn department() -> (TestDb, EntityTable) {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    for id in 0..500 {
        hire(&employees, id, &address(id)).unwrap();
    }
    (db, employees)
}

fn address(id: u32) -> String {
    let letter = char::from(b'a' + (id % 26) as u8);
    format!("{letter}{id}@contoso.com")
}

/// Either key is a point query; ranges of either kind of RowKey cost what they return, inclusive
/// and exclusive ends included.
#[test]
fn p_02_either_key_finds_the_employee_in_one_look_up() {
    let (db, employees) = department();
    for depth in Depth::ALL {
        depth.settle(&db);
        for (row_key, has_age) in [(by_id(223), true), (by_mail(&address(223)), false)] {
            let text = format!("PartitionKey eq 'Sales' and RowKey eq '{row_key}'");
            let query = employees.query().filter(filter(&text));
            assert_eq!(query.explain().plan(), Plan::PointRead, "{text}");
            let page = query.page().unwrap();
            assert_eq!((page.len(), page.examined()), (1, 1), "{depth:?}: {text}");
            let found = &page.to_entities().unwrap()[0];
            assert_eq!(found.get_as("EmployeeId"), Some(223));
            assert_eq!(found.get("Age").is_some(), has_age, "the copy may leave properties out");
        }

        let text = "PartitionKey eq 'Sales' and RowKey ge 'empid_000100' and \
                    RowKey le 'empid_000199'";
        let range = page(&employees, text);
        assert_eq!((range.len(), range.examined()), (100, 100), "{depth:?}");
        assert_eq!(page_row_keys(&range)[99], "empid_000199", "the end is included");

        let text = "PartitionKey eq 'Sales' and RowKey ge 'email_a' and RowKey lt 'email_b'";
        let prefix = page(&employees, text);
        let expected = (0..500).filter(|id| id % 26 == 0).count();
        assert_eq!((prefix.len(), prefix.examined() as usize), (expected, expected), "{depth:?}");
        assert!(prefix.iter().all(|entity| entity.row_key().starts_with("email_a")));
    }
}

/// A change of address moves one row and updates the other in one transaction, or does nothing.
#[test]
fn p_02_both_copies_change_together_or_not_at_all() {
    let (_db, employees) = department();
    change_mail(&employees, 223, &address(223), "jonesj@contoso.com").unwrap();
    let first = get(&employees, DEPARTMENT, &by_id(223));
    let second = get(&employees, DEPARTMENT, &by_mail("jonesj@contoso.com"));
    assert_eq!(first.get_as("Email"), Some("jonesj@contoso.com"));
    assert_eq!(first.get_as("Age"), Some(30 + 223 % 30), "what is not updated stays");
    assert_eq!(first.version(), second.version(), "one transaction, one version");
    assert!(!employees.exists(DEPARTMENT, by_mail(&address(223))).unwrap());

    // The new address is somebody else's: nothing changes, and the error names the operation.
    let taken = change_mail(&employees, 224, &address(224), &address(7));
    assert!(matches!(taken, Err(Error::EntityExists { index: 1, .. })), "{taken:?}");
    assert!(employees.exists(DEPARTMENT, by_mail(&address(224))).unwrap());
    let kept = get(&employees, DEPARTMENT, &by_id(224));
    assert_eq!(kept.get_as("Email"), Some(address(224).as_str()));
}

/// A reader never sees one copy updated and not the other, whatever it comes between.
#[test]
fn p_02_no_reader_sees_copies_that_disagree() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    hire(&employees, 1, "a@contoso.com").unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mails = ["a@contoso.com", "b@contoso.com", "c@contoso.com"];
            for round in 0..600 {
                change_mail(&employees, 1, mails[round % 3], mails[(round + 1) % 3]).unwrap();
            }
        });
        let mut seen = std::collections::BTreeSet::new();
        while !writer.is_finished() || seen.is_empty() {
            let both = page(&employees, "PartitionKey eq 'Sales'").to_entities().unwrap();
            let [by_mail_copy, by_id_copy] = &both[..] else { panic!("{:?}", row_keys(&both)) };
            let mail = by_id_copy.get_as::<&str>("Email").unwrap();
            assert_eq!(by_mail_copy.row_key(), by_mail(mail));
            assert_eq!(by_mail_copy.get_as("Email"), Some(mail));
            assert_eq!(by_mail_copy.version(), by_id_copy.version());
            seen.insert(mail.to_owned());
        }
    });
}

/// The copies in partitions of their own: point and range queries on each.
fn hire_apart(employees: &EntityTable, id: u32, mail: &str) -> (Version, Version) {
    let (first, second) = copies_apart(id, mail);
    let first = employees.insert_or_replace(&first).wait().unwrap();
    (first, employees.insert_or_replace(&second).wait().unwrap())
}

fn copies_apart(id: u32, mail: &str) -> (Entity, Entity) {
    let with = |pk: &str, rk: String| Entity::new(pk, rk).with("Id", id as i32).with("Email", mail);
    (with("empid_Sales", format!("{id:06}")), with("email_Sales", mail.to_owned()))
}

#[test]
fn p_03_each_copy_has_a_partition_that_is_read_alone() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    for id in 0..300 {
        hire_apart(&employees, id, &address(id));
    }
    db.flush().unwrap();
    let point = page(&employees, "PartitionKey eq 'email_Sales' and RowKey eq 'p223@contoso.com'");
    assert_eq!((point.len(), point.examined()), (1, 1));
    let text = "PartitionKey eq 'empid_Sales' and RowKey ge '000100' and RowKey le '000199'";
    let range = page(&employees, text);
    assert_eq!((range.len(), range.examined()), (100, 100));
    let prefix =
        page(&employees, "PartitionKey eq 'email_Sales' and RowKey ge 'a' and RowKey lt 'b'");
    assert_eq!((prefix.len(), prefix.examined()), (12, 12));
}

/// Two partitions are two commits: a reader may come between them, no transaction spans them, and
/// doing the second late or both again makes the copies agree.
#[test]
fn p_03_copies_in_two_partitions_agree_only_in_the_end() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let (first, second) = copies_apart(223, "jonesj@contoso.com");

    let mut batch = EntityBatch::new("empid_Sales");
    batch.insert(&first).insert(&second);
    match employees.commit(batch).wait() {
        Err(Error::Entity { index: 1, source }) => {
            assert!(matches!(*source, EntityError::OtherPartition { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matching(&employees, "").is_empty(), "refused whole");

    let one = employees.insert_or_replace(&first).wait().unwrap();
    let between = db.snapshot();
    let two = employees.insert_or_replace(&second).wait().unwrap();
    assert!(one < two, "two commits are not presented as one");
    let seen = matching(&employees.at(&between).unwrap(), "");
    assert_eq!(row_keys(&seen), ["000223"], "a reader in between sees one copy");

    let before = matching(&employees, "");
    hire_apart(&employees, 223, "jonesj@contoso.com");
    let after = matching(&employees, "");
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(properties(before), properties(after), "doing it again changes nothing");
    }
}

/// Writers of different partitions do not get in each other's way: all succeed, all is there.
#[test]
fn p_03_partitions_are_written_in_parallel() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let employees = &employees;
            scope.spawn(move || {
                for id in (thread * 100)..(thread * 100 + 100) {
                    hire_apart(employees, id, &address(id));
                }
            });
        }
    });
    for partition in ["empid_Sales", "email_Sales"] {
        let ids = matching(&employees, &format!("PartitionKey eq '{partition}'"));
        let mut ids: Vec<_> = ids.iter().map(|e| e.get_as::<i32>("Id").unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..400).collect::<Vec<_>>(), "{partition}");
    }
}
