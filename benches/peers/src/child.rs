//! A piece of work in a process of its own: the same binary, told what to do in a line of JSON,
//! answering in one. So time, memory and device writes are those of one engine and one work, and
//! one that crashes or hangs takes nothing with it.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::limit;
use crate::meter::evict;
use crate::scale::Scale;
use crate::work::{Measured, Stage, recover};

/// A process that takes longer is ended, and its work is reported as failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Fill a directory with the dataset.
    Prepare,
    /// Do the work and say what it took.
    Measure,
    /// Write and wait to be killed.
    WriteAndWait,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    pub role: Role,
    pub engine: String,
    pub work: String,
    pub dir: PathBuf,
    pub scale: Scale,
    pub seconds: f64,
    pub budget: usize,
    pub seed: u64,
    /// Whether the answer says how it went over time.
    pub timeline: bool,
    /// The control group that limits the memory of what is measured.
    pub memory_group: Option<PathBuf>,
}

impl Assignment {
    pub fn in_role(&self, role: Role) -> Self {
        Self { role, ..self.clone() }
    }

    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// The child's side: does it, and prints the answer.
pub fn run(json: &str) -> Result<()> {
    let plan: Assignment = serde_json::from_str(json)?;
    let role = plan.role;
    let stage = Stage::new(plan)?;
    match role {
        Role::Prepare => stage.prepare(),
        Role::WriteAndWait => recover::write_and_wait(&stage),
        Role::Measure => {
            if let Some(group) = &stage.plan.memory_group {
                // What is in memory already is not this process's, and would not count.
                evict(&stage.plan.dir)?;
                limit::join(group)?;
            }
            println!("{}", serde_json::to_string(&(stage.work.run)(&stage)?)?);
            Ok(())
        }
    }
}

/// The parent's side: measures in a child.
pub fn measure(plan: &Assignment) -> Result<Measured> {
    let answer = start(&plan.in_role(Role::Measure))?;
    serde_json::from_str(answer.trim()).with_context(|| format!("the child answered {answer:?}"))
}

/// The parent's side: fills a directory in a child.
pub fn prepare(plan: &Assignment) -> Result<()> {
    start(&plan.in_role(Role::Prepare)).map(|_| ())
}

/// Runs a child to its end; what it printed, or its complaint as an error.
fn start(plan: &Assignment) -> Result<String> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--child", &plan.to_json()?])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Read while it runs: a full pipe would stop it.
    let output = collect(child.stdout.take().context("output is piped")?);
    let complaint = collect(child.stderr.take().context("errors are piped")?);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("it was ended after {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    };
    let text = |thread: thread::JoinHandle<String>| {
        thread.join().map_err(|_| anyhow!("a reading thread panicked"))
    };
    let (output, complaint) = (text(output)?, text(complaint)?);
    if !status.success() {
        let said: Vec<&str> = complaint.split_whitespace().take(40).collect();
        bail!("{status}: {}", said.join(" "));
    }
    Ok(output)
}

fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
