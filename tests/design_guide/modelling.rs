//! P-15, P-16: departments and their employees; entities of several kinds in one table.

use tablestone::{Entity, EntityBatch, EntityError, EntityTable, Error, Precondition};

use crate::support::wait::Ended;
use crate::support::{Depth, TestDb};
use crate::{get, matching, page, page_row_keys, row_keys, table};

fn department(name: &str) -> Entity {
    Entity::new(name, "Department").with("EntityType", "Department").with("EmployeeCount", 0)
}

fn employee(department: &str, id: usize) -> Entity {
    Entity::new(department, format!("{id:06}")).with("EntityType", "Employee").with("Age", 30)
}

/// Inserts an employee and counts it in the department's row, in one transaction; again and
/// again until nobody hires at the same time.
fn hire(company: &EntityTable, name: &str, id: usize) {
    loop {
        let row = get(company, name, "Department");
        let count = row.get_as::<i32>("EmployeeCount").unwrap();
        // Others come in between.
        std::thread::yield_now();
        let counted = Entity::new(name, "Department").with("EmployeeCount", count + 1);
        let unchanged = Precondition::Version(row.version().unwrap());
        let mut batch = EntityBatch::new(name);
        batch.insert(&employee(name, id)).merge(&counted, unchanged);
        match company.commit(batch).wait() {
            Ok(_) => return,
            Err(Error::VersionMismatch { index: 1, .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Concurrent hires: at every moment that anybody can see, the department's count is the number
/// of its employees.
#[test]
fn p_15_the_count_is_the_number_of_employees_at_every_moment() {
    const THREADS: usize = 3;
    const EACH: usize = 60;
    let db = TestDb::new();
    let company = table(&db, "Company");
    company.insert(&department("Sales")).wait().unwrap();
    let hired = Ended::default();
    std::thread::scope(|scope| {
        let (hired, company) = (&hired, &company);
        let observer = scope.spawn(move || {
            let mut counts = Vec::new();
            loop {
                let last = hired.get();
                let all = page(company, "PartitionKey eq 'Sales'").to_entities().unwrap();
                let (department, employees) = all.split_last().unwrap();
                assert_eq!(department.get_as("EmployeeCount"), Some(employees.len() as i32));
                counts.push(employees.len());
                if last {
                    return counts;
                }
            }
        });
        let ended = hired.when_dropped();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let ids = thread * EACH..thread * EACH + EACH;
                scope.spawn(move || ids.for_each(|id| hire(company, "Sales", id)));
            }
        });
        drop(ended);
        let counts = observer.join().unwrap();
        assert!(counts.is_sorted(), "{counts:?}");
        assert_eq!(counts.last(), Some(&(THREADS * EACH)));
    });
}

/// An employee cannot move between departments in one transaction: it is refused, by the operation
/// that is of another partition, and nothing is done (G-109).
#[test]
fn p_15_no_transaction_moves_an_employee_between_departments() {
    let db = TestDb::new();
    let company = table(&db, "Company");
    for name in ["Marketing", "Sales"] {
        company.insert(&department(name)).wait().unwrap();
    }
    hire(&company, "Sales", 456);
    let before = matching(&company, "");
    let mut batch = EntityBatch::new("Sales");
    batch.delete("000456", Precondition::Exists).insert(&employee("Marketing", 456));
    match company.commit(batch).wait() {
        Err(Error::Entity { index: 1, source }) => {
            let expected =
                EntityError::OtherPartition { expected: "Sales".into(), found: "Marketing".into() };
            assert_eq!(*source, expected);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(matching(&company, ""), before);
}

/// One-to-one by convention of keys and by stored keys: either way the other half is one look-up.
#[test]
fn p_16_the_other_half_of_a_pair_is_one_look_up() {
    let db = TestDb::new();
    let (public, private) = (table(&db, "Employee"), table(&db, "Payroll"));
    let (id, box_number) = ("000456", "box-17");
    let employee = Entity::new("Sales", id)
        .with("PayrollPartitionKey", "Sales")
        .with("PayrollRowKey", box_number);
    public.insert(&employee).wait().unwrap();
    private.insert(&Entity::new("Sales", id).with("Salary", 4_000)).wait().unwrap();
    private.insert(&Entity::new("Sales", box_number).with("Salary", 4_000)).wait().unwrap();

    let found = get(&public, "Sales", id);
    let implicit = get(&private, found.partition_key(), found.row_key());
    let link = |name: &str| found.get_as::<&str>(name).unwrap();
    let explicit = get(&private, link("PayrollPartitionKey"), link("PayrollRowKey"));
    assert_eq!(implicit.get("Salary"), explicit.get("Salary"));
}

/// Sales with employees and departments, told apart by what their RowKeys begin with and by a
/// property.
fn mixed() -> (TestDb, EntityTable) {
    let db = TestDb::new();
    let company = table(&db, "Company");
    for id in 0..200 {
        let employee = Entity::new("Sales", format!("EMPLOYEE_{id:06}"))
            .with("EntityType", "Employee")
            .with("EmailAddress", format!("{id}@contoso.com"));
        company.insert(&employee).wait().unwrap();
    }
    for name in ["EUROPE", "SALES"] {
        let department = Entity::new("Sales", format!("DEPARTMENT_{name}"))
            .with("EntityType", "Department")
            .with("EmployeeCount", 200);
        company.insert(&department).wait().unwrap();
    }
    (db, company)
}

/// A range over both kinds returns both, in key order, each as what it is; the prefix finds one
/// kind at its own cost, the property at the partition's.
#[test]
fn p_16_entities_of_two_kinds_are_read_together_or_apart() {
    let (db, company) = mixed();
    for depth in Depth::ALL {
        depth.settle(&db);
        // Both editions' ends of the range: no key is just "F".
        for end in ["lt 'F'", "le 'F'"] {
            let text = format!("PartitionKey eq 'Sales' and RowKey ge 'B' and RowKey {end}");
            let (mut employees, mut departments) = (0, 0);
            for entity in matching(&company, &text) {
                match entity.get_as("EntityType") {
                    Some("Employee") => {
                        assert!(entity.get_as::<&str>("EmailAddress").is_some());
                        employees += 1;
                    }
                    Some("Department") => {
                        assert_eq!(entity.get_as("EmployeeCount"), Some(200));
                        departments += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((employees, departments), (200, 2), "{depth:?}: {end}");
        }
        let prefix = company.query().partition("Sales").row_prefix("DEPARTMENT_").page().unwrap();
        assert_eq!(page_row_keys(&prefix), ["DEPARTMENT_EUROPE", "DEPARTMENT_SALES"]);
        assert_eq!(prefix.examined(), 2, "{depth:?}");
        let property = page(&company, "PartitionKey eq 'Sales' and EntityType eq 'Department'");
        assert_eq!(page_row_keys(&property), page_row_keys(&prefix));
        assert_eq!(property.examined(), 202);
    }
}

/// Inheritance: customers and employees in one table of persons share what all persons have.
#[test]
fn p_16_kinds_of_one_family_share_their_common_properties() {
    let db = TestDb::new();
    let persons = table(&db, "Person");
    let person = |id: &str, kind: &str| {
        Entity::new("de", id).with("EntityType", kind).with("LastName", "Jones")
    };
    let rows = [
        person("1", "Customer").with("CreditLimit", 500),
        person("2", "Employee").with("Salary", 4_000),
        person("3", "Customer"),
    ];
    for row in &rows {
        persons.insert(row).wait().unwrap();
    }
    assert_eq!(matching(&persons, "LastName eq 'Jones'").len(), 3);
    assert_eq!(row_keys(&matching(&persons, "EntityType eq 'Customer'")), ["1", "3"]);
    // What an entity does not have compares with nothing.
    assert_eq!(row_keys(&matching(&persons, "CreditLimit ge 0")), ["1"]);
    assert_eq!(row_keys(&matching(&persons, "CreditLimit ne 0")), ["1"]);
}

/// An update that knows the entity only as a bag of properties: it merges one with the ETag it read,
/// and what it does not know stays (A-12: with any ETag an update would be lost).
#[test]
fn p_16_an_update_through_a_bag_of_properties_keeps_what_it_does_not_know() {
    let (_db, company) = mixed();
    let key = "DEPARTMENT_SALES";
    let read = [get(&company, "Sales", key), get(&company, "Sales", key)];
    let add_one = |read: &Entity| {
        let count = read.get_as::<i32>("EmployeeCount").unwrap();
        let bag = Entity::new("Sales", key).with("EmployeeCount", count + 1);
        company.merge(&bag, Precondition::Version(read.version().unwrap())).wait()
    };
    add_one(&read[0]).unwrap();
    assert!(matches!(add_one(&read[1]), Err(Error::VersionMismatch { index: 0, .. })));
    add_one(&get(&company, "Sales", key)).unwrap();
    let department = get(&company, "Sales", key);
    assert_eq!(department.get_as("EmployeeCount"), Some(202));
    assert_eq!(department.get_as("EntityType"), Some("Department"));
    // Deleting needs no knowledge of the kind at all (G-105).
    company
        .delete("Sales", key, Precondition::Version(department.version().unwrap()))
        .wait()
        .unwrap();
    assert!(!company.exists("Sales", key).unwrap());
}
