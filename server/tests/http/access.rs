//! Who may do what, through the whole server (R-S08). The signatures themselves are tested where
//! they are checked.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tablestone_server::auth::SigningKey;
use tablestone_server::config::DEVELOPMENT_KEY;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::batch::{TYPE, alone, change_set, part, parts};
use crate::support::{Answer, Client, Server, Signing};

const ACCEPT: [(&str, &str); 1] = [("Accept", "application/json;odata=nometadata")];
const POINT: &str = "/people(PartitionKey='p',RowKey='r')";

/// The query string of a signature with these fields, of which empty ones are left out.
pub(crate) fn query(fields: &[(&str, &str)], string_to_sign: &str) -> String {
    let key = SigningKey::parse(DEVELOPMENT_KEY).unwrap();
    let signature = key.sign(|signer| _ = signer.push(string_to_sign));
    let mut query = format!("sig={}", utf8_percent_encode(&signature, NON_ALPHANUMERIC));
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        query += &format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
    query
}

const EXPIRY: &str = "2099-01-01T00:00:00Z";

/// A signature of the table `people`; with an identifier instead of permissions and expiry if
/// `permissions` begins with `si=`.
pub(crate) fn table_signature(permissions: &str, range: [&str; 4]) -> String {
    let (sp, se, si) = match permissions.strip_prefix("si=") {
        Some(id) => ("", "", id),
        None => (permissions, EXPIRY, ""),
    };
    let [spk, srk, epk, erk] = range;
    let string = format!(
        "{sp}\n\n{se}\n/table/devstoreaccount1/people\n{si}\n\n\n2019-02-02\n{spk}\n{srk}\n{epk}\n{erk}"
    );
    let fields = [
        ("sv", "2019-02-02"),
        ("tn", "People"),
        ("sp", sp),
        ("se", se),
        ("si", si),
        ("spk", spk),
        ("srk", srk),
        ("epk", epk),
        ("erk", erk),
    ];
    query(&fields, &string)
}

pub(crate) fn account_signature(permissions: &str, types: &str) -> String {
    account_signature_for("t", permissions, types, "")
}

/// An account's signature for a service, and for requests from one address unless that is empty.
fn account_signature_for(service: &str, permissions: &str, types: &str, address: &str) -> String {
    let string = format!(
        "devstoreaccount1\n{permissions}\n{service}\n{types}\n\n{EXPIRY}\n{address}\n\n2019-02-02\n"
    );
    let fields = [
        ("sv", "2019-02-02"),
        ("ss", service),
        ("srt", types),
        ("sp", permissions),
        ("se", EXPIRY),
        ("sip", address),
    ];
    query(&fields, &string)
}

async fn send(
    client: &mut Client,
    method: &str,
    path: &str,
    signature: &str,
    body: &str,
) -> Answer {
    let path = format!("/devstoreaccount1{path}?{signature}");
    client.request("localhost", method, &path, &ACCEPT, body.as_bytes()).await
}

/// R-S08: without a signature, or with a wrong one, nothing.
#[tokio::test]
async fn r_s08_strangers_get_nothing() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let unsigned = client.unsigned();
    for path in
        ["/devstoreaccount1/Tables('people')", "/devstoreaccount1/people()", "/nobody/Tables"]
    {
        let answer = unsigned.request("localhost", "GET", path, &ACCEPT, b"").await;
        assert_eq!(answer.failure(), (403, "AuthenticationFailed"), "{path}");
        let text = answer.message();
        assert!(text.starts_with("Server failed to authenticate the request. "), "{text}");
    }
    let malformed = [ACCEPT[0], ("Authorization", "SharedKey")];
    let path = "/devstoreaccount1/Tables";
    let answer = unsigned.request("localhost", "GET", path, &malformed, b"").await;
    assert_eq!(answer.failure(), (400, "InvalidAuthenticationInfo"));

    // Nor may it find out which accounts there are.
    for (host, path, headers) in [
        ("localhost", "/ACCOUNT/Tables", &[("x-ms-version", "nonsense")][..]),
        ("localhost", "/ACCOUNT/Tables?$orderby=a", &[]),
        ("localhost", "/ACCOUNT/Tables?comp=acl&comp=acl", &[]),
        ("localhost", "/ACCOUNT/people(", &[]),
        ("localhost", "/ACCOUNT/Tables", &[("Authorization", "SharedKey")]),
        ("localhost", "/ACCOUNT/Tables", &[("Authorization", "SharedKey nosignature")]),
        ("localhost", "/ACCOUNT/Tables", &[("Authorization", "Bearer a")]),
        ("localhost", "/ACCOUNT/Tables", &[("Authorization", "SharedKeyLite ACCOUNT:d3Jvbmc=")]),
        ("localhost", "/ACCOUNT/Tables?sig=a", &[]),
        ("localhost", "/ACCOUNT/people?sig=a&sv=2019-02-02&tn=people&si=a", &[]),
        ("localhost", "/ACCOUNT-secondary/Tables", &[]),
        ("ACCOUNT.table.localhost", "/", &[]),
        ("ACCOUNT.table.localhost", "/Tables", &[]),
        ("ACCOUNT.table.localhost", "/$batch()", &[]),
        ("ACCOUNT.table.localhost", "/people(", &[]),
        ("ACCOUNT.table.localhost", "//", &[]),
        ("ACCOUNT-secondary.table.localhost", "/%", &[]),
        ("any.table.localhost", "/ACCOUNT/$batch()", &[]),
        ("any.table.localhost", "/ACCOUNT", &[]),
    ] {
        let mut of = async |account: &str| {
            let (host, path) = (host.replace("ACCOUNT", account), path.replace("ACCOUNT", account));
            let date = httpdate::fmt_http_date(std::time::SystemTime::now());
            let values: Vec<_> = headers
                .iter()
                .map(|(name, value)| (*name, value.replace("ACCOUNT", account)))
                .collect();
            let mut all = vec![ACCEPT[0], ("x-ms-date", &*date)];
            all.extend(values.iter().map(|(name, value)| (*name, &**value)));
            let answer = unsigned.request(&host, "GET", &path, &all, b"").await;
            let (status, code) = answer.failure();
            (status, code.to_owned())
        };
        assert_eq!(of("devstoreaccount1").await, of("nobody").await, "{host}{path} {headers:?}");
    }

    // Nor may it send a body, if it asks first.
    let promise = "POST /devstoreaccount1/Tables HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\
        Expect: 100-continue\r\n\r\n";
    unsigned.send(promise).await;
    assert_eq!(unsigned.answer().await.unwrap().status, 403);

    let mut wrong = server.client_of("devstoreaccount1", "d3Jvbmc=").await;
    assert_eq!(wrong.get("/Tables('people')").await.failure(), (403, "AuthenticationFailed"));
}

/// R-S08: a table's signature is for its entities, with its permissions.
#[tokio::test]
async fn r_s08_a_table_signature_reaches_its_entities() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(client.post("/Tables", r#"{"TableName":"other"}"#).await.status, 201);
    let client = client.unsigned();
    let all = [""; 4];
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let add = table_signature("a", all);
    assert_eq!(send(client, "POST", "/people", &add, entity).await.status, 201);
    let mismatch = (403, "AuthorizationPermissionMismatch");
    assert_eq!(send(client, "GET", POINT, &add, "").await.failure(), mismatch);
    let upserted = send(client, "PUT", POINT, &add, "{}").await;
    assert_eq!(upserted.failure(), mismatch, "an upsert needs u too");
    let upsert = table_signature("au", all);
    assert_eq!(send(client, "PUT", POINT, &upsert, "{}").await.status, 204);
    let read = table_signature("r", all);
    assert_eq!(send(client, "GET", POINT, &read, "").await.status, 200);
    let everything = table_signature("raud", all);
    let failure = (403, "AuthorizationFailure");
    let other = "/other(PartitionKey='p',RowKey='r')";
    assert_eq!(send(client, "GET", other, &everything, "").await.failure(), failure);
    let dropped = send(client, "DELETE", "/Tables('people')", &everything, "").await;
    assert_eq!(dropped.failure(), failure);
    let widened = read.replace("sp=r", "sp=rd");
    let failed = send(client, "GET", POINT, &widened, "").await;
    assert_eq!(failed.failure(), (403, "AuthenticationFailed"));
}

/// R-S05: what stands behind the status is what SDKs tell their users, and of requests that the service refuses
/// before it looks at tables it is the error's text.
#[tokio::test]
async fn r_s05_a_status_line_may_say_why() {
    let server = Server::start().await;
    server.with_people().await;
    let entities = account_signature("rwdlacu", "o");
    let large = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", (4 << 20) + 1);
    let stranger = "403 Server failed to authenticate the request. Make sure the value of \
        Authorization header is formed correctly including the signature.";
    let of_blobs = account_signature_for("b", "r", "o", "");
    let service =
        "403 This request is not authorized to perform this operation using this service.";
    let of_another = account_signature_for("t", "r", "o", "192.0.2.1");
    let source =
        "403 This request is not authorized to perform this operation using this source IP.";
    let too_large = "413 The request body is too large and exceeds the maximum permissible limit.";
    for (request, headers, expected) in [
        ("GET /devstoreaccount1/Tables".to_owned(), "", stranger),
        (format!("POST /devstoreaccount1/people?{entities}"), &large, too_large),
        (format!("GET /devstoreaccount1{POINT}?{of_blobs}"), "", service),
        (format!("GET /devstoreaccount1{POINT}?{of_another}"), "", source),
        (format!("GET /devstoreaccount1{POINT}?{entities}"), "", "404 Not Found"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.expect("a connection");
        let headers = format!("Host: localhost\r\nAccept: application/json\r\n{headers}\r\n");
        let request = format!("{request} HTTP/1.1\r\n{headers}");
        stream.write_all(request.as_bytes()).await.expect("bytes sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.expect("a line");
        assert_eq!(line, format!("HTTP/1.1 {expected}\r\n"));
    }
}

/// R-S02: the Go SDK puts a slash between an address and a signature.
#[tokio::test]
async fn r_s02_a_slash_may_stand_before_a_signature() {
    let server = Server::start().await;
    let mut client = Client::connect(server.address).await;
    let tables = account_signature("rwdlacu", "c");
    let table = r#"{"TableName":"people"}"#;
    assert_eq!(send(&mut client, "POST", "/Tables/", &tables, table).await.status, 201);
    let entities = table_signature("raud", [""; 4]);
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(send(&mut client, "POST", "/people/", &entities, entity).await.status, 201);
    for path in ["/people/", "/people()/", &format!("{POINT}/")] {
        assert_eq!(send(&mut client, "GET", path, &entities, "").await.status, 200, "{path}");
    }
    let batch = format!("/devstoreaccount1/$batch/?{entities}");
    let body = change_set(&[part(
        "DELETE http://localhost/devstoreaccount1/people(PartitionKey='p',RowKey='r')/",
        &["If-Match: *"],
        "",
    )]);
    let deleted = client.request("localhost", "POST", &batch, &[TYPE], body.as_bytes()).await;
    assert_eq!(parts(&deleted)[0].status, 204);
    let deleted = send(&mut client, "DELETE", "/Tables('people')/", &tables, "").await;
    assert_eq!(deleted.status, 204);
}

/// A client with a signature to read the table of people, in which there is one.
async fn reader(server: &Server) -> (Client, String) {
    let mut owner = server.with_people().await;
    let row = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(owner.post("/people", row).await.status, 201);
    (Client::connect(server.address).await, table_signature("r", [""; 4]))
}

/// R-S05: the version of the signature is that of the request, whether it succeeds or fails.
#[tokio::test]
async fn r_s05_without_a_version_that_of_the_signature_counts() {
    let server = Server::start().await;
    let (mut client, signature) = reader(&server).await;
    for (row, status) in [("r", 200), ("missing", 404)] {
        let path = format!("/devstoreaccount1/people(PartitionKey='p',RowKey='{row}')?{signature}");
        let any = [("Accept", "*/*")];
        let answer = client.request("localhost", "GET", &path, &any, b"").await;
        let media = answer.header("content-type").unwrap();
        assert!(answer.status == status && media.starts_with("application/json"), "{media}");
        // An older one, whose answers are Atom.
        let path = format!("{path}&api-version=2012-02-12");
        let answer = client.request("localhost", "GET", &path, &any, b"").await;
        let media = answer.header("content-type").unwrap();
        assert!(answer.status == status && media.contains("xml"), "{media}");
    }
}

/// R-S05: a version that is none is not passed over, as if none had been asked for.
#[tokio::test]
async fn r_s05_a_version_beside_a_signature_is_a_version() {
    let server = Server::start().await;
    let (mut client, signature) = reader(&server).await;
    let point =
        format!("/devstoreaccount1/people(PartitionKey='p',RowKey='r')?{signature}&api-version=");
    let any = ("Accept", "*/*");
    for version in ["junk", "2012-2-12", "2012-13-12", "latest"] {
        let path = format!("{point}{version}");
        let refused = client.request("localhost", "GET", &path, &[any], b"").await;
        assert_eq!(refused.failure(), (400, "InvalidQueryParameterValue"), "{version}");
    }
    let empty = client.request("localhost", "GET", &point, &[any], b"").await;
    assert_eq!(empty.status, 200);
    // The header's counts before it.
    let (path, stated) = (format!("{point}junk"), ("x-ms-version", "2019-02-02"));
    let stated = client.request("localhost", "GET", &path, &[any, stated], b"").await;
    assert_eq!(stated.status, 200);
}

/// R-S08: a signature for a range of keys reads and writes within it.
#[tokio::test]
async fn r_s08_a_range_of_keys_is_kept_to() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let outside = r#"{"PartitionKey":"a","RowKey":"9"}"#;
    assert_eq!(client.post("/people", outside).await.status, 201);
    let client = client.unsigned();
    let signature = table_signature("rau", ["b", "2", "c", "1"]);
    for (partition, row, inside) in [
        ("a", "9", false),
        ("b", "1", false),
        ("b", "2", true),
        ("c", "1", true),
        ("c", "2", false),
    ] {
        let point = format!("/people(PartitionKey='{partition}',RowKey='{row}')");
        let written = send(client, "PUT", &point, &signature, "{}").await;
        let read = send(client, "GET", &point, &signature, "").await;
        let entity = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
        let inserted = send(client, "POST", "/people", &signature, &entity).await;
        if inside {
            assert_eq!((written.status, read.status, inserted.status), (204, 200, 409), "{point}");
        } else {
            // To who reads it is not there, whether or not it is.
            assert_eq!(read.failure(), (404, "ResourceNotFound"), "{point}");
            for refused in [written, inserted] {
                assert_eq!(refused.failure(), (403, "AuthorizationFailure"), "{point}");
            }
        }
    }
}

/// R-S08: a query sees no more than the range of its signature.
#[tokio::test]
async fn r_s08_a_query_is_cut_to_the_range() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    for (partition, row) in [("a", "9"), ("b", "1"), ("b", "2"), ("c", "1"), ("c", "2"), ("d", "1")]
    {
        let entity = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
        assert_eq!(client.post("/people", &entity).await.status, 201);
    }
    let client = client.unsigned();
    let mut query = async |range, rest: &str| {
        let signature = table_signature("r", range) + rest;
        let page = send(client, "GET", "/people()", &signature, "").await.json();
        let keys = page["value"].as_array().unwrap().iter().map(|row| {
            format!("{}{}", row["PartitionKey"].as_str().unwrap(), row["RowKey"].as_str().unwrap())
        });
        keys.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(query([""; 4], "").await, "a9 b1 b2 c1 c2 d1");
    assert_eq!(query(["b", "2", "c", "1"], "").await, "b2 c1");
    assert_eq!(query(["b", "", "c", ""], "").await, "b1 b2 c1 c2");
    let filter = "&$filter=RowKey%20eq%20'2'%20or%20PartitionKey%20eq%20'a'";
    assert_eq!(query(["b", "", "d", ""], filter).await, "b2 c2");
}

/// R-S08: permissions that the table keeps, and can take back.
#[tokio::test]
async fn r_s08_a_stored_policy_can_be_taken_back() {
    let server = Server::start().await;
    let mut owner = server.with_people().await;
    let mut holder = Client::connect(server.address).await;
    let signature = table_signature("si=mine", [""; 4]);
    let refused = send(&mut holder, "PUT", POINT, &signature, "{}").await;
    assert_eq!(refused.failure(), (403, "AuthenticationFailed"));
    let acl = |permission: &str| {
        format!(
            "<?xml version=\"1.0\"?><SignedIdentifiers><SignedIdentifier><Id>mine</Id><AccessPolicy>\
             <Expiry>{EXPIRY}</Expiry><Permission>{permission}</Permission></AccessPolicy>\
             </SignedIdentifier></SignedIdentifiers>"
        )
    };
    assert_eq!(owner.send("PUT", "/people?comp=acl", &[], acl("rau")).await.status, 204);
    assert_eq!(send(&mut holder, "PUT", POINT, &signature, "{}").await.status, 204);
    assert_eq!(owner.send("PUT", "/people?comp=acl", &[], acl("r")).await.status, 204);
    let refused = send(&mut holder, "PUT", POINT, &signature, "{}").await;
    assert_eq!(refused.failure(), (403, "AuthorizationPermissionMismatch"));
    assert_eq!(send(&mut holder, "GET", POINT, &signature, "").await.status, 200);
    assert_eq!(owner.send("PUT", "/people?comp=acl", &[], "").await.status, 204);
    let refused = send(&mut holder, "GET", POINT, &signature, "").await;
    assert_eq!(refused.failure(), (403, "AuthenticationFailed"));

    let six = format!("<SignedIdentifiers>{}</SignedIdentifiers>", "<SignedIdentifier/>".repeat(6));
    let refused = owner.send("PUT", "/people?comp=acl", &[], six).await;
    assert_eq!(refused.failure(), (400, "InvalidXmlDocument"));
    for permission in ["rr", "raudr", "raduu", "w", "rwd", "R", "r,a", "x"] {
        let refused = owner.send("PUT", "/people?comp=acl", &[], acl(permission)).await;
        assert_eq!(refused.failure(), (400, "InvalidXmlNodeValue"), "{permission}");
    }
    assert_eq!(owner.send("PUT", "/people?comp=acl", &[], acl("duar")).await.status, 204);
    assert_eq!(owner.get("/missing?comp=acl").await.failure(), (404, "TableNotFound"));
}

/// R-S08: an account's signature, by types of resources.
#[tokio::test]
async fn r_s08_an_account_signature_reaches_its_types() {
    let server = Server::start().await;
    let mut client = Client::connect(server.address).await;
    let tables = account_signature("rwdlacu", "c");
    let table = r#"{"TableName":"people"}"#;
    assert_eq!(send(&mut client, "POST", "/Tables", &tables, table).await.status, 201);
    let mismatch = (403, "AuthorizationResourceTypeMismatch");
    assert_eq!(send(&mut client, "GET", POINT, &tables, "").await.failure(), mismatch);
    let entities = account_signature("rwdlacu", "o");
    assert_eq!(send(&mut client, "PUT", POINT, &entities, "{}").await.status, 204);
    assert_eq!(send(&mut client, "GET", POINT, &entities, "").await.status, 200);
    let read = account_signature("r", "sco");
    let refused = send(&mut client, "DELETE", "/Tables('people')", &read, "").await;
    assert_eq!(refused.failure(), (403, "AuthorizationPermissionMismatch"));
    let path = format!("/devstoreaccount1/people?comp=acl&{tables}");
    let refused = client.request("localhost", "GET", &path, &ACCEPT, b"").await;
    assert_eq!(refused.failure(), (403, "AuthorizationFailure"), "access is for keys alone");
}

/// R-S12: who may not write has none of what it promises to send waited for.
#[tokio::test]
async fn r_s12_a_body_is_not_waited_for_if_its_write_is_not_allowed() {
    let server = Server::start().await;
    server.with_people().await;
    let reading = table_signature("r", [""; 4]);
    let nothing = account_signature("raud", "s");
    for (method, path, signature) in [
        ("POST", "/people", &reading),
        ("PUT", POINT, &reading),
        ("MERGE", POINT, &reading),
        ("POST", "/Tables", &reading),
        ("PUT", "/people?comp=acl", &reading),
        ("PUT", "/?restype=service&comp=properties", &reading),
        ("POST", "/$batch", &nothing),
    ] {
        let mut client = Client::connect(server.address).await;
        let joint = if path.contains('?') { '&' } else { '?' };
        let line = format!("{method} /devstoreaccount1{path}{joint}{signature} HTTP/1.1");
        let rest = "Host: h\r\nContent-Length: 4000000\r\nExpect: 100-continue";
        client.send(format!("{line}\r\n{rest}\r\n\r\n")).await;
        assert_eq!(client.answer().await.unwrap().status, 403, "{method} {path}");
    }
}

/// What the parts of a batch with a signature are answered.
async fn transact(client: &mut Client, signature: &str, body: &str) -> Vec<Answer> {
    let path = format!("/devstoreaccount1/$batch?{signature}");
    parts(&client.request("localhost", "POST", &path, &[ACCEPT[0], TYPE], body.as_bytes()).await)
}

fn insertion(partition: &str, row: &str) -> String {
    let entity = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
    part("POST /devstoreaccount1/people", &[], &entity)
}

fn on(method: &str, partition: &str, row: &str, headers: &[&str]) -> String {
    let point = format!("/people(PartitionKey='{partition}',RowKey='{row}')");
    part(&format!("{method} /devstoreaccount1{point}"), headers, "{}")
}

/// The keys of all entities of `people`.
async fn keys(owner: &mut Signing) -> Vec<String> {
    let page = owner.get("/people()?$select=PartitionKey,RowKey").await.json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let rows = page["value"].as_array().unwrap().iter();
    rows.map(|row| text(&row["PartitionKey"]) + &text(&row["RowKey"])).collect()
}

/// R-S08: in a transaction too a signature is for its range of keys, and one operation outside of it undoes
/// the others.
#[tokio::test]
async fn r_s08_a_transaction_keeps_to_the_range_of_keys() {
    let server = Server::start().await;
    let mut owner = server.with_people().await;
    assert_eq!(owner.post("/people", r#"{"PartitionKey":"b","RowKey":"1"}"#).await.status, 201);
    let client = &mut Client::connect(server.address).await;
    let signature = table_signature("raud", ["b", "2", "c", "1"]);
    for outside in [
        insertion("b", "0"),
        on("PUT", "b", "0", &[]),
        on("PUT", "b", "1", &["If-Match: *"]),
        on("MERGE", "b", "1", &["If-Match: *"]),
        on("DELETE", "b", "1", &["If-Match: *"]),
    ] {
        let answers =
            transact(client, &signature, &change_set(&[insertion("b", "3"), outside.clone()]))
                .await;
        assert_eq!(answers.len(), 1, "{outside}");
        assert_eq!(answers[0].failure(), (403, "AuthorizationFailure"), "{outside}");
        let message = answers[0].message();
        assert!(message.starts_with("1:"), "{message}");
        assert_eq!(keys(&mut owner).await, ["b1"], "{outside}");
    }
    for (partition, row, inside) in [("b", "2", true), ("c", "1", true), ("c", "2", false)] {
        let answers = transact(client, &signature, &change_set(&[insertion(partition, row)])).await;
        assert_eq!(answers[0].status, if inside { 201 } else { 403 }, "{partition}{row}");
    }
    assert_eq!(keys(&mut owner).await, ["b1", "b2", "c1"]);

    // The one read that a batch may be.
    for (row, status) in [("2", 200), ("1", 404)] {
        let point = format!("/devstoreaccount1/people(PartitionKey='b',RowKey='{row}')");
        let get = alone(&part(&format!("GET {point}"), &[], ""));
        let answer = transact(client, &signature, &get).await.remove(0);
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 404 {
            assert_eq!(answer.failure(), (404, "ResourceNotFound"));
        }
    }
}

/// R-S08: an operation that is not permitted undoes what came before it.
#[tokio::test]
async fn r_s08_a_transaction_keeps_to_its_permissions() {
    let server = Server::start().await;
    let mut owner = server.with_people().await;
    assert_eq!(owner.post("/people", r#"{"PartitionKey":"p","RowKey":"0"}"#).await.status, 201);
    let client = &mut Client::connect(server.address).await;
    let deletion = on("DELETE", "p", "0", &["If-Match: *"]);
    let operations = change_set(&[insertion("p", "1"), insertion("p", "2"), deletion]);
    let signature = table_signature("rau", [""; 4]);
    let answers = transact(client, &signature, &operations).await;
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].failure(), (403, "AuthorizationPermissionMismatch"));
    let message = answers[0].message();
    assert!(message.starts_with("2:"), "{message}");
    assert_eq!(keys(&mut owner).await, ["p0"]);
    let signature = table_signature("ad", [""; 4]);
    let statuses = transact(client, &signature, &operations).await;
    let statuses: Vec<_> = statuses.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [201, 201, 204]);
    assert_eq!(keys(&mut owner).await, ["p1", "p2"]);
}
