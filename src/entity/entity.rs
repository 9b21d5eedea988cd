//! [`Entity`]: keys and properties, owned.
//!
//! Invariant: no name is twice in it, and none is `Timestamp`. Everything else that the data model
//! demands is checked when the entity is written, in one place ([`limits`](super::limits)).

use std::collections::{HashMap, HashSet};

use super::datetime::DateTime;
use super::etag::ETag;
use super::value::{FromValue, IntoValue, Value};
use crate::version::Version;

/// The properties that every entity has: its keys, and what shows its version.
pub(crate) const PARTITION_KEY: &str = "PartitionKey";
pub(crate) const ROW_KEY: &str = "RowKey";
pub(crate) const TIMESTAMP: &str = "Timestamp";

/// Whether a property is one that every entity has.
pub(crate) fn is_system(name: &str) -> bool {
    matches!(name, PARTITION_KEY | ROW_KEY | TIMESTAMP)
}

/// An entity: a PartitionKey and a RowKey, properties with names and typed values, and, once it
/// was read, a version.
///
/// Properties keep the order in which they were first set. Names are case-sensitive; of `PartitionKey`,
/// `RowKey` and `Timestamp` the system keeps its own, see [`set`](Self::set).
/// Limits are checked when the entity is written, or with [`validate`](Self::validate).
///
/// Two entities are equal if keys, version and properties are, the latter in the same order.
///
/// ```
/// use tablestone::{Entity, Value};
/// let nickname: Option<&str> = None;
/// let entity = Entity::new("de", "karl")
///     .with("Name", "Karl")
///     .with("Born", 1854)
///     .with("Nickname", nickname);
/// assert_eq!(entity.get("Born"), Some(&Value::Int32(1854)));
/// assert_eq!(entity.get_as("Born"), Some(1854i64));
/// assert_eq!(entity.get("Nickname"), None); // null is absence
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    partition_key: String,
    row_key: String,
    version: Option<Version>,
    properties: Vec<(String, Value)>,
}

impl Entity {
    /// An entity without properties.
    #[must_use]
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        Self {
            partition_key: partition_key.into(),
            row_key: row_key.into(),
            version: None,
            properties: Vec::new(),
        }
    }

    /// An entity with these properties, as if each were [`set`](Self::set) in turn, but in time
    /// that does not grow with the square of their number.
    ///
    /// ```
    /// use tablestone::{Entity, Value};
    /// let properties = vec![("A".to_owned(), Value::from(1)), ("B".to_owned(), Value::from(2))];
    /// let entity = Entity::from_properties("p", "r", properties);
    /// assert_eq!(entity, Entity::new("p", "r").with("A", 1).with("B", 2));
    /// ```
    #[must_use]
    pub fn from_properties(
        partition_key: impl Into<String>,
        row_key: impl Into<String>,
        mut properties: Vec<(String, Value)>,
    ) -> Self {
        properties.retain(|(name, _)| name != TIMESTAMP);
        if !names_differ(&properties) {
            properties = each_once(properties);
        }
        Self::new(partition_key, row_key).with_properties(properties)
    }

    /// The entity with a property set; see [`set`](Self::set).
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl IntoValue) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a property, in place of one of the same name.
    ///
    /// Null (`None`) removes it: it will not be stored, and a merge leaves what is stored as it is
    /// (R-D05). A value for `Timestamp` is ignored (R-D02): the version is the Timestamp. Properties
    /// called `PartitionKey` or `RowKey` are an error when the entity is written.
    pub fn set(&mut self, name: impl Into<String>, value: impl IntoValue) -> &mut Self {
        let name = name.into();
        if name == TIMESTAMP {
            return self;
        }
        match (value.into_value(), self.position(&name)) {
            (Some(value), Some(at)) => {
                if let Some((_, old)) = self.properties.get_mut(at) {
                    *old = value;
                }
            }
            (Some(value), None) => self.properties.push((name, value)),
            (None, Some(at)) => {
                self.properties.remove(at);
            }
            (None, None) => {}
        }
        self
    }

    /// Removes a property and gives its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        Some(self.properties.remove(self.position(name)?).1)
    }

    /// The PartitionKey.
    #[must_use]
    pub fn partition_key(&self) -> &str {
        &self.partition_key
    }

    /// The RowKey.
    #[must_use]
    pub fn row_key(&self) -> &str {
        &self.row_key
    }

    /// A property's value; `None` if it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        Some(&self.properties.get(self.position(name)?)?.1)
    }

    /// A property's value as a Rust type; `None` if it is absent or of another type.
    ///
    /// ```
    /// # use tablestone::Entity;
    /// let entity = Entity::new("p", "r").with("Name", "Karl");
    /// assert_eq!(entity.get_as::<&str>("Name"), Some("Karl"));
    /// assert_eq!(entity.get_as::<i32>("Name"), None);
    /// ```
    #[must_use]
    pub fn get_as<'a, T: FromValue<'a>>(&'a self, name: &str) -> Option<T> {
        T::from_value(self.get(name)?.borrowed())
    }

    /// Names and values, in order.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + Clone {
        self.properties.iter().map(|(name, value)| (&**name, value))
    }

    /// Names and values, in order, without a copy.
    pub fn into_properties(self) -> impl ExactSizeIterator<Item = (String, Value)> {
        self.properties.into_iter()
    }

    /// The keys, PartitionKey first.
    pub(crate) fn into_keys(self) -> (String, String) {
        (self.partition_key, self.row_key)
    }

    /// Number of properties, keys and Timestamp not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.properties.len()
    }

    /// Whether it has no properties besides its keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// The version it was read at; `None` for an entity that was made, not read.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// When it was last written, as its system property Timestamp shows it.
    #[must_use]
    pub fn timestamp(&self) -> Option<DateTime> {
        self.version.map(DateTime::from)
    }

    /// Its ETag: the version it was read at, as text.
    #[must_use]
    pub fn etag(&self) -> Option<ETag> {
        self.version.map(ETag)
    }

    /// The entity as it was read at a version.
    pub(crate) fn at_version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }

    /// The entity with these properties, whose names differ and are none of the system's.
    pub(super) fn with_properties(mut self, properties: Vec<(String, Value)>) -> Self {
        self.properties = properties;
        self
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.properties.iter().position(|(other, _)| other == name)
    }
}

/// Whether no name is twice in it. Few are compared with each other, which is faster.
fn names_differ(properties: &[(String, Value)]) -> bool {
    const FEW: usize = 16;
    if properties.len() > FEW {
        let mut names = HashSet::with_capacity(properties.len());
        return properties.iter().all(|(name, _)| names.insert(name));
    }
    let mut rest = properties;
    while let Some(((name, _), after)) = rest.split_first() {
        if after.iter().any(|(other, _)| other == name) {
            return false;
        }
        rest = after;
    }
    true
}

/// Each name in its first place, with its last value.
fn each_once(properties: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let mut places = HashMap::with_capacity(properties.len());
    let mut once: Vec<(String, Value)> = Vec::with_capacity(properties.len());
    for (name, value) in properties {
        match places.get(&name).and_then(|&place| once.get_mut(place)) {
            Some((_, old)) => *old = value,
            None => {
                places.insert(name.clone(), once.len());
                once.push((name, value));
            }
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entity: &Entity) -> Vec<&str> {
        entity.properties().map(|(name, _)| name).collect()
    }

    /// R-D05: null is not stored, and setting it takes back what was set.
    #[test]
    fn r_d05_null_is_absence() {
        let mut entity =
            Entity::new("p", "r").with("A", 1).with("B", Some(2)).with("C", None::<i32>);
        assert_eq!(names(&entity), ["A", "B"]);
        entity.set("A", None::<&str>);
        assert_eq!((names(&entity), entity.get("A")), (vec!["B"], None));
    }

    /// R-D02: names are case-sensitive and unique; a client's Timestamp is ignored.
    #[test]
    fn r_d02_names_are_case_sensitive_and_timestamp_is_the_systems() {
        let mut entity = Entity::new("p", "r").with("Text", 1).with("text", 2);
        entity.set("Text", "three").set("Timestamp", DateTime::MIN);
        assert_eq!(names(&entity), ["Text", "text"], "a new value keeps the place");
        assert_eq!(entity.get_as("Text"), Some("three"));
        assert_eq!((entity.version(), entity.timestamp()), (None, None));
        assert_eq!(entity.etag(), None);
        let read = entity.at_version(Version::from_ticks(5));
        assert_eq!(read.timestamp(), DateTime::from_ticks(5));
        assert_eq!(read.etag(), Some(ETag(Version::from_ticks(5))));
    }

    #[test]
    fn properties_at_once_are_as_properties_in_turn() {
        let pairs = |names: &[&str]| -> Vec<(String, Value)> {
            let numbered = names.iter().zip(0..);
            numbered.map(|(name, at)| ((*name).to_owned(), Value::Int32(at))).collect()
        };
        let many: Vec<String> = (0..40).map(|at| format!("P{}", at % 39)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (differ, twice) = many.split_at(39);
        assert_eq!(twice, ["P0"]);
        let few = [
            &["A", "B"][..],
            &["A", "B", "A"],
            &["A", "B", "B", "Timestamp", "A", "C", "B"],
            &["Timestamp", "A", "Timestamp"],
            &[],
        ];
        for list in few.into_iter().chain([differ, &many]) {
            let in_turn = pairs(list)
                .into_iter()
                .fold(Entity::new("p", "r"), |entity, (name, value)| entity.with(name, value));
            assert_eq!(Entity::from_properties("p", "r", pairs(list)), in_turn);
        }
    }

    /// Each compared with all before it, they would take minutes.
    #[test]
    fn many_properties_at_once_are_a_timestamp_left_out_and_each_name_once() {
        const MANY: usize = 300_000;
        let numbered = |at: usize| (format!("P{at}"), Value::Boolean(true));
        let twice = (0..2 * MANY).map(|at| numbered(at % MANY));
        let timestamp = (TIMESTAMP.to_owned(), Value::Boolean(true));
        let entity = Entity::from_properties("p", "r", twice.chain([timestamp]).collect());
        assert!(entity.into_properties().eq((0..MANY).map(numbered)));
    }

    #[test]
    fn a_removed_property_leaves_the_order_of_the_others() {
        let mut entity = Entity::new("p", "r").with("A", 1).with("B", 2).with("C", 3);
        assert_eq!(entity.remove("B"), Some(Value::Int32(2)));
        assert_eq!((entity.remove("B"), entity.len()), (None, 2));
        assert_eq!(names(&entity.clone().with("B", 4)), ["A", "C", "B"]);
        let pairs: Vec<_> = entity.into_properties().collect();
        assert_eq!(pairs, [("A".into(), Value::Int32(1)), ("C".into(), Value::Int32(3))]);
    }
}
