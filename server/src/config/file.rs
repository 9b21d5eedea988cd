//! [`File`]: the configuration as TOML.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use tablestone::{Compression, Durability};

use super::settings::LimitSettings;
use super::units::{Size, UnitError, parse_address, parse_compression, parse_durability};
use super::{ConfigError, Limits, Partial};
use crate::net::Network;

/// A configuration file. Names that it does not know are an error: they would be mistakes.
///
/// ```
/// use tablestone_server::config::File;
/// let file = File::parse("listen = '0.0.0.0:10002'\nmemory = '1GiB'\n[limits]\nidle_time = '1min'");
/// assert!(file.is_ok());
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct File {
    #[serde(default, deserialize_with = "address")]
    listen: Option<SocketAddr>,
    #[serde(default, deserialize_with = "address")]
    admin: Option<SocketAddr>,
    data: Option<PathBuf>,
    checkpoints: Option<PathBuf>,
    accounts: Option<Vec<AccountEntry>>,
    tls: Option<TlsEntry>,
    trusted_proxies: Option<Vec<Network>>,
    #[serde(default, deserialize_with = "durability")]
    durability: Option<Durability>,
    memory: Option<Size>,
    #[serde(default, deserialize_with = "compression")]
    compression: Option<Compression>,
    access_log: Option<bool>,
    limits: Option<LimitSettings>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct AccountEntry {
    name: String,
    keys: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct TlsEntry {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// What is wrong with a file's text. The text itself may hold keys and is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FileError {
    line: usize,
    message: Box<str>,
}

impl FileError {
    fn of(error: &toml::de::Error, text: &str) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Self { line, message: without_text(error.message()).into() }
    }
}

/// What serde says, without the text that it did not expect.
fn without_text(message: &str) -> String {
    match (message.split_once("string \""), message.rsplit_once("\", expected")) {
        (Some((before, _)), Some((_, after))) => format!("{before}string, expected{after}"),
        _ => message.to_owned(),
    }
}

fn address<'de, D: Deserializer<'de>>(d: D) -> Result<Option<SocketAddr>, D::Error> {
    parsed(d, parse_address)
}

fn durability<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Durability>, D::Error> {
    parsed(d, parse_durability)
}

fn compression<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Compression>, D::Error> {
    parsed(d, parse_compression)
}

fn parsed<'de, D: Deserializer<'de>, T>(
    d: D,
    parse: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<Option<T>, D::Error> {
    parse(&String::deserialize(d)?).map(Some).map_err(serde::de::Error::custom)
}

impl File {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        toml::from_str(text).map_err(|error| FileError::of(&error, text))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError::Read`], [`ConfigError::File`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|source| ConfigError::File { path: path.to_owned(), source })
    }

    /// The limits that it says, and defaults.
    ///
    /// # Errors
    /// As [`Limits::check`].
    pub fn limits(&self) -> Result<Limits, ConfigError> {
        self.limits.unwrap_or_default().resolve(None)
    }

    /// What it says.
    #[must_use]
    pub fn into_partial(self) -> Partial {
        let accounts = self.accounts.map(|accounts| {
            accounts.into_iter().map(|account| (account.name, account.keys)).collect()
        });
        let (tls_certificate, tls_key) =
            self.tls.map_or((None, None), |tls| (tls.certificate, tls.key));
        Partial {
            listen: self.listen,
            admin: self.admin,
            data: self.data,
            checkpoints: self.checkpoints,
            accounts,
            tls_certificate,
            tls_key,
            trusted_proxies: self.trusted_proxies,
            durability: self.durability,
            memory: self.memory,
            compression: self.compression,
            access_log: self.access_log,
            limits: self.limits,
        }
    }
}
