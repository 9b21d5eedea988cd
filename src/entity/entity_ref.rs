//! [`EntityRef`]: an entity where it is stored, and its [`Shape`].

use std::fmt;

use super::codec::{EncodedRow, Names};
use super::datetime::DateTime;
use super::entity::{Entity, PARTITION_KEY, ROW_KEY, TIMESTAMP};
use super::error::RowError;
use super::etag::ETag;
use super::value::{FromValue, ValueRef, ValueVisitor};
use crate::text::utf8;
use crate::version::Version;

/// An entity in its stored form: a property is found and decoded when it is asked for, and
/// nothing is copied. Reads that lend one are [`EntityView::read`](crate::EntityView::read) and
/// [`EntityPage::iter`](crate::EntityPage::iter).
///
/// ```
/// use tablestone::{Database, Entity, Options, ValueRef};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let database = Database::open(dir.path(), Options::default())?;
/// let people = database.create_table("people").wait()?.entities();
/// people.insert(&Entity::new("de", "karl").with("Name", "Karl").with("Born", 1854)).wait()?;
/// let page = people.query().page()?;
/// for entity in page.iter() {
///     assert_eq!(entity.get("Born")?, Some(ValueRef::Int32(1854)));
///     assert_eq!(entity.get_as::<&str>("Name")?, Some("Karl")); // borrowed from the page
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct EntityRef<'a> {
    partition_key: &'a str,
    row_key: &'a str,
    version: Version,
    row: EncodedRow<'a>,
}

/// The names of an entity's properties in their order: see [`EntityRef::shape`].
#[derive(Clone, Debug)]
pub struct Shape {
    /// As a row stores them.
    wide: bool,
    ends: Box<[u8]>,
    names: Box<[u8]>,
}

impl Shape {
    fn names(&self) -> Names<'_> {
        Names { wide: self.wide, ends: &self.ends, bytes: &self.names }
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for Shape {}

impl<'a> EntityRef<'a> {
    /// The entity that a stored row is. Properties are checked when they are read.
    #[inline]
    pub(crate) fn new(
        partition_key: &'a [u8],
        row_key: &'a [u8],
        version: Version,
        row: &'a [u8],
    ) -> Result<Self, RowError> {
        Ok(Self {
            partition_key: key_text(partition_key, PARTITION_KEY)?,
            row_key: key_text(row_key, ROW_KEY)?,
            version,
            row: EncodedRow::parse(row)?,
        })
    }

    /// An entity without keys and properties.
    pub(crate) fn empty() -> Self {
        Self { partition_key: "", row_key: "", version: Version::ZERO, row: EncodedRow::default() }
    }

    /// The PartitionKey.
    #[must_use]
    pub fn partition_key(&self) -> &'a str {
        self.partition_key
    }

    /// The RowKey.
    #[must_use]
    pub fn row_key(&self) -> &'a str {
        self.row_key
    }

    /// When it was last written.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// When it was last written, as its system property Timestamp shows it.
    #[must_use]
    pub fn timestamp(&self) -> DateTime {
        self.version.into()
    }

    /// Its ETag.
    #[must_use]
    pub fn etag(&self) -> ETag {
        ETag(self.version)
    }

    /// A property's value; `None` if it is absent. Nothing else is decoded.
    ///
    /// # Errors
    /// [`RowError`] if the directory or this property is damaged.
    pub fn get(&self, name: &str) -> Result<Option<ValueRef<'a>>, RowError> {
        self.row.find_name(name)?.map(|slot| self.row.value(slot)).transpose()
    }

    /// A property's value as a Rust type; `None` if it is absent or of another type.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_as<T: FromValue<'a>>(&self, name: &str) -> Result<Option<T>, RowError> {
        Ok(self.get(name)?.and_then(T::from_value))
    }

    /// Names and values, in order.
    ///
    /// # Errors
    /// Each property on its own, if it is damaged.
    pub fn properties(
        &self,
    ) -> impl ExactSizeIterator<Item = Result<(&'a str, ValueRef<'a>), RowError>> + use<'a> {
        let row = self.row;
        row.slots().map(move |slot| Ok((row.name(slot)?, row.value(slot)?)))
    }

    /// Shows values without their names, in order: for entities whose [shape](Self::shape) is
    /// known.
    ///
    /// ```
    /// # use tablestone::{Database, Entity, Options, ValueRef};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let people = database.create_table("people").wait()?.entities();
    /// people.insert(&Entity::new("de", "karl").with("Name", "Karl").with("Born", 1854)).wait()?;
    /// let page = people.query().page()?;
    /// let karl = page.iter().next().ok_or("a person")?;
    /// let mut values = Vec::new();
    /// karl.each_value(&mut values)?;
    /// assert_eq!(values, [ValueRef::String("Karl"), ValueRef::Int32(1854)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RowError`] at the first value that is damaged; those before it were shown.
    #[inline]
    pub fn each_value(&self, visitor: &mut impl ValueVisitor<'a>) -> Result<(), RowError> {
        self.row.each_value(visitor)
    }

    /// The names of its properties. Most entities of a table have the same, and what was made of
    /// them for one serves the next.
    ///
    /// ```
    /// # use tablestone::{Database, Entity, Options};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path(), Options::default())?;
    /// let people = database.create_table("people").wait()?.entities();
    /// people.insert(&Entity::new("de", "anna").with("Born", 1861)).wait()?;
    /// people.insert(&Entity::new("de", "karl").with("Born", 1854)).wait()?;
    /// people.insert(&Entity::new("de", "paul").with("Died", 1897)).wait()?;
    /// let page = people.query().page()?;
    /// let shape = page.iter().next().ok_or("three people")?.shape();
    /// let same: Vec<_> = page.iter().map(|person| person.has_shape(&shape)).collect();
    /// assert_eq!(same, [true, true, false]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shape(&self) -> Shape {
        let Names { wide, ends, bytes } = self.row.names();
        Shape { wide, ends: ends.into(), names: bytes.into() }
    }

    /// Whether its properties have these names, in this order.
    #[must_use]
    pub fn has_shape(&self, shape: &Shape) -> bool {
        self.row.names() == shape.names()
    }

    /// Number of properties, keys and Timestamp not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// Whether it has no properties besides its keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy with everything decoded.
    ///
    /// # Errors
    /// [`RowError`] if any of it is damaged.
    pub fn to_entity(&self) -> Result<Entity, RowError> {
        let mut properties = Vec::with_capacity(self.len());
        for slot in self.row.slots() {
            self.row.check_findable(slot)?;
            let value = self.row.value(slot)?.to_value();
            properties.push((self.row.name(slot)?.to_owned(), value));
        }
        let entity = Entity::new(self.partition_key, self.row_key).with_properties(properties);
        Ok(entity.at_version(self.version))
    }
}

#[inline]
fn key_text<'a>(bytes: &'a [u8], key: &'static str) -> Result<&'a str, RowError> {
    utf8(bytes).map_err(|_| RowError::KeyNotUtf8 { key })
}

/// Shows what can be decoded.
impl fmt::Debug for EntityRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        map.entry(&PARTITION_KEY, &self.partition_key).entry(&ROW_KEY, &self.row_key);
        map.entry(&TIMESTAMP, &self.timestamp());
        for property in self.properties() {
            match property {
                Ok((name, value)) => map.entry(&name, &value),
                Err(error) => map.entry(&"", &error),
            };
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::encode;
    use super::*;

    /// R-D03: entities differ in the names they have, not in how large they are.
    #[test]
    fn r_d03_a_shape_is_names_in_order_whatever_the_size() {
        let lists = [["Photo", "Size"], ["Size", "Photo"], ["PhotoS", "ize"], ["Photo", "Sizes"]];
        let row = |[first, second]: [&str; 2], bytes| {
            encode(&Entity::new("p", "r").with(first, vec![0; bytes]).with(second, 1)).unwrap()
        };
        let small_and_large = |names| [9, 65_536].map(|bytes| (names, row(names, bytes)));
        let rows: Vec<_> = lists.into_iter().flat_map(small_and_large).collect();
        let entity = |row| EntityRef::new(b"p", b"r", Version::ZERO, row).unwrap();
        for ((names, row), (others, other)) in
            rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b)))
        {
            let shape = entity(other).shape();
            assert_eq!(entity(row).has_shape(&shape), names == others, "{names:?} {others:?}");
            assert_eq!(entity(row).shape() == shape, names == others, "{names:?} {others:?}");
        }
    }
}
