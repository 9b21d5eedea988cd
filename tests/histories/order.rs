//! Which versions a call can have seen, from what had ended before it and what began after it.

use tablestone::Version;

use super::event::{Seen, Span, What};
use super::history::History;

/// Versions from `low` on and before `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) low: Version,
    pub(crate) high: Version,
}

impl Window {
    pub(crate) fn is_empty(&self) -> bool {
        self.low >= self.high
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high) }
    }
}

/// The real order of what has a version.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// When a call ended, and the newest version that was visible then.
    seen: Vec<(u64, Version)>,
    /// When a write began, and the oldest version of those that began no sooner.
    begun: Vec<(u64, Version)>,
}

impl Order {
    pub(crate) fn of(history: &History) -> Self {
        let mut order = Self::default();
        let base = history.base.tables.values().flat_map(|rows| rows.values());
        order.seen.extend(base.map(|entity| (Span::BEFORE.ended, entity.version)));
        for event in &history.events {
            let (span, mut see) = (event.span, |at| order.seen.push((event.span.ended, at)));
            match &event.what {
                What::Write { outcome, write, .. } => match outcome {
                    Ok(version) => {
                        see(*version);
                        // Where it found nothing to do, it is that of another.
                        if !write.only_deletes_ranges() {
                            order.begun.push((span.begun, *version));
                        }
                    }
                    Err(failure) => failure.found().into_iter().for_each(see),
                },
                What::Drop { outcome: Ok(version), .. } => {
                    see(*version);
                    order.begun.push((span.begun, *version));
                }
                What::Birth { outcome: Ok(()), rows, .. } => {
                    if let Some((_, entity)) = rows.first() {
                        see(entity.version);
                        order.begun.push((span.begun, entity.version));
                    }
                }
                What::Snapshot(version) => see(*version),
                What::Page { via, outcome: Ok(page), .. } if via.at.is_none() => see(page.version),
                What::Get { outcome: Ok(found), .. } => {
                    for seen in found {
                        if let Seen::Entity(entity) = seen {
                            see(entity.version);
                        }
                    }
                }
                _ => {}
            }
        }
        order.seen.sort_unstable();
        let mut newest = Version::ZERO;
        for (_, version) in &mut order.seen {
            newest = newest.max(*version);
            *version = newest;
        }
        order.begun.sort_unstable();
        let mut oldest = Version::MAX;
        for (_, version) in order.begun.iter_mut().rev() {
            oldest = oldest.min(*version);
            *version = oldest;
        }
        order
    }

    /// From the newest version that was acknowledged or seen before the call began, until before the oldest that was
    /// given out after it ended.
    pub(crate) fn window(&self, span: Span) -> Window {
        let before = self.seen.partition_point(|(ended, _)| *ended < span.begun);
        let after = self.begun.partition_point(|(begun, _)| *begun <= span.ended);
        Window {
            low: before.checked_sub(1).map_or(Version::ZERO, |last| self.seen[last].1),
            high: self.begun.get(after).map_or(Version::MAX, |first| first.1),
        }
    }
}
