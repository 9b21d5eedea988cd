//! [`BehindProxies`]: requests that come through proxies, as if they came from their clients.
//!
//! Invariant: what a request says of where it came from is believed only as far as it was said by a proxy that is
//! trusted. What no such proxy said, or nobody can read, makes nobody trusted and nothing secure.

use std::future::Future;
use std::net::{AddrParseError, IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, Request, Response};
use hyper::body::Incoming;
use serde::de::{Deserialize, Deserializer, Error};

use super::{Handler, Peer};
use crate::body::AnswerBody;

/// Each proxy adds the address that it was asked from to the end of this list.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// How the proxy was asked.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Addresses: one, or all that begin with the same bits.
///
/// ```
/// use tablestone_server::net::Network;
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// # Ok::<(), tablestone_server::net::NoNetwork>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: u128,
    /// The bits that differ within it.
    open: u128,
}

/// A text is no [`Network`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address and no network: expected one such as 10.0.0.1 or 10.0.0.0/8")]
pub struct NoNetwork(Box<str>);

impl Network {
    /// Whether an address is in it. An IPv4 address is the same however it is written.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        (self.address ^ number(address)) & !self.open == 0
    }
}

/// An address as one of IPv6.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let parsed = || {
            let (address, bits) = match text.split_once('/') {
                Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().ok()?;
            let all: u32 = if address.is_ipv4() { 32 } else { 128 };
            let open = all.checked_sub(bits.unwrap_or(all))?;
            let open = u128::MAX.checked_shr(128 - open).unwrap_or_default();
            Some(Self { address: number(address), open })
        };
        parsed().ok_or_else(|| NoNetwork(text.into()))
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Has requests that come through trusted proxies handled as their clients'.
#[derive(Debug)]
pub struct BehindProxies<H> {
    trusted: Box<[Network]>,
    handler: Arc<H>,
}

impl<H> BehindProxies<H> {
    /// With these proxies, of which there may be none.
    pub fn new(trusted: impl Into<Box<[Network]>>, handler: Arc<H>) -> Self {
        Self { trusted: trusted.into(), handler }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Who asks, if it may be somebody behind this peer.
    fn client(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        match peer.address {
            Some(proxy) if self.trusts(proxy) => Peer {
                address: self.address(proxy, headers),
                secure: is_secure(headers).unwrap_or(peer.secure),
            },
            _ => peer,
        }
    }

    /// The last address of the list that is no trusted proxy's: those before it may be anybody's invention. `None` if it
    /// cannot be read.
    fn address(&self, proxy: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        let mut farthest = proxy;
        for line in headers.get_all(FORWARDED_FOR).iter().rev() {
            for text in line.to_str().ok()?.rsplit(',') {
                farthest = address(text.trim()).ok()?;
                if !self.trusts(farthest) {
                    return Some(farthest);
                }
            }
        }
        Some(farthest)
    }
}

/// An address, behind which some proxies put the port.
fn address(text: &str) -> Result<IpAddr, AddrParseError> {
    text.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
}

/// Whether the last that said so says that its client came through TLS, if any says how it came.
fn is_secure(headers: &HeaderMap) -> Option<bool> {
    let said = headers.get_all(FORWARDED_PROTO).iter().next_back()?;
    let last = said.as_bytes().rsplit(|byte| *byte == b',').next()?;
    Some(last.trim_ascii().eq_ignore_ascii_case(b"https"))
}

impl<H: Handler> Handler for BehindProxies<H> {
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<AnswerBody>> + Send {
        let peer = self.client(peer, request.headers());
        self.handler.handle(request, peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    /// Who asks of a server that trusts 10.0.0.0/8 and ::1, and whether through TLS.
    fn client(peer: &str, headers: &[(HeaderName, &str)]) -> (String, bool) {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
        let proxies = BehindProxies::new(trusted, Arc::new(Nobody));
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name, value.parse().unwrap());
        }
        let peer = Peer { address: peer.parse().ok(), secure: false };
        let Peer { address, secure } = proxies.client(peer, &all);
        (address.map_or("nobody".into(), |address| address.to_string()), secure)
    }

    #[test]
    fn r_s08_only_trusted_proxies_are_believed() {
        let said = [(FORWARDED_FOR, "192.0.2.1"), (FORWARDED_PROTO, "https")];
        assert_eq!(client("10.0.0.1", &said), ("192.0.2.1".into(), true));
        assert_eq!(client("::ffff:10.0.0.1", &said), ("192.0.2.1".into(), true));
        assert_eq!(client("::1", &said), ("192.0.2.1".into(), true));
        assert_eq!(client("11.0.0.1", &said), ("11.0.0.1".into(), false));
        assert_eq!(client("::2", &said), ("::2".into(), false));
        assert_eq!(client("10.0.0.1", &[]), ("10.0.0.1".into(), false));
    }

    /// What a client invents is before what the proxy adds to it.
    #[test]
    fn r_s08_the_client_is_the_last_address_that_is_not_trusted() {
        let of = |lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(|line| (FORWARDED_FOR, *line)).collect();
            client("10.0.0.1", &lines).0
        };
        assert_eq!(of(&["10.0.0.9, 192.0.2.7,192.0.2.1"]), "192.0.2.1");
        assert_eq!(of(&["192.0.2.7", "192.0.2.1"]), "192.0.2.1");
        assert_eq!(of(&["192.0.2.7, 192.0.2.1", " 10.0.0.2 , 10.0.0.3"]), "192.0.2.1");
        assert_eq!(of(&["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
        assert_eq!(of(&["192.0.2.1:4711"]), "192.0.2.1");
        assert_eq!(of(&["2001:db8::1"]), "2001:db8::1");
        assert_eq!(of(&["[2001:db8::1]:4711"]), "2001:db8::1");
        for unreadable in ["unknown", "", "192.0.2.1,", "192.0.2.1, _hidden, 10.0.0.2"] {
            assert_eq!(of(&[unreadable]), "nobody", "{unreadable}");
        }
    }

    #[test]
    fn r_s08_the_last_protocol_counts() {
        let of = |lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(|line| (FORWARDED_PROTO, *line)).collect();
            client("10.0.0.1", &lines).1
        };
        assert!(of(&["https"]) && of(&["HTTPS "]) && of(&["http", "http, https"]));
        assert!(!of(&["http"]) && !of(&["https", "http"]) && !of(&["https,"]) && !of(&["wss"]));
    }

    #[test]
    fn a_network_is_an_address_with_as_many_bits_as_are_fixed() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.1", "10.0.0.1") && !contains("10.0.0.1", "10.0.0.2"));
        assert!(contains("10.0.0.1/31", "10.0.0.0") && !contains("10.0.0.1/31", "10.0.0.2"));
        assert!(contains("0.0.0.0/0", "255.1.2.3") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "255.1.2.3") && contains("fd00::/8", "fdff::1"));
        assert!(!contains("fd00::/8", "fe00::1") && contains("::1/128", "::1"));
        for text in ["", "/", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0/8", "a/8", "::/-1"] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no address")), "{error}");
        }
    }
}
