//! Operations on single entities.

use bytes::Bytes;
use http::StatusCode;
use hyper::body::Body;

use super::TableService;
use super::answer::{Answer, Shape};
use super::apply::After;
use super::call::Call;
use super::keys;
use super::print::Print;
use super::waits::Work;
use super::write::{Done, Echo, Order, Write};
use crate::address::Parameter;
use crate::auth::Operation;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{Preference, Verb, if_match, request_format};
use crate::wire::json::decode_entity;

impl TableService {
    /// Query Entities for one entity.
    pub(super) async fn get_entity(
        &self,
        call: &Call<'_>,
        table: &str,
        partition_key: &str,
        row_key: &str,
    ) -> Result<Answer, ServiceError> {
        call.allow(Operation::QueryEntities, Some(table))?;
        let print = Print::new(call, table)?;
        keys::check_sought(partition_key, row_key)?;
        if !call.grant.contains(partition_key, row_key) {
            return Err(ErrorCode::ResourceNotFound.error());
        }
        let format = print.format;
        let filter = call.query.given(Parameter::Filter);
        let found = match self.waits.at_once(|| print.entity(partition_key, row_key, filter)) {
            Some(found) => found?,
            None => {
                let keys = (partition_key.to_owned(), row_key.to_owned());
                let filter = filter.map(str::to_owned);
                let read = move || print.entity(&keys.0, &keys.1, filter.as_deref());
                self.waits.handed_over(read).await?
            }
        };
        let (version, body) = found.ok_or(ErrorCode::ResourceNotFound.error())?;
        let body = self.answer_body(body)?;
        Ok(Answer::formatted(StatusCode::OK, format, Shape::Single, body).with_etag(version))
    }

    /// Does a write of one entity.
    pub(super) async fn write_entity(
        &self,
        call: &Call<'_>,
        body: impl Body<Data = Bytes>,
    ) -> Result<Answer, ServiceError> {
        let headers = &call.head.headers;
        let if_match = if_match(headers, call.verb)?;
        let order = Order::of(call.verb, &call.address.resource, if_match)?;
        call.allow(order.operation(), Some(order.table))?;
        let table = call.table(order.table)?;
        let (body, mut share) = self.body(call, body).await?;
        let decode = || {
            let read = || Write::body(request_format(headers, call.version)?, &body, decode_entity);
            let write = order.with_body(call, read)?;
            let echo = match call.verb {
                Verb::Post => Echo::new(Preference::of(headers), || call.format())?,
                Verb::Put | Verb::Merge => Echo::of_update(Preference::of(headers)),
                _ => Echo::none(),
            };
            // What is done must be answered, so the answer has its share before.
            let answer_bytes = write.answer_bytes(echo, body.len(), Call::MAX_BASE_BYTES);
            let bytes = answer_bytes.max(body.len()) + write.own_bytes();
            Ok::<_, ServiceError>(((write, echo, answer_bytes), bytes))
        };
        let work = Work::of(body.len());
        let (write, echo, answer_bytes) = self.decoded(&mut share, work, decode).await?;
        let (partition_key, writes) = (write.partition_key(), std::iter::once(&write));
        let applied = self.apply(&table, partition_key, writes, After::Nothing, work).await;
        let version = applied.map_err(|failed| failed.error)?;
        let answered = || {
            let mut answer = Answer::empty(StatusCode::NO_CONTENT);
            let mut done = Done::new(call, &table, write.partition_key(), version);
            write.answer(&mut done, echo, &mut answer)?;
            Ok::<_, ServiceError>(answer)
        };
        let answer = self.waits.done(work, answered).await?;
        debug_assert!(answer.body.bytes().len() <= answer_bytes, "{answer_bytes}");
        share.shrink(answer.body.bytes().len());
        Ok(Answer { body: answer.body.with_share(share), ..answer })
    }
}
