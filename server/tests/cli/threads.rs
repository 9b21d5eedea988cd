//! Where the system has no thread to give, a command says so, or makes do with those that it has.

use crate::support::{Shell, finish};

const NO_THREAD: &str = "error: cannot start a thread: ";

/// Whichever of its threads is the first that it does not get: none is waited for that never comes.
#[test]
fn a_server_that_does_not_get_its_threads_says_so() {
    let shell = Shell::new();
    let serve = ["serve", "--log", "error", "--data", "data", "--listen"];
    for threads in 0..12 {
        // Where it gets all, there is no such address to listen on.
        let failure = finish(shell.cramped(threads, &[&serve[..], &["192.0.2.1:1"]].concat()), "");
        let failure = failure.failure(1);
        let said =
            [NO_THREAD, "error: cannot start the background threads of ", "error: cannot listen"];
        assert!(said.iter().any(|said| failure.starts_with(said)), "{threads}: {failure}");
        assert_eq!(failure.lines().count(), 1, "{failure}");
    }
}
