//! Stories, told: their rounds, lives and power cuts, and what came of them.
//!
//! Invariant: of every cut there is a check, and one that fails is told with all that it takes to see it
//! again but when threads ran.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::disk::{Disk, Fate};
use crate::machine::{FileSystem, Machine, check_means};
use crate::worker::When;

/// A worker or a check that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);
/// Who is to be killed is killed within this.
const LONGEST_LIFE: Duration = Duration::from_millis(1500);
/// Where writes begin to fail, and how many do.
const MOST_WRITES_BEFORE_FAILING: usize = 3000;
const MOST_FAILING_WRITES: usize = 30;
/// How many of a hundred sectors are kept that no flush made durable.
const PERCENT_KEPT: [u8; 6] = [0, 10, 50, 50, 90, 100];

#[derive(Args, Clone, Debug)]
pub struct Stories {
    /// The file system
    #[arg(long, default_value = "ext4")]
    file_system: FileSystem,
    /// When commits are durable; in turn, if none is named
    #[arg(long)]
    durability: Option<When>,
    /// The first story. What is written follows from it, not when power goes, and who is faster
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stories of each durability
    #[arg(long, default_value_t = 1)]
    stories: u64,
    /// Rounds of a story
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Power cuts in each round
    #[arg(long, default_value_t = 25)]
    cuts: usize,
    /// Threads that write
    #[arg(long, default_value_t = 3)]
    writers: u64,
    /// Steps of each in a life, if it is not killed
    #[arg(long, default_value_t = 300)]
    steps: u64,
    /// Have some of the disk's writes fail in each round
    #[arg(long)]
    failing_writes: bool,
    /// What the disk writes as a whole, in bytes
    #[arg(long, default_value_t = 4096)]
    sector: usize,
}

struct Story<'a> {
    stories: &'a Stories,
    seed: u64,
    durability: When,
    notes: TempDir,
    random: StdRng,
    told: Told,
}

/// What came of a story.
#[derive(Debug, Default)]
struct Told {
    cuts: usize,
    kills: usize,
    failed_lives: usize,
    events: usize,
    /// Cuts that the file system did not survive itself.
    not_mounted: usize,
    failures: usize,
}

/// Tells all, a line each; fails if any check did.
pub fn all(stories: &Stories) -> Result<ExitCode> {
    check_means()?;
    let each = When::value_variants();
    let durabilities = stories.durability.as_ref().map_or(each, std::slice::from_ref);
    let mut all_hold = true;
    for seed in stories.seed..stories.seed + stories.stories {
        for &durability in durabilities {
            let story = Story::new(stories, seed, durability)?;
            let told = story.tell().with_context(|| format!("story {seed}, {durability:?}"))?;
            let Told { cuts, kills, failed_lives, events, not_mounted, failures } = told;
            println!(
                "{}, {durability:?}, story {seed}: {events} writes and flushes, {kills} kills, \
                 {failed_lives} lives ended by errors, {cuts} power cuts, {not_mounted} not to be mounted, \
                 {failures} failed",
                stories.file_system
            );
            all_hold &= failures == 0;
        }
    }
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl<'a> Story<'a> {
    fn new(stories: &'a Stories, seed: u64, durability: When) -> Result<Self> {
        let (notes, random) = (tempfile::tempdir()?, StdRng::seed_from_u64(seed));
        Ok(Self { stories, seed, durability, notes, random, told: Told::default() })
    }

    fn tell(mut self) -> Result<Told> {
        let Stories { file_system, rounds, .. } = *self.stories;
        let mut left = Arc::new(Machine::formatted(file_system)?);
        let mut cuts = Vec::new();
        for round in 0..rounds {
            let machine = Machine::start(Disk::new(&left), file_system)?;
            self.live(&machine, round)?;
            let Some((cut, rest)) = self.cut(&machine.stop()?, &cuts) else { break };
            cuts.push(cut);
            left = rest;
        }
        Ok(self.told)
    }

    /// Some lives of the process that writes, of which only the last ends by itself.
    fn live(&mut self, machine: &Machine, round: usize) -> Result<()> {
        if self.stories.failing_writes {
            let first = self.random.random_range(0..MOST_WRITES_BEFORE_FAILING);
            machine.fail(first..first + self.random.random_range(1..MOST_FAILING_WRITES));
        }
        for _ in 0..self.random.random_range(0..3) {
            let mut worker = self.worker(machine, round)?;
            thread::sleep(LONGEST_LIFE.mul_f64(self.random.random()));
            worker.kill()?;
            worker.wait()?;
            self.told.kills += 1;
        }
        let ended = end(self.worker(machine, round)?)?;
        if self.stories.failing_writes && was_told(ended.status) {
            self.told.failed_lives += 1;
            return Ok(());
        }
        check_end(&ended)
    }

    /// Lets power go at many moments, and checks what is left each time. `before` are the cuts that the rounds
    /// before ended with. The last cut that the file system survived, and what it left.
    fn cut(&mut self, disk: &Disk, before: &[usize]) -> Option<(usize, Arc<Vec<u8>>)> {
        self.told.events += disk.events();
        let mut last = None;
        for _ in 0..self.stories.cuts {
            let cut = self.random.random_range(0..=disk.events());
            let fate = Fate {
                percent_kept: PERCENT_KEPT[self.random.random_range(0..PERCENT_KEPT.len())],
                sector: self.stories.sector,
                seed: self.random.random(),
            };
            let left = Arc::new(disk.cut(cut, fate));
            let cuts = [before, &[cut]].concat();
            self.told.cuts += 1;
            let checked = match Machine::start(Disk::new(&left), self.stories.file_system) {
                Ok(machine) => {
                    last = Some((cut, left));
                    self.check(machine, &cuts).inspect_err(|_| self.told.failures += 1)
                }
                Err(error) => {
                    self.told.not_mounted += 1;
                    Err(error)
                }
            };
            if let Err(error) = checked {
                println!("story {}, cuts after {cuts:?}, {fate:?}: {error:#}", self.seed);
            }
        }
        last
    }

    /// Checks what is left.
    fn check(&self, machine: Machine, cuts: &[usize]) -> Result<()> {
        let cuts: Vec<_> = cuts.iter().map(ToString::to_string).collect();
        let mut check = self.part("check", &machine)?;
        check.args(["--cuts", &cuts.join(",")]);
        check_end(&end(check.spawn()?)?)?;
        machine.stop().map(drop)
    }

    fn worker(&self, machine: &Machine, round: usize) -> Result<Child> {
        let mut worker = self.part("work", machine)?;
        worker.arg("--events").arg(machine.events_file());
        worker.args(["--round", &round.to_string(), "--steps", &self.stories.steps.to_string()]);
        Ok(worker.spawn()?)
    }

    /// This program in another part, of which more may be said.
    fn part(&self, name: &str, machine: &Machine) -> Result<Command> {
        let durability = self.durability.to_possible_value().context("a durability by name")?;
        let mut part = Command::new(std::env::current_exe()?);
        part.arg(name).arg("--dir").arg(machine.dir()).arg("--notes").arg(self.notes.path());
        part.args(["--durability", durability.get_name(), "--seed", &self.seed.to_string()]);
        part.args(["--writers", &self.stories.writers.to_string()]);
        part.env("RUST_BACKTRACE", "0").stderr(Stdio::piped());
        Ok(part)
    }
}

/// Whether a worker ended as it does when it is told of a write that failed: with an error, or with the signal for
/// a map of a file that could not be written (DESIGN.md, 9.3). A panic is none of these.
fn was_told(status: ExitStatus) -> bool {
    status.code() == Some(1) || status.signal() == Some(libc::SIGBUS)
}

/// Waits until a process ends.
fn end(mut process: Child) -> Result<Output> {
    let began = Instant::now();
    while process.try_wait()?.is_none() {
        if began.elapsed() > PATIENCE {
            process.kill()?;
            process.wait()?;
            bail!("it hung");
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(process.wait_with_output()?)
}

fn check_end(ended: &Output) -> Result<()> {
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{}, {}", ended.status, said.trim());
    Ok(())
}
