//! A server in this process, and a client that sends exactly what a test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use tablestone::{Database, Durability};
use tablestone_server::auth::{Account, SigningKey};
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Limits};
use tablestone_server::net::{Listener, Shutdown};
use tablestone_server::service::TableService;
use tablestone_server::telemetry::Telemetry;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::processes::LIMIT;

/// What a future gives; a panic that says what was waited for if it gives nothing.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let Ok(output) = tokio::time::timeout(LIMIT, future).await else {
        panic!("waited in vain for {what}");
    };
    output
}

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

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error, in the header and in the body alike.
    pub(crate) fn code(&self) -> &str {
        let code = self.header("x-ms-error-code").unwrap_or_else(|| panic!("no error: {self:?}"));
        assert!(
            self.text().contains(&format!("\"{code}\""))
                || self.text().contains(&format!(">{code}<"))
        );
        code
    }

    /// The text of an error in JSON.
    pub(crate) fn message(&self) -> String {
        let message = &self.json()["odata.error"]["message"]["value"];
        message.as_str().unwrap_or_else(|| panic!("no message: {self:?}")).to_owned()
    }

    /// Status, and code of the error.
    pub(crate) fn failure(&self) -> (u16, &str) {
        (self.status, self.code())
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
        assert!(self.offer(bytes).await, "bytes sent");
    }

    /// Sends as much as the other end takes; whether that was all.
    pub(crate) async fn offer(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        within("bytes to be taken", self.stream.write_all(bytes.as_ref())).await.is_ok()
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
        let mut buffer = vec![0; 64 << 10];
        let read = within("bytes of an answer", self.stream.read(&mut buffer));
        let bytes = read.await.ok().filter(|bytes| *bytes > 0)?;
        self.read.extend_from_slice(&buffer[..bytes]);
        Some(())
    }

    /// Whether the connection ends without another answer.
    pub(crate) async fn ends(&mut self) -> bool {
        self.more().await.is_none()
    }

    /// Sends no more, and waits until the server is done with the connection, too.
    pub(crate) async fn hang_up(mut self) {
        // Where it is already, there is nothing to be told.
        let _ = self.stream.shutdown().await;
        while self.more().await.is_some() {}
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A second account beside the emulator's.
pub(crate) const SECOND_ACCOUNT: &str = "second";
pub(crate) const SECOND_KEY: &str = "c2Vjb25k";

/// A service on a database of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) service: Arc<TableService>,
    shutdown: Shutdown,
    directory: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::open(tempfile::tempdir().expect("a directory"), limits).await
    }

    async fn open(directory: TempDir, limits: Limits) -> Self {
        let options = limits.options().durability(Durability::Os).memory_budget(8 << 20);
        let database = Database::open(directory.path(), options).expect("a database");
        let account =
            |name: &str, key| Account::new(name, vec![SigningKey::parse(key).expect("a key")]);
        let accounts = vec![
            account(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY),
            account(SECOND_ACCOUNT, SECOND_KEY),
        ];
        let service = TableService::open(database, accounts, limits, Telemetry::on(false));
        let service = Arc::new(service.await.expect("a service"));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(any, None, limits.connection).await.expect("a port");
        let (address, shutdown) = (listener.local_addr().expect("an address"), Shutdown::new());
        tokio::spawn(listener.run(Arc::clone(&service), &shutdown));
        Self { address, service, shutdown, directory }
    }

    /// Stops and starts again on the same data.
    pub(crate) async fn restart(self) -> Self {
        self.restart_with(Limits::default()).await
    }

    /// As [`restart`](Self::restart), with other limits.
    pub(crate) async fn restart_with(self, limits: Limits) -> Self {
        let Self { service, shutdown, directory, .. } = self;
        shutdown.begin();
        let unused = async {
            while Arc::strong_count(&service) > 1 {
                tokio::task::yield_now().await;
            }
        };
        within("requests to end", unused).await;
        service.database().clone().close().expect("a clean end");
        drop(service);
        Self::open(directory, limits).await
    }

    /// A client whose requests are signed by the emulator's account.
    pub(crate) async fn client(&self) -> Signing {
        Signing::new(Client::connect(self.address).await, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY)
    }

    pub(crate) async fn client_of(&self, account: &'static str, key: &str) -> Signing {
        Signing::new(Client::connect(self.address).await, account, key)
    }

    /// A client with a table called `people`.
    pub(crate) async fn with_people(&self) -> Signing {
        let mut client = self.client().await;
        let created = client.post("/Tables", r#"{"TableName":"people"}"#).await;
        assert_eq!(created.status, 201, "{created:?}");
        client
    }
}

/// A client that signs.
pub(crate) struct Signing {
    client: Client,
    account: &'static str,
    key: SigningKey,
}

/// Headers that every SDK sends.
const USUAL: [(&str, &str); 4] = [
    ("Accept", "application/json;odata=minimalmetadata"),
    ("Content-Type", "application/json"),
    ("x-ms-version", "2019-02-02"),
    ("DataServiceVersion", "3.0"),
];

impl Signing {
    pub(crate) fn new(client: Client, account: &'static str, key: &str) -> Self {
        Self { client, account, key: SigningKey::parse(key).expect("a key") }
    }

    /// Sends a request, signed, to a path of the account; headers are set in place of the usual ones.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let path = format!("/{}{path}", self.account);
        self.send_to("localhost", method, &path, headers, body.as_ref()).await
    }

    pub(crate) async fn send_to(
        &mut self,
        host: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_send_to(host, method, path, headers, body).await.expect("an answer")
    }

    /// As [`send`](Self::send); `None` if the connection breaks.
    pub(crate) async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Option<Answer> {
        let path = format!("/{}{path}", self.account);
        self.try_send_to("localhost", method, &path, headers, body.as_ref()).await
    }

    async fn try_send_to(
        &mut self,
        host: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Answer> {
        let (date, authorization) = self.sign(path);
        let mut all = vec![("x-ms-date", &*date), ("Authorization", &authorization)];
        all.extend(USUAL.iter().filter(|(usual, _)| {
            !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(usual))
        }));
        // An empty value takes a usual header out.
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        self.client.try_request(host, method, path, &all, body).await
    }

    /// The date of a request to this path, and its authorization.
    fn sign(&self, path: &str) -> (String, String) {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let comp = query.split('&').find_map(|pair| pair.strip_prefix("comp="));
        let signature = self.key.sign(|signer| {
            signer.line(&date).push("/").push(self.account).push(bare);
            if let Some(comp) = comp {
                signer.push("?comp=").push(comp);
            }
        });
        (date, format!("SharedKeyLite {}:{signature}", self.account))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    /// Sends a signed request's head alone, and waits for an answer nevertheless.
    pub(crate) async fn promise(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        self.begin(method, path, headers).await;
        self.client.answer().await.expect("an answer")
    }

    /// Sends a signed request's head alone.
    pub(crate) async fn begin(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) {
        let path = format!("/{}{path}", self.account);
        let (date, authorization) = self.sign(&path);
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nx-ms-date: {date}\r\n");
        head += &format!("Authorization: {authorization}\r\n");
        for (name, value) in USUAL.iter().chain(headers) {
            head += &format!("{name}: {value}\r\n");
        }
        self.client.send(head + "\r\n").await;
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[], body).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, &[("If-Match", "*")], "").await
    }

    /// Without a signature.
    pub(crate) fn unsigned(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn request(
        &mut self,
        host: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_request(host, method, path, headers, body).await.expect("an answer")
    }

    /// As [`request`](Self::request); `None` if the connection breaks.
    async fn try_request(
        &mut self,
        host: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Answer> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n", body.len());
        // An answer may come before all was sent: it is what counts.
        self.offer([request.as_bytes(), body].concat()).await;
        self.answer().await
    }
}
