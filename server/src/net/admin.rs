//! The admin port: health, readiness, metrics. It is for operators, unauthenticated, and therefore
//! on an address of its own.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::sync::Mutex;
use tokio::sync::oneshot::Receiver;

use super::{Handler, Peer, on_own_thread};
use crate::body::AnswerBody;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The text form of Prometheus.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");

/// Whether the server takes requests: not before it listens, nor while it shuts down.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether it does.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Answers `GET /health` (200 as long as the process does anything), `GET /ready` (200 or 503), `GET /metrics`
/// and, of each table, `GET /metrics/tables` (the text form of Prometheus), and `POST /checkpoint` where that is
/// [allowed](Self::with_checkpoints).
pub struct Admin {
    asked: Arc<Asked>,
    /// Held by who answers with a thread of its own: clients that go away and come again have no more than one.
    turn: Arc<Mutex<()>>,
    checkpoint: Option<Box<Checkpoint>>,
}

/// What is asked of the server. Its answers may take a while: one looks at every table, and others ask the file system
/// how much room it has.
struct Asked {
    ready: Readiness,
    condition: Box<dyn Fn() -> Condition + Send + Sync>,
    metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Of each table: apart, because there may be many.
    table_metrics: Box<dyn Fn() -> String + Send + Sync>,
}

/// What a service that listens is able to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// All.
    #[default]
    Well,
    /// All but this.
    Short(String),
    /// It cannot serve, for this reason.
    Troubled(String),
}

/// Where a backup is, or why there is none.
type Made = Result<PathBuf, String>;

/// Makes an answer.
type Work = Box<dyn FnOnce() -> Response<AnswerBody> + Send>;

/// Begins to make a backup.
type Checkpoint = dyn Fn() -> io::Result<Receiver<Made>> + Send + Sync;

impl Admin {
    /// An admin port's handler.
    pub fn new(
        ready: Readiness,
        condition: impl Fn() -> Condition + Send + Sync + 'static,
        metrics: impl Fn() -> String + Send + Sync + 'static,
        table_metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        let (condition, metrics) = (Box::new(condition), Box::new(metrics));
        let table_metrics = Box::new(table_metrics);
        let asked = Arc::new(Asked { ready, condition, metrics, table_metrics });
        Self { asked, turn: Arc::default(), checkpoint: None }
    }

    /// Has each `POST /checkpoint` answered with the directory of a new one, which `begin` has a thread make, if there is
    /// one for it.
    #[must_use]
    pub fn with_checkpoints(
        mut self,
        begin: impl Fn() -> io::Result<Receiver<Made>> + Send + Sync + 'static,
    ) -> Self {
        self.checkpoint = Some(Box::new(begin));
        self
    }

    async fn checkpoint(&self) -> Response<AnswerBody> {
        let Some(begin) = &self.checkpoint else {
            let why = "no checkpoints are made: --checkpoints DIR says where\n";
            return text(StatusCode::NOT_FOUND, why);
        };
        let made = match begin() {
            Ok(making) => making.await.unwrap_or_else(|_| Err("making it panicked".to_owned())),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        };
        match made {
            Ok(dir) => text(StatusCode::OK, format!("{}\n", dir.display())),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, why + "\n"),
        }
    }

    /// Answered by the thread that `begin` has for it, which may block; in place where there is none.
    async fn answer_aside(
        &self,
        method: &Method,
        path: &str,
        begin: impl FnOnce(Work) -> io::Result<Receiver<Response<AnswerBody>>>,
    ) -> Response<AnswerBody> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (asked, with, of) = (Arc::clone(&self.asked), method.clone(), path.to_owned());
        let answering = begin(Box::new(move || {
            let _turn = turn;
            asked.answer(&with, &of)
        }));
        match answering {
            Ok(answering) => answering.await.unwrap_or_else(|_| {
                text(StatusCode::INTERNAL_SERVER_ERROR, "making the answer panicked\n")
            }),
            Err(_) => self.asked.answer(method, path),
        }
    }
}

impl Asked {
    fn readiness(&self) -> Response<AnswerBody> {
        if !self.ready.get() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n");
        }
        match (self.condition)() {
            Condition::Well => text(StatusCode::OK, "ready\n"),
            Condition::Short(of) => text(StatusCode::OK, format!("ready, but {of}\n")),
            Condition::Troubled(why) => text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
        }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<AnswerBody> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let methods = "there are GET and POST /checkpoint\n";
            return text(StatusCode::METHOD_NOT_ALLOWED, methods);
        }
        match path {
            "/health" => text(StatusCode::OK, "ok\n"),
            "/ready" => self.readiness(),
            "/metrics" => metrics((self.metrics)()),
            "/metrics/tables" => metrics((self.table_metrics)()),
            _ => {
                let paths =
                    "there are /health, /ready, /metrics, /metrics/tables and POST /checkpoint\n";
                text(StatusCode::NOT_FOUND, paths)
            }
        }
    }
}

impl Handler for Admin {
    async fn handle(&self, request: Request<Incoming>, _: Peer) -> Response<AnswerBody> {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/checkpoint") => self.checkpoint().await,
            (method, "/health") => self.asked.answer(method, "/health"),
            (method, path) => self.answer_aside(method, path, on_own_thread).await,
        }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("ready", &self.asked.ready).finish_non_exhaustive()
    }
}

fn metrics(shown: String) -> Response<AnswerBody> {
    let mut answer = text(StatusCode::OK, shown);
    answer.headers_mut().insert(header::CONTENT_TYPE, METRICS);
    answer
}

fn text(status: StatusCode, text: impl Into<String>) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::from(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// R-S12: clients are served while figures of many tables are made, also by the only thread of a runtime.
    #[tokio::test]
    async fn r_s12_what_takes_a_while_keeps_no_thread_of_the_runtime() {
        let (served, figures) = channel();
        let figures = parking_lot::Mutex::new(figures);
        let made = move || figures.lock().recv_timeout(Duration::from_secs(5)).unwrap_or_default();
        let admin = Admin::new(Readiness::default(), Condition::default, String::new, made);
        tokio::spawn(async move { served.send("of_tables 1\n".to_owned()) });
        let answer = admin.answer_aside(&Method::GET, "/metrics/tables", on_own_thread).await;
        assert_eq!(answer.body().bytes(), b"of_tables 1\n");
    }

    /// R-S12: the system may have no thread to give for them; who asks next has a turn again.
    #[tokio::test]
    async fn r_s12_figures_without_a_thread_are_made_in_place() {
        let here = std::thread::current().id();
        let made = move || format!("made_here {}\n", std::thread::current().id() == here);
        let admin = Admin::new(Readiness::default(), Condition::default, made, String::new);
        for _ in 0..2 {
            let no_thread = |_| Err(io::Error::other("no more of them"));
            let answer = admin.answer_aside(&Method::GET, "/metrics", no_thread).await;
            assert_eq!(answer.body().bytes(), b"made_here true\n");
        }
    }

    /// A server that can do most is sent what there is.
    #[test]
    fn readiness_follows_the_server_and_its_condition() {
        let ready = Readiness::default();
        let condition =
            Arc::new(parking_lot::Mutex::new(Condition::Short("it is short of room".into())));
        let told = Arc::clone(&condition);
        let admin = Admin::new(
            ready.clone(),
            move || told.lock().clone(),
            || "a_metric 1\n".into(),
            || "of_tables 1\n".into(),
        );
        let status = |path| admin.asked.answer(&Method::GET, path).status().as_u16();
        let readiness = || {
            let answer = admin.asked.answer(&Method::GET, "/ready");
            let text = String::from_utf8_lossy(answer.body().bytes()).into_owned();
            (answer.status().as_u16(), text)
        };
        assert_eq!((status("/health"), readiness()), (200, (503, "starting or stopping\n".into())));
        ready.set(true);
        assert_eq!(readiness(), (200, "ready, but it is short of room\n".into()));
        *condition.lock() = Condition::Troubled("it stops".into());
        assert_eq!((status("/health"), readiness()), (200, (503, "it stops\n".into())));
        *condition.lock() = Condition::Well;
        assert_eq!((status("/health"), readiness()), (200, (200, "ready\n".into())));
        assert_eq!((status("/metrics"), status("/metrics/tables")), (200, 200));
        assert_eq!(status("/"), 404);
        assert_eq!(admin.asked.answer(&Method::POST, "/metrics").status().as_u16(), 405);
    }

    /// R-S12: the system may have no thread to give for it.
    #[tokio::test]
    async fn r_s12_a_checkpoint_that_gets_no_thread_is_answered() {
        let nothing = String::new;
        let admin = Admin::new(Readiness::default(), Condition::default, nothing, nothing)
            .with_checkpoints(|| Err(io::Error::other("no more of them")));
        let answer = admin.checkpoint().await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.body().bytes(), b"cannot start a thread: no more of them\n");
    }
}
