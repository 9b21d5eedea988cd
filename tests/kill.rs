//! R-E08, R-E10: a process that is killed. A child writes from eight threads and reports each
//! acknowledgement through a pipe; it is killed at a random moment; everything it reported must be
//! there, whole and in order, and so over many lives of one database, under any durability.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tablestone::{Batch, Database, Durability, Precondition, Table};

use support::wait::{KilledOnDrop, LIMIT, lines, receive};

const WRITERS: u8 = 8;
const DIR: &str = "TABLESTONE_TEST_KILL_DIR";
/// Set where nothing is synced.
const UNSYNCED: &str = "TABLESTONE_TEST_KILL_UNSYNCED";

fn open(dir: &Path, durability: Durability) -> Database {
    Database::open(dir, support::options().durability(durability)).unwrap()
}

fn number(table: &Table, partition: &str, row: impl AsRef<[u8]>) -> u64 {
    let row = table.get(partition, row).unwrap();
    row.map_or(0, |row| u64::from_be_bytes(row.value[..8].try_into().unwrap()))
}

fn add_one(old: Option<&[u8]>) -> Result<Vec<u8>, tablestone::MergeRefusal> {
    let old = old.map_or(0, |old| u64::from_be_bytes(old.try_into().unwrap()));
    Ok((old + 1).to_be_bytes().to_vec())
}

/// The rows of one step of a writer: a batch in its own partition, the number in every row.
fn batch(writer: u8, step: u64) -> Batch {
    let mut batch = Batch::new(format!("writer {writer}"));
    let value = [&step.to_be_bytes()[..], &[writer; 200]].concat();
    for slot in 0..5u8 {
        batch.upsert([b's', slot], value.clone());
    }
    batch.insert(format!("step {step:08}"), value);
    if step > 20 {
        batch.delete(format!("step {:08}", step - 20), Precondition::Exists);
    }
    batch
}

/// A writer's life: in table a, then in table b, then the counter that all share.
fn write_until_killed(database: &Database, writer: u8) {
    let [a, b] = ["a", "b"].map(|name| database.create_table_if_missing(name).wait().unwrap());
    let at = |table: &Table| number(table, &format!("writer {writer}"), [b's', 0]);
    let done = at(&a);
    if at(&b) < done {
        // It was killed between the two.
        b.commit(batch(writer, done)).wait().unwrap();
    }
    for step in done + 1.. {
        a.commit(batch(writer, step)).wait().unwrap();
        println!("ack a {writer} {step}");
        b.commit(batch(writer, step)).wait().unwrap();
        println!("ack b {writer} {step}");
        a.merge("shared", "counter", Precondition::None, add_one).wait().unwrap();
        println!("ack counter {writer} 1");
    }
}

/// Runs in the child process of the test below.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let unsynced = std::env::var(UNSYNCED).is_ok();
    let durability = if unsynced { Durability::Os } else { Durability::Sync };
    let database = open(Path::new(&dir), durability);
    println!("\nopen");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let database = &database;
            scope.spawn(move || write_until_killed(database, writer));
        }
    });
}

/// What was acknowledged over all lives.
#[derive(Default)]
struct Acknowledged {
    a: [u64; WRITERS as usize],
    b: [u64; WRITERS as usize],
    counter: u64,
    lines: u64,
}

impl Acknowledged {
    fn read(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let ["ack", what, writer, step] = words[..] else { return };
        self.lines += 1;
        let (writer, step): (usize, u64) = (writer.parse().unwrap(), step.parse().unwrap());
        match what {
            "a" => self.a[writer] = self.a[writer].max(step),
            "b" => self.b[writer] = self.b[writer].max(step),
            _ => self.counter += step,
        }
    }

    /// Holds what is there against it; what was found is from then on acknowledged too.
    fn check(&mut self, database: &Database) {
        let Ok(a) = database.table("a") else {
            assert_eq!(self.lines, 0);
            return;
        };
        let b = database.create_table_if_missing("b").wait().unwrap();
        for writer in 0..WRITERS {
            let at = usize::from(writer);
            let in_a = check_writer(&a, writer);
            let in_b = check_writer(&b, writer);
            // One step each may have been under way.
            assert!((self.a[at]..=self.a[at] + 1).contains(&in_a), "a of {writer}: {in_a}");
            assert!(in_b >= self.b[at], "b of {writer}: {in_b}, acknowledged {}", self.b[at]);
            assert!(in_b <= in_a && in_a <= in_b + 1, "{writer}: {in_a} in a, {in_b} in b");
            (self.a[at], self.b[at]) = (in_a, in_b);
        }
        let counter = number(&a, "shared", "counter");
        assert!(
            (self.counter..=self.counter + u64::from(WRITERS)).contains(&counter),
            "{counter} increments, {} acknowledged",
            self.counter
        );
        self.counter = counter;
        database.verify().unwrap();
    }
}

/// The step that a writer's partition is at; every row must say the same.
fn check_writer(table: &Table, writer: u8) -> u64 {
    let partition = format!("writer {writer}");
    let step = number(table, &partition, [b's', 0]);
    let page = table.query().partition(&partition).page().unwrap();
    let rows: Vec<_> = page.iter().map(|row| row.row_key.to_vec()).collect();
    let first = step.saturating_sub(19).max(1);
    let mut expected: Vec<_> = (0..if step > 0 { 5u8 } else { 0 }).map(|s| vec![b's', s]).collect();
    let steps = (first..=step).filter(|step| *step > 0);
    expected.extend(steps.map(|step| format!("step {step:08}").into_bytes()));
    assert_eq!(rows, expected, "{partition} at step {step}");
    for row in &page {
        let found = u64::from_be_bytes(row.value[..8].try_into().unwrap());
        match row.row_key.strip_prefix(b"step ") {
            Some(text) => assert_eq!(std::str::from_utf8(text).unwrap().parse(), Ok(found)),
            None => assert_eq!(found, step, "part of a batch"),
        }
    }
    step
}

#[test]
fn r_e10_nothing_acknowledged_is_lost_when_the_process_is_killed() {
    kill_again_and_again(Durability::Sync, 20);
}

/// What the system was given is the system's to write.
#[test]
fn r_e10_nothing_acknowledged_is_lost_with_the_process_if_nothing_is_synced() {
    kill_again_and_again(Durability::Os, 8);
}

fn kill_again_and_again(durability: Durability, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut random = std::process::id().wrapping_mul(2_654_435_761) | 1;
    let start = Instant::now();
    for round in 0.. {
        // A slow machine takes more lives to write something.
        if round >= rounds && acknowledged.lines > 200 {
            break;
        }
        assert!(start.elapsed() < LIMIT, "too little was written: {}", acknowledged.lines);
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"]);
        child.env(DIR, dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        if durability == Durability::Os {
            child.env(UNSYNCED, "");
        }
        let mut child = child.spawn().map(KilledOnDrop).unwrap();
        let output = lines(child.0.stdout.take().unwrap());
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        // Every fourth life ends so early that recovery itself may be interrupted.
        let span = if round % 4 == 3 { 30 } else { 300 };
        if round % 4 != 3 {
            while receive(&output, "a child process to open the database") != "open" {}
        }
        std::thread::sleep(Duration::from_millis(u64::from(random % span)));
        drop(child);
        let mut lines: Vec<_> = output.iter().collect();
        if lines.last().is_some_and(|line| line.split(' ').count() != 4) {
            lines.pop();
        }
        lines.iter().for_each(|line| acknowledged.read(line));
        acknowledged.check(&open(dir.path(), durability));
    }
}
