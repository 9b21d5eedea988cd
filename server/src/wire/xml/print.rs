//! Printing XML, and the documents that are only ever printed: statistics and errors.

use super::tree::METADATA;
use crate::wire::put;

/// Adds text with what XML cannot hold as it is replaced by references.
pub(in crate::wire) fn escape_into(out: &mut Vec<u8>, text: &str) {
    for &byte in text.as_bytes() {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            // A bare carriage return would be read as a line feed. XML 1.0 has no way to say the
            // other control characters; readers that are not strict take this one.
            0..=8 | 11..=31 => out.extend_from_slice(format!("&#x{byte:X};").as_bytes()),
            // U+FFFE and U+FFFF, of whose three bytes two are there, are to XML as those are.
            0xBE | 0xBF if out.ends_with(b"\xEF\xBF") => {
                out.truncate(out.len() - 2);
                put(out, &[if byte == 0xBE { "&#xFFFE;" } else { "&#xFFFF;" }]);
            }
            _ => out.push(byte),
        }
    }
}

/// Adds an element with nothing but text in it.
pub(super) fn element(out: &mut Vec<u8>, name: &str, text: &str) {
    put(out, &["<", name, ">"]);
    escape_into(out, text);
    put(out, &["</", name, ">"]);
}

pub(super) const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// The answer to Get Stats of an account that is not replicated: live, and synchronised now.
///
/// `last_sync` is a date as HTTP writes it.
///
/// ```
/// let xml = tablestone_server::wire::xml::print_stats("Thu, 01 Jan 2026 00:00:00 GMT");
/// assert!(String::from_utf8(xml).unwrap().contains("<Status>live</Status><LastSyncTime>Thu, "));
/// ```
#[must_use]
pub fn print_stats(last_sync: &str) -> Vec<u8> {
    let mut out = DECLARATION.as_bytes().to_vec();
    put(&mut out, &["<StorageServiceStats><GeoReplication>"]);
    element(&mut out, "Status", "live");
    element(&mut out, "LastSyncTime", last_sync);
    put(&mut out, &["</GeoReplication></StorageServiceStats>"]);
    out
}

/// The body of an error, for clients that do not take JSON. Its elements have no prefix: some clients look
/// for them by their names as they stand there.
#[must_use]
pub fn print_error(code: &str, message: &str) -> Vec<u8> {
    let mut out = DECLARATION.as_bytes().to_vec();
    put(&mut out, &["<error xmlns=\"", METADATA, "\">"]);
    element(&mut out, "code", code);
    put(&mut out, &["<message xml:lang=\"en-US\">"]);
    escape_into(&mut out, message);
    put(&mut out, &["</message></error>"]);
    out
}
