//! A running server, from its configuration until it is told to stop.
//!
//! Invariant: a signal to stop is heeded from the first moment on, and what was acknowledged is durable, or as durable as
//! was asked for, when the process ends.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tablestone::{Database, Durability, Stats};
use tokio::task::JoinSet;

use super::system::{self, StopSignals};
use super::{CliError, no_thread, with_causes};
use crate::auth::Account;
use crate::config::Config;
use crate::net::{
    Admin, BehindProxies, Condition, ConnectionLimits, Listener, Readiness, Shutdown, Tls,
    on_own_thread,
};
use crate::service::{TableService, chain};
use crate::telemetry::Telemetry;

/// How often metrics are summed up.
const SUM_UP: Duration = Duration::from_secs(5);
/// File descriptors that are not for connections: the database's files, and a few of the process.
const OTHER_FILES: u64 = 1024;

/// Connections of operators at once: of those who ask for health and metrics there are few, so many at most, and this part
/// of those of clients, as each has a file descriptor that the database may want.
const OPERATORS: RangeInclusive<usize> = 4..=64;
const OPERATORS_PART: usize = 4;
/// What [`Notices`] are logged as.
pub(super) const NOTICES: &str = "tablestone_server::notices";

/// How operators are told that a server begins and ends, and what it fails with, whatever else is logged; nobody may
/// be there to read it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Notices {
    /// As they are, on stderr.
    Plain,
    /// In the log, as [`NOTICES`].
    Logged,
}

impl Notices {
    fn say(self, what: fmt::Arguments<'_>) {
        match self {
            Self::Plain => {
                let _ = writeln!(std::io::stderr(), "{what}");
            }
            Self::Logged => tracing::info!(target: NOTICES, "{what}"),
        }
    }

    pub(super) fn fail(self, error: &dyn Error) {
        let what = with_causes(error);
        match self {
            Self::Plain => self.say(format_args!("error: {what}")),
            Self::Logged => tracing::error!(target: NOTICES, "{what}"),
        }
    }
}

/// Runs a server until a signal tells it to stop.
pub(super) async fn serve(config: Config, notices: Notices) -> Result<(), CliError> {
    // A process that is the first of its container hears of no signal but those it asks for. Asked for before anything
    // else is done, one that comes at once, or while a large database is opened, stops the server in order too.
    let mut stop = pin!(first(StopSignals::new()?));
    system::survive_limits_of_files()?;
    let limits = connection_limits(config.limits.connection);
    let tls = match &config.tls {
        Some((certificate, key)) => Some(Tls::read(certificate, key)?),
        None => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (served, ready) = (Arc::new(OnceLock::new()), Readiness::default());
    let (shutdown, last_shutdown) = (Shutdown::new(), Shutdown::new());
    let (mut main, mut admin) = (JoinSet::new(), JoinSet::new());
    if let Some(address) = config.admin {
        // It answers while the database is opened, and until requests have ended.
        let listener = bind(address, None, limits_of_operators(limits)).await?;
        let address = listener.local_addr()?;
        notices.say(format_args!(
            "tablestone answers /health, /ready, /metrics/tables, /metrics on {address}"
        ));
        let handler = Arc::new(admin_of(&served, ready.clone(), &config));
        admin.spawn(listener.run(handler, &last_shutdown));
    }
    let Some(database) = open_unless(stop.as_mut(), &config).await? else {
        notices.say(format_args!("tablestone is stopping: it had not begun to listen"));
        return Ok(());
    };
    let telemetry = match config.admin {
        Some(_) => Telemetry::on(config.access_log),
        None => Telemetry::off(config.access_log),
    };
    let accounts = config.accounts.clone();
    tracing::info!(accounts = %names(&accounts), "tables are served of these accounts");
    let service = TableService::open(database, accounts, config.limits, telemetry).await?;
    let service = Arc::new(service);
    if let Some(tls) = tls.clone() {
        tokio::spawn(tls.keep_renewed());
    }
    let listener = bind(config.listen, tls, limits).await?;
    let address = listener.local_addr()?;
    let handler =
        Arc::new(BehindProxies::new(config.trusted_proxies.clone(), Arc::clone(&service)));
    main.spawn(listener.run(handler, &shutdown));
    if config.admin.is_some() {
        tokio::spawn(sum_up(Arc::clone(&service)));
    }
    let _ = served.set(Arc::clone(&service));
    ready.set(true);
    let data = config.data.display();
    notices.say(format_args!("tablestone listens on {scheme}://{address}, data in {data}"));
    if config.is_open_to_all() {
        tracing::warn!(
            "other machines may reach {address}, and an account has the emulator's key, \
             which everybody knows: give it another (TABLESTONE_ACCOUNTS=name:key)"
        );
    }
    let stopped = tokio::select! {
        () = stop => Ok(()),
        // They go on until they are told to stop, or something is wrong with them.
        Some(_) = main.join_next() => Err("a listener broke off"),
        Some(_) = admin.join_next() => Err("the listener for operators broke off"),
    };
    notices.say(format_args!("tablestone is stopping"));
    ready.set(false);
    for (shutdown, mut listeners) in [(shutdown, main), (last_shutdown, admin)] {
        shutdown.begin();
        while let Some(ended) = listeners.join_next().await {
            ended?;
        }
    }
    service.database().clone().close()?;
    Ok(stopped?)
}

/// The names of accounts, without their keys.
pub(super) fn names(accounts: &[Account]) -> String {
    accounts.iter().map(Account::name).collect::<Vec<_>>().join(", ")
}

async fn bind(
    address: SocketAddr,
    tls: Option<Tls>,
    limits: ConnectionLimits,
) -> Result<Listener, CliError> {
    let listener = Listener::bind(address, tls, limits).await;
    listener.map_err(|error| format!("cannot listen on {address}: {error}").into())
}

/// The database, unless the server is told to stop before it is open: then it is closed again, which takes as
/// long as opening does.
async fn open_unless(
    stop: impl Future<Output = ()>,
    config: &Config,
) -> Result<Option<Database>, CliError> {
    let config = config.clone();
    let opening = on_own_thread(move || open(&config));
    let mut opening = opening.map_err(no_thread)?;
    tokio::select! {
        biased;
        () = stop => {
            opening.await??.close()?;
            Ok(None)
        }
        database = &mut opening => Ok(Some(database??)),
    }
}

fn open(config: &Config) -> Result<Database, CliError> {
    let mut options =
        config.limits.options().durability(config.durability).compression(config.compression);
    if let Some(memory) = config.memory {
        options = options.memory_budget(memory);
    }
    let database = Database::open(&config.data, options)?;
    let report = database.recovery_report();
    if let Some(tail) = &report.torn_tail {
        match config.durability {
            Durability::Sync => {
                tracing::info!(
                    ?tail,
                    "the end of the log was torn: no acknowledged write was in it"
                );
            }
            _ => tracing::warn!(?tail, "the end of the log was torn, with what was not synced"),
        }
    }
    Ok(database)
}

/// What operators ask, of a service that is there when its database has been opened.
fn admin_of(served: &Arc<OnceLock<Arc<TableService>>>, ready: Readiness, config: &Config) -> Admin {
    let (asked, request_bytes) = (Arc::clone(served), config.limits.body.bytes as u64);
    let condition = move || {
        let service = asked.get();
        service.map(|it| condition(it.database().stats(), request_bytes)).unwrap_or_default()
    };
    let shown = |show: fn(&TableService) -> String| {
        let served = Arc::clone(served);
        move || served.get().map(|service| show(service)).unwrap_or_default()
    };
    let metrics = shown(|service| service.telemetry().render(&service.database().stats()));
    let admin = Admin::new(ready, condition, metrics, shown(TableService::table_metrics));
    let Some(under) = config.checkpoints.clone() else { return admin };
    let served = Arc::clone(served);
    admin.with_checkpoints(move || {
        let (served, under) = (Arc::clone(&served), under.clone());
        on_own_thread(move || {
            let service = served.get().ok_or("the data is not open yet")?;
            service.checkpoint(&under).map_err(|error| chain(&error))
        })
    })
}

/// What an engine can do for requests of so many bytes.
fn condition(stats: Stats, request_bytes: u64) -> Condition {
    // What is only behind catches up.
    let stopped = stats.background_error.and(stats.writes_stopped);
    let read_only = stats.poisoned.map(|why| format!("read-only: {why}"));
    let trouble = read_only.or_else(|| stopped.map(|why| format!("writes stop: {why}")));
    match (trouble, stats.commit_room_bytes) {
        (Some(why), _) => Condition::Troubled(why),
        (None, Some(room)) if room < request_bytes => {
            let what = "bytes are refused: the disk is nearly full";
            Condition::Short(format!("writes of more than {room} {what}"))
        }
        (None, _) => Condition::Well,
    }
}

async fn sum_up(service: Arc<TableService>) {
    let mut ticks = tokio::time::interval(SUM_UP);
    loop {
        ticks.tick().await;
        service.telemetry().sum_up();
    }
}

/// Waits for the first signal; another one afterwards ends the process at once.
async fn first(mut signals: StopSignals) {
    signals.next().await;
    tokio::spawn(async move {
        signals.next().await;
        // What was acknowledged is safe: stopping in order only saves work at the next start.
        std::process::exit(1);
    });
}

/// Lets the process have as many files as it may, and no more connections than leave enough for the
/// database: it cannot do without its files.
fn connection_limits(mut limits: ConnectionLimits) -> ConnectionLimits {
    if let Some(files) = system::raise_open_files() {
        let most = files.saturating_sub(OTHER_FILES).max(files / 2);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most < limits.connections {
            tracing::warn!("{files} open files allow for {most} connections");
            limits.connections = most;
        }
    }
    limits
}

/// What those may take who ask for health and metrics.
fn limits_of_operators(limits: ConnectionLimits) -> ConnectionLimits {
    let connections = limits.connections / OPERATORS_PART;
    let connections = connections.clamp(*OPERATORS.start(), *OPERATORS.end());
    ConnectionLimits { connections, ..limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_of_room_is_told_where_a_request_may_be_larger() {
        let told = |room| {
            let mut stats = Stats::default();
            stats.commit_room_bytes = room;
            condition(stats, 4096)
        };
        assert_eq!((told(None), told(Some(4096))), (Condition::Well, Condition::Well));
        let expected = "writes of more than 4095 bytes are refused: the disk is nearly full";
        assert_eq!(told(Some(4095)), Condition::Short(expected.into()));
    }
}
