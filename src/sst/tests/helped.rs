//! Files that helpers compress and write beside who adds entries.

use std::fmt;
use std::thread;
use std::time::Duration;

use super::*;
use crate::env::{Fault, Job, JobClass, Jobs, Operation};
use crate::error::Error;

/// Helpers, one for each job, that are there at once, late, or never.
struct Hands(Option<Duration>);

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hands")
    }
}

impl Jobs for Hands {
    fn spawn_after(&self, _class: JobClass, _delay: Duration, job: Job) {
        if let Some(delay) = self.0 {
            thread::spawn(move || {
                thread::sleep(delay);
                job();
            });
        }
    }

    fn helpers(&self) -> usize {
        2
    }

    fn assist(&self) -> bool {
        false
    }

    fn stepped(&self) -> bool {
        false
    }

    fn stop(&self) {}
}

fn helpers() -> [Arc<dyn Jobs>; 3] {
    [Some(Duration::ZERO), Some(Duration::from_millis(2)), None].map(|h| Arc::new(Hands(h)) as _)
}

const PATH: &str = "db/1.sst";

fn write(env: &SimEnv, rows: &[Row], level: Option<i32>, by: &Arc<dyn Jobs>) -> Result<FileMeta> {
    env.disk().create_dir_all(Path::new("db")).unwrap();
    let file = env.disk().create(Path::new(PATH)).unwrap();
    let options = WriterOptions { compression: level, ..WriterOptions::default() };
    let mut writer = Writer::new(file, PATH.into(), FileId::new(1), options).help(by);
    for row in rows {
        writer.add(row.entry())?;
    }
    writer.finish()
}

fn bytes_of(env: &SimEnv) -> Vec<u8> {
    env.disk().open(Path::new(PATH)).unwrap().map().unwrap().to_vec()
}

/// More than is with helpers at any time, some of it noise, some not, one block very large.
fn rows() -> Vec<Row> {
    let mut rows = entities(12_000, 7, 40);
    for (i, row) in rows.iter_mut().enumerate() {
        if i % 3 > 0 {
            row.value.extend(std::iter::repeat_n(i as u8, 300));
        }
        if i == 5_000 {
            row.value = noise(7, 1 << 20);
        }
    }
    rows
}

#[test]
fn what_helpers_do_leaves_the_file_as_it_is_without_them() {
    let rows = rows();
    for level in [None, Some(1)] {
        let env = SimEnv::new(1);
        let jobs = env.start_jobs(1).unwrap();
        assert_eq!(jobs.helpers(), 0, "the simulated machine has none");
        let alone = (write(&env, &rows, level, &jobs).unwrap(), bytes_of(&env));
        for helpers in helpers() {
            let env = SimEnv::new(1);
            let helped = (write(&env, &rows, level, &helpers).unwrap(), bytes_of(&env));
            assert!(helped == alone, "the files at level {level:?} differ");
        }
    }
}

#[test]
fn where_a_file_ends_does_not_depend_on_how_fast_helpers_are() {
    let rows = rows();
    let lengths = |helpers: &Arc<dyn Jobs>| -> Vec<u64> {
        let env = SimEnv::new(1);
        env.disk().create_dir_all(Path::new("db")).unwrap();
        let file = env.disk().create(Path::new(PATH)).unwrap();
        let options = WriterOptions { compression: Some(1), ..WriterOptions::default() };
        let mut writer = Writer::new(file, PATH.into(), FileId::new(1), options).help(helpers);
        let lengths = rows.iter().map(|row| {
            writer.add(row.entry()).unwrap();
            writer.written_bytes()
        });
        lengths.collect()
    };
    let [at_once, late, never] = helpers();
    let lengths_at_once = lengths(&at_once);
    assert!(lengths_at_once == lengths(&late) && lengths_at_once == lengths(&never));
}

/// R-E22
#[test]
fn what_a_helper_cannot_write_fails_the_file() {
    let rows = rows();
    for helpers in helpers() {
        let env = SimEnv::new(1);
        let full = std::io::ErrorKind::StorageFull;
        env.fail(Fault { after: 2, ..Fault::new(Operation::Write, PATH, full) });
        let failed = write(&env, &rows, None, &helpers).unwrap_err();
        assert!(matches!(failed, Error::Io(_)) && failed.to_string().contains(PATH), "{failed}");
    }
}
