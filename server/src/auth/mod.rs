//! Who may do what: accounts and their keys, the signatures of requests, and what each grants.
//!
//! Invariant: nothing but a signature under one of the account's keys yields a [`Grant`], and
//! signatures are compared in constant time. A refusal tells the client what the protocol documents
//! and nothing else; the reason goes to the log, at debug level.

mod grant;
mod key;
mod sas;
mod shared_key;

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, header};

pub use grant::{Grant, KeyRange, Operation};
pub use key::{InvalidKey, SigningKey};

use crate::address::{Parameter, Place, QueryString};
use crate::error::{ErrorCode, ServiceError};
use crate::headers::text;
use crate::wire::xml::SignedIdentifier;

/// How old, or how far ahead, a signed request may be, as the service has it.
pub const CLOCK_SKEW: Duration = Duration::from_secs(15 * 60);

/// An account: a name and the keys that speak for it.
#[derive(Clone, Debug)]
pub struct Account {
    name: Box<str>,
    keys: Vec<SigningKey>,
}

impl Account {
    /// An account with one key, or with two so that they can be exchanged one after the other.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>, keys: Vec<SigningKey>) -> Self {
        Self { name: name.into(), keys }
    }

    /// The account's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether one of the account's keys made this signature for what `write` writes.
    fn signed(&self, signature: &str, write: impl Fn(&mut key::Signer<'_>)) -> bool {
        // A base64 text whose `+` came through a query string unencoded.
        let signature = signature.replace(' ', "+");
        self.keys.iter().any(|key| key.verifies(&signature, &write))
    }
}

/// A request as far as its signature goes.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The method as it was sent.
    pub method: &'a Method,
    /// The path as it was sent.
    pub path: &'a str,
    /// The parameters.
    pub query: &'a QueryString<'a>,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// Whom the request is addressed to.
    pub place: &'a Place<'a>,
    /// Where it came from; `None` if that is no network.
    pub peer: Option<IpAddr>,
    /// Whether it came through TLS.
    pub secure: bool,
    /// The time now.
    pub now: SystemTime,
}

impl Signed<'_> {
    /// What the request's signature grants. `policies` gives the stored access policies of a table
    /// that a signature may refer to.
    ///
    /// # Errors
    /// [`ErrorCode::AuthenticationFailed`]: the signature is missing, wrong, too old or too new.
    /// [`ErrorCode::InvalidAuthenticationInfo`]: it is out of form.
    /// [`ErrorCode::AuthorizationSourceIPMismatch`], [`ErrorCode::AuthorizationProtocolMismatch`],
    /// [`ErrorCode::AuthorizationServiceMismatch`]: it does not hold for such requests.
    pub fn authenticate<P: AsRef<[SignedIdentifier]>>(
        &self,
        account: &Account,
        policies: impl FnOnce(&str) -> Option<P>,
    ) -> Result<Grant, ServiceError> {
        if let Some(authorization) = self.headers.get(header::AUTHORIZATION) {
            let authorization = authorization.to_str().map_err(|_| {
                refused(ErrorCode::InvalidAuthenticationInfo, &"Authorization is not text")
            })?;
            return shared_key::authenticate(self, account, authorization);
        }
        if self.query.get(Parameter::Signature).is_some() {
            return sas::authenticate(self, account, policies);
        }
        Err(refused(ErrorCode::AuthenticationFailed, &"the request is not signed"))
    }

    fn header(&self, name: &http::HeaderName) -> &str {
        text(self.headers, name).unwrap_or_default()
    }
}

/// The refusal of a request whose account does not exist, which is not the only one such a request may get:
/// its signature is looked at as if there were the account, with a key that nobody has.
#[must_use]
pub fn unknown_account(name: &str) -> ServiceError {
    refused(ErrorCode::AuthenticationFailed, &format_args!("there is no account {name:?}"))
}

/// An error that tells the client its code and the log its reason.
#[cold]
fn refused(code: ErrorCode, reason: &dyn fmt::Display) -> ServiceError {
    tracing::debug!(target: "tablestone_server::auth", %code, %reason, "request refused");
    code.error()
}
