//! Connections that are slow, idle, cut, or too many.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{GROWTH, PATIENCE, Target, data, path};
use crate::support::{Client, within};

const DRIP: Duration = Duration::from_millis(100);
/// The limits' 2 s, and time for a busy machine to keep them.
const SOON: Duration = Duration::from_secs(8);

/// Sends byte after byte until the connection ends.
async fn drip(client: &mut Client, byte: &[u8]) {
    let began = Instant::now();
    while client.offer(byte).await {
        assert!(began.elapsed() < SOON, "the server still listens");
        sleep(DRIP).await;
    }
}

/// R-S12: slowloris. Neither a head nor a body may come a byte at a time, signed or not.
#[tokio::test]
async fn r_s12_who_drips_is_let_go() {
    let target = Target::start().await;
    let head = async {
        let mut client = target.connect().await;
        client.send(format!("GET {} HTTP/1.1\r\nHost: h\r\n", path("/people()"))).await;
        drip(&mut client, b"X").await;
    };
    let headers = async {
        let mut client = target.connect().await;
        client.send(format!("GET {} HTTP/1.1\r\nHost: h\r\n", path("/people()"))).await;
        drip(&mut client, b"X: y\r\n").await;
    };
    let unsigned = async {
        let mut client = target.connect().await;
        let people = path("/people");
        let head = format!("POST {people} HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n");
        client.send(head).await;
        drip(&mut client, b" ").await;
    };
    let body = async {
        let mut client = target.client().await;
        client.begin("POST", "/people", &[("Content-Length", "4000000")]).await;
        drip(client.unsigned(), b" ").await;
    };
    let chunks = async {
        let mut client = target.client().await;
        client.begin("POST", "/people", &[("Transfer-Encoding", "chunked")]).await;
        drip(client.unsigned(), b"1\r\n \r\n").await;
    };
    tokio::join!(head, headers, unsigned, body, chunks);
    target.survives().await;
}

/// R-S12: connections up to the limit do nothing, one more is told that the server is busy, and
/// whoever has a connection is served.
#[tokio::test]
async fn r_s12_idle_connections_are_bounded() {
    let target = Target::start().await;
    let mut served = target.client().await;
    assert_eq!(served.get("/people()").await.status, 200);
    let mut idle = Vec::new();
    let busy = async {
        loop {
            let mut client = target.connect().await;
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
            let answer = client.answer().await.expect("an answer");
            match (answer.status, answer.header("x-ms-error-code")) {
                (400, Some("InvalidUri")) => idle.push(client),
                (503, Some("ServerBusy")) => return,
                other => panic!("{other:?}"),
            }
        }
    };
    within("the limit", busy).await;
    assert_eq!(idle.len(), 299, "and the one that is served");
    assert_eq!(served.get("/people()").await.status, 200);
    drop(idle);
    let free = async {
        loop {
            let mut client = target.connect().await;
            if client.get("/").await.status == 400 {
                return;
            }
            sleep(DRIP).await;
        }
    };
    within("places of connections that ended", free).await;
    target.survives().await;
}

/// R-S12: many requests at once on one connection are answered in order; a client that takes none
/// of the answers stops being read from, and is let go.
#[tokio::test]
async fn r_s12_pipelined_requests() {
    let target = Target::configured("write_time = '2s'\n", "http").await;
    let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut client = target.connect().await;
    client.send(request.repeat(1_000)).await;
    for _ in 0..1_000 {
        assert_eq!(client.answer().await.expect("an answer").status, 400);
    }
    let mut deaf = target.connect().await;
    let flood = async {
        let began = Instant::now();
        let requests = request.repeat(1_000);
        while deaf.offer(&requests).await {
            assert!(began.elapsed() < 2 * SOON, "the server still takes requests");
        }
    };
    within("the server to give up", flood).await;
    target.survives().await;
}

/// R-S12: clients that go away in the middle of anything.
#[tokio::test]
async fn r_s12_cut_connections() {
    let target = Target::start().await;
    let mut client = target.client().await;
    let text = "x".repeat(30_000);
    for row in 0..40 {
        let entity = format!(r#"{{"PartitionKey":"q","RowKey":"{row}","Text":"{text}"}}"#);
        assert_eq!(client.post("/people", &entity).await.status, 201);
    }
    for round in 0..30 {
        let mut head = target.connect().await;
        head.send("GET /mine/peop").await;
        let mut body = target.client().await;
        body.begin("POST", "/people", &[("Content-Length", "4000000")]).await;
        body.unsigned().send(&text).await;
        let mut chunk = target.client().await;
        chunk.begin("POST", "/people", &[("Transfer-Encoding", "chunked")]).await;
        chunk.unsigned().send("ffff\r\n{").await;
        let mut answer = target.client().await;
        answer.begin("GET", "/people()", &[]).await;
        if round % 2 == 0 {
            sleep(Duration::from_millis(round)).await;
        }
    }
    target.survives().await;
}

/// R-S12: TLS handshakes that end halfway, or are none.
#[tokio::test]
async fn r_s12_cut_handshakes() {
    let tls = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\n",
        data("localhost.pem"),
        data("localhost.key")
    );
    let target = Target::configured(&tls, "https").await;
    // The beginning of a ClientHello that promises 512 bytes.
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for _ in 0..100 {
        target.connect().await.send(hello).await;
        target.connect().await.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
        target.connect().await.send([0xff; 100]).await;
        drop(target.connect().await);
    }
    let began = Instant::now();
    let mut silent = target.connect().await;
    silent.send(hello).await;
    assert!(silent.ends().await && began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    target.is_within(GROWTH);
    target.process.stop();
}
