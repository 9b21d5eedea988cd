//! A whole comparison: the floor, then each work in rounds with every engine in turn, then the
//! floor again; progress on standard error.
//!
//! Engines take turns within a work (A B C, B C A, ...), so that a machine that slows down slows
//! all of them. Another is the first of each work, even of a single round: who is first finds memory
//! that the host of a virtual machine has to give it, which the next find there.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tempfile::TempDir;

use crate::child::{self, Assignment, Role};
use crate::engine::Peer;
use crate::floor::{self, Floor};
use crate::limit::MemoryLimit;
use crate::options::Options;
use crate::scale::Scale;
use crate::work::{Measured, Start, Work};

/// One engine doing one work once.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub engine: &'static str,
    pub work: &'static str,
    pub scale: Scale,
    pub round: u32,
    pub measured: Option<Measured>,
    pub failure: Option<String>,
}

/// All that a comparison found out.
pub struct Session {
    pub floors: [Floor; 2],
    pub runs: Vec<Run>,
}

/// What `statfs` says of a file system in memory.
const TMPFS: i64 = 0x0102_1994;

/// Where runs are made, and how far they are.
pub struct Bench<'a> {
    options: &'a Options,
    home: TempDir,
    bar: ProgressBar,
    json: Option<File>,
    limit: Option<MemoryLimit>,
}

/// Databases of one scale.
struct Plan<'a> {
    bench: &'a Bench<'a>,
    home: PathBuf,
    scale: Scale,
}

pub fn compare(options: &Options) -> Result<Session> {
    let (peers, works) = (options.peers()?, options.works()?);
    let bench = Bench::new(options)?;
    bench.bar.inc_length(2);
    let before = bench.floor()?;
    let runs = bench.runs(Scale::of(options.entities()), &peers, &works)?;
    let after = bench.floor()?;
    bench.finish();
    Ok(Session { floors: [before, after], runs })
}

impl<'a> Bench<'a> {
    pub fn new(options: &'a Options) -> Result<Self> {
        let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        ensure!(
            rustix::fs::statfs(&parent)?.f_type != TMPFS,
            "{} keeps its files in memory, where nothing is synced: name another with --dir",
            parent.display()
        );
        let home = tempfile::Builder::new().prefix("tablestone-peers-").tempdir_in(parent)?;
        let bar = ProgressBar::new(0);
        bar.set_style(ProgressStyle::with_template(
            "{elapsed} of {duration} {wide_bar} {pos}/{len} {msg}",
        )?);
        bar.enable_steady_tick(Duration::from_millis(500));
        let json = options.json.as_ref().map(File::create).transpose()?;
        let limit = options.memory.map(|mib| MemoryLimit::new(mib << 20)).transpose()?;
        Ok(Self { options, home, bar, json, limit })
    }

    /// Every work in rounds with every engine in turn, at one scale.
    pub fn runs(
        &self,
        scale: Scale,
        peers: &[&'static Peer],
        works: &[&'static Work],
    ) -> Result<Vec<Run>> {
        let rounds = self.options.rounds();
        self.bar.inc_length(peers.len() as u64 * (works.len() as u64 * u64::from(rounds) + 1));
        let home = tempfile::tempdir_in(&self.home)?;
        let plan = Plan { bench: self, home: home.path().to_owned(), scale };
        let broken = plan.prepare(peers, works)?;
        let mut runs = Vec::new();
        for (first, work) in works.iter().enumerate() {
            if self.bar.is_hidden() {
                self.say(work.name);
            }
            for round in 0..rounds {
                let mut turn = peers.to_vec();
                turn.rotate_left((first + round as usize) % peers.len());
                for peer in turn {
                    let run = plan.run(peer, work, round, &broken);
                    self.note(&run)?;
                    runs.push(run);
                }
            }
        }
        Ok(runs)
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn floor(&self) -> Result<Floor> {
        self.bar.set_message("the floor of the machine");
        let floor = floor::measure(self.home.path(), self.options.seconds());
        self.bar.inc(1);
        floor.context("measuring the floor")
    }

    fn note(&self, run: &Run) -> Result<()> {
        if let Some(failure) = &run.failure {
            self.say(&format!("{} by {} failed: {failure}", run.work, run.engine));
        }
        if let Some(mut json) = self.json.as_ref() {
            writeln!(json, "{}", serde_json::to_string(run)?)?;
        }
        self.bar.inc(1);
        Ok(())
    }

    /// A line above the bar, or alone where there is no terminal to draw one.
    fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{:5.0} s  {line}", self.bar.elapsed().as_secs_f64());
        } else {
            self.bar.println(line);
        }
    }
}

impl Plan<'_> {
    fn assignment(&self, engine: &str, work: &str, dir: PathBuf) -> Assignment {
        Assignment {
            role: Role::Measure,
            engine: engine.into(),
            work: work.into(),
            dir,
            scale: self.scale,
            seconds: self.bench.options.seconds(),
            budget: self.bench.options.budget << 20,
            seed: self.bench.options.seed,
            timeline: self.bench.options.tail.is_some(),
            memory_group: self.bench.limit.as_ref().map(|limit| limit.group().to_owned()),
        }
    }

    fn base(&self, engine: &str) -> PathBuf {
        self.home.join(format!("base-{engine}"))
    }

    /// Loads each engine once; names those that could not be loaded, with the reason.
    fn prepare(&self, peers: &[&Peer], works: &[&Work]) -> Result<Vec<(&'static str, String)>> {
        let mut broken = Vec::new();
        for peer in peers {
            self.bench.bar.set_message(format!("{}: loading", peer.name));
            if works.iter().any(|work| work.start != Start::Empty) {
                let dir = self.base(peer.name);
                fs::create_dir(&dir)?;
                if let Err(error) =
                    child::prepare(&self.assignment(peer.name, "load-sequential", dir))
                {
                    broken.push((peer.name, format!("loading: {error:#}")));
                }
            }
            self.bench.bar.inc(1);
        }
        Ok(broken)
    }

    fn run(&self, peer: &Peer, work: &Work, round: u32, broken: &[(&str, String)]) -> Run {
        self.bench.bar.set_message(format!("{}: {}", work.name, peer.name));
        let broken = broken.iter().find(|(name, _)| *name == peer.name);
        let outcome = match broken {
            Some((_, reason)) if work.start != Start::Empty => Err(anyhow::anyhow!("{reason}")),
            _ => self.measure(peer, work),
        };
        let (measured, failure) = match outcome {
            Ok(measured) => (Some(measured), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Run { engine: peer.name, work: work.name, scale: self.scale, round, measured, failure }
    }

    fn measure(&self, peer: &Peer, work: &Work) -> Result<Measured> {
        if work.start == Start::Shared {
            let dir = self.base(peer.name);
            return child::measure(&self.assignment(peer.name, work.name, dir));
        }
        let dir = self.home.join("run");
        fs::create_dir(&dir)?;
        let outcome = match work.start {
            Start::Loaded => copy_synced(&self.base(peer.name), &dir),
            Start::Empty | Start::Shared => Ok(()),
        };
        let outcome = outcome
            .context("copying the loaded database")
            .and_then(|()| child::measure(&self.assignment(peer.name, work.name, dir.clone())));
        fs::remove_dir_all(&dir)?;
        outcome
    }
}

/// Copies a directory and syncs it, so that nobody's measurement pays for writing it back.
fn copy_synced(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_synced(&entry.path(), &target)?;
        } else {
            copy_in_pages(&entry.path(), &target)?;
        }
    }
    File::open(to)?.sync_all()
}

/// What one call writes shares a folio of the page cache, and a later write of some bytes into it
/// walks all of it and counts as all of it. Files that are written in place came about in small
/// writes mostly, so their copies are written page by page.
fn copy_in_pages(from: &Path, to: &Path) -> io::Result<()> {
    let (mut source, mut target) = (File::open(from)?, File::create(to)?);
    let mut page = [0; 4 << 10];
    loop {
        match source.read(&mut page)? {
            0 => return target.sync_all(),
            len => target.write_all(&page[..len])?,
        }
    }
}
