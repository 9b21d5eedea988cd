//! [`AccessPolicy`]: what of a signature a table keeps, so that it can be changed or taken back.

use tablestone::DateTime;

/// One of a table's stored access policies; each part may be left to the signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// The name that signatures refer to it by.
    pub id: String,
    /// When signatures begin to hold.
    pub start: Option<DateTime>,
    /// When they cease to.
    pub expiry: Option<DateTime>,
    /// What they permit: letters of `raud`.
    pub permissions: Option<String>,
}
