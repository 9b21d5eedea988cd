//! Account signatures: permissions on types of resources of the whole account.

use super::{Fields, failed};
use crate::address::Parameter;
use crate::auth::key::Signer;
use crate::auth::{Account, Grant, refused};
use crate::error::{ErrorCode, ServiceError};
use crate::headers::ApiVersion;

pub(super) fn authenticate(fields: &Fields<'_>, account: &Account) -> Result<Grant, ServiceError> {
    if fields.version < ApiVersion::SAS_SOURCE {
        return Err(failed(&"there are no account signatures in that version"));
    }
    let write = |signer: &mut Signer<'_>| write(signer, fields, account.name());
    if !account.signed(fields.get(Parameter::Signature), write) {
        return Err(failed(&"the account signature is not that of its fields"));
    }
    let expiry = fields.time(Parameter::SignedExpiry)?;
    let expiry = expiry.ok_or_else(|| failed(&"the account signature has no expiry"))?;
    fields.check(fields.time(Parameter::SignedStart)?, expiry)?;
    if !fields.get(Parameter::SignedServices).contains('t') {
        return Err(refused(ErrorCode::AuthorizationServiceMismatch, &"ss lacks t"));
    }
    Ok(Grant::Account {
        permissions: fields.get(Parameter::SignedPermissions).into(),
        resource_types: fields.get(Parameter::SignedResourceTypes).into(),
    })
}

fn write(signer: &mut Signer<'_>, fields: &Fields<'_>, account: &str) {
    signer.line(account);
    for field in [
        Parameter::SignedPermissions,
        Parameter::SignedServices,
        Parameter::SignedResourceTypes,
        Parameter::SignedStart,
        Parameter::SignedExpiry,
        Parameter::SignedIp,
        Parameter::SignedProtocol,
        Parameter::SignedVersion,
    ] {
        signer.line(fields.get(field));
    }
    if fields.version >= ApiVersion::SAS_ENCRYPTION_SCOPE {
        signer.line(fields.get(Parameter::SignedEncryptionScope));
    }
}
