//! `tablestone serve`: from options to the configuration of a server, which then [runs](running).
//!
//! Invariant: what is said on the command line goes before the environment, that before the file, that before defaults.

use std::ffi::OsString;
use std::io::{Error, IsTerminal};
use std::net::SocketAddr;
use std::panic;
use std::path::PathBuf;
use std::process;
use std::str::FromStr;

use clap::Args;
use clap::builder::BoolishValueParser;
use tablestone::{Compression, Durability};
use tokio::runtime::{Builder, Runtime};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::running::{self, NOTICES, Notices};
use super::{CliError, no_thread, system};
use crate::config::{
    Config, File, NamedKeys, Partial, Size, UnitError, parse_accounts, parse_address,
    parse_compression, parse_durability,
};
use crate::net::Network;

/// What the help ends with.
const ACCOUNTS: &str = "\
Accounts:
  TABLESTONE_ACCOUNTS=name:key[:key];name:key, else [[accounts]] of the file, else AZURITE_ACCOUNTS
  in the same form, else devstoreaccount1 with the key that everybody knows. They are no option:
  command lines are shown to everybody.";

/// Options of `serve`. What is not said here or in the environment is taken from the file, and what
/// is not there either has a default.
#[derive(Args, Debug)]
#[command(after_help = ACCOUNTS)]
pub(super) struct Serve {
    /// A TOML file with what options say, and with accounts and limits
    #[arg(long, value_name = "FILE", env = "TABLESTONE_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:10002, where UseDevelopmentStorage=true looks]
    #[arg(long, value_name = "ADDR:PORT", env = "TABLESTONE_LISTEN", value_parser = parse_address)]
    listen: Option<SocketAddr>,
    /// The directory of the data [default: tablestone-data]
    #[arg(long, value_name = "DIR", env = "TABLESTONE_DATA")]
    data: Option<PathBuf>,
    /// Where to answer /health, /ready, /metrics and /metrics/tables [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", env = "TABLESTONE_ADMIN")]
    admin: Option<Maybe>,
    /// Where POST /checkpoint of --admin makes backups of the data, each in a directory of its own
    /// [default: nowhere]
    #[arg(long, value_name = "DIR", env = "TABLESTONE_CHECKPOINTS")]
    checkpoints: Option<PathBuf>,
    /// When a write is acknowledged: sync (when it would survive a power cut), os, or the time
    /// between syncs such as 100ms [default: sync]
    #[arg(long, value_name = "WHEN", env = "TABLESTONE_DURABILITY", value_parser = parse_durability)]
    durability: Option<Durability>,
    /// Memory for the newest entities and for caches [default: a quarter of what there is, at most 256MiB]
    #[arg(long, value_name = "SIZE", env = "TABLESTONE_MEMORY")]
    memory: Option<Size>,
    /// How files are compressed that are written: automatic (what the memory does not hold), zstd or
    /// zstd:LEVEL (all, for space at the cost of speed), or none [default: automatic]
    #[arg(long, value_name = "HOW", env = "TABLESTONE_COMPRESSION", value_parser = parse_compression)]
    compression: Option<Compression>,
    /// The certificate to serve https with, as a PEM file, which is read again every minute
    #[arg(long, value_name = "FILE", env = "TABLESTONE_TLS_CERTIFICATE")]
    tls_certificate: Option<PathBuf>,
    /// The certificate's key, as a PEM file
    #[arg(long, value_name = "FILE", env = "TABLESTONE_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// The proxies, as addresses or networks (10.0.0.0/8) with commas between them, whose X-Forwarded-For and
    /// X-Forwarded-Proto are believed [default: none]
    #[arg(long, value_name = "ADDR", env = "TABLESTONE_TRUSTED_PROXIES", value_delimiter = ',')]
    trusted_proxies: Option<Vec<Network>>,
    /// Log each request
    #[arg(long, value_name = "BOOL", env = "TABLESTONE_ACCESS_LOG", num_args = 0..=1)]
    #[arg(default_missing_value = "true", value_parser = BoolishValueParser::new())]
    access_log: Option<bool>,
    /// What to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", env = "TABLESTONE_LOG", default_value = "info")]
    log: LevelFilter,
    /// Log as lines of JSON
    #[arg(long, value_name = "BOOL", env = "TABLESTONE_LOG_JSON", num_args = 0..=1)]
    #[arg(default_missing_value = "true", value_parser = BoolishValueParser::new())]
    log_json: Option<bool>,
}

impl Serve {
    pub(super) fn notices(&self) -> Notices {
        match self.log_json {
            Some(true) => Notices::Logged,
            _ => Notices::Plain,
        }
    }

    pub(super) fn run(self) -> Result<(), CliError> {
        let notices = self.notices();
        start_log(self.log, notices);
        let config = self.config(|name| std::env::var_os(name))?;
        run(runtime(notices)?, running::serve(config, notices))
    }

    /// What is said here, in variables that are no options, and in the file.
    fn config(self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Config, CliError> {
        let file = match &self.config {
            Some(path) => File::read(path)?.into_partial(),
            None => Partial::default(),
        };
        let said = Partial {
            listen: self.listen,
            admin: self.admin.and_then(|Maybe(admin)| admin),
            data: self.data,
            checkpoints: self.checkpoints,
            accounts: accounts("TABLESTONE_ACCOUNTS", &variable)?,
            tls_certificate: self.tls_certificate,
            tls_key: self.tls_key,
            trusted_proxies: self.trusted_proxies,
            durability: self.durability,
            memory: self.memory,
            compression: self.compression,
            access_log: self.access_log,
            ..Partial::default()
        };
        let mut said = said.or(file);
        if said.accounts.is_none() {
            // It may be there for another server: what was said to this one goes before it.
            said.accounts = accounts("AZURITE_ACCOUNTS", &variable)?;
        }
        Ok(said.resolve()?)
    }
}

/// An address; none if the text is empty, as where an environment can replace a variable and not take
/// it away.
#[derive(Clone, Copy, Debug)]
struct Maybe(Option<SocketAddr>);

impl FromStr for Maybe {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.is_empty() { Ok(Self(None)) } else { parse_address(text).map(|it| Self(Some(it))) }
    }
}

/// The accounts of a variable. They are secrets, which command lines show to everybody: there is
/// no option for them. A variable that says something and names nobody must not open the server to
/// everybody who knows the published key.
fn accounts(
    name: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<NamedKeys>, CliError> {
    let Some(text) = variable(name) else { return Ok(None) };
    let text = text.into_string().map_err(|_| format!("{name} is not of Unicode"))?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let accounts = parse_accounts(&text);
    if accounts.is_empty() {
        return Err(format!("{name} names no account: expected name:key").into());
    }
    Ok(Some(accounts))
}

/// Runs a server to its end, and does not wait for a checkpoint that was cut off: it may take hours, and no signal
/// would be heard of any more.
fn run<T>(runtime: Runtime, server: impl Future<Output = T>) -> T {
    let outcome = runtime.block_on(server);
    runtime.shutdown_background();
    outcome
}

/// The threads of a server. Where the system has not so many to give, tokio panics, and as that unwinds waits without
/// end for those that have begun: the process ends before.
fn runtime(notices: Notices) -> Result<Runtime, CliError> {
    let not_begun = |error: Error| format!("cannot begin to serve: {error}");
    system::check_descriptors().map_err(not_begun)?;
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        let why = panicked.payload().downcast_ref::<String>().map_or("", String::as_str);
        notices.fail(&*no_thread(why));
        process::exit(1);
    }));
    let runtime = Builder::new_multi_thread().enable_all().build();
    panic::set_hook(usual);
    Ok(runtime.map_err(not_begun)?)
}

/// Begins to log: as lines of JSON, if notices are among them.
fn start_log(level: LevelFilter, notices: Notices) {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt()
        .with_ansi(colours)
        // It would say on stderr that stderr cannot be written to, and panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match notices {
        Notices::Plain => log.with_max_level(level).init(),
        Notices::Logged => {
            let wanted = Targets::new().with_default(level).with_target(NOTICES, Level::INFO);
            let log = log.json().flatten_event(true).with_max_level(LevelFilter::TRACE);
            log.finish().with(wanted).init();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        serve: Serve,
    }

    /// R-S12: a checkpoint may take hours where files are copied, and nobody waits for one that was cut off.
    #[test]
    fn r_s12_what_goes_on_when_a_server_has_ended_is_not_waited_for() {
        let (release, released) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let server = run(Builder::new_multi_thread().build().unwrap(), async {
                let (begin, begun) = tokio::sync::oneshot::channel();
                tokio::task::spawn_blocking(move || {
                    let _ = begin.send(());
                    released.recv()
                });
                begun.await
            });
            end.send(server)
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(Ok(())));
        drop(release);
    }

    fn config(arguments: &[&str]) -> Config {
        let arguments = [&["serve"], arguments].concat();
        Cli::try_parse_from(arguments).unwrap().serve.config(|_| None).unwrap()
    }

    #[test]
    fn what_is_said_goes_before_the_file_also_if_it_is_no() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tablestone.toml");
        std::fs::write(&file, "access_log = true\nadmin = '127.0.0.1:1'").unwrap();
        let with = |arguments: &[&str]| {
            config(&[&["--config", file.to_str().unwrap()], arguments].concat())
        };
        assert!(with(&[]).access_log && config(&["--access-log"]).access_log);
        assert!(!config(&[]).access_log && !with(&["--access-log=false"]).access_log);
        let port = |config: Config| config.admin.map(|admin| admin.port());
        assert_eq!(port(with(&["--admin", "127.0.0.1:2"])), Some(2));
        assert_eq!(port(with(&["--admin="])), Some(1), "an empty one says nothing");
        assert_eq!(port(config(&["--admin="])), None);
    }

    /// What the accounts are called under these two variables, with a file that has an account or without.
    fn served(own: &str, other: &str, file: Option<&Path>) -> Result<String, String> {
        let variable = |name: &str| {
            let text = if name == "TABLESTONE_ACCOUNTS" { own } else { other };
            (text != "unset").then(|| text.into())
        };
        let mut serve = Cli::try_parse_from(["serve"]).unwrap().serve;
        serve.config = file.map(Path::to_owned);
        let config = serve.config(variable).map_err(|error| error.to_string())?;
        Ok(running::names(&config.accounts))
    }

    #[test]
    fn a_variable_without_accounts_does_not_hide_the_other() {
        let of = |own: &str, other: &str| served(own, other, None);
        let named = |name: &str| Ok(name.to_owned());
        assert_eq!(of("one:a2V5", "two:a2V5"), named("one"));
        assert_eq!(of("", "two:a2V5;three:a2V5"), named("two, three"));
        assert_eq!(of("unset", "two:a2V5"), named("two"));
        assert_eq!(of("unset", " "), named("devstoreaccount1"));
        let nobody = "TABLESTONE_ACCOUNTS names no account: expected name:key";
        assert_eq!(of(" ; ", "two:a2V5"), Err(nobody.to_owned()));
        let variable = |_: &str| Some(crate::cli::system::no_unicode());
        assert!(accounts("A", variable).unwrap_err().to_string().contains("Unicode"));
    }

    /// A variable of another server's does not replace the accounts that a file gives to this one.
    #[test]
    fn the_emulators_accounts_come_after_the_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tablestone.toml");
        std::fs::write(&file, "accounts = [{ name = 'filed', keys = ['a2V5'] }]").unwrap();
        let of = |own: &str, other: &str| served(own, other, Some(&file));
        assert_eq!(of("unset", "two:a2V5"), Ok("filed".to_owned()));
        assert_eq!(of("unset", " ; "), Ok("filed".to_owned()), "nor is it looked at");
        assert_eq!(of("one:a2V5", "two:a2V5"), Ok("one".to_owned()));
        std::fs::write(&file, "access_log = true").unwrap();
        assert_eq!(of("unset", "two:a2V5"), Ok("two".to_owned()));
    }
}
