//! Operations on single entities.

use http::StatusCode;
use tablestone::{DateTime, EntityRef, RowError, Version};

use super::answer::{Answer, Shape};
use super::call::Call;
use super::write::{Echo, Write};
use super::{failure, keys};
use crate::address::Parameter;
use crate::auth::Operation;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{BodyFormat, Preference, Verb, if_match, request_format};
use crate::wire::atom::AtomPrinter;
use crate::wire::json::EntityPrinter;
use crate::wire::{Context, Select};

/// Room for an entity of usual size.
const BODY_BYTES: usize = 1024;

/// The answer to Query Entities for one entity.
pub(super) fn get(
    call: &Call<'_>,
    table: &str,
    partition_key: &str,
    row_key: &str,
) -> Result<Answer, ServiceError> {
    call.allow(Operation::QueryEntities, Some(table))?;
    keys::check(partition_key, row_key)?;
    call.grant.allow_entity(partition_key, row_key)?;
    let format = call.format()?;
    let table = call.table(table)?;
    let base = call.base();
    let context = Context { base: &base, account: call.account.name(), table: &table.name };
    let select = Select::parse(call.query.get(Parameter::Select).unwrap_or_default())?;
    let print = |entity: EntityRef<'_>| -> Result<(Version, Vec<u8>), RowError> {
        let mut body = Vec::with_capacity(BODY_BYTES);
        match format {
            BodyFormat::Json(metadata) => {
                EntityPrinter::new(context, metadata, &select).single(&mut body, &entity)?;
            }
            BodyFormat::Atom => {
                let updated = DateTime::from(entity.version());
                AtomPrinter::new(context, updated, &select).single(&mut body, &entity)?;
            }
        }
        Ok((entity.version(), body))
    };
    let found = table.entities.read(partition_key, row_key, print);
    let found = found.map_err(|error| failure::of(&error))?;
    let (version, body) = found.ok_or(ErrorCode::ResourceNotFound)?;
    Ok(Answer::formatted(StatusCode::OK, format, Shape::Single, body.into()).with_etag(version))
}

/// Does a write of one entity.
pub(super) async fn write(call: &Call<'_>, body: &[u8]) -> Result<Answer, ServiceError> {
    let headers = &call.head.headers;
    let if_match = if_match(headers)?;
    let parse = || Write::body(request_format(headers, call.version)?, body);
    let (table, write) = Write::parse(call.verb, &call.address.resource, if_match, parse)?;
    write.allow(call, table)?;
    let echo = match call.verb {
        Verb::Post => Echo::new(Preference::of(headers), || call.format())?,
        _ => Echo::none(),
    };
    let table = call.table(table)?;
    let version = write.run(&table).await?;
    write.answer(call, &table, echo, version)
}
