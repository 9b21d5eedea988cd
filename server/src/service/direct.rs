//! An account's tables for who has the database in the same process, and no requests: the command
//! line, which works on the directory of a server that does not run.

use tablestone::{EntityTable, Error};

use super::{TableService, catalog, keys};
use crate::auth::unknown_account;
use crate::error::{ErrorCode, ServiceError};

impl TableService {
    /// The entities of a table; `None` if there is no such table, or no such account.
    pub(crate) fn entities(&self, account: &str, table: &str) -> Option<EntityTable> {
        Some(self.accounts.get(account)?.table(table)?.entities.clone())
    }

    /// The names of an account's tables, in order.
    pub(crate) fn table_names(&self, account: &str) -> Result<Vec<String>, Error> {
        let rows = self.catalog.tables(account, None).entities();
        let name = |row: tablestone::Entity| row.get_as::<&str>(catalog::NAME).map(str::to_owned);
        rows.filter_map(|row| row.map(name).transpose()).collect()
    }

    /// Creates a table unless there is one of that name.
    pub(crate) async fn create_table_if_missing(
        &self,
        account: &str,
        table: &str,
    ) -> Result<(), ServiceError> {
        keys::check_table_name(table)?;
        let account = self.accounts.get(account).ok_or_else(|| unknown_account(account))?;
        match self.catalog.create(account, table).await {
            Err(error) if error.code() != ErrorCode::TableAlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}
