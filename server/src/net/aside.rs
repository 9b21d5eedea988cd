//! [`on_own_thread`]: work that may block, beside what serves clients.

use std::io;
use std::thread::Builder;

use tokio::sync::oneshot::{self, Receiver};

/// Begins work that may block, for which tokio panics where the system has no thread. What it ends with comes to the
/// receiver, unless it panics.
///
/// # Errors
/// The system has no thread to give.
pub(crate) fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (tell, told) = oneshot::channel();
    // Who wants to know may have gone.
    Builder::new().spawn(move || drop(tell.send(work())))?;
    Ok(told)
}
