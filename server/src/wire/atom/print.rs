//! Prints entries and feeds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tablestone::{DateTime, RowError, ValueRef, ValueType};

use super::name::encode;
use crate::address::push_entity_address;
use crate::wire::xml::{ATOM, DATA, METADATA, escape_into};
use crate::wire::{Context, EntitySource, Select, put};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>";
/// Of an element whose text white space begins or ends.
const PRESERVE: &str = " xml:space=\"preserve\"";

/// Prints the entities of an answer, all of one table.
#[derive(Clone, Debug)]
pub struct AtomPrinter<'a> {
    context: Context<'a>,
    /// That of the context, escaped.
    base: String,
    /// When the answer is given.
    updated: DateTime,
    select: &'a Select,
}

impl<'a> AtomPrinter<'a> {
    /// A printer of entities.
    #[must_use]
    pub fn new(context: Context<'a>, updated: DateTime, select: &'a Select) -> Self {
        Self { context, base: escaped(context.base), updated, select }
    }

    fn context(&self) -> Context<'_> {
        Context { base: &self.base, ..self.context }
    }

    /// One entity, as the whole of an answer.
    ///
    /// # Errors
    /// [`RowError`] if what is stored is damaged; nothing was printed then.
    pub fn single(&self, out: &mut Vec<u8>, entity: &impl EntitySource) -> Result<(), RowError> {
        let began = out.len();
        put(out, &[DECLARATION]);
        let namespaces = namespaces(&self.base);
        self.entry(out, &namespaces, entity).inspect_err(|_| out.truncate(began))
    }

    /// The beginning of a feed: entities, and [`end_feed`](Self::end_feed), follow.
    pub fn begin_feed(&self, out: &mut Vec<u8>) {
        begin_feed(out, self.context(), self.updated);
    }

    /// An entity of a feed.
    ///
    /// # Errors
    /// [`RowError`] if what is stored is damaged; nothing was printed then.
    pub fn feed_entity(
        &self,
        out: &mut Vec<u8>,
        entity: &impl EntitySource,
    ) -> Result<(), RowError> {
        let began = out.len();
        self.entry(out, "", entity).inspect_err(|_| out.truncate(began))
    }

    /// The end of a feed.
    pub fn end_feed(&self, out: &mut Vec<u8>) {
        end_feed(out);
    }

    fn entry(
        &self,
        out: &mut Vec<u8>,
        namespaces: &str,
        entity: &impl EntitySource,
    ) -> Result<(), RowError> {
        let timestamp = DateTime::from(entity.version()).to_string();
        let tag = timestamp.replace(':', "%3A");
        let mut address = String::new();
        let table = self.context.table;
        push_entity_address(&mut address, table, entity.partition_key(), entity.row_key());
        put(out, &["<entry", namespaces]);
        put(out, &[" m:etag=\"W/&quot;datetime'", &tag, "'&quot;\">"]);
        begin_entry(out, self.context(), self.updated, &address);
        match self.select.names() {
            None => {
                for name in ["PartitionKey", "RowKey", "Timestamp"] {
                    push_system(out, name, entity);
                }
                entity.each(|name, value| push_property(out, name, value))?;
            }
            Some(names) => {
                for name in names {
                    if push_system(out, name, entity) {
                        continue;
                    }
                    match entity.get(name)? {
                        Some(value) => push_property(out, name, value),
                        None => put(out, &["<d:", &encode(name), " m:null=\"true\" />"]),
                    }
                }
            }
        }
        put(out, &["</m:properties></content></entry>"]);
        Ok(())
    }
}

/// The answer to Create Table and to the query of one table.
#[must_use]
pub fn print_table(context: Context<'_>, updated: DateTime, name: &str) -> Vec<u8> {
    let mut out = DECLARATION.as_bytes().to_vec();
    let base = &*escaped(context.base);
    push_table(&mut out, Context { base, ..context }, updated, &namespaces(base), name);
    out
}

/// The answer to Query Tables.
#[must_use]
pub fn print_tables<'n>(
    context: Context<'_>,
    updated: DateTime,
    names: impl IntoIterator<Item = &'n str>,
) -> Vec<u8> {
    let context = Context { base: &escaped(context.base), table: "Tables", ..context };
    let mut out = Vec::new();
    begin_feed(&mut out, context, updated);
    for name in names {
        push_table(&mut out, context, updated, "", name);
    }
    end_feed(&mut out);
    out
}

fn push_table(
    out: &mut Vec<u8>,
    context: Context<'_>,
    updated: DateTime,
    namespaces: &str,
    name: &str,
) {
    put(out, &["<entry", namespaces, ">"]);
    let context = Context { table: "Tables", ..context };
    begin_entry(out, context, updated, &format!("Tables('{name}')"));
    push_property(out, "TableName", ValueRef::String(name));
    put(out, &["</m:properties></content></entry>"]);
}

/// An address of an account, whose host is what the client says it is, as the functions below take it.
fn escaped(base: &str) -> String {
    let mut out = Vec::with_capacity(base.len());
    escape_into(&mut out, base);
    // Of characters only those of ASCII are replaced.
    String::from_utf8(out).unwrap_or_default()
}

/// The attributes of a document's root.
fn namespaces(base: &str) -> String {
    format!(" xml:base=\"{base}/\" xmlns:d=\"{DATA}\" xmlns:m=\"{METADATA}\" xmlns=\"{ATOM}\"")
}

fn begin_feed(out: &mut Vec<u8>, context: Context<'_>, updated: DateTime) {
    let Context { base, table, .. } = context;
    put(out, &[DECLARATION, "<feed", &namespaces(base), ">"]);
    put(out, &["<title type=\"text\">", table, "</title><id>", base, "/", table, "</id>"]);
    put(out, &["<updated>", &updated.to_string(), "</updated>"]);
    put(out, &["<link rel=\"self\" title=\"", table, "\" href=\"", table, "\" />"]);
}

/// The end of a feed. One without entries, which have authors, states its own: Atom demands it.
fn end_feed(out: &mut Vec<u8>) {
    if !out.ends_with(b"</entry>") {
        put(out, &["<author><name /></author>"]);
    }
    put(out, &["</feed>"]);
}

/// An entry after its start tag, up to its properties.
fn begin_entry(out: &mut Vec<u8>, context: Context<'_>, updated: DateTime, address: &str) {
    let Context { base, account, table } = context;
    put(out, &["<id>", base, "/", address, "</id><title type=\"text\"></title>"]);
    put(out, &["<updated>", &updated.to_string(), "</updated><author><name /></author>"]);
    put(out, &["<link rel=\"edit\" title=\"", table, "\" href=\"", address, "\" />"]);
    put(out, &["<category term=\"", account, ".", table, "\" scheme=\"", DATA, "/scheme\" />"]);
    put(out, &["<content type=\"application/xml\"><m:properties>"]);
}

/// A system property, if the name is one; whether it is.
fn push_system(out: &mut Vec<u8>, name: &str, entity: &impl EntitySource) -> bool {
    let value = match name {
        "PartitionKey" => ValueRef::String(entity.partition_key()),
        "RowKey" => ValueRef::String(entity.row_key()),
        "Timestamp" => ValueRef::DateTime(entity.version().into()),
        _ => return false,
    };
    push_property(out, name, value);
    true
}

/// What XML takes for white space, of which readers may drop what is at an end.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

fn push_property(out: &mut Vec<u8>, name: &str, value: ValueRef<'_>) {
    let name = &*encode(name);
    put(out, &["<d:", name]);
    match value.value_type() {
        ValueType::String => {
            if let ValueRef::String(text) = value
                && (text.starts_with(is_space) || text.ends_with(is_space))
            {
                put(out, &[PRESERVE]);
            }
        }
        value_type => put(out, &[" m:type=\"", value_type.edm_name(), "\""]),
    }
    put(out, &[">"]);
    match value {
        ValueRef::String(text) => escape_into(out, text),
        ValueRef::Binary(bytes) => put(out, &[&STANDARD.encode(bytes)]),
        ValueRef::Boolean(value) => put(out, &[if value { "true" } else { "false" }]),
        ValueRef::DateTime(instant) => put(out, &[&instant.to_string()]),
        ValueRef::Double(number) => push_double(out, number),
        ValueRef::Guid(id) => put(out, &[&id.to_string()]),
        ValueRef::Int32(number) => put(out, &[itoa::Buffer::new().format(number)]),
        ValueRef::Int64(number) => put(out, &[itoa::Buffer::new().format(number)]),
    }
    put(out, &["</d:", name, ">"]);
}

/// As XML Schema writes it.
fn push_double(out: &mut Vec<u8>, number: f64) {
    match number {
        _ if number.is_finite() => put(out, &[ryu::Buffer::new().format_finite(number + 0.0)]),
        _ if number.is_nan() => put(out, &["NaN"]),
        _ if number > 0.0 => put(out, &["INF"]),
        _ => put(out, &["-INF"]),
    }
}
