//! Table signatures: permissions on the entities of a table, or of a range of their keys; in part
//! perhaps kept with the table, as a stored access policy.

use tablestone::DateTime;

use super::{Fields, failed};
use crate::address::Parameter;
use crate::auth::key::Signer;
use crate::auth::{Account, Grant, KeyRange};
use crate::error::ServiceError;
use crate::headers::ApiVersion;
use crate::wire::xml::SignedIdentifier;

pub(super) fn authenticate<P: AsRef<[SignedIdentifier]>>(
    fields: &Fields<'_>,
    account: &Account,
    policies: impl FnOnce(&str) -> Option<P>,
) -> Result<Grant, ServiceError> {
    if fields.version < ApiVersion::SAS {
        return Err(failed(&"there are no signatures of tables in that version"));
    }
    let table = fields.given(Parameter::TableName);
    let table = table.ok_or_else(|| failed(&"the signature names no table"))?.to_ascii_lowercase();
    let write = |signer: &mut Signer<'_>| write(signer, fields, account.name(), &table);
    if !account.signed(fields.get(Parameter::Signature), write) {
        return Err(failed(&"the table signature is not that of its fields"));
    }
    let terms = Terms::of(fields, &table, policies)?;
    fields.check(terms.start, terms.expiry)?;
    let range = range(fields)?;
    let (table, permissions, version) = (table.into(), terms.permissions, fields.version);
    Ok(Grant::Table { table, permissions, range, version })
}

fn write(signer: &mut Signer<'_>, fields: &Fields<'_>, account: &str, table: &str) {
    signer.line(fields.get(Parameter::SignedPermissions));
    signer.line(fields.get(Parameter::SignedStart));
    signer.line(fields.get(Parameter::SignedExpiry));
    if fields.version >= ApiVersion::SAS_NAMES_SERVICE {
        signer.push("/table");
    }
    signer.push("/").push(account).push("/").line(table);
    signer.line(fields.get(Parameter::SignedIdentifier));
    if fields.version >= ApiVersion::SAS_SOURCE {
        signer.line(fields.get(Parameter::SignedIp));
        signer.line(fields.get(Parameter::SignedProtocol));
    }
    signer.line(fields.get(Parameter::SignedVersion));
    signer.line(fields.get(Parameter::StartPartitionKey));
    signer.line(fields.get(Parameter::StartRowKey));
    signer.line(fields.get(Parameter::EndPartitionKey));
    signer.push(fields.get(Parameter::EndRowKey));
}

/// When a signature holds and what it permits.
struct Terms {
    start: Option<DateTime>,
    expiry: DateTime,
    permissions: Box<str>,
}

impl Terms {
    /// The terms in the signature, together with those of the policy it names. No term may be in
    /// both, and expiry and permissions must be in one of them.
    fn of<P: AsRef<[SignedIdentifier]>>(
        fields: &Fields<'_>,
        table: &str,
        policies: impl FnOnce(&str) -> Option<P>,
    ) -> Result<Self, ServiceError> {
        let stored = match fields.given(Parameter::SignedIdentifier) {
            None => None,
            Some(id) => {
                let policies = policies(table);
                let mut policies = policies.iter().flat_map(AsRef::as_ref);
                let policy = policies.find(|policy| policy.id == id).cloned();
                let missing = || failed(&format_args!("table {table} has no policy {id:?}"));
                Some(policy.ok_or_else(missing)?)
            }
        };
        let (start, expiry, letters) = match stored {
            Some(policy) => (policy.start, policy.expiry, policy.permission),
            None => (None, None, None),
        };
        let start = one(Parameter::SignedStart, fields.time(Parameter::SignedStart)?, start)?;
        let expiry = one(Parameter::SignedExpiry, fields.time(Parameter::SignedExpiry)?, expiry)?;
        let signed = fields.given(Parameter::SignedPermissions).map(str::to_owned);
        let letters = one(Parameter::SignedPermissions, signed, letters)?;
        Ok(Self {
            start,
            expiry: expiry.ok_or_else(|| failed(&"the signature has no expiry"))?,
            permissions: letters.ok_or_else(|| failed(&"the signature permits nothing"))?.into(),
        })
    }
}

/// A term that may be in the signature or in the policy, but not in both.
fn one<T>(
    field: Parameter,
    signed: Option<T>,
    stored: Option<T>,
) -> Result<Option<T>, ServiceError> {
    match (signed, stored) {
        (Some(_), Some(_)) => {
            let field = field.as_str();
            Err(failed(&format_args!("{field} is in the signature and in its policy")))
        }
        (signed, stored) => Ok(signed.or(stored)),
    }
}

fn range(fields: &Fields<'_>) -> Result<KeyRange, ServiceError> {
    // An empty key is no end: what is signed is the same without it, so whoever has the signature could
    // leave it out.
    let end = |partition, row| {
        let text = |field| fields.given(field).map(str::to_owned);
        match (text(partition), text(row)) {
            (None, Some(_)) => Err(failed(&"the signature has a RowKey without a PartitionKey")),
            (partition, row) => Ok(partition.map(|partition| (partition, row))),
        }
    };
    Ok(KeyRange {
        start: end(Parameter::StartPartitionKey, Parameter::StartRowKey)?,
        end: end(Parameter::EndPartitionKey, Parameter::EndRowKey)?,
    })
}
