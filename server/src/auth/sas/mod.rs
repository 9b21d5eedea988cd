//! Shared access signatures: an address that carries its own permission, signed with an account's
//! key. What is signed is each field as text, so nothing of it can be changed by who holds it.

mod account;
mod table;

use std::net::IpAddr;

use tablestone::DateTime;

use super::{Account, Grant, Signed, refused};
use crate::address::Parameter;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::ApiVersion;
use crate::wire::xml::SignedIdentifier;

pub(super) fn authenticate<P: AsRef<[SignedIdentifier]>>(
    request: &Signed<'_>,
    account: &Account,
    policies: impl FnOnce(&str) -> Option<P>,
) -> Result<Grant, ServiceError> {
    let fields = Fields::of(request)?;
    if request.query.given(Parameter::SignedServices).is_some() {
        account::authenticate(&fields, account)
    } else {
        table::authenticate(&fields, account, policies)
    }
}

/// The fields of a signature, as they were sent.
struct Fields<'a> {
    request: &'a Signed<'a>,
    version: ApiVersion,
}

impl<'a> Fields<'a> {
    fn of(request: &'a Signed<'a>) -> Result<Self, ServiceError> {
        let version = request.query.get(Parameter::SignedVersion).and_then(ApiVersion::parse);
        let version = version.ok_or_else(|| failed(&"the signature has no version"))?;
        Ok(Self { request, version })
    }

    /// A field's text; a field that was not sent is signed as the empty string.
    fn get(&self, field: Parameter) -> &'a str {
        self.request.query.get(field).unwrap_or_default()
    }

    fn given(&self, field: Parameter) -> Option<&'a str> {
        self.request.query.given(field)
    }

    /// A field that is a time.
    fn time(&self, field: Parameter) -> Result<Option<DateTime>, ServiceError> {
        let time = self.given(field).map(str::parse).transpose();
        time.map_err(|error| failed(&format_args!("{}: {error}", field.as_str())))
    }

    /// Refuses a signature before its start and from its expiry on, for other addresses than its
    /// own, and for other protocols.
    fn check(&self, start: Option<DateTime>, expiry: DateTime) -> Result<(), ServiceError> {
        let now = DateTime::from_system_time(self.request.now);
        let now = now.ok_or_else(|| failed(&"the clock is out of range"))?;
        if start.is_some_and(|start| now < start) || now >= expiry {
            let start = start.unwrap_or(DateTime::MIN);
            let reason = format_args!("it is {now}, and the signature is for {start} to {expiry}");
            return Err(failed(&reason));
        }
        if self.version < ApiVersion::SAS_SOURCE {
            return Ok(());
        }
        if let Some(addresses) = self.given(Parameter::SignedIp)
            && !self.request.peer.is_some_and(|peer| includes(addresses, peer))
        {
            let reason = format_args!("{:?} is not among {addresses:?}", self.request.peer);
            return Err(refused(ErrorCode::AuthorizationSourceIPMismatch, &reason));
        }
        match self.given(Parameter::SignedProtocol) {
            None | Some("https,http" | "http,https") => Ok(()),
            Some("https") if self.request.secure => Ok(()),
            Some(protocol) => {
                let reason = format_args!("the signature is for {protocol:?}");
                Err(refused(ErrorCode::AuthorizationProtocolMismatch, &reason))
            }
        }
    }
}

/// Whether an address, or a range of them (`168.1.5.60-168.1.5.70`), includes a peer.
fn includes(addresses: &str, peer: IpAddr) -> bool {
    let (first, last) = addresses.split_once('-').unwrap_or((addresses, addresses));
    let (Ok(first), Ok(last)) = (first.trim().parse::<IpAddr>(), last.trim().parse::<IpAddr>())
    else {
        return false;
    };
    let (first, last, peer) = (first.to_canonical(), last.to_canonical(), peer.to_canonical());
    first.is_ipv4() == peer.is_ipv4() && (first..=last).contains(&peer)
}

fn failed(reason: &dyn std::fmt::Display) -> ServiceError {
    refused(ErrorCode::AuthenticationFailed, reason)
}

#[cfg(test)]
mod tests;
