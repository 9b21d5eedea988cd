//! Requests that come through a proxy, which says from whom and how.

use std::net::SocketAddr;
use std::sync::Arc;

use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tablestone_server::net::{BehindProxies, ConnectionLimits, Listener, Shutdown};

use crate::access::query;
use crate::support::{Client, Server, Signing};

const JSON: (&str, &str) = ("Accept", "application/json");
const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;

/// Another address of a server, where it trusts proxies on this machine, for as long as the second part is kept.
async fn behind_proxies(server: &Server) -> (SocketAddr, Shutdown) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(any, None, ConnectionLimits::default()).await.unwrap();
    let (address, shutdown) = (listener.local_addr().unwrap(), Shutdown::new());
    let trusted = ["127.0.0.0/8".parse().unwrap()];
    let service = BehindProxies::new(trusted, Arc::clone(&server.service));
    tokio::spawn(listener.run(Arc::new(service), &shutdown));
    (address, shutdown)
}

/// The path of an entity with a signature to read it: from an address, by a protocol.
fn signed_path(sip: &str, spr: &str) -> String {
    let (se, sv) = ("2099-01-01", "2019-02-02");
    let string = format!("r\n\n{se}\n/table/devstoreaccount1/people\n\n{sip}\n{spr}\n{sv}\n\n\n\n");
    let fields =
        [("tn", "people"), ("sp", "r"), ("se", se), ("sv", sv), ("sip", sip), ("spr", spr)];
    let query = query(&fields, &string);
    format!("/devstoreaccount1/people(PartitionKey='p',RowKey='r')?{query}")
}

/// R-S08: behind a proxy a signature for one address, or for https alone, is held against what the proxy says of its
/// client; where no proxy is trusted, against the connection.
#[tokio::test]
async fn r_s08_signatures_for_an_address_and_for_https_hold_behind_a_proxy() {
    let server = Server::start().await;
    assert_eq!(server.with_people().await.post("/people", ENTITY).await.status, 201);
    let (address, _shutdown) = behind_proxies(&server).await;
    let path = signed_path("192.0.2.1", "https");
    let client = ("X-Forwarded-For", "192.0.2.9, 192.0.2.1");
    let stranger = ("X-Forwarded-For", "192.0.2.1, 192.0.2.9");
    let (http, https) = (("X-Forwarded-Proto", "http"), ("X-Forwarded-Proto", "https"));
    let wrong_address = Some("AuthorizationSourceIPMismatch");
    let wrong_protocol = Some("AuthorizationProtocolMismatch");
    for (to, said, expected) in [
        (address, &[client, https][..], None),
        (address, &[stranger, https], wrong_address),
        (address, &[client, http], wrong_protocol),
        (address, &[client], wrong_protocol),
        (address, &[https], wrong_address),
        (server.address, &[client, https], wrong_address),
    ] {
        let mut proxy = Client::connect(to).await;
        let headers = [said, &[JSON]].concat();
        let answer = proxy.request("localhost", "GET", &path, &headers, b"").await;
        let expected = (if expected.is_some() { 403 } else { 200 }, expected);
        assert_eq!((answer.status, answer.header("x-ms-error-code")), expected, "{to} {said:?}");
    }
}

/// Addresses in answers are those that the client has.
#[tokio::test]
async fn an_address_is_of_https_if_a_trusted_proxy_says_so() {
    let server = Server::start().await;
    server.with_people().await;
    let (address, _shutdown) = behind_proxies(&server).await;
    for (to, row, scheme) in [(address, "1", "https"), (server.address, "2", "http")] {
        let mut proxy =
            Signing::new(Client::connect(to).await, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY);
        let said = [("X-Forwarded-Proto", "https")];
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        let answer = proxy.send("POST", "/people", &said, entity).await;
        let base = format!("{scheme}://localhost/devstoreaccount1");
        let location = format!("{base}/people(PartitionKey='p',RowKey='{row}')");
        assert_eq!(answer.header("location"), Some(&*location));
        let metadata = format!("{base}/$metadata#people/@Element");
        assert_eq!(answer.json()["odata.metadata"], *metadata);
    }
}
