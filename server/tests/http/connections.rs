//! What a connection may take, and how it ends (R-S12).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tablestone_server::body::AnswerBody;
use tablestone_server::net::{ConnectionLimits, Handler, Listener, Peer, Shutdown, Tls};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::support::{Client, within};

/// Answers `/large` with 64 MiB, `/wait` when it is told to, everything else with its path.
#[derive(Default)]
struct Echo {
    waiting: Notify,
    go_on: Notify,
}

impl Handler for Echo {
    async fn handle(&self, request: Request<Incoming>, peer: Peer) -> Response<AnswerBody> {
        let path = request.uri().path().to_owned();
        match &*path {
            "/large" => return Response::new(vec![0; 64 << 20].into()),
            "/secure" => return Response::new(peer.secure.to_string().into()),
            "/wait" => {
                self.waiting.notify_one();
                self.go_on.notified().await;
            }
            _ => {}
        }
        Response::new(path.into())
    }
}

struct Server {
    address: SocketAddr,
    echo: Arc<Echo>,
    shutdown: Shutdown,
    ended: JoinHandle<()>,
}

impl Server {
    async fn start(limits: ConnectionLimits, tls: Option<Tls>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(any, tls, limits).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (echo, shutdown) = (Arc::<Echo>::default(), Shutdown::new());
        let ended = tokio::spawn(listener.run(Arc::clone(&echo), &shutdown));
        Self { address, echo, shutdown, ended }
    }

    async fn with(change: impl FnOnce(&mut ConnectionLimits)) -> Self {
        let mut limits = ConnectionLimits::default();
        change(&mut limits);
        Self::start(limits, None).await
    }

    async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }
}

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = Server::with(|_| ()).await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/one").await.text(), "/one");
    // Two at once, the second in pieces.
    client.send("GET /two HTTP/1.1\r\nHost: h\r\n\r\nGET /thr").await;
    assert_eq!(client.answer().await.unwrap().text(), "/two");
    client.send("ee HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().text(), "/three");
    assert_eq!(client.get("/large").await.body.len(), 64 << 20);
}

#[tokio::test]
async fn r_s12_a_connection_too_many_hears_that_the_server_is_busy() {
    let server = Server::with(|limits| limits.connections = 1).await;
    let mut first = server.connect().await;
    assert_eq!(first.get("/first").await.status, 200);
    let mut second = server.connect().await;
    let answer = second.get("/second").await;
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (503, Some("ServerBusy")));
    second.hang_up().await;
    drop(first);
    let served = async {
        let mut is_served = false;
        while !is_served {
            let mut third = server.connect().await;
            is_served = third.get("/third").await.status == 200;
            third.hang_up().await;
        }
    };
    within("the place of a connection that ended", served).await;
}

/// R-S12: those who come all at once, as after a network was away, wait for their turn; one that the system turns away
/// tries again after a second, and then after more.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn r_s12_a_thousand_connections_can_wait_to_be_accepted() {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(any, None, ConnectionLimits::default()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..allowed.trim().parse::<usize>().unwrap().min(1000) {
        waiting.push(within("a place to wait", TcpStream::connect(address)).await.unwrap());
    }
}

#[tokio::test]
async fn r_s12_slow_and_idle_clients_are_let_go() {
    let server = Server::with(|limits| limits.idle_time = SHORT).await;
    assert!(server.connect().await.ends().await);

    let server = Server::with(|limits| limits.head_time = SHORT).await;
    let mut drips = server.connect().await;
    drips.send("GET / HTTP/1.1\r\nHost: ").await;
    assert!(drips.ends().await);

    // 64 MiB are more than the buffers of both ends; once the server has given up, the rest of the
    // answer never comes.
    let server = Server::with(|limits| limits.write_time = SHORT).await;
    let mut deaf = server.connect().await;
    deaf.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n").await;
    tokio::time::sleep(5 * SHORT).await;
    assert!(deaf.answer().await.is_none());
}

#[tokio::test]
async fn r_s12_what_is_no_http_or_too_long_is_refused() {
    let server = Server::with(|limits| limits.head_bytes = 16 << 10).await;
    let mut client = server.connect().await;
    client.send("Good day\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 400);
    assert!(client.ends().await);

    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\nHost: h\r\n").await;
    client.send(format!("X: {}\r\n\r\n", "x".repeat(20_000))).await;
    assert_eq!(client.answer().await.unwrap().status, 431);

    let mut client = server.connect().await;
    let headers: String = (0..200).map(|n| format!("x{n}: y\r\n")).collect();
    client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{headers}\r\n")).await;
    assert_eq!(client.answer().await.unwrap().status, 431);

    assert_eq!(server.connect().await.get("/still").await.text(), "/still");
}

#[tokio::test]
async fn a_shutdown_lets_requests_end() {
    let server = Server::with(|_| ()).await;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/").await.status, 200);
    let mut working = server.connect().await;
    working.send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await;
    within("the request to begin", server.echo.waiting.notified()).await;

    server.shutdown.begin();
    assert!(idle.ends().await, "an idle connection ends at once");
    let refused = async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within("connections to be refused", refused).await;
    assert!(!server.ended.is_finished());
    server.echo.go_on.notify_one();
    assert_eq!(working.answer().await.unwrap().text(), "/wait");
    assert!(working.ends().await);
    within("the listener to end", server.ended).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let server = Server::with(|limits| limits.shutdown_time = SHORT).await;
    let mut working = server.connect().await;
    working.send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await;
    within("the request to begin", server.echo.waiting.notified()).await;
    server.shutdown.begin();
    within("the listener to end", server.ended).await.unwrap();
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The certificate of the tests, and its key.
fn certificate() -> (PathBuf, PathBuf) {
    (data("localhost.pem"), data("localhost.key"))
}

fn tls() -> Tls {
    let (certificate, key) = certificate();
    Tls::read(&certificate, &key).unwrap()
}

/// Who has not sent a request yet is not waited for.
#[tokio::test]
async fn a_shutdown_ends_what_is_no_request_yet_at_once() {
    let shutdown_time = Duration::from_secs(3600);
    let limits = ConnectionLimits { shutdown_time, connections: 2, ..Default::default() };
    let server = Server::start(limits, None).await;
    let mut half = server.connect().await;
    half.send("GET /one HTTP/1.1\r\nHo").await;
    // Connections are accepted in turn: the one before is there.
    assert_eq!(server.connect().await.get("/two").await.text(), "/two");
    server.shutdown.begin();
    assert!(half.ends().await);
    within("the listener to end", server.ended).await.unwrap();

    let limits = ConnectionLimits { connections: 1, ..limits };
    let encrypted = Server::start(limits, Some(tls())).await;
    let mut silent = encrypted.connect().await;
    // The beginning of a ClientHello that promises 512 bytes.
    silent.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await;
    encrypted.connect().await.ends().await;
    encrypted.shutdown.begin();
    assert!(silent.ends().await);
    within("the listener to end", encrypted.ended).await.unwrap();
}

/// What is no TLS would be taken for a broken handshake.
#[tokio::test]
async fn r_s12_a_connection_too_many_is_closed_where_there_is_tls() {
    let limits = ConnectionLimits { connections: 1, ..Default::default() };
    let server = Server::start(limits, Some(tls())).await;
    let _first = server.connect().await;
    assert!(server.connect().await.ends().await);
}

/// A client that trusts this certificate alone.
async fn connect_trusting(
    certificate: &Path,
    address: SocketAddr,
) -> std::io::Result<Client<TlsStream<TcpStream>>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await?;
    Ok(Client::over(connector.connect("localhost".try_into().unwrap(), stream).await?))
}

/// Those that have begun go on.
#[tokio::test]
async fn new_connections_are_shown_the_renewed_certificate() {
    let directory = TempDir::new().unwrap();
    let files = ["pem", "key"].map(|end| directory.path().join(end));
    let put = |name: &str| {
        for (end, to) in ["pem", "key"].iter().zip(&files) {
            std::fs::copy(data(&format!("{name}.{end}")), to).unwrap();
        }
    };
    put("localhost");
    let [certificate, key] = &files;
    let tls = Tls::read(certificate, key).unwrap();
    let server = Server::start(ConnectionLimits::default(), Some(tls.clone())).await;
    let before = data("localhost.pem");
    let mut first = connect_trusting(&before, server.address).await.unwrap();
    put("renewed");
    assert!(tls.renew().unwrap());
    let mut second = connect_trusting(certificate, server.address).await.unwrap();
    assert_eq!(second.get("/secure").await.text(), "true");
    assert_eq!(first.get("/secure").await.text(), "true");
    assert!(connect_trusting(&before, server.address).await.is_err());
}

#[tokio::test]
async fn connections_can_be_encrypted() {
    let ((certificate, key), tls) = (certificate(), tls());
    let server = Server::start(ConnectionLimits::default(), Some(tls.clone())).await;
    let mut client = connect_trusting(&certificate, server.address).await.unwrap();
    assert_eq!(client.get("/secure").await.text(), "true");
    assert_eq!(client.get("/large").await.body.len(), 64 << 20);

    // Who does not encrypt, or says nothing, gets no answer.
    let mut plain = server.connect().await;
    plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(plain.answer().await.is_none());
    let limits = ConnectionLimits { head_time: SHORT, ..ConnectionLimits::default() };
    let impatient = Server::start(limits, Some(tls)).await;
    assert!(impatient.connect().await.ends().await);

    let missing = Tls::read(&key, &key).unwrap_err().to_string();
    assert!(missing.contains("no certificate"), "{missing}");
    let mixed = Tls::read(&certificate, Path::new("/nowhere")).unwrap_err().to_string();
    assert!(mixed.contains("a private key") && mixed.contains("/nowhere"), "{mixed}");
}
