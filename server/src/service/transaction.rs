//! Entity group transactions: `POST /$batch` with a change set, or with a single query.
//!
//! A transaction that fails is answered with 202 too; its one part is the answer of the operation
//! that failed, with the operation's place before the text.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use hyper::body::Body;
use uuid::Uuid;

use super::TableService;
use super::answer::Answer;
use super::apply::{After, Failed};
use super::call::Call;
use super::catalog::TableState;
use super::odata::ODataVersion;
use super::subrequest::{
    Known, OTHER_PARTITION, Operation, check_query, head, headers, locate, stated_format, verb,
};
use super::waits::Work;
use super::write::{Done, Likeness, Say};
use crate::address::{Parameter, QueryString, Resource};
use crate::body::{AnswerBody, Share};
use crate::error::{ErrorCode, NOT_PROCESSED, ServiceError};
use crate::headers::{Verb, text};
use crate::wire::batch::{self, Batch, BatchErrorKind, BatchWriter, Pieces, SubRequest};

/// Bytes by which the answer to an operation may be longer than that to the first before its buffer
/// grows.
const ROOM: usize = 16;
/// For how much of each operation's answer room is made at first: those with entities may be larger.
const MOST_ROOM: usize = 1 << 10;

/// What a batch can have without a change set.
const ONE_QUERY: &str = "Outside of a change set a batch can have one query of entities.";

/// The parts of an answer, and why what was asked was not done, if so.
struct Outcome {
    writer: BatchWriter,
    error: Option<ErrorCode>,
}

/// What the parts of an answer have besides their own headers.
const COMMON: [(&str, &str); 2] =
    [("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-cache")];

impl TableService {
    /// Entity Group Transaction.
    pub(super) async fn transaction(
        &self,
        call: &Call<'_>,
        body: impl Body<Data = Bytes>,
    ) -> Result<Answer, ServiceError> {
        // What it is to do is in its body.
        call.grant.allow_some_operation_on_entities()?;
        let (body, mut share) = self.body(call, body).await?;
        let content_type = text(&call.head.headers, &header::CONTENT_TYPE).unwrap_or_default();
        let parse = || {
            let batch = batch::parse(content_type, &body, self.limits.transaction_operations);
            let bytes = body.len() + batch.as_ref().map_or(0, Batch::own_bytes);
            Ok::<_, ServiceError>(((batch, bytes), bytes))
        };
        let work = Work::of(body.len());
        let (batch, held) = self.decoded(&mut share, work, parse).await?;
        let Outcome { writer, error } = match &batch {
            Ok(Batch::ChangeSet(_) | Batch::Nothing) if call.address.secondary => {
                return Err(ErrorCode::InsufficientAccountPermissions.error());
            }
            Ok(Batch::ChangeSet(requests)) => {
                let held = Held { bytes: held, work };
                let outcome = change_set(self, call, requests, held, &mut share).await?;
                share.shrink(outcome.writer.len());
                outcome
            }
            Ok(Batch::Nothing) => Outcome { writer: writer(), error: None },
            Ok(Batch::Query(request)) => {
                let outcome = self.query_in_batch(call, request).await?;
                share = self.budget.take(outcome.writer.len())?;
                outcome
            }
            Err(error) => match error.kind {
                BatchErrorKind::TooManyOperations { .. } => {
                    let error = error.clone().into();
                    let format = call.query.given(Parameter::Format);
                    failed(None, &Answer::error(&error, format, &call.head.headers, call.common))
                }
                _ => return Err(error.clone().into()),
            },
        };
        let content_type = writer.content_type();
        let body = AnswerBody::sharing(writer.finish().into(), share);
        let answer = Answer { body, error, ..Answer::empty(StatusCode::ACCEPTED) };
        Ok(answer.with_text(header::CONTENT_TYPE, &content_type))
    }

    /// The one query that may stand in a batch, alone. Whatever its error is, the service numbers it.
    async fn query_in_batch(
        &self,
        call: &Call<'_>,
        request: &SubRequest<'_>,
    ) -> Result<Outcome, ServiceError> {
        let headers = headers(call, &request.headers);
        let mut writer = BatchWriter::query(Uuid::new_v4());
        let answer = match self.query(call, request, headers.clone()).await {
            Ok(answer) => answer,
            Err(error) if is_for_all(&error) => return Err(error),
            Err(error) => {
                let error = call.told(error).in_batch(0);
                let format = stated_format(request);
                Answer::error(&error, format.as_deref(), &headers, call.common)
            }
        };
        push(&mut writer, request.content_id.as_deref(), &answer);
        Ok(Outcome { writer, error: answer.error })
    }

    async fn query(
        &self,
        call: &Call<'_>,
        request: &SubRequest<'_>,
        headers: HeaderMap,
    ) -> Result<Answer, ServiceError> {
        let (address, query) = locate(call, request)?;
        let verb = verb(request, &headers)?;
        let head = head(call, headers);
        let query = QueryString::parse(query)?;
        check_query(&query, &address.resource, verb, ONE_QUERY)?;
        let grant = call.grant.clone();
        let inner = Call { head: &head, verb, address, query, grant, ..*call };
        match (verb, &inner.address.resource) {
            (Verb::Get, Resource::Entity { table, partition_key, row_key }) => {
                self.get_entity(&inner, table, partition_key, row_key).await
            }
            (Verb::Get, Resource::Entities { table }) => self.query_entities(&inner, table).await,
            _ => Err(ErrorCode::InvalidInput.because(ONE_QUERY)),
        }
    }
}

/// The body of a batch, taken apart.
#[derive(Clone, Copy)]
struct Held {
    /// Bytes that it takes.
    bytes: usize,
    /// How long it takes to do more with it.
    work: Work,
}

/// Does the operations of a change set, all or none. The request's share of the budget, which is for the bytes that are
/// `held`, grows to be for what is decoded and for the answer too.
async fn change_set(
    service: &TableService,
    call: &Call<'_>,
    requests: &[SubRequest<'_>],
    held: Held,
    share: &mut Share,
) -> Result<Outcome, ServiceError> {
    match commit(service, call, requests, held, share).await {
        Ok(writer) => Ok(Outcome { writer, error: None }),
        // What is not a mistake of the client's is for it to try again as a whole.
        Err(Failed { error, .. }) if is_for_all(&error) => Err(error),
        Err(Failed { error, index }) => {
            let request = requests.get(index);
            let content_id = request.and_then(|request| request.content_id.as_deref());
            let own = request.map(|request| headers(call, &request.headers));
            let headers = own.as_ref().unwrap_or(&call.head.headers);
            let format = request.and_then(stated_format);
            let inserts = request.is_some_and(|request| verb(request, headers) == Ok(Verb::Post));
            let error = call.told(error);
            let is_numbered = match requests {
                [] => false,
                [_] => !is_told_as_alone(error.code()),
                _ => true,
            };
            let error = if is_numbered { error.in_batch(index) } else { error };
            let error_answer = if inserts { Answer::creation_error } else { Answer::error };
            let answer = error_answer(&error, format.as_deref(), headers, call.common);
            Ok(failed(content_id, &answer))
        }
    }
}

/// What the service tells of the only operation as if it were in no batch, without its number: that its entity is
/// missing, is there or has changed, or that a value or key is too long.
fn is_told_as_alone(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ResourceNotFound
            | ErrorCode::EntityAlreadyExists
            | ErrorCode::UpdateConditionNotSatisfied
            | ErrorCode::PropertyValueTooLarge
    )
}

fn is_for_all(error: &ServiceError) -> bool {
    let code = error.code();
    let status = code.status();
    status == StatusCode::PAYLOAD_TOO_LARGE
        || status.is_server_error() && code != ErrorCode::NotImplemented
}

/// A change set that could be read.
struct Read<'r> {
    /// That of the first operation.
    table: Arc<TableState>,
    /// Those up to the first that is for another partition or table.
    operations: Vec<Operation<'r>>,
    after: After,
}

/// Reads all operations before any is tried: what is wrong with the first that cannot be read is told,
/// whatever is stored.
fn read<'r>(call: &Call<'r>, requests: &'r [SubRequest<'r>]) -> Result<Read<'r>, Failed> {
    let mut table = None;
    let mut operations: Vec<Operation<'_>> = Vec::with_capacity(requests.len());
    let mut after = After::Nothing;
    let mut known = Known::nothing(call);
    for (index, request) in requests.iter().enumerate() {
        let operation = match known.read(call, request, &mut table) {
            Ok(operation) => Some(operation),
            Err(error) if error.code() == OTHER_PARTITION.code() => None,
            Err(error) => return Err(Failed { error, index }),
        };
        let is_here = |operation: &Operation<'_>| {
            let first = operations.first().map(|first| first.write.partition_key());
            first.is_none_or(|first| first == operation.write.partition_key())
        };
        match operation.filter(is_here) {
            Some(operation) if after == After::Nothing => operations.push(operation),
            Some(_) => {}
            None => after = After::Elsewhere,
        }
    }
    let nothing = || Failed { error: ErrorCode::InvalidInput.because(NOT_PROCESSED), index: 0 };
    Ok(Read { table: table.ok_or_else(nothing)?, operations, after })
}

/// Does them, and answers.
async fn commit(
    service: &TableService,
    call: &Call<'_>,
    requests: &[SubRequest<'_>],
    held: Held,
    share: &mut Share,
) -> Result<BatchWriter, Failed> {
    let decode = || {
        let read = read(call, requests)?;
        // What is done must be answered, so the answer has its share before.
        let answer_bytes = answer_bytes(call, requests, &read.operations);
        let bytes = answer_bytes.max(held.bytes) + own_bytes(&read.operations);
        Ok::<_, Failed>(((read, answer_bytes), bytes))
    };
    let (read, answer_bytes) = service.decoded(share, held.work, decode).await?;
    let Read { table, operations, after } = read;
    let partition_key = operations.first().map_or("", |first| first.write.partition_key());
    let writes = operations.iter().map(|operation| &operation.write);
    let version = service.apply(&table, partition_key, writes, after, held.work).await?;
    let answered = || {
        let done = Done::new(call, &table, partition_key, version);
        answers(done, requests, &operations)
    };
    let writer = service.waits.done(held.work, answered).await?;
    debug_assert!(writer.len() <= answer_bytes, "{answer_bytes}");
    Ok(writer)
}

/// The answers to operations that were done.
fn answers(
    done: Done<'_>,
    requests: &[SubRequest<'_>],
    operations: &[Operation<'_>],
) -> Result<BatchWriter, Failed> {
    let mut answers = Answers { writer: writer(), done, known: None };
    for (index, (request, operation)) in requests.iter().zip(operations).enumerate() {
        let before = answers.writer.len();
        let pushed = answers.push(operation, request.content_id.as_deref());
        pushed.map_err(|error| Failed { error, index })?;
        if index == 0 {
            // The others are about as long, with some room for longer keys.
            let part = answers.writer.len() - before + ROOM;
            answers.writer.reserve(part.min(MOST_ROOM) * operations.len());
        }
    }
    Ok(answers.writer)
}

/// How many bytes operations take besides what they borrow of the body.
fn own_bytes(operations: &[Operation<'_>]) -> usize {
    let writes = operations.iter().map(|operation| operation.write.own_bytes());
    size_of_val(operations) + writes.sum::<usize>()
}

/// How many bytes the answer has at most, if all is done, but for its last lines.
fn answer_bytes(
    call: &Call<'_>,
    requests: &[SubRequest<'_>],
    operations: &[Operation<'_>],
) -> usize {
    let base = call.base().len();
    let part = |(request, operation): (&SubRequest<'_>, &Operation<'_>)| {
        let Operation { write, echo, .. } = operation;
        let id = request.content_id.as_ref().map_or(0, |id| id.len());
        id + write.answer_bytes(*echo, request.body.len(), base)
    };
    requests.iter().zip(operations).map(part).sum()
}

/// The answers to the operations of a change set that was done.
struct Answers<'a> {
    writer: BatchWriter,
    done: Done<'a>,
    /// An answer that others are like but for where the entity is, the version that it states, and its part.
    known: Option<(Likeness, ODataVersion, Pieces)>,
}

impl Answers<'_> {
    /// Adds the answer to an operation.
    fn push(
        &mut self,
        Operation { write, echo, odata }: &Operation<'_>,
        content_id: Option<&str>,
    ) -> Result<(), ServiceError> {
        let Self { writer, done, known } = self;
        let likeness = write.likeness(*echo).filter(|_| content_id.is_none());
        if let Some((of_known, odata_of_known, pieces)) = known
            && likeness == Some(*of_known)
            && odata == odata_of_known
            && let Some(location) = done.location(write)
        {
            writer.repeat(pieces, location);
            return Ok(());
        }
        let start = writer.len();
        write.answer(done, *echo, &mut Part { writer, content_id, odata: *odata })?;
        if let (Some(likeness), Some(location)) = (likeness, done.location(write)) {
            *known = Some((likeness, *odata, writer.pieces(start, location)));
        }
        Ok(())
    }
}

/// Says an answer as a part of the batch's.
struct Part<'a> {
    writer: &'a mut BatchWriter,
    content_id: Option<&'a str>,
    odata: ODataVersion,
}

impl Say for Part<'_> {
    fn status(&mut self, status: StatusCode) {
        self.writer.begin(status, self.content_id);
        for (name, value) in COMMON.into_iter().chain([self.odata.header()]) {
            self.writer.header(name, value);
        }
    }

    fn header(&mut self, name: &HeaderName, value: &str) {
        self.writer.header(spelling(name), value);
    }

    fn end(&mut self, body: Vec<u8>) {
        self.writer.end(&body);
    }
}

fn writer() -> BatchWriter {
    BatchWriter::change_set(Uuid::new_v4(), Uuid::new_v4())
}

/// The answer to a change set of which nothing was done: that of the operation with this identifier.
fn failed(content_id: Option<&str>, answer: &Answer) -> Outcome {
    let mut writer = writer();
    push(&mut writer, content_id, answer);
    Outcome { writer, error: answer.error }
}

/// Adds an answer as a part.
fn push(writer: &mut BatchWriter, content_id: Option<&str>, answer: &Answer) {
    let mut part = Part { writer, content_id, odata: ODataVersion::of_answer(answer) };
    part.status(answer.status);
    for (name, value) in &answer.headers {
        if let Ok(value) = value.to_str() {
            part.header(name, value);
        }
    }
    part.writer.end(answer.body.bytes());
}

/// A header's name as clients look for it: some do so in one case alone.
fn spelling(name: &HeaderName) -> &str {
    match name.as_str() {
        "etag" => "ETag",
        "location" => "Location",
        "content-type" => "Content-Type",
        "dataserviceid" => "DataServiceId",
        "preference-applied" => "Preference-Applied",
        other => other,
    }
}
