//! R-D06: what filters mean, through the whole engine; that they are never an error.

use tablestone::{DateTime, Entity, FilterErrorKind, Guid};

use super::support::{Depth, TestDb};
use super::{entities, found};

fn filled(db: &TestDb) -> tablestone::EntityTable {
    let t = entities(db);
    let date: DateTime = "2008-10-01T15:27:34.4838174Z".parse().unwrap();
    let guid: Guid = "c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap();
    let rows = [
        Entity::new("p", "int").with("V", 5),
        Entity::new("p", "long").with("V", 5i64),
        Entity::new("p", "double").with("V", 5.0),
        Entity::new("p", "nan").with("V", f64::NAN),
        Entity::new("p", "text").with("V", "5"),
        Entity::new("p", "true").with("V", true),
        Entity::new("p", "bytes").with("V", b"\x05"),
        Entity::new("p", "date").with("V", date),
        Entity::new("p", "guid").with("V", guid),
        Entity::new("p", "zz absent"),
    ];
    t.import(rows).unwrap();
    t
}

/// The RowKeys that pass.
fn rows(t: &tablestone::EntityTable, filter: &str) -> String {
    let found = found(t, filter);
    found.iter().map(|key| key.trim_start_matches("p/")).collect::<Vec<_>>().join(" ")
}

#[test]
fn r_d06_types_absence_and_widening() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let t = filled(&db);
        depth.settle(&db);
        let all_but_absent = "bytes date double guid int long nan text true";
        for (filter, expected) in [
            ("V eq 5", "double int long"),
            ("V eq 5L", "double long"),
            ("V eq 5.0", "double"),
            ("V eq '5'", "text"),
            ("V eq true", "true"),
            ("V", "true"),
            ("V eq X'05'", "bytes"),
            ("V eq binary'05'", "bytes"),
            ("V eq datetime'2008-10-01T15:27:34.4838174Z'", "date"),
            ("V ge datetime'2008-10-01T15:27:34.4838174Z'", "date"),
            ("V gt datetime'2008-10-01T15:27:34.4838174Z'", ""),
            ("V eq guid'C9DA6455-213D-42C9-9A79-3E9149A57833'", "guid"),
            // Another type is unequal and less; absence is nothing at all.
            ("V ne '5'", "bytes date double guid int long nan true"),
            ("V le '5'", all_but_absent),
            ("V lt '5'", "bytes date double guid int long nan true"),
            ("V gt '4'", "text"),
            ("V lt 2.5", "bytes date guid int long text true"),
            ("not (V eq 5)", "bytes date guid nan text true zz absent"),
            ("not (V le '5')", "zz absent"),
            ("V eq NaN", ""),
            ("5 eq V", "double int long"),
            ("6 gt V and V gt 4", "double int long"),
            ("W eq 1", ""),
            ("W ne 1", ""),
            ("true", "bytes date double guid int long nan text true zz absent"),
            ("false", ""),
            ("", "bytes date double guid int long nan text true zz absent"),
            ("RowKey eq 5", ""),
            ("RowKey lt 5 and V eq '5'", "text"),
            ("PartitionKey ge 'p' and RowKey gt 'l' and (V eq 5 or V eq '5')", "long text"),
        ] {
            assert_eq!(rows(&t, filter), expected, "{filter} at {depth:?}");
        }
    }
}

#[test]
fn r_d06_the_timestamp_compares_as_the_datetime_it_shows() {
    let db = TestDb::new();
    let t = entities(&db);
    for n in 0..10 {
        t.insert(&Entity::new("p", n.to_string())).wait().unwrap();
    }
    let all: Vec<_> = t.query().entities().map(Result::unwrap).collect();
    let at = all[4].timestamp().unwrap();
    for (operator, expected) in [("eq", 1), ("ne", 9), ("lt", 4), ("le", 5), ("gt", 5), ("ge", 6)] {
        let filter = format!("Timestamp {operator} datetime'{at}'");
        assert_eq!(found(&t, &filter).len(), expected, "{filter}");
    }
    assert_eq!(found(&t, "Timestamp eq 5").len(), 0);
}

#[test]
fn r_d06_what_is_no_filter_says_where_and_of_what_kind() {
    for (text, column, kind) in [
        ("V eq", 5, FilterErrorKind::Syntax),
        ("V eq null", 6, FilterErrorKind::NullLiteral),
        ("V eq W", 6, FilterErrorKind::PropertyAgainstProperty),
        ("1 eq 1", 6, FilterErrorKind::ConstantAgainstConstant),
    ] {
        let error = text.parse::<tablestone::Filter>().unwrap_err();
        assert_eq!((error.column, error.kind), (column, kind), "{text}: {error}");
    }
}

/// Several filters of one query must all pass.
#[test]
fn filters_add_up() {
    let db = TestDb::new();
    let t = filled(&db);
    let query =
        t.query().filter("V ge 5".parse().unwrap()).filter("RowKey lt 'j'".parse().unwrap());
    let keys: Vec<_> = query.entities().map(|e| e.unwrap().row_key().to_owned()).collect();
    assert_eq!(keys, ["double", "int"]);
}
