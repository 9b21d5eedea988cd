//! [`Store`]: an account's tables, in a data directory or at a server.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tablestone::{Database, Durability, Entity, EntityTable, Error, Options, ReadMode, Version};

use super::CliError;
use super::ask::Ask;
use super::output::first_of;
use super::place::Purpose;
use crate::auth::Account;
use crate::client::{Client, ClientError, Page, PageKey};
use crate::config::{DEVELOPMENT_ACCOUNT, Limits, check_account_name};
use crate::error::ErrorCode;
use crate::service::{NewTable, TableService};
use crate::telemetry::Telemetry;

/// Most entities of a page of a server, unless it has other limits.
const PAGE: u64 = 1_000;

/// An account's tables.
pub(super) enum Store {
    Local(Local),
    Remote(Client),
}

/// An entity and its version, which is [`Version::ZERO`] where nobody wants it.
pub(super) type Row = (Entity, Version);

/// Pages of entities, in key order.
pub(super) type Pages<'a> = Box<dyn Iterator<Item = Result<Vec<Row>, CliError>> + 'a>;

impl Store {
    /// The names of all tables, in order.
    pub(super) fn tables(&self) -> Result<Vec<String>, CliError> {
        Ok(match self {
            Self::Local(local) => local.service.table_names(&local.account),
            Self::Remote(client) => client.tables()?,
        })
    }

    /// The entities of a table that are asked for. The first page has been read: that a table is not there is
    /// found out before anything is written.
    pub(super) fn pages<'a>(&'a self, table: &'a str, ask: &'a Ask) -> Result<Pages<'a>, CliError> {
        let mut pages: Pages<'a> = match self {
            Self::Local(local) => {
                let table = local.table(table).ok_or_else(|| self.no_table(table))?;
                Box::new(local_pages(&table, ask))
            }
            Self::Remote(client) => {
                let pages =
                    RemotePages { client, table, ask, left: ask.top, most: None, at: At::Start };
                Box::new(pages.map(|page| match page {
                    Err(error) if error.is(ErrorCode::TableNotFound) => Err(self.no_table(table)),
                    page => Ok(page?),
                }))
            }
        };
        let first = pages.next().transpose()?;
        Ok(Box::new(first.map(Ok).into_iter().chain(pages)))
    }

    /// The error of a table that is not there, with those that are.
    fn no_table(&self, table: &str) -> CliError {
        let names = match self.tables() {
            Ok(names) => names,
            Err(error) => return error,
        };
        let others = match names.is_empty() {
            true => "nor any other".to_owned(),
            false => format!("only {}", first_of(names)),
        };
        format!("there is no table {table} in {self}, {others}").into()
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(local) if local.account == DEVELOPMENT_ACCOUNT => {
                write!(f, "{}", local.data.display())
            }
            Self::Local(local) => {
                write!(f, "{} of account {}", local.data.display(), local.account)
            }
            Self::Remote(client) => client.endpoint().fmt(f),
        }
    }
}

/// An account's tables in a data directory that no server has open.
pub(super) struct Local {
    service: Box<TableService>,
    account: String,
    data: PathBuf,
}

impl Local {
    pub(super) fn open(
        data: PathBuf,
        account: &str,
        purpose: Purpose<'_>,
    ) -> Result<Self, CliError> {
        if purpose == Purpose::Read && holds_nothing(&data) {
            let shown = data.display();
            return Err(format!(
                "there is no data directory {shown}: name one with --data, or a server with --url"
            )
            .into());
        }
        let (limits, options) = match purpose {
            Purpose::Read => (Limits::default(), Options::default().read_only(true)),
            Purpose::Write(compression, limits) => {
                // What an import writes at once it gathers by the service's count; stored it may be more.
                let options = limits.options().batch_bytes(Limits::MOST_BYTES);
                (*limits, options.compression(compression))
            }
        };
        // What is imported is synced once, at the end.
        let options = options.durability(Durability::Os);
        let elsewhere = "if that is a server, use --url with its address";
        let database = open_database(&data, options, elsewhere)?;
        let accounts = vec![account_of(account)?];
        let telemetry = Telemetry::off(false);
        let service = match purpose {
            Purpose::Read => TableService::open_to_read(database, accounts, limits, telemetry)?,
            Purpose::Write(..) => wait(TableService::open(database, accounts, limits, telemetry))??,
        };
        Ok(Self { service: Box::new(service), account: account.to_owned(), data })
    }

    pub(super) fn database(&self) -> &Database {
        self.service.database()
    }

    pub(super) fn table(&self, table: &str) -> Option<EntityTable> {
        self.service.entities(&self.account, table)
    }

    /// Begins to load a table; `None` if there is one of that name.
    pub(super) fn load_table(&self, table: &str) -> Result<Option<NewTable>, CliError> {
        Ok(self.service.load_table(&self.account, table)?)
    }
}

/// Whether there is no directory, or none that a database was ever made in: a lock alone is of who tried.
pub(super) fn holds_nothing(data: &Path) -> bool {
    match std::fs::read_dir(data) {
        Ok(mut files) => files.all(|file| file.is_ok_and(|file| file.file_name() == "LOCK")),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// The database in a directory; says what to do if another process has it open. What the device fails to read is
/// an error, and does not end the process: table files are not mapped.
pub(super) fn open_database(
    data: &Path,
    options: Options,
    elsewhere: &str,
) -> Result<Database, CliError> {
    Database::open(data, options.read_mode(ReadMode::Pread)).map_err(|error| match error {
        Error::Locked(_) => {
            format!("{} is open in another process; {elsewhere}", data.display()).into()
        }
        error => error.into(),
    })
}

/// An account of this name, which nobody signs in to.
pub(super) fn account_of(name: &str) -> Result<Account, CliError> {
    check_account_name(name)?;
    Ok(Account::new(name, Vec::new()))
}

/// Waits for what needs no more of a runtime than somebody to poll it.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> Result<T, CliError> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?.block_on(future))
}

fn local_pages(
    table: &EntityTable,
    ask: &Ask,
) -> impl Iterator<Item = Result<Vec<Row>, CliError>> + use<> {
    let mut query = table.query();
    if let Some(condition) = &ask.filter {
        query = query.filter(condition.filter.clone());
    }
    if let Some(names) = ask.select.names() {
        query = query.select(names);
    }
    if let Some(top) = ask.top {
        query = query.top(top);
    }
    query.pages().map(|page| {
        let rows = page?.to_entities()?.into_iter().map(|entity| {
            let version = entity.version().unwrap_or(Version::ZERO);
            (entity, version)
        });
        Ok(rows.collect())
    })
}

/// Where in a server's table the next page is.
enum At {
    Start,
    Key(PageKey),
    End,
}

/// The pages of a server.
struct RemotePages<'a> {
    client: &'a Client,
    table: &'a str,
    ask: &'a Ask,
    /// How many entities are still wanted.
    left: Option<u64>,
    /// How many a page may have, where those of the server's own size are too long.
    most: Option<u64>,
    at: At,
}

impl RemotePages<'_> {
    fn page(&mut self, from: Option<&PageKey>) -> Result<Page, ClientError> {
        let Ask { filter, select, .. } = self.ask;
        let filter = filter.as_ref().map(|condition| &*condition.text);
        // The server's pages may be smaller: then those that it makes of itself are within what is left.
        let mut may_ask = true;
        loop {
            let wanted = [self.left.map(|left| left.min(PAGE)), self.most];
            let top = wanted.into_iter().flatten().min().filter(|_| may_ask);
            match self.client.page(self.table, filter, select.names(), top, from) {
                Err(ClientError::TooLong { .. }) if top != Some(1) && self.most != Some(1) => {
                    self.most = Some(top.or(self.most).unwrap_or(PAGE).div_ceil(2));
                    may_ask = true;
                }
                Err(error) if top.is_some() && error.is(ErrorCode::InvalidInput) => may_ask = false,
                page => return page,
            }
        }
    }
}

impl Iterator for RemotePages<'_> {
    type Item = Result<Vec<Row>, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let from = match std::mem::replace(&mut self.at, At::End) {
            At::Start => None,
            At::Key(key) => Some(key),
            At::End => return None,
        };
        match self.page(from.as_ref()) {
            Ok(page) => {
                self.left = self.left.map(|left| left.saturating_sub(page.entities.len() as u64));
                if let Some(next) = page.next.filter(|_| self.left != Some(0)) {
                    self.at = At::Key(next);
                }
                Some(Ok(page.entities))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
