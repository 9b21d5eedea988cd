//! [`AccountState`]: an account with its tables and settings, in memory.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::catalog::TableState;
use super::keys::TABLE_NAME;
use crate::auth::Account;
use crate::error::{ErrorCode, ServiceError};
use crate::wire::xml::{ServiceProperties, SignedIdentifier};

/// How long a change waits for others before the client hears that the server is busy.
const PATIENCE: Duration = Duration::from_secs(2);

/// All accounts by name.
#[derive(Default)]
pub(super) struct Accounts {
    by_name: HashMap<Box<str>, Arc<AccountState>>,
}

impl Accounts {
    pub(super) fn new(accounts: Vec<Account>) -> Self {
        let states = accounts.into_iter().map(|account| {
            let name = account.name().into();
            (name, Arc::new(AccountState::new(account)))
        });
        Self { by_name: states.collect() }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<AccountState>> {
        self.by_name.get(name)
    }

    /// In the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AccountState> {
        let mut accounts: Vec<_> = self.by_name.values().map(|account| &**account).collect();
        accounts.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        accounts.into_iter()
    }
}

/// An account as requests see it. The catalog changes it, after the database has changed.
pub(super) struct AccountState {
    account: Account,
    /// By the name in lower case.
    tables: RwLock<HashMap<Box<str>, Arc<TableState>>>,
    properties: ArcSwap<ServiceProperties>,
    /// Held while tables or settings change, so that memory and database change in one order.
    changing: Arc<Mutex<()>>,
}

/// An account that nobody else changes meanwhile.
pub(super) struct Changing {
    account: Arc<AccountState>,
    _lock: OwnedMutexGuard<()>,
}

impl Deref for Changing {
    type Target = AccountState;

    fn deref(&self) -> &AccountState {
        &self.account
    }
}

impl AccountState {
    fn new(account: Account) -> Self {
        Self {
            account,
            tables: RwLock::default(),
            properties: ArcSwap::default(),
            changing: Arc::default(),
        }
    }

    /// Waits for changes that were asked for before, for a while: a client that does not wait leaves
    /// nothing to be done.
    pub(super) async fn change(self: &Arc<Self>) -> Result<Changing, ServiceError> {
        timeout(PATIENCE, self.changing()).await.map_err(|_| ErrorCode::ServerBusy.error())
    }

    /// Waits for them for as long as it takes.
    pub(super) async fn changing(self: &Arc<Self>) -> Changing {
        let lock = Arc::clone(&self.changing).lock_owned().await;
        Changing { account: Arc::clone(self), _lock: lock }
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    pub(super) fn name(&self) -> &str {
        self.account.name()
    }

    /// A table by its name in whatever case.
    pub(super) fn table(&self, name: &str) -> Option<Arc<TableState>> {
        let mut lower = [0; *TABLE_NAME.end()];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        self.tables.read().get(std::str::from_utf8(lower).ok()?).cloned()
    }

    /// In the order of their names in lower case.
    pub(super) fn tables(&self) -> Vec<Arc<TableState>> {
        let tables = self.tables.read();
        let mut by_name: Vec<_> = tables.iter().collect();
        by_name.sort_unstable_by_key(|(name, _)| *name);
        by_name.into_iter().map(|(_, table)| Arc::clone(table)).collect()
    }

    pub(super) fn insert(&self, table: Arc<TableState>) {
        self.tables.write().insert(table.name.to_ascii_lowercase().into(), table);
    }

    pub(super) fn remove(&self, name: &str) {
        self.tables.write().remove(&*name.to_ascii_lowercase());
    }

    /// A table's stored access policies.
    pub(super) fn policies(&self, table: &str) -> Option<Vec<SignedIdentifier>> {
        Some(self.table(table)?.policies.load().to_vec())
    }

    pub(super) fn properties(&self) -> Arc<ServiceProperties> {
        self.properties.load_full()
    }

    pub(super) fn set_properties(&self, properties: ServiceProperties) {
        self.properties.store(Arc::new(properties));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_waits_for_another_and_not_for_ever() {
        let account = Arc::new(AccountState::new(Account::new("account", Vec::new())));
        let first = account.change().await.unwrap();
        let busy = account.change().await.err().map(|error| error.code());
        assert_eq!(busy, Some(ErrorCode::ServerBusy));
        drop(first);
        assert!(account.change().await.is_ok());
    }
}
