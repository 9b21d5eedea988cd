//! Bodies of single operations: JSON, Atom, XML, and the framing around them.

use std::fmt::Write;

use super::{Target, path, send, shown};
use crate::support::Answer;

/// What an error takes at most.
const SHORT: usize = 16 << 10;

fn failure(answer: &Answer) -> (u16, String) {
    (answer.status, answer.header("x-ms-error-code").unwrap_or_default().to_owned())
}

/// R-S12: JSON that is too deep, too long, or none.
#[tokio::test]
async fn r_s12_hostile_json() {
    let target = Target::start().await;
    let mut client = target.client().await;
    let arrays = "[".repeat(100_000) + &"]".repeat(100_000);
    let objects = r#"{"a":"#.repeat(100_000) + "1" + &"}".repeat(100_000);
    let digits = "9".repeat(10_000);
    let many = (0..300_000).fold(String::new(), |mut all, n| {
        let _ = write!(all, ",\"a{n}\":1");
        all
    });
    let invalid = (400, "InvalidInput");
    let cases: Vec<(&str, String, (u16, &str))> = vec![
        ("deep arrays", format!(r#","A":{arrays}"#), invalid),
        ("deep objects", format!(r#","A":{objects}"#), invalid),
        ("deep arrays that are passed over", format!(r#","odata.x":{arrays}"#), invalid),
        ("deep objects that are passed over", format!(r#","a@b.c":{objects}"#), invalid),
        ("open arrays", format!(r#","Timestamp":{}"#, "[".repeat(2 << 20)), invalid),
        ("a member twice", r#","A":1,"A":2"#.into(), (400, "DuplicatePropertiesSpecified")),
        ("a key twice", r#","RowKey":"x""#.into(), (400, "DuplicatePropertiesSpecified")),
        (
            "a type twice",
            r#","A@odata.type":"Edm.Guid","A@odata.type":"Edm.Guid""#.into(),
            (400, "DuplicatePropertiesSpecified"),
        ),
        ("an escaped twin", r#","A":1,"\u0041":2"#.into(), (400, "DuplicatePropertiesSpecified")),
        ("10,000 digits", format!(r#","A":{digits}"#), invalid),
        (
            "10,000 digits of an Int64",
            format!(r#","A@odata.type":"Edm.Int64","A":"{digits}""#),
            invalid,
        ),
        (
            "10,000 digits of an Int32",
            format!(r#","A@odata.type":"Edm.Int32","A":{digits}"#),
            invalid,
        ),
        ("10,000 digits of an exponent", format!(r#","A":1e{digits}"#), invalid),
        (
            "10,000 digits of a year",
            format!(r#","A@odata.type":"Edm.DateTime","A":"{digits}-01-01T00:00:00Z""#),
            invalid,
        ),
        ("10,000 digits of a fraction", format!(r#","A":0.{digits}"#), (201, "")),
        ("garbage for base64", r#","A@odata.type":"Edm.Binary","A":"!!!!""#.into(), invalid),
        ("half of base64", r#","A@odata.type":"Edm.Binary","A":"AAA""#.into(), invalid),
        (
            "too much base64",
            format!(r#","A@odata.type":"Edm.Binary","A":"{}""#, "A".repeat(1 << 20)),
            (400, "PropertyValueTooLarge"),
        ),
        ("a type that is none", r#","A@odata.type":"Edm.Geography","A":"x""#.into(), invalid),
        ("a type that is no text", r#","A@odata.type":{},"A":"x""#.into(), invalid),
        ("half of a surrogate pair", r#","A":"\ud800""#.into(), invalid),
        ("an escape that is none", r#","A":"\x""#.into(), invalid),
        ("a control character", ",\"A\":\"\0\"".into(), invalid),
        ("many members", many, (400, "TooManyProperties")),
        ("a long name", format!(r#","{}":1"#, "n".repeat(1 << 20)), (400, "PropertyNameTooLong")),
        (
            "a long name of an array",
            format!(r#","{}":[]"#, "\u{7f}".repeat(4_000_000)),
            (400, "PropertyNameTooLong"),
        ),
        ("a name with NUL", r#","a\u0000b":1"#.into(), (400, "PropertyNameInvalid")),
        ("a comma too many", ",".into(), invalid),
        ("something after it", "}, {".into(), invalid),
        ("a comment", "/* x */".into(), invalid),
        ("NaN", r#","A":NaN"#.into(), invalid),
    ];
    for (row, (what, members, expected)) in cases.into_iter().enumerate() {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"{members}}}"#);
        let answer = send(&mut client, "POST", "/people", &[], &body).await;
        let (status, code) = failure(&answer);
        assert_eq!((status, &*code), expected, "{what}: {}", shown(&body));
        let length = answer.body.len();
        assert!(status == 201 || length < SHORT, "{what}: {length} bytes of an error");
    }
    for body in [
        &b"\xff\xfe{}"[..],
        b"{\"A\":\"\xc3\"}",
        b"",
        b"null",
        b"\"x\"",
        b"{\"A\"",
        &[b' '; 1 << 20],
    ] {
        let found = failure(&send(&mut client, "POST", "/people", &[], body).await);
        assert_eq!((found.0, &*found.1), invalid, "{}", shown(&String::from_utf8_lossy(body)));
    }
    target.survives().await;
}

/// R-S12: XML with entities of its own, or too much of anything, in Atom, policies and settings.
#[tokio::test]
async fn r_s12_hostile_xml() {
    let target = Target::start().await;
    let mut client = target.client().await;
    let laughs: String = (1..30)
        .map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10)))
        .collect();
    let laughs = format!("<!DOCTYPE x [<!ENTITY l0 \"ha\">{laughs}]>");
    let file = "<!DOCTYPE x [<!ENTITY l29 SYSTEM \"file:///etc/passwd\">]>";
    let attributes = (0..250_000).fold(String::new(), |mut all, n| {
        let _ = write!(all, " a{n}=''");
        all
    });
    let spaces = (0..100_000).fold(String::new(), |mut all, n| {
        let _ = write!(all, " xmlns:a{n}='u'");
        all
    });
    // Where a document has text, and what stands before and in it.
    let cases: Vec<(&str, &str, String)> = vec![
        ("a billion laughs", &laughs, "&l29;".into()),
        ("a file", file, "&l29;".into()),
        ("an entity that is none", "", "&l29;".into()),
        ("no character", "", "&#xD800;".into()),
        ("deep elements", "", "<a>".repeat(100_000) + &"</a>".repeat(100_000)),
        ("open elements", "", "<a>".repeat(1 << 20)),
        ("many elements", "", "<a/>".repeat(500_000)),
        ("many attributes", "", format!("<a{attributes}/>")),
        ("many namespaces", "", format!("<a{spaces}/>")),
        ("an attribute twice", "", "<a b='' b=''/>".into()),
        ("an open comment", "", "<!--".to_owned() + &"-".repeat(1 << 20)),
        ("open CDATA", "", "<![CDATA[".to_owned() + &"]".repeat(1 << 20)),
        ("a control character", "", "\u{1}".into()),
        ("a tag that is none", "", "<".repeat(1 << 20)),
    ];
    let d = "http://schemas.microsoft.com/ado/2007/08/dataservices";
    let old = [
        ("Content-Type", "application/atom+xml"),
        ("Accept", "application/atom+xml"),
        ("x-ms-version", "2011-08-18"),
    ];
    for (what, before, inside) in cases {
        let entry = format!(
            "{before}<entry xmlns='http://www.w3.org/2005/Atom' xmlns:d='{d}' xmlns:m='{d}/metadata'>\
             <content type='application/xml'><m:properties><d:PartitionKey>p</d:PartitionKey>\
             <d:RowKey>r</d:RowKey><d:A>{inside}</d:A></m:properties></content></entry>"
        );
        let found = failure(&send(&mut client, "POST", "/people", &old, entry).await);
        assert_eq!((found.0, &*found.1), (400, "InvalidInput"), "{what}");
        let acl = format!(
            "{before}<SignedIdentifiers><SignedIdentifier><Id>{inside}</Id>\
            </SignedIdentifier></SignedIdentifiers>"
        );
        let found = failure(&send(&mut client, "PUT", "/people?comp=acl", &[], acl).await);
        assert_eq!((found.0, &*found.1), (400, "InvalidXmlDocument"), "{what}");
        let settings = format!(
            "{before}<StorageServiceProperties><Logging><Version>{inside}\
            </Version></Logging></StorageServiceProperties>"
        );
        let service = "/?restype=service&comp=properties";
        let found = failure(&send(&mut client, "PUT", service, &[], settings).await);
        assert_eq!((found.0, &*found.1), (400, "InvalidXmlDocument"), "{what}");
    }
    target.survives().await;
}

/// R-S12: bodies whose ends are told in two ways, or in none that can be.
#[tokio::test]
async fn r_s12_hostile_framing() {
    let target = Target::start().await;
    let people = path("/people");
    let post = |headers: &str| format!("POST {people} HTTP/1.1\r\nHost: h\r\n{headers}\r\n\r\n");
    let next = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for (what, request) in [
        ("two lengths", post("Content-Length: 3\r\nContent-Length: 5")),
        ("a list of lengths", post("Content-Length: 3, 5")),
        ("a negative length", post("Content-Length: -1")),
        ("a signed length", post("Content-Length: +3")),
        ("a length in hexadecimal", post("Content-Length: 0x3")),
        ("a length beyond numbers", post(&format!("Content-Length: {}", "9".repeat(30)))),
        ("an unknown coding", post("Transfer-Encoding: chunky")),
        ("chunks in another coding", post("Transfer-Encoding: chunked, identity")),
        ("chunks in HTTP/1.0", post("Transfer-Encoding: chunked").replace("1.1", "1.0")),
    ] {
        let mut client = target.connect().await;
        client.send(format!("{request}abc{next}")).await;
        let answer = client.answer().await.unwrap_or_else(|| panic!("no answer: {what}"));
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        assert!(client.ends().await, "{what}");
    }
    // Unsigned requests, whose bodies are read so that the next one is understood; but where two
    // readers could disagree on what the next one is, there is none.
    let chunks = "Transfer-Encoding: chunked";
    for (what, request, next_is_answered) in [
        (
            "a length and chunks",
            post(&format!("Content-Length: 3\r\n{chunks}")) + "0\r\n\r\n",
            false,
        ),
        (
            "chunks and a length",
            post(&format!("{chunks}\r\nContent-Length: 3")) + "0\r\n\r\n",
            false,
        ),
        ("chunks that are none", post(chunks) + "zzz\r\n", false),
        ("a chunk beyond numbers", post(chunks) + "fffffffffffffffff\r\n", false),
        ("a chunk without its end", post(chunks) + "1\r\nabc", false),
        ("a chunk with an extension", post(chunks) + "1;x=y\r\na\r\n0\r\n\r\n", true),
        ("a GET with a body", post("Content-Length: 3").replace("POST", "GET") + "abc", true),
    ] {
        let mut client = target.connect().await;
        client.send(request + next).await;
        assert_eq!(client.answer().await.map(|answer| answer.status), Some(403), "{what}");
        let second = client.answer().await.map(|answer| answer.status);
        assert_eq!(second, next_is_answered.then_some(400), "{what}");
    }
    let mut client = target.client().await;
    let body = [("Content-Length", "3")];
    let found = client.promise("GET", "/people()", &body).await;
    assert_eq!(found.status, 200, "a body that no operation reads");
    target.survives().await;
}
