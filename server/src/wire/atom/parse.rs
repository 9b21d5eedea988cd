//! Reads the Atom entry of a write: types are attributes, nulls too.

use std::borrow::Cow;
use std::collections::HashSet;

use tablestone::{Value, ValueType};

use super::name::decode;
use crate::error::{ErrorCode, ServiceError, shown};
use crate::wire::edm::{self, ValueError};
use crate::wire::names::{MAX_NAME_BYTES, shown_name};
use crate::wire::xml::{Element, Namespace, XmlError};
use crate::wire::{BodyValue, EntityBody};

/// Why an Atom entry was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AtomError {
    /// It is no XML, too large to be an entry, or has markup or text where an entry has none.
    #[error(transparent)]
    Xml(XmlError),
    /// It has no properties where an entry has them.
    #[error("expected entry/content/properties of Atom, found none")]
    NoProperties,
    /// A property is twice in it.
    #[error("{name:?} is specified more than once")]
    Duplicate {
        /// The property.
        name: String,
    },
    /// A property's name is longer than any that an entity can have.
    #[error("a property's name of more than {limit} bytes")]
    NameTooLong {
        /// How long it may be to be looked at.
        limit: usize,
    },
    /// An attribute names no type of the data model.
    #[error("property {name:?}: expected a type such as Edm.String, found {found:?}")]
    UnknownType {
        /// The property.
        name: String,
        /// What the attribute says.
        found: String,
    },
    /// An attribute says neither that a property is null nor that it is not.
    #[error("property {name:?}: expected true or false of null, found {found:?}")]
    Null {
        /// The property.
        name: String,
        /// What the attribute says.
        found: String,
    },
    /// A value is not of its type.
    #[error("property {name:?}: {source}")]
    Value {
        /// The property.
        name: String,
        /// What is wrong.
        source: ValueError,
    },
    /// PartitionKey, RowKey or TableName is no string.
    #[error("expected a string for {name}")]
    NotText {
        /// Which.
        name: String,
    },
}

impl From<AtomError> for ServiceError {
    fn from(error: AtomError) -> Self {
        match &error {
            AtomError::Duplicate { .. } => ErrorCode::DuplicatePropertiesSpecified.error(),
            AtomError::NameTooLong { .. } => ErrorCode::PropertyNameTooLong.error(),
            AtomError::Value { name, source } => {
                source.told(name).unwrap_or_else(|| source.code().because(&error))
            }
            _ => ErrorCode::InvalidInput.because(error),
        }
    }
}

/// Reads the entry of a write.
///
/// # Errors
/// [`AtomError`].
pub fn parse_entity(body: &[u8]) -> Result<EntityBody<'static>, AtomError> {
    let mut entity = EntityBody::default();
    let (mut partition_key, mut row_key) = (None, None);
    for (name, value) in properties(body)? {
        match &*name {
            "PartitionKey" => partition_key = value,
            "RowKey" => row_key = value,
            "Timestamp" => {}
            _ => {
                let property = value.map(|value| (Cow::Owned(name), BodyValue::Value(value)));
                entity.properties.extend(property);
            }
        }
    }
    entity.partition_key = key("PartitionKey", partition_key)?.map(Cow::Owned);
    entity.row_key = key("RowKey", row_key)?.map(Cow::Owned);
    Ok(entity)
}

/// Reads the entry of Create Table: the name, unless absent or null.
///
/// # Errors
/// [`AtomError`].
pub fn parse_table_name(body: &[u8]) -> Result<Option<String>, AtomError> {
    let name = properties(body)?.into_iter().find(|(name, _)| name == "TableName");
    key("TableName", name.and_then(|(_, value)| value))
}

fn key(name: &str, value: Option<Value>) -> Result<Option<String>, AtomError> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(AtomError::NotText { name: name.to_owned() }),
    }
}

/// Names and values of an entry; no value for null.
fn properties(body: &[u8]) -> Result<Vec<(String, Option<Value>)>, AtomError> {
    let entry = Element::parse(body).map_err(AtomError::Xml)?;
    let properties = Some(&entry)
        .filter(|entry| entry.name == "entry" && entry.namespace == Namespace::Atom)
        .and_then(|entry| entry.child("content"))
        .and_then(|content| content.child("properties"))
        .filter(|properties| properties.namespace == Namespace::Metadata)
        .ok_or(AtomError::NoProperties)?;
    properties.no_text().map_err(AtomError::Xml)?;
    let mut found: Vec<(String, Option<Value>)> = Vec::with_capacity(properties.children.len());
    let mut seen = HashSet::with_capacity(properties.children.len());
    for property in properties.children.iter().filter(|it| it.namespace == Namespace::Data) {
        let name = decode(&property.name);
        if name.len() > MAX_NAME_BYTES {
            return Err(AtomError::NameTooLong { limit: MAX_NAME_BYTES });
        }
        if !seen.insert(name.clone()) {
            return Err(AtomError::Duplicate { name: shown_name(&name) });
        }
        // The client's Timestamp is ignored, whatever it is.
        let value = if name == "Timestamp" { None } else { value(property, &name)? };
        found.push((name.into_owned(), value));
    }
    Ok(found)
}

fn value(property: &Element, name: &str) -> Result<Option<Value>, AtomError> {
    let name = || shown_name(name);
    let value_type = match property.attribute(Namespace::Metadata, "type") {
        None | Some("") => ValueType::String,
        Some(stated) => ValueType::from_edm_name(stated)
            .ok_or_else(|| AtomError::UnknownType { name: name(), found: shown(stated) })?,
    };
    let text = property.leaf_text().map_err(AtomError::Xml)?;
    let is_null = match property.attribute(Namespace::Metadata, "null") {
        None => false,
        Some(stated) => {
            boolean(stated).ok_or_else(|| AtomError::Null { name: name(), found: shown(stated) })?
        }
    };
    if is_null {
        return Ok(None);
    }
    let value = edm::parse(value_type, Cow::Borrowed(text));
    value.map(Some).map_err(|source| AtomError::Value { name: name(), source })
}

/// What a text says as a boolean of XML Schema.
fn boolean(text: &str) -> Option<bool> {
    match text.trim_matches([' ', '\t', '\r', '\n']) {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}
