//! [`Place`]: the options that say where the tables are.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use tablestone::Compression;

use super::CliError;
use super::store::{Local, Store, holds_nothing};
use crate::client::{Client, Endpoint};
use crate::config::{DEFAULT_DATA, DEVELOPMENT_ACCOUNT, Limits};
use crate::net::read_certificates;

/// What to do instead of naming a server.
pub(super) const STOP_THE_SERVER: &str = "stop the server, and give the command on its machine";

/// Where the tables are: options, else `TABLESTONE_DATA`, else `AZURE_STORAGE_CONNECTION_STRING`,
/// else the directory that `serve` has by default.
#[derive(Args, Debug)]
#[command(next_help_heading = "Where the tables are")]
pub(super) struct Place {
    /// A data directory that no server has open; also TABLESTONE_DATA [default: tablestone-data]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "connection_string"])]
    data: Option<PathBuf>,
    /// A server: http://127.0.0.1:10002, followed by /ACCOUNT if that is not the emulator's; the
    /// account's key is taken from TABLESTONE_KEY
    #[arg(long, value_name = "URL", conflicts_with = "connection_string")]
    url: Option<String>,
    /// A server and its account, as SDKs have it; also AZURE_STORAGE_CONNECTION_STRING
    #[arg(long, value_name = "TEXT")]
    connection_string: Option<String>,
    /// The certificate to trust, as a PEM file, of a server that made its own
    #[arg(long, value_name = "FILE", env = "TABLESTONE_TLS_CERTIFICATE")]
    tls_certificate: Option<PathBuf>,
    /// The account whose tables are meant, if nothing else says it
    #[arg(long, value_name = "NAME", default_value = DEVELOPMENT_ACCOUNT)]
    account: String,
}

/// What the options mean.
enum Meant<'a> {
    Url(&'a str),
    ConnectionString(String),
    Directory(PathBuf),
}

/// What a data directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    /// It has to be there; nothing in it is compacted, and no table is made or dropped.
    Read,
    /// It is made if it is not there; files are compressed so, and what is written is within these limits.
    Write(Compression, &'a Limits),
}

impl Place {
    /// Opens it; a server's with up to that many connections.
    pub(super) fn open(&self, purpose: Purpose<'_>, connections: usize) -> Result<Store, CliError> {
        let remote = |endpoint| {
            let certificates = match &self.tls_certificate {
                Some(path) => read_certificates(path)?,
                None => Vec::new(),
            };
            Ok(Store::Remote(Client::new(endpoint, connections, &certificates)))
        };
        match self.meant()? {
            Meant::Url(url) => {
                let key = text("TABLESTONE_KEY")?;
                remote(Endpoint::from_url(url, &self.account, key.as_deref())?)
            }
            Meant::ConnectionString(text) => remote(Endpoint::from_connection_string(&text)?),
            Meant::Directory(data) => Ok(Store::Local(Local::open(data, &self.account, purpose)?)),
        }
    }

    /// The directory, for a command that works on nothing else and makes none; `instead` is what to do instead where a
    /// server is meant.
    pub(super) fn directory(&self, command: &str, instead: &str) -> Result<PathBuf, CliError> {
        match self.meant()? {
            Meant::Directory(data) if holds_nothing(&data) => {
                let shown = data.display();
                Err(format!("there is no data directory {shown}: name one with --data").into())
            }
            Meant::Directory(data) => Ok(data),
            Meant::Url(_) | Meant::ConnectionString(_) => Err(format!(
                "{command} works on a data directory (--data DIR) that no server has open: {instead}"
            )
            .into()),
        }
    }

    pub(super) fn account(&self) -> &str {
        &self.account
    }

    fn meant(&self) -> Result<Meant<'_>, CliError> {
        if let Some(url) = &self.url {
            return Ok(Meant::Url(url));
        }
        if let Some(text) = &self.connection_string {
            return Ok(Meant::ConnectionString(text.clone()));
        }
        // A path is any bytes.
        if let Some(data) =
            self.data.clone().or_else(|| variable("TABLESTONE_DATA").map(PathBuf::from))
        {
            return Ok(Meant::Directory(data));
        }
        Ok(match text("AZURE_STORAGE_CONNECTION_STRING")? {
            Some(text) => Meant::ConnectionString(text),
            None => Meant::Directory(DEFAULT_DATA.into()),
        })
    }
}

/// What a variable says, unless that is blank.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.as_encoded_bytes().trim_ascii().is_empty())
}

/// The same of one that is a text.
fn text(name: &str) -> Result<Option<String>, CliError> {
    let text = variable(name).map(OsString::into_string).transpose();
    text.map_err(|_| format!("{name} is not of Unicode").into())
}
