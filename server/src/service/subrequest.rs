//! Requests within a batch: what they are about, and the operations of a change set.
//!
//! Invariant: the body of an operation is not read before the operation is allowed and its table was found. A request
//! asks for nothing else within a batch than outside of one.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};

use super::call::Call;
use super::catalog::TableState;
use super::no_operation;
use super::odata::ODataVersion;
use super::properties::check_restype;
use super::write::{Echo, Order, Write};
use crate::address::{Address, Parameter, Place, QueryString, Resource};
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{
    BodyFormat, Preference, Verb, error_format, host, if_match, names, request_format,
    response_format,
};
use crate::wire::batch::{Headers, SubRequest};
use crate::wire::json::EntityDecoder;

/// Headers of a request within a batch that mean something.
static MEANT: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    names::HTTP_METHOD,
    names::PREFER,
];

/// What a change set can have.
const ONLY_WRITES: &str = "In a change set a batch can have writes of entities.";

/// The error of an operation on another table or partition than the first.
pub(super) const OTHER_PARTITION: ServiceError =
    ErrorCode::CommandsInBatchActOnDifferentPartitions.error();

/// One operation of a change set.
pub(super) struct Operation<'r> {
    pub(super) write: Write<'r>,
    pub(super) echo: Echo,
    pub(super) odata: ODataVersion,
}

/// What the operation before said besides its body. SDKs send the same with each, so it mostly holds for the next too.
pub(super) struct Known<'r> {
    /// The headers as they were sent, and those that mean something.
    sent: Headers<'r>,
    headers: HeaderMap,
    conditional: bool,
    preference: Preference,
    /// What they make of a method, if that was asked.
    verb: Option<(&'r str, Verb)>,
    /// What they said of a body and, with the query string, of the answer, if that was asked and could be
    /// understood.
    format: Option<BodyFormat>,
    echo: Option<(Echo, ODataVersion)>,
    target: &'r str,
    resource: Resource,
    /// One by which operations are nothing else.
    query: QueryString<'r>,
    decoder: EntityDecoder<'r>,
}

impl<'r> Known<'r> {
    /// Before the first operation.
    pub(super) fn nothing(call: &Call<'_>) -> Self {
        Self {
            sent: Headers::default(),
            headers: headers(call, &[]),
            conditional: false,
            preference: Preference::Unspecified,
            verb: None,
            format: None,
            echo: None,
            // None of an operation is empty.
            target: "",
            resource: Resource::Service,
            query: QueryString::default(),
            decoder: EntityDecoder::default(),
        }
    }

    /// Reads an operation that is admitted.
    pub(super) fn read(
        &mut self,
        call: &Call<'r>,
        request: &'r SubRequest<'r>,
        table: &mut Option<Arc<TableState>>,
    ) -> Result<Operation<'r>, ServiceError> {
        if !Arc::ptr_eq(&self.sent, &request.headers) {
            self.headers = headers(call, &request.headers);
            self.sent = Arc::clone(&request.headers);
            self.conditional = [header::IF_MATCH, header::IF_NONE_MATCH]
                .iter()
                .any(|condition| self.headers.contains_key(condition));
            self.preference = Preference::of(&self.headers);
            (self.verb, self.format, self.echo) = (None, None, None);
        }
        let verb = match self.verb {
            Some((method, verb)) if method == request.method => verb,
            _ => self.verb.insert((request.method, verb(request, &self.headers)?)).1,
        };
        if self.target != request.target {
            let (address, query) = locate(call, request)?;
            let query = QueryString::parse(query)?;
            if self.query != query {
                check_query(&query, &address.resource, verb, ONLY_WRITES)?;
                (self.query, self.echo) = (query, None);
            }
            (self.target, self.resource) = (request.target, address.resource);
        }
        let Self { headers, preference, format, echo, resource, query, decoder, .. } = self;
        let if_match = if self.conditional { if_match(headers, verb)? } else { None };
        let order = Order::of(verb, resource, if_match)?;
        admit(call, &order, table)?;
        let write = order.with_body(call, || {
            let known = format.map_or_else(|| request_format(headers, call.version), Ok)?;
            Write::body(*format.insert(known), request.body, |body| decoder.decode(body))
        })?;
        let stated = || query.given(Parameter::Format);
        let otherwise = || error_format(stated(), headers, call.version);
        let (echo, odata) = match (verb, *echo) {
            (Verb::Post, Some(known)) => known,
            (Verb::Post, None) => {
                let format = || response_format(stated(), headers, call.version);
                let new = Echo::new(*preference, format)?;
                let form = new.format().unwrap_or_else(otherwise);
                *echo.insert((new, ODataVersion::of(form)))
            }
            (Verb::Put | Verb::Merge, _) if *preference == Preference::NoContent => {
                (Echo::of_update(*preference), ODataVersion::of(otherwise()))
            }
            _ => (Echo::none(), ODataVersion::V1),
        };
        Ok(Operation { write, echo, odata })
    }
}

pub(super) fn verb(request: &SubRequest<'_>, headers: &HeaderMap) -> Result<Verb, ServiceError> {
    let method = Method::from_bytes(request.method.as_bytes());
    Verb::within_batch(&method.map_err(|_| ErrorCode::UnsupportedHttpVerb)?, headers)
}

/// The form that the answer to a request within the batch is to have, as its address says it.
pub(super) fn stated_format<'r>(request: &SubRequest<'r>) -> Option<Cow<'r, str>> {
    let (_, query) = request.target.split_once('?')?;
    QueryString::find(query, Parameter::Format)
}

/// The headers of a request within the batch that mean something; what it is to accept is said
/// for all by the batch unless it says so itself.
pub(super) fn headers(call: &Call<'_>, given: &[(&str, Cow<'_, str>)]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(2 * MEANT.len());
    for (name, value) in given {
        let meant = MEANT.iter().find(|meant| name.eq_ignore_ascii_case(meant.as_str()));
        if let (Some(name), Ok(value)) = (meant, HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    }
    if !headers.contains_key(header::ACCEPT)
        && let Some(accept) = call.head.headers.get(header::ACCEPT)
    {
        headers.insert(header::ACCEPT, accept.clone());
    }
    headers
}

/// The head of a request of its own.
pub(super) fn head(call: &Call<'_>, headers: HeaderMap) -> Parts {
    let (mut head, ()) = Request::new(()).into_parts();
    head.uri = call.head.uri.clone();
    head.headers = headers;
    if let Some(host) = call.head.headers.get(header::HOST) {
        head.headers.insert(header::HOST, host.clone());
    }
    head
}

/// What a request within the batch is about, and its query string.
pub(super) fn locate<'r>(
    call: &Call<'r>,
    request: &'r SubRequest<'r>,
) -> Result<(Address<'r>, &'r str), ServiceError> {
    let target = request.target;
    let (target, query) = target.split_once('?').unwrap_or((target, ""));
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let start = target.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| target.get(scheme.len()..))?
    });
    let outer = host(&call.head.uri, &call.head.headers);
    let is_account = |name: &str| name == call.address.account;
    let names_account = |path| {
        Place::of(outer, path, is_account).is_ok_and(|place| place.account == call.address.account)
    };
    let (host, path) = match rest {
        Some(rest) => match rest.find('/') {
            Some(slash) => (rest.get(..slash), rest.get(slash..).unwrap_or_default()),
            None => (Some(rest), "/"),
        },
        None if target.starts_with('/') && names_account(target) => (outer, target),
        // Relative to the account: clients that know accounts in hosts only begin it with a slash.
        None => {
            let target = target.strip_prefix('/').unwrap_or(target);
            let resource = Resource::parse(&call.address.account, target)?;
            return Ok((Address { resource, ..call.address.clone() }, query));
        }
    };
    let address = Address::parse(host, path, is_account)?;
    let other_copy = address.secondary && !call.address.secondary;
    if address.account != call.address.account || other_copy {
        return Err(ErrorCode::InvalidInput.because("A batch is about one account."));
    }
    Ok((address, query))
}

/// Refuses a `timeout` or `comp` that would be refused outside of a batch, and a `comp` that asks for an operation on
/// something else than entities: the error of that says what there `can_be` instead.
pub(super) fn check_query(
    query: &QueryString<'_>,
    resource: &Resource,
    verb: Verb,
    can_be: &str,
) -> Result<(), ServiceError> {
    query.check_timeout()?;
    let Some(comp) = query.given(Parameter::Comp) else { return Ok(()) };
    if *resource == Resource::Service {
        check_restype(query)?;
    }
    Err(match (resource, verb, comp) {
        (Resource::Service, Verb::Get | Verb::Put, "properties")
        | (Resource::Service, Verb::Get, "stats")
        | (Resource::Entities { .. }, Verb::Get | Verb::Head | Verb::Put, "acl") => {
            ErrorCode::InvalidInput.because(can_be)
        }
        _ => no_operation(resource, Some(comp)).error(),
    })
}

/// Lets an operation be read on if it is allowed, and the table, which the first finds, is that of all.
fn admit(
    call: &Call<'_>,
    order: &Order<'_>,
    table: &mut Option<Arc<TableState>>,
) -> Result<(), ServiceError> {
    if table.as_ref().is_some_and(|first| !order.table.eq_ignore_ascii_case(&first.name)) {
        return Err(OTHER_PARTITION);
    }
    call.allow(order.operation(), Some(order.table))?;
    if table.is_none() {
        *table = Some(call.table(order.table)?);
    }
    Ok(())
}
