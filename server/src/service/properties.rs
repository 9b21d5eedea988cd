//! An account's settings and statistics.

use std::time::SystemTime;

use http::StatusCode;

use super::answer::Answer;
use super::call::Call;
use crate::address::{Parameter, QueryString};
use crate::auth::Operation;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::ApiVersion;
use crate::wire::xml::{print_old_properties, print_properties, print_stats};

/// Refuses an address of the service that does not say that it is one.
pub(super) fn check_restype(query: &QueryString<'_>) -> Result<(), ServiceError> {
    match query.get(Parameter::Restype) {
        Some("service") => Ok(()),
        _ => Err(ErrorCode::InvalidQueryParameterValue.error()),
    }
}

/// The answer to Get Table Service Properties. Who states no version has all of them.
pub(super) fn get(call: &Call<'_>) -> Result<Answer, ServiceError> {
    check_restype(&call.query)?;
    call.allow(Operation::GetServiceProperties, None)?;
    let properties = call.account.properties();
    let is_old = call.version.is_some_and(|version| version < ApiVersion::MINUTE_METRICS);
    let print = if is_old { print_old_properties } else { print_properties };
    Ok(Answer::xml(StatusCode::OK, print(&properties)))
}

/// The answer to Get Table Service Stats, which only the secondary has.
pub(super) fn stats(call: &Call<'_>) -> Result<Answer, ServiceError> {
    check_restype(&call.query)?;
    call.allow(Operation::GetServiceStats, None)?;
    if !call.address.secondary {
        return Err(ErrorCode::InvalidQueryParameterValue.error());
    }
    let now = httpdate::fmt_http_date(SystemTime::now());
    Ok(Answer::xml(StatusCode::OK, print_stats(&now)))
}
