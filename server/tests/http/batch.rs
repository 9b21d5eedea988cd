//! Batches as bytes, and their answers taken apart.

use serde_json::Value;

use crate::support::{Answer, Signing};

pub(crate) const BASE: &str = "http://localhost/devstoreaccount1";
pub(crate) const TYPE: (&str, &str) = ("Content-Type", "multipart/mixed; boundary=batch_b");

/// A part of a batch: a request with headers, and a body.
pub(crate) fn part(request: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!(
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         {request} HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n{headers}\
         Content-Type: application/json\r\n\r\n{body}\r\n"
    )
}

pub(crate) fn insert(row: &str) -> String {
    insert_with(row, &["Prefer: return-no-content"])
}

pub(crate) fn insert_with(row: &str, headers: &[&str]) -> String {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","N":1}}"#);
    part(&format!("POST {BASE}/people"), headers, &body)
}

/// A part with an identifier.
pub(crate) fn identified(id: &str, part: &str) -> String {
    part.replacen("\r\n\r\n", &format!("\r\nContent-ID: {id}\r\n\r\n"), 1)
}

pub(crate) fn write(method: &str, row: &str, headers: &[&str], body: &str) -> String {
    let target = format!("{BASE}/people(PartitionKey='p',RowKey='{row}')");
    part(&format!("{method} {target}"), headers, body)
}

pub(crate) fn change_set(parts: &[String]) -> String {
    let mut body =
        "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n".to_owned();
    for part in parts {
        body += "--changeset_c\r\n";
        body += part;
    }
    body + "--changeset_c--\r\n--batch_b--\r\n"
}

/// A batch of one part, which is in no change set, as a query is.
pub(crate) fn alone(part: &str) -> String {
    format!("--batch_b\r\n{part}--batch_b--\r\n")
}

pub(crate) async fn post(client: &mut Signing, body: &str) -> Answer {
    client.send("POST", "/$batch", &[TYPE], body).await
}

/// The parts of an answer: status, headers in lower case, body.
pub(crate) fn parts(answer: &Answer) -> Vec<Answer> {
    assert_eq!(answer.status, 202, "{answer:?}");
    let outer =
        answer.header("content-type").and_then(|it| it.strip_prefix("multipart/mixed; boundary="));
    let outer = outer.expect("a boundary");
    assert!(outer.starts_with("batchresponse_"), "{outer}");
    let text = answer.text().strip_prefix(&format!("--{outer}\r\n")).expect("the boundary first");
    let text = text.strip_suffix(&format!("--{outer}--\r\n")).expect("the boundary last");
    let inner = text
        .strip_prefix("Content-Type: multipart/mixed; boundary=")
        .and_then(|rest| rest.split_once("\r\n\r\n"));
    let bodies: Vec<&str> = match inner {
        None => vec![text],
        Some((inner, rest)) => {
            assert!(inner.starts_with("changesetresponse_"), "{inner}");
            let rest = rest.strip_suffix(&format!("--{inner}--\r\n")).expect("closed");
            rest.split(&format!("--{inner}\r\n")).skip(1).collect()
        }
    };
    bodies.into_iter().map(answer_of).collect()
}

fn answer_of(part: &str) -> Answer {
    let part = part.strip_prefix(
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
    );
    let (head, body) = part.and_then(|part| part.split_once("\r\n\r\n")).expect("a part");
    let mut lines = head.split("\r\n");
    let status =
        lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a status line");
    let status = status.split(' ').next().and_then(|it| it.parse().ok()).expect("a status");
    let headers = lines.map(|line| line.split_once(": ").expect("a header"));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = body.strip_suffix("\r\n").expect("a line end");
    Answer { status, headers, body: body.as_bytes().to_vec() }
}

/// The code and the text of the only part, which is an error.
pub(crate) fn failure(answer: &Answer) -> (u16, String, String) {
    let parts = parts(answer);
    assert_eq!(parts.len(), 1, "{answer:?}");
    let error = &parts[0].json()["odata.error"];
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let message = text(&error["message"]["value"]);
    let line = message.split('\n').next().expect("a line").to_owned();
    (parts[0].status, text(&error["code"]), line)
}

pub(crate) async fn rows(client: &mut Signing) -> Vec<String> {
    let page = client.get("/people()?$select=RowKey").await.json();
    let rows = page["value"].as_array().expect("rows");
    rows.iter().map(|row| row["RowKey"].as_str().expect("a key").to_owned()).collect()
}
