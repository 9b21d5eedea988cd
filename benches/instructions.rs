//! Small pieces of work that are the same in every run, for counting instructions.
//!
//! `instructions NAME base DIR` prepares, `instructions NAME work DIR` prepares and does the work:
//! what the second executes more is the work, background threads included. `instructions list`
//! names them, with the operations of each. `benches/compare-commits` runs them under valgrind, at
//! two commits. It uses only what the public API has long had, so that older commits build it.

use std::path::Path;
use std::process::{ExitCode, exit};

use tablestone::{Batch, Database, Durability, Options, Precondition, Query, Snapshot, Table};

const ENTITIES: u64 = 20_000;
const IN_PARTITION: u64 = 100;
const VALUE: [u8; 150] = [7; 150];

/// What there is before the work.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    /// All entities, in memory and in the log.
    InMemory,
    /// All entities, in one sorted run.
    InFiles,
    /// The same, and some of them again in memory.
    InBoth,
    /// The same, and all of them again in memory since a snapshot was taken.
    Overwritten,
    /// All entities in one sorted run, written since a snapshot was taken.
    Added,
}

struct Work {
    name: &'static str,
    /// Operations, or entities where an operation is about many.
    operations: u64,
    before: Before,
    run: fn(&Home),
}

const WORKS: &[Work] = &[
    Work { name: "put", operations: 20_000, before: Before::InFiles, run: put },
    Work { name: "insert", operations: 20_000, before: Before::InFiles, run: insert },
    Work { name: "update", operations: 20_000, before: Before::InFiles, run: update },
    Work { name: "egt", operations: 20_000, before: Before::InFiles, run: egt },
    Work { name: "get-hit", operations: 100_000, before: Before::InFiles, run: get_hit },
    Work { name: "get-hit-memory", operations: 100_000, before: Before::InMemory, run: get_hit },
    Work { name: "get-miss", operations: 100_000, before: Before::InFiles, run: get_miss },
    Work { name: "page", operations: 40_000, before: Before::InFiles, run: page },
    Work { name: "page-lent", operations: 40_000, before: Before::InFiles, run: page_lent },
    Work { name: "page-short", operations: 20_000, before: Before::InBoth, run: page_short },
    Work { name: "scan", operations: 100_000, before: Before::InFiles, run: scan },
    Work { name: "scan-back", operations: 100_000, before: Before::InFiles, run: scan_back },
    Work { name: "scan-old", operations: 40_000, before: Before::Overwritten, run: scan_old },
    Work {
        name: "scan-old-back",
        operations: 40_000,
        before: Before::Overwritten,
        run: scan_old_back,
    },
    Work { name: "scan-newer", operations: 40_000, before: Before::Added, run: scan_newer },
    Work {
        name: "scan-newer-back",
        operations: 40_000,
        before: Before::Added,
        run: scan_newer_back,
    },
    Work { name: "import", operations: ENTITIES, before: Before::Nothing, run: import },
    Work { name: "flush", operations: ENTITIES, before: Before::InMemory, run: flush },
    Work { name: "compact", operations: ENTITIES, before: Before::InMemory, run: compact },
    Work { name: "replay", operations: ENTITIES, before: Before::InMemory, run: replay },
];

fn options() -> Options {
    Options::default().durability(Durability::Os)
}

/// A database, and keys that are made before the work: twice as many as entities.
struct Home<'a> {
    database: Database,
    table: Table,
    dir: &'a Path,
    partitions: Vec<String>,
    rows: Vec<String>,
    snapshot: Option<Snapshot>,
}

impl<'a> Home<'a> {
    fn new(dir: &'a Path) -> Self {
        let database = Database::open(dir.join("database"), options()).expect("a database");
        let table = database.create_table("instructions").wait().expect("a table");
        let partition = |number| format!("customer-{:06}", number % ENTITIES / IN_PARTITION);
        let partitions = (0..2 * ENTITIES).map(partition).collect();
        let rows = (0..2 * ENTITIES).map(|number| format!("order-{number:010}")).collect();
        Self { database, table, dir, partitions, rows, snapshot: None }
    }

    fn take_snapshot(&mut self) {
        self.snapshot = Some(self.database.snapshot());
    }

    /// The keys of an entity; those of the second half are in the partitions of the first.
    fn keys(&self, number: u64) -> (&str, &str) {
        (&self.partitions[number as usize], &self.rows[number as usize])
    }
}

/// Numbers that jump about: every entity once before any comes again.
fn scattered(operations: u64) -> impl Iterator<Item = u64> {
    (0..operations).map(|at| at * 7_919 % ENTITIES)
}

fn put(home: &Home) {
    for number in scattered(20_000) {
        let (partition, row) = home.keys(number);
        home.table.upsert(partition, row, VALUE).wait().expect("a put");
    }
}

fn insert(home: &Home) {
    for number in scattered(20_000) {
        let (partition, row) = home.keys(number + ENTITIES);
        home.table.insert(partition, row, VALUE).wait().expect("an insert");
    }
}

fn update(home: &Home) {
    for number in scattered(20_000) {
        let (partition, row) = home.keys(number);
        let version = home.table.read(partition, row, |version, _| version).expect("a read");
        let unchanged = Precondition::Version(version.expect("it exists"));
        home.table.replace(partition, row, unchanged, VALUE).wait().expect("an update");
    }
}

fn egt(home: &Home) {
    for number in scattered(200) {
        let mut batch = Batch::new(home.keys(number).0);
        let first = number / IN_PARTITION * IN_PARTITION;
        for number in first..first + IN_PARTITION {
            batch.upsert(home.keys(number).1, VALUE);
        }
        home.table.commit(batch).wait().expect("a batch");
    }
}

fn get_hit(home: &Home) {
    for number in scattered(100_000) {
        let (partition, row) = home.keys(number);
        let found = home.table.read(partition, row, |_, value| value.len());
        assert_eq!(found.expect("a read"), Some(VALUE.len()));
    }
}

fn get_miss(home: &Home) {
    for number in scattered(100_000) {
        let (partition, row) = home.keys(number + ENTITIES);
        assert!(!home.table.exists(partition, row).expect("a read"));
    }
}

fn page(home: &Home) {
    for number in scattered(400) {
        let page = home.table.query().partition(home.keys(number).0).page().expect("a page");
        assert_eq!(page.len() as u64, IN_PARTITION);
    }
}

/// The same rows, shown where they lie.
fn page_lent(home: &Home) {
    for number in scattered(400) {
        let mut found = 0;
        let query = home.table.query().partition(home.keys(number).0);
        let _ = query.visit(|row| found += row.value.len()).expect("a page");
        assert_eq!(found, VALUE.len() * IN_PARTITION as usize);
    }
}

/// Pages of one entity: what it costs to begin one.
fn page_short(home: &Home) {
    for number in scattered(20_000) {
        let (partition, row) = home.keys(number);
        let query = home.table.query().partition(partition).rows(row..).limit(1);
        let mut found = 0;
        let _ = query.visit(|row| found += row.value.len()).expect("a page");
        assert_eq!(found, VALUE.len());
    }
}

fn scan(home: &Home) {
    for _ in 0..5 {
        assert_eq!(entities(home.table.query()), ENTITIES);
    }
}

fn scan_back(home: &Home) {
    for _ in 0..5 {
        assert_eq!(entities(home.table.query().reverse()), ENTITIES);
    }
}

fn scan_old(home: &Home) {
    scan_snapshot(home, ENTITIES, |query| query);
}

fn scan_old_back(home: &Home) {
    scan_snapshot(home, ENTITIES, Query::reverse);
}

fn scan_newer(home: &Home) {
    scan_snapshot(home, 0, |query| query);
}

fn scan_newer_back(home: &Home) {
    scan_snapshot(home, 0, Query::reverse);
}

/// Twice over what there was at the snapshot: so many entities.
fn scan_snapshot(home: &Home, expected: u64, order: fn(Query) -> Query) {
    let snapshot = home.snapshot.as_ref().expect("a snapshot was taken");
    let then = home.table.at(snapshot).expect("the table was there");
    for _ in 0..2 {
        assert_eq!(entities(order(then.query())), expected);
    }
}

fn entities(query: Query) -> u64 {
    query.pages().map(|page| page.expect("a page").len() as u64).sum()
}

fn import(home: &Home) {
    let rows = scattered(ENTITIES).map(|number| home.keys(number));
    home.table.import(rows.map(|(partition, row)| (partition, row, VALUE))).expect("an import");
}

fn flush(home: &Home) {
    home.database.flush().expect("a flush");
}

fn compact(home: &Home) {
    home.database.compact().expect("a compaction");
}

/// Opens a copy of the directory as it is, with everything in the log.
fn replay(home: &Home) {
    let copy = home.dir.join("copy");
    std::fs::create_dir(&copy).expect("a directory");
    for file in std::fs::read_dir(home.dir.join("database")).expect("the database's directory") {
        let file = file.expect("an entry of the directory");
        std::fs::copy(file.path(), copy.join(file.file_name())).expect("a copy");
    }
    let database = Database::open(&copy, options()).expect("the copy opens");
    assert!(database.recovery_report().replayed_commits > 0);
    // Closing it is no part of the work.
    std::mem::forget(database);
}

fn run(work: &Work, whole: bool, dir: &Path) {
    let mut home = Home::new(dir);
    if matches!(work.before, Before::Added) {
        home.take_snapshot();
    }
    if !matches!(work.before, Before::Nothing) {
        import(&home);
    }
    if !matches!(work.before, Before::Nothing | Before::InMemory) {
        home.database.compact().expect("a compaction");
        // What the first reads load is no part of the work.
        scan(&home);
    }
    if matches!(work.before, Before::InBoth) {
        for number in scattered(1_000) {
            let (partition, row) = home.keys(number);
            home.table.upsert(partition, row, VALUE).wait().expect("a put");
        }
    }
    if matches!(work.before, Before::Overwritten) {
        home.take_snapshot();
        put(&home);
    }
    if whole {
        (work.run)(&home);
    }
    // Closing the database would be work of another kind.
    exit(0);
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => {
            WORKS.iter().for_each(|work| println!("{} {}", work.name, work.operations));
            ExitCode::SUCCESS
        }
        [name, what @ ("base" | "work"), dir] => {
            let Some(work) = WORKS.iter().find(|work| work.name == name) else {
                eprintln!("there is no {name:?}; `list` names what there is");
                return ExitCode::FAILURE;
            };
            run(work, what == "work", Path::new(dir));
            ExitCode::SUCCESS
        }
        // What `cargo bench` says to every bench; this one is for benches/compare-commits.
        _ => {
            println!("usage: instructions list | instructions NAME base|work DIR");
            ExitCode::SUCCESS
        }
    }
}
