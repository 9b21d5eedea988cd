//! Bodies in both directions, and the memory that all of them together may take.
//!
//! Invariant: of what clients send and are sent, no more than the budget is in memory at once, but
//! for small bodies, which the limit on connections bounds, and one answer per reader thread.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::error::{ErrorCode, ServiceError};

/// A body up to this size takes nothing of the budget.
const FREE: usize = 16 << 10;
/// What the budget is counted in.
const UNIT: usize = 1 << 10;
/// An answer is handed on in pieces of this size, so that its request ends when most of it has been
/// sent.
const PIECE: usize = 256 << 10;
/// What of a body must come within [`BodyLimits::stall`].
const READ_AT_LEAST: usize = 64 << 10;
/// How long a body waits for its share before the client hears that the server is busy.
const PATIENCE: Duration = Duration::from_secs(2);

/// The memory that all bodies may take.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    units: Arc<Semaphore>,
    /// Of all shares together.
    all: u32,
}

/// A share of the budget, given back when it is dropped.
#[derive(Debug, Default)]
pub struct Share(Option<OwnedSemaphorePermit>);

impl BodyBudget {
    /// A budget of that many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let all = u32::try_from((bytes / UNIT).min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self { units: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// A share for an answer that is made already.
    ///
    /// # Errors
    /// [`ErrorCode::ServerBusy`] if it is not to be had now.
    pub fn take(&self, bytes: usize) -> Result<Share, ServiceError> {
        let Some(units) = units(bytes) else {
            return Ok(Share(None));
        };
        let share = Arc::clone(&self.units).try_acquire_many_owned(units);
        share.map(|share| Share(Some(share))).map_err(|_| ErrorCode::ServerBusy.error())
    }

    /// Adds to a share, waiting for a while if need be, so that it is for this many bytes, or for all of
    /// the budget if that is less: what needs more is alone. Meanwhile nobody else gets a share.
    ///
    /// # Errors
    /// [`ErrorCode::ServerBusy`] if it is not to be had.
    pub(crate) async fn grow_up_to_all(
        &self,
        share: &mut Share,
        bytes: usize,
    ) -> Result<(), ServiceError> {
        self.grow(share, bytes.min(self.all as usize * UNIT)).await
    }

    /// Adds to a share, waiting for a while if need be, so that it is for this many bytes.
    async fn grow(&self, share: &mut Share, bytes: usize) -> Result<(), ServiceError> {
        let has = share.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = units(bytes).unwrap_or(0).saturating_sub(u32::try_from(has).unwrap_or(0));
        if missing == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.units).acquire_many_owned(missing);
        match tokio::time::timeout(PATIENCE, more).await {
            Ok(Ok(more)) => match &mut share.0 {
                Some(share) => share.merge(more),
                None => share.0 = Some(more),
            },
            Ok(Err(_)) | Err(_) => return Err(ErrorCode::ServerBusy.error()),
        }
        Ok(())
    }
}

fn units(bytes: usize) -> Option<u32> {
    (bytes > FREE).then(|| u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX))
}

/// How much a request may send, and how slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Largest body in bytes. Default 4 MiB, as the service.
    pub bytes: usize,
    /// Time in which 64 KiB of it must come, or what is left. Default 30 s.
    pub stall: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes: 4 << 20, stall: Duration::from_secs(30) }
    }
}

/// By when the next piece of a body must have come. Bytes alone buy no time, or a client could hold
/// a connection and a share of the budget for as long as it likes.
struct Pace {
    stall: Duration,
    until: Instant,
    /// Bytes since the time began to run.
    bytes: usize,
}

impl Pace {
    fn new(stall: Duration) -> Self {
        Self { stall, until: Instant::now() + stall, bytes: 0 }
    }

    /// The next frame, unless it comes too late.
    async fn next<B>(
        &mut self,
        body: &mut Pin<&mut B>,
    ) -> Result<Option<Result<Frame<Bytes>, B::Error>>, Elapsed>
    where
        B: Body<Data = Bytes>,
    {
        let frame = timeout_at(self.until, body.frame()).await?;
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, Bytes::len);
        }
        if self.bytes >= READ_AT_LEAST {
            *self = Self::new(self.stall);
        }
        Ok(frame)
    }
}

/// Reads a request's body. The share goes with it.
///
/// # Errors
/// [`ErrorCode::RequestBodyTooLarge`], before a byte is read if the headers say so;
/// [`ErrorCode::ServerBusy`] if there is no memory for it; [`ErrorCode::InvalidInput`] if it comes
/// too slowly or breaks off.
pub async fn read<B>(
    headers: &HeaderMap,
    body: B,
    limits: BodyLimits,
    budget: &BodyBudget,
) -> Result<(Bytes, Share), ServiceError>
where
    B: Body<Data = Bytes>,
{
    let too_large = || ErrorCode::RequestBodyTooLarge.error();
    let stated = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let stated = stated.and_then(|value| value.parse::<usize>().ok());
    if stated.is_some_and(|stated| stated > limits.bytes) {
        return Err(too_large());
    }
    let mut share = Share::default();
    budget.grow(&mut share, stated.unwrap_or(0)).await?;
    let mut body = std::pin::pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut pace = Pace::new(limits.stall);
    loop {
        let frame = pace.next(&mut body).await;
        let frame =
            frame.map_err(|_| ErrorCode::InvalidInput.because("The body does not come."))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| ErrorCode::InvalidInput.because("The body breaks off."))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = first.len() + rest.len() + data.len();
        if length > limits.bytes {
            return Err(too_large());
        }
        budget.grow(&mut share, length).await?;
        if first.is_empty() && rest.is_empty() {
            // Mostly the only one: it is not copied.
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve(stated.unwrap_or(2 * length).max(length));
            rest.extend_from_slice(&first);
            first.clear();
        }
        rest.extend_from_slice(&data);
    }
    let body = if rest.is_empty() { first } else { rest.freeze() };
    Ok((body, share))
}

/// Reads what is left of the body of a request that was refused, up to four times the limit, and
/// forgets it: a client that is still sending would not hear the answer. One that asked before it
/// sends has not begun.
pub async fn discard<B: Body<Data = Bytes>>(headers: &HeaderMap, body: B, limits: BodyLimits) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let mut body = std::pin::pin!(body);
    let mut left = limits.bytes.saturating_mul(4);
    // Who is refused has this time in all.
    let until = Instant::now() + limits.stall;
    while !body.is_end_stream() {
        let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await else {
            return;
        };
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// The body of an answer: bytes that are all there. A share of the budget that belongs to them is
/// given back with their memory, when the connection has sent the last piece.
#[derive(Debug, Default)]
pub struct AnswerBody {
    bytes: Bytes,
}

/// Bytes that have a share of the budget.
struct Shared {
    bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AnswerBody {
    /// A body that takes part in the budget.
    #[must_use]
    pub fn sharing(bytes: Bytes, share: Share) -> Self {
        let bytes = match share.0 {
            Some(share) => Bytes::from_owner(Shared { bytes, _share: share }),
            None => bytes,
        };
        Self { bytes }
    }

    /// The body as one that takes part in the budget with this share.
    #[must_use]
    pub fn with_share(self, share: Share) -> Self {
        if self.bytes.is_empty() { self } else { Self::sharing(self.bytes, share) }
    }

    /// What was not sent yet.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Into<Bytes>> From<T> for AnswerBody {
    fn from(bytes: T) -> Self {
        Self { bytes: bytes.into() }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.bytes.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.bytes.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    const LIMITS: BodyLimits = BodyLimits { bytes: 100_000, stall: Duration::from_secs(3600) };

    type Pieces = Vec<Result<Frame<Bytes>, std::io::Error>>;

    /// A body of pieces, of which the last is followed by silence if it is not to end.
    fn pieces(pieces: Vec<&'static [u8]>) -> impl Body<Data = Bytes> {
        let pieces: Pieces =
            pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece)))).collect();
        StreamBody::new(Iter(pieces.into_iter()))
    }

    struct Iter(std::vec::IntoIter<Result<Frame<Bytes>, std::io::Error>>);

    impl futures_core::Stream for Iter {
        type Item = Result<Frame<Bytes>, std::io::Error>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.next())
        }
    }

    fn stated(length: usize) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, length.into());
        headers
    }

    async fn read_all(
        headers: &HeaderMap,
        body: impl Body<Data = Bytes>,
        budget: &BodyBudget,
    ) -> Result<(Bytes, Share), ErrorCode> {
        read(headers, body, LIMITS, budget).await.map_err(|error| error.code())
    }

    #[tokio::test(start_paused = true)]
    async fn who_needs_more_than_there_is_gets_all_of_it_alone() {
        let budget = BodyBudget::new(100 * UNIT);
        let (mut one, mut two) = <(Share, Share)>::default();
        budget.grow_up_to_all(&mut one, usize::MAX).await.unwrap();
        let busy = budget.grow_up_to_all(&mut two, 20 * UNIT).await.unwrap_err();
        assert_eq!(busy.code(), ErrorCode::ServerBusy);
        drop(one);
        budget.grow_up_to_all(&mut two, 20 * UNIT).await.unwrap();
        budget.grow_up_to_all(&mut two, 50 * UNIT).await.unwrap();
        assert!(budget.take(50 * UNIT).is_ok() && budget.take(51 * UNIT).is_err());
    }

    #[tokio::test]
    async fn a_body_comes_in_one_piece_or_in_many() {
        let budget = BodyBudget::new(1 << 20);
        let none = HeaderMap::new();
        let one = Bytes::from_static(b"one");
        let (read, _) = read_all(&none, Full::new(one.clone()), &budget).await.unwrap();
        assert_eq!(read.as_ptr(), one.as_ptr(), "not copied");
        let many = pieces(vec![b"", b"a", b"bc", b"", b"d"]);
        assert_eq!(&read_all(&none, many, &budget).await.unwrap().0[..], b"abcd");
        assert!(read_all(&none, pieces(vec![]), &budget).await.unwrap().0.is_empty());
    }

    /// R-S12: too large a body is refused, before it is read if its length is stated.
    #[tokio::test]
    async fn r_s12_a_body_over_the_limit_is_refused() {
        let budget = BodyBudget::new(1 << 20);
        let never = StreamBody::new(Never);
        let early = read_all(&stated(100_001), never, &budget).await;
        assert_eq!(early.unwrap_err(), ErrorCode::RequestBodyTooLarge);
        let just = Full::new(Bytes::from(vec![0; 100_000]));
        assert!(read_all(&stated(100_000), just, &budget).await.is_ok());
        static LARGE: [u8; 60_000] = [0; 60_000];
        let unstated = read_all(&HeaderMap::new(), pieces(vec![&LARGE, &LARGE]), &budget).await;
        assert_eq!(unstated.unwrap_err(), ErrorCode::RequestBodyTooLarge);
    }

    struct Never;

    impl futures_core::Stream for Never {
        type Item = Result<Frame<Bytes>, std::io::Error>;

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Pending
        }
    }

    /// R-S12: a client that stops sending is not waited for.
    #[tokio::test(start_paused = true)]
    async fn r_s12_a_stalled_body_is_given_up() {
        let budget = BodyBudget::new(1 << 20);
        let stalled = read_all(&stated(10), StreamBody::new(Never), &budget).await;
        assert_eq!(stalled.unwrap_err(), ErrorCode::InvalidInput);
    }

    /// A body of equal pieces, one every quarter of an hour.
    struct Slow {
        piece: Bytes,
        left: usize,
        pause: Pin<Box<tokio::time::Sleep>>,
    }

    const QUARTER: Duration = Duration::from_secs(900);

    impl futures_core::Stream for Slow {
        type Item = Result<Frame<Bytes>, std::io::Error>;

        fn poll_next(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Self::Item>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            std::task::ready!(self.pause.as_mut().poll(context));
            self.pause = Box::pin(tokio::time::sleep(QUARTER));
            self.left -= 1;
            Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
        }
    }

    /// R-S12: slowloris. Bytes alone buy no time; a good many of them do.
    #[tokio::test(start_paused = true)]
    async fn r_s12_a_body_that_drips_is_given_up() {
        let budget = BodyBudget::new(1 << 20);
        let slow = |piece: usize, left| {
            let (piece, pause) = (vec![0; piece].into(), Box::pin(tokio::time::sleep(QUARTER)));
            StreamBody::new(Slow { piece, left, pause })
        };
        let drips = read_all(&stated(10), slow(1, 10), &budget).await;
        assert_eq!(drips.unwrap_err(), ErrorCode::InvalidInput);
        // LIMITS gives an hour for 64 KiB: three pieces of 24 KiB come in time, and one more.
        assert!(read_all(&stated(96 << 10), slow(24 << 10, 4), &budget).await.is_ok());
        let began = Instant::now();
        discard(&HeaderMap::new(), slow(24 << 10, 100), LIMITS).await;
        assert_eq!(began.elapsed(), LIMITS.stall, "a refused client has that in all");
    }

    /// R-S12: bodies wait for memory, and then hear that the server is busy; a share comes back.
    #[tokio::test(start_paused = true)]
    async fn r_s12_bodies_share_a_budget() {
        let budget = BodyBudget::new(100 << 10);
        let body = || Full::new(Bytes::from(vec![0; 60_000]));
        let first = read_all(&stated(60_000), body(), &budget).await.unwrap();
        let busy = read_all(&stated(60_000), body(), &budget).await;
        assert_eq!(busy.unwrap_err(), ErrorCode::ServerBusy);
        let unstated = read_all(&HeaderMap::new(), body(), &budget).await;
        assert_eq!(unstated.unwrap_err(), ErrorCode::ServerBusy);
        let small = read_all(&stated(5), pieces(vec![b"small"]), &budget).await;
        assert!(small.is_ok(), "small bodies are free");
        assert!(budget.take(60_000).is_err() && budget.take(30_000).is_ok());
        drop(first);
        assert!(read_all(&stated(60_000), body(), &budget).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_of_a_refused_body_is_read() {
        static PIECE: [u8; 150_000] = [0; 150_000];
        let none = HeaderMap::new();
        let mut small = std::pin::pin!(pieces(vec![&PIECE, &PIECE]));
        discard(&none, small.as_mut(), LIMITS).await;
        assert!(small.frame().await.is_none());
        let mut large = std::pin::pin!(pieces(vec![&PIECE, &PIECE, &PIECE, &PIECE]));
        discard(&none, large.as_mut(), LIMITS).await;
        assert!(large.frame().await.is_some(), "not all of it");
        discard(&none, StreamBody::new(Never), LIMITS).await;
        let mut asks = HeaderMap::new();
        asks.insert(header::EXPECT, header::HeaderValue::from_static("100-continue"));
        let mut unasked = std::pin::pin!(pieces(vec![&PIECE]));
        discard(&asks, unasked.as_mut(), LIMITS).await;
        assert!(unasked.frame().await.is_some());
    }

    /// R-S12: each piece holds the memory of all, so it holds the share too, wherever it waits.
    #[tokio::test]
    async fn r_s12_an_answer_keeps_its_share_until_its_last_piece_is_gone() {
        let budget = BodyBudget::new(1 << 20);
        let bytes = Bytes::from(vec![7; 600_000]);
        let share = budget.take(bytes.len()).unwrap();
        let mut body = AnswerBody::sharing(bytes, share);
        assert_eq!(body.size_hint().exact(), Some(600_000));
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        let lengths: Vec<_> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [PIECE, PIECE, 600_000 - 2 * PIECE]);
        drop(body);
        for piece in pieces {
            assert!(budget.take(600_000).is_err());
            drop(piece);
        }
        assert!(budget.take(600_000).is_ok());
    }
}
