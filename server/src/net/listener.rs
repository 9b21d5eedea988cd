//! [`Listener`]: accepts connections until it is told to stop, then sees those that are open out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, timeout};

use super::refusals::{Refusals, SILENCE};
use super::{ConnectionLimits, Handler, Peer, Tls, connection};

/// Pause after a failed accept: mostly there are no more file descriptors, and some come back.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Connections that wait to be accepted, unless the system lets fewer wait. One more has to try again, which takes it a
/// second; all that were open come at once where a network or a proxy comes back.
const WAITING: u32 = 4096;

/// Tells all listeners to stop; they stop as well when it is dropped.
#[derive(Debug)]
pub struct Shutdown {
    stopping: watch::Sender<bool>,
}

impl Shutdown {
    /// One that has not been called.
    #[must_use]
    pub fn new() -> Self {
        Self { stopping: watch::Sender::new(false) }
    }

    /// Stops: no more connections are accepted, those that are open end after the request that is
    /// under way.
    pub fn begin(&self) {
        self.stopping.send_replace(true);
    }

    pub(super) fn watch(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits for a shutdown to begin.
pub(super) async fn begun(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Tls>,
    limits: ConnectionLimits,
}

impl Listener {
    /// Listens on an address; port 0 is any free one.
    ///
    /// # Errors
    /// What the operating system says.
    #[expect(clippy::unused_async, reason = "a socket needs the runtime that it is made in")]
    pub async fn bind(
        address: SocketAddr,
        tls: Option<Tls>,
        limits: ConnectionLimits,
    ) -> std::io::Result<Self> {
        Ok(Self { socket: listen(address)?, tls, limits })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves connections until `shutdown` begins, and then until all have ended, or the time for
    /// that is over; those without a whole request end at once. The returned future ends when they
    /// have; whether it does is all it says.
    pub fn run<H: Handler>(
        self,
        handler: Arc<H>,
        shutdown: &Shutdown,
    ) -> impl Future<Output = ()> + Send + use<H> {
        let mut stopping = shutdown.watch();
        async move {
            let (running, mut ended) = mpsc::channel::<()>(1);
            let places = Arc::new(Semaphore::new(self.limits.connections));
            let mut refusals = Refusals::new(self.limits.connections);
            let mut failures = Failures { untold: 0, next: Instant::now() };
            while let Some((stream, address)) =
                self.accept(&mut refusals, &mut failures, &mut stopping).await
            {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    refusals.count(address);
                    // Without a handshake, TLS has no words for it.
                    if self.tls.is_none() {
                        refusals.see_out(stream);
                    }
                    continue;
                };
                let (running, stopping) = (running.clone(), stopping.clone());
                let (handler, tls) = (Arc::clone(&handler), self.tls.clone());
                let limits = self.limits;
                tokio::spawn(async move {
                    serve(stream, address, tls, &handler, limits, stopping).await;
                    drop((place, running));
                });
            }
            drop((self.socket, running));
            if timeout(self.limits.shutdown_time, ended.recv()).await.is_err() {
                tracing::warn!("connections were cut off: their requests did not end in time");
            }
        }
    }

    /// The next connection, once there is one; `None` once a shutdown has begun. Meanwhile the log hears of what was
    /// refused or failed.
    async fn accept(
        &self,
        refusals: &mut Refusals,
        failures: &mut Failures,
        stopping: &mut watch::Receiver<bool>,
    ) -> Option<(TcpStream, SocketAddr)> {
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                (refused, last) = refusals.untold() => {
                    tracing::warn!(refused, %last, "connections refused: there are as many as may be");
                    continue;
                }
                () = begun(stopping) => return None,
            };
            match accepted {
                Ok(accepted) => return Some(accepted),
                Err(error) => {
                    if let Some(failed) = failures.count(Instant::now()) {
                        tracing::warn!(failed, %error, "cannot accept a connection");
                    }
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }
}

/// As `TcpListener::bind`, which lets fewer wait.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // On Windows this would let others take the port.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// Accepts that failed. As long as there are no file descriptors all do, and one follows the other.
struct Failures {
    /// Those that the log has not heard of.
    untold: u64,
    /// When the log may hear of them.
    next: Instant,
}

impl Failures {
    /// Counts one; how many the log is to hear of, if it is to.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if now < self.next {
            return None;
        }
        self.next = now + SILENCE;
        Some(std::mem::take(&mut self.untold))
    }
}

async fn serve<H: Handler>(
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<Tls>,
    handler: &Arc<H>,
    limits: ConnectionLimits,
    mut stopping: watch::Receiver<bool>,
) {
    // Answers are small and whole: waiting to send more of them only delays them.
    let _ = stream.set_nodelay(true);
    let peer = Peer { address: Some(address.ip()), secure: tls.is_some() };
    let Some(tls) = tls else {
        return connection::serve(stream, peer, handler, limits, stopping).await;
    };
    let accepted = tokio::select! {
        accepted = timeout(limits.head_time, tls.accept(stream)) => accepted,
        () = begun(&mut stopping) => return,
    };
    match accepted {
        Ok(Ok(stream)) => connection::serve(stream, peer, handler, limits, stopping).await,
        Ok(Err(error)) => tracing::debug!(?peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(?peer, "TLS handshake took too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S12: the first at once, then a line a second, which has those between.
    #[test]
    fn r_s12_the_log_hears_of_failed_accepts_once_a_second() {
        let began = Instant::now();
        let mut failures = Failures { untold: 0, next: began };
        let told = (0..60).filter_map(|n| failures.count(began + n * AFTER_FAILURE));
        assert_eq!(told.collect::<Vec<_>>(), [1, 20, 20]);
    }
}
