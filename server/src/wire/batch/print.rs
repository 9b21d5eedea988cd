//! [`BatchWriter`] prints the answer to a batch.
//!
//! Clients take it apart with little more than a search: JavaScript looks for
//! `--changesetresponse_`, `HTTP/1.1 204`, `ETag: ` and a body on one line, so names keep their
//! case, bodies are one line, and lines end with CRLF.

use std::fmt::Display;
use std::ops::Range;

use http::StatusCode;
use memchr::memmem;

use crate::wire::put;

/// Prints the answer to a batch, part by part.
///
/// ```
/// use http::StatusCode;
/// use tablestone_server::wire::batch::BatchWriter;
///
/// let mut writer = BatchWriter::change_set("1", "2");
/// writer.begin(StatusCode::NO_CONTENT, None);
/// writer.header("ETag", "W/\"a\"");
/// writer.end(b"");
/// assert_eq!(writer.content_type(), "multipart/mixed; boundary=batchresponse_1");
/// let text = String::from_utf8(writer.finish()).unwrap();
/// assert!(text.contains("\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/\"a\"\r\n\r\n"));
/// ```
#[derive(Debug)]
pub struct BatchWriter {
    out: Vec<u8>,
    batch_boundary: String,
    /// None for a query, whose part stands in the batch itself.
    change_set_boundary: Option<String>,
}

/// Where what stands around a text is that is in a part, maybe several times, or not at all.
#[derive(Debug)]
pub(crate) struct Pieces {
    before_text: Vec<Range<usize>>,
    last: Range<usize>,
}

impl BatchWriter {
    /// The answer to a change set; the identifiers make the boundaries unique.
    #[must_use]
    pub fn change_set(batch_id: impl Display, change_set_id: impl Display) -> Self {
        let batch_boundary = format!("batchresponse_{batch_id}");
        let change_set_boundary = format!("changesetresponse_{change_set_id}");
        let out = format!(
            "--{batch_boundary}\r\n\
             Content-Type: multipart/mixed; boundary={change_set_boundary}\r\n\r\n"
        );
        let change_set_boundary = Some(change_set_boundary);
        Self { out: out.into_bytes(), batch_boundary, change_set_boundary }
    }

    /// The answer to a single query.
    #[must_use]
    pub fn query(batch_id: impl Display) -> Self {
        let batch_boundary = format!("batchresponse_{batch_id}");
        Self { out: Vec::new(), batch_boundary, change_set_boundary: None }
    }

    /// The Content-Type of the whole.
    #[must_use]
    pub fn content_type(&self) -> String {
        format!("multipart/mixed; boundary={}", self.batch_boundary)
    }

    /// Begins a part, whose headers and [`end`](Self::end) follow: the answer to the request with this Content-ID.
    pub fn begin(&mut self, status: StatusCode, content_id: Option<&str>) {
        let boundary = self.change_set_boundary.as_ref().unwrap_or(&self.batch_boundary);
        let out = &mut self.out;
        put(out, &["--", boundary, "\r\nContent-Type: application/http\r\n"]);
        put(out, &["Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 "]);
        let reason = status.canonical_reason().unwrap_or_default();
        put(out, &[status.as_str(), " ", reason, "\r\n"]);
        if let Some(id) = content_id {
            self.header("Content-ID", id);
        }
    }

    /// Adds a header to the part; its value has no control characters.
    pub fn header(&mut self, name: &str, value: &str) {
        put(&mut self.out, &[name, ": ", value, "\r\n"]);
    }

    /// Ends the part with its body, one line.
    pub fn end(&mut self, body: &[u8]) {
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(body);
        self.out.extend_from_slice(b"\r\n");
    }

    /// What was printed from there on, around this text, which is not empty.
    pub(crate) fn pieces(&self, start: usize, text: &str) -> Pieces {
        let printed = self.out.get(start..).unwrap_or_default();
        let (mut before_text, mut from) = (Vec::new(), start);
        for found in memmem::find_iter(printed, text) {
            before_text.push(from..start + found);
            from = start + found + text.len();
        }
        Pieces { before_text, last: from..self.out.len() }
    }

    /// Prints these pieces again, around another text.
    pub(crate) fn repeat(&mut self, pieces: &Pieces, text: &str) {
        for piece in &pieces.before_text {
            self.out.extend_from_within(piece.clone());
            self.out.extend_from_slice(text.as_bytes());
        }
        self.out.extend_from_within(pieces.last.clone());
    }

    /// Makes room for as many bytes more.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// The whole, closed.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if let Some(boundary) = &self.change_set_boundary {
            put(&mut self.out, &["--", boundary, "--\r\n"]);
        }
        put(&mut self.out, &["--", &self.batch_boundary, "--\r\n"]);
        self.out
    }
}
