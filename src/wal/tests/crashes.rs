//! Lives of a log that end in crashes: after each, replay finds all that was synced, and nothing that was
//! not appended.

use super::*;

/// A log, what was given to it, and how much of that must survive.
struct Model {
    env: SimEnv,
    plan: SegmentPlan,
    appended: Vec<Record>,
    synced: usize,
    /// As the manifest would have it: up to here all is in table files.
    flushed: u64,
    first: SegmentId,
    next_version: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<usize>),
    Sync,
    Begin,
    Settle,
    Prepare,
    EndSegment,
    SettleEnded,
    Flush(usize),
}

impl Model {
    fn new(seed: u64, plan: SegmentPlan) -> Self {
        let env = machine(seed);
        let (appended, first) = (Vec::new(), SegmentId::NONE);
        Self { env, plan, appended, synced: 0, flushed: 0, first, next_version: 1 }
    }

    /// Opens, checks what replay finds, and takes the steps until one fails.
    fn life(&mut self, steps: &[Step]) -> Result<()> {
        let env = self.env.clone();
        let (found, mut replayed) = try_replay(&env, self.first.get(), Recovery::Strict)?;
        replayed.last_version = replayed.last_version.max(Version::from_ticks(self.flushed));
        let found: Vec<_> = found.into_iter().filter(|(v, _)| *v > self.flushed).collect();
        self.appended.retain(|(version, _)| *version > self.flushed);
        assert!(found.len() >= self.synced, "{} of {} synced", found.len(), self.synced);
        assert!(found.len() <= self.appended.len());
        assert_eq!(found, self.appended[..found.len()], "a prefix of what was appended");
        self.appended = found;
        self.synced = self.appended.len();
        let mut writer = go_on_with(&env, replayed, self.plan)?;
        if self.first == SegmentId::NONE {
            self.first = SegmentId::FIRST;
        }
        let segments = writer.segments();
        let mut begun = Vec::new();
        for step in steps {
            match step {
                Step::Append(lens) => {
                    let group = records(self.next_version, lens);
                    self.next_version += lens.len() as u64;
                    self.appended.extend(group.clone());
                    append(&mut writer, &group)?;
                }
                Step::Sync => {
                    writer.sync()?;
                    self.synced = self.appended.len();
                }
                Step::Prepare => segments.prepare()?,
                Step::EndSegment => {
                    let last = self.appended.last().map_or(0, |(version, _)| *version);
                    writer.end_segment(Version::from_ticks(last))?;
                }
                Step::SettleEnded => {
                    let last = self.appended.last().map_or(0, |(version, _)| *version);
                    let durable = segments.durable_through(Version::from_ticks(last))?;
                    let last = durable.last().map_or(0, |sealed| sealed.last.ticks());
                    let durable = self.appended.partition_point(|(version, _)| *version <= last);
                    self.synced = self.synced.max(durable);
                }
                Step::Begin => {
                    let last = self.appended.last().map_or(0, |(version, _)| *version);
                    begun.push((writer.begin_writeback()?, last));
                }
                Step::Settle => {
                    let Some((writeback, last)) = begun.pop() else { continue };
                    writeback.settle()?;
                    let durable = self.appended.partition_point(|(version, _)| *version <= last);
                    self.synced = self.synced.max(durable);
                }
                Step::Flush(count) => {
                    // Table files may have what is not synced in the log.
                    let count = count % (self.appended.len() + 1);
                    let Some((version, _)) = self.appended[..count].last() else { continue };
                    self.flushed = *version;
                    self.first = segments.first_needed(Version::from_ticks(*version));
                    self.appended.drain(..count);
                    self.synced = self.synced.saturating_sub(count);
                    segments.remove_before(self.first)?;
                }
            }
        }
        Ok(())
    }

    /// A power cut is the only reason for a life to end early.
    fn check(&mut self, steps: &[Step]) {
        if let Err(Error::Corruption(damage)) = self.life(steps) {
            panic!("{damage}");
        }
    }
}

fn script() -> Vec<Step> {
    let append = |lens: &[usize]| Step::Append(lens.to_vec());
    vec![
        append(&[10, 600]),
        Step::Sync,
        append(&[1_500, 0]),
        append(&[700]),
        Step::Prepare,
        Step::Sync,
        append(&[2_000, 900]),
        Step::Sync,
        Step::Flush(3),
        append(&[5_000]),
        append(&[1, 2]),
        Step::Sync,
        Step::Flush(4),
        append(&[2_500]),
        Step::Begin,
        append(&[900]),
        Step::Settle,
        append(&[10]),
        Step::Begin,
        append(&[2_500]),
        Step::Settle,
        Step::Sync,
        append(&[2_500]),
        append(&[2_500]),
        append(&[2_500, 30]),
        Step::Flush(1),
        append(&[30]),
        Step::Sync,
        append(&[2_500, 70]),
        Step::EndSegment,
        append(&[700]),
        Step::SettleEnded,
        append(&[700]),
    ]
}

/// Crashes after every operation of a life, and after every few of the recovery that follows.
#[test]
fn a_crash_after_any_operation_loses_nothing_synced() {
    crash_after_any_operation(plan(SEGMENT_BYTES));
}

#[test]
fn nor_where_what_nobody_asks_to_sync_is_left_to_the_system() {
    crash_after_any_operation(left_to_system(SEGMENT_BYTES));
}

fn crash_after_any_operation(plan: SegmentPlan) {
    let operations = {
        let mut model = Model::new(0, plan);
        model.check(&script());
        model.env.operations()
    };
    for style in [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn] {
        for cut in 0..=operations {
            for second_cut in [cut % 7, 1_000] {
                let mut model = Model::new(cut, plan);
                model.env.crash_after(cut);
                model.check(&script());
                model.env.crash(style);
                model.env.crash_after(second_cut);
                model.check(&script());
                model.env.crash(style);
                model.check(&[]);
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![0..40usize, 0..700usize, 0..6_000usize];
    let step = prop_oneof![
        6 => prop::collection::vec(len, 1..4).prop_map(Step::Append),
        4 => Just(Step::Sync),
        2 => Just(Step::Begin),
        2 => Just(Step::Settle),
        1 => Just(Step::Prepare),
        1 => Just(Step::EndSegment),
        1 => Just(Step::SettleEnded),
        2 => any::<usize>().prop_map(Step::Flush),
    ];
    prop::collection::vec(step, 0..30)
}

proptest! {
    #[test]
    fn random_lives_lose_nothing_synced(
        seed in any::<u64>(),
        is_left in any::<bool>(),
        lives in prop::collection::vec((steps(), 0..120u64, 0..3usize), 1..5),
    ) {
        let styles = [CrashStyle::LoseUnsynced, CrashStyle::KeepAll, CrashStyle::Torn];
        let plan = if is_left { left_to_system } else { plan };
        let mut model = Model::new(seed, plan(SEGMENT_BYTES));
        for (steps, cut, style) in lives {
            model.env.crash_after(cut);
            model.check(&steps);
            model.env.crash(styles[style]);
        }
        model.check(&[]);
    }
}
