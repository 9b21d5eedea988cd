//! How the binary runs: what it does without a reader of its log, and of what it is told.

use tempfile::TempDir;

use crate::process::{Process, client, tablestone};
use crate::support::Client;

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
        assert_eq!(Client::connect(address).await.get("/").await.status, 503);
    }
    process.stop();
}
