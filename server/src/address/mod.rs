//! What a request is about: the account and the resource that its address names.
//!
//! Invariant: an address is decoded exactly once and afterwards is text, so that a key may hold
//! percent signs, quotes, or what looks like the rest of an address: `x',RowKey='y` is a key.

mod query;
mod resource;
mod text;

pub use query::{Parameter, QueryString};
pub use resource::{Resource, push_entity_address};
pub(crate) use resource::{push_partition_address, push_row_address, wrong_keys};
pub(crate) use text::ENCODED;

use std::borrow::Cow;

use crate::error::{ErrorCode, ServiceError};

/// What an account's read-only copy adds to the account's name in addresses.
pub(crate) const SECONDARY: &str = "-secondary";

/// Where in an address the account's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `http://ACCOUNT.table.HOST/...`, as the cloud has it.
    Host,
    /// `http://HOST/ACCOUNT/...`, as the emulator has it.
    Path,
}

/// The account that a request is addressed to. This is found out before the signature is checked; what follows the
/// account is read only after that, so that a stranger learns nothing by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// See [`Address::account`].
    pub account: Cow<'a, str>,
    /// See [`Address::secondary`].
    pub secondary: bool,
    /// See [`Address::style`].
    pub style: Style,
    /// What follows the account.
    rest: &'a str,
}

/// The address of a request.
///
/// ```
/// use tablestone_server::address::{Address, Resource};
/// let path = "/devstoreaccount1/People(PartitionKey='de',RowKey='O%27%27Brien%25')";
/// let address = Address::parse(Some("127.0.0.1:10002"), path, |_| true)?;
/// assert_eq!(address.account, "devstoreaccount1");
/// let (partition_key, row_key) = ("de".into(), "O'Brien%".into());
/// assert_eq!(address.resource, Resource::Entity { table: "People".into(), partition_key, row_key });
/// # Ok::<(), tablestone_server::error::ServiceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The account's name, without what marks its secondary; in lower case if a host names it, as
    /// hosts have no case.
    pub account: Cow<'a, str>,
    /// Whether it is the account's secondary that is meant, where statistics are.
    pub secondary: bool,
    /// Where the account's name was found.
    pub style: Style,
    /// What of the account is meant.
    pub resource: Resource,
}

impl<'a> Place<'a> {
    /// Reads the `Host` header and the path of a request as they were sent. A host of the form `NAME.table.REST` names
    /// the account if `is_account` says that NAME is one, or that the path begins with none either: an account that
    /// does not exist is found in the same place as one that does. Else the path names it.
    ///
    /// # Errors
    /// [`ErrorCode::HostInformationNotPresent`], [`ErrorCode::InvalidUri`] if no account is named.
    pub fn of(
        host: Option<&'a str>,
        path: &'a str,
        is_account: impl Fn(&str) -> bool,
    ) -> Result<Self, ServiceError> {
        let host = host.filter(|host| !host.is_empty());
        let host = host.ok_or(ErrorCode::HostInformationNotPresent)?;
        let path = path.strip_prefix('/').unwrap_or(path);
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        let (in_path, secondary_in_path) = primary(name);
        match account_of_host(host).filter(|(account, _)| !account.is_empty()) {
            Some((account, secondary)) if is_account(&account) || !is_account(in_path) => {
                Ok(Self { account, secondary, style: Style::Host, rest: path })
            }
            _ if in_path.is_empty() => {
                Err(ErrorCode::InvalidUri.because("The address names no account."))
            }
            _ => {
                let (account, secondary) = (in_path.into(), secondary_in_path);
                let rest = if secondary { named_twice(in_path, rest) } else { rest };
                Ok(Self { account, secondary, style: Style::Path, rest })
            }
        }
    }

    /// With what follows the account.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidUri`] if the path is no percent-encoded UTF-8, [`ErrorCode::InvalidInput`]
    /// for keys out of form.
    pub fn resolve(self) -> Result<Address<'a>, ServiceError> {
        let resource = Resource::parse(&self.account, self.rest.trim_start_matches('/'))?;
        let Self { account, secondary, style, .. } = self;
        Ok(Address { account, secondary, style, resource })
    }
}

impl<'a> Address<'a> {
    /// Reads the `Host` header and the path of a request as they were sent.
    ///
    /// # Errors
    /// As [`Place::of`] and [`Place::resolve`].
    pub fn parse(
        host: Option<&'a str>,
        path: &'a str,
        is_account: impl Fn(&str) -> bool,
    ) -> Result<Self, ServiceError> {
        Place::of(host, path, is_account)?.resolve()
    }
}

/// The account that a host of the form `NAME.table.REST` means, and whether it means the secondary. In
/// clouds whose names of hosts have zones it is `NAME.ZONE.table.REST`.
pub(crate) fn account_of_host(host: &str) -> Option<(Cow<'_, str>, bool)> {
    let (name, rest) = host.split_once('.')?;
    if !rest.split('.').take(2).any(|label| label.eq_ignore_ascii_case("table")) {
        return None;
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let lower = name.to_ascii_lowercase();
        let (account, secondary) = primary(&lower);
        return Some((account.to_owned().into(), secondary));
    }
    let (account, secondary) = primary(name);
    Some((account.into(), secondary))
}

/// What follows the account. The Python SDK puts an emulator's secondary before the path that it
/// has for the primary, in which the account is named again.
fn named_twice<'a>(account: &str, rest: &'a str) -> &'a str {
    rest.strip_prefix(account).and_then(|rest| rest.strip_prefix('/')).unwrap_or(rest)
}

/// The account that a name in an address means, and whether it means the secondary.
fn primary(name: &str) -> (&str, bool) {
    match name.strip_suffix(SECONDARY) {
        Some(account) => (account, true),
        None => (name, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(host: &str, path: &str) -> (String, bool, Style, Resource) {
        let address = Address::parse(Some(host), path, |name| name == "acct").unwrap();
        (address.account.into(), address.secondary, address.style, address.resource)
    }

    /// R-S01: both styles, and the secondary in both.
    #[test]
    fn r_s01_an_account_is_named_by_host_or_path() {
        let tables = |secondary, style| ("acct".into(), secondary, style, Resource::Tables);
        let local = "127.0.0.1:10002";
        assert_eq!(parse(local, "/acct/Tables"), tables(false, Style::Path));
        assert_eq!(parse(local, "/acct-secondary/Tables"), tables(true, Style::Path));
        assert_eq!(parse(local, "/acct-secondary/acct/Tables"), tables(true, Style::Path));
        let cloud = "acct.table.core.windows.net";
        assert_eq!(parse(cloud, "/Tables"), tables(false, Style::Host));
        assert_eq!(parse("acct-secondary.TABLE.local:80", "/Tables"), tables(true, Style::Host));
        assert_eq!(
            parse("acct.z01.table.storage.azure.net", "/Tables"),
            tables(false, Style::Host)
        );
        // Names of hosts have no case; paths do.
        assert_eq!(parse("AcCt.Table.localhost", "/Tables"), tables(false, Style::Host));
        assert_eq!(parse("ACCT-Secondary.table.local", "/Tables"), tables(true, Style::Host));
        assert_eq!(parse(local, "/Acct/Tables").0, "Acct");
        // A host that only looks like it: a service called `store` in a namespace called `table`.
        assert_eq!(parse("store.table.svc", "/acct/Tables"), tables(false, Style::Path));
        // Neither is an account: which ones there are makes no difference.
        assert_eq!(
            parse("no.table.svc", "/Tables"),
            ("no".into(), false, Style::Host, Resource::Tables)
        );
        // With the account in the host, a path that repeats it names a table of that name.
        let (.., resource) = parse(cloud, "/acct");
        assert_eq!(resource, Resource::Entities { table: "acct".into() });
    }

    #[test]
    fn the_service_is_what_is_left_when_nothing_follows_the_account() {
        for path in ["/acct", "/acct/", "acct", "/acct//"] {
            assert_eq!(parse("localhost", path).3, Resource::Service, "{path}");
        }
        assert_eq!(parse("acct.table.local", "").3, Resource::Service);
    }

    #[test]
    fn an_address_without_host_or_account_is_refused() {
        let code = |host, path| Address::parse(host, path, |_| true).unwrap_err().code();
        assert_eq!(code(None, "/acct/Tables"), ErrorCode::HostInformationNotPresent);
        assert_eq!(code(Some(""), "/acct/Tables"), ErrorCode::HostInformationNotPresent);
        assert_eq!(code(Some("localhost"), "/"), ErrorCode::InvalidUri);
        for host in [".table.local", "-secondary.table.local"] {
            assert_eq!(code(Some(host), "/"), ErrorCode::InvalidUri, "{host}");
        }
        assert_eq!(code(Some("localhost"), "//Tables"), ErrorCode::InvalidUri);
        assert_eq!(code(Some("localhost"), "/-secondary/Tables"), ErrorCode::InvalidUri);
    }
}
