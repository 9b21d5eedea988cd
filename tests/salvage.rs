//! R-E22: damage after histories of any kind. Salvage opens whatever is left, shows only what was once written under a
//! key, and what it shows stays: through the next power cut or closing, and a strict opening. If power goes meanwhile,
//! the next salvage shows it.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{self, Index};
use tablestone::env::{CrashStyle, SimEnv};
use tablestone::{Database, Durability, Error, Options, Recovery, Result};

use support::model::{Action, Condition, Key, Model, Operation, Write, dump};
use support::sim::{CRASH_STYLES, DIR, Script, Step, contents, paths, sim_options};
use support::strategies::{config, write};

/// What becomes of a file from a place on.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Gone,
    Cut,
    Zeros,
    Flipped,
}

/// Any of the files, any place in it.
type Hit = (Index, Index, Damage);

fn hit() -> impl Strategy<Value = Hit> {
    let damage = prop_oneof![
        1 => Just(Damage::Gone),
        1 => Just(Damage::Cut),
        1 => Just(Damage::Zeros),
        4 => Just(Damage::Flipped),
    ];
    (any::<Index>(), any::<Index>(), damage)
}

/// Values that stay in the log where that is wanted.
fn large_write() -> impl Strategy<Value = Write> {
    (0u8..2, 10u8..12, 1u8..30, 300u16..1_500).prop_map(|(table, partition, rows, len)| {
        let put = Action::Put(len);
        let operation = |row| Operation { row, condition: Condition::None, action: put.clone() };
        let operations = (0..rows).map(operation).collect();
        Write::Commit { table, partition, ranges: Vec::new(), operations }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => write().prop_map(Step::Write),
        6 => large_write().prop_map(Step::Write),
        3 => Just(Step::Wait),
        3 => Just(Step::Flush),
        1 => Just(Step::Compact),
        2 => Just(Step::Job),
        1 => Just(Step::Tick),
        1 => Just(Step::Reopen),
    ]
}

/// How a life ends: closed, or by a power cut.
fn end() -> impl Strategy<Value = Option<CrashStyle>> {
    prop_oneof![
        Just(None),
        Just(Some(CrashStyle::LoseUnsynced)),
        Just(Some(CrashStyle::KeepAll)),
        Just(Some(CrashStyle::Torn)),
    ]
}

/// Lives through the steps and leaves the database closed, or as a power cut does; perhaps one after a flush, with which
/// log segments get other names that are not durable yet.
fn live(
    env: &SimEnv,
    options: &Options,
    steps: &[Step],
    is_flushed: bool,
    end: Option<CrashStyle>,
) {
    let first = [Step::Write(Write::Create(0))];
    let last = [end.map_or(Step::Reopen, |_| Step::Wait)];
    let flush = is_flushed.then_some(Step::Flush);
    let steps = first.into_iter().chain(steps.iter().cloned()).chain(last).chain(flush);
    assert!(Script::new(env, options.clone()).run(&steps.collect::<Vec<_>>()));
    env.crash(end.unwrap_or(CrashStyle::KeepAll));
}

/// A database that has lived, and was damaged.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    is_large: bool,
    is_lazy: bool,
    is_flushed: bool,
    has_current: bool,
    steps: Vec<Step>,
    end: Option<CrashStyle>,
    hits: Vec<Hit>,
}

prop_compose! {
    fn case()(
        seed in any::<u64>(),
        (is_large, is_lazy, is_flushed, has_current) in any::<(bool, bool, bool, bool)>(),
        steps in vec(step(), 1..40),
        end in end(),
        hits in vec(hit(), 1..4),
    ) -> Case {
        Case { seed, is_large, is_lazy, is_flushed, has_current, steps, end, hits }
    }
}

impl Case {
    /// The same whenever it is made.
    fn make(&self) -> (SimEnv, Options) {
        let env = SimEnv::new(self.seed);
        let durability = if self.is_lazy { Durability::Os } else { Durability::Sync };
        let large_bytes = if self.is_large { 200 } else { 64 << 10 };
        let options = sim_options(&env).durability(durability).large_value_bytes(large_bytes);
        live(&env, &options, &self.steps, self.is_flushed, self.end);
        if !self.has_current {
            // Salvage looks at all there is, the log from its beginning included.
            env.remove_file(&Path::new(DIR).join("CURRENT"));
        }
        self.hits.iter().for_each(|hit| damage(&env, hit));
        (env, options)
    }

    fn history(&self) -> History {
        History::of(&self.steps)
    }
}

/// All that was the case at any time, in whatever table.
#[derive(Default)]
struct History {
    written: BTreeSet<(Key, Vec<u8>)>,
    deleted: BTreeSet<Key>,
}

impl History {
    fn of(steps: &[Step]) -> Self {
        let (mut model, mut history) = (Model::default(), Self::default());
        let writes = steps.iter().filter_map(|step| match step {
            Step::Write(write) => Some(write),
            _ => None,
        });
        for (number, write) in [&Write::Create(0)].into_iter().chain(writes).enumerate() {
            let before = keys(&model);
            model.apply(write, number as u32 + 1);
            history.deleted.extend(before.difference(&keys(&model)).cloned());
            history.written.extend(all(&model));
        }
        history
    }
}

fn all(model: &Model) -> impl Iterator<Item = (Key, Vec<u8>)> {
    let rows = model.tables.values().flat_map(|table| table.iter());
    rows.map(|(key, entity)| (key.clone(), entity.value.clone()))
}

fn keys(model: &Model) -> BTreeSet<Key> {
    all(model).map(|(key, _)| key).collect()
}

fn damage(env: &SimEnv, (file, place, damage): &Hit) {
    let files = contents(env);
    if files.is_empty() {
        return;
    }
    let (path, mut bytes) = file.get(&files).clone();
    if bytes.is_empty() {
        return;
    }
    let at = place.index(bytes.len());
    match damage {
        Damage::Gone => return env.remove_file(&path),
        Damage::Cut => bytes.truncate(at),
        Damage::Zeros => bytes[at..].iter_mut().take(300).for_each(|byte| *byte = 0),
        Damage::Flipped => bytes[at] ^= 0x10,
    }
    env.write_file(&path, &bytes);
}

fn salvage(options: &Options) -> Result<Database> {
    Database::open(DIR, options.clone().recovery(Recovery::Salvage))
}

/// What is there, all of which was written once.
fn dump_checked(db: &Database, history: &History) -> Model {
    let found = dump(db);
    for row in all(&found) {
        assert!(history.written.contains(&row), "never written: {:?}", row.0);
    }
    db.verify().unwrap();
    found
}

/// A strict opening shows just that, and no new table has any of it.
fn check_stays(env: &SimEnv, options: &Options, found: &Model) {
    let db = Database::open(DIR, options.clone()).unwrap();
    assert_eq!(dump(&db), *found);
    db.verify().unwrap();
    let new = db.create_table("new").wait().unwrap();
    assert!(new.query().page().unwrap().is_empty(), "a new table has rows");
    drop((new, db));
    check_salvaged_again(env, options);
}

/// Salvage of what is whole shows it as it is.
fn check_salvaged_again(env: &SimEnv, options: &Options) {
    let shown = |db: Database| {
        let found = dump(&db);
        db.close().unwrap();
        found
    };
    let expected = shown(Database::open(DIR, options.clone()).unwrap());
    env.write_file(&Path::new(DIR).join("SALVAGE"), b"");
    assert_eq!(shown(salvage(options).unwrap()), expected, "salvaged");
    assert_eq!(shown(Database::open(DIR, options.clone()).unwrap()), expected, "and opened");
}

proptest! {
    #![proptest_config(config(300, "proptest-regressions/salvage.txt"))]

    #[test]
    fn r_e22_what_salvage_shows_was_written_and_stays(case in case(), end in end()) {
        let (env, options) = case.make();
        let db = salvage(&options).unwrap();
        let found = dump_checked(&db, &case.history());
        match end {
            None => db.close().unwrap(),
            Some(style) => {
                env.crash(style);
                drop(db);
            }
        }
        check_stays(&env, &options, &found);
    }

    /// Also where a power cut took commits from the log that table files have.
    #[test]
    fn r_e22_what_is_whole_is_salvaged_as_it_is(case in case()) {
        let case = Case { has_current: true, hits: Vec::new(), ..case };
        let (env, options) = case.make();
        check_salvaged_again(&env, &options);
    }

    /// Power that goes within a salvage costs nothing: what it would have shown is shown by the next one, and a
    /// strict opening refuses what there is until then.
    #[test]
    fn r_e22_salvage_that_is_cut_off_is_done_again(
        case in case(),
        cut in any::<Index>(),
        style in sample::select(&CRASH_STYLES[..]),
    ) {
        let (env, options) = case.make();
        let before = env.operations();
        let db = salvage(&options).unwrap();
        let operations = env.operations() - before;
        let (whole, history) = (dump(&db), case.history());
        drop(db);
        prop_assume!(operations > 0);
        let shows_all = |found: &Model| {
            let missing = keys(&whole).difference(&keys(found)).cloned().collect::<BTreeSet<_>>();
            assert!(missing.is_subset(&history.deleted), "missing: {missing:?}");
        };

        let (env, options) = case.make();
        env.crash_after(cut.index(operations as usize) as u64);
        let _ = salvage(&options);
        env.crash(style);
        match Database::open(DIR, options.clone()) {
            Ok(db) if db.damage().unwrap().is_empty() => shows_all(&dump(&db)),
            Ok(_) | Err(Error::Corruption(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
        let db = salvage(&options).unwrap();
        let found = dump_checked(&db, &history);
        shows_all(&found);
        db.close().unwrap();
        check_stays(&env, &options, &found);
    }
}

/// R-E22: a manifest that cannot be read is not written over. Power that goes meanwhile could leave a new beginning
/// before what it has.
#[test]
fn r_e22_no_part_of_an_old_manifest_comes_to_life() {
    for (seed, cut) in (0..20).flat_map(|seed| (8..20).map(move |cut| (seed, cut))) {
        let env = SimEnv::new(seed);
        let options = sim_options(&env).durability(Durability::Os).large_value_bytes(200);
        let db = Database::open(DIR, options.clone()).unwrap();
        db.create_table("t").wait().unwrap().insert("p", "r", [1; 400]).wait().unwrap();
        db.flush().unwrap();
        env.crash(CrashStyle::LoseUnsynced);
        drop(db);
        let lost = ["CURRENT", ".sst"].into_iter().flat_map(|of| paths(&env, of));
        lost.for_each(|path| env.remove_file(&path));
        env.flip(&Path::new(DIR).join("MANIFEST-000001"), 0).unwrap();

        env.crash_after(cut);
        let _ = salvage(&options);
        env.crash(CrashStyle::Torn);
        let found = dump(&salvage(&options).unwrap());
        assert_eq!(keys(&found).len(), 1, "power went after {cut} operations, seed {seed}");
    }
}
