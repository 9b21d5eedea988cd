//! Which methods a resource has, and what is wrong with a request by another.

use crate::address::Resource;
use crate::error::ErrorCode;

/// What is wrong with a request by whose verb there is no operation on what it is addressed to.
pub(super) fn no_operation(resource: &Resource, comp: Option<&str>) -> ErrorCode {
    match (resource, comp) {
        (Resource::Service, None) => ErrorCode::InvalidUri,
        (_, None)
        | (Resource::Service, Some("properties" | "stats"))
        | (Resource::Entities { .. }, Some("acl")) => ErrorCode::MethodNotAllowed,
        _ => ErrorCode::InvalidQueryParameterValue,
    }
}

/// The methods that there are, as `Allow` has them: each 405 must state them (RFC 9110, 15.5.6).
pub(super) fn allowed(resource: &Resource, comp: Option<&str>) -> &'static str {
    match (resource, comp) {
        (Resource::Service, Some("stats")) => "GET, OPTIONS",
        (Resource::Service, _) => "GET, PUT, OPTIONS",
        (Resource::Tables, _) => "GET, POST, OPTIONS",
        (Resource::Table { .. }, _) => "GET, DELETE, OPTIONS",
        (Resource::Entities { .. }, Some("acl")) => "GET, HEAD, PUT, OPTIONS",
        (Resource::Entities { .. }, _) => "GET, POST, OPTIONS",
        (Resource::Entity { .. }, _) => "GET, PUT, MERGE, PATCH, DELETE, OPTIONS",
        (Resource::Batch, _) => "POST, OPTIONS",
        // It is nothing.
        (Resource::TablesOf { .. }, _) => "",
    }
}
