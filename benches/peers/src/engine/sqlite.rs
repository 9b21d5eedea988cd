//! SQLite, bundled: a `WITHOUT ROWID` table keyed by (partition, row), write-ahead log.
//!
//! There is one writer at a time, so writes wait for one connection instead of polling the file's
//! lock; each reading thread takes a connection from a pool. The budget is divided among as many
//! page caches. A checkpoint waits until the log has a quarter of the budget, not 4 MiB, as the
//! documentation advises where writes matter. Durable is `synchronous=FULL`; unsynced is `NORMAL`,
//! which it recommends with a write-ahead log: commits reach the system, and syncs wait for a
//! checkpoint. Conditions are in the `WHERE` of the statement. SQLite has no checksums without an
//! extension.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{Durability, ETag, Engine, Setup, Show};
use crate::workload::{Row, VERSION_BYTES};

const PUT: &str = "INSERT INTO peers VALUES (?1, ?2, ?3) \
                   ON CONFLICT DO UPDATE SET value = excluded.value";

struct Sqlite {
    file: PathBuf,
    setup: Setup,
    writer: Mutex<Connection>,
    idle: Mutex<Vec<Connection>>,
}

pub(super) fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Engine>> {
    let file = dir.join("sqlite");
    let writer = connect(&file, setup)?;
    writer.execute_batch(
        "CREATE TABLE IF NOT EXISTS peers (
             pk BLOB NOT NULL, rk BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (pk, rk)
         ) WITHOUT ROWID",
    )?;
    Ok(Box::new(Sqlite { file, setup, writer: Mutex::new(writer), idle: Mutex::default() }))
}

fn connect(file: &Path, setup: Setup) -> Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(60))?;
    let cache_kib = setup.budget / (setup.threads + 1) / 1024;
    let checkpoint_pages = setup.budget / 4 / 4096;
    let synchronous = match setup.durability {
        Durability::Synced => "FULL",
        Durability::Unsynced => "NORMAL",
    };
    connection.execute_batch(&format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous};
         PRAGMA cache_size=-{cache_kib}; PRAGMA wal_autocheckpoint={checkpoint_pages};"
    ))?;
    Ok(connection)
}

impl Sqlite {
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.file, self.setup)?,
        };
        let outcome = read(&connection);
        self.idle.lock().push(connection);
        outcome
    }

    fn changed(&self, statement: &str, parameters: impl rusqlite::Params) -> Result<bool> {
        let writer = self.writer.lock();
        Ok(writer.prepare_cached(statement)?.execute(parameters)? > 0)
    }
}

impl Engine for Sqlite {
    fn put(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<()> {
        self.changed(PUT, params![partition, row, value])?;
        Ok(())
    }

    fn put_group(&self, rows: &[Row]) -> Result<()> {
        let mut writer = self.writer.lock();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut put = transaction.prepare_cached(PUT)?;
            for row in rows {
                put.execute(params![row.key.partition, row.key.row, row.value])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        self.put_group(rows)
    }

    fn insert(&self, partition: &[u8], row: &[u8], value: &[u8]) -> Result<bool> {
        let insert = "INSERT INTO peers VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        self.changed(insert, params![partition, row, value])
    }

    fn replace(&self, partition: &[u8], row: &[u8], etag: ETag, value: &[u8]) -> Result<bool> {
        let version: [u8; VERSION_BYTES] = etag.0.to_le_bytes();
        let replace = "UPDATE peers SET value = ?3 \
                       WHERE pk = ?1 AND rk = ?2 AND substr(value, 1, 8) = ?4";
        self.changed(replace, params![partition, row, value, version])
    }

    fn show(&self, partition: &[u8], row: &[u8], show: Show<'_>) -> Result<Option<ETag>> {
        self.read(|connection| {
            let mut get =
                connection.prepare_cached("SELECT value FROM peers WHERE pk = ?1 AND rk = ?2")?;
            let found = get.query_row(params![partition, row], |found| {
                let found = found.get_ref(0)?.as_blob()?;
                show(found);
                Ok(ETag::of(found))
            });
            Ok(found.optional()?)
        })
    }

    fn page(
        &self,
        partition: &[u8],
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        self.read(|connection| {
            let mut page = connection.prepare_cached(
                "SELECT value FROM peers WHERE pk = ?1 AND rk >= ?2 ORDER BY rk LIMIT ?3",
            )?;
            let mut found = page.query(params![partition, from, i64::try_from(limit)?])?;
            while let Some(row) = found.next()? {
                each(row.get_ref(0)?.as_blob()?);
            }
            Ok(())
        })
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.read(|connection| {
            let mut scan = connection.prepare_cached("SELECT value FROM peers ORDER BY pk, rk")?;
            let mut found = scan.query([])?;
            while let Some(row) = found.next()? {
                each(row.get_ref(0)?.as_blob()?);
            }
            Ok(())
        })
    }

    fn delete(&self, partition: &[u8], row: &[u8]) -> Result<()> {
        self.changed("DELETE FROM peers WHERE pk = ?1 AND rk = ?2", params![partition, row])?;
        Ok(())
    }

    fn delete_partition(&self, partition: &[u8]) -> Result<()> {
        self.changed("DELETE FROM peers WHERE pk = ?1", params![partition])?;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let writer = self.writer.lock();
        Ok(writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        for connection in self.idle.into_inner() {
            connection.close().map_err(|(_, error)| error)?;
        }
        self.writer.into_inner().close().map_err(|(_, error)| error.into())
    }
}
