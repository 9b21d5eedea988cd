//! Takes a batch body apart, in one pass from front to back.
//!
//! Clients differ in line ends, in the `--` after the last boundary, in blank lines, and in whether
//! they send Content-Length. So lines end with LF or CRLF; a boundary counts only where it is a
//! whole line, or the end of the line in which a JSON body ends; where a Content-Length is a number, that
//! many bytes are the body whatever they look like; and a list of parts ends at its closing
//! boundary, at a boundary with nothing after it, or at the enclosing list's boundary.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::{BatchError, BatchErrorKind};
use crate::wire::own_text;

/// Headers of a part or of a request in it. SDKs send about ten.
const MAX_HEADERS: usize = 64;
/// Room that is made for them.
const USUAL_HEADERS: usize = 8;

/// The headers of a part, or of the request in it, in order. Those that are the same in one after the
/// other, as SDKs have them, are read and kept once.
pub type Headers<'a> = Arc<Vec<(&'a str, Cow<'a, str>)>>;

/// What a batch asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch<'a> {
    /// Operations that are applied all or not at all, in this order.
    ChangeSet(Vec<SubRequest<'a>>),
    /// A change set whose first boundary closes it: it asks for nothing, where one that is opened and has no
    /// operations lacks one.
    Nothing,
    /// A single query.
    Query(SubRequest<'a>),
}

impl Batch<'_> {
    /// Bytes that it takes besides the body that it borrows from.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let (requests, entries) = match self {
            Batch::ChangeSet(requests) => (requests.as_slice(), requests.capacity()),
            Batch::Nothing => (&[][..], 0),
            Batch::Query(request) => (std::slice::from_ref(request), 1),
        };
        let ids = requests.iter().filter_map(|request| request.content_id.as_ref()).map(own_text);
        // Those that one request has from the one before are there once.
        let kept = requests.chunk_by(|one, next| Arc::ptr_eq(&one.headers, &next.headers));
        let headers = kept.filter_map(|requests| requests.first()).map(|request| {
            let values = request.headers.iter().map(|(_, value)| own_text(value));
            request.headers.capacity() * size_of::<(&str, Cow<'_, str>)>() + values.sum::<usize>()
        });
        entries * size_of::<SubRequest<'_>>() + ids.sum::<usize>() + headers.sum::<usize>()
    }
}

/// One request of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubRequest<'a> {
    /// The verb, as sent.
    pub method: &'a str,
    /// The address as sent: absolute in every SDK, percent-encoded, possibly with spaces.
    pub target: &'a str,
    /// The part's Content-ID, which its answer repeats.
    pub content_id: Option<Cow<'a, str>>,
    /// The request's headers.
    pub headers: Headers<'a>,
    /// The body; it may begin with blank lines.
    pub body: &'a [u8],
}

/// Takes apart the body of a `$batch` request with this Content-Type.
///
/// # Errors
/// [`BatchError`] with the offset: [`BatchErrorKind::TooManyOperations`] beyond `max_operations`,
/// anything else where the body is no batch.
pub fn parse<'a>(
    content_type: &str,
    body: &'a [u8],
    max_operations: usize,
) -> Result<Batch<'a>, BatchError> {
    let Some(outer) = boundary(content_type) else {
        let found = shown(content_type.as_bytes());
        return Err(BatchError { offset: 0, kind: BatchErrorKind::NotMultipart { found } });
    };
    let mut parser = Parser { body, at: 0, outer: &outer, inner: None, max_operations };
    parser.enter(&outer)?;
    parser.batch()
}

/// The boundary of a `multipart/mixed` Content-Type.
fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim())
    })?;
    let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    (!value.is_empty()).then(|| value.to_owned())
}

pub(super) fn find<'h>(headers: &'h [(&str, Cow<'_, str>)], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|(at, _)| at.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_ref())
}

/// The beginning of a line, for an error.
fn shown(line: &[u8]) -> String {
    crate::error::shown(&String::from_utf8_lossy(line))
}

/// A line that separates parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delimiter {
    /// Of the change set; `last` with the closing hyphens.
    Inner { last: bool },
    /// Of the batch; `last` likewise.
    Outer { last: bool },
}

struct Parser<'a, 'b> {
    body: &'a [u8],
    at: usize,
    outer: &'b str,
    inner: Option<String>,
    max_operations: usize,
}

/// Headers with the text that they were read from, which means the same wherever it comes again; and the
/// request line before them, likewise.
#[derive(Default)]
struct Known<'a> {
    text: &'a [u8],
    headers: Headers<'a>,
    line: &'a [u8],
    request: Option<(&'a str, &'a str)>,
}

impl<'a> Parser<'a, '_> {
    fn batch(mut self) -> Result<Batch<'a>, BatchError> {
        let began = self.at;
        let headers = self.headers()?;
        let kind = find(&headers, "Content-Type").unwrap_or("").to_owned();
        let batch = if is_http(&kind) {
            let content_id = content_id(&headers);
            Batch::Query(self.request(content_id, &mut Known::default())?)
        } else if let Some(inner) = boundary(&kind) {
            let closed = self.enter(&inner)?;
            self.inner = Some(inner);
            if closed { Batch::Nothing } else { Batch::ChangeSet(self.change_set()?) }
        } else {
            return Err(error(began, BatchErrorKind::PartType { found: shown(kind.as_bytes()) }));
        };
        self.end()?;
        Ok(batch)
    }

    /// After the one part: nothing but boundaries and blank lines, up to the closing boundary.
    fn end(&mut self) -> Result<(), BatchError> {
        while let Some(offset) = self.skip_blank() {
            match self.delimiter_here() {
                Some(Delimiter::Outer { last: true }) => return Ok(()),
                Some(_) => self.skip_line(),
                None => return Err(error(offset, BatchErrorKind::SecondPart)),
            }
        }
        Ok(())
    }

    fn change_set(&mut self) -> Result<Vec<SubRequest<'a>>, BatchError> {
        let mut requests = Vec::new();
        let (mut of_part, mut of_request) = (Known::default(), Known::default());
        // Each turn begins after an opening boundary.
        loop {
            let Some(offset) = self.skip_blank() else { return Ok(requests) };
            match self.delimiter_here() {
                None => {}
                Some(Delimiter::Inner { last: false }) => {
                    self.skip_line();
                    continue;
                }
                // The boundary before this one was the last, without its hyphens.
                Some(_) => return Ok(requests),
            }
            if requests.len() == self.max_operations {
                let kind = BatchErrorKind::TooManyOperations { limit: self.max_operations };
                return Err(error(offset, kind));
            }
            let headers = self.known_headers(&mut of_part)?;
            let kind = find(&headers, "Content-Type").unwrap_or("");
            if !is_http(kind) {
                let found = shown(kind.as_bytes());
                return Err(error(offset, BatchErrorKind::PartType { found }));
            }
            requests.push(self.request(content_id(&headers), &mut of_request)?);
            match self.delimiter_here() {
                Some(Delimiter::Inner { last: false }) => self.skip_line(),
                _ => return Ok(requests),
            }
        }
    }

    /// A request, up to the delimiter after it.
    fn request(
        &mut self,
        outer_id: Option<Cow<'a, str>>,
        known: &mut Known<'a>,
    ) -> Result<SubRequest<'a>, BatchError> {
        let offset = self.skip_blank().unwrap_or(self.at);
        let line = self.line();
        if known.request.is_none() || known.line != line {
            (known.line, known.request) = (line, request_line(line));
        }
        let Some((method, target)) = known.request else {
            return Err(error(offset, BatchErrorKind::RequestLine { found: shown(line) }));
        };
        let headers = self.known_headers(known)?;
        // The C++ SDK of some operations ends no line behind the number, and the next header is part of the value:
        // that says nothing, and the body ends at the boundary.
        let length = find(&headers, "Content-Length").filter(|length| is_number(length));
        let body = match length {
            Some(length) => self.sized_body(length)?,
            None => self.body_to_delimiter()?,
        };
        let content_id = outer_id.or_else(|| content_id(&headers));
        Ok(SubRequest { method, target, content_id, headers, body })
    }

    /// As many bytes as the header says, after which only blanks may stand before a delimiter.
    fn sized_body(&mut self, length: &str) -> Result<&'a [u8], BatchError> {
        let wrong = || {
            error(self.at, BatchErrorKind::ContentLength { length: crate::error::shown(length) })
        };
        let size: usize = length.parse().map_err(|_| wrong())?;
        let end = self.at.checked_add(size).ok_or_else(wrong)?;
        let body = self.body.get(self.at..end).ok_or_else(wrong)?;
        let rest = self.body.get(end..).unwrap_or_default();
        let next = end + (rest.len() - rest.trim_ascii_start().len());
        let before = next.checked_sub(1).and_then(|before| self.body.get(before));
        if before != Some(&b'\n') || self.delimiter_at(next).is_none() {
            return Err(wrong());
        }
        self.at = next;
        Ok(body)
    }

    /// Everything up to the next delimiter, without the line end before it. The C++ SDK has none there, and puts the
    /// delimiter right behind a body: the service takes that, and no JSON ends a line like it.
    fn body_to_delimiter(&mut self) -> Result<&'a [u8], BatchError> {
        let began = self.at;
        let found = self.line_starts().find_map(|start| {
            let whole = self.delimiter_at(start).map(|_| start);
            whole.or_else(|| self.delimiter_ending(start))
        });
        let Some(next) = found else {
            let boundary = shown(self.inner.as_deref().unwrap_or(self.outer).as_bytes());
            return Err(error(began, BatchErrorKind::NoBoundary { boundary }));
        };
        self.at = next;
        Ok(without_line_end(self.body.get(began..next).unwrap_or_default()))
    }

    /// Headers like those before, if the same bytes come again, else as they are read.
    fn known_headers(&mut self, known: &mut Known<'a>) -> Result<Headers<'a>, BatchError> {
        let began = self.at;
        let rest = self.body.get(began..).unwrap_or_default();
        if !known.text.is_empty() && rest.starts_with(known.text) {
            self.at += known.text.len();
            return Ok(Arc::clone(&known.headers));
        }
        let headers = self.headers()?;
        let text = self.body.get(began..self.at).unwrap_or_default();
        // Without the blank line, what follows would tell whether they end there.
        let ended = text.ends_with(b"\n\r\n") || text.ends_with(b"\n\n");
        (known.text, known.headers) = (if ended { text } else { b"" }, Arc::clone(&headers));
        Ok(headers)
    }

    /// Headers up to a blank line, which is taken, or a delimiter or the end, which is not.
    fn headers(&mut self) -> Result<Headers<'a>, BatchError> {
        let mut headers: Vec<(&'a str, Cow<'a, str>)> = Vec::with_capacity(USUAL_HEADERS);
        loop {
            if self.delimiter_here().is_some() {
                return Ok(headers.into());
            }
            let offset = self.at;
            let line = self.line();
            if line.is_empty() {
                return Ok(headers.into());
            }
            let bad = || error(offset, BatchErrorKind::Header { found: shown(line) });
            let control = |byte: &u8| *byte < b' ' && *byte != b'\t' || *byte == 0x7F;
            if line.iter().any(control) {
                return Err(bad());
            }
            let text = std::str::from_utf8(line).map_err(|_| bad())?;
            if text.starts_with([' ', '\t']) {
                // A folded line goes on with the header before it.
                let (_, value) = headers.last_mut().ok_or_else(bad)?;
                let value = value.to_mut();
                value.push(' ');
                value.push_str(text.trim_ascii());
                continue;
            }
            let (name, value) = text.split_once(':').ok_or_else(bad)?;
            if name.is_empty() || name.contains([' ', '\t']) {
                return Err(bad());
            }
            if headers.len() == MAX_HEADERS {
                let kind = BatchErrorKind::TooManyHeaders { limit: MAX_HEADERS };
                return Err(error(offset, kind));
            }
            headers.push((name, Cow::Borrowed(value.trim_ascii())));
        }
    }

    /// Goes behind the boundary that must come first; whether it closes its list at once. A
    /// preamble, which MIME allows, would hide operations whose boundary is misspelt.
    fn enter(&mut self, boundary: &str) -> Result<bool, BatchError> {
        let offset = self.skip_blank().unwrap_or(self.at);
        let rest = self.body.get(offset..).unwrap_or_default();
        let Some(last) = boundary_line(rest, boundary) else {
            let kind = BatchErrorKind::NoBoundary { boundary: shown(boundary.as_bytes()) };
            return Err(error(offset, kind));
        };
        self.skip_line();
        Ok(last)
    }

    /// Where lines from here on begin.
    fn line_starts(&self) -> impl Iterator<Item = usize> {
        let (at, body) = (self.at, self.body);
        let rest = body.get(at..).unwrap_or_default();
        // Most bodies are one line.
        std::iter::once(at).chain(memchr::memchr_iter(b'\n', rest).map(move |found| at + found + 1))
    }

    /// The delimiter at this line, if it is one.
    fn delimiter_here(&self) -> Option<Delimiter> {
        self.delimiter_at(self.at)
    }

    fn delimiter_at(&self, start: usize) -> Option<Delimiter> {
        let line = self.body.get(start..)?;
        let inner = self.inner.as_deref().and_then(|inner| boundary_line(line, inner));
        let inner = inner.map(|last| Delimiter::Inner { last });
        inner.or_else(|| Some(Delimiter::Outer { last: boundary_line(line, self.outer)? }))
    }

    /// Where the delimiter begins that the line from `start` ends with, behind a body's last brace.
    fn delimiter_ending(&self, start: usize) -> Option<usize> {
        let rest = self.body.get(start..)?;
        let line = rest.get(..memchr::memchr(b'\n', rest).unwrap_or(rest.len()))?.trim_ascii_end();
        let line = line.strip_suffix(b"--").unwrap_or(line);
        let begins = |boundary: &str| {
            let before = line.strip_suffix(boundary.as_bytes())?.strip_suffix(b"--")?;
            before.ends_with(b"}").then_some(start + before.len())
        };
        self.inner.as_deref().and_then(begins).or_else(|| begins(self.outer))
    }

    /// Goes past blank lines; the offset of what comes, none at the end.
    fn skip_blank(&mut self) -> Option<usize> {
        while let Some(first) = self.body.get(self.at) {
            let before = self.at;
            if !first.is_ascii_whitespace() {
                return Some(before);
            }
            if !self.line().trim_ascii().is_empty() {
                self.at = before;
                return Some(before);
            }
        }
        None
    }

    fn skip_line(&mut self) {
        self.line();
    }

    /// The next line without its end; empty at the end of the body.
    fn line(&mut self) -> &'a [u8] {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        self.at += length;
        without_line_end(rest.get(..length).unwrap_or_default())
    }
}

fn error(offset: usize, kind: BatchErrorKind) -> BatchError {
    BatchError { offset, kind }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_http(content_type: &str) -> bool {
    // Mostly nothing follows it.
    content_type == "application/http" || {
        let kind = content_type.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/http")
    }
}

fn content_id<'a>(headers: &Headers<'a>) -> Option<Cow<'a, str>> {
    let mut headers = headers.iter();
    let (_, id) = headers.find(|(name, _)| name.eq_ignore_ascii_case("Content-ID"))?;
    Some(id.clone())
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether the first line of `rest` is this boundary; true inside if it closes the list.
fn boundary_line(rest: &[u8], boundary: &str) -> Option<bool> {
    let rest = rest.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?;
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    match rest.get(..end)?.trim_ascii_end() {
        b"" => Some(false),
        b"--" => Some(true),
        _ => None,
    }
}

/// Method and address. The address may have spaces, as in samples of the documentation.
fn request_line(line: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(line).ok()?.trim_ascii();
    let (method, rest) = line.split_once(' ')?;
    let (target, version) = rest.rsplit_once(' ')?;
    let target = target.trim_ascii();
    let plausible = version.starts_with("HTTP/")
        && method.bytes().all(|it| it.is_ascii_alphabetic())
        && !target.is_empty();
    plausible.then_some((method, target))
}
