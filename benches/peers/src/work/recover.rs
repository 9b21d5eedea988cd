//! Opening what a killed process left behind.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::stage::{Measured, Stage, Worker};
use crate::child::Role;
use crate::meter::{self, Meter};
use crate::workload::{Row, partition_key, row_key};

/// One entity in this many of the dataset is written, in durable groups, before the process is
/// killed.
const SHARE: u64 = 5;
const GROUP: u64 = 100;

/// Groups of one partition that the killed process writes.
fn groups(stage: &Stage) -> impl Iterator<Item = Vec<Row>> + '_ {
    (0..stage.data.entities() / SHARE / GROUP).map(|group| {
        let numbers = group * GROUP..(group + 1) * GROUP;
        let row = |number| {
            let mut row = Row::default();
            stage.data.row(number, &mut row);
            partition_key(group as usize, &mut row.key.partition);
            row_key(number, &mut row.key.row);
            row
        };
        numbers.map(row).collect()
    })
}

/// The process that is killed: writes, says that all is acknowledged, and waits.
pub fn write_and_wait(stage: &Stage) -> Result<()> {
    let engine = stage.open()?;
    for rows in groups(stage) {
        engine.put_group(&rows)?;
    }
    println!("acknowledged");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

pub(super) fn open_killed(stage: &Stage) -> Result<Measured> {
    open_after_kill(stage, || Ok(()))
}

/// As after a power cut: nothing of the files is in memory.
pub(super) fn open_cold(stage: &Stage) -> Result<Measured> {
    open_after_kill(stage, || meter::evict(&stage.plan.dir))
}

fn open_after_kill(stage: &Stage, prepare: impl FnOnce() -> Result<()>) -> Result<Measured> {
    let last = groups(stage).last().context("there is too little data to recover")?;
    let entities = stage.data.entities() / SHARE / GROUP * GROUP;
    let mut writer = Command::new(std::env::current_exe()?)
        .args(["--child", &stage.plan.in_role(Role::WriteAndWait).to_json()?])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let stdout = writer.stdout.take().context("the writer's output is piped")?;
    let outcome = BufReader::new(stdout).read_line(&mut said);
    writer.kill()?;
    writer.wait()?;
    outcome?;
    ensure!(said.trim() == "acknowledged", "the process that was to be killed failed");
    prepare()?;

    let mut worker = Worker::new(stage, 0);
    let meter = Meter::start()?;
    let begun = Instant::now();
    let row = &last[last.len() - 1];
    let mut value = Vec::new();
    let (engine, found) = worker.clock(|_| {
        let engine = stage.open()?;
        let found = engine.get(&row.key.partition, &row.key.row, &mut value)?;
        Ok((engine, found))
    })?;
    let elapsed = begun.elapsed();
    ensure!(found.is_some() && value == row.value, "what was acknowledged last is gone");
    worker.entities = entities;
    stage.finish(engine, &meter, worker, elapsed)
}
