//! [`find`], [`open`]: the catalog of tables, where salvage has lost its name.
//!
//! Its name is at the log's beginning, and its rows may be whole where that is lost: then salvage calls it
//! `recovered-1`. A table that salvage named is a catalog if each of its rows is as the server writes them
//! there; of several it is the one that was made first, as a server makes its catalog before any other table.
//! Invariant: the catalog is there with all of its rows or not at all.

use tablestone::{Database, Entity, EntityTable, Error, Table};

use super::Origin;
use crate::service::catalog::{ENGINE_TABLE, META, NAME, PROPERTIES, SERVICE_ROW, TABLE_ROW};
use crate::service::intent::Intent;
use crate::wire::xml::parse_properties;

/// The tables that salvage named and that are catalogs, the one that was made first before the others.
pub(super) fn find(database: &Database, tables: &[String]) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for table in tables {
        if let Origin::Salvage { number } = Origin::of(table)
            && is_catalog(&database.table(table)?.entities())?
        {
            // Twenty digits at most.
            found.push((number.parse::<u128>().unwrap_or(u128::MAX), table.clone()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, table)| table).collect())
}

/// The catalog, and what salvage had called it, if it has its name again only now: then it is no longer among
/// those that were found.
pub(super) async fn open(
    database: &Database,
    found: &mut Vec<String>,
) -> Result<(Option<Table>, Option<String>), Error> {
    match database.table(META) {
        Ok(meta) => Ok((Some(meta), None)),
        Err(Error::TableNotFound(_)) if found.is_empty() => Ok((None, None)),
        Err(Error::TableNotFound(_)) => {
            let first = found.remove(0);
            Ok((Some(give_back(database, &first).await?), Some(first)))
        }
        Err(error) => Err(error),
    }
}

/// Makes the catalog of one that was found, durably, which is then no table of its own any more.
async fn give_back(database: &Database, found: &str) -> Result<Table, Error> {
    let mut loader = database.load_table(META)?;
    for row in database.table(found)?.entities().query().entities() {
        loader.put_entity(&row?)?;
    }
    loader.finish()?;
    database.drop_table(found).await?;
    database.table(META)
}

/// Whether it has rows, and each could be one of the catalog's. What cannot be read is none.
fn is_catalog(table: &EntityTable) -> Result<bool, Error> {
    let mut has_rows = false;
    for row in table.query().entities() {
        match row {
            Ok(row) if is_row(&row) => has_rows = true,
            Ok(_) | Err(Error::NotAnEntity(_) | Error::Corruption(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(has_rows)
}

/// Whether the server writes such a row: one of a client's own would have to be made to look so.
fn is_row(row: &Entity) -> bool {
    let text = |name| row.get_as::<&str>(name);
    let is_own = |engine_table: &str| match Origin::of(engine_table) {
        Origin::Server { account, .. } => account == row.partition_key(),
        Origin::Salvage { .. } => true,
        Origin::Other => false,
    };
    if let Some(intent) = Intent::of_row(row) {
        return is_own(intent.engine_table());
    }
    if row.row_key() == SERVICE_ROW {
        return text(PROPERTIES).is_some_and(|xml| parse_properties(xml.as_bytes()).is_ok());
    }
    let key = row.row_key().strip_prefix(TABLE_ROW);
    key.is_some_and(|key| text(NAME).is_some_and(|name| name.eq_ignore_ascii_case(key)))
        && text(ENGINE_TABLE).is_some_and(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "a3a1f7b0-52d1-4c8e-9f6e-0d9c7b0f4e11";

    #[test]
    fn rows_of_the_catalog_are_known() {
        let made = format!("mine/people/{ID}");
        let table = |key: &str, name: &str, engine_table: &str| {
            Entity::new("mine", key).with(NAME, name).with(ENGINE_TABLE, engine_table)
        };
        let settings = "<StorageServiceProperties><Cors /></StorageServiceProperties>";
        for row in [
            table("table:people", "People", &made),
            table("table:people", "People", &made).with("Acl", "<SignedIdentifiers/>"),
            table("table:recovered7", "recovered7", "recovered-7"),
            Entity::new("mine", "service").with(PROPERTIES, settings),
            Entity::new("mine", format!("create:{made}")),
            Entity::new("mine", format!("delete:{made}")),
            Entity::new("mine", "delete:recovered-7"),
        ] {
            assert!(is_row(&row), "{row:?}");
        }
        for row in [
            Entity::new("mine", "table:people"),
            table("people", "People", &made),
            table("table:people", "others", &made),
            table("table:people", "people", "people"),
            table("table:people", "people", &format!("other/people/{ID}")),
            Entity::new("mine", "service").with(PROPERTIES, "a service"),
            Entity::new("mine", "service"),
            Entity::new("mine", "create:people"),
            Entity::new("other", format!("delete:{made}")),
            Entity::new("mine", "drop:people"),
        ] {
            assert!(!is_row(&row), "{row:?}");
        }
    }
}
