use std::future::poll_fn;

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

/// R-S12: also where the budget is less than what a body may have without a share.
#[tokio::test(start_paused = true)]
async fn r_s12_who_needs_more_than_a_small_budget_is_alone() {
    let budget = BodyBudget::new(10 * UNIT);
    let (mut one, mut two) = <(Share, Share)>::default();
    budget.grow_up_to_all(&mut one, 20 * UNIT).await.unwrap();
    let busy = budget.grow_up_to_all(&mut two, 20 * UNIT).await.unwrap_err();
    assert_eq!(busy.code(), ErrorCode::ServerBusy);
}

/// R-S12: what is decoded is not there while its share is waited for.
#[tokio::test(start_paused = true)]
async fn r_s12_what_waits_for_its_share_is_not_decoded() {
    let budget = BodyBudget::new(100 * UNIT);
    let live = std::rc::Rc::new(());
    let decoded = async |share: &mut Share, units: usize| {
        let decode = async || Ok::<_, ServiceError>((std::rc::Rc::clone(&live), units * UNIT));
        budget.decoded(share, decode).await.map_err(|error| error.code())
    };
    let left = || budget.units.available_permits();
    let (mut one, mut two) = <(Share, Share)>::default();
    drop(decoded(&mut one, 16).await.unwrap());
    assert_eq!(left(), 100, "what is small is free");
    drop(decoded(&mut one, 60).await.unwrap());
    drop(decoded(&mut one, 40).await.unwrap());
    assert_eq!(left(), 40);
    assert_eq!(decoded(&mut two, 50).await.unwrap_err(), ErrorCode::ServerBusy);
    let waited = async {
        tokio::time::sleep(PATIENCE / 2).await;
        assert_eq!(std::rc::Rc::strong_count(&live), 1);
        drop(one);
    };
    let (decoded, ()) = tokio::join!(decoded(&mut two, usize::MAX / UNIT), waited);
    assert_eq!((decoded.map(|live| std::rc::Rc::strong_count(&live)), left()), (Ok(2), 0));
}

/// R-S12: so does an answer, which would be refused for ever.
#[tokio::test]
async fn an_answer_larger_than_the_budget_has_all_of_it() {
    let budget = BodyBudget::new(100 * UNIT);
    let small = budget.take(17 * UNIT).unwrap();
    assert_eq!(budget.take(101 * UNIT).unwrap_err().code(), ErrorCode::ServerBusy);
    drop(small);
    let alone = budget.take(usize::MAX).unwrap();
    assert!(budget.take(17 * UNIT).is_err() && budget.take(FREE).is_ok());
    drop(alone);
    assert!(budget.take(100 * UNIT).is_ok());
}

#[tokio::test]
async fn what_is_more_than_needed_is_given_back() {
    let budget = BodyBudget::new(100 * UNIT);
    let mut share = budget.take(90 * UNIT).unwrap();
    for (bytes, left) in [(95, 10), (90, 10), (40, 60), (50, 60), (16, 100)] {
        share.shrink(bytes * UNIT);
        assert_eq!(budget.units.available_permits(), left, "{bytes}");
    }
    Share::default().shrink(0);
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

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
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
    let body = std::pin::pin!(slow(24 << 10, 100));
    discard(&HeaderMap::new(), RequestBody::new(body), LIMITS).await;
    assert_eq!(began.elapsed(), LIMITS.stall, "a refused client has that in all");
}

/// One piece, and silence.
struct Stops(Option<Bytes>);

impl futures_core::Stream for Stops {
    type Item = Result<Frame<Bytes>, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.take() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None => Poll::Pending,
        }
    }
}

/// R-S12: to say that much will come takes nothing from others; a quarter of it has room for all.
#[tokio::test]
async fn r_s12_a_body_takes_its_share_when_it_comes() {
    for (length, left) in [(0, 200), (100, 200), (20 << 10, 180), (25_000, 102)] {
        let budget = BodyBudget::new(200 << 10);
        let piece = (length > 0).then(|| Bytes::from(vec![0; length]));
        let headers = stated(100_000);
        let mut body = std::pin::pin!(read_all(&headers, StreamBody::new(Stops(piece)), &budget));
        let begun = poll_fn(|context| Poll::Ready(body.as_mut().poll(context))).await;
        assert!(begun.is_pending());
        assert_eq!(budget.units.available_permits(), left, "{length}");
    }
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
    assert!(discard(&none, RequestBody::new(small.as_mut()), LIMITS).await);
    assert!(small.frame().await.is_none());
    let mut large = std::pin::pin!(pieces(vec![&PIECE, &PIECE, &PIECE, &PIECE]));
    assert!(!discard(&none, RequestBody::new(large.as_mut()), LIMITS).await);
    assert!(large.frame().await.is_some(), "not all of it");
    assert!(
        !discard(&none, RequestBody::new(std::pin::pin!(StreamBody::new(Never))), LIMITS).await
    );
}

/// R-S03: a client that asks before it sends is still sending only if it was told to go on.
#[tokio::test]
async fn r_s03_a_refused_body_that_was_asked_for_is_read() {
    static PIECE: [u8; 150_000] = [0; 150_000];
    let mut asks = HeaderMap::new();
    asks.insert(header::EXPECT, header::HeaderValue::from_static("100-continue"));
    let mut unasked = std::pin::pin!(pieces(vec![&PIECE]));
    assert!(!discard(&asks, RequestBody::new(unasked.as_mut()), LIMITS).await);
    assert!(unasked.frame().await.is_some());
    let mut asked = std::pin::pin!(pieces(vec![&PIECE, &PIECE]));
    let mut body = RequestBody::new(asked.as_mut());
    let refused = read_all(&asks, &mut body, &BodyBudget::new(1 << 20)).await;
    assert_eq!(refused.unwrap_err(), ErrorCode::RequestBodyTooLarge);
    assert!(discard(&asks, body, LIMITS).await);
    assert!(asked.frame().await.is_none());
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

/// A limit beyond the end of the clock is none.
#[tokio::test]
async fn a_body_may_have_all_the_time_there_is() {
    let limits = BodyLimits { stall: Duration::MAX, ..BodyLimits::default() };
    let budget = BodyBudget::new(1 << 20);
    let body = http_body_util::Full::new(Bytes::from_static(b"body"));
    let read = read(&HeaderMap::new(), body.clone(), limits, &budget).await;
    assert_eq!(read.unwrap().0, "body");
    let mut body = body;
    assert!(discard(&HeaderMap::new(), RequestBody::new(Pin::new(&mut body)), limits).await);
    assert!(body.is_end_stream());
}
