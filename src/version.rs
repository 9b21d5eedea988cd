//! [`Version`]: the one number that is commit order, visibility, Timestamp and ETag.
//!
//! A version is a count of 100 ns ticks since 1601-01-01T00:00:00Z, assigned at commit as
//! max(clock, last + 1), so versions are strictly increasing for the whole database (R-E04).

use std::fmt;
use std::time::{Duration, SystemTime};

/// Ticks (100 ns each) between 1601-01-01 and the Unix epoch.
const TICKS_TO_UNIX_EPOCH: u64 = 116_444_736_000_000_000;
const TICKS_PER_SECOND: u64 = 10_000_000;
const NANOS_PER_TICK: u32 = 100;

/// When and in which order an entity was last written: its Timestamp and its ETag.
///
/// Counted in ticks of 100 ns since 1601-01-01T00:00:00Z. No two commits of one database
/// share a version; all entities written by one batch do.
///
/// ```
/// use tablestone::Version;
/// let older = Version::from_ticks(1);
/// assert!(older < Version::from_ticks(2));
/// assert_eq!(older.to_string().parse(), Ok(older)); // its ticks; `ETag` is its text for clients
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Before every commit.
    pub const ZERO: Self = Self(0);
    /// At or after every commit.
    pub const MAX: Self = Self(u64::MAX);

    /// The version of that many 100 ns ticks since 1601-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }

    /// 100 ns ticks since 1601-01-01T00:00:00Z.
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// The version of the tick that an instant is in; an instant before 1601 is [`Version::ZERO`].
    #[must_use]
    pub fn from_system_time(time: SystemTime) -> Self {
        let ticks = |d: Duration| {
            let seconds = d.as_secs().saturating_mul(TICKS_PER_SECOND);
            seconds.saturating_add(u64::from(d.subsec_nanos() / NANOS_PER_TICK))
        };
        Self(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => TICKS_TO_UNIX_EPOCH.saturating_add(ticks(since)),
            Err(before) => {
                // The tick that it is in begins before it.
                let part = Duration::from_nanos(u64::from(NANOS_PER_TICK) - 1);
                TICKS_TO_UNIX_EPOCH.saturating_sub(ticks(before.duration().saturating_add(part)))
            }
        })
    }

    /// The instant this version stands for, as far as the platform's clock type reaches.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let duration = |ticks: u64| {
            let nanos = (ticks % TICKS_PER_SECOND) as u32 * NANOS_PER_TICK;
            Duration::new(ticks / TICKS_PER_SECOND, nanos)
        };
        match self.0.checked_sub(TICKS_TO_UNIX_EPOCH) {
            Some(after) => SystemTime::UNIX_EPOCH.checked_add(duration(after)),
            None => SystemTime::UNIX_EPOCH.checked_sub(duration(TICKS_TO_UNIX_EPOCH - self.0)),
        }
    }

    /// The smallest version after this one; [`Version::MAX`] stays what it is.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The largest version before this one; [`Version::ZERO`] stays what it is.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_and_an_instant_convert_both_ways() {
        for ticks in [0, 1, TICKS_TO_UNIX_EPOCH - 1, TICKS_TO_UNIX_EPOCH, 133_000_000_000_000_001] {
            let version = Version::from_ticks(ticks);
            assert_eq!(Version::from_system_time(version.to_system_time().unwrap()), version);
        }
    }

    #[test]
    fn what_is_shorter_than_a_tick_does_not_count() {
        let since_epoch = |nanos| SystemTime::UNIX_EPOCH + Duration::new(1, nanos);
        for (nanos, ticks) in [(99, 0), (100, 1), (999_999_999, 9_999_999)] {
            let version = Version::from_system_time(since_epoch(nanos));
            assert_eq!(version.ticks(), TICKS_TO_UNIX_EPOCH + TICKS_PER_SECOND + ticks);
        }
    }

    /// R-D01: on either side of the epoch it is the tick that the instant is in. Linux: not every clock has nanoseconds.
    #[cfg(target_os = "linux")]
    #[test]
    fn r_d01_what_is_shorter_than_a_tick_does_not_count_before_the_epoch_either() {
        for (nanos, ticks) in [(1, 1), (100, 1), (101, 2), (1_000_000_001, 10_000_001)] {
            let instant = SystemTime::UNIX_EPOCH - Duration::from_nanos(nanos);
            let version = Version::from_system_time(instant);
            assert_eq!(version.ticks(), TICKS_TO_UNIX_EPOCH - ticks, "{nanos} ns before");
            let begins = version.to_system_time().unwrap();
            assert!(begins <= instant && instant < version.next().to_system_time().unwrap());
        }
    }
}
