//! Rust structs in and out of entities, with the feature `serde`.
//!
//! A struct's fields are properties, by their names in serde; [`SerdeError`] has the table of types.
//! Our own types go through serde under names of ours, which only this room knows: an
//! entity keeps their type, and every other format sees a text, or what has the type beside it.

mod de;
mod error;
mod plain;
mod ser;
#[cfg(test)]
mod tests;
mod texts;
mod values;

pub use error::SerdeError;
pub(crate) use texts::deserialize_text;

use ::serde::{Deserialize, Serialize};

use super::entity::{Entity, PARTITION_KEY, ROW_KEY};
use super::entity_ref::EntityRef;

/// The names of newtypes, and of an enum, by which values keep their type.
const DATE_TIME: &str = "$tablestone::DateTime";
const GUID: &str = "$tablestone::Guid";
const ETAG: &str = "$tablestone::ETag";
const VALUE: &str = "$tablestone::Value";

/// A field that is no property.
const ETAG_FIELD: &str = "ETag";

/// With the feature `serde`.
impl Entity {
    /// The entity that a struct stands for: its fields `PartitionKey` and `RowKey` are the keys, the
    /// others properties. [`SerdeError`] has the table of types.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use tablestone::{DateTime, Entity, Value};
    ///
    /// #[derive(Serialize, Deserialize, PartialEq, Debug)]
    /// #[serde(rename_all = "PascalCase")]
    /// struct Person {
    ///     partition_key: String,
    ///     row_key: String,
    ///     born: u16,
    ///     nickname: Option<String>,
    ///     joined: DateTime,
    /// }
    ///
    /// let karl = Person {
    ///     partition_key: "de".into(),
    ///     row_key: "karl".into(),
    ///     born: 1854,
    ///     nickname: None,
    ///     joined: "2008-10-01".parse()?,
    /// };
    /// let entity = Entity::from_serialize(&karl)?;
    /// assert_eq!(entity.row_key(), "karl");
    /// assert_eq!(entity.get("Born"), Some(&Value::Int32(1854)));
    /// assert_eq!(entity.len(), 2); // no Nickname
    /// assert_eq!(entity.deserialize::<Person>()?, karl);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SerdeError`], which names the field.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, SerdeError> {
        let fields = ser::fields(value)?;
        let partition_key = fields.partition_key.ok_or(SerdeError::KeyMissing(PARTITION_KEY))?;
        let row_key = fields.row_key.ok_or(SerdeError::KeyMissing(ROW_KEY))?;
        Ok(Self::new(partition_key, row_key).with_properties(fields.properties))
    }

    /// A struct with the entity's keys and properties in its fields. Properties it has no field
    /// for are left out, and fields that are `Option` need no property. An entity that was read has `Timestamp`
    /// and `ETag` as well, which `#[serde(deny_unknown_fields)]` refuses where there is no field for them.
    ///
    /// # Errors
    /// [`SerdeError`], which names the field.
    pub fn deserialize<'a, T: Deserialize<'a>>(&'a self) -> Result<T, SerdeError> {
        let properties = self.properties().map(|(name, value)| Ok((name, value.borrowed())));
        // A property that is called so, stored by other means, hides the tag.
        let tag = self.etag().filter(|_| self.get(ETAG_FIELD).is_none());
        let keys = (self.partition_key(), self.row_key());
        T::deserialize(de::entity(keys, (self.timestamp(), tag), properties))
    }
}

/// With the feature `serde`.
impl<'a> EntityRef<'a> {
    /// As [`Entity::deserialize`]; text and bytes can be borrowed from where they are stored.
    ///
    /// ```
    /// use serde::Deserialize;
    /// # use tablestone::{Database, Entity, Options};
    ///
    /// #[derive(Deserialize)]
    /// #[serde(rename_all = "PascalCase")]
    /// struct Person<'a> {
    ///     name: &'a str,
    ///     age: Option<u8>,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let people = database.create_table("people").wait()?.entities();
    /// people.insert(&Entity::new("Sales", "1").with("Name", "Ann").with("Age", 34)).wait()?;
    /// for entity in &people.query().page()? {
    ///     let person: Person = entity.deserialize()?;
    ///     assert_eq!((person.name, person.age), ("Ann", Some(34)));
    /// }
    /// // Where one entity is lent, the outcome is handed out: `read` has an error of its own.
    /// let age = people.read("Sales", "1", |ann| Ok(ann.deserialize().map(|ann: Person| ann.age)))?;
    /// assert_eq!(age.transpose()?, Some(Some(34)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SerdeError`], which names the field; [`SerdeError::Row`] if a property is damaged.
    pub fn deserialize<T: Deserialize<'a>>(&self) -> Result<T, SerdeError> {
        let tag = self.get(ETAG_FIELD)?.is_none().then(|| self.etag());
        let keys = (self.partition_key(), self.row_key());
        T::deserialize(de::entity(keys, (Some(self.timestamp()), tag), self.properties()))
    }
}
