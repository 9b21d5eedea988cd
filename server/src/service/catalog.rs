//! [`Catalog`]: what tables and settings accounts have, in a table of its own.
//!
//! The row of a table is what makes it exist. To create one, a table of the engine is made under a
//! name that no other has, then the row is inserted; to delete it, the row is deleted, then the
//! engine's table dropped, which takes constant time, so its name is free at once (R-S10). While the
//! engine's table is there and the row is not, a row of its own says what is being done with it
//! ([`Intent`]): what a crash leaves of that is dropped at the next start, and nothing else ever is.
//! Requests see memory, which is changed when the database has been.
//!
//! Rows have the account for a PartitionKey; the RowKey is `table:` and the name in lower case,
//! `service` for the account's settings, or that of an intent.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tablestone::{
    Continuation, Database, Entity, EntityBatch, EntityLimits, EntityQuery, EntityTable, Error,
    Filter, Precondition, Table, TableLoader, Value,
};
use uuid::Uuid;

use super::account::{AccountState, Accounts, Changing};
use super::failure;
use super::intent::{Aim, Found, Intent};
use crate::auth::Account;
use crate::error::{ErrorCode, ServiceError};
use crate::wire::xml::{
    ServiceProperties, SignedIdentifier, XmlError, parse_acl, parse_properties, print_acl,
    print_properties,
};

/// The engine's table of all this. No other has a dollar sign in its name.
pub(super) const META: &str = "$meta";
/// What the RowKey of a table's row begins with.
pub(super) const TABLE_ROW: &str = "table:";
/// The RowKey of an account's settings.
pub(super) const SERVICE_ROW: &str = "service";
/// A table's name in the case it was created in; what Query Tables filters by.
pub(super) const NAME: &str = "TableName";
/// The name of the engine's table.
pub(super) const ENGINE_TABLE: &str = "EngineTable";
/// A table's access policies, as XML.
const ACL: &str = "Acl";
/// An account's settings, as XML.
pub(super) const PROPERTIES: &str = "Properties";

/// Why the service cannot run on a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The engine cannot read it.
    #[error("cannot read the catalog of tables: {0}")]
    Engine(#[from] Error),
    /// The engine cannot write it, as on a full disk.
    #[error("cannot write the catalog of tables: {0}")]
    Write(#[source] Error),
    /// A row of the catalog is not as this build writes it.
    #[error("row ({partition_key:?}, {row_key:?}) of the catalog of tables: {reason}")]
    Row {
        /// Its PartitionKey: the account.
        partition_key: String,
        /// Its RowKey.
        row_key: String,
        /// What is wrong.
        reason: String,
    },
    /// The database holds tables, and no catalog of them.
    #[error("the database holds tables that no server made, such as {table:?}")]
    Foreign {
        /// One of them.
        table: String,
    },
}

/// A condition on tables' names as one on rows of the catalog: names are compared, as they are listed,
/// in lower case. It asks for nothing else.
pub(super) fn of_rows(filter: Filter) -> Filter {
    filter.map_comparisons(|_, constant| {
        let constant = match constant {
            Value::String(name) => format!("{TABLE_ROW}{}", name.to_ascii_lowercase()).into(),
            other => other,
        };
        ("RowKey".into(), constant)
    })
}

/// The name that a query over tables goes on at.
pub(super) fn next_table(next: &Continuation) -> Option<&[u8]> {
    next.row_key().strip_prefix(TABLE_ROW.as_bytes())
}

/// The catalog's table, if the database has one.
fn find_meta(database: &Database) -> Result<Option<Table>, OpenError> {
    match database.table(META) {
        Ok(meta) => Ok(Some(meta)),
        Err(Error::TableNotFound(_)) => match database.tables(None, 1)?.names.pop() {
            Some(table) => Err(OpenError::Foreign { table }),
            None => Ok(None),
        },
        Err(error) => Err(error.into()),
    }
}

/// A name for a table of the engine that no other has.
fn engine_table(account: &AccountState, name: &str) -> String {
    format!("{}/{}/{}", account.name(), name.to_ascii_lowercase(), Uuid::new_v4())
}

/// The account and the name, in lower case, that are in such a name.
pub(super) fn made_for(engine_table: &str) -> Option<(&str, &str)> {
    let (rest, id) = engine_table.rsplit_once('/')?;
    Uuid::try_parse(id).ok()?;
    rest.split_once('/')
}

/// The RowKey of a table's row.
fn row_key(name: &str) -> String {
    format!("{TABLE_ROW}{}", name.to_ascii_lowercase())
}

/// The row of a table whose entities are in that table of the engine.
pub(super) fn table_row(account: &str, name: &str, engine_table: &str) -> Entity {
    Entity::new(account, row_key(name)).with(NAME, name).with(ENGINE_TABLE, engine_table)
}

/// A table as requests see it.
pub(super) struct TableState {
    /// In the case it was created in.
    pub(super) name: Box<str>,
    pub(super) entities: EntityTable,
    pub(super) policies: ArcSwap<Vec<SignedIdentifier>>,
}

/// The catalog's table, and the database.
pub(super) struct Catalog {
    database: Database,
    /// None only in a database without tables that was opened to be read.
    meta: Option<EntityTable>,
}

impl Catalog {
    /// Reads the catalog into memory, and ends what the server before left half done.
    pub(super) async fn open(
        database: Database,
        accounts: Vec<Account>,
    ) -> Result<(Self, Accounts), OpenError> {
        let meta = match find_meta(&database)? {
            Some(meta) => meta,
            None => database.create_table(META).await.map_err(OpenError::Write)?,
        };
        let (catalog, accounts, found) = Self::read(database, accounts, Some(meta))?;
        found.end(&catalog.database, catalog.meta()?).await.map_err(OpenError::Write)?;
        Ok((catalog, accounts))
    }

    /// Reads the catalog into memory, and writes nothing.
    pub(super) fn open_to_read(
        database: Database,
        accounts: Vec<Account>,
    ) -> Result<(Self, Accounts), OpenError> {
        let meta = find_meta(&database)?;
        let (catalog, accounts, _) = Self::read(database, accounts, meta)?;
        Ok((catalog, accounts))
    }

    fn read(
        database: Database,
        accounts: Vec<Account>,
        meta: Option<Table>,
    ) -> Result<(Self, Accounts, Found), OpenError> {
        let accounts = Accounts::new(accounts);
        // Limits are those of clients' entities.
        let meta =
            meta.map(|meta| meta.entities().with_limits(EntityLimits::default())).transpose()?;
        let catalog = Self { database, meta };
        let mut found = Found::new(META);
        for row in catalog.meta.iter().flat_map(|meta| meta.query().entities()) {
            let row = row?;
            match Intent::of_row(&row) {
                Some(intent) => found.intents.push(intent),
                None => found.known.extend(catalog.load(&accounts, &row)?),
            }
        }
        Ok((catalog, accounts, found))
    }

    fn meta(&self) -> Result<&EntityTable, Error> {
        self.meta.as_ref().ok_or_else(|| Error::TableNotFound(META.into()))
    }

    /// Takes a row into memory, unless its account is not served at present; gives the name of its
    /// engine's table.
    fn load(&self, accounts: &Accounts, row: &Entity) -> Result<Option<String>, OpenError> {
        let wrong = |reason: String| OpenError::Row {
            partition_key: row.partition_key().to_owned(),
            row_key: row.row_key().to_owned(),
            reason,
        };
        let text = |name: &str| {
            row.get_as::<&str>(name).ok_or_else(|| wrong(format!("it has no text {name}")))
        };
        let account = accounts.get(row.partition_key());
        let xml = |error: XmlError| wrong(error.to_string());
        if row.row_key() == SERVICE_ROW {
            let update = parse_properties(text(PROPERTIES)?.as_bytes()).map_err(xml)?;
            if let Some(account) = account {
                let mut properties = ServiceProperties::default();
                properties.apply(update);
                account.set_properties(properties);
            }
            return Ok(None);
        }
        if !row.row_key().starts_with(TABLE_ROW) {
            return Err(wrong("this build knows no such row".into()));
        }
        let engine_table = text(ENGINE_TABLE)?;
        if let Some(account) = account {
            let policies = match row.get_as::<&str>(ACL) {
                Some(acl) => parse_acl(acl.as_bytes()).map_err(xml)?,
                None => Vec::new(),
            };
            let (name, policies) = (text(NAME)?, ArcSwap::from_pointee(policies));
            match self.database.table(engine_table) {
                Ok(table) => {
                    let (name, entities) = (name.into(), table.entities());
                    account.insert(Arc::new(TableState { name, entities, policies }));
                }
                // Salvage can lose a table, or its name. All others are there to be served.
                Err(Error::TableNotFound(_)) => {
                    let account = account.name();
                    tracing::warn!(account, name, engine_table, "the data of a table is lost");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(engine_table.to_owned()))
    }

    /// A query over an account's tables by name, from a name on in whatever case.
    pub(super) fn tables(&self, account: &str, from: Option<&str>) -> Result<EntityQuery, Error> {
        let query = self.meta()?.query().partition(account).row_prefix(TABLE_ROW);
        Ok(match from {
            Some(from) => query.continue_from(Continuation::new(account, row_key(from))),
            None => query,
        })
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Creates a table; its name was checked.
    pub(super) async fn create(
        &self,
        account: &Changing,
        name: &str,
    ) -> Result<Arc<TableState>, ServiceError> {
        if account.table(name).is_some() {
            return Err(ErrorCode::TableAlreadyExists.error());
        }
        let intent = Intent::new(Aim::Create, account.name(), engine_table(account, name));
        let table = async { self.database.create_table(intent.engine_table()).await };
        let made = self.make(account, name, &intent, table).await;
        made.map_err(|error| failure::of(&error))
    }

    /// Begins to load what is to be a table of this name.
    pub(super) fn begin_load(
        &self,
        account: &AccountState,
        name: &str,
    ) -> Result<TableLoader, Error> {
        self.database.load_table(&engine_table(account, name))
    }

    /// Makes a table of what was loaded, if the name is free.
    pub(super) async fn end_load(
        &self,
        account: &Changing,
        name: &str,
        loader: TableLoader,
    ) -> Result<(), Error> {
        if account.table(name).is_some() {
            return Err(Error::TableExists(name.into()));
        }
        let intent = Intent::new(Aim::Load, account.name(), loader.name().to_owned());
        let table = async {
            loader.finish()?;
            self.database.table(intent.engine_table())
        };
        self.make(account, name, &intent, table).await.map(drop)
    }

    /// Has a table of the engine made once the intent to is durable, and gives it a row in the intent's place. If
    /// that fails, what was made goes.
    async fn make(
        &self,
        account: &Changing,
        name: &str,
        intent: &Intent,
        table: impl Future<Output = Result<Table, Error>>,
    ) -> Result<Arc<TableState>, Error> {
        let made = async {
            let meta = self.meta()?;
            meta.insert(&intent.row()).await?;
            let entities = table.await?.entities();
            let row = table_row(account.name(), name, entities.name());
            let mut batch = EntityBatch::new(account.name());
            // There may be the row of a table whose data is lost: it is no table any more.
            batch.insert_or_replace(&row).delete(intent.row_key(), Precondition::None);
            meta.commit(batch).await?;
            let policies = ArcSwap::default();
            let state = Arc::new(TableState { name: name.into(), entities, policies });
            account.insert(Arc::clone(&state));
            Ok(state)
        };
        let made = made.await;
        if made.is_err() {
            self.give_up(intent).await;
        }
        made
    }

    /// Drops the engine's table of an intent, if it was made. Where that fails, the next start tries
    /// again.
    async fn give_up(&self, intent: &Intent) {
        let Ok(meta) = self.meta() else { return };
        if let Err(error) = intent.drop_table(&self.database, meta).await {
            let table = intent.engine_table();
            tracing::warn!(%error, table, "the data of a table that is none stays for now");
        }
    }

    /// Deletes a table with all that is in it.
    pub(super) async fn delete(&self, account: &Changing, name: &str) -> Result<(), ServiceError> {
        let table = account.table(name).ok_or(ErrorCode::ResourceNotFound)?;
        let intent = Intent::new(Aim::Delete, account.name(), table.entities.name().to_owned());
        let mut batch = EntityBatch::new(account.name());
        batch.delete(row_key(name), Precondition::Exists).insert(&intent.row());
        let deleted = async { self.meta()?.commit(batch).urgent().await }.await;
        deleted.map_err(|error| failure::of(&error))?;
        account.remove(name);
        self.give_up(&intent).await;
        Ok(())
    }

    /// Replaces a table's access policies.
    pub(super) async fn set_policies(
        &self,
        account: &Changing,
        table: &TableState,
        policies: Vec<SignedIdentifier>,
    ) -> Result<(), ServiceError> {
        if !account.table(&table.name).is_some_and(|now| std::ptr::eq(&raw const *now, table)) {
            return Err(ErrorCode::TableNotFound.error());
        }
        let acl = String::from_utf8_lossy(&print_acl(&policies)).into_owned();
        let row = Entity::new(account.name(), row_key(&table.name)).with(ACL, acl);
        let stored = async { self.meta()?.merge(&row, Precondition::Exists).await }.await;
        stored.map_err(|error| failure::of(&error))?;
        table.policies.store(Arc::new(policies));
        Ok(())
    }

    /// Changes an account's settings.
    pub(super) async fn set_properties(
        &self,
        account: &Changing,
        change: impl FnOnce(&mut ServiceProperties),
    ) -> Result<(), ServiceError> {
        let mut properties = (*account.properties()).clone();
        change(&mut properties);
        let text = String::from_utf8_lossy(&print_properties(&properties)).into_owned();
        let row = Entity::new(account.name(), SERVICE_ROW).with(PROPERTIES, text);
        let stored = async { self.meta()?.insert_or_replace(&row).await }.await;
        stored.map_err(|error| failure::of(&error))?;
        account.set_properties(properties);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
