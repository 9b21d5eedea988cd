//! Hostile input (R-S12): whatever a client sends or leaves out, it hears of its mistake, never of
//! the server's, and the server goes on with as much memory as before. All of it against the binary.

mod batches;
mod bodies;
mod connections;
mod memory;
mod requests;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use crate::process::{ACCOUNT, Process, client, tablestone};
use crate::support::{Answer, Client, Signing};

/// Times that are short for a test and long for a busy machine.
const LIMITS: &str = "[limits]
    connections = 300
    head_time = '2s'
    body_stall = '2s'
    idle_time = '60s'
    ";
/// By how much the server's memory may grow: a few bodies of 4 MiB, taken apart.
const GROWTH: u64 = 96 << 20;
/// Longest time that any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The binary with a table called `people`, and the memory that it had before all that follows.
struct Target {
    process: Process,
    address: SocketAddr,
    resident: u64,
    _directory: TempDir,
}

impl Target {
    async fn start() -> Self {
        Self::configured("", "http").await
    }

    async fn configured(more: &str, scheme: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let config = directory.path().join("tablestone.toml");
        std::fs::write(&config, format!("{LIMITS}{more}")).unwrap();
        let arguments = ["--config", config.to_str().unwrap(), "--log", "error"];
        let mut process = Process::start(tablestone(directory.path(), &arguments));
        let address = process.address_after(&format!("listens on {scheme}://"));
        let mut target = Self { process, address, resident: 0, _directory: directory };
        if scheme == "http" {
            let mut client = target.client().await;
            let created = client.post("/Tables", r#"{"TableName":"people"}"#).await;
            assert_eq!(created.status, 201, "{created:?}");
            let point = "/people(PartitionKey='p',RowKey='r')";
            assert_eq!(client.send("PUT", point, &[], r#"{"A":1}"#).await.status, 204);
        }
        target.resident = target.process.resident();
        target
    }

    /// A client that signs.
    async fn client(&self) -> Signing {
        client(self.address).await
    }

    /// A connection for bytes as they are.
    async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// The server answers as ever, and has not grown; it stops in order.
    async fn survives(self) {
        self.survives_within(GROWTH).await;
    }

    /// As [`survives`](Self::survives), having grown by no more than this.
    async fn survives_within(self, growth: u64) {
        let found = self.client().await.get("/people(PartitionKey='p',RowKey='r')").await;
        assert_eq!((found.status, found.json()["A"].as_i64()), (200, Some(1)), "{found:?}");
        self.is_within(growth);
        self.process.stop();
    }

    fn is_within(&self, growth: u64) {
        let (before, now) = (self.resident, self.process.resident());
        assert!(now < before + growth, "{before} bytes have become {now}");
    }
}

/// A path of the account, for requests that are written by hand.
fn path(rest: &str) -> String {
    format!("/{ACCOUNT}{rest}")
}

/// Sends a signed request; that its answer comes soon is part of every test.
async fn send(
    client: &mut Signing,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Answer {
    let began = Instant::now();
    let answer = client.send(method, path, headers, body).await;
    assert!(began.elapsed() < PATIENCE, "{:?} for {}", began.elapsed(), shown(path));
    answer
}

/// The beginning of what may be long.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    path.to_str().expect("a path of text").to_owned()
}
