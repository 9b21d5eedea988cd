//! The tests.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use azure_core::{Etag, StatusCode};
use azure_data_tables::operations::{InsertEntityResponse, QueryEntityBuilder};
use azure_data_tables::prelude::*;
use azure_storage::StorageCredentials;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Account, Result, client, failure};

type Test = fn(Arc<Account>) -> Pin<Box<dyn Future<Output = Result<()>>>>;

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        /// Every test with its name.
        pub const ALL: &[(&str, Test)] =
            &[$((stringify!($name), |account| Box::pin($name(account)))),*];
    };
}

tests![
    tables_come_and_go,
    entities_come_and_go,
    conditions_are_kept,
    all_types_come_back,
    keys_come_back,
    queries_are_filtered_and_paged,
    transactions_are_all_or_nothing,
    wrong_keys_are_refused,
];

/// What is stored and read in most tests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Person {
    #[serde(rename = "PartitionKey")]
    city: String,
    #[serde(rename = "RowKey")]
    name: String,
    #[serde(rename = "Age")]
    age: Option<i32>,
    #[serde(rename = "Email", skip_serializing_if = "Option::is_none")]
    email: Option<String>,
}

fn person(name: &str, age: i32) -> Person {
    Person { city: "Milan".into(), name: name.into(), age: Some(age), email: None }
}

fn at(table: &TableClient, name: &str) -> EntityClient {
    table.partition_key_client("Milan").entity_client(name)
}

async fn new_table(account: &Account, test: &str) -> Result<TableClient> {
    let table = account.service.table_client(account.new_name(test));
    table.create().await?;
    Ok(table)
}

async fn insert(table: &TableClient, person: &Person) -> Result<InsertEntityResponse<Person>> {
    Ok(table.insert(person)?.return_entity(true).await?)
}

async fn get(table: &TableClient, name: &str) -> Result<(Person, Etag)> {
    let found = at(table, name).get().await?;
    Ok((found.entity, found.etag))
}

/// The names of a query's pages.
async fn pages(query: QueryEntityBuilder) -> Result<Vec<Vec<String>>> {
    let mut pages = Vec::new();
    let mut stream = query.into_stream::<Person>();
    while let Some(page) = stream.next().await {
        pages.push(page?.entities.into_iter().map(|person| person.name).collect());
    }
    Ok(pages)
}

fn code(status: StatusCode, code: &str) -> (StatusCode, Option<String>) {
    (status, Some(code.to_owned()))
}

async fn tables_come_and_go(account: Arc<Account>) -> Result<()> {
    let name = account.new_name("tables");
    let table = account.service.table_client(&name);
    assert_eq!(table.create().await?.table.name, name);
    let exists = code(StatusCode::Conflict, "TableAlreadyExists");
    assert_eq!(failure(table.create().await)?, exists);
    let other_case = account.service.table_client(name.to_uppercase());
    assert_eq!(failure(other_case.create().await)?, exists);

    let mut more: Vec<_> = (0..5).map(|n| format!("{name}x{n}")).collect();
    for name in &more {
        account.service.table_client(name).create().await?;
    }
    more.insert(0, name.clone());
    let filter = format!("TableName ge '{name}' and TableName lt '{name}z'");
    let (mut found, mut pages) = (Vec::new(), 0);
    let mut stream = account.service.list().filter(filter).top(4).into_stream();
    while let Some(page) = stream.next().await {
        found.extend(page?.tables.into_iter().map(|table| table.name));
        pages += 1;
    }
    assert_eq!((&found, pages), (&more, 2));

    for name in &more {
        account.service.table_client(name).delete().await?;
    }
    let missing = code(StatusCode::NotFound, "ResourceNotFound");
    assert_eq!(failure(table.delete().await)?, missing);
    let missing = code(StatusCode::NotFound, "TableNotFound");
    assert_eq!(failure(at(&table, "A").get::<Person>().await)?, missing);
    table.create().await?;
    assert_eq!(pages_of(&table).await?, [[""; 0]]);
    let wrong = account.service.table_client("a-b");
    assert_eq!(failure(wrong.create().await)?, code(StatusCode::BadRequest, "InvalidResourceName"));
    table.delete().await?;
    Ok(())
}

async fn pages_of(table: &TableClient) -> Result<Vec<Vec<String>>> {
    pages(table.query()).await
}

async fn entities_come_and_go(account: Arc<Account>) -> Result<()> {
    let table = new_table(&account, "entities").await?;
    let ada = person("Ada", 36);
    let inserted = insert(&table, &ada).await?;
    assert_eq!(inserted.entity_with_metadata.map(|it| it.entity), Some(ada.clone()));
    let quiet = table.insert::<_, Person>(person("Bob", 1))?.await?;
    assert!(quiet.entity_with_metadata.is_none() && quiet.location.is_some());
    let exists = failure(table.insert::<_, Person>(&ada)?.await)?;
    assert_eq!(exists, code(StatusCode::Conflict, "EntityAlreadyExists"));
    assert_eq!(get(&table, "Ada").await?, (ada.clone(), inserted.etag));

    // A merge keeps what it does not name, a replacement does not.
    at(&table, "Ada").merge(json!({"Email": "a@b"}), IfMatchCondition::Any)?.await?;
    let email = Some("a@b".to_owned());
    assert_eq!(get(&table, "Ada").await?.0, Person { email: email.clone(), ..ada.clone() });
    at(&table, "Ada").update(json!({"Email": "a@b"}), IfMatchCondition::Any)?.await?;
    let replaced = Person { email, age: None, ..ada.clone() };
    let found = at(&table, "Ada").get::<Map<String, Value>>().await?.entity;
    assert_eq!((found.get("Age"), &found["Email"]), (None, &json!("a@b")));
    at(&table, "Ada").insert_or_merge(json!({"Age": 37}))?.await?;
    assert_eq!(get(&table, "Ada").await?.0, Person { age: Some(37), ..replaced });
    at(&table, "Ada").insert_or_replace(&ada)?.await?;
    assert_eq!(get(&table, "Ada").await?.0, ada);
    at(&table, "New").insert_or_replace(&person("New", 0))?.await?;

    let selected = at(&table, "Ada").get::<Map<String, Value>>().select("Age,Email").await?;
    assert_eq!((&selected.entity["Age"], &selected.entity["Email"]), (&json!(36), &Value::Null));
    assert!(!selected.entity.contains_key("RowKey"));
    at(&table, "Ada").delete().await?;
    let missing = code(StatusCode::NotFound, "ResourceNotFound");
    assert_eq!(failure(at(&table, "Ada").delete().await)?, missing);
    assert_eq!(failure(at(&table, "Ada").get::<Person>().await)?, missing);
    let update = at(&table, "Ada").update(&ada, IfMatchCondition::Any)?;
    assert_eq!(failure(update.await)?, missing);
    assert_eq!(pages_of(&table).await?, [["Bob", "New"]]);
    Ok(())
}

async fn conditions_are_kept(account: Arc<Account>) -> Result<()> {
    let table = new_table(&account, "conditions").await?;
    let first = insert(&table, &person("Ada", 36)).await?.etag;
    let second = at(&table, "Ada").update(person("Ada", 37), first.clone().into())?.await?.etag;
    assert_ne!(first, second);
    let unmet = code(StatusCode::PreconditionFailed, "UpdateConditionNotSatisfied");
    let stale = at(&table, "Ada").update(person("Ada", 38), first.clone().into())?;
    assert_eq!(failure(stale.await)?, unmet);
    let stale = at(&table, "Ada").merge(json!({"Age": 38}), first.clone().into())?;
    assert_eq!(failure(stale.await)?, unmet);
    let stale = at(&table, "Ada").delete().if_match(IfMatchCondition::from(first));
    assert_eq!(failure(stale.await)?, unmet);
    assert_eq!(get(&table, "Ada").await?.0.age, Some(37));
    let third = at(&table, "Ada").merge(json!({"Age": 39}), second.into())?.await?.etag;
    at(&table, "Ada").delete().if_match(IfMatchCondition::from(third)).await?;
    assert_eq!(pages_of(&table).await?, [[""; 0]]);
    Ok(())
}

async fn all_types_come_back(account: Arc<Account>) -> Result<()> {
    let table = new_table(&account, "types").await?;
    let entity = json!({
        "PartitionKey": "Milan", "RowKey": "all", "Text": "é€😀 \"'\n\\", "Truth": true,
        "Small": -5, "Real": 2.5, "Whole@odata.type": "Edm.Double", "Whole": 3.0,
        "Big@odata.type": "Edm.Int64", "Big": "9223372036854775807",
        "Bytes@odata.type": "Edm.Binary", "Bytes": "AAEC/w==",
        "Then@odata.type": "Edm.DateTime", "Then": "2020-02-29T12:00:00.1234567Z",
        "Id@odata.type": "Edm.Guid", "Id": "c9da6455-213d-42c9-9a79-3e9149a57833",
        "Nan@odata.type": "Edm.Double", "Nan": "NaN", "Gone": null,
    });
    table.insert::<_, Value>(&entity)?.await?;
    let found = at(&table, "all").get::<BTreeMap<String, Value>>().await?.entity;
    let entity = entity.as_object().expect("an object");
    for (name, value) in entity.iter().filter(|(name, _)| *name != "Gone") {
        // A finite Double shows its type by its point, and has no annotation.
        let expected = if name == "Whole@odata.type" { None } else { Some(value) };
        assert_eq!(found.get(name), expected, "{name}");
    }
    assert!(!found.contains_key("Gone"));
    let id = found["odata.id"].as_str().expect("text");
    let expected = format!("/{}(PartitionKey='Milan',RowKey='all')", table.table_name());
    assert!(id.ends_with(&expected), "{id}");
    Ok(())
}

async fn keys_come_back(account: Arc<Account>) -> Result<()> {
    let table = new_table(&account, "keys").await?;
    // The SDK doubles no quotes and leaves them as they are: keys with quotes are left to others.
    let keys = ["", " ", "a b", "100%", "%41", "+", "é€😀", "a&b=c", "(x)", "a,b", "\u{fffd}"];
    for key in keys {
        let person = Person { city: key.into(), name: key.into(), ..Person::default() };
        let client = table.partition_key_client(key).entity_client(key);
        client.insert_or_replace(&person)?.await?;
        assert_eq!(client.get::<Person>().await?.entity, person, "{key:?}");
    }
    let mut sorted = keys.map(str::to_owned);
    sorted.sort_unstable();
    for top in [1, 3, 100] {
        let found = pages(table.query().top(top)).await?;
        assert_eq!(found.concat(), sorted, "{top}");
        assert_eq!(found.len(), keys.len().div_ceil(top as usize));
    }
    for key in keys {
        table.partition_key_client(key).entity_client(key).delete().await?;
    }
    assert_eq!(pages_of(&table).await?, [[""; 0]]);
    Ok(())
}

async fn queries_are_filtered_and_paged(account: Arc<Account>) -> Result<()> {
    let table = new_table(&account, "queries").await?;
    for number in 0..23 {
        insert(&table, &person(&format!("{number:02}"), number)).await?;
    }
    let names = |ages: std::ops::Range<i32>| ages.map(|n| format!("{n:02}")).collect::<Vec<_>>();
    let all = pages(table.query().top(5)).await?;
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5, 5, 3]);
    assert_eq!(all.concat(), names(0..23));
    // The SDK writes a space as a plus.
    let filtered = pages(table.query().filter("Age ge 7 and Age lt 16").top(4)).await?;
    assert_eq!(filtered.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 1]);
    assert_eq!(filtered.concat(), names(7..16));
    for (filter, expected) in [
        ("PartitionKey eq 'Milan' and RowKey eq '05'", names(5..6)),
        ("RowKey ge '05' and RowKey lt '08'", names(5..8)),
        ("not (Age gt 1)", names(0..2)),
        ("Age eq 3 or RowKey eq '04'", names(3..5)),
        ("Email eq 'a+b & c%20d'", names(0..0)),
        ("true", names(0..23)),
    ] {
        assert_eq!(pages(table.query().filter(filter)).await?.concat(), expected, "{filter}");
    }
    let wrong = table.query().filter("Age eq").into_stream::<Person>().next().await;
    let wrong = failure(wrong.ok_or("no page")?)?;
    assert_eq!(wrong, code(StatusCode::BadRequest, "InvalidInput"));
    Ok(())
}

async fn transactions_are_all_or_nothing(account: Arc<Account>) -> Result<()> {
    let table = new_table(&account, "transactions").await?;
    let partition = table.partition_key_client("Milan");
    for name in ["delete", "update", "merge"] {
        insert(&table, &person(name, 1)).await?;
    }
    let etag = get(&table, "update").await?.1;
    let done = partition
        .transaction()
        .insert(person("insert", 2))?
        .update("update", person("update", 2), Some(etag.clone().into()))?
        .merge("merge", json!({"Email": "a@b"}), Some(IfMatchCondition::Any))?
        .insert_or_replace("replaced", person("replaced", 2))?
        .insert_or_merge("merged", person("merged", 2))?
        .delete("delete", None)?
        .await?;
    let statuses: Vec<_> = done.operation_responses.iter().map(|it| it.status_code).collect();
    let mut expected = [StatusCode::NoContent; 6];
    expected[0] = StatusCode::Created;
    assert_eq!(statuses, expected);
    let tags: Vec<_> = done.operation_responses.iter().map(|it| it.etag.is_some()).collect();
    assert_eq!(tags, [true, true, true, true, true, false]);
    assert_eq!(pages_of(&table).await?, [["insert", "merge", "merged", "replaced", "update"]]);
    assert_eq!(get(&table, "merge").await?.0.email.as_deref(), Some("a@b"));

    // The second operation fails: nothing of the three is done.
    for (name, etag, status) in [
        ("update", Some(IfMatchCondition::from(etag)), StatusCode::PreconditionFailed),
        ("missing", Some(IfMatchCondition::Any), StatusCode::NotFound),
    ] {
        let failed = partition
            .transaction()
            .insert(person("first", 3))?
            .update(name, person(name, 3), etag)?
            .insert(person("last", 3))?
            .await?;
        let statuses: Vec<_> = failed.operation_responses.iter().map(|it| it.status_code).collect();
        assert_eq!(statuses, [status]);
        let names = ["insert", "merge", "merged", "replaced", "update"];
        assert_eq!(pages_of(&table).await?, [names]);
    }
    Ok(())
}

async fn wrong_keys_are_refused(account: Arc<Account>) -> Result<()> {
    let table = new_table(&account, "wrong").await?;
    let credentials = StorageCredentials::access_key("devstoreaccount1", "d3Jvbmc=");
    let stranger = client(account.location.clone(), credentials).table_client(table.table_name());
    let refused = code(StatusCode::Forbidden, "AuthenticationFailed");
    assert_eq!(failure(at(&stranger, "A").get::<Person>().await)?, refused);
    assert_eq!(failure(stranger.insert::<_, Person>(person("A", 1))?.await)?, refused);
    assert_eq!(failure(stranger.delete().await)?, refused);
    assert_eq!(pages_of(&table).await?, [[""; 0]]);
    Ok(())
}
