//! [`Intent`]: a change of a table that has begun, while the engine's table has no row in the catalog: not yet, or no
//! longer.
//!
//! An intent is durable before the engine's table is without a row. It is deleted by the commit that inserts the row,
//! or once the engine's table is dropped. So an intent that a start finds is that of a change which a crash broke off,
//! and its table can be dropped, but for what salvage may have done:
//!
//! * It may have lost the commit that inserted a row. Then the intent is back, and the table may hold what clients were
//!   promised to keep. So a table that was to be created is dropped only while it is empty.
//! * A table that is loaded is full before it has its row, and is dropped whatever is in it. So salvage
//!   [forgets the intents](super::salvage) of those that it finds.
//!
//! A table of the engine with neither row nor intent is kept: salvage has lost its name or its row, or a build without
//! intents crashed. It is [named again](super::salvage) where that is asked for.

use std::collections::HashSet;

use tablestone::{Commit, Database, Entity, EntityTable, Error, Precondition, Version};

/// Names of engine's tables that are listed at once.
const LIST: usize = 1_000;

/// What an intent is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    Create,
    /// Its table holds all of its entities already.
    Load,
    /// Its table had a row, which was deleted.
    Delete,
}

impl Aim {
    const ALL: [Self; 3] = [Self::Create, Self::Load, Self::Delete];

    /// What the RowKey of such an intent begins with; the engine's table follows.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Create => "create:",
            Self::Load => "load:",
            Self::Delete => "delete:",
        }
    }
}

/// A change of a table that has begun.
#[derive(Debug)]
pub(super) struct Intent {
    aim: Aim,
    account: String,
    engine_table: String,
}

impl Intent {
    pub(super) fn new(aim: Aim, account: &str, engine_table: String) -> Self {
        Self { aim, account: account.to_owned(), engine_table }
    }

    /// The intent that a row of the catalog is, if it is one.
    pub(super) fn of_row(row: &Entity) -> Option<Self> {
        Aim::ALL.into_iter().find_map(|aim| {
            let engine_table = row.row_key().strip_prefix(aim.prefix())?.to_owned();
            Some(Self::new(aim, row.partition_key(), engine_table))
        })
    }

    pub(super) fn engine_table(&self) -> &str {
        &self.engine_table
    }

    pub(super) fn aim(&self) -> Aim {
        self.aim
    }

    pub(super) fn row_key(&self) -> String {
        format!("{}{}", self.aim.prefix(), self.engine_table)
    }

    pub(super) fn row(&self) -> Entity {
        Entity::new(self.account.as_str(), self.row_key())
    }

    /// Drops the engine's table, if it is there, and then gives the intent up.
    pub(super) async fn drop_table(
        &self,
        database: &Database,
        meta: &EntityTable,
    ) -> Result<(), Error> {
        match database.drop_table(&self.engine_table).await {
            Ok(_) | Err(Error::TableNotFound(_)) => self.forget(meta),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Takes the intent's row away. Nobody waits for it: one that stays is found at the next start, and
    /// what it is about is then as it should be.
    fn forget(&self, meta: &EntityTable) {
        drop(self.delete_row(meta));
    }

    pub(super) fn delete_row(&self, meta: &EntityTable) -> Commit<Version> {
        meta.delete(&self.account, self.row_key(), Precondition::None)
    }

    /// Does what the server before had begun with a table that no row names.
    async fn end(&self, database: &Database, meta: &EntityTable) -> Result<(), Error> {
        let table = self.engine_table();
        if self.aim == Aim::Create && !is_empty(database, table)? {
            self.forget(meta);
            return Ok(());
        }
        tracing::info!(table, "dropping a table whose creation, load or deletion broke off");
        self.drop_table(database, meta).await
    }
}

/// Whether there is nothing in a table, or no such table. What cannot be read is something.
pub(super) fn is_empty(database: &Database, table: &str) -> Result<bool, Error> {
    let table = match database.table(table) {
        Ok(table) => table,
        Err(Error::TableNotFound(_)) => return Ok(true),
        Err(error) => return Err(error),
    };
    match table.query().limit(1).page() {
        Ok(page) => Ok(page.is_empty()),
        Err(Error::Corruption(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The names of all tables of the engine, in order.
pub(super) fn engine_tables(database: &Database) -> Result<Vec<String>, Error> {
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let list = database.tables(from.as_deref(), LIST)?;
        names.extend(list.names);
        match list.next {
            Some(next) => from = Some(next),
            None => return Ok(names),
        }
    }
}

/// What an opening finds in the catalog.
pub(super) struct Found {
    /// Tables of the engine that have a row, and the catalog's own.
    pub(super) known: HashSet<String>,
    pub(super) intents: Vec<Intent>,
}

impl Found {
    pub(super) fn new(meta: &str) -> Self {
        Self { known: HashSet::from([meta.to_owned()]), intents: Vec::new() }
    }

    /// Ends what was begun, and tells of tables that nobody knows.
    pub(super) async fn end(self, database: &Database, meta: &EntityTable) -> Result<(), Error> {
        for intent in &self.intents {
            if self.known.contains(intent.engine_table()) {
                intent.forget(meta);
            } else {
                intent.end(database, meta).await?;
            }
        }
        self.tell_of_unknown(database)
    }

    fn tell_of_unknown(&self, database: &Database) -> Result<(), Error> {
        let names = engine_tables(database)?;
        for name in names.iter().filter(|name| !self.known.contains(*name)) {
            tracing::warn!(
                table = %name,
                "the database has a table that is none of the server's: it is kept, and not served \
                 (tablestone salvage names it if it can)"
            );
        }
        Ok(())
    }
}
