//! Connections: listening, TLS, HTTP, what each may take and for how long, and the way out.
//!
//! Invariant: nothing a peer does or fails to do holds a connection for ever, and what goes wrong
//! on one connection stays there.

mod activity;
mod admin;
mod aside;
mod certificate;
mod connection;
mod folds;
mod listener;
mod proxies;
mod refusals;
mod tls;

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;

pub use admin::{Admin, Condition, Readiness};
pub(crate) use aside::on_own_thread;
pub use certificate::TlsError;
pub(crate) use certificate::read_certificates;
pub use listener::{Listener, Shutdown};
pub use proxies::{BehindProxies, Network, NoNetwork};
pub use tls::Tls;

use crate::body::AnswerBody;

/// What answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The answer to a request. If the client goes away, the future is dropped.
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<AnswerBody>> + Send;
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address of the other end; `None` for requests that came through no network, or through a proxy that does
    /// not say from where.
    pub address: Option<IpAddr>,
    /// Whether the client's connection is encrypted: the one to the proxy, where that is trusted and says so.
    pub secure: bool,
}

/// What a connection may take (R-S12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once; one more is told that the server is busy, or closed where there is TLS.
    /// Default 4,096.
    pub connections: usize,
    /// Bytes of a request's line and headers. Default 128 KiB; at least [`LEAST_HEAD`](Self::LEAST_HEAD).
    pub head_bytes: usize,
    /// Time for a request's line and headers to come, and for a TLS handshake. Default 30 s.
    pub head_time: Duration,
    /// Time that a connection is kept without a request. Default 3 min.
    pub idle_time: Duration,
    /// Time in which a client must take 64 KiB of an answer, or what is left of it. Default 30 s.
    pub write_time: Duration,
    /// Time for requests under way to end when the server shuts down. Default 30 s.
    pub shutdown_time: Duration,
}

impl ConnectionLimits {
    /// The least that [`head_bytes`](Self::head_bytes) can be: what the HTTP layer reads at once.
    pub const LEAST_HEAD: usize = 8 << 10;
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            head_bytes: 128 << 10,
            head_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(180),
            write_time: Duration::from_secs(30),
            shutdown_time: Duration::from_secs(30),
        }
    }
}
