//! [`Target`]: what is driven, and the processes that were started for it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Failure;
use super::connection::Connection;
use super::endpoint::{self, Content, Endpoint};
use super::floor;
use super::options::Arguments;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(60);
/// The index of the first entity that batches insert.
const FIRST_BATCH: u64 = 1_000_000_000;
/// What `/proc` counts processor time in, on every machine that Linux runs on today.
const TICK: Duration = Duration::from_millis(10);

/// An endpoint, and its server if that was started here.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) endpoint: Rc<Endpoint>,
    /// Whether it answers constants.
    pub(crate) is_floor: bool,
    /// What to insert next: entities one by one, and batches.
    pub(crate) next_insert: Cell<u64>,
    pub(crate) next_batch: Cell<u64>,
    process: Option<Process>,
}

/// All that is to be compared, running.
pub(crate) async fn all(arguments: &Arguments) -> Result<Vec<Target>, Failure> {
    let mut names = arguments.name.iter().cloned();
    let mut targets = Vec::new();
    for url in &arguments.url {
        let endpoint = Endpoint::parse(url, &arguments.account, &arguments.key)?;
        targets.push(Target::new(arguments, names.next().unwrap_or(url.clone()), endpoint, None));
    }
    for server in &arguments.server {
        let name = names.next().unwrap_or_else(|| server.display().to_string());
        targets.push(tablestone(arguments, server, &name)?);
    }
    if targets.is_empty() {
        let server = Path::new(env!("CARGO_BIN_EXE_tablestone"));
        targets.push(tablestone(arguments, server, "tablestone")?);
    }
    if arguments.floor
        && let Some(first) = targets.first()
    {
        let answers = TempDir::new()?;
        floor::take_answers(first, answers.path()).await?;
        let driver = std::env::current_exe()?;
        let floor = start(arguments, "floor", &driver, answers, |command, dir, listen| {
            command.arg("--serve-floor").arg(dir).arg("--listen").arg(listen.to_string());
        })?;
        targets.push(Target { is_floor: true, ..floor });
    }
    if let Some(azurite) = &arguments.azurite {
        targets.push(start(arguments, "Azurite", azurite, TempDir::new()?, |it, dir, listen| {
            it.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--tablePort"]);
            it.arg(listen.port().to_string()).arg("--location").arg(dir);
        })?);
    }
    Ok(targets)
}

fn tablestone(arguments: &Arguments, server: &Path, name: &str) -> Result<Target, Failure> {
    start(arguments, name, server, TempDir::new()?, |command, dir, listen| {
        command.args(["serve", "--log", "warn", "--durability", &arguments.durability, "--listen"]);
        command.arg(listen.to_string()).arg("--data").arg(dir);
    })
}

/// Starts a program that listens on a port of this machine, and keeps what it has in a directory.
fn start(
    arguments: &Arguments,
    name: &str,
    program: &Path,
    directory: TempDir,
    tell: impl FnOnce(&mut Command, &OsStr, SocketAddr),
) -> Result<Target, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    tell(&mut command, directory.path().as_os_str(), free);
    let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let process = Process { child, _directory: directory };
    let began = Instant::now();
    while let Err(error) = TcpStream::connect(free) {
        if began.elapsed() > START {
            return Err(format!("{name} does not listen: {error}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let url = format!("http://{free}/{}", arguments.account);
    let endpoint = Endpoint::parse(&url, &arguments.account, &arguments.key)?;
    Ok(Target::new(arguments, name.to_owned(), endpoint, Some(process)))
}

impl Target {
    fn new(
        arguments: &Arguments,
        name: String,
        endpoint: Endpoint,
        process: Option<Process>,
    ) -> Self {
        Self {
            name,
            endpoint: Rc::new(endpoint),
            is_floor: false,
            next_insert: Cell::new(arguments.workload().entities),
            next_batch: Cell::new(FIRST_BATCH),
            process,
        }
    }

    pub(crate) async fn create_table(&self, table: &str) -> Result<(), Failure> {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        self.call("POST", "/Tables", &body, &[201, 204]).await
    }

    pub(crate) async fn delete_table(&self, table: &str) -> Result<(), Failure> {
        self.call("DELETE", &format!("/Tables('{table}')"), "", &[204]).await
    }

    async fn call(
        &self,
        method: &str,
        path: &str,
        body: &str,
        expected: &[u16],
    ) -> Result<(), Failure> {
        let mut request = Vec::new();
        let path = format!("{}{path}", self.endpoint.path);
        let content = Content::json(body.len());
        self.endpoint.push_head(&mut request, &endpoint::now(), method, &path, "", content);
        request.extend_from_slice(body.as_bytes());
        let mut connection = Connection::open(&self.endpoint).await?;
        let answer = connection.exchange(&request).await?;
        if expected.contains(&answer.status) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(answer.body);
        Err(format!("{}: {method} {path}: {} {text}", self.name, answer.status).into())
    }

    /// What the process has used so far, if it was started here.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        processor_time(&self.process.as_ref()?.child.id().to_string())
    }
}

/// A server; it ends when this is dropped.
struct Process {
    child: Child,
    _directory: TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn own_processor_time() -> Duration {
    processor_time("self").unwrap_or_default()
}

/// What a process has used in user and system mode.
fn processor_time(process: &str) -> Option<Duration> {
    let stat = std::fs::read_to_string(PathBuf::from("/proc").join(process).join("stat")).ok()?;
    // After the name, which is in parentheses and may hold anything, come fields from the third.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}
