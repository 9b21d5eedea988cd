//! [`Select`]: which properties a query wants (`$select`, protocol 6).

use std::collections::HashSet;

use tablestone::{Entity, EntityError, EntityLimits};

use crate::error::{ErrorCode, ServiceError};

/// Names in a selection, and bytes of them: each entity of a page has all of them in its answer,
/// as null where it lacks the property.
pub(super) const MAX_NAMES: usize = 1_024;
const MAX_BYTES: usize = 32 << 10;

/// Which properties a query wants.
///
/// ```
/// use tablestone_server::wire::Select;
/// assert_eq!(Select::parse("A, B,A")?.names(), Some(&["A".to_owned(), "B".to_owned()][..]));
/// assert_eq!(Select::parse("1,A,A-B")?.names(), Some(&["A".to_owned()][..]));
/// assert_eq!(Select::parse("A,*")?.names(), None);
/// assert_eq!(Select::parse("")?.names(), None);
/// # Ok::<(), tablestone_server::error::ServiceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    names: Option<Vec<String>>,
}

impl Select {
    /// All properties.
    pub const ALL: Self = Self { names: None };

    /// Reads the value of `$select`, percent-decoded: names between commas, spaces around them.
    /// Nothing, or `*` among them, is all. What can be the name of no property is left out: there is
    /// no member or element of that name either.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidInput`] for more than 1,024 names, or 32 KiB of them.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        let (mut names, mut bytes) = (None::<Vec<String>>, 0);
        let mut seen = HashSet::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name == "*" {
                return Ok(Self::ALL);
            }
            let names = names.get_or_insert_default();
            if !seen.insert(name) {
                continue;
            }
            bytes += name.len();
            if names.len() == MAX_NAMES || bytes > MAX_BYTES {
                return Err(ErrorCode::InvalidInput.because(format_args!(
                    "$select must have no more than {MAX_NAMES} names, nor {MAX_BYTES} bytes of them."
                )));
            }
            names.extend(is_name(name).then(|| name.to_owned()));
        }
        Ok(Self { names })
    }

    /// The names, each once, in the order asked for; none if all are wanted.
    #[must_use]
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}

/// Whether an entity can have something of that name, whatever the limits are or were.
fn is_name(name: &str) -> bool {
    match Entity::new("", "").with(name, true).validate_within(&EntityLimits::LARGEST) {
        Ok(()) | Err(EntityError::NameReserved { .. }) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S12: a selection is no longer than what a page of nulls can bear.
    #[test]
    fn r_s12_a_selection_is_bounded() {
        let names = |count: usize| (0..count).map(|n| format!("N{n},")).collect::<String>();
        let count = |text: &str| Select::parse(text).map(|select| select.names().map(<[_]>::len));
        assert_eq!(count(&names(1_024)), Ok(Some(1_024)));
        assert_eq!(count(&names(1_024).repeat(3)), Ok(Some(1_024)), "each counts once");
        assert_eq!(count(&names(1_025)).unwrap_err().code(), ErrorCode::InvalidInput);
        assert_eq!(count(&"n".repeat(32 << 10)), Ok(Some(1)));
        assert!(count(&"n".repeat((32 << 10) + 1)).is_err());
    }

    /// R-S12: names that come again are none more, however often: the text may be as long as a batch. That they
    /// take no longer the more there are is seen in how long this takes: 5 ms, by comparing each with all 200.
    #[test]
    fn r_s12_names_that_come_again_are_the_same() {
        let names: String = (0..1_024).map(|n| format!("N{n:04},")).collect();
        for again in ["N0000,", "N1023,"] {
            let select = Select::parse(&format!("{names}{}", again.repeat(100_000))).unwrap();
            assert_eq!(select.names().map(<[_]>::len), Some(1_024));
        }
    }

    /// R-S06: the system's properties have names like others; what is no name is none, nor all.
    #[test]
    fn r_s06_a_selection_has_names_alone() {
        let names = |text: &str| Select::parse(text).unwrap().names().map(<[_]>::to_vec);
        let text =
            "PartitionKey,RowKey,Timestamp,_a1,Größe,名前,A@odata.type,odata.etag,a b,</d:A>";
        let expected = ["PartitionKey", "RowKey", "Timestamp", "_a1", "Größe", "名前"];
        assert_eq!(names(text), Some(expected.map(str::to_owned).to_vec()));
        let stored_within_other_limits = "n".repeat(256);
        let expected = Some(vec![stored_within_other_limits.clone()]);
        assert_eq!(names(&stored_within_other_limits), expected);
        assert_eq!(names("1"), Some(vec![]));
        assert_eq!(names(" , "), None);
    }
}
