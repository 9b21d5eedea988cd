//! [`Limits`]: what clients may store and take, the ranges of that, and what of it the database is told.

use std::ops::RangeInclusive;
use std::time::Duration;

use tablestone::{EntityLimits, Options};

use super::ConfigError;
use crate::body::BodyLimits;
use crate::net::ConnectionLimits;

/// Largest entity that [`EntityLimits::size`] may allow: the engine's values have up to 64 MiB, and what is
/// stored of an entity is less than twice its size.
const MOST_ENTITY_SIZE: usize = 32 << 20;
/// Fewest bytes that a body may be limited to: that of Create Table needs as many in Atom.
const LEAST_BODY: usize = 1 << 10;
/// Most entities of a page, of which each may have 32 KiB of names in the answer (`$select`), and most
/// operations of a transaction.
const MOST_AT_ONCE: usize = 10_000;
/// By how much a property that is stored may have more bytes than where it was sent. Stored it has two, two
/// offsets of up to four, its name and its value; in JSON five for quotes, colon, comma and one digit at least,
/// and its name. A value of one digit takes four stored, one that takes eight has two characters at least.
const MOST_GROWTH: usize = 12;

/// Most connections: more than a process has files.
const MOST_CONNECTIONS: usize = 1 << 20;
/// Most bytes of a request's head, each of which a connection may have in memory.
const MOST_HEAD: usize = 16 << 20;
/// What a limit of time may be. More is a mistake, such as milliseconds taken for seconds, and clocks have an
/// end.
const TIMES: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(365 * 86_400);

/// What clients may store, ask for at once, and make the server take (R-S05, R-S12).
///
/// Limits of what is stored are limits of writes: what was stored within others is read, and deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a connection.
    pub connection: ConnectionLimits,
    /// Of a request's body, and so of a transaction.
    pub body: BodyLimits,
    /// Bytes of all bodies in memory, both ways, and half as many again of what merges
    /// make of little. Default 256 MiB, or a quarter of what the process may have; at least twice the largest body.
    pub body_memory: usize,
    /// Time of a query before it ends its page with a continuation. Default 5 s, as the service.
    pub query_time: Duration,
    /// Entities, or tables, of a page: as many as it has unless `$top` says less. Default 1,000, as the
    /// service; at most 10,000.
    pub page_entities: usize,
    /// Stored bytes of a page; it has one entity in any case. Default 4 MiB; at most 1 GiB.
    pub page_bytes: usize,
    /// Operations of a transaction. Default 100, as the service; at most 10,000.
    pub transaction_operations: usize,
    /// Length of a PartitionKey, and of a RowKey, in UTF-16 units. Default 512, as the service; at most 5,461.
    pub key_length: usize,
    /// Of an entity. Defaults as the service, see [`EntityLimits`]; a size of at most 32 MiB, the others as
    /// the engine's.
    pub entity: EntityLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connection: ConnectionLimits::default(),
            body: BodyLimits::default(),
            body_memory: 256 << 20,
            query_time: Duration::from_secs(5),
            page_entities: 1_000,
            page_bytes: 4 << 20,
            transaction_operations: 100,
            key_length: 512,
            entity: EntityLimits::default(),
        }
    }
}

impl Limits {
    /// The largest [`key_length`](Self::key_length), so that no stored key is longer: the engine's keys have up to
    /// 16 KiB, and a UTF-16 unit up to three bytes.
    pub const MOST_KEY_LENGTH: usize = (16 << 10) / 3;
    /// Most bytes that a body may have, as those of a batch of the engine's, and stored bytes of a page.
    pub(crate) const MOST_BYTES: usize = 1 << 30;

    /// Refuses what is out of its range.
    ///
    /// # Errors
    /// [`ConfigError::Limit`], [`ConfigError::TimeLimit`], [`ConfigError::BodyMemory`].
    pub fn check(&self) -> Result<(), ConfigError> {
        for (setting, time) in self.times() {
            if !TIMES.contains(&time) {
                return Err(ConfigError::TimeLimit { setting, time });
            }
        }
        for (setting, value, range) in self.ranges() {
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                return Err(ConfigError::Limit { setting, value, least, most });
            }
        }
        let (bytes, least) = (self.body_memory, 2 * self.body.bytes);
        if bytes < least {
            // Some requests would be answered ServerBusy for ever.
            return Err(ConfigError::BodyMemory { bytes, least });
        }
        Ok(())
    }

    fn times(&self) -> [(&'static str, Duration); 6] {
        let connection = &self.connection;
        [
            ("limits.head_time", connection.head_time),
            ("limits.idle_time", connection.idle_time),
            ("limits.write_time", connection.write_time),
            ("limits.shutdown_time", connection.shutdown_time),
            ("limits.body_stall", self.body.stall),
            ("limits.query_time", self.query_time),
        ]
    }

    fn ranges(&self) -> [(&'static str, usize, RangeInclusive<usize>); 12] {
        let (connection, entity) = (&self.connection, &self.entity);
        let (least_head, largest) = (ConnectionLimits::LEAST_HEAD, EntityLimits::LARGEST);
        [
            ("limits.connections", connection.connections, 1..=MOST_CONNECTIONS),
            ("limits.head_bytes", connection.head_bytes, least_head..=MOST_HEAD),
            ("limits.body_bytes", self.body.bytes, LEAST_BODY..=Self::MOST_BYTES),
            ("limits.page_entities", self.page_entities, 1..=MOST_AT_ONCE),
            ("limits.page_bytes", self.page_bytes, 1..=Self::MOST_BYTES),
            ("limits.transaction_operations", self.transaction_operations, 1..=MOST_AT_ONCE),
            ("limits.key_length", self.key_length, 1..=Self::MOST_KEY_LENGTH),
            ("limits.entity.properties", entity.properties, 1..=largest.properties),
            ("limits.entity.size", entity.size, 1..=MOST_ENTITY_SIZE),
            ("limits.entity.name_length", entity.name_length, 1..=largest.name_length),
            ("limits.entity.string_length", entity.string_length, 1..=largest.string_length),
            ("limits.entity.binary_length", entity.binary_length, 1..=largest.binary_length),
        ]
    }

    /// Options of a database that takes what is within these limits.
    ///
    /// Keys are limited by the service, which reads and deletes what is beyond; and no other limit but those of
    /// entities and pages is below the engine's default, which the catalog of tables is held against.
    #[must_use]
    pub fn options(&self) -> Options {
        let default = Self::default();
        let operations = self.transaction_operations.max(default.transaction_operations);
        let properties = self.entity.properties.max(default.entity.properties);
        let most_stored = self.body.bytes + operations * properties * MOST_GROWTH;
        Options::default()
            .entity_limits(self.entity)
            .key_bytes(3 * Self::MOST_KEY_LENGTH)
            .value_bytes(2 * self.entity.size.max(default.entity.size))
            .batch_bytes(most_stored.clamp(default.body.bytes, Self::MOST_BYTES))
            .batch_operations(operations)
            .page_entities(self.page_entities)
            .page_bytes(self.page_bytes)
    }
}
