//! [`Connection`]: as little HTTP as a request and its answer need.

use std::io::{Error, ErrorKind, Result};
use std::ops::Range;

use memchr::memmem;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::endpoint::Endpoint;

const HEADERS: usize = 48;

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    /// The answer, and room for the next.
    read: Vec<u8>,
    /// A body that came in chunks.
    joined: Vec<u8>,
}

/// An answer, without its bytes.
#[derive(Debug, Default)]
struct Head {
    status: u16,
    /// Where the body begins.
    bytes: usize,
    length: usize,
    chunked: bool,
    next: Option<String>,
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// As it came, with the head; for answers that were not chunked.
    pub(crate) whole: &'a [u8],
    pub(crate) body: &'a [u8],
    /// The query string with which the query goes on.
    pub(crate) next: Option<String>,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self> {
        let stream = TcpStream::connect(endpoint.address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(64 << 10), joined: Vec::new() })
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.read.clear();
        let head = loop {
            self.more(1 << 10).await?;
            if let Some(head) = Head::parse(&self.read)? {
                break head;
            }
        };
        let Head { status, bytes, length, chunked, next } = head;
        let body = if chunked {
            self.join_chunks(bytes).await?;
            &self.joined[..]
        } else {
            while self.read.len() < bytes + length {
                self.more(bytes + length - self.read.len()).await?;
            }
            self.read.get(bytes..bytes + length).unwrap_or_default()
        };
        Ok(Answer { status, whole: &self.read, body, next })
    }

    async fn more(&mut self, at_least: usize) -> Result<()> {
        self.read.reserve(at_least);
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Puts the chunks of a body together.
    async fn join_chunks(&mut self, mut at: usize) -> Result<()> {
        self.joined.clear();
        loop {
            let (data, next) = loop {
                let rest = self.read.get(at..).unwrap_or_default();
                if let Some(chunk) = chunk(rest)? {
                    break chunk;
                }
                self.more(4 << 10).await?;
            };
            let ended = data.is_empty();
            let data = self.read.get(at + data.start..at + data.end).unwrap_or_default();
            self.joined.extend_from_slice(data);
            at += next;
            if ended {
                return Ok(());
            }
        }
    }
}

/// The first chunk if it is all there: where its data is, and where it ends.
fn chunk(bytes: &[u8]) -> Result<Option<(Range<usize>, usize)>> {
    match httparse::parse_chunk_size(bytes) {
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete((start, size))) => {
            let end = start + usize::try_from(size).unwrap_or(usize::MAX / 2);
            Ok((bytes.len() >= end + 2).then_some((start..end, end + 2)))
        }
        Err(error) => Err(Error::new(ErrorKind::InvalidData, error.to_string())),
    }
}

impl Head {
    /// The head at the beginning, if it is all there.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        if memmem::find(bytes, b"\r\n\r\n").is_none() {
            return Ok(None);
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let parsed = answer.parse(bytes);
        let parsed = parsed.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        let httparse::Status::Complete(length) = parsed else {
            return Ok(None);
        };
        let mut head = Self { status: answer.code.unwrap_or(0), bytes: length, ..Self::default() };
        let mut next = [None, None];
        for header in answer.headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = std::str::from_utf8(header.value).unwrap_or_default();
            if is("content-length") {
                head.length = value.parse().unwrap_or(0);
            } else if is("transfer-encoding") {
                head.chunked = true;
            } else if is("x-ms-continuation-NextPartitionKey") {
                next[0] = Some(value);
            } else if is("x-ms-continuation-NextRowKey") {
                next[1] = Some(value);
            }
        }
        head.next = next[0].map(|partition_key| {
            let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
            let mut text = format!("?NextPartitionKey={}", encode(partition_key));
            if let Some(row_key) = next[1] {
                text.push_str(&format!("&NextRowKey={}", encode(row_key)));
            }
            text
        });
        Ok(Some(head))
    }
}
