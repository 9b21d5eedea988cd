//! A client that sends exactly what a test says.

use std::collections::HashMap;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A connection, kept for as many requests as a test has.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("a connection"))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("bytes sent");
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        self.answer().await.expect("an answer")
    }

    /// The next answer; `None` if the connection ends instead.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let head = loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                let rest = self.read.split_off(end + 4);
                break String::from_utf8(std::mem::replace(&mut self.read, rest)).expect("a head");
            }
            self.more().await?;
        };
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers: HashMap<_, _> =
            headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let length = headers.get("content-length").map_or(0, |it| it.parse().expect("a length"));
        if status < 200 {
            return Some(Answer { status, headers, body: Vec::new() });
        }
        while self.read.len() < length {
            self.more().await?;
        }
        let rest = self.read.split_off(length);
        let body = std::mem::replace(&mut self.read, rest);
        Some(Answer { status, headers, body })
    }

    async fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 64 << 10];
        let bytes = self.stream.read(&mut buffer).await.ok().filter(|bytes| *bytes > 0)?;
        self.read.extend_from_slice(&buffer[..bytes]);
        Some(())
    }

    /// Whether the connection ends without another answer.
    pub(crate) async fn ends(&mut self) -> bool {
        self.more().await.is_none()
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
