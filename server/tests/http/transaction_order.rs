//! Which of several mistakes in a transaction is told (R-E07, R-S07).

use crate::batch::{change_set, failure, insert, post, rows, write};
use crate::support::{Server, Signing};

/// Operations on what is stored that fail, and how: there is an entity `there`, and no other.
fn unmet() -> [(String, u16); 4] {
    let stale = "If-Match: W/\"datetime'2000-01-01T00%3A00%3A00Z'\"";
    [
        (insert("there"), 409),
        (write("PUT", "no", &["If-Match: *"], "{}"), 404),
        (write("DELETE", "no", &["If-Match: *"], ""), 404),
        (write("MERGE", "there", &[stale], "{}"), 412),
    ]
}

/// Operations on another partition or table than that of the first.
fn elsewhere() -> [String; 3] {
    [
        insert("x").replace(r#""p""#, r#""q""#),
        write("DELETE", "x", &["If-Match: *"], "").replace("='p'", "='q'"),
        insert("x").replace("/people", "/others"),
    ]
}

async fn start(partition: &str) -> (Server, Signing) {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let there = of(partition, r#"{"PartitionKey":"p","RowKey":"there"}"#);
    assert_eq!(client.post("/people", &there).await.status, 201);
    (server, client)
}

/// What is for `p`, for another partition.
fn of(partition: &str, operation: &str) -> String {
    let quoted = [r#""p""#, "'p'"].map(|quoted| quoted.replace('p', partition));
    operation.replace(r#""p""#, &quoted[0]).replace("'p'", &quoted[1])
}

/// The status of the part of a transaction that is refused, and the place that it names.
async fn refused(client: &mut Signing, operations: &[String]) -> (u16, String) {
    let (status, _, text) = failure(&post(client, &change_set(operations)).await);
    assert_eq!(rows(client).await, ["there"], "{text}");
    (status, text.split(':').next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn r_s07_of_conditions_and_places_the_first_is_told() {
    // The shortest, one, and the longest.
    for partition in ["", "p", &"k".repeat(512)] {
        let (_server, mut client) = start(partition).await;
        for (unmet, status) in unmet() {
            for elsewhere in elsewhere() {
                for (operations, status, index) in [
                    ([insert("a"), unmet.clone(), elsewhere.clone()], status, "1"),
                    ([insert("a"), elsewhere.clone(), unmet.clone()], 400, "1"),
                    ([insert("a"), insert("a"), elsewhere.clone()], 400, "1"),
                    ([insert("a"), insert("b"), elsewhere.clone()], 400, "2"),
                ] {
                    let operations = operations.map(|operation| of(partition, &operation));
                    let refused = refused(&mut client, &operations).await;
                    assert_eq!(refused, (status, index.into()), "{partition}");
                }
            }
        }
    }
}

/// All operations are read before any is tried.
#[tokio::test]
async fn r_s07_what_cannot_be_read_is_told_before_what_is_stored() {
    let (_server, mut client) = start("p").await;
    let unmet = unmet().map(|(operation, _)| operation);
    for before in unmet.into_iter().chain(elsewhere()) {
        for (unread, status) in [
            (write("PUT", "x", &[], "{"), 400),
            (write("PUT", "x", &["If-Match: nonsense"], "{}"), 400),
            (write("DELETE", "x", &[], ""), 400),
            (write("EAT", "x", &[], ""), 405),
        ] {
            let operations = [insert("a"), before.clone(), unread];
            assert_eq!(refused(&mut client, &operations).await, (status, "2".into()));
        }
    }
}
