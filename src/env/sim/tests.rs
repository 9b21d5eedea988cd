//! What the simulated machine promises: crashes, faults, locks, time, jobs.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::env::{DiskFile, Job, JobClass};

const DIR: &str = "/db";

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// A machine with a durable file that holds "synced", and its handle.
fn machine(seed: u64) -> (SimEnv, Arc<dyn Disk>, Arc<dyn DiskFile>) {
    let env = SimEnv::new(seed);
    let disk = env.disk();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let file = disk.create(&path("a")).unwrap();
    file.write_at(b"synced", 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    (env, disk, file)
}

#[test]
fn a_full_disk_takes_what_it_has_room_for() {
    let (env, disk, file) = machine(1);
    assert_eq!(disk.free_bytes(Path::new(DIR)), None);
    disk.share(&path("a"), &path("same")).unwrap();
    env.set_capacity(Some(10));
    assert_eq!(disk.free_bytes(Path::new(DIR)), Some(4));
    let full = |outcome: io::Result<()>| outcome.unwrap_err().kind() == ErrorKind::StorageFull;
    assert!(full(file.set_len(11)) && full(file.write_durably_at(b"bytes", 6)));
    file.write_at(b"SYNCED", 0).unwrap();
    let other = disk.create(&path("b")).unwrap();
    assert!(full(other.write_at(b"bytes", 0)));
    assert_eq!(env.read_file(&path("b")).unwrap(), b"byte");
    assert!(full(file.write_at(b"!", 6)));
    disk.remove(&path("b")).unwrap();
    file.write_at(b"!", 9).unwrap();
    assert_eq!(env.read_file(&path("same")).unwrap(), b"SYNCED\0\0\0!");
    env.set_capacity(Some(3));
    assert_eq!(disk.free_bytes(Path::new(DIR)), Some(0));
    file.set_len(1).unwrap();
    assert_eq!(disk.free_bytes(Path::new(DIR)), Some(2));
}

#[test]
fn bytes_are_read_as_written() {
    let (env, disk, file) = machine(1);
    file.write_at(b"!", 8).unwrap();
    assert_eq!(&*file.map().unwrap(), b"synced\0\0!");
    file.set_len(4).unwrap();
    let mut buf = [0; 2];
    disk.open(&path("a")).unwrap().read_at(&mut buf, 2).unwrap();
    assert_eq!((&buf, file.len().unwrap()), (b"nc", 4));
    assert_eq!(file.read_at(&mut buf, 3).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(disk.open(&path("b")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.create(Path::new("/no/x")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(file.write_at(b"x", u64::MAX).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(env.list(Path::new(DIR)), disk.list(Path::new(DIR)).unwrap());
}

#[test]
fn a_crash_loses_unsynced_bytes_and_names() {
    let (env, disk, file) = machine(1);
    file.write_at(b"lost", 0).unwrap();
    let unnamed = disk.create(&path("b")).unwrap();
    unnamed.write_at(b"synced but without a durable name", 0).unwrap();
    unnamed.sync().unwrap();
    disk.rename(&path("a"), &path("c")).unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(env.list(Path::new(DIR)), ["a"]);
    assert_eq!(env.read_file(&path("a")).unwrap(), b"synced");
}

#[test]
fn a_crash_may_keep_everything() {
    let (env, disk, file) = machine(1);
    file.write_at(b"kept", 0).unwrap();
    disk.rename(&path("a"), &path("c")).unwrap();
    env.crash(CrashStyle::KeepAll);
    assert_eq!(env.list(Path::new(DIR)), ["c"]);
    assert_eq!(env.read_file(&path("c")).unwrap(), b"kepted");
}

/// Nothing else is durable by it, and what else a crash keeps does not undo it.
#[test]
fn what_is_written_durably_survives_alone() {
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll] {
        let (env, _, file) = machine(1);
        file.set_len(20).unwrap();
        file.write_at(b"unsynced", 3).unwrap();
        file.write_durably_at(b"durable", 1).unwrap();
        env.crash(style);
        let survived = match style {
            CrashStyle::KeepAll => &b"sdurableced\0\0\0\0\0\0\0\0\0"[..],
            _ => b"sdurable",
        };
        assert_eq!(env.read_file(&path("a")).unwrap(), survived);
    }
    let (env, _, file) = machine(1);
    file.set_len(2).unwrap();
    file.write_durably_at(b"durable", 1).unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(env.read_file(&path("a")).unwrap(), b"sdurable", "and the cut before it");
}

#[test]
fn a_torn_crash_keeps_sectors_and_a_prefix_of_the_names() {
    let (mut torn, mut later_without_earlier) = (0, 0);
    for seed in 0..200 {
        let (env, disk, file) = machine(seed);
        for (n, fill) in [b'x', b'y', b'z'].into_iter().enumerate() {
            file.write_at(&[fill; 2_000], 100 + 2_000 * n as u64).unwrap();
            disk.create(&path(&n.to_string())).unwrap();
        }
        env.crash(CrashStyle::Torn);
        let bytes = env.read_file(&path("a")).unwrap();
        assert_eq!(&bytes[..6], b"synced");
        for sector in bytes[512..bytes.len() / 512 * 512].chunks(512) {
            let whole = sector.windows(2).filter(|pair| pair[0] != pair[1]).count() <= 1;
            assert!(whole, "a sector is old or new, but for where two writes meet");
        }
        let has = |fill: &u8| bytes.contains(fill);
        torn += usize::from(has(&b'x') && bytes[100..612].contains(&0));
        later_without_earlier += usize::from(has(&b'z') && !has(&b'x'));
        let names = env.list(Path::new(DIR));
        let possible = [&["a"][..], &["0", "a"], &["0", "1", "a"], &["0", "1", "2", "a"]];
        assert!(
            possible.contains(&names.iter().map(String::as_str).collect::<Vec<_>>().as_slice())
        );
    }
    assert!(torn > 5 && later_without_earlier > 5, "{torn} {later_without_earlier}");
}

#[test]
fn a_seed_repeats_its_crash() {
    let crashed = |seed| {
        let (env, _, file) = machine(seed);
        file.write_at(&[7; 100_000], 0).unwrap();
        env.crash(CrashStyle::Torn);
        env.read_file(&path("a")).unwrap()
    };
    assert_eq!(crashed(9), crashed(9));
    assert!((0..20).any(|seed| crashed(seed) != crashed(9)));
}

#[test]
fn handles_from_before_a_crash_fail_and_locks_are_free() {
    let (env, disk, file) = machine(1);
    let guard = disk.lock(&path("LOCK")).unwrap();
    assert_eq!(env.disk().lock(&path("LOCK")).unwrap_err().kind(), ErrorKind::WouldBlock);
    env.crash(CrashStyle::KeepAll);
    assert!(file.write_at(b"x", 0).is_err() && file.sync().is_err() && file.len().is_err());
    assert!(disk.create(&path("b")).is_err() && disk.list(Path::new(DIR)).is_err());
    let fresh = env.disk().lock(&path("LOCK")).unwrap();
    drop(guard);
    assert!(env.disk().lock(&path("LOCK")).is_err(), "an old guard holds nothing of the new lock");
    drop(fresh);
    env.disk().lock(&path("LOCK")).unwrap();
}

#[test]
fn the_power_goes_after_that_many_operations() {
    let (env, disk, file) = machine(1);
    let before = env.operations();
    env.crash_after(2);
    file.write_at(b"1", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(env.operations(), before + 2);
    assert!(file.write_at(b"2", 0).is_err() && file.len().is_err());
    assert!(disk.open(&path("a")).is_err());
    env.crash(CrashStyle::KeepAll);
    assert_eq!(env.read_file(&path("a")).unwrap(), b"1ynced");
    env.disk().open(&path("a")).unwrap().write_at(b"3", 0).unwrap();
}

#[test]
fn a_fault_fails_as_many_operations_as_it_says() {
    let (env, disk, file) = machine(1);
    let fault = |on, name, kind| Fault::new(on, path(name).to_str().unwrap(), kind);
    let full = fault(Operation::Sync, "a", ErrorKind::StorageFull);
    env.fail(Fault { after: 1, times: 2, ..full });
    let kinds = || file.sync().map_err(|error| error.kind());
    let full = Err(ErrorKind::StorageFull);
    assert_eq!([kinds(), kinds(), kinds(), kinds()], [Ok(()), full, full, Ok(())]);

    env.fail(fault(Operation::Rename, "b", ErrorKind::Other));
    assert!(disk.rename(&path("a"), &path("b")).is_err());
    disk.rename(&path("a"), &path("c")).unwrap();
    env.clear_faults();
    disk.rename(&path("c"), &path("b")).unwrap();
}

#[test]
fn a_failed_write_leaves_a_prefix_and_a_failed_sync_may_lose_for_good() {
    let (mut shortest, mut lost) = (usize::MAX, 0);
    for seed in 0..50 {
        let (env, disk, _) = machine(seed);
        let file = disk.create(&path("f")).unwrap();
        disk.sync_dir(Path::new(DIR)).unwrap();
        env.fail(Fault { times: 1, ..Fault::new(Operation::Write, "f", ErrorKind::StorageFull) });
        env.fail(Fault { times: 1, ..Fault::new(Operation::Sync, "f", ErrorKind::Other) });
        file.write_at(&[1; 100], 0).unwrap_err();
        let written = env.read_file(&path("f")).unwrap();
        assert!(written.len() < 100 && written.iter().all(|byte| *byte == 1));
        shortest = shortest.min(written.len());
        file.write_at(&[2; 100], 0).unwrap();
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(env.read_file(&path("f")).unwrap(), [2; 100]);
        env.crash(CrashStyle::KeepAll);
        lost += usize::from(env.read_file(&path("f")).unwrap() != [2; 100]);
    }
    assert!(shortest < 20 && (5..45).contains(&lost), "{shortest} {lost}");
}

#[test]
fn files_can_be_damaged_from_outside() {
    let (env, disk, _) = machine(1);
    env.flip(&path("a"), 1).unwrap();
    assert_eq!(env.read_file(&path("a")).unwrap(), b"s{nced");
    assert_eq!(env.flip(&path("a"), 6).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    env.write_file(&path("b"), b"new");
    env.remove_file(&path("a"));
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(env.list(Path::new(DIR)), ["b"]);
    assert!(disk.open(&path("b")).is_err());
}

#[test]
fn time_passes_only_when_told_and_may_step_back() {
    let env = SimEnv::new(1);
    let clock = env.clock();
    let (start, since) = (clock.now(), clock.monotonic());
    assert_eq!(clock.now(), start);
    env.advance(Duration::from_micros(1));
    assert_eq!(clock.now().ticks(), start.ticks() + 10);
    assert_eq!(clock.monotonic(), since + Duration::from_micros(1));
    env.set_now(Version::from_ticks(5));
    assert_eq!((clock.now().ticks(), clock.monotonic() - since), (5, Duration::from_micros(1)));
}

#[test]
fn jobs_run_when_stepped_by_class_and_in_order_and_timers_when_due() {
    let env = SimEnv::new(1);
    let jobs = env.start_jobs(1).unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| -> Job {
        let ran = Arc::clone(&ran);
        Box::new(move || ran.lock().push(name))
    };
    let delay = Duration::from_millis(5);
    jobs.spawn_after(JobClass::Log, delay, note("timer"));
    jobs.spawn_after(JobClass::Compaction, Duration::ZERO, note("compact"));
    jobs.spawn_after(JobClass::Flush, Duration::ZERO, note("flush 1"));
    jobs.spawn_after(JobClass::Flush, Duration::ZERO, note("flush 2"));
    assert!(jobs.stepped() && jobs.assist());
    assert_eq!(env.run_all(), 2);
    env.advance(delay);
    assert!(env.step() && !env.step() && !jobs.assist());
    assert_eq!(*ran.lock(), ["flush 1", "flush 2", "compact", "timer"]);
}

#[test]
fn jobs_end_with_their_database_and_with_a_crash() {
    let env = SimEnv::new(1);
    let (one, two) = (env.start_jobs(1).unwrap(), env.start_jobs(1).unwrap());
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || -> Job {
        let ran = Arc::clone(&ran);
        Box::new(move || {
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    for jobs in [&one, &two, &one] {
        jobs.spawn_after(JobClass::Log, Duration::ZERO, count());
    }
    assert!(two.assist() && !two.assist(), "a database assists with its own jobs");
    one.stop();
    one.spawn_after(JobClass::Log, Duration::ZERO, count());
    two.spawn_after(JobClass::Log, Duration::ZERO, count());
    assert_eq!(env.run_all(), 1);
    two.spawn_after(JobClass::Log, Duration::ZERO, count());
    env.crash(CrashStyle::KeepAll);
    two.spawn_after(JobClass::Log, Duration::ZERO, count());
    assert_eq!(env.run_all(), 0);
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

/// Who steps jobs until none is left must not take a job that still runs for none.
#[test]
fn assisting_waits_for_a_job_on_another_thread_but_not_for_its_own() {
    let env = SimEnv::new(1);
    let jobs = env.start_jobs(1).unwrap();
    let (started, wait_started) = std::sync::mpsc::channel();
    let ended = Arc::new(AtomicUsize::new(0));
    let (own, count) = (Arc::clone(&jobs), Arc::clone(&ended));
    let job: Job = Box::new(move || {
        assert!(!own.assist());
        started.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        count.fetch_add(1, Ordering::SeqCst);
        let next: Job = Box::new(move || _ = count.fetch_add(1, Ordering::SeqCst));
        own.spawn_after(JobClass::Flush, Duration::ZERO, next);
    });
    jobs.spawn_after(JobClass::Flush, Duration::ZERO, job);
    let stepper = std::thread::spawn(move || env.step());
    wait_started.recv_timeout(Duration::from_secs(120)).unwrap();
    // Whether it waits for the job or comes too late to.
    while jobs.assist() {}
    assert_eq!(ended.load(Ordering::SeqCst), 2);
    assert!(stepper.join().unwrap());
}

#[test]
fn stop_waits_for_a_job_on_another_thread_but_not_for_its_own() {
    let env = SimEnv::new(1);
    let jobs = env.start_jobs(1).unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let (started, wait_started) = std::sync::mpsc::channel();
    let (count, own) = (Arc::clone(&ended), Arc::clone(&jobs));
    let job: Job = Box::new(move || {
        started.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        own.stop();
        count.store(1, Ordering::SeqCst);
    });
    jobs.spawn_after(JobClass::Flush, Duration::ZERO, job);
    let stepper = std::thread::spawn(move || env.step());
    wait_started.recv_timeout(Duration::from_secs(120)).unwrap();
    jobs.stop();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert!(stepper.join().unwrap());
}
