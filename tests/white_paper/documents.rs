//! U-01: versions of documents (Fig. 1, §3).

use tablestone::{Entity, EntityTable, Plan};

use crate::support::{Depth, TestDb};
use crate::world::{at, filter, keys, page, row_keys, table};

const PAPER: [(&str, &str, &str); 5] = [
    ("Examples Doc", "V1.0", "2007-08-02"),
    ("Examples Doc", "V2.0.1", "2007-09-28"),
    ("FAQ Doc", "V1.0", "2007-05-02"),
    ("FAQ Doc", "V1.0.1", "2007-07-06"),
    ("FAQ Doc", "V1.0.2", "2007-08-01"),
];
const MANUALS: usize = 200;

/// The paper's rows, last first, among others.
fn documents(db: &TestDb) -> EntityTable {
    let documents = table(db, "Documents");
    let row = |document: &str, version: &str, day: &str| {
        let text = format!("{document} {version}");
        Entity::new(document, version).with("ChangedOn", at(day)).with("Description", text)
    };
    for (document, version, day) in PAPER.into_iter().rev() {
        documents.insert(&row(document, version, day)).wait().unwrap();
    }
    for n in 0..MANUALS {
        let (document, version) = (format!("Manual {:02}", n % 50), format!("V{}", n / 50));
        documents.insert(&row(&document, &version, "2008-01-01")).wait().unwrap();
    }
    documents
}

#[test]
fn u_01_documents_and_versions_come_in_key_order() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let documents = documents(&db);
        depth.settle(&db);
        let found = keys(&page(&documents, "PartitionKey lt 'M'"));
        let expected = PAPER.map(|(document, version, _)| format!("{document}/{version}"));
        assert_eq!(found, expected, "{depth:?}");
    }
}

#[test]
fn u_01_versions_of_one_document_cost_its_partition_and_a_date_costs_the_table() {
    for depth in Depth::ALL {
        let db = TestDb::new();
        let documents = documents(&db);
        depth.settle(&db);

        let faq = "PartitionKey eq 'FAQ Doc'";
        let plan = |text| documents.query().filter(filter(text)).explain().plan();
        assert_eq!(plan(faq), Plan::Partition);
        let versions = page(&documents, faq);
        assert_eq!(row_keys(&versions), ["V1.0", "V1.0.1", "V1.0.2"], "{depth:?}");
        assert!(versions.examined() <= 4, "{depth:?}: {}", versions.examined());

        let early = "ChangedOn lt datetime'2007-05-30T00:00:00Z'";
        assert_eq!(plan(early), Plan::TableScan);
        let before = page(&documents, early);
        assert_eq!(keys(&before), ["FAQ Doc/V1.0"], "{depth:?}");
        assert_eq!(before.examined() as usize, PAPER.len() + MANUALS, "{depth:?}");

        let both = page(&documents, &format!("{early} and {faq}"));
        assert_eq!(keys(&both), keys(&before));
        assert!(both.examined() <= 4, "{depth:?}: {}", both.examined());
    }
}
