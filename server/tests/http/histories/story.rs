//! What each entity was from version to version, and what clients were told of it.
//!
//! A write that is told its version is at that place of its entity's story. A deletion of one version comes right after
//! that one. What has no version, a read or a refusal, has to be so at one of those versions that it can be of: between
//! the newest that anybody was told before it began, and the oldest of what began after it ended.

use std::collections::{BTreeMap, BTreeSet};

use tablestone::Version;

use super::client::{Change, Condition, Entity, Event, Key, Operation, Refusal, What};

/// Of an entity's two properties.
type Values = (Option<u64>, Option<u64>);

/// Versions from the first on and before the second.
type Window = (Version, Version);

/// What an entity was, from a version that is one of these, if it was there.
#[derive(Debug)]
struct State {
    earliest: Version,
    latest: Version,
    entity: Option<Entity>,
}

pub(super) struct Stories {
    states: BTreeMap<Key, Vec<State>>,
    /// When something ended, and the newest version that was told by then.
    told: Vec<(u64, Version)>,
    /// When a write began, and the oldest version of those that began no sooner.
    begun: Vec<(u64, Version)>,
}

impl Stories {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut stories = Self { states: BTreeMap::new(), told: Vec::new(), begun: Vec::new() };
        let mut versions = BTreeSet::new();
        let mut writes: Vec<(Version, &Event, &Operation)> = Vec::new();
        for event in events {
            match &event.what {
                What::Write { operations, outcome: Ok(Some(version)) } => {
                    assert!(versions.insert(*version), "two of one version: {event:?}");
                    stories.told.push((event.ended, *version));
                    stories.begun.push((event.begun, *version));
                    writes.extend(operations.iter().map(|it| (*version, event, it)));
                }
                What::Write { operations, outcome: Ok(None) } => {
                    let [operation] = &operations[..] else { panic!("no version: {event:?}") };
                    let Condition::Version(version) = operation.condition else {
                        panic!("no version: {event:?}")
                    };
                    // Behind what was written at that version.
                    writes.push((version, event, operation));
                }
                What::Get { found, .. } => {
                    stories.told.extend(found.map(|entity| (event.ended, entity.version)));
                }
                What::Read { found, .. } => {
                    let newest = found.values().map(|entity| entity.version).max();
                    stories.told.extend(newest.map(|version| (event.ended, version)));
                }
                What::Write { .. } => {}
            }
        }
        stories.put_in_order();
        let is_bare = |event: &Event| matches!(event.what, What::Write { outcome: Ok(None), .. });
        writes.sort_by_key(|(version, event, _)| (*version, is_bare(event)));
        for (version, event, operation) in writes {
            stories.write(version, event, operation);
        }
        stories
    }

    fn put_in_order(&mut self) {
        self.told.sort_unstable();
        let mut newest = Version::ZERO;
        for (_, version) in &mut self.told {
            newest = newest.max(*version);
            *version = newest;
        }
        self.begun.sort_unstable();
        let mut oldest = Version::MAX;
        for (_, version) in self.begun.iter_mut().rev() {
            oldest = oldest.min(*version);
            *version = oldest;
        }
    }

    fn window(&self, event: &Event) -> Window {
        let before = self.told.partition_point(|(ended, _)| *ended < event.begun);
        let after = self.begun.partition_point(|(begun, _)| *begun <= event.ended);
        (
            before.checked_sub(1).map_or(Version::ZERO, |last| self.told[last].1),
            self.begun.get(after).map_or(Version::MAX, |first| first.1),
        )
    }

    /// A write that was done is one that could be, right after what the entity was.
    fn write(&mut self, version: Version, event: &Event, operation: &Operation) {
        let window = self.window(event);
        let states = self.states.entry(operation.key.clone()).or_default();
        let before = states.last().and_then(|state| state.entity);
        let entity = match operation.outcome(before.as_ref()) {
            Ok(values) => values.map(|(a, b)| Entity { version, a, b }),
            Err(refusal) => panic!("done, though {refusal:?}, after {before:?}: {event:?}"),
        };
        let is_told = matches!(event.what, What::Write { outcome: Ok(Some(_)), .. });
        let (earliest, latest) = match is_told {
            true => {
                assert!(window.0 < version && version < window.1, "not in {window:?}: {event:?}");
                (version, version)
            }
            false => (window.0.max(version).next(), window.1.previous()),
        };
        if let Some(last) = states.last_mut() {
            last.latest = last.latest.min(latest.previous());
            assert!(last.earliest <= last.latest, "not after {last:?}: {event:?}");
        }
        states.push(State { earliest, latest, entity });
    }

    /// When something may have held of an entity.
    fn windows(&self, key: &Key, holds: impl Fn(Option<&Entity>) -> bool) -> Vec<Window> {
        let states = self.states.get(key).map_or(&[][..], |states| states);
        let until = |next: usize| states.get(next).map_or(Version::MAX, |next| next.latest);
        let mut windows = Vec::new();
        if holds(None) {
            windows.push((Version::ZERO, until(0)));
        }
        for (index, state) in states.iter().enumerate() {
            if holds(state.entity.as_ref()) {
                windows.push((state.earliest, until(index + 1)));
            }
        }
        windows
    }

    pub(super) fn check(&self, events: &[Event]) {
        for event in events {
            let mut windows = vec![self.window(event)];
            match &event.what {
                What::Write { operations, outcome: Err((index, refusal)) } => {
                    for (at, operation) in operations.iter().enumerate().take(index + 1) {
                        let holds = |found: Option<&Entity>| {
                            let outcome = operation.outcome(found);
                            if at == *index {
                                outcome.as_ref() == Err(refusal)
                            } else {
                                outcome.is_ok()
                            }
                        };
                        windows = both(&windows, &self.windows(&operation.key, holds));
                    }
                }
                What::Get { key, found } => {
                    windows = both(&windows, &self.windows(key, |it| it == found.as_ref()));
                }
                What::Read { from, to_end, found } => {
                    assert!(found.keys().all(|key| key.0 == from.0 && key >= from), "{event:?}");
                    let last = found.keys().next_back();
                    let is_read = |key: &&Key| {
                        key.0 == from.0 && *key >= from && (*to_end || Some(*key) <= last)
                    };
                    for key in self.states.keys().filter(is_read) {
                        let held = self.windows(key, |it| it == found.get(key));
                        windows = both(&windows, &held);
                    }
                    let known = |key| self.states.contains_key(key);
                    assert!(found.keys().all(known), "never written: {event:?}");
                }
                What::Write { .. } => {}
            }
            assert!(!windows.is_empty(), "at no version of {:?}: {event:?}", self.window(event));
        }
    }
}

/// Where both hold.
fn both(some: &[Window], others: &[Window]) -> Vec<Window> {
    let pairs = some.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
    let common = pairs.map(|(one, other)| (one.0.max(other.0), one.1.min(other.1)));
    common.filter(|(low, high)| low < high).collect()
}

impl Operation {
    /// The values that it leaves of an entity.
    fn outcome(&self, found: Option<&Entity>) -> Result<Option<Values>, Refusal> {
        let refused = |status, code: &str| Err((status, code.to_owned()));
        match (self.condition, found) {
            (Condition::Absent, Some(_)) => return refused(409, "EntityAlreadyExists"),
            (Condition::Exists | Condition::Version(_), None) => {
                return refused(404, "ResourceNotFound");
            }
            (Condition::Version(version), Some(found)) if found.version != version => {
                return refused(412, "UpdateConditionNotSatisfied");
            }
            _ => {}
        }
        Ok(match self.change {
            Change::Put => Some((Some(self.number), None)),
            Change::Merge => Some((found.and_then(|found| found.a), Some(self.number))),
            Change::Delete => None,
        })
    }
}
