//! Signed requests to a service in this process, without a connection.

use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tablestone_server::auth::SigningKey;
use tablestone_server::body::AnswerBody;
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tablestone_server::net::Peer;
use tablestone_server::service::TableService;

/// The answer to a request to a path of the emulator's account, of which nobody takes anything yet.
pub(crate) async fn answer(
    service: &TableService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<AnswerBody> {
    let path = format!("/{DEVELOPMENT_ACCOUNT}{path}");
    let date = httpdate::fmt_http_date(SystemTime::now());
    let signed = path.split_once('?').map_or(&*path, |(path, _)| path);
    let signature = SigningKey::parse(DEVELOPMENT_KEY).unwrap().sign(|signer| {
        signer.line(&date).push("/").push(DEVELOPMENT_ACCOUNT).push(signed);
    });
    let authorization = format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}");
    let content_type =
        if path.ends_with("$batch") { "multipart/mixed; boundary=b" } else { "application/json" };
    let request = Request::builder().method(method).uri(&path).header("x-ms-date", date);
    let request = request.header("Authorization", authorization);
    let request = request.header("Content-Type", content_type);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    service.handle(request, Peer { address: None, secure: false }).await
}
