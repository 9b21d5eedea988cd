//! What operators see of a server, and what it does when they do not look.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tablestone::{Database, Options, Stats};
use tablestone_server::config::Limits;
use tablestone_server::net::Peer;
use tablestone_server::service::TableService;
use tablestone_server::telemetry::Telemetry;
use tempfile::TempDir;

use crate::batch::{TYPE, alone, change_set, part, parts};
use crate::budget::ask;
use crate::process::{Process, client, tablestone};
use crate::support::{Client, Server, within};

/// Nobody need read what the server says: not of requests, of refused connections, or of its end.
#[tokio::test]
async fn a_server_goes_on_when_nobody_reads_its_log() {
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("tablestone.toml");
    std::fs::write(&config, "[limits]\nconnections = 1\n").unwrap();
    let arguments = ["--access-log", "--config", config.to_str().unwrap()];
    let mut process = Process::start(tablestone(directory.path(), &arguments));
    let address = process.address_after("listens on http://");
    process.stop_reading();
    let mut first = client(address).await;
    for _ in 0..3 {
        assert_eq!(first.get("/Tables").await.status, 200);
        let mut refused = Client::connect(address).await;
        assert_eq!(refused.get("/").await.status, 503);
        // Where one is let in, one at a time is told that it is not.
        refused.hang_up().await;
    }
    process.stop();
}

/// Who sends requests to the server finds out that it stops while it still answers those it has.
#[tokio::test]
async fn a_server_that_stops_says_so_until_requests_have_ended() {
    let directory = TempDir::new().unwrap();
    let (mut process, admin) = Process::with_admin(directory.path(), &[]);
    let mut client = client(process.address_after("listens on http://")).await;
    let body = r#"{"TableName":"people"}"#;
    let asks = [("Expect", "100-continue"), ("Content-Length", &*body.len().to_string())];
    assert_eq!(client.promise("POST", "/Tables", &asks).await.status, 100);
    assert_eq!(Client::connect(admin).await.get("/ready").await.status, 200);
    process.begin_to_stop();
    let stopping =
        async { while Client::connect(admin).await.get("/ready").await.status != 503 {} };
    within("the server to stop", stopping).await;
    let mut operator = Client::connect(admin).await;
    assert_eq!(operator.get("/health").await.status, 200);
    client.unsigned().send(body).await;
    assert_eq!(client.unsigned().answer().await.unwrap().status, 201);
    process.has_stopped();
}

/// R-S12: whoever reaches the port for operators takes no files that the database wants.
#[tokio::test]
async fn r_s12_few_operators_are_let_in() {
    let directory = TempDir::new().unwrap();
    let (mut process, admin) = Process::with_admin(directory.path(), &[]);
    let mut client = client(process.address_after("listens on http://")).await;
    let mut let_in = Vec::new();
    for _ in 0..64 {
        let mut operator = Client::connect(admin).await;
        assert_eq!(operator.get("/health").await.status, 200);
        let_in.push(operator);
    }
    assert_eq!(Client::connect(admin).await.get("/health").await.status, 503);
    assert_eq!(client.get("/Tables").await.status, 200);
    process.stop();
}

/// A server that is told to stop before it listens has nothing to do but to close what it opened.
#[test]
fn a_server_can_be_stopped_before_it_listens() {
    let directory = TempDir::new().unwrap();
    for _ in 0..5 {
        let (process, _) = Process::with_admin(directory.path(), &[]);
        let log = process.stop();
        assert!(log.contains("tablestone is stopping"), "{log}");
    }
}

/// What a first start on a full disk fails with is not taken for something to be read.
#[tokio::test]
async fn a_catalog_that_cannot_be_written_is_told_so() {
    let directory = TempDir::new().unwrap();
    let database = Database::open(directory.path(), Options::default()).unwrap();
    database.clone().close().unwrap();
    let (limits, telemetry) = (Limits::default(), Telemetry::off(false));
    let opened = TableService::open(database, Vec::new(), limits, telemetry).await;
    let why = opened.err().map(|error| error.to_string());
    let expected = "cannot write the catalog of tables: the database is closed";
    assert_eq!(why.as_deref(), Some(expected));
}

/// A body that does not come.
struct Never;

impl futures_core::Stream for Never {
    type Item = Result<Frame<Bytes>, std::io::Error>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn a_request_whose_client_goes_away_is_counted() {
    let directory = TempDir::new().unwrap();
    let database = Database::open(directory.path(), Options::default()).unwrap();
    let (limits, telemetry) = (Limits::default(), Telemetry::on(false));
    let service = TableService::open(database, Vec::new(), limits, telemetry).await.unwrap();
    let request = Request::post("/mine/people").header("Host", "h").body(StreamBody::new(Never));
    let peer = Peer { address: None, secure: false };
    {
        let mut answer = pin!(service.handle(request.unwrap(), peer));
        let polled = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_pending()));
        assert!(polled.await);
    }
    let text = service.telemetry().render(&Stats::default());
    for line in [
        "tablestone_requests_total{operation=\"Unknown\",status=\"cancelled\"} 1",
        "tablestone_requests_in_flight 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
    }
}

/// That each of the lines is among the metrics of a server.
fn check_metrics(server: &Server, lines: &[&str]) {
    let text = server.service.telemetry().render(&Stats::default());
    for line in lines {
        assert!(text.lines().any(|other| other == *line), "{line} is not in:\n{text}");
    }
}

/// A batch that is refused by what is in it counts as the same request alone, though its answer has 202.
#[tokio::test]
async fn refusals_within_a_batch_are_counted() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(client.post("/people", entity).await.status, 201);
    assert_eq!(client.post("/people", entity).await.status, 409);
    let insert = part("POST /devstoreaccount1/people", &[], entity);
    let many = vec![insert.clone(); 101];
    let target = "GET /devstoreaccount1/people(PartitionKey='p',RowKey='missing')";
    let query = alone(&part(target, &[], ""));
    for (body, status) in [(change_set(&[insert]), 409), (change_set(&many), 400), (query, 404)] {
        let answer = client.send("POST", "/$batch", &[TYPE], &body).await;
        assert_eq!(parts(&answer)[0].status, status);
    }
    check_metrics(
        &server,
        &[
            "tablestone_errors_total{code=\"EntityAlreadyExists\"} 2",
            "tablestone_errors_total{code=\"InvalidInput\"} 1",
            "tablestone_errors_total{code=\"ResourceNotFound\"} 1",
            "tablestone_requests_total{operation=\"EntityGroupTransaction\",status=\"2xx\"} 3",
        ],
    );
}

/// Of an answer to HEAD no body is sent, and none counted.
#[tokio::test]
async fn bodies_that_are_not_sent_are_not_counted() {
    let server = Server::start().await;
    let head = ask(&server, "HEAD", "/people(PartitionKey='p',RowKey='r')", "").await;
    assert_eq!(head.status(), 405);
    check_metrics(&server, &["tablestone_answer_bytes_total 0"]);
}
