//! [`Call`]: a request whose signature was checked.

use std::sync::Arc;

use http::request::Parts;

use super::account::AccountState;
use super::catalog::TableState;
use super::keys::check_table_name;
use super::{Limits, limits};
use crate::address::{Address, Parameter, QueryString, SECONDARY, Style};
use crate::auth::{Grant, Operation};
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{ApiVersion, BodyFormat, Common, MAX_HOST, Verb, host, response_format};
use crate::net::Peer;

/// What an operation needs to know of its request.
pub(super) struct Call<'a> {
    pub(super) head: &'a Parts,
    pub(super) peer: Peer,
    pub(super) verb: Verb,
    pub(super) address: Address<'a>,
    pub(super) query: QueryString<'a>,
    /// That of the header, or that of the signature.
    pub(super) version: Option<ApiVersion>,
    pub(super) account: &'a Arc<AccountState>,
    pub(super) grant: Grant,
    pub(super) common: &'a Common,
    pub(super) limits: &'a Limits,
}

impl Call<'_> {
    /// The longest address of an account: scheme, host, slashes, name, `-secondary`.
    pub(super) const MAX_BASE_BYTES: usize = MAX_HOST + 64;

    /// The account's address as the client has it, without a slash at the end.
    pub(super) fn base(&self) -> String {
        let scheme = if self.peer.secure { "https" } else { "http" };
        let host = host(&self.head.uri, &self.head.headers).unwrap_or_default();
        let mut base = format!("{scheme}://{host}");
        if self.address.style == Style::Path {
            base.push('/');
            base.push_str(&self.address.account);
            if self.address.secondary {
                base.push_str(SECONDARY);
            }
        }
        base
    }

    /// The form that the answer is to have.
    pub(super) fn format(&self) -> Result<BodyFormat, ServiceError> {
        let format = self.query.given(Parameter::Format);
        response_format(format, &self.head.headers, self.version)
    }

    /// What went wrong, as the client is to hear it.
    pub(super) fn told(&self, error: ServiceError) -> ServiceError {
        limits::told(error, self.limits)
    }

    /// Refuses an operation that the signature does not allow.
    pub(super) fn allow(
        &self,
        operation: Operation,
        table: Option<&str>,
    ) -> Result<(), ServiceError> {
        self.grant.allow(operation, table)
    }

    /// A table of the account, in whatever case it is named.
    pub(super) fn table(&self, name: &str) -> Result<Arc<TableState>, ServiceError> {
        self.account.table(name).ok_or_else(|| match check_table_name(name) {
            Ok(()) => ErrorCode::TableNotFound.error(),
            Err(impossible) => impossible,
        })
    }
}
