//! What a crash or a failure of the engine leaves of a change to the catalog.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::task::Poll;

use tablestone::Options;
use tablestone::env::{CrashStyle, Fault, Operation, SimEnv};

use super::super::intent::is_empty;
use super::*;

/// R-S10: nobody is told that a table is gone that a crash might bring back.
#[tokio::test]
async fn r_s10_a_table_is_there_until_its_row_is_durably_gone() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), Options::default()).unwrap();
    let accounts = vec![Account::new("account", Vec::new())];
    let (catalog, accounts) = Catalog::open(database, accounts).await.unwrap();
    let account = &accounts.get("account").unwrap().change().await.unwrap();
    catalog.create(account, "People").await.unwrap();
    let mut deletion = pin!(catalog.delete(account, "people"));
    let begun = poll_fn(|context| Poll::Ready(deletion.as_mut().poll(context))).await;
    // It is pending but where this thread rested for as long as a sync takes.
    if begun.is_pending() {
        assert!(account.table("people").is_some());
        deletion.await.unwrap();
    }
    assert!(account.table("people").is_none());
    assert!(catalog.delete(account, "people").await.is_err());
}

/// R-S11: nobody is told of a change that the engine fails to store, and nothing has changed.
#[tokio::test]
async fn r_s11_a_change_that_is_not_stored_is_an_error() {
    for change in ["tables", "policies", "properties"] {
        let machine = SimEnv::new(1);
        // Its jobs are run where something waits for them.
        let step = || _ = machine.run_all();
        let options = Options::default().env(Arc::new(machine.clone()));
        let database = Database::open("/db", options).unwrap();
        let accounts = vec![Account::new("account", Vec::new())];
        let (catalog, accounts) = checked(Catalog::open(database, accounts), step).await.unwrap();
        let account = &accounts.get("account").unwrap().change().await.unwrap();
        let table = checked(catalog.create(account, "People"), step).await.unwrap();
        machine.fail(Fault::new(Operation::Sync, ".log", std::io::ErrorKind::Other));
        let outcome = match change {
            "tables" => checked(catalog.delete(account, "people"), step).await,
            "policies" => {
                let (start, expiry, permission) = (None, None, None);
                let policy = SignedIdentifier { id: "p".into(), start, expiry, permission };
                checked(catalog.set_policies(account, &table, vec![policy]), step).await
            }
            _ => {
                checked(catalog.set_properties(account, |all| all.logging.read = true), step).await
            }
        };
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::InternalError, "{change}");
        assert!(account.table("people").is_some());
        assert!(table.policies.load().is_empty());
        assert_eq!(*account.properties(), ServiceProperties::default());
    }
}

/// Whatever moment a crash takes, the next start knows of each table of the engine what to do with it.
#[tokio::test]
async fn a_table_of_the_engine_has_a_row_or_an_intent_at_any_time() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), Options::default()).unwrap();
    let accounts = vec![Account::new("account", Vec::new())];
    let (catalog, accounts) = Catalog::open(database, accounts).await.unwrap();
    let account = &accounts.get("account").unwrap().change().await.unwrap();
    let check = || {
        // Tables first: a row may go between the two, once its table has.
        let tables = catalog.database.tables(None, 9).unwrap().names;
        let rows = catalog.meta().unwrap().query().entities().map(|row| row.unwrap());
        let known: Vec<_> = rows
            .map(|row| match Intent::of_row(&row) {
                Some(intent) => intent.engine_table().to_owned(),
                None => row.get_as::<&str>(ENGINE_TABLE).unwrap().to_owned(),
            })
            .collect();
        assert!(tables.iter().all(|table| table == META || known.contains(table)), "{tables:?}");
    };
    let loader = catalog.begin_load(account, "loaded").unwrap();
    checked(catalog.create(account, "People"), check).await.unwrap();
    checked(catalog.delete(account, "people"), check).await.unwrap();
    checked(catalog.end_load(account, "loaded", loader), check).await.unwrap();
    assert_eq!(catalog.database.tables(None, 9).unwrap().names.len(), 2);
}

/// R-S10: a process that is killed while it makes a table of what was loaded leaves all of it, or nothing.
#[tokio::test]
async fn r_s10_a_load_that_is_killed_leaves_no_table_without_a_row() {
    for operations in 0.. {
        let machine = SimEnv::new(1);
        let step = || _ = machine.run_all();
        let open = async || {
            let options = Options::default().env(Arc::new(machine.clone()));
            let database = Database::open("/db", options).unwrap();
            let accounts = vec![Account::new("account", Vec::new())];
            checked(Catalog::open(database, accounts), step).await.unwrap()
        };
        let (catalog, accounts) = open().await;
        let account = accounts.get("account").unwrap().change().await.unwrap();
        let mut loader = catalog.begin_load(&account, "People").unwrap();
        loader.put_entity(&Entity::new("p", "r")).unwrap();
        machine.crash_after(operations);
        let ended = checked(catalog.end_load(&account, "People", loader), step).await;
        drop((account, accounts, catalog));
        machine.crash(CrashStyle::KeepAll);

        let (catalog, accounts) = open().await;
        let served = accounts.get("account").unwrap().tables().len();
        let tables = catalog.database.tables(None, 9).unwrap().names;
        assert_eq!(tables.len(), 1 + served, "after {operations} operations: {tables:?}");
        if ended.is_ok() {
            assert_eq!(served, 1);
            break;
        }
    }
}

/// R-S09: policies are those of the table that was asked for, not of one that has its name by now.
#[tokio::test]
async fn r_s09_policies_of_a_table_that_is_gone_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), Options::default()).unwrap();
    let accounts = vec![Account::new("account", Vec::new())];
    let (catalog, accounts) = Catalog::open(database, accounts).await.unwrap();
    let account = &accounts.get("account").unwrap().change().await.unwrap();
    let first = catalog.create(account, "People").await.unwrap();
    let (start, expiry, permission) = (None, None, None);
    let policies = vec![SignedIdentifier { id: "p".into(), start, expiry, permission }];
    let set = async || {
        let set = catalog.set_policies(account, &first, policies.clone()).await;
        set.map_err(|error| error.code())
    };
    catalog.delete(account, "people").await.unwrap();
    assert_eq!(set().await, Err(ErrorCode::TableNotFound));
    let second = catalog.create(account, "people").await.unwrap();
    assert_eq!(set().await, Err(ErrorCode::TableNotFound));
    assert!(second.policies.load().is_empty());
    let row = catalog.meta().unwrap().get("account", row_key("people")).unwrap().unwrap();
    assert_eq!(row.get_as::<&str>(ACL), None);
}

/// R-S10: what was loaded takes no name that another table got meanwhile.
#[tokio::test]
async fn r_s10_a_load_leaves_a_table_that_was_made_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), Options::default()).unwrap();
    let accounts = vec![Account::new("account", Vec::new())];
    let (catalog, accounts) = Catalog::open(database, accounts).await.unwrap();
    let account = &accounts.get("account").unwrap().change().await.unwrap();
    let mut loader = catalog.begin_load(account, "People").unwrap();
    loader.put_entity(&Entity::new("p", "loaded")).unwrap();
    let made = catalog.create(account, "people").await.unwrap();
    made.entities.insert(&Entity::new("p", "written")).await.unwrap();
    let ended = catalog.end_load(account, "People", loader).await;
    assert!(matches!(ended, Err(Error::TableExists(_))), "{ended:?}");
    let table = account.table("people").unwrap();
    assert_eq!(table.entities.name(), made.entities.name());
    assert!(table.entities.get("p", "written").unwrap().is_some());
    let row = catalog.meta().unwrap().get("account", row_key("people")).unwrap().unwrap();
    assert_eq!(row.get_as::<&str>(ENGINE_TABLE), Some(made.entities.name()));
}

/// R-E22: a table of an unfinished creation goes only if it is known to have nothing.
#[test]
fn r_e22_a_table_that_cannot_be_read_is_not_empty() {
    let machine = SimEnv::new(1);
    let options = || Options::default().env(Arc::new(machine.clone()));
    let database = Database::open("/db", options()).unwrap();
    let is_empty = |database: &Database| is_empty(database, "t").unwrap();
    assert!(is_empty(&database), "there is none");
    let table = database.create_table("t").wait().unwrap();
    assert!(is_empty(&database));
    database.flush().unwrap();
    let files = || machine.list("/db".as_ref()).into_iter().filter(|name| name.ends_with(".sst"));
    let before: Vec<_> = files().collect();
    table.insert("p", "r", "value").wait().unwrap();
    assert!(!is_empty(&database));
    database.flush().unwrap();
    let file = files().find(|name| !before.contains(name)).unwrap();
    drop(table);
    database.close().unwrap();
    machine.flip(&Path::new("/db").join(file), 0).unwrap();
    let database = Database::open("/db", options()).unwrap();
    assert!(database.table("t").unwrap().query().page().is_err());
    assert!(!is_empty(&database));
}

/// What a future gives, with a look each time that it waits.
async fn checked<T>(future: impl Future<Output = T>, check: impl Fn()) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        check();
        polled
    })
    .await
}
