//! [`LimitSettings`]: the tables `[limits]` and `[limits.entity]` of a file, in which any may be left out.

use std::time::Duration;

use serde::Deserialize;
use tablestone::EntityLimits;

use super::units::{Size, Time};
use super::{ConfigError, Limits};

/// Bodies have this part of what the process may have, where that is less than the default.
const MEMORY_PART: u64 = 4;

/// What is said of a limit, or of several.
trait Setting<L> {
    fn set(self, limit: &mut L);
}

impl Setting<usize> for usize {
    fn set(self, limit: &mut usize) {
        *limit = self;
    }
}

impl Setting<usize> for Size {
    fn set(self, limit: &mut usize) {
        *limit = self.bytes();
    }
}

impl Setting<Duration> for Time {
    fn set(self, limit: &mut Duration) {
        *limit = self.duration();
    }
}

macro_rules! settings {
    ($(#[$doc:meta])* $visibility:vis $table:ident of $limits:ty { $($name:ident: $type:ty => $($limit:ident).+;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default, expecting = "a table")]
        $visibility struct $table {
            $($name: Option<$type>,)*
        }

        impl Setting<$limits> for $table {
            fn set(self, limits: &mut $limits) {
                $(if let Some(said) = self.$name {
                    said.set(&mut limits.$($limit).+);
                })*
            }
        }
    };
}

settings! {
    /// The table `[limits]`.
    pub LimitSettings of Limits {
        connections: usize => connection.connections;
        head_bytes: Size => connection.head_bytes;
        head_time: Time => connection.head_time;
        idle_time: Time => connection.idle_time;
        write_time: Time => connection.write_time;
        shutdown_time: Time => connection.shutdown_time;
        body_bytes: Size => body.bytes;
        body_stall: Time => body.stall;
        body_memory: Size => body_memory;
        query_time: Time => query_time;
        page_entities: usize => page_entities;
        page_bytes: Size => page_bytes;
        transaction_operations: usize => transaction_operations;
        key_length: usize => key_length;
        entity: EntitySettings => entity;
    }
}

settings! {
    /// The table `[limits.entity]`.
    EntitySettings of EntityLimits {
        properties: usize => properties;
        size: Size => size;
        name_length: usize => name_length;
        string_length: usize => string_length;
        binary_length: Size => binary_length;
    }
}

impl LimitSettings {
    /// The limits, with defaults for those of which nothing is said, for a process that may have so many bytes of
    /// memory, if that is known.
    pub(super) fn resolve(self, process_memory: Option<u64>) -> Result<Limits, ConfigError> {
        let default = Limits::default();
        let mut limits = default;
        self.set(&mut limits);
        if self.body_memory.is_none() {
            let part = process_memory.and_then(|bytes| usize::try_from(bytes / MEMORY_PART).ok());
            let least = 2 * limits.body.bytes;
            limits.body_memory =
                part.map_or(default.body_memory, |part| part.max(least).min(default.body_memory));
        }
        limits.check()?;
        Ok(limits)
    }
}
