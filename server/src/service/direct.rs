//! An account's tables for who has the database in the same process, and no requests: the command
//! line, which works on the directory of a server that does not run.

use std::sync::Arc;

use tablestone::{Entity, EntityTable, Error, TableLoader};

use super::account::AccountState;
use super::catalog::Catalog;
use super::{TableService, keys};
use crate::auth::unknown_account;
use crate::error::ServiceError;

/// Why a table cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum LoadError {
    /// There can be none of that name or account.
    Refused(#[from] ServiceError),
    Engine(#[from] Error),
}

impl TableService {
    /// The entities of a table; `None` if there is no such table, or no such account.
    pub(crate) fn entities(&self, account: &str, table: &str) -> Option<EntityTable> {
        Some(self.accounts.get(account)?.table(table)?.entities.clone())
    }

    /// The names of an account's tables, in order.
    pub(crate) fn table_names(&self, account: &str) -> Vec<String> {
        let tables = self.accounts.get(account).map(|account| account.tables());
        tables.into_iter().flatten().map(|table| table.name.to_string()).collect()
    }

    /// Begins to load a table; `None` if there is one of that name.
    pub(crate) fn load_table(
        &self,
        account: &str,
        table: &str,
    ) -> Result<Option<NewTable>, LoadError> {
        keys::check_table_name(table)?;
        let account = self.accounts.get(account).ok_or_else(|| unknown_account(account))?;
        if account.table(table).is_some() {
            return Ok(None);
        }
        let loader = self.catalog.begin_load(account, table)?;
        let (catalog, account) = (Arc::clone(&self.catalog), Arc::clone(account));
        Ok(Some(NewTable { catalog, account, name: table.into(), loader }))
    }
}

/// A table that is loaded from entities in key order. Dropped before it is
/// [finished](Self::finish), it never was.
pub(crate) struct NewTable {
    catalog: Arc<Catalog>,
    account: Arc<AccountState>,
    name: Box<str>,
    loader: TableLoader,
}

impl NewTable {
    /// Adds the next entity; `false` if that takes other ways: it does not come after the one
    /// before.
    pub(crate) fn put(&mut self, entity: &Entity) -> Result<bool, Error> {
        match self.loader.put_entity(entity) {
            Err(Error::OutOfOrder(_)) => Ok(false),
            put => put.map(|()| true),
        }
    }

    /// Makes the table, with all entities that were put.
    pub(crate) async fn finish(self) -> Result<(), Error> {
        let account = self.account.changing().await;
        self.catalog.end_load(&account, &self.name, self.loader).await
    }
}
