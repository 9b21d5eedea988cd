//! Opening and closing: one owner, other people's directories, later formats, handles.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tablestone::env::{Clock, Disk, Env, Fault, Jobs, Operation, SimEnv};
use tablestone::{
    Batch, Commit, Database, EntityBatch, EntityPage, EntityQuery, EntityStream, EntityTable,
    EntityView, Error, KeyedRowStream, Page, Precondition, Query, Row, Snapshot, Table,
    TableLoader, TableView, Task, Version,
};

use crate::support::fixture::value;
use crate::support::sim::{DIR, open, sim_options};
use crate::support::task::block_on;
use crate::support::wait::{KilledOnDrop, lines, receive};
use crate::support::{TestDb, all_rows, options};

#[test]
fn a_second_opening_is_refused_until_the_last_handle_is_gone() {
    let db = TestDb::new();
    let again = || Database::open(db.path(), options());
    assert!(matches!(again(), Err(Error::Locked(dir)) if *dir == *db.path()));
    let t = db.t();
    t.insert("p", "r", "v").wait().unwrap();
    drop(again());
    assert!(t.exists("p", "r").unwrap(), "a refused opening does no harm");
}

/// Somebody may take the lock's file for one that a crash has left.
#[test]
fn a_second_opening_is_refused_though_the_lock_file_was_removed() {
    let mut db = TestDb::new();
    for _ in 0..2 {
        // Windows keeps a file that is locked.
        let removed = std::fs::remove_file(db.path().join("LOCK"));
        assert_eq!(removed.is_ok(), cfg!(unix));
        let again = Database::open(db.path(), options());
        assert!(matches!(again, Err(Error::Locked(_))), "{again:?}");
    }
    db.reopen();
}

#[test]
fn each_kind_of_handle_keeps_the_database_open() {
    let dir = tempfile::tempdir().unwrap();
    let opened = || Database::open(dir.path(), options());
    let db = opened().unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "v").wait().unwrap();
    drop(db);
    assert!(matches!(opened(), Err(Error::Locked(_))), "a table");
    let db = Database::clone(&{
        drop(t);
        opened().unwrap()
    });
    let snapshot = db.snapshot();
    drop(db);
    assert!(matches!(opened(), Err(Error::Locked(_))), "a snapshot");
    drop(snapshot);
    let db = opened().unwrap();
    let query = db.table("t").unwrap().query();
    drop(db);
    assert!(matches!(opened(), Err(Error::Locked(_))), "a query");
    assert_eq!(query.page().unwrap().len(), 1);
    let db = opened().unwrap();
    assert_eq!(value(db.table("t").unwrap().get("p", "r").unwrap()), b"v");
}

/// Whoever made the directory may have been cut off before its name was durable.
#[test]
fn r_e10_a_new_database_is_found_after_a_crash_whoever_made_its_directory() {
    let env = SimEnv::new(9);
    let open = |name: &str, kind| {
        let dir = Path::new("/home").join(name);
        env.disk().create_dir_all(&dir).unwrap();
        env.fail(Fault { times: 1, ..Fault::new(Operation::SyncDir, "/home", kind) });
        Database::open(&dir, sim_options(&env))
    };
    let Err(Error::Io(error)) = open("ours", ErrorKind::Other) else { panic!("opened") };
    assert_eq!(error.path, Path::new("/home"));
    open("theirs", ErrorKind::PermissionDenied).expect("that is who has /home to see to");
}

/// A mistyped path makes no database for who wants none made.
#[test]
fn r_e10_nothing_is_created_where_that_is_not_wanted() {
    let root = tempfile::tempdir().unwrap();
    let (dir, missing) = (root.path().join("data"), root.path().join("missing"));
    std::fs::create_dir(&dir).unwrap();
    let existing = || options().create_if_missing(false);
    for dir in [&dir, &missing] {
        match Database::open(dir, existing()) {
            Err(Error::NotADatabase { dir: named, .. }) => assert_eq!(&*named, &**dir),
            other => panic!("{dir:?}: {:?}", other.err()),
        }
    }
    assert!(!missing.exists());
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    let db = Database::open(&dir, options()).unwrap();
    db.create_table("t").wait().unwrap();
    drop(db);
    Database::open(&dir, existing()).unwrap().table("t").unwrap();
}

/// Who closes a second time hears what came of the first.
#[test]
fn r_e10_closing_again_is_no_better_than_closing() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "v").wait().unwrap();
    env.fail(Fault {
        on: Operation::Sync,
        path_contains: ".log".into(),
        kind: ErrorKind::Other,
        after: 0,
        times: 1,
    });
    assert!(matches!(db.clone().close(), Err(Error::Io(_))));
    assert!(matches!(db.clone().close(), Err(Error::Poisoned(_))));
}

#[test]
fn after_close_writes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let t = db.create_table("t").wait().unwrap();
    t.insert("p", "r", "v").wait().unwrap();
    db.flush().unwrap();
    db.clone().close().unwrap();
    assert!(matches!(t.upsert("p", "r", "w").wait(), Err(Error::Closed)));
    assert!(matches!(db.create_table("u").wait(), Err(Error::Closed)));
    assert!(matches!(db.drop_table("t").wait(), Err(Error::Closed)));
    assert!(matches!(db.sync(), Err(Error::Closed)));
    assert!(matches!(db.flush(), Err(Error::Closed)));
    assert!(matches!(db.compact(), Err(Error::Closed)));
    let copy = db.checkpoint(dir.path().join("copy"));
    assert!(matches!(copy, Err(Error::Closed)), "{copy:?}");
    db.clone().close().unwrap();
    drop((t, db));
    let db = Database::open(dir.path(), options()).unwrap();
    assert_eq!(value(db.table("t").unwrap().get("p", "r").unwrap()), b"v");
}

/// A simulated machine that has no threads to give.
#[derive(Debug)]
struct Threadless(SimEnv);

impl Env for Threadless {
    fn disk(&self) -> Arc<dyn Disk> {
        self.0.disk()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }
    fn start_jobs(&self, _compaction_threads: usize) -> io::Result<Arc<dyn Jobs>> {
        Err(io::Error::other("too many threads"))
    }
}

/// Background work without a thread would never be done, and who waits for it would wait for ever.
#[test]
fn a_database_that_gets_no_threads_does_not_open() {
    let env = SimEnv::new(1);
    let threadless = sim_options(&env).env(Arc::new(Threadless(env.clone())));
    let refused = Database::open(DIR, threadless);
    let Err(Error::Io(error)) = &refused else { panic!("{refused:?}") };
    assert_eq!(error.to_string(), "cannot start the background threads of \"/db\"");
    open(&env).unwrap();
}

/// A write that is under way when the database is closed, checked but not in the log yet, is told so:
/// nobody would write it any more.
#[test]
fn writes_that_closing_overtakes_are_refused_and_change_nothing() {
    for awaited in [true, false] {
        let mut db = TestDb::new();
        let t = db.t();
        let closing = Database::clone(&db);
        let late = t.merge("p", "r", Precondition::None, move |_| {
            let closing = closing.clone();
            std::thread::spawn(move || closing.close().unwrap()).join().unwrap();
            Ok(b"late".to_vec())
        });
        let outcome = if awaited { block_on(late) } else { late.wait() };
        assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
        assert!(!t.exists("p", "r").unwrap());
        drop(t);
        db.reopen();
        assert!(!db.t().exists("p", "r").unwrap());
    }
}

/// Closing wakes those who wait for room: no flush will make any.
#[test]
fn a_task_that_is_held_back_hears_that_the_database_is_closed() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    // More than all memtables may hold.
    t.insert("p", "large", vec![1; 100_000]).wait().unwrap();
    let mut held_back = t.insert("p", "small", "");
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut poll = || Pin::new(&mut held_back).poll(&mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    assert!(!woken.0.load(Ordering::Relaxed));
    db.close().unwrap();
    assert!(woken.0.load(Ordering::Relaxed));
    assert!(matches!(poll(), Poll::Ready(Err(Error::Closed))));
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const CHILD_DIR: &str = "TABLESTONE_TEST_OPEN_DIR";

/// Runs in a child process, for the test below: opens the directory it is told, says so, and holds
/// it until its standard input ends.
#[test]
fn child_that_holds_a_database_open() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let db = Database::open(&dir, options());
    let word = match &db {
        Ok(_) => "open",
        Err(Error::Locked(_)) => "locked",
        Err(_) => "other",
    };
    println!("\nchild: {word}");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_second_process_is_refused() {
    let child = |dir: &Path| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "open_close::child_that_holds_a_database_open", "--nocapture"])
            .env(CHILD_DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map(KilledOnDrop)
            .unwrap();
        let lines = lines(child.0.stdout.take().unwrap());
        loop {
            let line = receive(&lines, "a child process to open a database");
            if let Some(said) = line.strip_prefix("child: ") {
                return (child, said.to_owned());
            }
        }
    };
    let mut db = TestDb::new();
    db.t().insert("p", "r", "v").wait().unwrap();
    let (mut refused, said) = child(db.path());
    assert_eq!(said, "locked");
    drop(refused.0.stdin.take());
    refused.0.wait().unwrap();
    db.close();
    let (holder, said) = child(db.path());
    assert_eq!(said, "open");
    assert!(matches!(Database::open(db.path(), options()), Err(Error::Locked(_))));
    // A process that is killed holds nothing any more.
    drop(holder);
    db.reopen();
    assert!(db.t().exists("p", "r").unwrap());
}

#[test]
fn closing_leaves_no_file_for_the_next_opening_to_remove() {
    let env = SimEnv::new(5);
    let db = open(&env).unwrap();
    let t = db.create_table("t").wait().unwrap();
    for round in 0..3 {
        t.import((0..400).map(|row| ("p", format!("{row:03}"), [round; 50]))).unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    let is_table = |name: &String| name.ends_with(".sst");
    let tables = || env.list(DIR.as_ref()).into_iter().filter(is_table).collect::<Vec<_>>();
    let before = tables();
    drop(t);
    db.close().unwrap();
    let left = tables();
    assert!(!left.is_empty() && left.len() < before.len(), "still there: {left:?} of {before:?}");
    drop(open(&env).unwrap());
    assert_eq!(tables(), left);
}

#[test]
fn a_directory_of_something_else_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let opened = Database::open(dir.path(), options());
    let Err(Error::NotADatabase { dir: named, reason }) = opened else { panic!("{opened:?}") };
    assert_eq!(*named, *dir.path());
    assert!(reason.contains("letter.txt"), "{reason}");
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names, ["letter.txt"]);
}

/// Files are numbered on from the last that is there, and no number follows the largest.
#[test]
fn files_with_numbers_that_none_comes_to_are_left_alone() {
    let last = u64::MAX - 1;
    for stray in [format!("{last}.sst"), format!("MANIFEST-{last}"), format!("{last:016x}.values")]
    {
        let (env, path) = (SimEnv::new(1), Path::new(DIR).join(&stray));
        for life in 0..4u8 {
            let db = open(&env).unwrap();
            let t = db.create_table_if_missing("t").wait().unwrap();
            for row in 0..4 {
                t.insert("p", [life, row], vec![row; 100_000]).wait().unwrap();
                db.flush().unwrap();
            }
            assert_eq!(all_rows(&t).len(), 4 * usize::from(life + 1), "{stray}");
            drop(t);
            db.close().unwrap();
            if life == 0 {
                env.write_file(&path, b"a stray");
            }
        }
        open(&env).unwrap().verify().unwrap();
        assert_eq!(env.read_file(&path).unwrap(), b"a stray", "{stray}");
    }
}

#[test]
fn a_file_in_place_of_the_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Database::open(&path, options()), Err(Error::Io(_))));
}

#[test]
fn missing_directories_are_made_and_an_empty_database_opens_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/c");
    for _ in 0..3 {
        let db = Database::open(&path, options()).unwrap();
        assert!(db.tables(None, 10).unwrap().names.is_empty());
        assert_eq!(db.dir(), path);
        db.close().unwrap();
    }
}

/// Where each kind of file states its format, and which bytes (from, to) which checksum covers:
/// offsets from the start of the file, or from its last 40 bytes for a table file, whose footer
/// they are.
struct FormatField {
    file: fn(&str) -> bool,
    format_at: usize,
    covered: &'static [(usize, usize)],
    crc_at: usize,
    /// The newest format that is read.
    newest: u32,
}

const FORMAT_FIELDS: [FormatField; 4] = [
    FormatField {
        file: |name| name == "CURRENT",
        format_at: 8,
        covered: &[(0, 20)],
        crc_at: 20,
        newest: 1,
    },
    FormatField {
        file: |name| name.starts_with("MANIFEST-"),
        format_at: 8,
        covered: &[(0, 20)],
        crc_at: 20,
        newest: 1,
    },
    FormatField {
        file: |name| name.ends_with(".log"),
        format_at: 12,
        covered: &[(12, 64)],
        crc_at: 8,
        newest: 1,
    },
    FormatField {
        file: |name| name.ends_with(".sst"),
        format_at: 24,
        covered: &[(24, 28), (32, 40)],
        crc_at: 28,
        newest: 2,
    },
];

#[test]
fn a_later_format_of_any_file_is_told_from_damage_and_left_alone() {
    for field in FORMAT_FIELDS {
        let env = SimEnv::new(1);
        let db = open(&env).unwrap();
        let t = db.create_table("t").wait().unwrap();
        t.insert("p", "r", "v").wait().unwrap();
        db.flush().unwrap();
        t.insert("p", "s", "v").wait().unwrap();
        drop(t);
        db.close().unwrap();
        let names = env.list(DIR.as_ref());
        let name = names.iter().rfind(|name| (field.file)(name)).unwrap();
        let path = Path::new(DIR).join(name);
        let mut bytes = env.read_file(&path).unwrap();
        let start = if name.ends_with(".sst") { bytes.len() - 40 } else { 0 };
        let stated = &mut bytes[start..];
        let at = field.format_at..field.format_at + 4;
        assert_eq!(stated[at.clone()], 1u32.to_le_bytes(), "{name}: the format is where it was");
        stated[at].copy_from_slice(&9u32.to_le_bytes());
        let covered: Vec<_> =
            field.covered.iter().flat_map(|&(from, to)| stated[from..to].to_vec()).collect();
        let crc = crc32fast::hash(&covered).to_le_bytes();
        stated[field.crc_at..field.crc_at + 4].copy_from_slice(&crc);
        env.write_file(&path, &bytes);
        match open(&env) {
            Err(Error::UnsupportedFormat { file, found: 9, supported }) => {
                assert_eq!((&*file, supported), (&*path, field.newest));
            }
            other => panic!("{name}: {other:?}"),
        }
        assert!(env.read_file(&path).unwrap() == bytes);
    }
}

#[test]
fn handles_are_owned_and_shared_between_threads() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn lent<T: Send + Sync + 'static>() {}
    fn sent<T: Send + Unpin + 'static>() {}
    shared::<Database>();
    shared::<Table>();
    shared::<TableView>();
    shared::<EntityTable>();
    shared::<EntityView>();
    shared::<Snapshot>();
    shared::<Row>();
    lent::<Page>();
    lent::<EntityPage>();
    sent::<Query>();
    sent::<EntityQuery>();
    sent::<Batch>();
    sent::<EntityBatch>();
    sent::<TableLoader>();
    sent::<Commit<Version>>();
    sent::<Task<Version>>();
    sent::<KeyedRowStream>();
    sent::<EntityStream>();
}
