//! What a connection is doing, and whether it has been at that for too long.
//!
//! A request costs no timer: reads and writes count, and a watch looks at the counters every now and
//! then. A limit is therefore kept to within the watch's period.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::ConnectionLimits;
use super::folds::unfold;

/// What a client must take of an answer within [`ConnectionLimits::write_time`].
const WRITTEN_AT_LEAST: u64 = 64 << 10;

/// Counters of one connection. Its task alone changes them; they are atomic because the task may
/// move between threads.
#[derive(Debug, Default)]
pub(super) struct Activity {
    read: AtomicU64,
    written: AtomicU64,
    /// Requests that began.
    requests: AtomicU64,
    /// Bytes read when the last answer ended: what came since then is the head of a request.
    read_before: AtomicU64,
    /// A request is being answered.
    busy: AtomicBool,
    /// The peer takes no more bytes at the moment.
    blocked: AtomicBool,
}

impl Activity {
    pub(super) fn begin_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
    }

    pub(super) fn end_answer(&self) {
        self.busy.store(false, Ordering::Relaxed);
        self.read_before.store(self.read.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        if self.blocked.load(Ordering::Relaxed) {
            Phase::Writing
        } else if self.busy.load(Ordering::Relaxed) {
            Phase::Busy
        } else if self.read.load(Ordering::Relaxed) > self.read_before.load(Ordering::Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        }
    }

    fn wrote(&self, outcome: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        self.blocked.store(outcome.is_pending(), Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Busy,
    Writing,
}

/// Looks at a connection's counters and says when it has taken too long.
pub(super) struct Watch {
    activity: Arc<Activity>,
    limits: ConnectionLimits,
    phase: Phase,
    since: Instant,
    /// Progress as of `since`: requests, or bytes if it writes.
    seen: u64,
}

impl Watch {
    pub(super) fn new(activity: Arc<Activity>, limits: ConnectionLimits, now: Instant) -> Self {
        Self { activity, limits, phase: Phase::Idle, since: now, seen: 0 }
    }

    /// How often to look.
    pub(super) fn period(limits: &ConnectionLimits) -> Duration {
        let shortest = limits.head_time.min(limits.idle_time).min(limits.write_time);
        (shortest / 4).max(Duration::from_millis(1))
    }

    /// Whether there is no whole request, and nothing of an answer left to send.
    pub(super) fn awaits_request(&self) -> bool {
        matches!(self.activity.phase(), Phase::Idle | Phase::Head)
    }

    /// Looks; says which limit the connection is over.
    pub(super) fn look(&mut self, now: Instant) -> Option<&'static str> {
        let activity = &*self.activity;
        let phase = activity.phase();
        let (progress, needed) = match phase {
            Phase::Writing => (activity.written.load(Ordering::Relaxed), WRITTEN_AT_LEAST),
            _ => (activity.requests.load(Ordering::Relaxed), 1),
        };
        if phase != self.phase || progress >= self.seen.saturating_add(needed) {
            (self.phase, self.since, self.seen) = (phase, now, progress);
        }
        let (limit, what) = match phase {
            Phase::Idle => (self.limits.idle_time, "no request came"),
            Phase::Head => (self.limits.head_time, "the head of a request did not come"),
            Phase::Writing => (self.limits.write_time, "an answer was not taken"),
            Phase::Busy => return None,
        };
        (now.saturating_duration_since(self.since) >= limit).then_some(what)
    }
}

/// A stream whose bytes are counted, and the folds of its heads undone.
pub(super) struct Counted<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Counted<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        if matches!(self.activity.phase(), Phase::Idle | Phase::Head) {
            unfold(bytes);
        }
        self.activity.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.wrote(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.activity.wrote(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.activity.blocked.store(outcome.is_pending(), Ordering::Relaxed);
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Story {
        activity: Arc<Activity>,
        watch: Watch,
        now: Instant,
    }

    impl Story {
        fn new() -> Self {
            let activity = Arc::new(Activity::default());
            let now = Instant::now();
            let watch = Watch::new(Arc::clone(&activity), ConnectionLimits::default(), now);
            Self { activity, watch, now }
        }

        fn after(&mut self, seconds: u64) -> Option<&'static str> {
            self.now += Duration::from_secs(seconds);
            self.watch.look(self.now)
        }

        fn read(&self, bytes: u64) {
            self.activity.read.fetch_add(bytes, Ordering::Relaxed);
        }

        fn write(&self, outcome: Poll<usize>) {
            self.activity.wrote(&outcome.map(Ok));
        }
    }

    /// R-S12: a connection without requests is kept for a while and no longer.
    #[test]
    fn r_s12_an_idle_connection_ends() {
        let mut story = Story::new();
        assert_eq!(story.after(179), None);
        assert_eq!(story.after(1), Some("no request came"));

        let mut story = Story::new();
        assert_eq!(story.after(100), None);
        story.read(200);
        story.activity.begin_request();
        story.activity.end_answer();
        assert_eq!(story.after(100), None, "a request between two looks counts");
        assert_eq!(story.after(179), None);
        assert_eq!(story.after(1), Some("no request came"));
    }

    /// R-S12: slowloris. Bytes alone buy no time; a whole head does.
    #[test]
    fn r_s12_a_head_that_drips_ends() {
        let mut story = Story::new();
        for _ in 0..4 {
            story.read(1);
            assert_eq!(story.after(8), None);
        }
        story.read(1);
        assert_eq!(story.after(8), Some("the head of a request did not come"));
    }

    #[test]
    fn a_request_takes_the_time_it_takes() {
        let mut story = Story::new();
        story.read(300);
        story.activity.begin_request();
        assert_eq!(story.after(10_000), None);
        story.activity.end_answer();
        assert_eq!(story.after(179), None);
    }

    /// R-S12: a client that takes an answer slowly is served, one that hardly takes it is not.
    #[test]
    fn r_s12_an_answer_that_is_not_taken_ends() {
        let mut story = Story::new();
        story.activity.begin_request();
        for _ in 0..10 {
            story.write(Poll::Ready(70_000));
            story.write(Poll::Pending);
            assert_eq!(story.after(20), None);
        }
        story.write(Poll::Ready(10));
        story.write(Poll::Pending);
        assert_eq!(story.after(9), None);
        assert_eq!(story.after(21), Some("an answer was not taken"));
    }
}
