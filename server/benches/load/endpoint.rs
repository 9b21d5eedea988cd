//! [`Endpoint`]: where requests go, and the heads that they have.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::SystemTime;

use tablestone_server::auth::SigningKey;

use super::Failure;

/// An account at an address.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    /// As requests name it.
    pub(crate) host: String,
    /// What stands before the path of each resource: the account, in the emulator's style.
    pub(crate) path: String,
    pub(crate) account: String,
    pub(crate) key: SigningKey,
}

/// The body of a request, as its head tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    None,
    Json(usize),
    Batch(usize),
}

impl Content {
    /// JSON of that length, if that is any.
    pub(crate) fn json(length: usize) -> Self {
        if length == 0 { Self::None } else { Self::Json(length) }
    }
}

/// The boundary of batches.
pub(crate) const BOUNDARY: &str = "batch_6ba7b810";

impl Endpoint {
    /// Reads `http://HOST:PORT/PATH`.
    pub(crate) fn parse(url: &str, account: &str, key: &str) -> Result<Self, Failure> {
        let rest = url.strip_prefix("http://").ok_or_else(|| format!("{url} is not http://"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let named = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let address = named.to_socket_addrs()?.next();
        let path = path.trim_end_matches('/');
        Ok(Self {
            address: address.ok_or_else(|| format!("{host} has no address"))?,
            host: host.to_owned(),
            path: if path.is_empty() { String::new() } else { format!("/{path}") },
            account: account.to_owned(),
            key: SigningKey::parse(key)?,
        })
    }

    /// Adds a request up to its body, signed with SharedKeyLite.
    pub(crate) fn push_head(
        &self,
        out: &mut Vec<u8>,
        date: &str,
        method: &str,
        path: &str,
        query: &str,
        content: Content,
    ) {
        let Self { host, account, key, .. } = self;
        let signature = key.sign(|signer| {
            signer.line(date).push("/").push(account).push(path);
        });
        // Writing to memory does not fail.
        let _ = write!(
            out,
            "{method} {path}{query} HTTP/1.1\r\nHost: {host}\r\n\
             User-Agent: load\r\nAccept: application/json;odata=minimalmetadata\r\n\
             DataServiceVersion: 3.0\r\nx-ms-version: 2019-02-02\r\nx-ms-date: {date}\r\n\
             x-ms-client-request-id: 6ba7b810-9dad-11d1-80b4-00c04fd430c8\r\n\
             Authorization: SharedKeyLite {account}:{signature}\r\n",
        );
        let _ = match content {
            Content::None => Ok(()),
            Content::Json(length) => write!(
                out,
                "Content-Type: application/json\r\nPrefer: return-no-content\r\n\
                 Content-Length: {length}\r\n"
            ),
            Content::Batch(length) => write!(
                out,
                "Content-Type: multipart/mixed; boundary={BOUNDARY}\r\n\
                 Content-Length: {length}\r\n"
            ),
        };
        out.extend_from_slice(b"\r\n");
    }
}

/// The time as requests state it.
pub(crate) fn now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}
