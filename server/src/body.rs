//! Bodies in both directions, and the memory that all of them together may take.
//!
//! Invariant: all that clients send, what is decoded of it, and what they are sent have room in the budget together.
//! Apart from it there are only
//!
//! * bodies of up to 16 KiB, and what a connection has just read: limits on connections and heads bound them;
//! * for each thread that decodes, the body it is at, and for each that reads entities, the answer it makes;
//! * what is larger than the whole budget, which it then has alone.

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

    /// A share of this many bytes for an answer that is made already, or of all of the budget if that is less: what
    /// needs more is alone.
    ///
    /// # Errors
    /// [`ErrorCode::ServerBusy`] if it is not to be had now.
    pub fn take(&self, bytes: usize) -> Result<Share, ServiceError> {
        let mut share = Share::default();
        if self.grow_at_once(&mut share, bytes) {
            Ok(share)
        } else {
            Err(ErrorCode::ServerBusy.error())
        }
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
        self.grow(share, units(bytes).min(self.all)).await
    }

    /// What `decode` makes of a body, once the share has [grown](Self::grow_up_to_all) to be for the bytes that it says
    /// with that. They may be many times the body's: while they are waited for, what was decoded is dropped, and
    /// decoded again afterwards.
    ///
    /// # Errors
    /// As it is made, and [`ErrorCode::ServerBusy`] if its share is not to be had.
    pub(crate) async fn decoded<T, E: From<ServiceError>, D>(
        &self,
        share: &mut Share,
        decode: impl Fn() -> D,
    ) -> Result<T, E>
    where
        D: Future<Output = Result<(T, usize), E>>,
    {
        let (decoded, bytes) = decode().await?;
        if self.grow_at_once(share, bytes) {
            return Ok(decoded);
        }
        drop(decoded);
        self.grow_up_to_all(share, bytes).await?;
        decode().await.map(|(decoded, _)| decoded)
    }

    /// Adds to a share as [`grow_up_to_all`](Self::grow_up_to_all) does, if that can be had now; whether it could.
    fn grow_at_once(&self, share: &mut Share, bytes: usize) -> bool {
        let missing = share.missing(units(bytes).min(self.all));
        missing == 0
            || Arc::clone(&self.units)
                .try_acquire_many_owned(missing)
                .map(|more| share.add(more))
                .is_ok()
    }

    /// Adds to a share, waiting for a while if need be, so that it is of so many units.
    async fn grow(&self, share: &mut Share, units: u32) -> Result<(), ServiceError> {
        let missing = share.missing(units);
        if missing == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.units).acquire_many_owned(missing);
        match tokio::time::timeout(PATIENCE, more).await {
            Ok(Ok(more)) => share.add(more),
            Ok(Err(_)) | Err(_) => return Err(ErrorCode::ServerBusy.error()),
        }
        Ok(())
    }
}

impl Share {
    /// How many of so many units it lacks.
    fn missing(&self, units: u32) -> u32 {
        let has = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        units.saturating_sub(u32::try_from(has).unwrap_or(0))
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.0 {
            Some(share) => share.merge(more),
            None => self.0 = Some(more),
        }
    }

    /// Gives back what is more than this many bytes have.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let Some(share) = &mut self.0 else { return };
        let needed = units(bytes) as usize;
        drop(share.split(share.num_permits().saturating_sub(needed)));
    }
}

/// The units that this many bytes take of a budget.
fn units(bytes: usize) -> u32 {
    if bytes <= FREE { 0 } else { u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX) }
}

/// How much a request may send, and how slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Largest body in bytes. Default 4 MiB, as the service; 1 KiB to 1 GiB.
    pub bytes: usize,
    /// Time in which 64 KiB of it must come, or what is left. Default 30 s.
    pub stall: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes: 4 << 20, stall: Duration::from_secs(30) }
    }
}

/// When that much time will have passed; where the clock has no such time, in thirty years.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 86_400))
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
        Self { stall, until: after(stall), bytes: 0 }
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
        budget.grow(&mut share, units(share_of(length, stated))).await?;
        if first.is_empty() && rest.is_empty() {
            // Mostly the only one: it is not copied.
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve(share_of(2 * length, stated));
            rest.extend_from_slice(&first);
            first.clear();
        }
        rest.extend_from_slice(&data);
    }
    let body = if rest.is_empty() { first } else { rest.freeze() };
    Ok((body, share))
}

/// What a body is to have of the budget when this much of it has come: as much, and all that it is
/// to be once a quarter is there. To say how long it is to be takes nothing from others. Who waits for
/// more holds a quarter at most, so that bodies rarely wait for each other; where they do, all are
/// refused in time, and give back what they have.
fn share_of(length: usize, stated: Option<usize>) -> usize {
    match stated {
        Some(stated) if length.saturating_mul(4) >= stated => stated.max(length),
        _ => length,
    }
}

/// A request's body that remembers whether anybody has begun to read it, as a client that asked before it
/// sends is told to go on then, and whether it broke: then nobody knows where it ends.
#[derive(Debug)]
pub struct RequestBody<'a, B> {
    body: Pin<&'a mut B>,
    was_asked_for: bool,
    broke: bool,
}

impl<'a, B> RequestBody<'a, B> {
    /// A body of which nothing was read.
    pub fn new(body: Pin<&'a mut B>) -> Self {
        Self { body, was_asked_for: false, broke: false }
    }
}

impl<B: Body> Body for RequestBody<'_, B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.was_asked_for = true;
        let frame = self.body.as_mut().poll_frame(context);
        self.broke |= matches!(frame, Poll::Ready(Some(Err(_))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads what is left of the body of a request that was refused, up to four times the limit, and
/// forgets it: a client that is still sending would not hear the answer. One that asks before it
/// sends, and was not told to go on, has not begun. Says whether it has ended: else more may come, and
/// what comes on the connection is no request.
pub async fn discard<B: Body<Data = Bytes>>(
    headers: &HeaderMap,
    mut body: RequestBody<'_, B>,
    limits: BodyLimits,
) -> bool {
    if headers.contains_key(header::EXPECT) && !body.was_asked_for {
        return body.is_end_stream();
    }
    let mut left = limits.bytes.saturating_mul(4);
    // Who is refused has this time in all.
    let until = after(limits.stall);
    while !body.broke && !body.is_end_stream() {
        let frame = match timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(_))) | Err(_) => return false,
        };
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return false,
        }
    }
    !body.broke
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
mod tests;
