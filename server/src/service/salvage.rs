//! [`name_again`]: gives the server's tables back what a salvage of the database has lost of the catalog.
//!
//! A table of the engine that holds entities, and that no row of the catalog leads to, gets a row: one that
//! the server made under the account and the name that its own name has, one that salvage named
//! (`recovered-7`) as `recovered7` of an account. If the catalog itself has lost its name, it has it again
//! [before that](lost_catalog). Invariant: no table of an account is dropped, no row that leads to one is
//! changed, what a deletion had begun with gets no row, and rows of a catalog are no account's. So whatever
//! could be read before can be read after, and a second time there is nothing to do.

mod lost_catalog;

use std::collections::HashSet;

use tablestone::{Database, Entity, Error, Table};

use super::catalog::{ENGINE_TABLE, META, OpenError, TABLE_ROW, made_for, table_row};
use super::check_table_name;
use super::intent::{Aim, Intent, engine_tables, is_empty};
use crate::auth::Account;

/// What the name begins with that salvage gives a table which has lost its own.
const RECOVERED: &str = "recovered-";

/// A table of the engine that has a row again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) account: String,
    pub(crate) name: String,
    pub(crate) engine_table: String,
}

/// A table of the engine that holds entities and stays without a row, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) engine_table: String,
    pub(crate) reason: String,
}

/// What became of the tables without a row.
#[derive(Debug, Default)]
pub(crate) struct NamedAgain {
    /// What salvage had called the catalog.
    pub(crate) catalog: Option<String>,
    pub(crate) named: Vec<Named>,
    pub(crate) kept: Vec<Kept>,
}

/// Names what can be named, durably; what salvage named becomes this account's.
pub(crate) async fn name_again(
    database: &Database,
    account: &Account,
) -> Result<NamedAgain, OpenError> {
    let tables = engine_tables(database)?;
    let mut catalogs = lost_catalog::find(database, &tables)?;
    let (meta, catalog) = lost_catalog::open(database, &mut catalogs).await?;
    let rows = Rows::read(meta.as_ref(), &tables)?;
    catalogs.retain(|table| !rows.settled.contains(table));
    let is_unknown = |table: &String| {
        table != META && !rows.settled.contains(table) && !catalogs.contains(table)
    };
    let mut full = Vec::new();
    for table in tables.into_iter().filter(is_unknown) {
        if !is_empty(database, &table)? {
            full.push(table);
        }
    }
    let is_foreign = |table: &String| matches!(Origin::of(table), Origin::Other);
    if meta.is_none() && full.iter().any(is_foreign) {
        return Ok(NamedAgain {
            kept: full.into_iter().map(foreign).collect(),
            ..NamedAgain::default()
        });
    }
    if let Some(meta) = &meta {
        forget(meta, &rows.loads, &full).await?;
    }
    let mut outcome = decide(full, rows.taken, account.name());
    outcome.catalog = catalog;
    outcome.kept.extend(catalogs.into_iter().map(further_catalog));
    if !outcome.named.is_empty() {
        let meta = match meta {
            Some(meta) => meta,
            None => database.create_table(META).await?,
        };
        write(&meta, &outcome.named).await?;
    }
    Ok(outcome)
}

/// A catalog beside the one that is in force tells of accounts what no client may read.
fn further_catalog(engine_table: String) -> Kept {
    Kept { engine_table, reason: "it has rows of a catalog of tables".into() }
}

/// A database without a catalog is another program's if any of its tables is.
fn foreign(engine_table: String) -> Kept {
    Kept { engine_table, reason: "no server made this database".into() }
}

/// Forgets the intents to load tables that stay, durably: a start would drop these, whatever is in them.
async fn forget(meta: &Table, loads: &[Intent], full: &[String]) -> Result<(), Error> {
    let meta = meta.entities();
    for load in loads.iter().filter(|load| full.iter().any(|table| table == load.engine_table())) {
        load.delete_row(&meta).await?;
    }
    Ok(())
}

/// Writes the rows; there may be one already that leads to a table which is lost.
async fn write(meta: &Table, named: &[Named]) -> Result<(), Error> {
    let meta = meta.entities();
    let write = |table: &Named| {
        meta.insert_or_replace(&table_row(&table.account, &table.name, &table.engine_table))
    };
    // All are under way before the first is waited for: they share syncs.
    for written in named.iter().map(write).collect::<Vec<_>>() {
        written.await?;
    }
    Ok(())
}

/// An account, and a table's name in lower case.
type Name = (String, String);

/// What the rows of the catalog say.
#[derive(Default)]
struct Rows {
    /// Tables of the engine that a row leads to, or that are being deleted.
    settled: HashSet<String>,
    /// Names that are not free.
    taken: HashSet<Name>,
    /// Intents to make tables of what was loaded.
    loads: Vec<Intent>,
}

impl Rows {
    /// Reads them, in a database with these tables of the engine.
    fn read(meta: Option<&Table>, tables: &[String]) -> Result<Self, Error> {
        let tables: HashSet<&str> = tables.iter().map(String::as_str).collect();
        let mut rows = Self::default();
        for row in meta.into_iter().flat_map(|meta| meta.entities().query().entities()) {
            rows.add(&row?, &tables);
        }
        Ok(rows)
    }

    fn add(&mut self, row: &Entity, tables: &HashSet<&str>) {
        if let Some(intent) = Intent::of_row(row) {
            match intent.aim() {
                // It holds entities: its row was there once. That of a load may have been.
                Aim::Create => {}
                Aim::Load => self.loads.push(intent),
                Aim::Delete => _ = self.settled.insert(intent.engine_table().to_owned()),
            }
            return;
        }
        let Some(name) = row.row_key().strip_prefix(TABLE_ROW) else { return };
        let engine_table = row.get_as::<&str>(ENGINE_TABLE);
        // The row of a table whose data is lost is no table. What cannot be understood stays as it is.
        if engine_table.is_none_or(|table| tables.contains(table)) {
            self.taken.insert((row.partition_key().to_owned(), name.to_owned()));
        }
        self.settled.extend(engine_table.map(str::to_owned));
    }
}

/// Where a table of the engine has its name from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin<'a> {
    /// The server made it for a table of an account.
    Server { account: &'a str, name: &'a str },
    /// Salvage found what had this number, without a name.
    Salvage { number: &'a str },
    /// Neither of them named it.
    Other,
}

impl<'a> Origin<'a> {
    fn of(engine_table: &'a str) -> Self {
        if let Some((account, name)) = made_for(engine_table) {
            return Self::Server { account, name };
        }
        let Some(rest) = engine_table.strip_prefix(RECOVERED) else { return Self::Other };
        // Where that name was taken, salvage has put another number behind it.
        let (number, further) = rest.split_once('-').unwrap_or((rest, "2"));
        if is_number(number) && is_number(further) { Self::Salvage { number } } else { Self::Other }
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (1..=20).contains(&text.len())
}

/// Finds names for tables of the engine, those that the server gave before others.
fn decide(tables: Vec<String>, mut taken: HashSet<Name>, account: &str) -> NamedAgain {
    let mut outcome = NamedAgain::default();
    let (of_salvage, others): (Vec<_>, Vec<_>) =
        tables.into_iter().partition(|table| matches!(Origin::of(table), Origin::Salvage { .. }));
    for engine_table in others.into_iter().chain(of_salvage) {
        match name_for(&engine_table, &taken, account) {
            Ok((account, name)) => {
                taken.insert((account.clone(), name.to_ascii_lowercase()));
                outcome.named.push(Named { account, name, engine_table });
            }
            Err(reason) => outcome.kept.push(Kept { engine_table, reason }),
        }
    }
    outcome
}

/// The account and name that a table of the engine gets, or why it gets none.
fn name_for(engine_table: &str, taken: &HashSet<Name>, own: &str) -> Result<Name, String> {
    let is_taken =
        |account: &str, name: &str| taken.contains(&(account.into(), name.to_ascii_lowercase()));
    match Origin::of(engine_table) {
        Origin::Server { account, name }
            if account.is_empty() || check_table_name(name).is_err() =>
        {
            Err(format!("{name:?} is no name that a table of an account can have"))
        }
        Origin::Server { account, name } if is_taken(account, name) => {
            Err(format!("account {account} has another table {name}"))
        }
        Origin::Server { account, name } => Ok((account.to_owned(), name.to_owned())),
        Origin::Salvage { number } => {
            let mut name = format!("recovered{number}");
            for further in 2_u64.. {
                if !is_taken(own, &name) {
                    break;
                }
                name = format!("recovered{number}x{further}");
            }
            Ok((own.to_owned(), name))
        }
        Origin::Other => Err("no server made it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "a3a1f7b0-52d1-4c8e-9f6e-0d9c7b0f4e11";

    fn server<'a>(account: &'a str, name: &'a str) -> Origin<'a> {
        Origin::Server { account, name }
    }

    #[test]
    fn names_of_the_engine_tell_who_gave_them() {
        let made = format!("mine/people/{ID}");
        assert_eq!(Origin::of(&made), server("mine", "people"));
        let odd = format!("mine/a/b/{ID}");
        assert_eq!(Origin::of(&odd), server("mine", "a/b"));
        for (name, number) in [("recovered-7", "7"), ("recovered-12-2", "12")] {
            assert_eq!(Origin::of(name), Origin::Salvage { number });
        }
        let no_account = format!("people/{ID}");
        for other in [
            "people",
            "mine/people/1",
            &no_account,
            "recovered-",
            "recovered-x",
            "recovered-+7",
            "recovered-7-",
            "recovered-7-2-2",
            "recovered-123456789012345678901",
        ] {
            assert_eq!(Origin::of(other), Origin::Other, "{other}");
        }
    }

    #[test]
    fn a_name_is_given_once() {
        let other_id = ID.replace('a', "b");
        let tables = [
            "recovered-7".to_owned(),
            "recovered-7-2".to_owned(),
            "recovered-8".to_owned(),
            format!("mine/people/{ID}"),
            format!("mine/people/{other_id}"),
            format!("mine/recovered8/{ID}"),
            format!("mine/taken/{ID}"),
            format!("other/taken/{ID}"),
            format!("mine/1/{ID}"),
            format!("/people/{ID}"),
            "foreign".to_owned(),
        ];
        let taken = HashSet::from([("mine".to_owned(), "taken".to_owned())]);
        let NamedAgain { named, kept, .. } = decide(tables.to_vec(), taken, "mine");
        let named: Vec<_> = named
            .iter()
            .map(|table| (&*table.account, &*table.name, &*table.engine_table))
            .collect();
        let expected = [
            ("mine", "people", &*tables[3]),
            ("mine", "recovered8", &tables[5]),
            ("other", "taken", &tables[7]),
            ("mine", "recovered7", &tables[0]),
            ("mine", "recovered7x2", &tables[1]),
            ("mine", "recovered8x2", &tables[2]),
        ];
        assert_eq!(named, expected);
        let kept: Vec<_> =
            kept.iter().map(|table| (&*table.engine_table, &*table.reason)).collect();
        let expected = [
            (&*tables[4], "account mine has another table people"),
            (&tables[6], "account mine has another table taken"),
            (&tables[8], "\"1\" is no name that a table of an account can have"),
            (&tables[9], "\"people\" is no name that a table of an account can have"),
            ("foreign", "no server made it"),
        ];
        assert_eq!(kept, expected);
    }

    /// A row whose table is lost takes no name; one that cannot be understood keeps its own.
    #[test]
    fn rows_tell_which_names_are_taken() {
        let row = |key: &str, table: &str| Entity::new("mine", key).with(ENGINE_TABLE, table);
        let mut rows = Rows::default();
        let tables = HashSet::from(["one", "gone", "full"]);
        for row in [
            row("table:one", "one"),
            row("table:lost", "lost"),
            Entity::new("mine", "table:odd"),
            Entity::new("mine", "service"),
            Entity::new("mine", "delete:gone"),
            Entity::new("mine", "create:full"),
            Entity::new("mine", "load:loaded"),
        ] {
            rows.add(&row, &tables);
        }
        let of_mine = |name: &str| ("mine".to_owned(), name.to_owned());
        assert_eq!(rows.taken, HashSet::from([of_mine("one"), of_mine("odd")]));
        assert_eq!(rows.settled, HashSet::from(["one", "lost", "gone"].map(str::to_owned)));
        assert_eq!(rows.loads.iter().map(Intent::engine_table).collect::<Vec<_>>(), ["loaded"]);
    }
}
