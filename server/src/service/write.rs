//! [`Write`]: a write of one entity, on its own or in a transaction; [`Order`]: what is known of it before
//! its body is read.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tablestone::{ETag, Entity, EntityBatch, IfMatch, Precondition, Version};

use super::answer::{Answer, Shape, content_type};
use super::call::Call;
use super::catalog::TableState;
use super::{Limits, keys, print};
use crate::address::{Resource, push_partition_address, push_row_address};
use crate::auth::Operation;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{BodyFormat, Preference, Verb, names};
use crate::telemetry::Action;
use crate::wire::json::JsonError;
use crate::wire::{Context, EntityBody, Select, Written, atom, own_text};

/// Room for an entity's address, but for the account's.
const LOCATION_BYTES: usize = 128;

/// What an answer may have, at most, besides texts of the request: its head, as a part of a batch's
/// answer; an address, with the table's name and what stands around the keys; an entity's metadata
/// and elements; a property's type, and by how much its value may be longer than it was sent.
const HEAD_BYTES: usize = 512;
const ADDRESS_BYTES: usize = 128;
const JSON_BYTES: (usize, usize) = (768, 48);
const ATOM_BYTES: (usize, usize) = (1_536, 72);
/// How many bytes a byte of a key becomes in an address, where a quote is doubled, and others are encoded.
const ENCODED: usize = 3;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    Merge,
    Delete,
}

/// What a request that writes an entity is called.
pub(super) fn action(verb: Verb, headers: &HeaderMap) -> Action {
    match (verb, headers.contains_key(header::IF_MATCH)) {
        (Verb::Post, _) => Action::InsertEntity,
        (Verb::Put, true) => Action::UpdateEntity,
        (Verb::Put, false) => Action::InsertOrReplaceEntity,
        (Verb::Merge, true) => Action::MergeEntity,
        (Verb::Merge, false) => Action::InsertOrMergeEntity,
        (Verb::Delete, _) => Action::DeleteEntity,
        (Verb::Get | Verb::Head | Verb::Options, _) => Action::Unknown,
    }
}

/// What a request is to do to an entity, without what its body says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order<'t> {
    /// The table's name in whatever case.
    pub(super) table: &'t str,
    kind: Kind,
    precondition: Precondition,
    /// PartitionKey and RowKey of the address; those of an insert are in its body.
    keys: Option<(&'t str, &'t str)>,
}

impl<'t> Order<'t> {
    /// What a request says by its verb, what it is addressed to and its `If-Match`.
    pub(super) fn of(
        verb: Verb,
        resource: &'t Resource,
        if_match: Option<&str>,
    ) -> Result<Self, ServiceError> {
        let tag = if_match.map(str::parse::<IfMatch>).transpose();
        let tag = tag.map_err(|error| ErrorCode::InvalidInput.because(error))?;
        match (resource, verb) {
            (
                Resource::Entities { table } | Resource::TablesOf { table, is_named: false },
                Verb::Post,
            ) => {
                Ok(Self { table, kind: Kind::Put, precondition: Precondition::Absent, keys: None })
            }
            (Resource::Entity { table, partition_key, row_key }, verb) => {
                let kind = match verb {
                    Verb::Put => Kind::Put,
                    Verb::Merge => Kind::Merge,
                    Verb::Delete if tag.is_some() => Kind::Delete,
                    Verb::Delete => {
                        return Err(ErrorCode::InvalidInput
                            .because("A delete needs an If-Match header: an ETag, or *."));
                    }
                    _ => return Err(ErrorCode::MethodNotAllowed.error()),
                };
                let precondition = tag.map_or(Precondition::None, Precondition::from);
                Ok(Self { table, kind, precondition, keys: Some((partition_key, row_key)) })
            }
            _ => Err(ErrorCode::MethodNotAllowed.error()),
        }
    }

    /// What permission it needs.
    pub(super) fn operation(&self) -> Operation {
        match (self.kind, self.precondition) {
            (Kind::Delete, _) => Operation::DeleteEntity,
            (Kind::Put, Precondition::Absent) => Operation::InsertEntity,
            (_, Precondition::None) => Operation::UpsertEntity,
            _ => Operation::UpdateEntity,
        }
    }

    /// The write, once its body is read, if this request's signature allows it for the entity's keys.
    pub(super) fn with_body<'r>(
        self,
        call: &Call<'_>,
        body: impl FnOnce() -> Result<EntityBody<'r>, ServiceError>,
    ) -> Result<Write<'r>, ServiceError> {
        let Self { kind, precondition, keys, .. } = self;
        // What was stored within other limits is changed, too.
        let longest = match precondition {
            Precondition::None | Precondition::Absent => call.limits.key_length,
            _ => Limits::MOST_KEY_LENGTH,
        };
        let mut body = if kind == Kind::Delete { EntityBody::default() } else { body()? };
        let (partition_key, row_key) = match keys {
            // The address's keys count, whatever the body's are.
            Some((partition_key, row_key)) => {
                keys::check_address(partition_key, row_key, longest)?;
                (partition_key.to_owned().into(), row_key.to_owned().into())
            }
            None => {
                let (partition_key, row_key) = body.take_keys()?;
                keys::check(&partition_key, &row_key, longest)?;
                (partition_key, row_key)
            }
        };
        call.grant.allow_write(&partition_key, &row_key)?;
        Ok(Write { kind, precondition, partition_key, row_key, body })
    }
}

/// A write of one entity, which is borrowed from the request as far as it can be.
#[derive(Debug)]
pub(super) struct Write<'r> {
    kind: Kind,
    precondition: Precondition,
    partition_key: Cow<'r, str>,
    row_key: Cow<'r, str>,
    /// What else the body says.
    body: EntityBody<'r>,
}

impl<'r> Write<'r> {
    /// Reads a body in its form, those in JSON with this decoder.
    pub(super) fn body(
        format: BodyFormat,
        body: &'r [u8],
        decode: impl FnOnce(&'r [u8]) -> Result<EntityBody<'r>, JsonError>,
    ) -> Result<EntityBody<'r>, ServiceError> {
        Ok(match format {
            BodyFormat::Json(_) => decode(body)?,
            BodyFormat::Atom => atom::parse_entity(body)?,
        })
    }

    /// The entity's PartitionKey.
    pub(super) fn partition_key(&self) -> &str {
        &self.partition_key
    }

    /// The entity, copied.
    fn entity(&self) -> Entity {
        self.body.clone().with_keys(&*self.partition_key, &*self.row_key)
    }

    /// An insert alone demands that there is no such entity.
    fn is_insert(&self) -> bool {
        self.precondition == Precondition::Absent
    }

    pub(super) fn is_merge(&self) -> bool {
        self.kind == Kind::Merge
    }

    /// Adds it to a transaction.
    pub(super) fn add_to(&self, batch: &mut EntityBatch) {
        let properties = self.body.properties.iter();
        let properties = properties.map(|(name, value)| (&**name, value.borrowed()));
        match self.kind {
            Kind::Put => batch.put_properties(&self.row_key, properties, self.precondition),
            Kind::Merge => batch.merge(&self.entity(), self.precondition),
            Kind::Delete => batch.delete(&*self.row_key, self.precondition),
        };
    }

    /// Which other writes done with it have the same answer but for where the entity is.
    pub(super) fn likeness(&self, echo: Echo) -> Option<Likeness> {
        match (self.kind, self.precondition, echo.format) {
            (Kind::Delete, ..) => Some(Likeness::Deleted),
            (_, Precondition::Absent, None) => Some(Likeness::Inserted(echo.preference)),
            (_, Precondition::Absent, Some(_)) => None,
            _ => Some(Likeness::Written(echo.preference)),
        }
    }

    /// Bytes that it takes besides itself and the body that it borrows from.
    pub(super) fn own_bytes(&self) -> usize {
        own_text(&self.partition_key) + own_text(&self.row_key) + self.body.own_bytes()
    }

    /// How many bytes its answer has at most, given those of its body as it was sent, and of the account's
    /// address.
    pub(super) fn answer_bytes(&self, echo: Echo, sent: usize, base: usize) -> usize {
        if !self.is_insert() {
            return HEAD_BYTES;
        }
        let keys = self.partition_key.len() + self.row_key.len();
        let address = ADDRESS_BYTES + ENCODED * keys;
        let properties = self.body.properties.len();
        // The factors are how often a text is printed, times how many bytes one of its bytes may become: names are
        // printed twice, and JSON escapes nothing that was not escaped where it was sent, but quotes of XML.
        match echo.format {
            None => HEAD_BYTES + 2 * (base + address),
            Some(BodyFormat::Json(_)) => {
                let (entity, property) = JSON_BYTES;
                let addresses = 3 * address + 5 * base;
                HEAD_BYTES + addresses + entity + 2 * sent + property * properties
            }
            Some(BodyFormat::Atom) => {
                let (entity, property) = ATOM_BYTES;
                let addresses = 3 * address + 13 * base;
                HEAD_BYTES + addresses + entity + 8 * sent + property * properties
            }
        }
    }

    /// Says what came of it when it was done, as it is to be answered.
    pub(super) fn answer(
        &self,
        done: &mut Done<'_>,
        echo: Echo,
        answer: &mut impl Say,
    ) -> Result<(), ServiceError> {
        if !self.is_insert() {
            answer.status(StatusCode::NO_CONTENT);
            if self.kind != Kind::Delete {
                answer.header(&header::ETAG, &done.etag);
            }
            echo.say(answer);
            answer.end(Vec::new());
            return Ok(());
        }
        let mut body = Vec::new();
        match echo.format {
            None => answer.status(StatusCode::NO_CONTENT),
            Some(format) => {
                body = done.echo(&self.entity(), format)?;
                answer.status(StatusCode::CREATED);
                answer.header(&header::CONTENT_TYPE, content_type(format, Shape::Single));
            }
        }
        let (location, etag) = done.location_and_etag(self);
        if let (None, Some(location)) = (echo.format, location) {
            answer.header(&names::DATA_SERVICE_ID, location);
        }
        answer.header(&header::ETAG, etag);
        if let Some(location) = location {
            answer.header(&header::LOCATION, location);
        }
        echo.say(answer);
        answer.end(body);
        Ok(())
    }
}

/// What an answer is said to: status, headers, end.
pub(super) trait Say {
    fn status(&mut self, status: StatusCode);
    fn header(&mut self, name: &HeaderName, value: &str);
    fn end(&mut self, body: Vec<u8>);
}

impl Say for Answer {
    fn status(&mut self, status: StatusCode) {
        self.status = status;
    }

    fn header(&mut self, name: &HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name.clone(), value));
        }
    }

    fn end(&mut self, body: Vec<u8>) {
        self.body = body.into();
    }
}

/// What the answers to writes that were done together, in one partition, have in common.
pub(super) struct Done<'a> {
    table: &'a TableState,
    account: &'a str,
    base: String,
    version: Version,
    etag: String,
    /// Where the entity is that is answered for, if a header can say it; all have the beginning.
    location: Option<String>,
    beginning: usize,
}

impl<'a> Done<'a> {
    pub(super) fn new(
        call: &Call<'a>,
        table: &'a TableState,
        partition_key: &str,
        version: Version,
    ) -> Self {
        let (base, etag) = (call.base(), ETag(version).to_string());
        let mut location = String::with_capacity(base.len() + LOCATION_BYTES);
        location.push_str(&base);
        location.push('/');
        push_partition_address(&mut location, &table.name, partition_key);
        let beginning = location.len();
        // All but the host is percent-encoded or has letters and digits only.
        let sayable = location.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let (location, account) = (sayable.then_some(location), call.account.name());
        Self { table, account, base, version, etag, location, beginning }
    }

    /// Where the entity of a write is, if a header can say it.
    pub(super) fn location(&mut self, write: &Write<'_>) -> Option<&str> {
        let location = self.location.as_mut()?;
        location.truncate(self.beginning);
        push_row_address(location, &write.row_key);
        Some(location)
    }

    /// That, and its ETag.
    fn location_and_etag(&mut self, write: &Write<'_>) -> (Option<&str>, &str) {
        self.location(write);
        (self.location.as_deref(), &self.etag)
    }

    /// An entity as it was stored.
    fn echo(&self, entity: &Entity, format: BodyFormat) -> Result<Vec<u8>, ServiceError> {
        let Self { table, account, base, version, .. } = self;
        let context = Context { base, account, table: &table.name };
        let written = Written { entity, version: *version };
        print::single(format, context, &Select::ALL, &written)
            .map_err(|error| ErrorCode::InternalError.because(error))
    }
}

/// Writes whose answers have no body, by what their headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    Inserted(Preference),
    Written(Preference),
    Deleted,
}

/// How a write is to be answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    preference: Preference,
    /// The form of the entity; none if it is not to come back.
    format: Option<BodyFormat>,
}

impl Echo {
    /// With the entity in this form, unless it is not wanted.
    pub(super) fn new(
        preference: Preference,
        format: impl FnOnce() -> Result<BodyFormat, ServiceError>,
    ) -> Result<Self, ServiceError> {
        let format = match preference {
            Preference::NoContent => None,
            Preference::Content | Preference::Unspecified => Some(format()?),
        };
        Ok(Self { preference, format })
    }

    /// The form of the entity; none if it is not to come back.
    pub(super) fn format(self) -> Option<BodyFormat> {
        self.format
    }

    /// Of an update or a merge, whose entity never comes back: another preference is not applied.
    pub(super) fn of_update(preference: Preference) -> Self {
        match preference {
            Preference::NoContent => Self { preference, format: None },
            Preference::Content | Preference::Unspecified => Self::none(),
        }
    }

    /// Without anything.
    pub(super) fn none() -> Self {
        Self { preference: Preference::Unspecified, format: None }
    }

    /// Says what was preferred and is applied.
    fn say(self, answer: &mut impl Say) {
        if let Some(preference) = self.preference.applied() {
            answer.header(&names::PREFERENCE_APPLIED, preference);
        }
    }
}
