//! Bodies of `$batch`.

use super::{Target, path, send};
use crate::batch::{TYPE, change_set, part, parts};
use crate::support::{Answer, Signing};

fn insert(row: &str) -> String {
    let body = format!(r#"{{"PartitionKey":"b","RowKey":"{row}"}}"#);
    part(&format!("POST {}", path("/people")), &[], &body)
}

fn query(rest: &str) -> String {
    format!(
        "--batch_b\r\nContent-Type: application/http\r\n\r\nGET {} HTTP/1.1\r\n\
         Accept: application/json\r\n\r\n--batch_b--\r\n",
        path(rest)
    )
}

async fn post(client: &mut Signing, body: impl AsRef<[u8]>) -> Answer {
    send(client, "POST", "/$batch", &[TYPE], body).await
}

/// R-S12: batches that are none.
#[tokio::test]
async fn r_s12_hostile_batches() {
    let target = Target::start().await;
    let mut client = target.client().await;
    let good = change_set(&[insert("x")]);
    let nested = {
        let inner = good.replace("batch_b", "inner").replace("changeset_c", "inmost");
        let open = "Content-Type: multipart/mixed; boundary=inner\r\n\r\n";
        change_set(&[format!("{open}{inner}")])
    };
    let length = |length: &str| {
        good.replacen("\r\nAccept", &format!("\r\nContent-Length: {length}\r\nAccept"), 1)
    };
    let headers =
        |headers: &str| good.replacen("\r\nAccept", &format!("\r\n{headers}\r\nAccept"), 1);
    let opening = "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n";
    for (what, body) in [
        ("a change set in a change set", nested),
        ("two change sets", good.replace("--batch_b--\r\n", &good)),
        ("no end", good.replace("--changeset_c--\r\n--batch_b--\r\n", "")),
        ("no boundary of the change set", good.replace("; boundary=changeset_c", "")),
        ("another boundary", good.replace("batch_b", "batch_x")),
        ("a length too short", length("5")),
        ("a length too long", length("5000")),
        ("a length beyond numbers", length(&"9".repeat(40))),
        ("many headers", headers(&vec!["X: y"; 100_000].join("\r\n"))),
        ("a header that is none", headers("x")),
        ("a header with NUL", headers("X: a\0b")),
        (
            "a fold before any header",
            good.replacen("Content-Type: application", " Content-Type: application", 1),
        ),
        ("no request line", good.replacen("POST", "\r\nPOST", 1).replacen(" HTTP/1.1", "", 1)),
        ("a part of another type", good.replace("application/http", "text/plain")),
        ("boundaries alone", "--batch_b\r\n".repeat(380_000)),
        (
            "boundaries of the change set alone",
            format!("{opening}{}", "--changeset_c\n".repeat(290_000)) + "x",
        ),
        ("almost boundaries", opening.to_owned() + &"--changeset_cc\n".repeat(270_000)),
        ("hyphens", "--".repeat(2 << 20)),
        ("blank lines", "\r\n".repeat(2 << 20)),
        ("one line", "x".repeat(4 << 20)),
    ] {
        let answer = post(&mut client, &body).await;
        assert_eq!(answer.failure(), (400, "InvalidInput"), "{what}");
    }
    let long = format!("multipart/mixed; boundary={}", "b".repeat(60_000));
    for kind in [
        "multipart/mixed",
        "multipart/mixed; boundary=",
        "multipart/mixed; boundary=\"\"",
        "multipart/form-data; boundary=batch_b",
        "boundary=batch_b",
        "",
        &*long,
        "\u{e9}",
    ] {
        let answer = send(&mut client, "POST", "/$batch", &[("Content-Type", kind)], &good).await;
        assert_eq!(answer.failure(), (400, "InvalidInput"), "{kind}");
    }
    let found =
        send(&mut client, "GET", "/people()?$filter=PartitionKey%20eq%20'b'", &[], "").await;
    assert_eq!(found.json()["value"], serde_json::json!([]), "nothing was done");
    target.survives().await;
}

/// R-S12: operations that are none, in batches that are; each is named, and none is done.
#[tokio::test]
async fn r_s12_hostile_operations() {
    let target = Target::start().await;
    let mut client = target.client().await;
    let at = |target: &str| insert("x").replacen(&path("/people"), target, 1);
    let people = path("/people");
    let cases: Vec<(&str, String, u16)> = vec![
        ("another method", insert("x").replacen("POST", "EAT", 1), 405),
        ("a long method", insert("x").replacen("POST", &"P".repeat(100_000), 1), 405),
        ("a query", insert("x").replacen("POST", "GET", 1), 405),
        ("another account", at("/nobody/people"), 400),
        ("another account's host", at("http://nobody.table.core.windows.net/people"), 400),
        ("no table", at("http://localhost"), 400),
        ("no host", at("http:///people"), 400),
        ("a batch in a batch", at(&path("/$batch")), 405),
        ("the tables", at(&path("/Tables")), 405),
        ("bad encoding", at(&format!("{people}(PartitionKey='%FF',RowKey='r')")), 400),
        ("a long address", at(&format!("{people}{}", "x".repeat(1 << 20))), 400),
        ("deep JSON", insert("x").replace("\"x\"", &"[".repeat(100_000)), 400),
        ("a long key", insert(&"k".repeat(1 << 20)), 400),
        (
            "If-Match of bytes",
            part(
                &format!("PUT {people}(PartitionKey='b',RowKey='x')"),
                &["If-Match: \u{e9}"],
                "{}",
            ),
            400,
        ),
    ];
    for (what, operation, status) in cases {
        let body = change_set(&[insert("first"), operation, insert("last")]);
        let answer = post(&mut client, &body).await;
        let parts = parts(&answer);
        assert_eq!((parts.len(), parts[0].status), (1, status), "{what}: {:?}", parts[0]);
        let text = parts[0].text();
        assert!(text.contains("\"value\":\"1:"), "{what}: {text}");
    }
    let many: Vec<_> = (0..101).map(|row| insert(&row.to_string())).collect();
    assert_eq!(parts(&post(&mut client, change_set(&many)).await)[0].status, 400);
    let many: Vec<_> = (0..9_000).map(|row| insert(&row.to_string())).collect();
    assert_eq!(parts(&post(&mut client, change_set(&many)).await)[0].status, 400);
    let found =
        send(&mut client, "GET", "/people()?$filter=PartitionKey%20eq%20'b'", &[], "").await;
    assert_eq!(found.json()["value"], serde_json::json!([]), "nothing was done");
    target.survives().await;
}

/// R-S12: in a batch a query may be longer than any URL.
#[tokio::test]
async fn r_s12_hostile_queries_in_a_batch() {
    let target = Target::start().await;
    let mut client = target.client().await;
    let deep = format!("{}A%20eq%201{}", "(".repeat(100_000), ")".repeat(100_000));
    let many = vec!["A%20eq%201"; 10_000].join("%20or%20");
    let points: Vec<_> = (0..10_000).map(|n| format!("RowKey%20eq%20'{n}'")).collect();
    let points = points.join("%20or%20");
    let negated = format!("{}({many})", "not%20".repeat(9_999));
    let boxes = "(PartitionKey%20gt%20'a'%20or%20RowKey%20lt%20'b')";
    let boxes = vec![boxes; 10_000].join("%20and%20");
    let names: Vec<_> = (0..500_000).map(|n| format!("a{n}")).collect();
    for (what, options, status) in [
        ("100,000 parentheses", format!("$filter={deep}"), 400),
        ("10,000 terms", format!("$filter={many}"), 200),
        ("10,000 points", format!("$filter={points}"), 200),
        ("10,000 terms and as many nots", format!("$filter={negated}"), 200),
        ("10,000 boxes", format!("$filter={boxes}"), 200),
        ("4 MiB of filter", format!("$filter={}", "x".repeat(4_000_000)), 400),
        ("500,000 names", format!("$select={}", names.join(",")), 400),
        ("a million times the same name", format!("$select={}", "A,".repeat(1_000_000)), 200),
        (
            "4 MiB of continuation",
            format!("NextPartitionKey=1!4000000!{}", "A".repeat(4_000_000)),
            200,
        ),
        ("as many parameters", "&x=".repeat(1_000_000), 200),
    ] {
        let answer = post(&mut client, query(&format!("/people()?{options}"))).await;
        let part = &parts(&answer)[0];
        assert_eq!(part.status, status, "{what}: {:?}", part.text().get(..200));
    }
    target.survives().await;
}
