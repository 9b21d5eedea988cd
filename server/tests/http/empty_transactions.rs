//! Entity group transactions without operations (protocol 8, R-S07): SDKs send them in two forms, of which the
//! service takes one.

use crate::batch::{alone, change_set, failure, insert, part, parts, post, rows};
use crate::support::Server;

/// R-S07: a change set that its first boundary closes is done, as recorded for the Python SDKs of before 2020.
#[tokio::test]
async fn r_s07_a_change_set_that_is_closed_at_once_is_done() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let answer = post(&mut client, &change_set(&[])).await;
    assert!(parts(&answer).is_empty(), "{answer:?}");
    // Clients take the first boundary's line end for that of its headers.
    let text = answer.text();
    assert!(text.contains("\r\n\r\n--changesetresponse_"), "{text}");
    assert!(rows(&mut client).await.is_empty());
}

/// R-S07: one that is opened and closed has an operation that is none, as the .NET and Python SDKs of today
/// send it; they expect this refusal.
#[tokio::test]
async fn r_s07_a_change_set_that_is_opened_lacks_an_operation() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let opened = change_set(&["\r\n".to_owned()]);
    let text = "An error occurred while processing this request.".to_owned();
    assert_eq!(failure(&post(&mut client, &opened).await), (400, "InvalidInput".to_owned(), text));
}

/// R-S07: what stands behind a change set that is closed at once is refused, not passed over.
#[tokio::test]
async fn r_s07_nothing_stands_behind_an_empty_change_set() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let query = part("GET http://localhost/devstoreaccount1/people()", &[], "");
    for behind in [change_set(&[insert("1")]), alone(&query)] {
        let body = change_set(&[]).replace("--batch_b--\r\n", &behind);
        assert_eq!(post(&mut client, &body).await.failure(), (400, "InvalidInput"));
    }
    assert!(rows(&mut client).await.is_empty());
}
