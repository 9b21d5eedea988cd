//! Prints entities (protocol 2, 3): from where they are stored into the answer's buffer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tablestone::{DateTime, Guid, RowError, ValueRef, ValueType};

use super::escape::push_string;
use super::sink::Sink;
use crate::address::push_entity_address;
use crate::headers::Metadata;
use crate::wire::{Context, EntitySource, Select};

/// Prints the entities of an answer, all of one table.
///
/// ```
/// use tablestone::{Entity, Version};
/// use tablestone_server::headers::Metadata;
/// use tablestone_server::wire::json::EntityPrinter;
/// use tablestone_server::wire::{Context, Select, Written};
///
/// let entity = Entity::new("p", "r").with("Big", 5i64);
/// let context = Context { base: "http://h/a", account: "a", table: "T" };
/// let printer = EntityPrinter::new(context, Metadata::None, &Select::ALL);
/// let mut out = Vec::new();
/// printer.single(&mut out, &Written { entity: &entity, version: Version::ZERO })?;
/// let expected =
///     r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"1601-01-01T00:00:00Z","Big":"5"}"#;
/// assert_eq!(String::from_utf8(out).unwrap(), expected);
/// # Ok::<(), tablestone::RowError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EntityPrinter<'a> {
    context: Context<'a>,
    metadata: Metadata,
    select: &'a Select,
}

impl<'a> EntityPrinter<'a> {
    /// A printer of entities with so much metadata.
    #[must_use]
    pub const fn new(context: Context<'a>, metadata: Metadata, select: &'a Select) -> Self {
        Self { context, metadata, select }
    }

    /// A printer of [lines](Self::line), which have no addresses.
    #[must_use]
    pub const fn of_lines(select: &'a Select) -> Self {
        let context = Context { base: "", account: "", table: "" };
        Self::new(context, Metadata::Minimal, select)
    }

    /// One entity, as the whole of an answer.
    ///
    /// # Errors
    /// [`RowError`] if what is stored is damaged; nothing was printed then.
    pub fn single(&self, out: &mut Vec<u8>, entity: &impl EntitySource) -> Result<(), RowError> {
        let began = out.len();
        out.push(b'{');
        self.push_metadata(out, "/@Element");
        self.push_members(out, entity).inspect_err(|_| out.truncate(began))
    }

    /// The beginning of a page: entities, and [`end_page`](Self::end_page), follow.
    pub fn begin_page(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.push_metadata(out, "");
        out.extend_from_slice(b"\"value\":[");
    }

    /// An entity of a page.
    ///
    /// # Errors
    /// [`RowError`] if what is stored is damaged; nothing was printed then.
    pub fn page_entity(
        &self,
        out: &mut Vec<u8>,
        entity: &impl EntitySource,
    ) -> Result<(), RowError> {
        let began = out.len();
        // After the bracket that opens the page comes the first.
        if out.last() == Some(&b'}') {
            out.push(b',');
        }
        out.push(b'{');
        self.push_members(out, entity).inspect_err(|_| out.truncate(began))
    }

    /// The end of a page.
    pub fn end_page(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}");
    }

    /// What describes the whole answer.
    fn push_metadata(&self, out: &mut Vec<u8>, suffix: &str) {
        if self.metadata == Metadata::None {
            return;
        }
        let Context { base, table, .. } = self.context;
        let mut text = format!("{base}/$metadata#{table}{suffix}");
        if let Some(names) = self.select.names() {
            text.push_str("&$select=");
            text.push_str(&names.join(","));
        }
        out.extend_from_slice(b"\"odata.metadata\":");
        push_string(out, &text);
        out.push(b',');
    }

    /// An entity after its opening brace, with the closing one.
    fn push_members(&self, out: &mut Vec<u8>, entity: &impl EntitySource) -> Result<(), RowError> {
        let mut buffer = [0; DateTime::MAX_TEXT_LENGTH];
        let timestamp = DateTime::from(entity.version()).encode(&mut buffer);
        match self.select.names() {
            None => {
                self.push_before_row_key(out, entity, timestamp);
                push_string(out, entity.row_key());
                self.push_after_row_key(out, timestamp);
                entity.each(|name, value| self.push_property(out, name, value))?;
            }
            Some(names) => {
                self.push_own_metadata(out, entity, timestamp);
                self.push_selected(out, names, entity, timestamp)?;
            }
        }
        close(out);
        Ok(())
    }

    fn push_own_metadata(&self, out: &mut Vec<u8>, entity: &impl EntitySource, timestamp: &str) {
        match self.metadata {
            Metadata::None => {}
            Metadata::Minimal => push_etag(out, timestamp),
            Metadata::Full => self.push_description(out, entity, timestamp),
        }
    }

    /// What of an entity comes before its RowKey, without the opening brace.
    pub(super) fn push_before_row_key(
        &self,
        out: &mut Vec<u8>,
        entity: &impl EntitySource,
        timestamp: &str,
    ) {
        self.push_own_metadata(out, entity, timestamp);
        push_key(out, b"\"PartitionKey\":", entity.partition_key());
        out.extend_from_slice(b"\"RowKey\":");
    }

    /// What of an entity stands between its RowKey and its properties.
    pub(super) fn push_after_row_key(&self, out: &mut Vec<u8>, timestamp: &str) {
        out.push(b',');
        self.push_timestamp(out, timestamp);
    }

    /// Whether all properties are printed.
    pub(super) fn prints_all(&self) -> bool {
        self.select.names().is_none()
    }

    /// Whether an entity's own metadata say nothing of its RowKey.
    pub(super) fn omits_addresses(&self) -> bool {
        self.metadata != Metadata::Full
    }

    /// What of a property comes before its value. Returns where its name begins, after what states its
    /// type.
    #[inline]
    pub(super) fn push_name(&self, out: &mut Vec<u8>, name: &str, value: ValueRef<'_>) -> usize {
        if self.annotates(value) {
            push_string(out, name);
            end_annotation(out, value.value_type());
        }
        let begins = out.len();
        push_string(out, name);
        out.push(b':');
        begins
    }

    /// Whether a property's type is stated.
    #[inline]
    pub(super) fn annotates(&self, value: ValueRef<'_>) -> bool {
        self.metadata != Metadata::None && !shows_its_type(value)
    }

    /// An entity as a line of a file or the body of a write: no metadata but types, and a Timestamp
    /// only if it is selected.
    ///
    /// # Errors
    /// [`RowError`] if what is stored is damaged; nothing was printed then.
    pub fn line(&self, out: &mut Vec<u8>, entity: &impl EntitySource) -> Result<(), RowError> {
        let began = out.len();
        out.push(b'{');
        self.push_line(out, entity).inspect_err(|_| out.truncate(began))
    }

    fn push_line(&self, out: &mut Vec<u8>, entity: &impl EntitySource) -> Result<(), RowError> {
        match self.select.names() {
            None => {
                self.push_system(out, "PartitionKey", entity, "");
                self.push_system(out, "RowKey", entity, "");
                entity.each(|name, value| self.push_property(out, name, value))?;
            }
            Some(names) => {
                let mut buffer = [0; DateTime::MAX_TEXT_LENGTH];
                let timestamp = DateTime::from(entity.version()).encode(&mut buffer);
                self.push_selected(out, names, entity, timestamp)?;
            }
        }
        close(out);
        Ok(())
    }

    fn push_selected(
        &self,
        out: &mut Vec<u8>,
        names: &[String],
        entity: &impl EntitySource,
        timestamp: &str,
    ) -> Result<(), RowError> {
        for name in names {
            if self.push_system(out, name, entity, timestamp) {
                continue;
            }
            match entity.get(name)? {
                Some(value) => self.push_property(out, name, value),
                None => {
                    push_string(out, name);
                    out.extend_from_slice(b":null,");
                }
            }
        }
        Ok(())
    }

    /// Type, address and ETag.
    #[cold]
    fn push_description(&self, out: &mut Vec<u8>, entity: &impl EntitySource, timestamp: &str) {
        let Context { base, account, table } = self.context;
        let mut address = String::new();
        push_entity_address(&mut address, table, entity.partition_key(), entity.row_key());
        out.extend_from_slice(b"\"odata.type\":");
        push_string(out, &format!("{account}.{table}"));
        out.extend_from_slice(b",\"odata.id\":");
        push_string(out, &format!("{base}/{address}"));
        out.push(b',');
        push_etag(out, timestamp);
        out.extend_from_slice(b"\"odata.editLink\":");
        push_string(out, &address);
        out.push(b',');
    }

    /// A system property, if the name is one; whether it is.
    fn push_system(
        &self,
        out: &mut Vec<u8>,
        name: &str,
        entity: &impl EntitySource,
        timestamp: &str,
    ) -> bool {
        match name {
            "PartitionKey" => push_key(out, b"\"PartitionKey\":", entity.partition_key()),
            "RowKey" => push_key(out, b"\"RowKey\":", entity.row_key()),
            "Timestamp" => self.push_timestamp(out, timestamp),
            _ => return false,
        }
        true
    }

    fn push_timestamp(&self, out: &mut Vec<u8>, timestamp: &str) {
        if self.metadata == Metadata::Full {
            out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
        }
        out.extend_from_slice(b"\"Timestamp\":\"");
        push_bytes(out, timestamp);
        out.extend_from_slice(b"\",");
    }

    #[inline]
    fn push_property(&self, out: &mut Vec<u8>, name: &str, value: ValueRef<'_>) {
        self.push_name(out, name, value);
        push_value(out, value);
        out.push(b',');
    }
}

/// Closes an object: every member ends with a comma, and the last one's becomes the brace.
fn close(out: &mut Vec<u8>) {
    match out.last_mut() {
        Some(last) if *last == b',' => *last = b'}',
        _ => out.push(b'}'),
    }
}

/// A member with a key; `name` with what is around it.
fn push_key(out: &mut Vec<u8>, name: &[u8], key: &str) {
    out.extend_from_slice(name);
    push_string(out, key);
    out.push(b',');
}

/// Whether the form in JSON tells the type.
fn shows_its_type(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::String(_) | ValueRef::Boolean(_) | ValueRef::Int32(_) => true,
        ValueRef::Double(number) => number.is_finite(),
        _ => false,
    }
}

/// Makes of a property's name, which was just printed, what states its type.
pub(super) fn end_annotation(out: &mut Vec<u8>, value_type: ValueType) {
    // The annotation's name is one string with the property's: its closing quote goes.
    out.pop();
    out.extend_from_slice(b"@odata.type\":\"");
    out.extend_from_slice(value_type.edm_name().as_bytes());
    out.extend_from_slice(b"\",");
}

/// Adds a value.
#[inline(always)]
pub(super) fn push_value(out: &mut impl Sink, value: ValueRef<'_>) {
    match value {
        ValueRef::String(text) => out.string(text),
        ValueRef::Boolean(true) => out.put(b"true"),
        ValueRef::Boolean(false) => out.put(b"false"),
        ValueRef::Int32(number) => out.put(itoa::Buffer::new().format(number).as_bytes()),
        ValueRef::Int64(number) => push_plain(out, itoa::Buffer::new().format(number)),
        ValueRef::Double(number) => push_double(out, number),
        ValueRef::DateTime(instant) => {
            push_plain(out, instant.encode(&mut [0; DateTime::MAX_TEXT_LENGTH]));
        }
        ValueRef::Guid(id) => push_plain(out, id.encode(&mut [0; Guid::TEXT_LENGTH])),
        ValueRef::Binary(bytes) => push_base64(out.body(), bytes),
    }
}

/// A Double always has a point or an exponent, which tell it from an Int32; minus zero is zero.
#[inline]
fn push_double(out: &mut impl Sink, number: f64) {
    match hundredths(number) {
        Some(hundredths) => push_hundredths(out, hundredths),
        None => match crate::wire::edm::not_a_number(number) {
            Some(name) => push_plain(out, name),
            None => out.put(ryu::Buffer::new().format_finite(number + 0.0).as_bytes()),
        },
    }
}

/// How many hundredths a number is, if that is its shortest form, as that of prices and scores is;
/// in the general way one in each entity took a twelfth of a scan. No two decimal numbers of up to 15
/// digits are the same Double, so one that gives the number back is the shortest that does.
#[inline]
fn hundredths(number: f64) -> Option<i64> {
    const LARGEST: f64 = 999_999_999_999_999.0;
    // The nearest whole number, which an i64 holds if it is in range.
    let hundredths = (number * 100.0 + 0.5_f64.copysign(number)) as i64;
    let exact = hundredths as f64;
    (exact.abs() <= LARGEST && exact / 100.0 == number).then_some(hundredths)
}

#[inline]
fn push_hundredths(out: &mut impl Sink, hundredths: i64) {
    if hundredths < 0 {
        out.put(b"-");
    }
    let (whole, part) = (hundredths.unsigned_abs() / 100, hundredths.unsigned_abs() % 100);
    out.put(itoa::Buffer::new().format(whole).as_bytes());
    // Both are digits.
    let (tenths, hundredths) = ((part / 10) as u8, (part % 10) as u8);
    let digits = [b'.', b'0' + tenths, b'0' + hundredths];
    out.put(if hundredths > 0 { &digits } else { &digits[..2] });
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let began = out.len();
    out.resize(began + bytes.len().div_ceil(3) * 4, b'=');
    if let Some(room) = out.get_mut(began..) {
        // The room has exactly the length of the text.
        let written = STANDARD.encode_slice(bytes, room);
        debug_assert!(written.is_ok());
    }
    out.push(b'"');
}

/// An ETag is its entity's Timestamp with the colons escaped.
fn push_etag(out: &mut Vec<u8>, timestamp: &str) {
    out.extend_from_slice(b"\"odata.etag\":\"W/\\\"datetime'");
    // `2008-10-01T15:27:34.4838174Z`
    let part = |range: std::ops::Range<usize>| timestamp.get(range).unwrap_or_default();
    for part in [part(0..13), "%3A", part(14..16), "%3A", part(17..timestamp.len())] {
        push_bytes(out, part);
    }
    out.extend_from_slice(b"'\\\"\",");
}

/// A string that has nothing to escape.
#[inline]
fn push_plain(out: &mut impl Sink, text: &str) {
    out.put(b"\"");
    out.put(text.as_bytes());
    out.put(b"\"");
}

fn push_bytes(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}
