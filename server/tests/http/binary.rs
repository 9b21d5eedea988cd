//! The binary: starts without a word, stops in order, says what is wrong.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::{Process, client, tablestone};
use crate::support::Client;

#[tokio::test]
async fn it_serves_and_stops_and_keeps_what_it_was_given() {
    let directory = TempDir::new().unwrap();
    let (mut process, admin) = Process::with_admin(directory.path(), &["--access-log"]);
    let address = process.address_after("listens on http://");
    let mut mine = client(address).await;
    assert_eq!(mine.post("/Tables", r#"{"TableName":"people"}"#).await.status, 201);
    let entity = r#"{"PartitionKey":"p","RowKey":"r","A":7}"#;
    assert_eq!(mine.post("/people", entity).await.status, 201);

    let mut operator = Client::connect(admin).await;
    assert_eq!(operator.get("/health").await.status, 200);
    assert_eq!(operator.get("/ready").await.text(), "ready\n");
    let metrics = operator.get("/metrics").await;
    let line = r#"tablestone_requests_total{operation="InsertEntity",status="2xx"} 1"#;
    assert!(metrics.text().contains(line), "{}", metrics.text());
    assert!(metrics.text().contains("tablestone_engine_commits_total"));
    let tables = operator.get("/metrics/tables").await;
    let of_people = r#"{account="mine",table="people"}"#;
    for figure in ["writes_total", "rows_written_total"] {
        let line = format!("tablestone_table_{figure}{of_people} 1\n");
        assert!(tables.text().contains(&line), "{}", tables.text());
    }

    let log = process.stop();
    assert!(log.contains("operation=\"InsertEntity\"") && log.contains("status=201"), "{log}");
    assert!(log.contains("stopping"), "{log}");

    let mut process = Process::start(tablestone(directory.path(), &[]));
    let address = process.address_after("listens on http://");
    let got = client(address).await.get("/people(PartitionKey='p',RowKey='r')").await;
    assert_eq!(got.json()["A"], 7);
    let second = Process::start(tablestone(directory.path(), &[])).fails();
    assert!(second.contains("is open already"), "{second}");
    process.stop();
}

/// A checkpoint of what is served is a data directory of its own, of which one more server can be made.
#[tokio::test]
async fn operators_make_checkpoints() {
    let (directory, backups) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let under = backups.path().join("tables");
    let arguments = ["--checkpoints", under.to_str().unwrap()];
    let (mut process, admin) = Process::with_admin(directory.path(), &arguments);
    let mut operator = Client::connect(admin).await;
    let mut mine = client(process.address_after("listens on http://")).await;
    assert_eq!(mine.post("/Tables", r#"{"TableName":"people"}"#).await.status, 201);
    let mut dirs = Vec::new();
    for row in ["1", "2"] {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        assert_eq!(mine.post("/people", &entity).await.status, 201);
        let made = operator.request("operator", "POST", "/checkpoint", &[], b"").await;
        assert_eq!(made.status, 200, "{}", made.text());
        dirs.push(made.text().trim_end().to_owned());
    }
    let there = std::fs::read_dir(&under).unwrap();
    let mut there: Vec<_> = there.map(|dir| dir.unwrap().path().display().to_string()).collect();
    there.sort();
    assert_eq!(there, dirs);
    process.stop();

    let restored = TempDir::new().unwrap();
    std::fs::rename(&dirs[0], restored.path().join("data")).unwrap();
    let (mut process, admin) = Process::with_admin(restored.path(), &[]);
    let mut operator = Client::connect(admin).await;
    let mut mine = client(process.address_after("listens on http://")).await;
    let rows = mine.get("/people()").await.json();
    let keys: Vec<_> = rows["value"].as_array().unwrap().iter().map(|row| &row["RowKey"]).collect();
    assert_eq!(keys, ["1"], "what came later is in the other");
    let made = operator.request("operator", "POST", "/checkpoint", &[], b"").await;
    assert_eq!(made.status, 404, "nobody said where");
    assert!(made.text().contains("--checkpoints"), "{}", made.text());
    process.stop();
}

/// R-S11: who says nothing has each write synced before it is acknowledged.
#[tokio::test]
async fn r_s11_writes_are_synced_unless_somebody_says_otherwise() {
    for (arguments, is_synced) in [(&[][..], true), (&["--durability", "os"], false)] {
        let directory = TempDir::new().unwrap();
        let (mut process, admin) = Process::with_admin(directory.path(), arguments);
        let mut operator = Client::connect(admin).await;
        let mut mine = client(process.address_after("listens on http://")).await;
        assert_eq!(mine.post("/Tables", r#"{"TableName":"people"}"#).await.status, 201);
        let mut syncs = Vec::new();
        for row in 0..5 {
            let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
            assert_eq!(mine.post("/people", &entity).await.status, 201);
            let metrics = operator.get("/metrics").await;
            let (_, after) = metrics.text().split_once("\ntablestone_engine_syncs_total ").unwrap();
            syncs.push(after.lines().next().unwrap().parse::<u64>().unwrap());
        }
        assert_eq!(syncs.is_sorted_by(|a, b| a < b), is_synced, "{syncs:?}");
        process.stop();
    }
}

#[tokio::test]
async fn it_serves_https() {
    let directory = TempDir::new().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let (certificate, key) = (data.join("localhost.pem"), data.join("localhost.key"));
    let config = directory.path().join("tablestone.toml");
    let text = format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    std::fs::write(&config, text).unwrap();
    let arguments = ["--config", config.to_str().unwrap()];
    let mut process = Process::start(tablestone(directory.path(), &arguments));
    process.address_after("listens on https://");
    process.stop();
}

#[test]
fn it_says_what_is_wrong() {
    let directory = TempDir::new().unwrap();
    let run = |arguments: &[&str]| Process::start(tablestone(directory.path(), arguments)).fails();
    let missing = run(&["--config", "/nowhere.toml"]);
    assert!(missing.contains("cannot read \"/nowhere.toml\""), "{missing}");
    let memory = run(&["--memory", "much"]);
    assert!(memory.contains("\"much\" is no size"), "{memory}");
    let half = run(&["--tls-key", "key.pem"]);
    assert!(half.contains("the certificate is missing"), "{half}");
    let mut command = tablestone(directory.path(), &[]);
    command.env("TABLESTONE_ACCOUNTS", "Mine:a2V5");
    let accounts = Process::start(command).fails();
    assert!(accounts.contains("\"Mine\" is no account's name"), "{accounts}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let taken = run(&["--admin", &address]);
    assert!(taken.contains(&format!("cannot listen on {address}")), "{taken}");
}

/// Who set a variable in a file far away has given no option.
#[test]
fn a_wrong_value_is_said_to_be_that_of_a_variable() {
    let directory = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = tablestone(directory.path(), arguments);
        command.env("TABLESTONE_TRUSTED_PROXIES", "10.0.0.1,somewhere");
        Process::start(command).fails()
    };
    let wrong = run(&[]);
    assert!(wrong.contains("\"somewhere\" is no address"), "{wrong}");
    assert!(wrong.contains("that of TABLESTONE_TRUSTED_PROXIES"), "{wrong}");
    let said = run(&["--trusted-proxies=10.0.0.0/40"]);
    assert!(said.contains("\"10.0.0.0/40\" is no address"), "{said}");
    assert!(!said.contains("that of TABLESTONE"), "{said}");
}

/// Of which accounts tables are served, and nothing of their keys.
#[test]
fn it_says_whose_tables_it_serves() {
    let directory = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tablestone"));
    command.args(["serve", "--listen", &taken.local_addr().unwrap().to_string(), "--data"]);
    command.arg(directory.path().join("data")).stderr(Stdio::piped());
    command.env("TABLESTONE_ACCOUNTS", "first:a2V5;second:a2V6");
    let log = Process::start(command).fails();
    assert!(log.contains("accounts=first, second"), "{log}");
    assert!(!log.contains("a2V"), "{log}");
}

const VARIABLES: [&str; 14] = [
    "CONFIG",
    "LISTEN",
    "DATA",
    "ADMIN",
    "DURABILITY",
    "MEMORY",
    "COMPRESSION",
    "CHECKPOINTS",
    "TLS_CERTIFICATE",
    "TLS_KEY",
    "TRUSTED_PROXIES",
    "ACCESS_LOG",
    "LOG",
    "LOG_JSON",
];

/// Compose files and images have variables that are there and say nothing.
#[test]
fn a_blank_variable_says_nothing() {
    for blank in ["", " "] {
        let directory = TempDir::new().unwrap();
        let mut command = tablestone(directory.path(), &[]);
        for name in VARIABLES {
            command.env(format!("TABLESTONE_{name}"), blank);
        }
        let mut process = Process::start(command);
        process.address_after("listens on http://");
        let log = process.stop();
        assert!(log.contains("is stopping"), "{log}");
    }
    let help = Command::new(env!("CARGO_BIN_EXE_tablestone")).args(["serve", "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    let variables = help.matches("[env: TABLESTONE_").count();
    assert_eq!(variables, VARIABLES.len(), "all of them are tried here: {help}");
}

#[test]
fn what_is_yes_or_no_may_be_said_by_a_variable() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (said, is_json) in [("1", true), ("true", true), ("0", false), ("false", false)] {
        let directory = TempDir::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tablestone"));
        command.args(["serve", "--listen", &address, "--data"]).stderr(Stdio::piped());
        command.arg(directory.path().join("data"));
        command.env("TABLESTONE_LOG_JSON", said).env("TABLESTONE_ACCESS_LOG", said);
        let log = Process::start(command).fails();
        assert_eq!(log.contains("{\"timestamp\""), is_json, "{said}: {log}");
    }
}

fn of_json(log: &str) -> Vec<serde_json::Value> {
    let lines = log.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("{log}"))
}

/// Also what operators are told whatever is logged.
#[test]
fn a_log_of_json_has_nothing_else() {
    for level in ["info", "error"] {
        let directory = TempDir::new().unwrap();
        let arguments = ["--log-json", "--log", level, "--admin", "127.0.0.1:0"];
        let mut process = Process::start(tablestone(directory.path(), &arguments));
        let log = process.lines_to("listens on http://") + &process.stop();
        let lines = of_json(&log);
        for what in ["tablestone answers /health", "tablestone listens", "tablestone is stopping"] {
            let says =
                |line: &serde_json::Value| line["message"].as_str().unwrap().starts_with(what);
            assert_eq!(lines.iter().filter(|line| says(line)).count(), 1, "{log}");
        }
        assert_eq!(lines.len() == 3, level == "error", "{log}");
    }
}

#[test]
fn a_log_of_json_has_what_the_server_failed_with() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for level in ["info", "off"] {
        let directory = TempDir::new().unwrap();
        let arguments = ["--log-json", "--log", level, "--admin", &address];
        let log = Process::start(tablestone(directory.path(), &arguments)).fails();
        let lines = of_json(&log);
        let last = lines.last().unwrap();
        let expected = format!("cannot listen on {address}: ");
        assert!(last["message"].as_str().unwrap().starts_with(&expected), "{log}");
        assert_eq!(last["level"], "ERROR");
    }
}

/// A warning where everybody who can reach the server has the key to it.
#[test]
fn it_warns_where_the_published_key_is_served_to_others() {
    let directory = TempDir::new().unwrap();
    let mut open = Command::new(env!("CARGO_BIN_EXE_tablestone"));
    open.args(["serve", "--durability", "os", "--listen", "0.0.0.0:0", "--data"]);
    open.arg(directory.path().join("data")).stderr(Stdio::piped());
    open.env_remove("TABLESTONE_ACCOUNTS").env_remove("AZURITE_ACCOUNTS");
    let mut process = Process::start(open);
    process.address_after("listens on http://");
    assert!(process.stop().contains("everybody knows"));
}
