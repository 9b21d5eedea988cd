//! [`Projection`]: some of a row's properties, copied as they are stored (R-D07).

use super::PropertyName;
use super::row::{EncodedRow, Slot};
use super::write::push_row;
use crate::entity::error::RowError;

/// Which properties to copy. It remembers where it found them, for the next row.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    names: Vec<PropertyName>,
    hints: Vec<Slot>,
    /// Where the properties of the present row are; kept for its capacity.
    found: Vec<Slot>,
}

impl Projection {
    /// A projection on these names; one that is said twice counts once.
    pub(crate) fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut unique: Vec<PropertyName> = Vec::new();
        for name in names {
            if unique.iter().all(|other| other.as_str() != name) {
                unique.push(PropertyName::new(name));
            }
        }
        Self { hints: vec![Slot::default(); unique.len()], found: Vec::new(), names: unique }
    }

    /// The names, in order.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(PropertyName::as_str)
    }

    /// Appends a row of those properties that `row` has, in the order of the names. After an
    /// error nothing was appended.
    pub(crate) fn push(&mut self, row: &EncodedRow<'_>, out: &mut Vec<u8>) -> Result<(), RowError> {
        self.found.clear();
        for (name, hint) in self.names.iter().zip(&mut self.hints) {
            if let Some(slot) = row.find(name, hint)? {
                row.stored(slot)?;
                self.found.push(slot);
            }
        }
        // Each of them was read just now.
        push_row(out, self.found.iter().filter_map(|&slot| row.stored(slot).ok()));
        Ok(())
    }
}
