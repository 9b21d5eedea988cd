//! Every operation as a client of before 2015-12-11 does it, in Atom (R-S04, W-115).

use crate::batch::{change_set, part, parts};
use crate::support::{Answer, Server, Signing};

const OLD: [(&str, &str); 3] = [
    ("Accept", "application/atom+xml,application/xml"),
    ("Content-Type", "application/atom+xml"),
    ("x-ms-version", "2011-08-18"),
];
const POINT: &str = "/people(PartitionKey='p',RowKey='r')";

const TYPES: [&str; 10] = [
    "<d:Blank xml:space=\"preserve\">  </d:Blank>",
    "<d:Text xml:space=\"preserve\"> a &amp; &lt;b&gt;&#xD;\n </d:Text>",
    "<d:Flag m:type=\"Edm.Boolean\">true</d:Flag>",
    "<d:Small m:type=\"Edm.Int32\">-5</d:Small>",
    "<d:Big m:type=\"Edm.Int64\">9007199254740993</d:Big>",
    "<d:Real m:type=\"Edm.Double\">2.5</d:Real>",
    "<d:Odd m:type=\"Edm.Double\">NaN</d:Odd>",
    "<d:When m:type=\"Edm.DateTime\">2020-01-02T03:04:05.1234567Z</d:When>",
    "<d:Id m:type=\"Edm.Guid\">c9da6455-213d-42c9-9a79-3e9149a57833</d:Id>",
    "<d:Bytes m:type=\"Edm.Binary\">AAH/</d:Bytes>",
];

/// An entry with these properties, as those clients write it.
fn entry(properties: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n\
         <entry xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" \
         xmlns=\"http://www.w3.org/2005/Atom\"><title /><author><name /></author>\
         <updated>2010-01-01T00:00:00Z</updated><id />\r\n\
         <content type=\"application/xml\"><m:properties>{properties}</m:properties></content></entry>"
    )
}

fn entity(row: &str, properties: &str) -> String {
    let keys = format!("<d:PartitionKey>p</d:PartitionKey><d:RowKey>{row}</d:RowKey>");
    entry(&format!("{keys}{properties}"))
}

/// Sends a request of an old client.
async fn send(client: &mut Signing, method: &str, path: &str, tag: &str, body: &str) -> Answer {
    let mut headers = OLD.to_vec();
    headers.push(("If-Match", tag));
    client.send(method, path, &headers, body).await
}

/// What stands in the elements of this name, in order.
fn all<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let begin = format!("<{name}");
    let pieces = answer.text().split(&*begin).skip(1);
    let pieces = pieces.filter(|piece| piece.starts_with(['>', ' ']));
    let texts = pieces.map(|piece| match piece.split_once('>') {
        Some((attributes, _)) if attributes.ends_with('/') => "",
        Some((_, rest)) => rest.split("</").next().unwrap_or_default(),
        None => panic!("{piece}"),
    });
    texts.collect()
}

fn one<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let found = all(answer, name);
    assert_eq!(found.len(), 1, "{name}: {answer:?}");
    found[0]
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").expect("a tag").to_owned()
}

/// R-S04: tables.
#[tokio::test]
async fn r_s04_atom_creates_lists_and_deletes_tables() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for name in ["people", "places", "things"] {
        let table = entry(&format!("<d:TableName>{name}</d:TableName>"));
        let created = send(&mut client, "POST", "/Tables", "", &table).await;
        assert_eq!((created.status, one(&created, "d:TableName")), (201, name));
        let id = format!("http://localhost/devstoreaccount1/Tables('{name}')");
        assert_eq!((one(&created, "id"), created.header("location")), (&*id, Some(&*id)));
        let again = send(&mut client, "POST", "/Tables", "", &table).await;
        assert_eq!(again.failure(), (409, "TableAlreadyExists"));
    }
    let list = send(&mut client, "GET", "/Tables()?$top=2", "", "").await;
    let kind = "application/atom+xml;type=feed;charset=utf-8";
    assert_eq!((list.status, list.header("content-type")), (200, Some(kind)));
    assert_eq!(all(&list, "d:TableName"), ["people", "places"]);
    let next = list.header("x-ms-continuation-nexttablename").expect("a continuation");
    let path = format!("/Tables()?$top=2&NextTableName={next}");
    let rest = send(&mut client, "GET", &path, "", "").await;
    assert_eq!(all(&rest, "d:TableName"), ["things"]);
    let table = send(&mut client, "GET", "/Tables('People')", "", "").await;
    assert_eq!(one(&table, "d:TableName"), "people");
    assert_eq!(send(&mut client, "DELETE", "/Tables('people')", "", "").await.status, 204);
    let gone = send(&mut client, "DELETE", "/Tables('people')", "", "").await;
    assert_eq!(gone.failure(), (404, "ResourceNotFound"));
    assert_eq!(one(&gone, "code"), "ResourceNotFound");
    let empty = send(&mut client, "POST", "/Tables", "", &entry("")).await;
    assert_eq!(empty.failure(), (400, "PropertiesNeedValue"));
}

/// R-S04: single entities, of all types.
#[tokio::test]
async fn r_s04_atom_writes_and_reads_entities() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let properties = TYPES.concat() + "<d:Gone m:type=\"Edm.Int32\" m:null=\"true\" />";
    let inserted = send(&mut client, "POST", "/people", "", &entity("r", &properties)).await;
    let kind = "application/atom+xml;type=entry;charset=utf-8";
    assert_eq!((inserted.status, inserted.header("content-type")), (201, Some(kind)));
    let first = tag(&inserted);
    let got = send(&mut client, "GET", POINT, "", "").await;
    assert_eq!((got.status, tag(&got)), (200, first.clone()));
    let known = got.text();
    for property in TYPES {
        assert!(known.contains(property), "{property}: {known}");
    }
    assert!(!known.contains("d:Gone"));
    assert!(known.contains(&format!("m:etag=\"{}\"", first.replace('"', "&quot;"))), "{known}");
    let again = send(&mut client, "POST", "/people", "", &entity("r", "")).await;
    assert_eq!(again.failure(), (409, "EntityAlreadyExists"));

    // Update, merge, the two upserts, and delete, with tags and without.
    let text = |value: &str| entry(&format!("<d:Text>{value}</d:Text>"));
    let merged = send(&mut client, "MERGE", POINT, &first, &text("merged")).await;
    assert_eq!((merged.status, merged.text()), (204, ""));
    let got = send(&mut client, "GET", POINT, "", "").await;
    assert_eq!((one(&got, "d:Text"), one(&got, "d:Small")), ("merged", "-5"));
    let stale = send(&mut client, "PUT", POINT, &first, &text("stale")).await;
    assert_eq!(stale.failure(), (412, "UpdateConditionNotSatisfied"));
    let replaced = send(&mut client, "PUT", POINT, &tag(&merged), &text("replaced")).await;
    assert_eq!(replaced.status, 204);
    let got = send(&mut client, "GET", POINT, "", "").await;
    assert_eq!((one(&got, "d:Text"), all(&got, "d:Small").len()), ("replaced", 0));
    for method in ["PUT", "MERGE"] {
        let upserted = send(&mut client, method, POINT, "", &text(method)).await;
        assert_eq!(upserted.status, 204);
        let got = send(&mut client, "GET", POINT, "", "").await;
        assert_eq!(one(&got, "d:Text"), method);
        assert_eq!(send(&mut client, "DELETE", POINT, &tag(&upserted), "").await.status, 204);
    }
    for (method, body) in [("GET", ""), ("DELETE", ""), ("PUT", &*text("x"))] {
        let missing = send(&mut client, method, POINT, "*", body).await;
        assert_eq!(missing.failure(), (404, "ResourceNotFound"), "{method}");
    }
}

/// R-S04, R-S06: queries answer with feeds, a page at a time.
#[tokio::test]
async fn r_s04_atom_answers_queries() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for number in 0..5 {
        let number = number.to_string();
        let property = format!("<d:Number m:type=\"Edm.Int32\">{number}</d:Number>");
        let inserted = send(&mut client, "POST", "/people", "", &entity(&number, &property)).await;
        assert_eq!(inserted.status, 201);
    }
    let query = "/people()?$filter=Number%20gt%200&$top=3";
    let page = send(&mut client, "GET", query, "", "").await;
    assert_eq!((page.status, all(&page, "d:RowKey")), (200, vec!["1", "2", "3"]));
    let next = |name: &str| page.header(name).expect("a continuation").to_owned();
    let (partition, row) =
        (next("x-ms-continuation-nextpartitionkey"), next("x-ms-continuation-nextrowkey"));
    let path = format!("{query}&NextPartitionKey={partition}&NextRowKey={row}");
    let rest = send(&mut client, "GET", &path, "", "").await;
    assert_eq!(all(&rest, "d:RowKey"), ["4"]);
    assert_eq!(rest.header("x-ms-continuation-nextpartitionkey"), None);
    let path = "/people()?$select=Number,Missing&$top=1";
    let selected = send(&mut client, "GET", path, "", "").await;
    assert_eq!((one(&selected, "d:Number"), one(&selected, "d:Missing")), ("0", ""));
    assert!(selected.text().contains("<d:Missing m:null=\"true\" />"));
    assert!(all(&selected, "d:RowKey").is_empty());
    let wrong = send(&mut client, "GET", "/people()?$filter=Number%20is%201", "", "").await;
    assert_eq!((wrong.failure(), one(&wrong, "code")), ((400, "InvalidInput"), "InvalidInput"));
}

/// R-S04, R-S07: transactions whose operations are in Atom.
#[tokio::test]
async fn r_s04_atom_in_transactions() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for row in ["m", "d"] {
        assert_eq!(send(&mut client, "POST", "/people", "", &entity(row, "")).await.status, 201);
    }
    let people = "http://localhost/devstoreaccount1/people";
    let operation = |request: &str, headers: &[&str], body: &str| {
        part(request, headers, body)
            .replace("Accept: application/json;odata=nometadata\r\n", "")
            .replace(
                "Content-Type: application/json",
                "Content-Type: application/atom+xml;type=entry",
            )
    };
    let insert = |row: &str| operation(&format!("POST {people}"), &[], &entity(row, ""));
    let at =
        |method: &str, row: &str| format!("{method} {people}(PartitionKey='p',RowKey='{row}')");
    let body = change_set(&[
        insert("i"),
        operation(&at("MERGE", "m"), &["If-Match: *"], &entry("<d:Text>merged</d:Text>")),
        operation(&at("PUT", "u"), &[], &entry("<d:Text>put</d:Text>")),
        operation(&at("DELETE", "d"), &["If-Match: *"], ""),
    ]);
    let batch = [OLD[0], crate::batch::TYPE, OLD[2]];
    let done = parts(&client.send("POST", "/$batch", &batch, &body).await);
    assert_eq!(done.iter().map(|part| part.status).collect::<Vec<_>>(), [201, 204, 204, 204]);
    // Clients that know nothing later refuse what states it.
    assert!(done.iter().all(|part| part.header("DataServiceVersion") == Some("1.0;")), "{done:?}");
    assert_eq!(one(&done[0], "d:RowKey"), "i");
    assert_eq!(
        done[0].header("Content-Type"),
        Some("application/atom+xml;type=entry;charset=utf-8")
    );
    let page = send(&mut client, "GET", "/people()", "", "").await;
    assert_eq!(all(&page, "d:RowKey"), ["i", "m", "u"]);
    assert_eq!(all(&page, "d:Text"), ["merged", "put"]);

    let failed = parts(&client.send("POST", "/$batch", &batch, &body).await);
    assert_eq!((failed.len(), failed[0].status), (1, 409));
    assert_eq!(one(&failed[0], "code"), "EntityAlreadyExists");
    assert_eq!(failed[0].header("DataServiceVersion"), Some("1.0;"));
    let silent =
        operation(&format!("POST {people}"), &["Prefer: return-no-content"], &entity("silent", ""));
    let done = parts(&client.send("POST", "/$batch", &batch, &change_set(&[silent])).await);
    assert_eq!((done[0].status, done[0].header("DataServiceVersion")), (204, Some("1.0;")));
    let message = one(&failed[0], "message");
    assert!(message.starts_with("0:The specified entity already exists."), "{message}");
}

/// R-S05: errors are Atom where answers are, and their elements have no prefix, as clients look for them by
/// name: `error`, `code`.
#[tokio::test]
async fn r_s05_errors_are_atom_where_answers_are() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let begin = "<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"http://schemas.microsoft.com/\
        ado/2007/08/dataservices/metadata\"><code>ResourceNotFound</code><message xml:lang=\"en-US\">";
    for headers in [
        &OLD[..],
        &[("Accept", ""), ("x-ms-version", "2014-02-14")],
        &[("Accept", "*/*"), ("x-ms-version", "2015-07-08")],
    ] {
        let missing = client.send("GET", POINT, headers, "").await;
        let kind = missing.header("content-type");
        assert_eq!((missing.status, kind), (404, Some("application/xml;charset=utf-8")));
        assert!(missing.text().starts_with(begin), "{headers:?}: {}", missing.text());
    }
}

/// R-S01: before 2013-08-15 metrics were by the hour only, and not called so; there were no rules on origins.
#[tokio::test]
async fn r_s01_service_properties_are_those_of_the_version() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let service = "/?restype=service&comp=properties";
    let metrics = "<Metrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>\
        <RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></Metrics>";
    let body = format!("<StorageServiceProperties>{metrics}</StorageServiceProperties>");
    let set = client.send("PUT", service, &OLD, &body).await;
    assert_eq!(set.status, 202, "{set:?}");
    let old = client.send("GET", service, &OLD, "").await;
    assert!(old.text().contains("</Logging>") && old.text().contains(metrics), "{}", old.text());
    for later in ["HourMetrics", "MinuteMetrics", "Cors"] {
        assert!(!old.text().contains(later), "{}", old.text());
    }
    let hourly = metrics.replace("Metrics>", "HourMetrics>");
    let new = client.send("GET", service, &[("x-ms-version", "2013-08-15")], "").await;
    assert!(new.text().contains(&hourly) && new.text().contains("<MinuteMetrics>"), "{new:?}");
    assert!(client.get(service).await.text().contains(&hourly));
}
