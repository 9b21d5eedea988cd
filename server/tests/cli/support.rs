//! A directory to run the binary in, and a server beside it, or what takes the place of one.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use tablestone::{Database, Options};
use tempfile::TempDir;

use crate::processes::{self, Watched};

/// What a command wrote, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// What it wrote to stdout; it must have succeeded.
    #[track_caller]
    pub(crate) fn out(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// What it wrote to stderr; it must have failed with this exit code, and with no word elsewhere.
    #[track_caller]
    pub(crate) fn failure(self, code: i32) -> String {
        assert_eq!((self.code, &*self.out), (Some(code), ""), "{self:?}");
        self.err
    }
}

/// Three entities of one partition.
pub(crate) const THREE: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"0\"}\n{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n\
                     {\"PartitionKey\":\"p\",\"RowKey\":\"2\"}\n";

/// A directory in which commands run, so that files and data have short names.
pub(crate) struct Shell {
    directory: TempDir,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The binary with no more environment than a test gives it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_tablestone"), arguments)
    }

    /// The binary, which a shell becomes after a script.
    #[cfg(target_os = "linux")]
    fn after(&self, script: &str, arguments: &[&str]) -> Command {
        let script = format!("{script}; exec \"$0\" \"$@\"");
        let binary = env!("CARGO_BIN_EXE_tablestone");
        self.program("/bin/sh", &[&["-c", &script, binary], arguments].concat())
    }

    /// The binary, where no file may become longer than 8 blocks of 512 or 1,024 bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn limited(&self, arguments: &[&str]) -> Command {
        self.after("trap '' XFSZ; ulimit -f 8", arguments)
    }

    /// The binary, where there are addresses for its program and so many threads more than one, more or less: each has
    /// a stack of 1 GiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn cramped(&self, threads: u32, arguments: &[&str]) -> Command {
        let mut command = self.after(&format!("ulimit -v {}", (threads + 1) << 20), arguments);
        command.env("RUST_MIN_STACK", (1 << 30).to_string());
        command
    }

    /// The binary, which may have so many files open, and has none from whoever runs the tests.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_descriptors(&self, number: u32, arguments: &[&str]) -> Command {
        let inherited: String = (3..10).map(|descriptor| format!(" {descriptor}>&-")).collect();
        self.after(&format!("exec{inherited}; ulimit -n {number}"), arguments)
    }

    /// The binary, which is to outlive its terminal.
    #[cfg(target_os = "linux")]
    pub(crate) fn detached(&self, arguments: &[&str]) -> Command {
        self.after("trap '' HUP", arguments)
    }

    fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        processes::without_environment(&mut command);
        command.args(arguments).current_dir(self.directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        processes::apart(&mut command);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments), "")
    }

    /// What a command that must succeed writes to stdout.
    #[track_caller]
    pub(crate) fn out(&self, arguments: &[&str]) -> String {
        self.run(arguments).out()
    }
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command, input: &str) -> Ran {
    let mut child = command.spawn().unwrap();
    let _watched = Watched::new(&child);
    // An input is small enough for the pipe.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A running server, killed when the test is over.
pub(crate) struct Server {
    child: Child,
    _watched: Watched,
    /// The address of its emulator's account, without the account.
    pub(crate) url: String,
}

impl Server {
    /// Serves a directory of the shell's.
    pub(crate) fn start(shell: &Shell, data: &str) -> Self {
        Self::with(shell, data, &[])
    }

    pub(crate) fn with(shell: &Shell, data: &str, more: &[&str]) -> Self {
        let serve = ["serve", "--durability", "os", "--listen", "127.0.0.1:0", "--data", data];
        let mut child = shell.command(&[&serve, more].concat()).spawn().unwrap();
        let watched = Watched::new(&child);
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let url = loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the server ended");
            if let Some((_, rest)) = line.split_once("listens on ") {
                break rest.split(',').next().unwrap().to_owned();
            }
        };
        // What it writes later is read, so that it need not wait.
        std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(drop));
        Self { child, _watched: watched, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that answers each request as `answer` has it, by its first line: with a status and a body, or
/// not at all; its address, and what it is asked.
pub(crate) fn server_that(
    answer: impl Fn(&str) -> Option<(&'static str, &'static str)> + Send + Sync + 'static,
) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let ((asked, all_asked), answer) = (mpsc::channel(), Arc::new(answer));
    let serve = move |stream: TcpStream| {
        let (asked, answer) = (asked.clone(), Arc::clone(&answer));
        std::thread::spawn(move || {
            let mut reader = BufReader::new(&stream);
            while let Some(line) = request(&mut reader) {
                let answer = answer(&line);
                let _ = asked.send(line);
                let Some((status, body)) = answer else { return };
                let length = if body.is_empty() {
                    String::new()
                } else {
                    format!("Content-Length: {}\r\n", body.len())
                };
                // Who asks may have heard enough.
                let _ = write!(&stream, "HTTP/1.1 {status}\r\n{length}\r\n{body}");
            }
        });
    };
    // The thread ends with the test's process.
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    (url, all_asked)
}

/// The first line of the next request, which is read whole; `None` at the end of the connection.
fn request(reader: &mut impl BufRead) -> Option<String> {
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0).then_some(line)
    };
    let (first, mut length) = (next()?, 0);
    loop {
        let line = next()?.to_lowercase();
        match line.strip_prefix("content-length:") {
            Some(said) => length = said.trim().parse().unwrap(),
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    Some(first.trim().to_owned())
}

/// The real data that is shipped with the project.
pub(crate) fn example(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data").join(name);
    data.to_str().unwrap().to_owned()
}

/// Runs a test on a data directory, then on a server: `place` is the options that say which.
pub(crate) fn on_each_place(test: impl Fn(&Shell, &dyn Fn(&str, &[&str]) -> Ran)) {
    let shell = Shell::new();
    let run = |place: &[&str], arguments: &str, more: &[&str]| {
        let arguments: Vec<&str> = arguments.split(' ').chain(more.iter().copied()).collect();
        shell.run(&[&arguments, place].concat())
    };
    test(&shell, &|arguments, more| run(&["--data", "data"], arguments, more));
    let server = Server::start(&shell, "served");
    test(&shell, &|arguments, more| run(&["--url", &server.url], arguments, more));
}

/// What this does to the database of the shell's `data`, which it opens and closes.
pub(crate) fn with_engine<T>(shell: &Shell, act: impl FnOnce(&Database) -> T) -> T {
    let database = Database::open(shell.path("data"), Options::default()).unwrap();
    let outcome = act(&database);
    database.close().unwrap();
    outcome
}
