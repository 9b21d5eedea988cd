//! One request and its answer: signed, sent, tried again while the server is busy.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use http::{HeaderName, Method, Request, StatusCode, header};
use rustls_pki_types::CertificateDer;
use serde::Deserialize;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{Client, ClientError};
use crate::error::ErrorCode;
use crate::headers::names;

/// The version of the protocol that is spoken.
const VERSION: &str = "2019-02-02";
/// Longest wait for a connection, for an answer, and in each other step of a request: far longer than the server takes
/// for a page or a batch.
const PATIENCE: Duration = Duration::from_secs(120);
/// Largest answer in bytes: a page's stored bytes may be several times as many as JSON.
const MAX_ANSWER: u64 = 64 << 20;
/// How often a request is sent while the server is busy, and the first pause, which doubles.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);
/// How often a server is asked for one more connection.
const KNOCKS: u32 = 3;

/// What a person wants to hear where the service says less, as it tells strangers nothing.
const WRONG_KEY: &str = "there is no such account, or its key is another (TABLESTONE_KEY)";

/// What a request carries, which says its method too.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// Nothing: a GET.
    None,
    /// Nothing: a DELETE.
    Delete,
    /// JSON, POSTed; nothing is to come back.
    Json(&'a [u8]),
    /// A batch, POSTed; with `ask_first` the server says whether it wants the body before that is sent.
    Batch { content_type: &'a str, bytes: &'a [u8], ask_first: bool },
}

impl Body<'_> {
    /// Whether the request may as well be done twice: it reads, or creates a table that is only to be there.
    fn may_come_twice(self) -> bool {
        matches!(self, Self::None | Self::Json(_))
    }
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) address: Box<str>,
    headers: http::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        crate::headers::text(&self.headers, name).filter(|value| !value.is_empty())
    }

    pub(super) fn wrong(&self, reason: &dyn Display) -> ClientError {
        ClientError::Answer { address: self.address.clone(), reason: reason.to_string().into() }
    }
}

pub(super) fn agent(connections: usize, certificates: &[CertificateDer<'static>]) -> Agent {
    let mut tls = TlsConfig::builder();
    if !certificates.is_empty() {
        let trusted = certificates.iter().map(|it| Certificate::from_der(it).to_owned());
        tls = tls.root_certs(RootCerts::new_with_certs(&trusted.collect::<Vec<_>>()));
    }
    let patience = Some(PATIENCE);
    Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        // Table servers are near, or in a cloud that is reached directly.
        .proxy(None)
        .max_idle_connections(connections)
        .max_idle_connections_per_host(connections)
        // Not all of it: the address would be looked up on a thread, and ureq panics where there is none. The system
        // has limits for that.
        .timeout_connect(patience)
        .timeout_send_request(patience)
        .timeout_send_body(patience)
        .timeout_recv_response(patience)
        .timeout_recv_body(patience)
        .build()
        .new_agent()
}

impl Client {
    /// Sends a request to a path of the account, with its query string; and again while the server says that it is
    /// busy, as it has done nothing then. A request that may come twice is sent again also if the connection was cut.
    pub(super) fn send(&self, target: &str, body: Body<'_>) -> Result<Answer, ClientError> {
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            match self.attempt(target, body) {
                Err(error) if error.is_busy() || body.may_come_twice() && error.was_cut() => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                outcome => return outcome,
            }
        }
        self.attempt(target, body)
    }

    /// Whether the server has a connection left for this client. One that has none says so, or closes the connection
    /// without a word: so it is asked by a read, which changes nothing. Nor is there a connection if this process has
    /// no descriptor for one.
    pub(crate) fn is_let_in(&self) -> bool {
        (0..KNOCKS).any(|knock| {
            if knock > 0 {
                std::thread::sleep(PAUSE);
            }
            let answer = self.attempt("/Tables?$top=1", Body::None);
            !answer.is_err_and(|error| error.is_busy() || error.is_unconnected())
        })
    }

    fn attempt(&self, target: &str, body: Body<'_>) -> Result<Answer, ClientError> {
        let address = || self.endpoint.base().into();
        let no_answer = |source: ureq::Error| ClientError::NoAnswer {
            address: address(),
            source: source.into(),
        };
        let no_request = |source| ClientError::Request { address: address(), source };
        let request = self.request(target, body);
        let response = match body {
            Body::None | Body::Delete => self.agent.run(request.body(()).map_err(no_request)?),
            Body::Json(bytes) | Body::Batch { bytes, .. } => {
                self.agent.run(request.body(bytes).map_err(no_request)?)
            }
        };
        let (head, mut body) = response.map_err(no_answer)?.into_parts();
        let body = body.with_config().limit(MAX_ANSWER).read_to_vec();
        let body = body.map_err(|source| match source {
            ureq::Error::BodyExceedsLimit(most) => {
                ClientError::TooLong { address: address(), most }
            }
            source => no_answer(source),
        })?;
        let answer = Answer { address: address(), headers: head.headers, body };
        if head.status.is_success() { Ok(answer) } else { Err(refusal(&answer, head.status)) }
    }

    fn request(&self, target: &str, body: Body<'_>) -> http::request::Builder {
        let url = format!("{}{target}", self.endpoint.base());
        let date = httpdate::fmt_http_date(SystemTime::now());
        let authorization = self.authorization(&url, &date);
        let request = Request::builder()
            .uri(url)
            .header(names::DATE, date)
            .header(header::AUTHORIZATION, authorization)
            .header(names::VERSION, VERSION)
            .header(names::DATA_SERVICE_VERSION, "3.0")
            .header(header::ACCEPT, "application/json;odata=minimalmetadata");
        match body {
            Body::None => request.method(Method::GET),
            Body::Delete => request.method(Method::DELETE),
            Body::Json(_) => request
                .method(Method::POST)
                .header(names::PREFER, "return-no-content")
                .header(header::CONTENT_TYPE, "application/json"),
            Body::Batch { content_type, ask_first, .. } => {
                let request =
                    request.method(Method::POST).header(header::CONTENT_TYPE, content_type);
                if ask_first { request.header(header::EXPECT, "100-continue") } else { request }
            }
        }
    }

    /// SharedKeyLite: date and resource.
    fn authorization(&self, url: &str, date: &str) -> String {
        let account = self.endpoint.account();
        let path = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = path.find('/').and_then(|slash| path.get(slash..)).unwrap_or("/");
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let signature = self.endpoint.key().sign(|signer| {
            signer.line(date).push("/").push(account).push(path);
        });
        format!("SharedKeyLite {account}:{signature}")
    }
}

/// The body of an error.
#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "odata.error")]
    error: ErrorInBody,
}

#[derive(Deserialize)]
struct ErrorInBody {
    code: String,
    message: ErrorMessage,
}

#[derive(Deserialize)]
struct ErrorMessage {
    value: String,
}

fn refusal(answer: &Answer, status: StatusCode) -> ClientError {
    // Who has no connection left, or what stands before a server, says it by the status alone.
    refused(answer, status, &answer.body).unwrap_or_else(|| match status {
        StatusCode::SERVICE_UNAVAILABLE => in_words(answer, ErrorCode::ServerBusy),
        StatusCode::PAYLOAD_TOO_LARGE => in_words(answer, ErrorCode::RequestBodyTooLarge),
        _ => answer.wrong(&format_args!("status {status} without an error in JSON")),
    })
}

/// A refusal in the service's words.
fn in_words(answer: &Answer, code: ErrorCode) -> ClientError {
    ClientError::Refused {
        address: answer.address.clone(),
        status: code.status(),
        code: code.as_str().into(),
        message: code.message().into(),
        index: None,
    }
}

/// A refusal whose error is in `body`.
pub(super) fn refused(answer: &Answer, status: StatusCode, body: &[u8]) -> Option<ClientError> {
    let ErrorBody { error } = serde_json::from_slice(body).ok()?;
    // What follows are the request's id and the time.
    let message = match error.message.value.lines().next().unwrap_or_default() {
        _ if error.code == ErrorCode::AuthenticationFailed.as_str() => WRONG_KEY,
        message => message,
    };
    let numbered =
        message.split_once(':').and_then(|(index, rest)| Some((index.parse().ok()?, rest)));
    let (index, message) = numbered.map_or((None, message), |(index, rest)| (Some(index), rest));
    Some(ClientError::Refused {
        address: answer.address.clone(),
        status,
        code: error.code.into(),
        message: message.into(),
        index,
    })
}
