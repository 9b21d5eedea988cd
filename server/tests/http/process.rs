//! The binary as a process of its own, that no test waits for without end.

use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::processes::{self, Watched};
use crate::support::{Client, Signing};

/// The only account of [`tablestone`].
pub(crate) const ACCOUNT: &str = "mine";
pub(crate) const KEY: &str = "b3duIGtleQ==";

/// The command that serves a directory on any free port.
pub(crate) fn tablestone(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tablestone"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(directory.join("data")).args(arguments);
    command.env("TABLESTONE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"));
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A client of the account of [`tablestone`].
pub(crate) async fn client(address: SocketAddr) -> Signing {
    Signing::new(Client::connect(address).await, ACCOUNT, KEY)
}

/// A running server; killed when the test is over, however it ends.
pub(crate) struct Process {
    child: Child,
    log: BufReader<Box<dyn Read>>,
    _watched: Watched,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        processes::apart(&mut command);
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(Box::new(child.stderr.take().unwrap()) as Box<dyn Read>);
        let watched = Watched::new(&child);
        Self { child, log, _watched: watched }
    }

    /// A server of a directory with a port for operators, and where that is. It is told before the data is open.
    pub(crate) fn with_admin(directory: &Path, more: &[&str]) -> (Self, SocketAddr) {
        let arguments = [&["--admin", "127.0.0.1:0"], more].concat();
        let mut process = Self::start(tablestone(directory, &arguments));
        let admin = process.address_after("/metrics on ");
        (process, admin)
    }

    /// All lines to the next that has a text in it.
    pub(crate) fn lines_to(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            assert!(self.log.read_line(&mut all).unwrap() > 0, "it ended: {all}");
            if all[before..].contains(text) {
                return all;
            }
        }
    }

    /// The address in the next line that has a text before it.
    pub(crate) fn address_after(&mut self, text: &str) -> SocketAddr {
        let lines = self.lines_to(text);
        let (_, rest) = lines.rsplit_once(text).unwrap();
        let address = rest.split([',', '\n']).next().unwrap();
        address.parse().unwrap_or_else(|_| panic!("{lines}"))
    }

    /// Closes the other end of what it writes to.
    pub(crate) fn stop_reading(&mut self) {
        self.log = BufReader::new(Box::new(io::empty()));
    }

    /// Asks it to stop, and waits; what it wrote meanwhile.
    pub(crate) fn stop(self) -> String {
        self.begin_to_stop();
        self.has_stopped()
    }

    /// Asks it to stop.
    pub(crate) fn begin_to_stop(&self) {
        processes::tell_to_stop(&self.child);
    }

    /// Waits until it has, in order; what it wrote meanwhile.
    pub(crate) fn has_stopped(mut self) -> String {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }

    /// Waits for it to fail; what it wrote.
    pub(crate) fn fails(mut self) -> String {
        let mut text = String::new();
        self.log.read_to_string(&mut text).unwrap();
        assert!(!self.child.wait().unwrap().success(), "{text}");
        text
    }

    /// Kills it, without a chance to do anything more.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The memory that it has, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        processes::resident(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
