//! Query Entities and Query Tables, a page at a time.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use tablestone::{Continuation, EntityPage, EntityQuery, EntityRef, Filter, StopReason};

use super::answer::{Answer, Shape};
use super::call::Call;
use super::catalog::{self, TableState};
use super::print::{Print, PrintedPage};
use super::waits::QUICK;
use super::{Limits, TableService, failure};
use crate::address::Parameter;
use crate::auth::{KeyRange, Operation};
use crate::body::AnswerBody;
use crate::error::{ErrorCode, ServiceError, shown};
use crate::headers::{BodyFormat, names};
use crate::wire::instant::now;
use crate::wire::{Context, atom, continuation, json};

/// Room for a page's body, if the page may be short and if not: 1,000 entities of a few properties.
const SHORT_BYTES: usize = 16 << 10;
const LONG_BYTES: usize = 384 << 10;

/// How far a query goes on the runtime's thread. If that is not to the end of the page, what it has found is thrown
/// away, and another thread reads the page.
#[derive(Clone, Copy)]
struct Try {
    /// Entries that it looks at, and stored bytes of what it finds.
    entries: u64,
    stored: usize,
}

impl Try {
    /// About what handing it over costs.
    const SHORT: Self = Self { entries: 128, stored: 64 << 10 };
    /// A usual page, for a request that keeps no other waiting.
    const PAGE: Self = Self { entries: 1_200, stored: 512 << 10 };

    fn of(self, query: EntityQuery) -> EntityQuery {
        query.examine_at_most(self.entries).byte_limit(self.stored).time_limit(QUICK)
    }
}

/// What a request asks for, of what its signature allows. A filter is held as text, of which it takes
/// many times as much memory once it is parsed: so much only those have whose reads have begun.
struct Wanted<'a> {
    filter: Option<Cow<'a, str>>,
    range: Option<Cow<'a, KeyRange>>,
    top: Option<usize>,
    next: Option<Continuation>,
    time: Duration,
}

impl<'a> Wanted<'a> {
    fn new(call: &'a Call<'_>, time: Duration) -> Result<Self, ServiceError> {
        let filter = call.query.given(Parameter::Filter).map(Cow::Borrowed);
        let range = call.grant.range().map(Cow::Borrowed);
        Ok(Self { filter, range, top: top(call)?, next: next(call)?, time })
    }

    fn into_owned(self) -> Wanted<'static> {
        let Self { filter, range, top, next, time } = self;
        let filter = filter.map(|filter| Cow::Owned(filter.into_owned()));
        let range = range.map(|range| Cow::Owned(range.into_owned()));
        Wanted { filter, range, top, next, time }
    }

    /// The query of a table; `None` if nothing is wanted of it, though its filter is read.
    fn query(&self, table: &TableState) -> Result<Option<EntityQuery>, ServiceError> {
        let mut query = table.entities.query().time_limit(self.time);
        if let Some(filter) = &self.filter {
            query = query.filter(parsed(filter)?);
        }
        if let Some(range) = &self.range {
            query = query.filter(within(range));
        }
        if let Some(top) = self.top {
            query = query.limit(top);
        }
        if let Some(next) = &self.next {
            query = query.continue_from(next.clone());
        }
        Ok((self.top != Some(0)).then_some(query))
    }
}

impl TableService {
    /// Query Entities.
    pub(super) async fn query_entities(
        &self,
        call: &Call<'_>,
        table: &str,
    ) -> Result<Answer, ServiceError> {
        call.allow(Operation::QueryEntities, Some(table))?;
        let print = Print::new(call, table)?;
        let wanted = Wanted::new(call, self.limits.query_time)?;
        let format = print.format;
        let may_be_short = may_be_short(call, wanted.top);
        let room = if may_be_short { SHORT_BYTES } else { LONG_BYTES };
        let at_once = |limits: Try| {
            let page = || {
                let query = wanted.query(&print.table)?;
                print.page(query.map(|query| limits.of(query)), room)
            };
            self.waits.at_once(page)
        };
        let tried = match (self.waits.is_alone(), may_be_short) {
            (true, _) => at_once(Try::PAGE),
            (false, true) => at_once(Try::SHORT),
            (false, false) => None,
        };
        let page = match tried.transpose()? {
            Some(page) if is_whole(page.stop) => page,
            _ => {
                let wanted = wanted.into_owned();
                let read = move || print.page(wanted.query(&print.table)?, LONG_BYTES);
                self.waits.handed_over(read).await?
            }
        };
        self.page(format, page)
    }

    /// What was found, with the share of the budget that it takes.
    pub(super) fn answer_body(&self, body: Vec<u8>) -> Result<AnswerBody, ServiceError> {
        let share = self.budget.take(body.len())?;
        Ok(AnswerBody::sharing(body.into(), share))
    }

    fn page(&self, format: BodyFormat, page: PrintedPage) -> Result<Answer, ServiceError> {
        let body = self.answer_body(page.body)?;
        let mut answer = Answer::formatted(StatusCode::OK, format, Shape::List, body);
        if let Some(next) = page.next {
            answer = with_key(answer, names::NEXT_PARTITION_KEY, next.partition_key());
            answer = with_key(answer, names::NEXT_ROW_KEY, next.row_key());
        }
        Ok(answer)
    }

    /// Query Tables.
    pub(super) async fn query_tables(&self, call: &Call<'_>) -> Result<Answer, ServiceError> {
        call.allow(Operation::QueryTables, None)?;
        let format = call.format()?;
        let top = top(call)?;
        let next = call.query.given(Parameter::NextTableName).map(continuation::decode);
        let query = self.catalog.tables(call.account.name(), next.transpose()?.as_deref());
        let mut query = query.map_err(|error| failure::of(&error))?;
        query = query.time_limit(self.limits.query_time);
        let filter = call.query.given(Parameter::Filter).map(str::to_owned);
        if let Some(top) = top {
            query = query.limit(top);
        }
        let (base, account) = (call.base(), call.account.clone());
        let read = move || {
            let query = match &filter {
                Some(text) => query.filter(tables_filter(text)?),
                None => query,
            };
            let context = Context { base: &base, account: account.name(), table: "Tables" };
            let page = match top {
                Some(0) => None,
                _ => Some(query.page().map_err(|error| failure::of(&error))?),
            };
            let names = page.iter().flat_map(EntityPage::iter).filter_map(|row| table_name(&row));
            // Of a table whose data is lost there is a row, which makes it none.
            let names = names.filter(|name| account.table(name).is_some());
            let body = match format {
                BodyFormat::Json(metadata) => json::print_tables(context, metadata, names),
                BodyFormat::Atom => atom::print_tables(context, now(), names),
            };
            Ok((body, page.and_then(|page| page.continuation().cloned())))
        };
        let (body, next) = self.waits.handed_over(read).await?;
        let body = self.answer_body(body)?;
        let answer = Answer::formatted(StatusCode::OK, format, Shape::List, body);
        Ok(match next.as_ref().and_then(catalog::next_table) {
            Some(next) => with_key(answer, names::NEXT_TABLE_NAME, next),
            None => answer,
        })
    }
}

/// Whether a query may be over soon: it wants few entities, or not of all.
fn may_be_short(call: &Call<'_>, top: Option<usize>) -> bool {
    top.is_some_and(|top| (top as u64) < Try::SHORT.entries)
        || call.query.given(Parameter::Filter).is_some()
        || call.grant.range().is_some()
}

/// Whether a page that was tried is all that the query would have given.
fn is_whole(stop: StopReason) -> bool {
    !matches!(stop, StopReason::Examined | StopReason::Bytes | StopReason::Deadline)
}

/// The items that a page may have; `None` if that is not said.
fn top(call: &Call<'_>) -> Result<Option<usize>, ServiceError> {
    let Some(top) = call.query.given(Parameter::Top) else {
        return Ok(None);
    };
    let most = call.limits.page_entities;
    match top.trim().parse() {
        Ok(top) if top <= most => Ok(Some(top)),
        // The service has no text of its own for it, but no other limit either.
        _ if most == Limits::default().page_entities => Err(ErrorCode::InvalidInput.error()),
        _ => Err(ErrorCode::InvalidInput
            .because(format_args!("$top must be a number from 0 to {most}."))),
    }
}

/// Where a page begins, if the request goes on with a query.
fn next(call: &Call<'_>) -> Result<Option<Continuation>, ServiceError> {
    let next = |parameter| call.query.given(parameter).map(continuation::decode).transpose();
    match (next(Parameter::NextPartitionKey)?, next(Parameter::NextRowKey)?) {
        (None, None) => Ok(None),
        (Some(partition_key), row_key) => {
            Ok(Some(Continuation::new(partition_key, row_key.unwrap_or_default())))
        }
        (None, Some(_)) => {
            Err(ErrorCode::InvalidInput
                .because("NextRowKey says nothing without NextPartitionKey."))
        }
    }
}

/// What a `$filter` says.
pub(super) fn parsed(text: &str) -> Result<Filter, ServiceError> {
    Filter::parse(text).map_err(|error| failure::of_filter(&error, text))
}

/// What a `$filter` of tables says of the catalog's rows.
fn tables_filter(text: &str) -> Result<Filter, ServiceError> {
    let filter = parsed(text)?;
    // Rows of the catalog have more, which is nobody's business.
    if let Some(other) = filter.properties().find(|name| *name != catalog::NAME) {
        return Err(ErrorCode::InvalidInput.because(format_args!(
            "Tables have no property but TableName, found {}.",
            shown(other)
        )));
    }
    Ok(catalog::of_rows(filter))
}

/// The entities that a signature is limited to.
fn within(range: &KeyRange) -> Filter {
    let (partition, row) = (Filter::partition_key, Filter::row_key);
    let start = range.start.as_ref().map(|(start, start_row)| {
        let first = partition().eq(&**start);
        let first = match start_row {
            Some(start_row) => first.and(row().ge(&**start_row)),
            None => first,
        };
        partition().gt(&**start).or(first)
    });
    let end = range.end.as_ref().map(|(end, end_row)| {
        let last = partition().eq(&**end);
        let last = match end_row {
            Some(end_row) => last.and(row().le(&**end_row)),
            None => last,
        };
        partition().lt(&**end).or(last)
    });
    start.into_iter().chain(end).reduce(Filter::and).unwrap_or_default()
}

fn table_name<'a>(row: &EntityRef<'a>) -> Option<&'a str> {
    row.get_as(catalog::NAME).ok().flatten()
}

/// The answer with a continuation's key, in a form that is never empty.
fn with_key(answer: Answer, name: HeaderName, key: &[u8]) -> Answer {
    answer.with_text(name, &continuation::encode(&String::from_utf8_lossy(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S08: the condition on entities is the range.
    #[test]
    fn r_s08_a_signatures_range_is_a_condition_on_keys() {
        let end = |partition: &str, row: Option<&str>| {
            Some((partition.to_owned(), row.map(str::to_owned)))
        };
        let text = |start, end| within(&KeyRange { start, end }).to_string();
        let expected = "(PartitionKey gt 'b' or PartitionKey eq 'b' and RowKey ge '2') and \
            (PartitionKey lt 'c' or PartitionKey eq 'c' and RowKey le '1')";
        assert_eq!(text(end("b", Some("2")), end("c", Some("1"))), expected);
        let expected = "PartitionKey gt '' or PartitionKey eq ''";
        assert_eq!(text(end("", None), None), expected);
        assert_eq!(text(None, None), Filter::everything().to_string());
    }
}
