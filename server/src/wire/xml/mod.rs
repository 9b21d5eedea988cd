//! XML documents: access policies, service properties, statistics, errors.
//!
//! A client's document becomes a small tree of bounded depth and size before anything looks at it;
//! document types, and with them entities of their own, are refused.

mod acl;
mod cors;
mod error;
mod print;
mod properties;
mod tree;

#[cfg(test)]
mod tests;

pub use acl::{
    MAX_IDENTIFIER_LENGTH, MAX_IDENTIFIERS, SignedIdentifier, check_acl, parse_acl, print_acl,
};
pub use cors::{CorsRule, MAX_CORS_RULES};
pub use error::XmlError;
pub use print::{print_error, print_stats};
pub use properties::{
    Logging, Metrics, Retention, ServiceProperties, ServicePropertiesUpdate, parse_properties,
    print_old_properties, print_properties,
};

pub(super) use print::escape_into;
pub(super) use tree::{ATOM, DATA, Element, METADATA, Namespace};
