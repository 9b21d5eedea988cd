//! What the server is told: options of the command line and the environment, then a TOML file, then
//! defaults. None of them is needed.

mod account;
mod file;
mod units;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tablestone::{Compression, Durability};

pub use account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, parse_accounts};
pub use file::File;
pub use units::{Size, Time, UnitError, parse_compression, parse_durability};

use crate::auth::Account;
use crate::body::BodyLimits;
use crate::net::ConnectionLimits;

/// Where the emulator listens, and therefore `UseDevelopmentStorage=true` looks.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10002);

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
    #[error("{path:?}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        message: Box<str>,
    },
    /// An account's name is none.
    #[error("{name:?} is no account's name: 3 to 24 lower-case letters and digits")]
    AccountName {
        /// The name.
        name: String,
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
    /// Two accounts have one name.
    #[error("account {name} is there twice")]
    DuplicateAccount {
        /// The account.
        name: String,
    },
    /// A certificate without a key, or the other way round.
    #[error("TLS needs both a certificate and a key: {missing} is missing")]
    HalfTls {
        /// Which is not there.
        missing: &'static str,
    },
}

/// How the server runs.
#[derive(Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where operators ask for health and metrics; nowhere by default.
    pub admin: Option<SocketAddr>,
    /// The directory of the database.
    pub data: PathBuf,
    /// Who may use it.
    pub accounts: Vec<Account>,
    /// Whether an account has the key that everybody knows.
    pub published_key: bool,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// Bytes for the engine's memtables and cache.
    pub memory: usize,
    /// How table files are compressed.
    pub compression: Compression,
    /// What the server may take.
    pub limits: Limits,
    /// Whether each request is logged.
    pub access_log: bool,
}

/// What the server may take (R-S12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a connection.
    pub connection: ConnectionLimits,
    /// Of a request's body.
    pub body: BodyLimits,
    /// Bytes of all bodies in memory, both ways, and half as many again of what merges in transactions
    /// make of little. Default 256 MiB.
    pub body_memory: usize,
    /// Time of a query before it ends its page with a continuation. Default 5 s, as the service.
    pub query_time: std::time::Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connection: ConnectionLimits::default(),
            body: BodyLimits::default(),
            body_memory: 256 << 20,
            query_time: std::time::Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accounts: Vec<_> = self.accounts.iter().map(Account::name).collect();
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("admin", &self.admin)
            .field("data", &self.data)
            .field("accounts", &accounts)
            .field("tls", &self.tls)
            .field("durability", &self.durability)
            .field("memory", &self.memory)
            .field("compression", &self.compression)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
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
    /// Names with their keys.
    pub accounts: Option<Vec<(String, Vec<String>)>>,
    /// The file of the certificate.
    pub tls_certificate: Option<PathBuf>,
    /// The file of its key.
    pub tls_key: Option<PathBuf>,
    /// See [`Config::durability`].
    pub durability: Option<Durability>,
    /// See [`Config::memory`].
    pub memory: Option<Size>,
    /// See [`Config::compression`].
    pub compression: Option<Compression>,
    /// See [`Config::access_log`].
    pub access_log: Option<bool>,
    /// See [`Config::limits`].
    pub limits: file::Limits,
}

impl Partial {
    /// This, and where it says nothing, `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            listen: self.listen.or(other.listen),
            admin: self.admin.or(other.admin),
            data: self.data.or(other.data),
            accounts: self.accounts.or(other.accounts),
            tls_certificate: self.tls_certificate.or(other.tls_certificate),
            tls_key: self.tls_key.or(other.tls_key),
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
    /// [`ConfigError`] for accounts and TLS that cannot be.
    pub fn resolve(self) -> Result<Config, ConfigError> {
        let development = || vec![(DEVELOPMENT_ACCOUNT.into(), vec![DEVELOPMENT_KEY.into()])];
        let accounts = self.accounts.unwrap_or_else(development);
        let published_key =
            accounts.iter().any(|(_, keys)| keys.iter().any(|key| key == DEVELOPMENT_KEY));
        let tls = match (self.tls_certificate, self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(ConfigError::HalfTls { missing: "the key" }),
            (None, Some(_)) => return Err(ConfigError::HalfTls { missing: "the certificate" }),
        };
        Ok(Config {
            listen: self.listen.unwrap_or(DEFAULT_LISTEN),
            admin: self.admin,
            data: self.data.unwrap_or_else(|| "tablestone-data".into()),
            accounts: account::accounts(accounts)?,
            published_key,
            tls,
            durability: self.durability.unwrap_or(Durability::Sync),
            memory: self.memory.map_or(256 << 20, Size::bytes),
            compression: self.compression.unwrap_or(Compression::Automatic),
            limits: self.limits.resolve(),
            access_log: self.access_log.unwrap_or(false),
        })
    }
}

impl Config {
    /// Whether somebody who knows the key that everybody knows may reach the server from elsewhere.
    #[must_use]
    pub fn is_open_to_all(&self) -> bool {
        self.published_key && !self.listen.ip().is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn file(text: &str) -> Result<Partial, String> {
        File::parse(text).map(File::into_partial).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_need_be_said() {
        let config = Partial::default().resolve().unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:10002");
        assert_eq!((config.admin, config.durability), (None, Durability::Sync));
        assert_eq!(config.accounts[0].name(), "devstoreaccount1");
        assert!(config.published_key && !config.is_open_to_all());
        let listen = "0.0.0.0:10002".parse().ok();
        let open = Partial { listen, ..Partial::default() }.resolve().unwrap();
        assert!(open.is_open_to_all());
        let own = Some(vec![("mine".into(), vec!["a2V5".into()])]);
        let closed = Partial { listen, accounts: own, ..Partial::default() }.resolve().unwrap();
        assert!(!closed.is_open_to_all());
    }

    #[test]
    fn a_file_says_everything() {
        let partial = file(
            r#"
            listen = "0.0.0.0:80"
            admin = "[::1]:9000"
            data = "/var/lib/tablestone"
            durability = "250ms"
            memory = "1GiB"
            compression = "zstd:3"
            access_log = true

            [tls]
            certificate = "a.pem"
            key = "b.pem"

            [[accounts]]
            name = "first"
            keys = ["a2V5"]
            [[accounts]]
            name = "second"
            keys = ["a2V5", "a2V6"]

            [limits]
            connections = 10
            head_bytes = "64KiB"
            idle_time = "1min"
            body_memory = 1000000
            query_time = "2s"
            "#,
        );
        let config = partial.unwrap().resolve().unwrap();
        assert_eq!(config.listen.port(), 80);
        assert_eq!(config.admin.unwrap().to_string(), "[::1]:9000");
        assert_eq!(config.data.to_str(), Some("/var/lib/tablestone"));
        assert_eq!(config.durability, Durability::Interval(Duration::from_millis(250)));
        assert_eq!((config.memory, config.access_log), (1 << 30, true));
        assert_eq!(config.compression, Compression::Zstd(3));
        assert_eq!(config.tls, Some(("a.pem".into(), "b.pem".into())));
        let names: Vec<_> = config.accounts.iter().map(Account::name).collect();
        assert_eq!(names, ["first", "second"]);
        let expected = ConnectionLimits {
            connections: 10,
            head_bytes: 64 << 10,
            idle_time: Duration::from_secs(60),
            ..ConnectionLimits::default()
        };
        assert_eq!(config.limits.connection, expected);
        assert_eq!(config.limits.body_memory, 1_000_000);
        assert_eq!(config.limits.query_time, Duration::from_secs(2));
        assert!(!format!("{config:?}").contains("a2V5"), "keys are not shown");
    }

    /// The file that is shipped says what holds without it.
    #[test]
    fn the_shipped_file_has_the_defaults() {
        let shipped = file(include_str!("../../packaging/tablestone.toml")).unwrap();
        let (shipped, config) = (shipped.resolve().unwrap(), Partial::default().resolve().unwrap());
        assert_eq!(format!("{shipped:?}"), format!("{config:?}"));
        let commented = include_str!("../../packaging/tablestone.toml");
        let everything: String = commented
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|line| line.contains(['=', '[']))
                    .unwrap_or(line)
                    .to_owned()
                    + "\n"
            })
            .collect();
        let config = file(&everything.replace('…', "a2V5")).unwrap().resolve().unwrap();
        assert_eq!(config.accounts[0].name(), "myaccount");
        assert!(config.admin.is_some() && config.tls.is_some());
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let said = Partial { listen: "127.0.0.1:1".parse().ok(), ..Partial::default() };
        let config =
            said.or(file("listen = '127.0.0.1:2'\ndata = 'd'").unwrap()).resolve().unwrap();
        assert_eq!((config.listen.port(), config.data.to_str()), (1, Some("d")));
    }

    #[test]
    fn what_cannot_be_says_where() {
        for (text, expected) in [
            ("lisen = '127.0.0.1:1'", "unknown field `lisen`"),
            ("listen = 'here'", "invalid socket address"),
            ("memory = '1 elephant'", "\"1 elephant\" is no size"),
            ("durability = 'maybe'", "\"maybe\" is no durability"),
            ("compression = 'zip'", "\"zip\" is no compression"),
            ("[limits]\nhead_time = 'soon'", "\"soon\" is no time"),
            ("[limits]\nheads = 1", "unknown field `heads`"),
        ] {
            let error = file(text).unwrap_err();
            assert!(error.contains(expected) && error.contains("line"), "{error}");
        }
        let resolve = |text| file(text).unwrap().resolve().unwrap_err().to_string();
        let account = |name, keys| {
            resolve(&*format!("[[accounts]]\nname = '{name}'\nkeys = [{keys}]").leak())
        };
        assert!(account("No", "'a2V5'").contains("\"No\" is no account's name"));
        assert!(account("mine", "").contains("account mine has no key"));
        assert!(account("mine", "'secret!'").contains("base64"));
        assert!(!account("mine", "'secret!'").contains("secret!"));
        assert!(resolve("tls = { certificate = 'a' }").contains("the key is missing"));
    }
}
