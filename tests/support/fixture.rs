//! Databases in temporary directories, so small that a test reaches every level.

use std::ops::Deref;
use std::path::Path;

use tablestone::{
    Compression, Database, Durability, Options, Page, ReadMode, Row, Table, TableView,
};
use tempfile::TempDir;

use super::wait::LIMIT;

/// How this run of the tests reads table files: `TABLESTONE_TEST_READ_MODE` is `mmap` or `pread`.
pub fn read_mode() -> ReadMode {
    match std::env::var("TABLESTONE_TEST_READ_MODE").as_deref() {
        Ok("pread") => ReadMode::Pread,
        Ok("mmap") | Err(_) => ReadMode::Mmap,
        Ok(other) => panic!("TABLESTONE_TEST_READ_MODE is {other:?}, not mmap or pread"),
    }
}

/// The smallest memory budget, so that a few hundred entities fill several levels; deep levels are
/// compressed however little there is; and no write is refused because the disk is slow.
pub fn options() -> Options {
    Options::default()
        .memory_budget(64 << 10)
        .durability(Durability::Os)
        .compression(Compression::Zstd(1))
        .read_mode(read_mode())
        .busy_timeout(LIMIT)
}

/// A database in a directory of its own, which can be closed and opened again.
pub struct TestDb {
    database: Option<Database>,
    options: Options,
    dir: TempDir,
}

impl TestDb {
    pub fn new() -> Self {
        Self::with(options())
    }

    pub fn with(options: Options) -> Self {
        let dir = TempDir::new().unwrap();
        let database = Some(Database::open(dir.path(), options.clone()).unwrap());
        Self { database, options, dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The table "t", empty if it is new.
    pub fn t(&self) -> Table {
        self.create_table_if_missing("t").wait().unwrap()
    }

    pub fn close(&mut self) {
        self.database.take().unwrap().close().unwrap();
    }

    /// Closes and opens; every other handle must be gone.
    pub fn reopen(&mut self) {
        if self.database.is_some() {
            self.close();
        }
        self.database = Some(Database::open(self.dir.path(), self.options.clone()).unwrap());
    }

    /// The same, with other options from then on.
    pub fn reopen_with(&mut self, options: Options) {
        self.options = options;
        self.reopen();
    }

    /// Bytes that the files in the directory take.
    pub fn disk_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.path()).unwrap();
        // Files come and go in the background.
        files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
    }
}

impl Deref for TestDb {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.database.as_ref().unwrap()
    }
}

/// Where the entities of a test are when it looks at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// In memory, unless there are too many.
    Memory,
    /// In table files of level 0.
    Flushed,
    /// In one sorted run.
    Compacted,
}

impl Depth {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Flushed, Self::Compacted];

    pub fn settle(self, database: &Database) {
        match self {
            Self::Memory => {}
            Self::Flushed => database.flush().unwrap(),
            Self::Compacted => database.compact().unwrap(),
        }
    }
}

/// (PartitionKey, RowKey, value) of every entity, read in small pages.
pub fn all_rows(view: &TableView) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    for page in view.query().limit(100).pages() {
        let page = page.unwrap();
        rows.extend(
            page.iter()
                .map(|row| (row.partition_key.to_vec(), row.row_key.to_vec(), row.value.to_vec())),
        );
    }
    rows
}

/// A key in one word: `partition/row`.
pub fn key(partition_key: &[u8], row_key: &[u8]) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}/{}", text(partition_key), text(row_key))
}

/// The keys of a page as `partition/row`.
pub fn keys(page: &Page) -> Vec<String> {
    page.iter().map(|row| key(row.partition_key, row.row_key)).collect()
}

/// The value of a row that must exist.
pub fn value(row: Option<Row>) -> Vec<u8> {
    row.expect("the entity exists").value
}
