//! R-E08, R-E10: power loss while many threads are at it, on a simulated machine, in several lives of one database.
//!
//! Every write stores a marker of its own, so it can be told afterwards whether it is there. What is there has to be
//! what there was at one version: the newest that is found, or that was acknowledged as durable if that is newer. So
//! nothing is missing that is older than anything that is there, or than what was promised. One thread alone makes and
//! drops tables, durably, as no marker tells of that.

use std::sync::Arc;

use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Durability, Error, Options, Version};

use super::event::{Event, Span, What};
use super::history::{History, version_of};
use super::machine::JitterEnv;
use super::order::Order;
use super::rng::Rng;
use super::shared::{Crashing, Shared};
use super::{random_durability, random_options, replay, run};
use crate::support::model::{Model, dump, table_name};

const DIR: &str = "/database";
const THREADS: u8 = 6;
/// Operations on the disk, of which one is the last.
const OPERATIONS: u64 = 700;

pub(crate) fn check_seed(seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    let machine = SimEnv::new(seed);
    let durability = random_durability(&mut rng);
    let env = Arc::new(JitterEnv::new(machine.clone()));
    let options = random_options(&mut rng).durability(durability).env(env);
    let mut base = Model::default();
    for life in 0..4 {
        machine.crash_after(rng.next() % OPERATIONS);
        let mut history = live(&machine, &options, seed, life, steps, base);
        machine.crash(rng.pick(&[CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn]));
        let database = Database::open(DIR, options.clone()).unwrap();
        assert!(database.recovery_report().lost.is_empty(), "a crash is no damage");
        database.verify().unwrap();
        base = dump(&database);
        drop(database);
        let promised = promised(&history, durability);
        let found = newest(&base).max(promised);
        history.resolve(|table, key| version_of(&base, table, key));
        history.leave_out_unknown();
        let what = What::Dump { at: found, tables: base.clone() };
        history.events.push(Event { span: Span::AFTERWARDS, what });
        replay::check(&history);
    }
}

/// Lets threads run until the power goes.
fn live(
    machine: &SimEnv,
    options: &Options,
    seed: u64,
    lives: u32,
    steps: u32,
    base: Model,
) -> History {
    let Ok(database) = Database::open(DIR, options.clone()) else {
        return History::new(base);
    };
    let crashing = Crashing { machine: machine.clone(), lives, tables: Default::default() };
    let shared = Shared::new(
        database,
        options.clone(),
        format!("/life-{lives}").into(),
        true,
        Some(crashing),
    );
    let mut history = run(&shared, seed + u64::from(lives), THREADS, steps, base);
    // What nobody was told of may have been seen by others, though it is not durable.
    history.resolve(|table, (pk, rk)| match shared.database.table(&table_name(table)) {
        Ok(table) => Ok(table.get(pk, rk)?.map(|row| row.version)),
        Err(Error::TableNotFound(_)) => Ok(None),
        Err(error) => Err(error),
    });
    history
}

/// The newest version of an entity.
fn newest(model: &Model) -> Version {
    let entities = model.tables.values().flat_map(|rows| rows.values());
    entities.map(|entity| entity.version).max().unwrap_or_default()
}

/// The version up to which everything has to survive.
fn promised(history: &History, durability: Durability) -> Version {
    let order = Order::of(history);
    let seen_before = |stamp| order.window(Span { begun: stamp, ended: stamp }).low;
    let is_sync = durability == Durability::Sync;
    let seen = if is_sync { seen_before(u64::MAX) } else { Version::ZERO };
    let promised = history.events.iter().map(|event| match &event.what {
        What::Write { outcome: Ok(version), is_durable: true, .. }
        | What::Drop { outcome: Ok(version), .. } => *version,
        What::Birth { outcome: Ok(()), .. } | What::Sync => seen_before(event.span.begun),
        _ => Version::ZERO,
    });
    promised.fold(seen, Version::max)
}
