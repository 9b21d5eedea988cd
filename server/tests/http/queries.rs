//! Queries: order, filters, pages and where they go on (R-S06, protocol 6).

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tablestone_server::config::Limits;

use crate::support::{Answer, Server, Signing};

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

async fn insert(client: &mut Signing, entity: Value) {
    let inserted = client.post("/people", &entity.to_string()).await;
    assert_eq!(inserted.status, 201, "{inserted:?}");
}

/// Pages of a query as clients read them: the keys of each, until there is no continuation.
async fn pages(client: &mut Signing, query: &str) -> Vec<Vec<(String, String)>> {
    let (mut pages, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/people()?{query}{next}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let rows = page.json()["value"].as_array().unwrap().clone();
        let keys = rows.iter().map(|row| {
            let key = |name: &str| row[name].as_str().unwrap().to_owned();
            (key("PartitionKey"), key("RowKey"))
        });
        pages.push(keys.collect());
        let header = |name| page.header(name).map(encode);
        match header("x-ms-continuation-nextpartitionkey") {
            None => return pages,
            Some(partition) => {
                next = format!("&NextPartitionKey={partition}");
                if let Some(row) = header("x-ms-continuation-nextrowkey") {
                    next += &format!("&NextRowKey={row}");
                }
            }
        }
    }
}

fn rows(pages: &[Vec<(String, String)>]) -> String {
    let page = |page: &Vec<(String, String)>| {
        page.iter()
            .map(|(partition, row)| format!("{partition}{row}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    pages.iter().map(page).collect::<Vec<_>>().join(" | ")
}

/// R-S06: ordinal order of PartitionKey, then RowKey.
#[tokio::test]
async fn r_s06_entities_come_in_the_order_of_their_keys() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (partition, row) in [("b", "1"), ("B", "1"), ("a", "2"), ("a", "10"), ("ab", ""), ("", "z")]
    {
        insert(&mut client, json!({"PartitionKey": partition, "RowKey": row})).await;
    }
    assert_eq!(rows(&pages(&mut client, "").await), "z B1 a10 a2 ab b1");
    let page = client.get("/people").await;
    assert_eq!(page.json()["odata.metadata"], "http://localhost/devstoreaccount1/$metadata#people");
    let etag = page.json()["value"][0]["odata.etag"].clone();
    assert!(etag.as_str().unwrap().starts_with("W/\"datetime'"), "{etag}");
}

/// R-S06: a continuation that no SDK misreads, for empty keys too: never an empty header.
#[tokio::test]
async fn r_s06_pages_go_on_where_they_ended() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (partition, row) in [("", ""), ("", "1"), ("bé'", ""), ("bé'", "&=+%"), ("z", "")] {
        insert(&mut client, json!({"PartitionKey": partition, "RowKey": row, "A": 1})).await;
    }
    let all = pages(&mut client, "").await;
    assert_eq!(all.len(), 1, "the last page has no continuation");
    for top in 1..=5 {
        let paged = pages(&mut client, &format!("$top={top}")).await;
        assert_eq!(paged.concat(), all[0], "{top}");
        assert_eq!(paged.len(), 5_usize.div_ceil(top), "{top}");
    }
    // The entity that the token names may go meanwhile; what comes ahead is seen.
    let first = client.get("/people?$top=2").await;
    let next = |name: &str| encode(first.header(name).unwrap());
    let (partition, row) =
        (next("x-ms-continuation-nextpartitionkey"), next("x-ms-continuation-nextrowkey"));
    let deleted = client.delete("/people(PartitionKey='b%C3%A9''',RowKey='')").await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    insert(&mut client, json!({"PartitionKey": "bé'", "RowKey": "a"})).await;
    let path = format!("/people?$top=2&NextPartitionKey={partition}&NextRowKey={row}");
    let second = client.get(&path).await.json();
    let keys: Vec<_> = second["value"].as_array().unwrap().iter().map(|it| &it["RowKey"]).collect();
    assert_eq!(keys, ["&=+%", "a"]);
    // A partition's start has no NextRowKey.
    let path = format!("/people?NextPartitionKey={}", encode("1!4!eg--"));
    assert_eq!(client.get(&path).await.json()["value"].as_array().unwrap().len(), 1);
}

/// R-S06: the PHP SDK lets its users say where to begin, by a key or a table's name as it is.
#[tokio::test]
async fn r_s06_a_page_may_begin_at_a_key() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (partition, row) in [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1")] {
        insert(&mut client, json!({"PartitionKey": partition, "RowKey": row})).await;
    }
    assert_eq!(client.post("/Tables", r#"{"TableName":"others"}"#).await.status, 201);
    for (path, expected) in [
        ("/people?NextPartitionKey=b&NextRowKey=2", json!([["b", "2"], ["c", "1"]])),
        ("/people?NextPartitionKey=bX&NextRowKey=2X", json!([["c", "1"]])),
        ("/people?NextPartitionKey=c", json!([["c", "1"]])),
        ("/Tables?NextTableName=people&$filter=", json!([["people"]])),
        ("/Tables?NextTableName=o", json!([["others"], ["people"]])),
        ("/Tables?NextTableName=PEOPLE", json!([["people"]])),
        ("/Tables?NextTableName=P", json!([["people"]])),
    ] {
        let page = client.get(path).await.json();
        let keys = |row: &Value| {
            let keys = ["PartitionKey", "RowKey", "TableName"].into_iter();
            json!(keys.filter_map(|key| row.get(key)).collect::<Vec<_>>())
        };
        let rows: Vec<_> = page["value"].as_array().expect("rows").iter().map(keys).collect();
        assert_eq!(json!(rows), expected, "{path}");
    }
}

/// R-S06: with a filter, the token points at the next match, and the last page has none.
#[tokio::test]
async fn r_s06_filters_choose_entities() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for number in 0..20 {
        let mut entity = json!({"PartitionKey": format!("p{}", number % 2), "RowKey": format!("{number:02}"),
            "Number": number, "Big": number.to_string(), "Big@odata.type": "Edm.Int64",
            "Name": format!("O'N {number}")});
        if number % 5 == 0 {
            entity["Five"] = json!(true);
        }
        insert(&mut client, entity).await;
    }
    let mut matching = async |filter: &str| {
        let query = format!("$filter={}", encode(filter));
        rows(&pages(&mut client, &query).await)
    };
    assert_eq!(matching("PartitionKey eq 'p0' and RowKey eq '04'").await, "p004");
    assert_eq!(matching("PartitionKey eq 'p1' and RowKey ge '15'").await, "p115 p117 p119");
    assert_eq!(matching("RowKey lt '02'").await, "p000 p101");
    assert_eq!(matching("Five").await, "p000 p010 p105 p115");
    assert_eq!(matching("Five eq true and not (Number gt 5)").await, "p000 p105");
    assert_eq!(matching("Big ge 18L or Name eq 'O''N 3'").await, "p018 p103 p119");
    assert_eq!(matching("(PartitionKey eq 'p0')and(Number lt 3)").await, "p000 p002");
    assert_eq!(matching("PartitionKey eq 'none'").await, "");
    assert_eq!(matching("Missing ne 1").await, "");
    assert_eq!(matching("false").await, "");
    let all = matching("").await;
    assert_eq!((all.split(' ').count(), matching("true").await == all), (20, true));

    let query = format!("$top=2&$filter={}", encode("Number ge 10 and Five"));
    assert_eq!(rows(&pages(&mut client, &query).await), "p010 p115");
    let query = format!("$top=1&$filter={}", encode("Number ge 10 and Five"));
    assert_eq!(rows(&pages(&mut client, &query).await), "p010 | p115");
    // The Rust SDK writes a space as a plus.
    assert_eq!(rows(&pages(&mut client, "$filter=Number+eq+7").await), "p107");
}

#[tokio::test]
async fn r_s06_a_selection_has_what_it_names() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    insert(&mut client, json!({"PartitionKey": "p", "RowKey": "1", "A": 1, "B": 2})).await;
    insert(&mut client, json!({"PartitionKey": "p", "RowKey": "2", "B": "two"})).await;
    let mut select = async |names: &str| {
        let accept = [("Accept", "application/json;odata=nometadata")];
        let path = format!("/people?$select={names}");
        client.send("GET", &path, &accept, "").await.json()["value"].clone()
    };
    assert_eq!(select("B").await, json!([{"B": 2}, {"B": "two"}]));
    assert_eq!(
        select("A,%20RowKey").await,
        json!([{"A": 1, "RowKey": "1"}, {"A": null, "RowKey": "2"}])
    );
    assert_eq!(select("*").await[1]["B"], "two");
}

/// R-S04, R-S06: a selected name that no property can have is in no answer, which it would break.
#[tokio::test]
async fn r_s06_a_selection_of_what_is_no_name() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let entity = json!({"PartitionKey": "p", "RowKey": "r", "L": "5", "L@odata.type": "Edm.Int64"});
    insert(&mut client, entity).await;
    let atom = [("Accept", "application/atom+xml"), ("x-ms-version", "2011-08-18")];
    for path in ["/people()", "/people(PartitionKey='p',RowKey='r')"] {
        let select = format!("{path}?$select=L@odata.type,L,1a,a-b,odata.etag,None");
        let text = client.get(&select).await.text().to_owned();
        let expected = r#""L@odata.type":"Edm.Int64","L":"5","None":null}"#;
        assert!(text.contains(expected) && text.matches("odata.etag").count() == 1, "{text}");
        let entry = client.send("GET", &select, &atom, "").await.text().to_owned();
        let expected = "<m:properties><d:L m:type=\"Edm.Int64\">5</d:L><d:None m:null=\"true\" />\
            </m:properties>";
        assert!(entry.contains(expected), "{entry}");
    }
    let accept = [("Accept", "application/json;odata=nometadata")];
    let none = client.send("GET", "/people()?$select=1a", &accept, "").await;
    assert_eq!(none.json(), json!({"value": [{}]}));
}

/// R-S06: an option without a value asks for nothing, as WCF Data Services has it. The Haskell library sends such ones
/// with each query that is for everything.
#[tokio::test]
async fn r_s06_empty_options_are_none() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for row in ["a", "b"] {
        insert(&mut client, json!({"PartitionKey": "p", "RowKey": row})).await;
    }
    for (path, expected) in [
        ("/people()?$filter=&$top=", 2),
        ("/people()?$filter=&$top=&$select=&$format=&NextPartitionKey=&NextRowKey=", 2),
        ("/people()?$filter=&$top=1", 1),
        ("/people()?$filter=RowKey%20eq%20'b'&$top=", 1),
        ("/Tables?$filter=&$top=&NextTableName=", 1),
    ] {
        let page = client.get(path).await;
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert_eq!(page.json()["value"].as_array().unwrap().len(), expected, "{path}");
    }
}

/// R-S05: queries that are none.
#[tokio::test]
async fn r_s06_what_is_no_query_is_refused() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    insert(&mut client, json!({"PartitionKey": "p", "RowKey": "r"})).await;
    let mut get = async |query: &str| -> Answer { client.get(&format!("/people?{query}")).await };
    for top in ["1001", "-1", "x", "1.5"] {
        assert_eq!(get(&format!("$top={top}")).await.failure(), (400, "InvalidInput"), "{top}");
    }
    let none = get("$top=0").await;
    assert_eq!(
        (none.json()["value"].clone(), none.header("x-ms-continuation-nextpartitionkey")),
        (json!([]), None)
    );
    assert_eq!(get("$top=1000").await.status, 200);
    let filter = |text: &str| format!("$filter={}", encode(text));
    let syntax = get(&filter("aaa bbb ccc")).await;
    assert_eq!(syntax.failure(), (400, "InvalidInput"));
    let message = syntax.message();
    assert!(message.starts_with("Syntax error at position 7 in 'aaa bbb ccc'.\n"), "{message}");
    // What the service says of null, and of too many entities.
    let order = |operator: &str| {
        format!(
            "The operator '{operator}' is not supported for the 'null' literal; only equality checks are \
             supported."
        )
    };
    let input = "One of the request inputs is not valid.".to_owned();
    for (query, expected) in [
        (filter("A eq null"), input.clone()),
        (filter("A ne null"), input.clone()),
        (filter("A lt null"), order("LessThan")),
        (filter("not (A le null)"), order("LessThanOrEqual")),
        (filter("B eq 1 and A gt null"), order("GreaterThan")),
        (filter("A ge null or true"), order("GreaterThanOrEqual")),
        ("$top=1001".to_owned(), input),
    ] {
        let refused = get(&query).await;
        assert_eq!(refused.failure(), (400, "InvalidInput"), "{query}");
        assert_eq!(refused.message().split('\n').next(), Some(&*expected), "{query}");
    }
    // R-D06: a constant out of its range is named, with the range.
    for (constant, range) in [
        ("datetime'1600-12-31T23:59:59Z'", "an instant from 1601-01-01 to 9999-12-31 in UTC"),
        ("datetime'10000-01-01T00:00:00Z'", "an instant from 1601-01-01 to 9999-12-31 in UTC"),
        ("9223372036854775808", "an integer from -9223372036854775808 to 9223372036854775807"),
    ] {
        let refused = get(&filter(&format!("A lt {constant}"))).await;
        assert_eq!(refused.failure(), (400, "InvalidInput"), "{constant}");
        let message = refused.message();
        assert!(message.contains(constant) && message.contains(range), "{message}");
    }
    assert_eq!(get(&filter("A eq null")).await.failure(), (400, "InvalidInput"));
    assert_eq!(get(&filter("A eq B")).await.failure(), (501, "NotImplemented"));
    assert_eq!(get(&filter("1 eq 1")).await.failure(), (501, "NotImplemented"));
    for function in ["startswith(A,'b')", "A eq 1 and not endswith(A, 'b')", "length(A) eq 1"] {
        assert_eq!(get(&filter(function)).await.failure(), (501, "NotImplemented"), "{function}");
    }
    assert_eq!(get(&filter("begins(A,'b')")).await.failure(), (400, "InvalidInput"));
    let depth =
        |depth: usize| format!("$filter={}A%20eq%201{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(get(&depth(1_000)).await.status, 200);
    assert_eq!(get(&depth(10_001)).await.failure(), (400, "InvalidInput"));
    assert_eq!(get("NextPartitionKey=1!nonsense").await.failure(), (400, "InvalidInput"));
    assert_eq!(get("NextRowKey=1!0!").await.failure(), (400, "InvalidInput"));
    assert_eq!(client.get("/missing()").await.failure(), (404, "TableNotFound"));
}

/// R-S06: at most 1,000 entities, and 4 MiB of them, in a page.
#[tokio::test]
async fn r_s06_a_page_is_bounded() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let table = server.service.database().tables(None, 9).unwrap().names.pop().unwrap();
    let table = server.service.database().table(&table).unwrap().entities();
    let entity =
        |partition: &str, row: usize| tablestone::Entity::new(partition, format!("{row:04}"));
    table.import((0..1_500).map(|row| entity("small", row))).unwrap();
    let text = "x".repeat(30_000);
    table.import((0..400).map(|row| entity("large", row).with("Text", &*text))).unwrap();
    let lengths = |pages: Vec<Vec<_>>| pages.iter().map(Vec::len).collect::<Vec<_>>();
    let small = pages(&mut client, &format!("$filter={}", encode("PartitionKey eq 'small'"))).await;
    assert_eq!(lengths(small), [1000, 500]);
    let large = pages(&mut client, &format!("$filter={}", encode("PartitionKey eq 'large'"))).await;
    let large = lengths(large);
    assert_eq!(large.iter().sum::<usize>(), 400);
    assert!(large.len() == 3, "{large:?}");
}

/// R-S06: only where more matches, a full page has a token, however far it is to the next row that does.
#[tokio::test]
async fn r_s06_the_last_page_of_a_filter_has_no_token() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let table = server.service.database().tables(None, 9).unwrap().names.pop().unwrap();
    let table = server.service.database().table(&table).unwrap().entities();
    let rows = |flag| (0..2_500).map(move |row| (row, row < 5 || row > 2_498 && flag));
    for flag in [false, true] {
        let entity =
            |(row, flag)| tablestone::Entity::new("p", format!("{row:04}")).with("Flag", flag);
        table.import(rows(flag).map(entity)).unwrap();
        let found = pages(&mut client, &format!("$top=5&$filter={}", encode("Flag eq true"))).await;
        let lengths: Vec<_> = found.iter().map(Vec::len).collect();
        assert_eq!(lengths, if flag { &[5, 1][..] } else { &[5] });
    }
}

/// Tables by name, a page at a time.
#[tokio::test]
async fn r_s06_tables_are_listed() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for name in ["delta", "Alpha", "charlie", "Bravo"] {
        let created = client.post("/Tables", &format!(r#"{{"TableName":"{name}"}}"#)).await;
        assert_eq!(created.status, 201);
    }
    let mut list = async |query: &str| {
        let (mut names, mut next) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("/Tables()?{query}{next}")).await;
            assert_eq!(page.status, 200, "{page:?}");
            let page_names = page.json()["value"].as_array().unwrap().clone();
            names.extend(page_names.iter().map(|it| it["TableName"].as_str().unwrap().to_owned()));
            match page.header("x-ms-continuation-nexttablename") {
                Some(token) => next = format!("&NextTableName={}", encode(token)),
                None => return names.join(" "),
            }
            names.push("|".into());
        }
    };
    assert_eq!(list("").await, "Alpha Bravo charlie delta");
    assert_eq!(list("$top=3").await, "Alpha Bravo charlie | delta");
    assert_eq!(list("$top=2").await, "Alpha Bravo | charlie delta");
    assert_eq!(list("$top=0").await, "");
    let filter = |text: &str| format!("$filter={}", encode(text));
    assert_eq!(list(&filter("TableName eq 'Bravo'")).await, "Bravo");
    // Names are compared without case, as they are ordered, taken and used (protocol 4).
    for bravo in ["bravo", "BRAVO"] {
        assert_eq!(list(&filter(&format!("TableName eq '{bravo}'"))).await, "Bravo");
        let others = format!("'{bravo}' ne TableName");
        assert_eq!(list(&filter(&others)).await, "Alpha charlie delta");
        assert_eq!(list(&filter(&format!("TableName gt '{bravo}'"))).await, "charlie delta");
        assert_eq!(list(&filter(&format!("not (TableName gt '{bravo}')"))).await, "Alpha Bravo");
    }
    assert_eq!(list(&filter("TableName ge 'a' and TableName lt 'd'")).await, "Alpha Bravo charlie");
    let prefix = filter("TableName ge 'B' and TableName lt 'D'");
    assert_eq!(list(&prefix).await, "Bravo charlie");
    // A page ends, and goes on, at a table that passes; the last has no continuation.
    assert_eq!(list(&format!("$top=1&{prefix}")).await, "Bravo | charlie");
    assert_eq!(list(&format!("$top=2&{prefix}")).await, "Bravo charlie");
    let scattered = filter("TableName eq 'ALPHA' or TableName ge 'C' and TableName ne 'CHARLIE'");
    assert_eq!(list(&format!("$top=1&{scattered}")).await, "Alpha | delta");
    // What is no text is of another type than a name.
    assert_eq!(list(&filter("TableName eq 5 or TableName")).await, "");
    assert_eq!(list(&filter("TableName ne 5")).await, "Alpha Bravo charlie delta");
    let page = client.get("/Tables").await.json();
    assert_eq!(page["odata.metadata"], "http://localhost/devstoreaccount1/$metadata#Tables");
    let old = [("Accept", "application/atom+xml"), ("x-ms-version", "2011-08-18")];
    let feed = client.send("GET", "/Tables", &old, "").await;
    assert!(feed.text().contains("<d:TableName>charlie</d:TableName>"), "{}", feed.text());
}

/// R-S06: a query works for a limited time, then its page ends, perhaps empty, with a token by
/// which it goes on.
#[tokio::test]
async fn r_s06_a_query_out_of_time_goes_on() {
    let limits = Limits { query_time: Duration::ZERO, ..Limits::default() };
    let server = Server::with(limits).await;
    let mut client = server.with_people().await;
    let table = server.service.database().tables(None, 9).unwrap().names.pop().unwrap();
    let table = server.service.database().table(&table).unwrap().entities();
    let entity = |row: usize| {
        let (partition, row) = (format!("p{}", row / 5_000), format!("{row:05}"));
        tablestone::Entity::new(partition, row.clone()).with("Wanted", row.ends_with("999"))
    };
    table.import((0..20_000).map(entity)).unwrap();
    let found = pages(&mut client, &format!("$filter={}", encode("Wanted"))).await;
    assert_eq!(found.concat().len(), 20, "{found:?}");
    assert!(found.len() > 2 && found.iter().any(Vec::is_empty), "{found:?}");
    let mut all = pages(&mut client, "$top=700").await;
    let rest = all.split_off(1);
    assert_eq!(all.concat().len() + rest.concat().len(), 20_000);
    assert!(rest.iter().all(|page| page.len() <= 700));
}

/// R-S06: so does a query of tables.
#[tokio::test]
async fn r_s06_a_query_of_tables_out_of_time_goes_on() {
    let limits = Limits { query_time: Duration::ZERO, ..Limits::default() };
    let server = Server::with(limits).await;
    let mut client = server.client().await;
    let names: Vec<_> = (0..150).map(|n| format!("table{n:03}")).collect();
    for name in &names {
        let created = client.post("/Tables", &format!(r#"{{"TableName":"{name}"}}"#)).await;
        assert_eq!(created.status, 201, "{created:?}");
    }
    let (mut found, mut pages, mut next) = (Vec::new(), 0, String::new());
    loop {
        let page = client.get(&format!("/Tables{next}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let body = page.json();
        let rows = body["value"].as_array().unwrap().iter();
        found.extend(rows.map(|row| row["TableName"].as_str().unwrap().to_owned()));
        pages += 1;
        match page.header("x-ms-continuation-nexttablename") {
            Some(name) => next = format!("?NextTableName={}", encode(name)),
            None => break,
        }
    }
    assert_eq!(found, names, "{pages} pages");
    assert!(pages > 1, "all in one page, whatever the time");
}
