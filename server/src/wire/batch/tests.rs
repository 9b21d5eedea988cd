//! Batches as SDKs send them, as nobody should, and as chance makes them (R-S07).

use std::borrow::Cow;

use http::StatusCode;
use proptest::prelude::*;

use super::parse::find;
use super::*;

const TYPE: &str = "multipart/mixed; boundary=batch_b";

fn change_set(body: &str) -> Vec<SubRequest<'_>> {
    match parse(TYPE, body.as_bytes(), 100) {
        Ok(Batch::ChangeSet(requests)) => requests,
        other => panic!("expected a change set: {other:?}"),
    }
}

fn kind(body: &str) -> BatchErrorKind {
    parse(TYPE, body.as_bytes(), 100).expect_err("refused").kind
}

/// One operation with this body, with CRLF and every boundary closed.
fn one(body: &str) -> String {
    format!(
        "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n\
         --changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         POST http://127.0.0.1:10002/devstoreaccount1/t HTTP/1.1\r\nAccept: */*\r\n\r\n\
         {body}\r\n--changeset_c--\r\n--batch_b--\r\n"
    )
}

/// The form of the Python SDK: CRLF, Content-ID in the part, Content-Length.
#[test]
fn python() {
    let body = "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n\
        --changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
        Content-ID: 0\r\n\r\nPUT http://h/a/t(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\
        If-Match: *\r\nContent-Length: 9\r\n\r\n{\"a\":\"b\"}\r\n\
        --changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
        Content-ID: 1\r\n\r\nDELETE http://h/a/t(PartitionKey='p',RowKey='s') HTTP/1.1\r\n\
        if-match: W/\"x\"\r\nContent-Length: 0\r\n\r\n\r\n--changeset_c--\r\n\r\n--batch_b--\r\n";
    let requests = change_set(body);
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].method, "PUT");
    assert_eq!(requests[0].target, "http://h/a/t(PartitionKey='p',RowKey='r')");
    assert_eq!(requests[0].content_id.as_deref(), Some("0"));
    assert_eq!(find(&requests[0].headers, "if-match"), Some("*"));
    assert_eq!(requests[0].body, b"{\"a\":\"b\"}");
    assert_eq!(find(&requests[1].headers, "If-Match"), Some("W/\"x\""));
    assert_eq!(requests[1].content_id.as_deref(), Some("1"));
    assert_eq!(requests[1].body, b"");
}

/// The form of the JavaScript SDK: no Content-Length, two blank lines before a body.
#[test]
fn javascript() {
    let requests = one("\r\n{\"a\":1}");
    let requests = change_set(&requests);
    assert_eq!(requests[0].body, b"\r\n{\"a\":1}");
    assert_eq!(requests[0].content_id, None);
}

/// The form of the Rust crate and of the documentation's sample: bare LF, no `--` at the very end.
#[test]
fn rust() {
    let body = one("{}").replace("\r\n", "\n").replace("--batch_b--\n", "--batch_b\n");
    assert_eq!(change_set(&body)[0].body, b"{}");
    let body = body.replace("--changeset_c--\n", "--changeset_c\n");
    assert_eq!(change_set(&body).len(), 1);
}

/// A query stands alone, here without the blank line after its headers, as Azurite's tests send it.
#[test]
fn a_query() {
    let body = "--batch_b\r\nContent-Type: application/http\r\n\r\n\
        GET http://h/t(PartitionKey='a', RowKey='b c') HTTP/1.1\r\nAccept: x\r\n--batch_b--";
    let Ok(Batch::Query(query)) = parse(TYPE, body.as_bytes(), 100) else { panic!("a query") };
    assert_eq!(query.target, "http://h/t(PartitionKey='a', RowKey='b c')");
    assert_eq!(*query.headers, [("Accept", "x".into())]);
    assert!(query.body.is_empty());
}

/// Boundaries count at line starts only, and not inside a body of known length (protocol 8).
#[test]
fn bodies_that_look_like_protocol() {
    let text = "{\"a\":\"--changeset_c--batch_b HTTP/1.1 400\"}\n --changeset_c\n--changeset_cc";
    assert_eq!(change_set(&one(text))[0].body, text.as_bytes());

    let text = "{}\r\n--changeset_c--\r\n--batch_b--\r\n";
    let sized = one(text).replace("*/*", &format!("*/*\r\nContent-Length: {}", text.len()));
    assert_eq!(change_set(&sized)[0].body, text.as_bytes());
    for wrong in ["0", "1", "70", "99999999999999999999"] {
        let sized = one("{}").replace("*/*", &format!("*/*\r\nContent-Length: {wrong}"));
        assert!(matches!(kind(&sized), BatchErrorKind::ContentLength { .. }), "{wrong}");
    }
    // What is no number says nothing. The first is the C++ SDK's, which ends no line there.
    for no_number in ["2Accept: application/json", "", "-1", "+2", "2, 2", "x"] {
        let sized = one("{}").replace("*/*", &format!("*/*\r\nContent-Length: {no_number}"));
        assert_eq!(change_set(&sized)[0].body, b"{}", "{no_number}");
    }
    let long = one("{}").replace("*/*", &format!("*/*\r\nContent-Length: {}", "9".repeat(1 << 20)));
    assert!(kind(&long).to_string().len() < 200, "R-S12: an error is bounded");
}

/// Folded part headers, quoted boundaries, blank lines and an epilogue are MIME's rights.
#[test]
fn mime() {
    let body =
        one("{}").replace("mixed; boundary=changeset_c", "mixed;\r\n\tBOUNDARY=\"changeset_c\"");
    let body = format!("\r\n{body}This was a message.\r\n");
    assert_eq!(change_set(&body)[0].body, b"{}");
    let quoted = "Multipart/Mixed; charset=x; boundary=\"batch_b\"";
    assert!(parse(quoted, body.as_bytes(), 100).is_ok());
}

/// Each refusal says what is wrong, and at which byte.
#[test]
fn refusals() {
    use BatchErrorKind as Kind;
    let good = one("{}");
    for wrong in ["application/json", "multipart/mixed", "multipart/mixed; boundary=", ""] {
        let error = parse(wrong, good.as_bytes(), 100).expect_err(wrong);
        assert!(matches!(error.kind, Kind::NotMultipart { .. }));
    }
    assert!(matches!(kind(""), Kind::NoBoundary { .. }));
    assert!(matches!(kind(&format!("preamble\r\n{good}")), Kind::NoBoundary { .. }));
    assert!(matches!(kind(&good.replace("--changeset_c\r\n", "")), Kind::NoBoundary { .. }));
    let cut = good.split("\r\n--changeset_c--").next().expect("a beginning");
    assert!(matches!(kind(cut), Kind::NoBoundary { .. }));
    assert!(matches!(kind(&good.replace("application/http", "text/plain")), Kind::PartType { .. }));
    assert!(matches!(kind(&good.replace("Accept: */*", "Accept")), Kind::Header { .. }));
    for bad in [
        "Acc\u{1}ept: */*",
        "Accept: \u{1b}",
        "Accept: \u{7f}",
        ": */*",
        "Acc ept: */*",
        "Accept\t: */*",
    ] {
        assert!(matches!(kind(&good.replace("Accept: */*", bad)), Kind::Header { .. }), "{bad:?}");
    }
    let line = "POST http://127.0.0.1:10002/devstoreaccount1/t HTTP/1.1";
    for bad in [
        "POST http://a/t",
        "P0ST http://a/t HTTP/1.1",
        "POST  HTTP/1.1",
        "POST http://a/t XTTP/1.1",
        "",
    ] {
        assert!(matches!(kind(&good.replace(line, bad)), Kind::RequestLine { .. }), "{bad:?}");
    }
    let headers = |count: usize| good.replace("Accept", &("a: b\r\n".repeat(count - 1) + "Accept"));
    assert_eq!(change_set(&headers(64))[0].headers.len(), 64);
    assert_eq!(kind(&headers(65)), Kind::TooManyHeaders { limit: 64 });

    let bad = good.replace("Accept: ", "Accept ");
    let error = parse(TYPE, bad.as_bytes(), 100);
    let error = error.expect_err("no header").to_string();
    let at = good.find("Accept").expect("there");
    assert_eq!(error, format!("byte {at} of the batch: expected a header, found \"Accept */*\""));
}

/// R-S12: what a batch takes besides its body: its requests, and the headers that are not those before.
#[test]
fn r_s12_headers_count_where_they_are_kept() {
    let own_bytes = |headers: [&str; 3]| {
        let parts = headers.map(|headers| {
            format!("--c\nContent-Type: application/http\n\nPOST t HTTP/1.1\n{headers}\n\n{{}}\n")
        });
        let parts = parts.concat();
        let body = format!(
            "--batch_b\nContent-Type: multipart/mixed;boundary=c\n\n{parts}--c--\n--batch_b--\n"
        );
        parse(TYPE, body.as_bytes(), 3).expect("a batch").own_bytes()
    };
    let (same, different) = (own_bytes(["A: 1"; 3]), own_bytes(["A: 1", "A: 2", "A: 1"]));
    let header = size_of::<(&str, Cow<'_, str>)>();
    assert!(same >= 3 * size_of::<SubRequest<'_>>() + header, "{same}");
    assert!(different >= same + 2 * header, "{different} and {same}");
    // A value of several lines is none of the body's.
    let folded = format!("A: 1\n {}", "x".repeat(1_000));
    assert!(own_bytes([&folded, "A: 1", "A: 1"]) >= same + 1_000);
}

/// Headers that are those before are shared; those that only begin like them are read for themselves.
#[test]
fn headers_that_come_again() {
    let part = |headers: &str, body: &str| {
        format!("--changeset_c\nContent-Type: application/http\n{headers}{body}\n")
    };
    let request = |of_part: &str, line: &str, headers: &str| {
        part(&format!("{of_part}\n{line} HTTP/1.1\n{headers}"), "\n{}")
    };
    let parts = [
        request("", "PUT http://h/t", "A: 1\n"),
        request("", "PUT http://h/t", "A: 1\n"),
        request("", "PUT http://h/u", "A: 1\nB: 2\n"),
        request("Content-ID: x\n", "PUT http://h/t", "A: 1\n"),
        request("", "DELETE http://h/t", "A: 1\n b\n"),
        // A delimiter ends headers too, after which others may go on.
        part("\nPUT http://h/t HTTP/1.1\nA: 1", ""),
        part("\nPUT http://h/t HTTP/1.1\nA: 1\nB: 2\n", "\n{}"),
    ];
    let body = one("{}").replacen("--changeset_c\r\n", &(parts.concat() + "--changeset_c\n"), 1);
    let requests = change_set(&body);
    let headers: Vec<String> = requests
        .iter()
        .map(|it| it.headers.iter().map(|(name, value)| format!("{name}={value};")).collect())
        .collect();
    let expected =
        ["A=1;", "A=1;", "A=1;B=2;", "A=1;", "A=1 b;", "A=1;", "A=1;B=2;", "Accept=*/*;"];
    assert_eq!(headers, expected);
    assert!(std::sync::Arc::ptr_eq(&requests[0].headers, &requests[1].headers));
    let targets: Vec<_> = requests.iter().take(5).map(|it| (it.method, it.target)).collect();
    let (t, u) = (("PUT", "http://h/t"), ("PUT", "http://h/u"));
    assert_eq!(targets, [t, t, u, t, ("DELETE", "http://h/t")]);
    let ids: Vec<_> = requests.iter().map(|it| it.content_id.as_deref()).collect();
    assert_eq!(ids, [None, None, None, Some("x"), None, None, None, None]);
}

/// The form of the C++ SDK: no line end between a body and the boundary behind it, no blank line behind headers, and
/// no hyphens behind the last boundary.
#[test]
fn cpp() {
    let head = "Content-Type: application/http\nContent-Transfer-Encoding: binary\n\n";
    let add = |row: &str| {
        let lines = "POST http://h/a/t HTTP/1.1\nPrefer: return-no-content\n";
        format!("--changeset_c\n{head}{lines}DataServiceVersion: 3.0;\n\n{row}")
    };
    let delete = format!(
        "--changeset_c\n{head}DELETE http://h/a/t(PartitionKey='p',RowKey='r') HTTP/1.1\nIf-Match: *\n"
    );
    let inner = "Content-Type: multipart/mixed; boundary=changeset_c\n\n";
    // What ends within a line of a body is none.
    let last = r#"{"A":"--changeset_c","B":"--changeset_c--"}"#;
    let body = format!(
        "--batch_b\n{inner}{}{delete}{}\n\n--changeset_c--\n--batch_b\n",
        add("{}"),
        add(last)
    );
    let requests = change_set(&body);
    let bodies: Vec<_> = requests.iter().map(|request| (request.method, request.body)).collect();
    assert_eq!(bodies[..2], [("POST", &b"{}"[..]), ("DELETE", &b""[..])]);
    assert_eq!(bodies[2].1.trim_ascii_end(), last.as_bytes());
    assert_eq!(find(&requests[1].headers, "If-Match"), Some("*"));
    // The last boundary may be there so, too.
    let closed = body.replace("\n\n--changeset_c--", "--changeset_c--");
    assert_eq!(change_set(&closed).len(), 3);
}

/// One change set, or one query, and nothing beside it (protocol 8).
#[test]
fn a_second_part() {
    let good = one("{}");
    let again = good.replace("--batch_b--\r\n", &good);
    assert_eq!(kind(&again), BatchErrorKind::SecondPart);
    let query = "Content-Type: application/http\r\n\r\nGET http://h/t HTTP/1.1\r\n\r\n";
    let after = good.replace("--batch_b--", &format!("--batch_b\r\n{query}--batch_b--"));
    assert_eq!(kind(&after), BatchErrorKind::SecondPart);
    let two = format!("--batch_b\r\n{query}--batch_b\r\n{query}--batch_b--");
    assert_eq!(kind(&two), BatchErrorKind::SecondPart);
}

/// More than a hundred operations are refused before they are held (protocol 8).
#[test]
fn too_many() {
    let part = "--changeset_c\nContent-Type: application/http\n\nDELETE http://h/t HTTP/1.1\n\n";
    let whole =
        |count| one("{}").replace("--changeset_c--", &(part.repeat(count) + "--changeset_c--"));
    assert_eq!(change_set(&whole(99)).len(), 100);
    assert_eq!(kind(&whole(100)), BatchErrorKind::TooManyOperations { limit: 100 });
}

/// A change set that is closed at once asks for nothing; one that is opened lacks an operation (protocol 8).
#[test]
fn no_operations() {
    let closed = "--batch_b\nContent-Type: multipart/mixed; boundary=changeset_c\n\n\
        --changeset_c--\n--batch_b--";
    assert_eq!(parse(TYPE, closed.as_bytes(), 100), Ok(Batch::Nothing));
    let opened = closed.replace("--changeset_c--", "--changeset_c\n\n--changeset_c--");
    assert!(change_set(&opened).is_empty());
    assert_eq!(kind(&closed.replace("--batch_b--", &one("{}"))), BatchErrorKind::SecondPart);
}

/// The recorded form of the service's answer (protocol 8).
#[test]
fn the_answer() {
    let mut writer = BatchWriter::change_set("b", "c");
    writer.begin(StatusCode::NO_CONTENT, Some("7"));
    writer.header("Cache-Control", "no-cache");
    writer.header("ETag", "W/\"x\"");
    writer.end(b"");
    let expected = "--batchresponse_b\r\n\
        Content-Type: multipart/mixed; boundary=changesetresponse_c\r\n\r\n\
        --changesetresponse_c\r\nContent-Type: application/http\r\n\
        Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 204 No Content\r\nContent-ID: 7\r\n\
        Cache-Control: no-cache\r\nETag: W/\"x\"\r\n\r\n\r\n--changesetresponse_c--\r\n\
        --batchresponse_b--\r\n";
    assert_eq!(String::from_utf8(writer.finish()).expect("text"), expected);

    let mut writer = BatchWriter::query("b");
    writer.begin(StatusCode::OK, None);
    writer.end(b"{}");
    let expected = "--batchresponse_b\r\nContent-Type: application/http\r\n\
        Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}\r\n--batchresponse_b--\r\n";
    assert_eq!(String::from_utf8(writer.finish()).expect("text"), expected);
}

/// A part that is printed again around another text, which was there twice, once or not at all.
#[test]
fn parts_that_come_again() {
    for names in [&["A", "B"][..], &["A"], &[]] {
        let print = |writer: &mut BatchWriter, text: &str| {
            writer.begin(StatusCode::NO_CONTENT, None);
            names.iter().for_each(|name| writer.header(name, text));
            writer.end(b"");
        };
        let (mut again, mut anew) =
            (BatchWriter::change_set("b", "c"), BatchWriter::change_set("b", "c"));
        let start = again.len();
        print(&mut again, "http://h/first");
        let pieces = again.pieces(start, "http://h/first");
        again.repeat(&pieces, "http://h/second");
        again.repeat(&pieces, "");
        for text in ["http://h/first", "http://h/second", ""] {
            print(&mut anew, text);
        }
        assert_eq!(again.finish(), anew.finish());
    }
}

/// Fragments of batches, so that chance meets the grammar.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        prop::sample::select(vec![
            "--batch_b",
            "--changeset_c",
            "--",
            "\r\n",
            "\n",
            "\r\n\r\n",
            " ",
            ": ",
            "Content-Type: multipart/mixed; boundary=changeset_c\r\n\r\n",
            "Content-Type: application/http\r\n\r\n",
            "POST http://h/t HTTP/1.1\r\n",
            "Content-Length: 3\r\n",
            "{}",
            "\0",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(fragment, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    /// Whatever comes, the parser answers, and what it returns lies within the body.
    #[test]
    fn any_bytes(body in fragments(), begin in any::<bool>()) {
        let mut whole = if begin { b"--batch_b\r\n".to_vec() } else { Vec::new() };
        whole.extend(body);
        match parse(TYPE, &whole, 3) {
            Ok(Batch::ChangeSet(requests)) => {
                prop_assert!(requests.len() <= 3);
                let bytes: usize = requests.iter().map(|it| it.body.len()).sum();
                prop_assert!(bytes <= whole.len());
            }
            Ok(Batch::Query(_) | Batch::Nothing) => {}
            Err(error) => prop_assert!(error.offset <= whole.len()),
        }
    }

    /// What is printed with Content-Length comes back byte for byte, whatever the bodies hold.
    #[test]
    fn printed_bodies_come_back(bodies in prop::collection::vec(fragments(), 1..5), lf in any::<bool>()) {
        let end = if lf { "\n" } else { "\r\n" };
        let mut whole = format!("--batch_b{end}Content-Type: multipart/mixed; boundary=changeset_c{end}{end}");
        let mut whole = std::mem::take(&mut whole).into_bytes();
        for (index, body) in bodies.iter().enumerate() {
            whole.extend(format!(
                "--changeset_c{end}Content-Type: application/http{end}Content-ID: {index}{end}{end}\
                 MERGE http://h/t HTTP/1.1{end}Content-Length: {}{end}{end}", body.len()).bytes());
            whole.extend(body);
            whole.extend(end.bytes());
        }
        whole.extend(format!("--changeset_c--{end}--batch_b--{end}").bytes());
        let Ok(Batch::ChangeSet(requests)) = parse(TYPE, &whole, 100) else {
            return Err(TestCaseError::fail("no change set"));
        };
        prop_assert_eq!(requests.len(), bodies.len());
        for (index, (request, body)) in requests.iter().zip(&bodies).enumerate() {
            prop_assert_eq!(request.body, body.as_slice());
            let id = index.to_string();
            prop_assert_eq!(request.content_id.as_deref(), Some(id.as_str()));
        }
    }
}
