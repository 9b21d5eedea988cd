//! [`Refusals`]: connections over the limit, what they hear and what the log hears of them.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

/// What a connection over the limit hears.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nx-ms-error-code: ServerBusy\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// How many refused connections are seen out at once: so many at most, and this part of those that are let in, as
/// each has a file descriptor that the database may want.
const SEEN_OUT: usize = 64;
const SEEN_OUT_PART: usize = 4;
/// How long a refused client has to read that it is.
const TIME: Duration = Duration::from_secs(1);
/// Time between two lines of the log, which whoever connects again and again would fill.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

/// Connections of a listener that are refused.
pub(super) struct Refusals {
    places: Arc<Semaphore>,
    /// Those that the log has not heard of.
    untold: u64,
    last: Option<SocketAddr>,
    /// When the log may hear of them.
    next: Instant,
}

impl Refusals {
    /// Of a listener that lets so many in.
    pub(super) fn new(connections: usize) -> Self {
        let seen_out = (connections / SEEN_OUT_PART).clamp(1, SEEN_OUT);
        let places = Arc::new(Semaphore::new(seen_out));
        Self { places, untold: 0, last: None, next: Instant::now() }
    }

    /// Counts a connection that is refused.
    pub(super) fn count(&mut self, address: SocketAddr) {
        self.untold += 1;
        self.last = Some(address);
    }

    /// Says that there is no place, if not too many are told so already.
    pub(super) fn see_out(&self, stream: TcpStream) {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            tokio::spawn(async move {
                let _ = timeout(TIME, refuse(&stream)).await;
                drop(place);
            });
        }
    }

    /// Waits until the log is to hear of refused connections; how many they are since it last did, and
    /// where the last came from. If it is not waited for, nothing has changed.
    pub(super) async fn untold(&mut self) -> (u64, SocketAddr) {
        let Some(last) = self.last else { return pending().await };
        sleep_until(self.next).await;
        self.next = Instant::now() + SILENCE;
        self.last = None;
        (std::mem::take(&mut self.untold), last)
    }
}

/// Says that there is no place, and reads what the client sends until it closes: closing first
/// would take the answer from it.
async fn refuse(stream: &TcpStream) -> std::io::Result<()> {
    stream.try_write(BUSY)?;
    let mut ignored = [0; 1024];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut ignored) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S12: with few file descriptors, those who are refused leave the database what it needs.
    #[test]
    fn r_s12_few_are_seen_out_where_few_are_let_in() {
        for (connections, expected) in [(1, 1), (32, 8), (256, 64), (10_000, 64)] {
            assert_eq!(Refusals::new(connections).places.available_permits(), expected);
        }
    }

    /// R-S12: the first at once, then a line a second at most, which has those between.
    #[tokio::test(start_paused = true)]
    async fn r_s12_the_log_hears_of_refusals_once_a_second() {
        let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let began = Instant::now();
        let mut refusals = Refusals::new(64);
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, refusals.untold()).await.is_err(), "there are none");
        let began = began + hour;
        refusals.count(address(1));
        assert_eq!((refusals.untold().await, began.elapsed()), ((1, address(1)), Duration::ZERO));
        for port in 2..1002 {
            refusals.count(address(port));
            // What else happens meanwhile is waited for at the same time.
            assert!(timeout(Duration::ZERO, refusals.untold()).await.is_err());
        }
        assert_eq!((refusals.untold().await, began.elapsed()), ((1000, address(1001)), SILENCE));
        assert!(timeout(hour, refusals.untold()).await.is_err());
        refusals.count(address(7));
        let later = Instant::now();
        assert_eq!((refusals.untold().await, later.elapsed()), ((1, address(7)), Duration::ZERO));
    }
}
