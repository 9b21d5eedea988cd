//! What each operation of the protocol needs of a signature, through the whole server (R-S08): what lacks any of it is
//! refused, what has no more is not.

use crate::access::{account_signature, query, table_signature};
use crate::support::{Answer, Client, Server};

/// A request, the type of resource that it is about, and the permissions that it needs: all letters of a set, or any.
struct Case {
    method: &'static str,
    path: &'static str,
    query: &'static str,
    body: &'static str,
    resource_type: char,
    needed: &'static [&'static str],
}

const POINT: &str = "/people(PartitionKey='p',RowKey='r')";
const TABLE: &str = r#"{"TableName":"other"}"#;
const ROW: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;
const PROPERTIES: &str = "<StorageServiceProperties><Cors/></StorageServiceProperties>";
const ALL: &str = "rwdlacu";

const fn case(
    (method, path, query, body): (&'static str, &'static str, &'static str, &'static str),
    resource_type: char,
    needed: &'static [&'static str],
) -> Case {
    Case { method, path, query, body, resource_type, needed }
}

/// In an order in which each can be done. A method with a star has an `If-Match`.
const CASES: [Case; 16] = [
    case(("GET", "/", "restype=service&comp=properties", ""), 's', &["r"]),
    case(("PUT", "/", "restype=service&comp=properties", PROPERTIES), 's', &["w"]),
    case(("GET", "-secondary/", "restype=service&comp=stats", ""), 's', &["r"]),
    case(("GET", "/Tables", "", ""), 'c', &["l"]),
    case(("GET", "/Tables('people')", "", ""), 'c', &["l"]),
    case(("POST", "/Tables", "", TABLE), 'c', &["cw"]),
    case(("DELETE", "/Tables('other')", "", ""), 'c', &["d"]),
    case(("POST", "/people", "", ROW), 'o', &["a"]),
    case(("GET", "/people()", "", ""), 'o', &["r"]),
    case(("GET", "/people", "", ""), 'o', &["r"]),
    case(("GET", POINT, "", ""), 'o', &["r"]),
    case(("PUT", POINT, "", "{}"), 'o', &["a", "u"]),
    case(("MERGE", POINT, "", "{}"), 'o', &["a", "u"]),
    case(("PUT*", POINT, "", "{}"), 'o', &["u"]),
    case(("MERGE*", POINT, "", "{}"), 'o', &["u"]),
    case(("DELETE*", POINT, "", ""), 'o', &["d"]),
];

async fn send(client: &mut Client, case: &Case, signature: &str) -> Answer {
    let Case { path, query, body, .. } = case;
    let path = format!("/devstoreaccount1{path}?{query}&{signature}");
    let mut headers = vec![("Accept", "application/json;odata=nometadata")];
    let method = case.method.trim_end_matches('*');
    headers.extend((method != case.method).then_some(("If-Match", "*")));
    client.request("localhost", method, &path, &headers, body.as_bytes()).await
}

fn without(letters: &str, some: &str) -> String {
    letters.chars().filter(|letter| !some.contains(*letter)).collect()
}

/// R-S08: an account's signature.
#[tokio::test]
async fn r_s08_each_operation_asks_for_its_permission() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let client = client.unsigned();
    for case in &CASES {
        let name = format!("{} {}?{}", case.method, case.path, case.query);
        let resource_type = case.resource_type.to_string();
        for letters in case.needed {
            let signature = account_signature(&without(ALL, letters), "sco");
            let answer = send(client, case, &signature).await;
            assert_eq!(answer.failure(), (403, "AuthorizationPermissionMismatch"), "{name}");
        }
        let signature = account_signature(ALL, &without("sco", &resource_type));
        let answer = send(client, case, &signature).await;
        assert_eq!(answer.failure(), (403, "AuthorizationResourceTypeMismatch"), "{name}");
        let signature = account_signature(&case.needed.concat(), &resource_type);
        let answer = send(client, case, &signature).await;
        assert!((200..300).contains(&answer.status), "{name}: {}", answer.status);
    }
    let acl = |method| case((method, "/people", "comp=acl", ""), 'c', &[]);
    for case in [acl("GET"), acl("PUT")] {
        let answer = send(client, &case, &account_signature(ALL, "sco")).await;
        assert_eq!(answer.failure(), (403, "AuthorizationFailure"), "{}", case.method);
    }
}

/// R-S08: a table's signature is for its entities, and for nothing else of the account.
#[tokio::test]
async fn r_s08_a_table_signature_is_for_entities_alone() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let client = client.unsigned();
    for case in &CASES {
        let name = format!("{} {}?{}", case.method, case.path, case.query);
        let signature = |letters: &str| table_signature(letters, [""; 4]);
        if case.resource_type != 'o' {
            let answer = send(client, case, &signature("raud")).await;
            assert_eq!(answer.failure(), (403, "AuthorizationFailure"), "{name}");
            continue;
        }
        for letters in case.needed {
            let answer = send(client, case, &signature(&without("raud", letters))).await;
            assert_eq!(answer.failure(), (403, "AuthorizationPermissionMismatch"), "{name}");
        }
        let answer = send(client, case, &signature(&case.needed.concat())).await;
        assert!((200..300).contains(&answer.status), "{name}: {}", answer.status);
    }
}

/// R-S08: before 2015-04-05 there is nothing where a table's signature does not reach, as the service has it and
/// SDKs of then expect: what they ask of a table with one is whether it exists.
#[tokio::test]
async fn r_s08_older_table_signatures_find_nothing_where_they_do_not_reach() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let client = client.unsigned();
    let (expiry, raud) = ("2099-01-01T00:00:00Z", "raud");
    let signature = |version: &str, resource: &str, letters: &str| {
        let source = if version < "2015-04-05" { "" } else { "\n\n" };
        let string = format!("{letters}\n\n{expiry}\n{resource}/devstoreaccount1/people\n\n");
        let fields =
            [("sv", version), ("tn", "people"), ("sp", letters), ("se", expiry), ("spk", "q")];
        query(&fields, &format!("{string}{source}{version}\nq\n\n\n"))
    };
    for (case, letters, code) in [
        (case(("GET", "/Tables('people')", "", ""), 'c', &[]), raud, "AuthorizationFailure"),
        (case(("GET", "/other", "", ""), 'o', &[]), raud, "AuthorizationFailure"),
        (case(("DELETE*", POINT, "", ""), 'o', &[]), raud, "AuthorizationFailure"),
        (case(("GET", "/people", "", ""), 'o', &[]), "a", "AuthorizationPermissionMismatch"),
    ] {
        for (version, resource, expected) in [
            ("2014-02-14", "", (404, "ResourceNotFound")),
            ("2015-02-21", "/table", (404, "ResourceNotFound")),
            ("2015-04-05", "/table", (403, code)),
        ] {
            let answer = send(client, &case, &signature(version, resource, letters)).await;
            assert_eq!(answer.failure(), expected, "{version} {} {}", case.method, case.path);
        }
    }
    let wrong = signature("2014-02-14", "", raud).replace("sp=raud", "sp=r");
    let answer = send(client, &CASES[10], &wrong).await;
    assert_eq!(answer.failure(), (403, "AuthenticationFailed"));
}
