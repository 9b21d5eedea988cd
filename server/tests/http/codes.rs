//! Every code that the server can give, with its status and its text, in JSON and in XML as the
//! client accepts (R-S05, protocol 5).

use std::collections::HashSet;

use serde_json::json;
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, Limits};
use tablestone_server::error::ErrorCode::{self, *};

use crate::access;
use crate::batch::{change_set, part, parts};
use crate::support::{Answer, Client, Server, Signing};

const POINT: &str = "/people(PartitionKey='p',RowKey='r')";
const MISSING: &str = "/people(PartitionKey='p',RowKey='missing')";
const SERVICE: &str = "/?restype=service&comp=properties";
const ENTRY: &str = "<entry xmlns='http://www.w3.org/2005/Atom'/>";
const CORS: &str = "Access-Control-Request-Method";

/// How the mistakes are told: what a client accepts, and a version in which it may.
const FORMS: [[(&str, &str); 2]; 3] = [
    [("Accept", "application/json;odata=nometadata"), ("x-ms-version", "2019-02-02")],
    [("Accept", "application/json"), ("x-ms-version", "2014-02-14")],
    [("Accept", "application/atom+xml,application/xml"), ("x-ms-version", "2014-02-14")],
];

/// A mistake.
struct Mistake {
    code: ErrorCode,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
    /// Whether an account's key signs it.
    signed: bool,
}

fn mistake(code: ErrorCode, method: &'static str, path: impl Into<String>) -> Mistake {
    let (path, headers) = (path.into(), Vec::new());
    Mistake { code, method, path, headers, body: String::new(), signed: true }
}

impl Mistake {
    fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn unsigned(mut self) -> Self {
        self.signed = false;
        self
    }

    /// Its answer, told in a form unless the mistake is about that.
    async fn make(&self, client: &mut Signing, form: &[(&'static str, &'static str)]) -> Answer {
        let own = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut headers = self.headers.clone();
        headers.extend(form.iter().filter(|(name, _)| !own(name)));
        if self.signed {
            return client.send(self.method, &self.path, &headers, &self.body).await;
        }
        let path = format!("/{DEVELOPMENT_ACCOUNT}{}", self.path);
        let body = self.body.as_bytes();
        client.unsigned().request("localhost", self.method, &path, &headers, body).await
    }
}

/// An account's signature for reading entities, but for some fields of it.
fn account_signature(different: &[(&'static str, &'static str)]) -> String {
    let expiry = "2099-01-01T00:00:00Z";
    let mut fields = vec![("sp", "r"), ("ss", "t"), ("srt", "o"), ("st", ""), ("se", expiry)];
    fields.extend([("sip", ""), ("spr", ""), ("sv", "2019-02-02")]);
    for (name, value) in &mut fields {
        let other = different.iter().find(|(other, _)| other == name);
        *value = other.map_or(*value, |(_, other)| *other);
    }
    let signed: String = fields.iter().map(|(_, value)| format!("{value}\n")).collect();
    fields.retain(|(_, value)| !value.is_empty());
    format!("?{}", access::query(&fields, &format!("{DEVELOPMENT_ACCOUNT}\n{signed}")))
}

fn signed_differently(code: ErrorCode, different: &[(&'static str, &'static str)]) -> Mistake {
    mistake(code, "GET", format!("{POINT}{}", account_signature(different))).unsigned()
}

fn put(code: ErrorCode, body: impl Into<String>) -> Mistake {
    mistake(code, "PUT", POINT).body(body)
}

fn post(code: ErrorCode, body: impl Into<String>) -> Mistake {
    mistake(code, "POST", "/people").body(body)
}

fn many(count: usize, value: &serde_json::Value) -> String {
    let members = (0..count).map(|n| (format!("P{n}"), value.clone()));
    json!(members.collect::<serde_json::Map<_, _>>()).to_string()
}

fn entities() -> Vec<Mistake> {
    let there = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let long = json!("x".repeat(32_769));
    vec![
        post(EntityAlreadyExists, there),
        post(PropertiesNeedValue, r#"{"PartitionKey":"p"}"#),
        post(OutOfRangeInput, r#"{"PartitionKey":"a/b","RowKey":"r"}"#),
        mistake(ResourceNotFound, "PUT", MISSING).header("If-Match", "*").body("{}"),
        mistake(ResourceNotFound, "DELETE", MISSING).header("If-Match", "*"),
        mistake(ResourceNotFound, "GET", MISSING),
        mistake(TableNotFound, "GET", "/missing()"),
        put(UpdateConditionNotSatisfied, "{}").header("If-Match", "W/\"another\""),
        put(InvalidInput, "{}").header("If-Match", "no tag"),
        put(InvalidInput, "{"),
        put(InvalidInput, r#"{"A@odata.type":"Edm.Int32","A":"five"}"#),
        put(OutOfRangeInput, r#"{"A@odata.type":"Edm.DateTime","A":"1600-12-31T00:00:00Z"}"#),
        put(DuplicatePropertiesSpecified, r#"{"A":1,"A":2}"#),
        put(PropertyNameInvalid, r#"{"a-b":1}"#),
        put(PropertyNameTooLong, format!(r#"{{"{}":1}}"#, "n".repeat(256))),
        put(PropertyValueTooLarge, format!(r#"{{"A":{long}}}"#)),
        put(TooManyProperties, many(253, &json!(1))),
        put(EntityTooLarge, many(20, &json!("x".repeat(30_000)))),
        put(RequestBodyTooLarge, " ".repeat((4 << 20) + 1)),
        mistake(InvalidInput, "DELETE", POINT),
        mistake(InvalidInput, "GET", "/people()?$filter=A%20eq%20null"),
        mistake(InvalidInput, "GET", "/people()?$top=1001"),
        mistake(NotImplemented, "GET", "/people()?$filter=A%20eq%20B"),
        mistake(NotImplemented, "GET", "/people()?$orderby=A"),
        mistake(InvalidQueryParameterValue, "GET", "/people()?$top=1&$top=1"),
        mistake(InvalidUri, "GET", "/people(PartitionKey='%',RowKey='r')"),
        mistake(MethodNotAllowed, "DELETE", "/people()"),
        mistake(UnsupportedHttpVerb, "TRACE", "/people()"),
        mistake(InvalidHeaderValue, "GET", POINT).header("x-ms-version", "nonsense"),
        put(XMethodNotUsingPost, "{}").header("X-HTTP-Method", "MERGE"),
        mistake(XMethodIncorrectValue, "POST", POINT).header("X-HTTP-Method", "EAT"),
        mistake(XMethodIncorrectCount, "POST", POINT)
            .header("X-HTTP-Method", "MERGE")
            .header("X-HTTP-Method", "MERGE"),
        put(MediaTypeNotSupported, "{}").header("Content-Type", "text/plain"),
        put(JsonFormatNotSupported, "{}").header("x-ms-version", "2011-08-18"),
        put(AtomFormatNotSupported, ENTRY)
            .header("x-ms-version", "2019-02-02")
            .header("Content-Type", "application/atom+xml"),
    ]
}

fn service() -> Vec<Mistake> {
    let table = |name: &str| format!(r#"{{"TableName":"{name}"}}"#);
    let create = |code, name: &str| mistake(code, "POST", "/Tables").body(table(name));
    let settings =
        |inside: &str| format!("<StorageServiceProperties>{inside}</StorageServiceProperties>");
    let logging = "<Logging><Version>1.0</Version><Delete>maybe</Delete><Read>true</Read>\
        <Write>true</Write></Logging>";
    vec![
        create(TableAlreadyExists, "PEOPLE"),
        create(InvalidResourceName, "a-b"),
        create(OutOfRangeInput, "ab"),
        create(InvalidInput, "Tables"),
        mistake(PropertiesNeedValue, "POST", "/Tables").body("{}"),
        mistake(ResourceNotFound, "DELETE", "/Tables('missing')"),
        mistake(ResourceNotFound, "GET", "/Tables('missing')"),
        mistake(InvalidUri, "GET", "/"),
        mistake(InvalidXmlDocument, "PUT", "/people?comp=acl").body("<SignedIdentifiers>"),
        mistake(InvalidXmlDocument, "PUT", SERVICE).body(settings("")),
        mistake(InvalidXmlDocument, "PUT", SERVICE).body(settings("<Nonsense/>")),
        mistake(InvalidXmlNodeValue, "PUT", SERVICE).body(settings(logging)),
        mistake(InvalidQueryParameterValue, "GET", "/people?comp=nonsense"),
        mistake(CorsPreflightFailure, "OPTIONS", "/people")
            .header("Origin", "http://elsewhere")
            .header(CORS, "GET"),
        mistake(MissingRequiredHeader, "OPTIONS", "/people").header("Origin", "http://elsewhere"),
    ]
}

fn access() -> Vec<Mistake> {
    let table = access::table_signature("raud", ["", "", "", ""]);
    let other = "/other(PartitionKey='p',RowKey='r')";
    let wrong = "SharedKeyLite devstoreaccount1:d3Jvbmc=";
    vec![
        mistake(AuthenticationFailed, "GET", POINT).unsigned(),
        mistake(AuthenticationFailed, "GET", POINT).unsigned().header("Authorization", wrong),
        mistake(AuthenticationFailed, "GET", "/nobody/Tables").unsigned(),
        mistake(InvalidAuthenticationInfo, "GET", POINT).unsigned().header("Authorization", "no"),
        signed_differently(AuthenticationFailed, &[("se", "2020-01-01T00:00:00Z")]),
        signed_differently(AuthorizationPermissionMismatch, &[("sp", "w")]),
        signed_differently(AuthorizationResourceTypeMismatch, &[("srt", "s")]),
        signed_differently(AuthorizationServiceMismatch, &[("ss", "b")]),
        signed_differently(AuthorizationProtocolMismatch, &[("spr", "https")]),
        signed_differently(AuthorizationSourceIPMismatch, &[("sip", "168.1.5.60-168.1.5.70")]),
        mistake(AuthorizationFailure, "GET", format!("{other}?{table}")).unsigned(),
        mistake(AuthorizationFailure, "DELETE", format!("/Tables('people')?{table}")).unsigned(),
    ]
}

/// The code, its status, and its message, in the form that the client accepts.
fn check(code: ErrorCode, accept: &str, answer: &Answer) {
    assert_eq!((answer.status, answer.code()), (code.status().as_u16(), code.as_str()), "{accept}");
    let kind = answer.header("content-type").or_else(|| answer.header("Content-Type"));
    let message = if accept.contains("json") {
        let level = accept.split(";odata=").nth(1).unwrap_or("minimalmetadata");
        let expected = format!("application/json;odata={level};streaming=true;charset=utf-8");
        assert_eq!(kind, Some(&*expected));
        let error = &answer.json()["odata.error"];
        assert_eq!(
            (error["code"].as_str(), &error["message"]["lang"]),
            (Some(code.as_str()), &json!("en-US"))
        );
        error["message"]["value"].as_str().expect("text").to_owned()
    } else {
        assert_eq!(kind, Some("application/xml;charset=utf-8"));
        let text = answer.text();
        let between = |from: &str, to: &str| {
            let rest = text.split_once(from).unwrap_or_else(|| panic!("{from} in {text}")).1;
            rest.split_once(to).unwrap_or_else(|| panic!("{to} in {text}")).0.to_owned()
        };
        assert_eq!(between("<code>", "</code>"), code.as_str());
        between("<message xml:lang=\"en-US\">", "</message>")
    };
    let lines: Vec<_> = message.lines().collect();
    let [text, id, time] = lines[..] else { panic!("{code}: {message}") };
    assert!(text.trim_start_matches(|it: char| it.is_ascii_digit()).len() > 5, "{message}");
    assert_eq!(id.strip_prefix("RequestId:").map(str::len), Some(36), "{message}");
    assert!(time.starts_with("Time:2") && time.ends_with('Z'), "{message}");
}

/// R-S05: who asks for no form where documents are XML reads errors as XML too: recorded of the Go library, in a
/// version whose other errors are JSON then.
#[tokio::test]
async fn r_s05_errors_beside_documents_of_xml_are_xml() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let stats = "/?restype=service&comp=stats";
    for (code, method, path, body) in [
        (TableNotFound, "PUT", "/missing?comp=acl", "<SignedIdentifiers/>"),
        (TableNotFound, "GET", "/missing?comp=acl", ""),
        (InvalidXmlDocument, "PUT", "/people?comp=acl", "<SignedIdentifiers>"),
        (InvalidXmlDocument, "PUT", SERVICE, "<Other/>"),
        (InvalidQueryParameterValue, "GET", "/?comp=properties", ""),
        (InvalidQueryParameterValue, "GET", stats, ""),
    ] {
        for accept in ["", "*/*", "application/xml", "application/json"] {
            let headers = [("Accept", accept), ("x-ms-version", "2018-03-28")];
            check(code, accept, &client.send(method, path, &headers, body).await);
        }
    }
    let missing = client.send("GET", "/missing()", &[("Accept", "*/*")], "").await;
    check(TableNotFound, "application/json", &missing);
}

/// R-S05: every code but those that only a broken or a busy server gives.
#[tokio::test]
async fn r_s05_every_code_is_reached_and_told_as_the_client_accepts() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    assert_eq!(client.send("PUT", POINT, &[], "{}").await.status, 204);
    let mistakes: Vec<_> = [entities(), service(), access()].into_iter().flatten().collect();
    for form in &FORMS {
        let mut seen = HashSet::new();
        for mistake in &mistakes {
            let answer = mistake.make(&mut client, form).await;
            let Mistake { code, method, path, .. } = mistake;
            assert_eq!(
                answer.failure(),
                (code.status().as_u16(), code.as_str()),
                "{method} {path}"
            );
            check(*code, form[0].1, &answer);
            seen.insert(*code);
        }
        for (code, answer) in failed_transactions(&mut client, form).await {
            check(code, form[0].1, &answer);
            seen.insert(code);
        }
        check(HostInformationNotPresent, form[0].1, &without_host(client.unsigned(), form).await);
        check(InsufficientAccountPermissions, form[0].1, &secondary(&mut client, form).await);
        seen.extend([HostInformationNotPresent, InsufficientAccountPermissions]);
        // A broken or a busy server's.
        seen.extend([InternalError, ServerBusy]);
        let missing: Vec<_> = ErrorCode::ALL.iter().filter(|code| !seen.contains(code)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

async fn without_host(client: &mut Client, form: &[(&str, &str)]) -> Answer {
    let headers: String = form.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    client.send(format!("GET /devstoreaccount1/Tables HTTP/1.1\r\n{headers}\r\n")).await;
    client.answer().await.expect("an answer")
}

/// Codes that are only those of an operation in a transaction.
async fn failed_transactions(
    client: &mut Signing,
    form: &[(&'static str, &'static str)],
) -> Vec<(ErrorCode, Answer)> {
    let insert = |partition: &str| {
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"x"}}"#);
        let request = part("POST /devstoreaccount1/people", &[], &body);
        // The form is that of the batch.
        request.replace("Accept: application/json;odata=nometadata\r\n", "")
    };
    let mut answers = Vec::new();
    for (second, code) in
        [("p", InvalidDuplicateRow), ("q", CommandsInBatchActOnDifferentPartitions)]
    {
        let mut headers = vec![crate::batch::TYPE];
        headers.extend(form);
        let body = change_set(&[insert("p"), insert(second)]);
        let answer = client.send("POST", "/$batch", &headers, body).await;
        answers.push((code, parts(&answer).remove(0)));
    }
    answers
}

/// The secondary is there to read.
async fn secondary(client: &mut Signing, form: &[(&str, &str)]) -> Answer {
    let path = format!("/{DEVELOPMENT_ACCOUNT}-secondary/Tables('people')");
    client.send_to("localhost", "DELETE", &path, form, b"").await
}

/// R-S12: a server without memory for a body says that it is busy, which SDKs try again.
#[tokio::test]
async fn r_s05_a_busy_server_says_so() {
    let server = Server::with(Limits { body_memory: 0, ..Limits::default() }).await;
    let mut client = server.with_people().await;
    let busy = async |form: [(&str, &str); 2]| {
        let large = format!(r#"{{"A":"{}"}}"#, "x".repeat(20_000));
        let answer = server.client().await.send("PUT", POINT, &form, large).await;
        check(ServerBusy, form[0].1, &answer);
    };
    // At once, since each is made to wait for memory first.
    tokio::join!(busy(FORMS[0]), busy(FORMS[1]), busy(FORMS[2]));
    assert_eq!(client.send("PUT", POINT, &[], "{}").await.status, 204, "small bodies are free");
}
