//! What the server is told: options of the command line and the environment, then a TOML file, then
//! defaults. None of them is needed.

mod account;
mod file;
mod limits;
mod settings;
mod units;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tablestone::env::{Env, RealEnv};
use tablestone::{Compression, Durability};

pub(crate) use account::check_account_name;
pub use account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, NamedKeys, parse_accounts};
pub use file::{File, FileError};
pub use limits::Limits;
pub use settings::LimitSettings;
pub use units::{Size, Time, UnitError, parse_address, parse_compression, parse_durability};

use crate::auth::Account;
use crate::net::Network;

/// Where the emulator listens, and therefore `UseDevelopmentStorage=true` looks.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10002);

/// The directory of the data.
pub(crate) const DEFAULT_DATA: &str = "tablestone-data";

/// The least memory that the engine works with.
const LEAST_MEMORY: usize = 64 << 10;

/// Why the server cannot run as it is told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The file is not TOML, or has what it may not have; says where.
    #[error("{path:?}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FileError,
    },
    /// An account's name is none.
    #[error(
        "{} is no account's name: 3 to 24 lower-case letters and digits",
        .name.as_ref().map_or("a text that may be a key".into(), |name| format!("{name:?}"))
    )]
    AccountName {
        /// The name, unless it may be a key in the wrong place.
        name: Option<Box<str>>,
    },
    /// An account's key is none. It is not shown.
    #[error("account {name}: {source}")]
    AccountKey {
        /// The account.
        name: String,
        /// What is wrong.
        source: crate::auth::InvalidKey,
    },
    /// An account has no key.
    #[error("account {name} has no key")]
    NoKey {
        /// The account.
        name: String,
    },
    /// Accounts were said, and none of them.
    #[error(
        "there is no account: expected one at least, or nothing said of them for {DEVELOPMENT_ACCOUNT}"
    )]
    NoAccount,
    /// Checkpoints have a place, and nobody can ask for one.
    #[error("checkpoints are asked for by POST /checkpoint of admin, which is missing")]
    NoAdmin,
    /// The database has too little memory.
    #[error("memory is {bytes} bytes: expected at least {least}")]
    Memory {
        /// What was said.
        bytes: usize,
        /// The least that will do.
        least: usize,
    },
    /// Two accounts have one name.
    #[error("account {name} is there twice")]
    DuplicateAccount {
        /// The account.
        name: String,
    },
    /// A limit is out of the range that it can have.
    #[error("{setting} is {value}: expected {least} to {most}")]
    Limit {
        /// Its name in a file.
        setting: &'static str,
        /// What was said.
        value: usize,
        /// The least that it can be.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A limit of time is out of the range that all of them have.
    #[error("{setting} is {time:?}: expected 1ms to 8760h, a year")]
    TimeLimit {
        /// Its name in a file.
        setting: &'static str,
        /// What was said.
        time: std::time::Duration,
    },
    /// Bodies have too little memory for the largest.
    #[error(
        "limits.body_memory is {bytes} bytes: expected at least {least}, twice limits.body_bytes"
    )]
    BodyMemory {
        /// What was said.
        bytes: usize,
        /// The least that will do.
        least: usize,
    },
    /// A certificate without a key, or the other way round.
    #[error("TLS needs both a certificate and a key: {missing} is missing")]
    HalfTls {
        /// Which is not there.
        missing: &'static str,
    },
}

/// How the server runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where operators ask for health and metrics; nowhere by default.
    pub admin: Option<SocketAddr>,
    /// The directory of the database.
    pub data: PathBuf,
    /// Where checkpoints are made that operators ask for; none by default.
    pub checkpoints: Option<PathBuf>,
    /// Who may use it.
    pub accounts: Vec<Account>,
    /// Whether an account has the key that everybody knows.
    pub published_key: bool,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Proxies that are believed where requests come from.
    pub trusted_proxies: Vec<Network>,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// Bytes for the engine's memtables and cache; `None` for its default.
    pub memory: Option<usize>,
    /// How table files are compressed.
    pub compression: Compression,
    /// What clients may store and take.
    pub limits: Limits,
    /// Whether each request is logged.
    pub access_log: bool,
}

/// What somebody said of the configuration: each part may be left out.
#[derive(Clone, Debug, Default)]
pub struct Partial {
    /// See [`Config::listen`].
    pub listen: Option<SocketAddr>,
    /// See [`Config::admin`].
    pub admin: Option<SocketAddr>,
    /// See [`Config::data`].
    pub data: Option<PathBuf>,
    /// See [`Config::checkpoints`].
    pub checkpoints: Option<PathBuf>,
    /// Names with their keys.
    pub accounts: Option<NamedKeys>,
    /// The file of the certificate.
    pub tls_certificate: Option<PathBuf>,
    /// The file of its key.
    pub tls_key: Option<PathBuf>,
    /// See [`Config::trusted_proxies`].
    pub trusted_proxies: Option<Vec<Network>>,
    /// See [`Config::durability`].
    pub durability: Option<Durability>,
    /// See [`Config::memory`].
    pub memory: Option<Size>,
    /// See [`Config::compression`].
    pub compression: Option<Compression>,
    /// See [`Config::access_log`].
    pub access_log: Option<bool>,
    /// See [`Config::limits`].
    pub limits: Option<LimitSettings>,
}

impl Partial {
    /// This, and where it says nothing, `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            listen: self.listen.or(other.listen),
            admin: self.admin.or(other.admin),
            data: self.data.or(other.data),
            checkpoints: self.checkpoints.or(other.checkpoints),
            accounts: self.accounts.or(other.accounts),
            tls_certificate: self.tls_certificate.or(other.tls_certificate),
            tls_key: self.tls_key.or(other.tls_key),
            trusted_proxies: self.trusted_proxies.or(other.trusted_proxies),
            durability: self.durability.or(other.durability),
            memory: self.memory.or(other.memory),
            compression: self.compression.or(other.compression),
            access_log: self.access_log.or(other.access_log),
            limits: self.limits.or(other.limits),
        }
    }

    /// The configuration, with defaults for what was not said.
    ///
    /// # Errors
    /// [`ConfigError`] for accounts, TLS and limits that cannot be.
    pub fn resolve(self) -> Result<Config, ConfigError> {
        self.resolve_within(RealEnv::new().disk().memory_bytes())
    }

    /// The same for a process that may have so many bytes of memory, if that is known.
    fn resolve_within(self, process_memory: Option<u64>) -> Result<Config, ConfigError> {
        let development = || vec![(DEVELOPMENT_ACCOUNT.into(), vec![DEVELOPMENT_KEY.into()])];
        let accounts = self.accounts.unwrap_or_else(development);
        if accounts.is_empty() {
            return Err(ConfigError::NoAccount);
        }
        if self.checkpoints.is_some() && self.admin.is_none() {
            return Err(ConfigError::NoAdmin);
        }
        let memory = self.memory.map(Size::bytes);
        if let Some(bytes) = memory.filter(|&bytes| bytes < LEAST_MEMORY) {
            return Err(ConfigError::Memory { bytes, least: LEAST_MEMORY });
        }
        let published_key =
            accounts.iter().any(|(_, keys)| keys.iter().any(|key| key == DEVELOPMENT_KEY));
        let tls = match (self.tls_certificate, self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(ConfigError::HalfTls { missing: "the key" }),
            (None, Some(_)) => return Err(ConfigError::HalfTls { missing: "the certificate" }),
        };
        let limits = self.limits.unwrap_or_default().resolve(process_memory)?;
        Ok(Config {
            listen: self.listen.unwrap_or(DEFAULT_LISTEN),
            admin: self.admin,
            data: self.data.unwrap_or_else(|| DEFAULT_DATA.into()),
            checkpoints: self.checkpoints,
            accounts: account::accounts(accounts)?,
            published_key,
            tls,
            trusted_proxies: self.trusted_proxies.unwrap_or_default(),
            durability: self.durability.unwrap_or(Durability::Sync),
            memory,
            compression: self.compression.unwrap_or(Compression::Automatic),
            limits,
            access_log: self.access_log.unwrap_or(false),
        })
    }
}

impl Config {
    /// Whether somebody who knows the key that everybody knows may reach the server from elsewhere, perhaps through a
    /// proxy.
    #[must_use]
    pub fn is_open_to_all(&self) -> bool {
        let is_reached = !self.listen.ip().is_loopback() || !self.trusted_proxies.is_empty();
        self.published_key && is_reached
    }
}

#[cfg(test)]
mod tests;
