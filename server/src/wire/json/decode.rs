//! Reads the body of a write (protocol 3).
//!
//! A property's type is what its annotation says, else what its form in JSON is. The annotation
//! may stand before or after the property, so members are gathered first. What is no property is
//! passed over: `odata.` members, other annotations, the Timestamp.

use std::borrow::Cow;

use tablestone::ValueType;

use super::error::{JsonError, JsonErrorKind};
use super::lexer::{Lexer, Token};
use super::members::{Member, Members};
use super::raw::Raw;
use crate::error::shown;
use crate::wire::EntityBody;
use crate::wire::names::{MAX_NAME_BYTES, shown_name};

/// Reads the body of a write.
///
/// ```
/// use tablestone::Value;
/// use tablestone_server::wire::json::decode_entity;
///
/// let body = br#"{"PartitionKey":"p","RowKey":"r","A":5,"B@odata.type":"Edm.Int64","B":"5"}"#;
/// let body = decode_entity(body).unwrap();
/// assert_eq!(body.partition_key.as_deref(), Some("p"));
/// let properties = body.owned_properties();
/// assert_eq!(properties[0], ("A".to_owned(), Value::Int32(5)));
/// assert_eq!(properties[1], ("B".to_owned(), Value::Int64(5)));
/// ```
///
/// # Errors
/// [`JsonError`] with the offset.
pub fn decode_entity(body: &[u8]) -> Result<EntityBody<'_>, JsonError> {
    let mut decoder = Decoder::new(body)?;
    decoder.object(|_| ())?;
    decoder.into_entity()
}

/// Reads the body of Create Table: the name, unless absent or null.
///
/// # Errors
/// [`JsonError`] with the offset.
pub fn decode_table_name(body: &[u8]) -> Result<Option<String>, JsonError> {
    let mut decoder = Decoder::new(body)?;
    decoder.object(|_| ())?;
    let Some(member) = decoder.members.as_slice().iter().find(|member| member.name == "TableName")
    else {
        return Ok(None);
    };
    match &member.raw {
        Some(Raw::String(name)) => Ok(Some(name.clone().into_owned())),
        Some(Raw::Null) | None => Ok(None),
        Some(_) => {
            let kind = JsonErrorKind::NotText { name: "TableName" };
            Err(JsonError { offset: member.offset, kind })
        }
    }
}

/// Where a member's value stands in the body, and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) meaning: Meaning,
}

/// What a member's value is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    PartitionKey,
    RowKey,
    /// That of the member at this index.
    Property(usize),
    /// Nothing, like any other string, number, boolean or null in its place.
    PassedOver,
    /// A type; or an object or array that is passed over.
    Other,
}

pub(super) struct Decoder<'a> {
    pub(super) lexer: Lexer<'a>,
    /// None before the member came, none inside if it is null.
    partition_key: Option<Option<Cow<'a, str>>>,
    row_key: Option<Option<Cow<'a, str>>>,
    /// As in [`EntityBody`].
    pub(super) typed_key: bool,
    pub(super) members: Members<'a>,
    /// Which came of the members that mean nothing but may be there once.
    once: u8,
}

/// Bits of those: the types of the system's properties, and its Timestamp.
const TYPES: [(&str, u8); 3] = [("Timestamp", 1), ("PartitionKey", 2), ("RowKey", 4)];
const TIMESTAMP: u8 = 8;

impl<'a> Decoder<'a> {
    pub(super) fn new(body: &'a [u8]) -> Result<Self, JsonError> {
        Ok(Self {
            lexer: Lexer::new(body)?,
            partition_key: None,
            row_key: None,
            typed_key: false,
            members: Members::new(),
            once: 0,
        })
    }

    /// Reads the members; notes the place of each one's value.
    pub(super) fn object(&mut self, mut note: impl FnMut(Place)) -> Result<(), JsonError> {
        self.lexer.expect(b'{', "an object")?;
        if !self.lexer.take(b'}') {
            loop {
                let Token::String(name) = self.lexer.next()? else {
                    return Err(self.lexer.expected("a name"));
                };
                let name_at = self.lexer.token_at();
                self.lexer.expect(b':', "a colon")?;
                let value = self.lexer.next()?;
                let start = self.lexer.token_at();
                let meaning = self.member(name, name_at, value)?;
                note(Place { start, end: self.lexer.at(), meaning });
                if self.lexer.take(b'}') {
                    break;
                }
                self.lexer.expect(b',', "a comma or the end of the object")?;
            }
        }
        match self.lexer.next()? {
            Token::End => Ok(()),
            _ => Err(self.lexer.expected("the end")),
        }
    }

    /// What the members say.
    pub(super) fn into_entity(self) -> Result<EntityBody<'a>, JsonError> {
        let members = self.members.into_vec();
        let mut entity = EntityBody {
            partition_key: self.partition_key.flatten(),
            row_key: self.row_key.flatten(),
            typed_key: self.typed_key,
            properties: Vec::with_capacity(members.len()),
        };
        for Member { name, annotation, raw, offset } in members {
            match raw.map_or(Ok(None), |raw| raw.value(annotation)) {
                Ok(value) => entity.properties.extend(value.map(|value| (name, value))),
                Err(source) => {
                    let kind = JsonErrorKind::Value { name: shown_name(&name), source };
                    return Err(JsonError { offset, kind });
                }
            }
        }
        Ok(entity)
    }

    fn member(
        &mut self,
        name: Cow<'a, str>,
        name_at: usize,
        value: Token<'a>,
    ) -> Result<Meaning, JsonError> {
        match &*name {
            "PartitionKey" => self.key("PartitionKey", name_at, value),
            "RowKey" => self.key("RowKey", name_at, value),
            "Timestamp" => {
                self.once(TIMESTAMP, &name, "", name_at)?;
                self.pass_over(&value)
            }
            _ if name.starts_with("odata.") => self.pass_over(&value),
            _ => match name.bytes().position(|byte| byte == b'@') {
                None => self.property(bounded(name, name_at)?, name_at, value),
                Some(at) => match name.get(at + 1..).unwrap_or_default() {
                    "odata.type" => {
                        let property = bounded(prefix(name, at), name_at)?;
                        self.annotation(property, name_at, &value)?;
                        Ok(Meaning::Other)
                    }
                    annotation if annotation.contains('.') => self.pass_over(&value),
                    _ => self.property(bounded(name, name_at)?, name_at, value),
                },
            },
        }
    }

    fn pass_over(&mut self, value: &Token<'_>) -> Result<Meaning, JsonError> {
        self.lexer.skip(value)?;
        let nested = matches!(value, Token::ObjectStart | Token::ArrayStart);
        Ok(if nested { Meaning::Other } else { Meaning::PassedOver })
    }

    fn key(
        &mut self,
        name: &'static str,
        at: usize,
        value: Token<'a>,
    ) -> Result<Meaning, JsonError> {
        let Some(key) = Raw::of(value).and_then(Raw::key) else {
            return Err(self.lexer.wrong(JsonErrorKind::NotText { name }));
        };
        let (field, meaning) = match name {
            "RowKey" => (&mut self.row_key, Meaning::RowKey),
            _ => (&mut self.partition_key, Meaning::PartitionKey),
        };
        if field.replace(key).is_some() {
            return Err(duplicate(name, "", at));
        }
        Ok(meaning)
    }

    fn annotation(
        &mut self,
        property: Cow<'a, str>,
        at: usize,
        value: &Token<'a>,
    ) -> Result<(), JsonError> {
        let unknown = |found: &str| JsonErrorKind::UnknownType {
            name: shown_name(&property),
            found: shown(found),
        };
        let Token::String(text) = value else {
            return Err(self.lexer.wrong(unknown("no string")));
        };
        let value_type = ValueType::from_edm_name(text);
        if let Some((name, bit)) = TYPES.iter().find(|(name, _)| *name == property) {
            // The client's Timestamp is ignored, whatever it is.
            if *name != "Timestamp" {
                let value_type = value_type.ok_or_else(|| self.lexer.wrong(unknown(text)))?;
                self.typed_key |= value_type != ValueType::String;
            }
            return self.once(*bit, name, "@odata.type", at);
        }
        let value_type = value_type.ok_or_else(|| self.lexer.wrong(unknown(text)))?;
        let (_, member) = self.members.named(property, at)?;
        if member.annotation.replace(value_type).is_some() {
            return Err(duplicate(&member.name, "@odata.type", at));
        }
        Ok(())
    }

    /// Notes a member that may be there once, though it means nothing.
    fn once(&mut self, bit: u8, name: &str, suffix: &str, at: usize) -> Result<(), JsonError> {
        if self.once & bit != 0 {
            return Err(duplicate(name, suffix, at));
        }
        self.once |= bit;
        Ok(())
    }

    fn property(
        &mut self,
        name: Cow<'a, str>,
        at: usize,
        value: Token<'a>,
    ) -> Result<Meaning, JsonError> {
        let nested = matches!(value, Token::ObjectStart | Token::ArrayStart);
        let Some(raw) = Raw::of(value) else {
            return Err(if nested {
                self.lexer.wrong(JsonErrorKind::Nested { name: shown_name(&name) })
            } else {
                self.lexer.expected("a value")
            });
        };
        let (index, member) = self.members.named(name, at)?;
        if member.raw.replace(raw).is_some() {
            return Err(duplicate(&member.name, "", at));
        }
        member.offset = at;
        Ok(Meaning::Property(index))
    }
}

#[cold]
fn duplicate(name: &str, suffix: &str, offset: usize) -> JsonError {
    let name = shown_name(name) + suffix;
    JsonError { offset, kind: JsonErrorKind::Duplicate { name } }
}

/// A property's name, unless it is too long to be one.
fn bounded(name: Cow<'_, str>, offset: usize) -> Result<Cow<'_, str>, JsonError> {
    if name.len() > MAX_NAME_BYTES {
        let kind = JsonErrorKind::NameTooLong { limit: MAX_NAME_BYTES };
        return Err(JsonError { offset, kind });
    }
    Ok(name)
}

/// The first bytes of a name, up to a character's boundary.
fn prefix(name: Cow<'_, str>, length: usize) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(name.get(..length).unwrap_or_default()),
        Cow::Owned(mut name) => {
            name.truncate(length);
            Cow::Owned(name)
        }
    }
}
