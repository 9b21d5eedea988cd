//! P-01: employees and departments in one table, and the four kinds of query on it.

use tablestone::{Entity, EntityTable, Plan, Version};

use crate::support::{Depth, TestDb};
use crate::{filter, get, matching, page, page_row_keys, table};

fn employee(department: &str, id: &str, first: &str, last: &str, age: i32, mail: &str) -> Entity {
    Entity::new(department, id)
        .with("FirstName", first)
        .with("LastName", last)
        .with("Age", age)
        .with("Email", mail)
}

/// The guide's four rows, the department's written first; their versions in that order.
fn write_sample(employees: &EntityTable) -> Vec<Version> {
    let department = Entity::new("Marketing", "Department")
        .with("DepartmentName", "Marketing")
        .with("EmployeeCount", 153);
    let rows = [
        department,
        employee("Marketing", "00001", "Don", "Hall", 34, "donh@contoso.com"),
        employee("Marketing", "00002", "Jun", "Cao", 47, "junc@contoso.com"),
        employee("Sales", "00010", "Ken", "Kwok", 23, "kenk@contoso.com"),
    ];
    rows.iter().map(|row| employees.insert(row).wait().unwrap()).collect()
}

/// Rows of two shapes in key order, digits before letters, whatever the order they were written
/// in; each with a Timestamp of its own.
#[test]
fn p_01_rows_of_two_kinds_are_in_key_order_and_dated_by_their_writes() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let employees = table(&db, "Employee");
        let written = write_sample(&employees);
        depth.settle(&db);
        let all = matching(&employees, "");
        let keys: Vec<_> = all.iter().map(|e| (e.partition_key(), e.row_key())).collect();
        let expected = [
            ("Marketing", "00001"),
            ("Marketing", "00002"),
            ("Marketing", "Department"),
            ("Sales", "00010"),
        ];
        assert_eq!(keys, expected, "{depth:?}");
        let versions: Vec<_> = all.iter().map(|e| e.version().unwrap()).collect();
        assert_eq!(versions, [written[1], written[2], written[0], written[3]]);
        assert!(written.is_sorted_by(|a, b| a < b), "Timestamps are in the order of the writes");
        assert_eq!((all[0].len(), all[2].len()), (4, 2), "each row has its own properties");
        assert_eq!(all[2].get_as("EmployeeCount"), Some(153));
    }
}

/// A Timestamp that a client sends is not stored, and every write makes a new one (G-006, G-007).
#[test]
fn p_01_the_timestamp_is_the_systems() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let written = write_sample(&employees);
    let forged = get(&employees, "Sales", "00010").with("Timestamp", tablestone::DateTime::MAX);
    let rewritten = employees.insert_or_replace(&forged).wait().unwrap();
    let stored = get(&employees, "Sales", "00010");
    assert!(rewritten > written[3]);
    assert_eq!((stored.version(), stored.len()), (Some(rewritten), 4));
    assert_eq!(stored.timestamp(), Some(rewritten.into()));
}

const DEPARTMENTS: usize = 12;
const EMPLOYEES: usize = 100;

/// Departments of employees `000` to `099`, every tenth of whom is called Smith.
fn company() -> (TestDb, EntityTable) {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let rows = (0..DEPARTMENTS).flat_map(|department| {
        (0..EMPLOYEES).map(move |id| {
            let last = if id % 10 == 0 { "Smith" } else { "Jones" };
            let (department, id) = (format!("dept-{department:02}"), format!("{id:03}"));
            employee(&department, &id, "Ann", last, 40, &format!("{id}@contoso.com"))
        })
    });
    employees.import(rows).unwrap();
    (db, employees)
}

/// Point, range, partition and table queries each cost what the guide ranks them by: an entity,
/// the range, the partition, the table (G-060 to G-066).
#[test]
fn p_01_the_four_queries_cost_what_they_are_ranked_by() {
    let (db, employees) = company();
    for depth in Depth::ALL {
        depth.settle(&db);
        let cases = [
            ("PartitionKey eq 'dept-03' and RowKey eq '042'", Plan::PointRead, 1, 1),
            (
                "PartitionKey eq 'dept-03' and RowKey ge '020' and RowKey lt '030'",
                Plan::RowRange,
                10,
                10,
            ),
            ("PartitionKey eq 'dept-03' and LastName eq 'Smith'", Plan::Partition, 10, EMPLOYEES),
            ("LastName eq 'Smith'", Plan::TableScan, 10 * DEPARTMENTS, DEPARTMENTS * EMPLOYEES),
        ];
        for (text, plan, found, examined) in cases {
            assert_eq!(employees.query().filter(filter(text)).explain().plan(), plan, "{text}");
            let page = page(&employees, text);
            assert_eq!(page.len(), found, "{text}");
            assert_eq!(page.continuation(), None);
            assert_eq!(page.examined() as usize, examined, "{depth:?}: {text}");
        }
        // A missing entity is an answer, in both forms of a point query.
        assert_eq!(employees.get("dept-03", "999").unwrap(), None);
        let none = page(&employees, "PartitionKey eq 'dept-03' and RowKey eq '999'");
        assert!(none.is_empty() && none.continuation().is_none());
    }
}

/// A RowKey alone is a table scan by the guide; here it costs the partitions, not the rows.
#[test]
fn p_01_a_row_key_without_partition_key_is_looked_for_in_every_partition() {
    let (db, employees) = company();
    db.flush().unwrap();
    let page = page(&employees, "RowKey eq '042'");
    assert_eq!(page.len(), DEPARTMENTS);
    assert!(page.iter().all(|entity| entity.row_key() == "042"));
    let each = page.examined() as usize / DEPARTMENTS;
    assert!(each <= 10, "{each} keys examined per partition of {EMPLOYEES}");
}

/// `or` over RowKeys gives the right entities in key order; the guide warns of a partition scan,
/// here each is looked up (G-067).
#[test]
fn p_01_or_over_row_keys_is_answered_by_look_ups() {
    let (db, employees) = company();
    for depth in Depth::ALL {
        depth.settle(&db);
        let text = "PartitionKey eq 'dept-05' and (RowKey eq '087' or RowKey eq '012')";
        let query = employees.query().filter(filter(text));
        assert_eq!(query.explain().plan(), Plan::MultiGet { keys: 2 });
        let page = query.page().unwrap();
        assert_eq!(page_row_keys(&page), ["012", "087"], "{depth:?}");
        assert!(page.examined() <= 2, "{}", page.examined());
    }
}

/// One name may have different types on different entities (G-015): a filter compares each as
/// what it is.
#[test]
fn p_01_a_property_may_have_another_type_on_another_entity() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let values = [("1", tablestone::Value::Int32(34)), ("2", "thirty-four".into())];
    for (id, age) in values {
        employees.insert(&Entity::new("Sales", id).with("Age", age)).wait().unwrap();
    }
    assert_eq!(get(&employees, "Sales", "2").get_as("Age"), Some("thirty-four"));
    assert_eq!(page_row_keys(&page(&employees, "Age ge 30")), ["1"]);
    assert_eq!(page_row_keys(&page(&employees, "Age eq 'thirty-four'")), ["2"]);
}
