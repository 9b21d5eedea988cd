//! Entity in serde, as itself: its keys, its version and its properties with their types.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::entity::entity::{Entity, PARTITION_KEY, ROW_KEY};
use crate::entity::value::Value;
use crate::version::Version;

/// With the feature `serde`: all there is of it, to be kept or sent elsewhere; a struct of yours comes from
/// [`Entity::deserialize`]. In formats that keep the order of a map's keys it is equal to what was written.
///
/// ```
/// use tablestone::Entity;
///
/// let karl = Entity::new("de", "karl").with("Born", 1854).with("Name", "Karl");
/// let text = serde_json::to_string(&karl)?;
/// assert_eq!(
///     text,
///     r#"{"PartitionKey":"de","RowKey":"karl","Version":null,"#.to_owned()
///         + r#""Properties":{"Born":{"Int32":1854},"Name":{"String":"Karl"}}}"#
/// );
/// assert_eq!(serde_json::from_str::<Entity>(&text)?, karl);
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Serialize for Entity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Entity", 4)?;
        fields.serialize_field(PARTITION_KEY, self.partition_key())?;
        fields.serialize_field(ROW_KEY, self.row_key())?;
        fields.serialize_field("Version", &self.version())?;
        fields.serialize_field("Properties", &Properties(self))?;
        fields.end()
    }
}

struct Properties<'a>(&'a Entity);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.properties())
    }
}

/// With the feature `serde`. Of a property that is there twice the last counts.
impl<'de> Deserialize<'de> for Entity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = Parts::deserialize(deserializer)?;
        let entity = Self::from_properties(parts.partition_key, parts.row_key, parts.properties.0);
        Ok(match parts.version {
            Some(version) => entity.at_version(version),
            None => entity,
        })
    }
}

#[derive(serde::Deserialize)]
#[serde(rename = "Entity", rename_all = "PascalCase", deny_unknown_fields)]
struct Parts {
    partition_key: String,
    row_key: String,
    version: Option<Version>,
    properties: Pairs,
}

/// Names and values, in the order of the map.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of properties")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = entries.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
