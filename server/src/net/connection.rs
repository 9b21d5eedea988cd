//! One connection: HTTP/1 on a stream, watched.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use super::activity::{Activity, Counted, Watch};
use super::listener::begun;
use super::{ConnectionLimits, Handler, Peer};
use crate::body::AnswerBody;

/// Serves a stream until either end closes it, it takes too long, or the server shuts down and
/// no request is under way.
pub(super) async fn serve<S, H>(
    stream: S,
    peer: Peer,
    handler: &Arc<H>,
    limits: ConnectionLimits,
    mut stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let activity = Arc::new(Activity::default());
    let stream = TokioIo::new(Counted::new(stream, Arc::clone(&activity)));
    let mut watch = Watch::new(Arc::clone(&activity), limits, Instant::now());
    let service = service_fn(move |request: Request<Incoming>| {
        // At once: what is read from here on is no head.
        let answering = Answering::begin(Arc::clone(&activity));
        let handler = Arc::clone(handler);
        async move {
            let answer = handler.handle(request, peer).await;
            Ok::<_, Infallible>(tracked(answer, answering))
        }
    });
    let mut http = http1::Builder::new();
    // Time limits are the watch's; hyper's own costs a timer for each request.
    http.header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(ConnectionLimits::LEAST_HEAD));
    let mut connection = std::pin::pin!(http.serve_connection(stream, service));
    let mut looks = tokio::time::interval(Watch::period(&limits));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = false;
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(?peer, %error, "connection broke");
                }
                return;
            }
            now = looks.tick() => {
                if let Some(reason) = watch.look(now) {
                    tracing::debug!(?peer, reason, "connection ended");
                    return;
                }
            }
            () = begun(&mut stopping), if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
                // It may end in order now, or read a request that is there.
                tokio::select! {
                    biased;
                    _ = &mut connection => return,
                    () = std::future::ready(()) => {}
                }
                if watch.awaits_request() {
                    return;
                }
            }
        }
    }
}

/// From a request's beginning to its answer's end, or until it is given up.
struct Answering(Arc<Activity>);

impl Answering {
    fn begin(activity: Arc<Activity>) -> Self {
        activity.begin_request();
        Self(activity)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.end_answer();
    }
}

/// An answer's body; when it has been handed to the connection, the request has ended.
struct Tracked {
    body: AnswerBody,
    /// Whether the head states a length of 0 though the status says so too. hyper takes that out if the body is at its
    /// end before it is sent.
    is_stated: bool,
    _answering: Answering,
}

/// The answer as it is sent. A 204 has no body, and may not state so; the service does, and HTTP clients that
/// know nothing of the status wait for its end otherwise, and close the connection: those of Mono.
fn tracked(mut answer: Response<AnswerBody>, answering: Answering) -> Response<Tracked> {
    let is_stated = answer.status() == StatusCode::NO_CONTENT;
    if is_stated {
        answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    answer.map(|body| Tracked { body, is_stated, _answering: answering })
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        !self.is_stated && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
