//! [`Gather`]: waiting a moment, before a group is synced, for those who have just been woken.
//!
//! Threads that commit one after another would otherwise part into two halves, each of which waits
//! for the other's sync and then for its own: the next group is taken before those of the last
//! one are back. A moment is enough for them to come, and then one sync serves all.
//!
//! Invariant: nobody waits who committed alone of late, nor longer than part of a sync. Where
//! waiting does not pay, as those who were woken have other work to do first, it is tried ever
//! less often.

use std::time::Duration;

use crate::sync::yield_now;

/// The wait is at most the last sync's time divided by this, and at most [`MOST`].
const PART_OF_A_SYNC: u32 = 2;
/// Sixteen threads are back within that, on two processors.
const MOST: Duration = Duration::from_micros(64);
/// So often the queue is looked at, under whatever clock: one that stands still holds up nobody.
const MOST_LOOKS: u32 = 1_000;
/// Groups that go at once after a wait in vain: twice as many each time, between these.
const FEWEST_SKIPPED: u32 = 4;
const MOST_SKIPPED: u32 = 512;

/// What the driver of the log remembers of the last groups.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Commits under way at once of late.
    expected: usize,
    longest: Duration,
    /// Groups still to go at once.
    to_skip: u32,
    skipped: u32,
}

impl Gather {
    /// Waits until as many commits are queued as were under way of late, or for a moment.
    pub(super) fn wait(&mut self, queued: impl Fn() -> usize, now: impl Fn() -> Duration) {
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        if (1..self.expected).contains(&queued()) {
            let until = now() + self.longest;
            for _ in 0..MOST_LOOKS {
                if queued() >= self.expected {
                    self.skipped /= 2;
                    return;
                }
                if now() >= until {
                    break;
                }
                yield_now();
            }
            self.waited_in_vain();
        }
    }

    fn waited_in_vain(&mut self) {
        self.skipped = (2 * self.skipped).clamp(FEWEST_SKIPPED, MOST_SKIPPED);
        self.to_skip = self.skipped;
    }

    /// A group was synced, which took that long; so many are queued by now.
    pub(super) fn synced(&mut self, group: usize, took: Duration, queued: usize) {
        self.expected = group + queued;
        self.longest = (took / PART_OF_A_SYNC).min(MOST);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SYNC: Duration = Duration::from_micros(100);

    /// How long the group waited, if the queue grows by one each `rate` µs; each look takes one.
    fn waited(gather: &mut Gather, queued: usize, rate: Option<u64>) -> Duration {
        let clock = Cell::new(0);
        let now = || Duration::from_micros(clock.replace(clock.get() + 1));
        gather.wait(|| queued + rate.map_or(0, |rate| (clock.get() / rate) as usize), now);
        Duration::from_micros(clock.get())
    }

    #[test]
    fn who_commits_alone_does_not_wait() {
        let mut gather = Gather::default();
        assert!(waited(&mut gather, 1, None).is_zero());
        gather.synced(1, SYNC, 0);
        assert!(waited(&mut gather, 1, None).is_zero());
        gather.synced(8, SYNC, 8);
        assert!(waited(&mut gather, 0, None).is_zero(), "there is nothing to sync");
        assert!(waited(&mut gather, 16, None).is_zero(), "all are there");
    }

    #[test]
    fn a_group_waits_for_those_of_the_last_one() {
        let mut gather = Gather::default();
        gather.synced(2, SYNC, 2);
        let micros = waited(&mut gather, 2, Some(10)).as_micros();
        assert!((20..30).contains(&micros), "{micros}");
    }

    #[test]
    fn a_clock_that_stands_still_does_not_hold_up_the_log() {
        let mut gather = Gather::default();
        gather.synced(2, SYNC, 2);
        let looks = Cell::new(0);
        let queued = || {
            looks.set(looks.get() + 1);
            2
        };
        gather.wait(queued, || Duration::ZERO);
        assert!((2..=MOST_LOOKS + 1).contains(&looks.get()), "{looks:?}");
    }

    #[test]
    fn waits_in_vain_are_short_and_become_rare() {
        let mut gather = Gather::default();
        gather.synced(2, SYNC, 2);
        let waits: Vec<_> = (0..1_000).map(|_| waited(&mut gather, 2, None)).collect();
        assert!(waits[0] >= SYNC / PART_OF_A_SYNC);
        assert!(waits.iter().all(|wait| *wait <= MOST));
        let count = waits.iter().filter(|wait| !wait.is_zero()).count();
        assert!((5..12).contains(&count), "{count}");
    }
}
