//! P-06, P-07: what belongs together in one entity, or in neighbouring ones.

use tablestone::{Entity, EntityBatch, EntityError, EntityTable, Error, Plan, Precondition};

use crate::support::{Depth, TestDb};
use crate::{filter, get, matching, page, row_keys, table};

const MANAGER: &str = "000017";

/// A department row that carries its manager's details, beside the manager's own row.
fn write_manager(employees: &EntityTable, name: &str, mail: &str) -> tablestone::Version {
    let department = Entity::new("Sales", "Department")
        .with("ManagerId", MANAGER)
        .with("ManagerName", name)
        .with("ManagerEmail", mail);
    let manager = Entity::new("Sales", MANAGER).with("Name", name).with("Email", mail);
    let mut batch = EntityBatch::new("Sales");
    batch.insert_or_merge(&department).insert_or_merge(&manager);
    employees.commit(batch).wait().unwrap()
}

/// One read of the department shows its manager; an update keeps both places equal.
#[test]
fn p_06_the_department_row_alone_shows_its_manager() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let fixed = Entity::new("Sales", "Department").with("EmployeeCount", 12);
    employees.insert(&fixed).wait().unwrap();
    write_manager(&employees, "Ann Smith", "ann@contoso.com");
    let version = write_manager(&employees, "Ann Jones", "annj@contoso.com");

    let text = "PartitionKey eq 'Sales' and RowKey eq 'Department'";
    let department = page(&employees, text);
    assert_eq!(department.examined(), 1);
    let department = &department.to_entities().unwrap()[0];
    let manager = get(&employees, "Sales", MANAGER);
    assert_eq!(department.get_as::<&str>("ManagerName"), Some("Ann Jones"));
    assert_eq!(department.get("ManagerName"), manager.get("Name"));
    assert_eq!(department.get("ManagerEmail"), manager.get("Email"));
    assert_eq!(department.get_as("EmployeeCount"), Some(12));
    assert_eq!((department.version(), manager.version()), (Some(version), Some(version)));
}

/// Every employee carries the department's data: its change is merged into each, in transactions of
/// a hundred one after the other, and leaves alone what else they have.
#[test]
fn p_06_a_departments_change_is_merged_into_every_employee() {
    const EMPLOYEES: usize = 1_500;
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let rows = (0..EMPLOYEES).map(|id| {
        let employee = Entity::new("Sales", format!("{id:06}")).with("Name", format!("Ann {id}"));
        employee.with("DepartmentFloor", 2).with("DepartmentHead", "Jun Cao")
    });
    employees.import(rows).unwrap();

    let before = db.stats().commits;
    for page in employees.query().partition("Sales").limit(100).pages() {
        let mut batch = EntityBatch::new("Sales");
        for employee in &page.unwrap() {
            let moved = Entity::new("Sales", employee.row_key()).with("DepartmentFloor", 3);
            batch.merge(&moved, Precondition::Version(employee.version()));
        }
        employees.commit(batch).wait().unwrap();
    }
    assert_eq!(db.stats().commits - before, EMPLOYEES as u64 / 100);

    db.compact().unwrap();
    let all = matching(&employees, "PartitionKey eq 'Sales' and DepartmentFloor eq 3");
    assert_eq!(all.len(), EMPLOYEES);
    for (id, employee) in all.iter().enumerate() {
        assert_eq!(employee.get_as("Name"), Some(format!("Ann {id}").as_str()));
        assert_eq!(employee.get_as("DepartmentHead"), Some("Jun Cao"));
    }
}

/// Employees, each with reviews of three years under keys that continue its own.
fn write_reviews(employees: &EntityTable) {
    for id in 100..200 {
        let key = format!("empid_{id:06}");
        let mut batch = EntityBatch::new("Sales");
        batch.insert(&Entity::new("Sales", &*key).with("Name", "Ann").with("Age", 34));
        for year in [2013, 2011, 2012] {
            let review = Entity::new("Sales", format!("{key}_{year}"))
                .with("ManagerRating", year % 5)
                .with("PeerRating", id % 5)
                .with("Comments", format!("the year {year}"))
                .with("Unread", vec![0xA5; 200]);
            batch.insert(&review);
        }
        employees.commit(batch).wait().unwrap();
    }
}

const REVIEWS: &str =
    "PartitionKey eq 'Sales' and RowKey ge 'empid_000123' and RowKey lt 'empid_000124'";

/// A range over the common prefix gives the employee and its reviews in the order of years; of
/// the chosen properties each has what it has.
#[test]
fn p_07_a_range_of_compound_keys_is_an_employee_and_its_reviews() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    write_reviews(&employees);
    for depth in Depth::ALL {
        depth.settle(&db);
        let query = employees.query().filter(filter(REVIEWS));
        assert_eq!(query.explain().plan(), Plan::RowRange);
        let selected = ["RowKey", "ManagerRating", "PeerRating", "Comments"];
        let page = query.select(selected).page().unwrap();
        assert_eq!(page.examined(), 4, "{depth:?}: the range and nothing else is read");
        assert_eq!(page.selected().unwrap(), selected);
        let rows = page.to_entities().unwrap();
        let suffixes = ["", "_2011", "_2012", "_2013"].map(|year| format!("empid_000123{year}"));
        assert_eq!(row_keys(&rows), suffixes);
        assert!(rows[0].is_empty(), "the employee has none of what was chosen, and is there");
        for (row, year) in rows[1..].iter().zip(2011..) {
            assert_eq!(row.len(), 3);
            assert_eq!(row.get_as("ManagerRating"), Some(year % 5));
            assert_eq!(row.get_as("PeerRating"), Some(123 % 5));
            assert_eq!(row.get_as("Comments"), Some(format!("the year {year}").as_str()));
        }
    }
}

/// The filter of a later edition has its bounds the wrong way round: it matches nothing, and
/// reads nothing.
#[test]
fn p_07_an_inverted_range_is_empty_and_no_error() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    write_reviews(&employees);
    let text = "PartitionKey eq 'Sales' and RowKey ge 'empid_000123' and RowKey lt '000123_2012'";
    let query = employees.query().filter(filter(text));
    assert_eq!(query.explain().plan(), Plan::Nothing);
    let page = query.page().unwrap();
    assert_eq!((page.len(), page.continuation(), page.examined()), (0, None, 0));
    let bounds = employees.query().partition("Sales").rows("empid_000123".."000123_2012");
    assert!(bounds.page().unwrap().is_empty());
}

/// The guide's `Manager Rating` is no name of a property: a space is refused, by name.
#[test]
fn p_07_a_property_name_with_a_space_is_refused() {
    let db = TestDb::new();
    let employees = table(&db, "Employee");
    let review = Entity::new("Sales", "empid_000123_2012").with("Manager Rating", 4);
    match employees.insert(&review).wait() {
        Err(Error::Entity { index: 0, source }) => {
            let expected = EntityError::NameInvalid {
                name: "Manager Rating".into(),
                column: 8,
                character: ' ',
            };
            assert_eq!(*source, expected);
        }
        other => panic!("{other:?}"),
    }
}
