//! Waits that end, if need be with a panic that says what was waited for.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Far longer than what a test waits for takes on the slowest machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Looks again and again until it holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The next message.
pub fn receive<T>(from: &Receiver<T>, what: &str) -> T {
    match from.recv_timeout(LIMIT) {
        Ok(message) => message,
        Err(error) => panic!("waited in vain for {what}: {error}"),
    }
}

/// A child process, which is killed when dropped: a test that fails leaves none behind that waits.
#[derive(Debug)]
pub struct KilledOnDrop(pub Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that a child process writes, as they come; the last may be cut.
pub fn lines(output: ChildStdout) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let _ = send.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    receive
}

/// Tells threads that run beside others that those have ended.
#[derive(Debug, Default)]
pub struct Ended(AtomicBool);

impl Ended {
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Says so when dropped: also if the one who holds it panics, so that the others do not go on
    /// for ever.
    pub fn when_dropped(&self) -> impl Drop {
        struct Guard<'a>(&'a AtomicBool);

        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }

        Guard(&self.0)
    }
}
