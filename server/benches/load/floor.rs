//! The floor: what hyper and a signature cost, and nothing else.
//!
//! A server in a process of its own that reads a request, checks its signature with the server's own
//! code, reads the body, and answers what the server once answered to such a request.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tablestone_server::address::{Place, QueryString};
use tablestone_server::auth::{Account, Signed, SigningKey};
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tablestone_server::wire::xml::SignedIdentifier;
use tokio::net::TcpListener;

use super::Failure;
use super::connection::Connection;
use super::drive::{Drive, Until};
use super::target::Target;
use super::workload::{Requests, Work, Workload};

/// Leaves a target's answer to each work in a directory.
pub(crate) async fn take_answers(target: &Target, directory: &Path) -> Result<(), Failure> {
    let table = format!("floor{}", std::process::id());
    let workload = Rc::new(Workload { table, entities: 2 * Workload::PARTITION, seed: 1 });
    target.create_table(&workload.table).await?;
    let until = Until::Filled { at_most: Duration::from_secs(60) };
    let fill = Drive { work: Work::Batch, connections: 1, rate: None, until };
    fill.run(target, &workload).await?;
    let mut connection = Connection::open(&target.endpoint).await?;
    for work in Work::ALL {
        let mut request = Vec::new();
        let mut requests = Requests::new(work, &workload, &target.endpoint, 0);
        requests.write(&mut request, (10 + work as u64) * Workload::PARTITION);
        let answer = connection.exchange(&request).await?;
        if answer.status != work.status() {
            return Err(format!("{}: {work} has status {}", target.name, answer.status).into());
        }
        fs::write(directory.join(work.name()), answer.whole)?;
    }
    target.delete_table(&workload.table).await
}

/// An answer that was taken.
struct Constant {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Constant {
    fn read(file: &Path) -> Result<Self, Failure> {
        let bytes = fs::read(file)?;
        let mut headers = [httparse::EMPTY_HEADER; 48];
        let mut answer = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = answer.parse(&bytes)? else {
            return Err("an answer was cut".into());
        };
        let status = StatusCode::from_u16(answer.code.unwrap_or_default())?;
        let mut headers = HeaderMap::new();
        for found in answer.headers {
            let name = HeaderName::from_bytes(found.name.as_bytes())?;
            // hyper writes these itself.
            if name != header::CONTENT_LENGTH && name != header::DATE {
                headers.insert(name, HeaderValue::from_bytes(found.value)?);
            }
        }
        Ok(Self { status, headers, body: Bytes::copy_from_slice(&bytes[length..]) })
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// What the floor answers with.
struct Floor {
    account: Account,
    answers: Vec<Constant>,
}

impl Floor {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await;
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let work = match head.method {
            Method::PUT => Work::Upsert,
            Method::POST if path.ends_with("$batch") => Work::Batch,
            Method::GET if query.starts_with("$filter") => Work::Range,
            Method::GET if path.ends_with("()") => Work::Scan,
            Method::GET => Work::Get,
            _ => Work::Insert,
        };
        let authentic = || {
            let place = Place::of(host, path, |_| false).ok()?;
            let signed = Signed {
                method: &head.method,
                path,
                query: &QueryString::parse(query).ok()?,
                headers: &head.headers,
                place: &place,
                peer: None,
                secure: false,
                now: SystemTime::now(),
            };
            let policies = |_: &str| None::<Vec<SignedIdentifier>>;
            signed.authenticate(&self.account, policies).ok()
        };
        match (body, authentic(), self.answers.get(work as usize)) {
            (Ok(_), Some(_), Some(answer)) => answer.response(),
            _ => {
                let mut refused = Response::new(Full::default());
                *refused.status_mut() = StatusCode::FORBIDDEN;
                refused
            }
        }
    }
}

/// Serves the answers of a directory until the process is killed.
pub(crate) fn serve(directory: &Path, listen: SocketAddr) -> Result<(), Failure> {
    let answers = Work::ALL.iter().map(|work| Constant::read(&directory.join(work.name())));
    let account = Account::new(DEVELOPMENT_ACCOUNT, vec![SigningKey::parse(DEVELOPMENT_KEY)?]);
    let floor = Arc::new(Floor { account, answers: answers.collect::<Result<_, _>>()? });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let floor = Arc::clone(&floor);
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let floor = Arc::clone(&floor);
                    async move { Ok::<_, Infallible>(floor.answer(request).await) }
                });
                let connection = http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}
