//! Operations on tables, and on their access policies.

use std::sync::Arc;

use bytes::Bytes;
use http::{StatusCode, header};
use hyper::body::Body;

use super::TableService;
use super::answer::{Answer, Shape};
use super::call::Call;
use super::keys::check_table_name;
use super::properties;
use crate::address::wrong_keys;
use crate::auth::Operation;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{BodyFormat, Preference, names, request_format};
use crate::wire::instant::now;
use crate::wire::xml::{check_acl, parse_acl, print_acl};
use crate::wire::{Context, atom, json};

/// The answer to Get Table.
pub(super) fn get(call: &Call<'_>, table: &str) -> Result<Answer, ServiceError> {
    call.allow(Operation::QueryTables, None)?;
    let format = call.format()?;
    let table = call.account.table(table).ok_or(ErrorCode::ResourceNotFound)?;
    Ok(single(call, StatusCode::OK, format, &table.name))
}

/// What is wrong with a request for `Tables` of a table: by these codes SDKs know that they have a table's address
/// for the account's.
pub(super) fn not_of_table(call: &Call<'_>, table: &str, is_named: bool) -> ServiceError {
    let allowed = call.allow(Operation::QueryEntities, Some(table));
    match allowed.and_then(|()| call.table(table)) {
        Err(error) => error,
        Ok(table) if is_named => wrong_keys(call.account.name(), &table.name),
        Ok(_) => ErrorCode::NotImplemented.error(),
    }
}

/// The answer to Get Table ACL.
pub(super) fn get_acl(call: &Call<'_>, table: &str) -> Result<Answer, ServiceError> {
    call.allow(Operation::GetTableAcl, Some(table))?;
    let policies = call.table(table)?.policies.load_full();
    Ok(Answer::xml(StatusCode::OK, print_acl(&policies)))
}

/// A table as a body.
fn single(call: &Call<'_>, status: StatusCode, format: BodyFormat, name: &str) -> Answer {
    let base = call.base();
    let context = Context { base: &base, account: call.account.name(), table: "Tables" };
    let body = match format {
        BodyFormat::Json(metadata) => json::print_table(context, metadata, name),
        BodyFormat::Atom => atom::print_table(context, now(), name),
    };
    Answer::formatted(status, format, Shape::Single, body.into())
}

impl TableService {
    /// Create Table.
    pub(super) async fn create_table(
        &self,
        call: &Call<'_>,
        body: impl Body<Data = Bytes>,
    ) -> Result<Answer, ServiceError> {
        call.allow(Operation::CreateTable, None)?;
        let (body, _share) = self.body(call, body).await?;
        let preference = Preference::of(&call.head.headers);
        let format = match preference {
            Preference::NoContent => None,
            _ => Some(call.format()?),
        };
        let name = match request_format(&call.head.headers, call.version)? {
            BodyFormat::Json(_) => json::decode_table_name(&body)?,
            BodyFormat::Atom => atom::parse_table_name(&body)?,
        };
        let name = name.ok_or(ErrorCode::PropertiesNeedValue)?;
        check_table_name(&name)?;
        let (catalog, account) = (Arc::clone(&self.catalog), call.account.change().await?);
        let table = to_the_end(async move { catalog.create(&account, &name).await }).await?;
        let location = format!("{}/Tables('{}')", call.base(), table.name);
        let answer = match format {
            Some(format) => single(call, StatusCode::CREATED, format, &table.name),
            None => {
                Answer::empty(StatusCode::NO_CONTENT).with_text(names::DATA_SERVICE_ID, &location)
            }
        };
        Ok(answer.with_text(header::LOCATION, &location).with_preference(preference))
    }

    /// Delete Table.
    pub(super) async fn delete_table(
        &self,
        call: &Call<'_>,
        table: &str,
    ) -> Result<Answer, ServiceError> {
        call.allow(Operation::DeleteTable, None)?;
        let (catalog, account) = (Arc::clone(&self.catalog), call.account.change().await?);
        let table = table.to_owned();
        to_the_end(async move { catalog.delete(&account, &table).await }).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    /// Set Table ACL.
    pub(super) async fn set_acl(
        &self,
        call: &Call<'_>,
        table: &str,
        body: impl Body<Data = Bytes>,
    ) -> Result<Answer, ServiceError> {
        call.allow(Operation::SetTableAcl, Some(table))?;
        let table = call.table(table)?;
        let (body, _share) = self.body(call, body).await?;
        let policies = parse_acl(&body)?;
        check_acl(&policies)?;
        let (catalog, account) = (Arc::clone(&self.catalog), call.account.change().await?);
        to_the_end(async move { catalog.set_policies(&account, &table, policies).await }).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    /// Set Table Service Properties.
    pub(super) async fn set_properties(
        &self,
        call: &Call<'_>,
        body: impl Body<Data = Bytes>,
    ) -> Result<Answer, ServiceError> {
        properties::check_restype(&call.query)?;
        call.allow(Operation::SetServiceProperties, None)?;
        let (body, _share) = self.body(call, body).await?;
        let update = crate::wire::xml::parse_properties(&body)?;
        update.check()?;
        let (catalog, account) = (Arc::clone(&self.catalog), call.account.change().await?);
        let change = async move {
            catalog.set_properties(&account, |properties| properties.apply(update)).await
        };
        to_the_end(change).await?;
        Ok(Answer::empty(StatusCode::ACCEPTED))
    }
}

/// Runs a change of the catalog that has begun to its end, even if the client goes away: memory and
/// database are to change together.
async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::spawn(change).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a change of the catalog broke off");
        Err(ErrorCode::InternalError.error())
    })
}
