//! The other bodies in JSON: tables and errors (protocol 2, 5).

use super::escape::push_string;
use crate::headers::Metadata;
use crate::wire::Context;

/// The answer to Create Table and to the query of one table.
#[must_use]
pub fn print_table(context: Context<'_>, metadata: Metadata, name: &str) -> Vec<u8> {
    let mut out = vec![b'{'];
    push_metadata(&mut out, context, metadata, "#Tables/@Element");
    push_table(&mut out, context, metadata, name);
    out
}

/// The answer to Query Tables.
///
/// ```
/// use tablestone_server::headers::Metadata;
/// use tablestone_server::wire::{Context, json};
/// let context = Context { base: "http://h/a", account: "a", table: "Tables" };
/// let body = json::print_tables(context, Metadata::Minimal, ["T"]);
/// let expected = r#"{"odata.metadata":"http://h/a/$metadata#Tables","value":[{"TableName":"T"}]}"#;
/// assert_eq!(String::from_utf8(body).unwrap(), expected);
/// ```
#[must_use]
pub fn print_tables<'n>(
    context: Context<'_>,
    metadata: Metadata,
    names: impl IntoIterator<Item = &'n str>,
) -> Vec<u8> {
    let mut out = vec![b'{'];
    push_metadata(&mut out, context, metadata, "#Tables");
    out.extend_from_slice(b"\"value\":[");
    for (at, name) in names.into_iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"{" } else { b",{" });
        push_table(&mut out, context, metadata, name);
    }
    out.extend_from_slice(b"]}");
    out
}

fn push_metadata(out: &mut Vec<u8>, context: Context<'_>, metadata: Metadata, what: &str) {
    if metadata != Metadata::None {
        out.extend_from_slice(b"\"odata.metadata\":");
        push_string(out, &format!("{}/$metadata{what}", context.base));
        out.push(b',');
    }
}

/// A table after its opening brace, with the closing one.
fn push_table(out: &mut Vec<u8>, context: Context<'_>, metadata: Metadata, name: &str) {
    if metadata == Metadata::Full {
        let address = format!("Tables('{name}')");
        for (member, value) in [
            ("odata.type", format!("{}.Tables", context.account)),
            ("odata.id", format!("{}/{address}", context.base)),
            ("odata.editLink", address),
        ] {
            push_string(out, member);
            out.push(b':');
            push_string(out, &value);
            out.push(b',');
        }
    }
    out.extend_from_slice(b"\"TableName\":");
    push_string(out, name);
    out.push(b'}');
}

/// The body of an error.
///
/// ```
/// let body = tablestone_server::wire::json::print_error("InvalidInput", "No.\nTime:now");
/// let expected = r#"{"odata.error":{"code":"InvalidInput","message":{"lang":"en-US","value":"No.\nTime:now"}}}"#;
/// assert_eq!(String::from_utf8(body).unwrap(), expected);
/// ```
#[must_use]
pub fn print_error(code: &str, message: &str) -> Vec<u8> {
    let mut out = b"{\"odata.error\":{\"code\":".to_vec();
    push_string(&mut out, code);
    out.extend_from_slice(b",\"message\":{\"lang\":\"en-US\",\"value\":");
    push_string(&mut out, message);
    out.extend_from_slice(b"}}}");
    out
}
