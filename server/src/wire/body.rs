//! [`EntityBody`]: what the body of a write says, in whichever form it came.

use std::borrow::Cow;

use tablestone::{Entity, Value, ValueRef};

use crate::error::{ErrorCode, ServiceError};

/// What a body says of an entity. What can be is borrowed from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityBody<'a> {
    /// The PartitionKey, unless absent or null.
    pub partition_key: Option<Cow<'a, str>>,
    /// The RowKey, likewise.
    pub row_key: Option<Cow<'a, str>>,
    /// Whether a key is annotated with another type than String: it is the text nevertheless, but not one
    /// for an insert.
    pub typed_key: bool,
    /// Properties that are not null, in order. No name is twice among them, and none is `Timestamp`.
    pub properties: Vec<(Cow<'a, str>, BodyValue<'a>)>,
}

/// A value in a body.
#[derive(Clone, Debug, PartialEq)]
pub enum BodyValue<'a> {
    /// A String that stands there as it is.
    Text(&'a str),
    /// Any other.
    Value(Value),
}

impl BodyValue<'_> {
    /// The value, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> ValueRef<'_> {
        match self {
            Self::Text(text) => ValueRef::String(text),
            Self::Value(value) => value.borrowed(),
        }
    }

    /// Bytes that it takes beside itself.
    fn own_bytes(&self) -> usize {
        match self {
            Self::Value(Value::String(text)) => text.capacity(),
            Self::Value(Value::Binary(bytes)) => bytes.capacity(),
            Self::Text(_) | Self::Value(_) => 0,
        }
    }
}

/// Bytes of a text that is not borrowed.
#[expect(clippy::ptr_arg, reason = "whether it is borrowed is what is asked")]
pub(crate) fn own_text(text: &Cow<'_, str>) -> usize {
    match text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(text) => text.capacity(),
    }
}

impl From<BodyValue<'_>> for Value {
    fn from(value: BodyValue<'_>) -> Self {
        match value {
            BodyValue::Text(text) => Self::String(text.to_owned()),
            BodyValue::Value(value) => value,
        }
    }
}

impl<'a> EntityBody<'a> {
    /// Takes the keys of a body that must have them: that of an insert.
    ///
    /// # Errors
    /// [`ErrorCode::PropertiesNeedValue`] if one is absent or null, [`ErrorCode::InvalidInput`] if one has
    /// a type that is not String.
    pub fn take_keys(&mut self) -> Result<(Cow<'a, str>, Cow<'a, str>), ServiceError> {
        let keys = self.partition_key.take().zip(self.row_key.take());
        match keys {
            None => Err(ErrorCode::PropertiesNeedValue.error()),
            Some(_) if self.typed_key => Err(ErrorCode::InvalidInput.error()),
            Some(keys) => Ok(keys),
        }
    }

    /// The entity of a body that must have its keys.
    ///
    /// # Errors
    /// As [`take_keys`](Self::take_keys).
    pub fn with_own_keys(mut self) -> Result<Entity, ServiceError> {
        let (partition_key, row_key) = self.take_keys()?;
        Ok(self.with_keys(partition_key, row_key))
    }

    /// The entity at an address, whose keys count whatever the body's are (protocol 7).
    #[must_use]
    pub fn with_keys(self, partition_key: impl Into<String>, row_key: impl Into<String>) -> Entity {
        Entity::from_properties(partition_key, row_key, self.owned_properties())
    }

    /// Bytes that it takes besides the body that it borrows from.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let entries = self.properties.capacity() * size_of::<(Cow<'_, str>, BodyValue<'_>)>();
        let texts = self.properties.iter().map(|(name, value)| own_text(name) + value.own_bytes());
        entries + texts.sum::<usize>()
    }

    /// The properties, copied.
    #[must_use]
    pub fn owned_properties(self) -> Vec<(String, Value)> {
        let properties = self.properties.into_iter();
        properties.map(|(name, value)| (name.into_owned(), value.into())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::atom::parse_entity;
    use crate::wire::json::decode_entity;

    /// R-S12: what is made for properties counts, nulls included, and texts where they are not the body's.
    #[test]
    fn r_s12_a_body_knows_what_it_takes_besides() {
        let entry = size_of::<(Cow<'_, str>, BodyValue<'_>)>();
        let own_bytes = |body: &str| decode_entity(body.as_bytes()).unwrap().own_bytes();
        assert_eq!(own_bytes("{}"), 0);
        assert_eq!(own_bytes(r#"{"A":"text","B":1,"C":null}"#), 3 * entry);
        let escaped =
            own_bytes(r#"{"A\u0042":"te\u0078t","B@odata.type":"Edm.Binary","B":"AAEC"}"#);
        assert!((2 * entry + 2 + 4 + 3..3 * entry).contains(&escaped), "{escaped}");
        let namespaces = "xmlns='http://www.w3.org/2005/Atom' \
            xmlns:m='http://schemas.microsoft.com/ado/2007/08/dataservices/metadata' \
            xmlns:d='http://schemas.microsoft.com/ado/2007/08/dataservices'";
        let properties = "<m:properties><d:Name>text</d:Name></m:properties>";
        let atom = format!("<entry {namespaces}><content>{properties}</content></entry>");
        assert!(parse_entity(atom.as_bytes()).unwrap().own_bytes() >= entry + 4 + 4);
    }
}
