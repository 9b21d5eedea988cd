//! [`Print`]: stored entities read and printed in one go.
//!
//! Invariant: an entity is printed straight from where it is stored, without a copy in between.

use std::sync::Arc;

use tablestone::{
    Continuation, DateTime, EntityQuery, EntityRef, PageEnd, RowError, StopReason, Version,
};

use super::account::AccountState;
use super::call::Call;
use super::catalog::TableState;
use super::failure;
use super::query::parsed;
use crate::address::Parameter;
use crate::error::ServiceError;
use crate::headers::BodyFormat;
use crate::wire::atom::AtomPrinter;
use crate::wire::instant::now;
use crate::wire::json::{EntityPrinter, PagePrinter};
use crate::wire::{Context, EntitySource, Select};

/// Room for an entity of usual size.
const ENTITY_BYTES: usize = 1024;

/// How entities are printed; it owns what it needs, so that it can go to another thread.
pub(super) struct Print {
    pub(super) format: BodyFormat,
    pub(super) table: Arc<TableState>,
    base: String,
    account: Arc<AccountState>,
    select: Select,
}

/// A page as a body.
pub(super) struct PrintedPage {
    pub(super) body: Vec<u8>,
    pub(super) next: Option<Continuation>,
    pub(super) stop: StopReason,
}

impl Print {
    /// As a request wants the entities of a table to be printed.
    pub(super) fn new(call: &Call<'_>, table: &str) -> Result<Self, ServiceError> {
        let format = call.format()?;
        let table = call.table(table)?;
        let select = Select::parse(call.query.get(Parameter::Select).unwrap_or_default())?;
        Ok(Self { format, table, base: call.base(), account: Arc::clone(call.account), select })
    }

    /// One entity as a body, and its version; `None` if there is none, or none that the filter matches.
    pub(super) fn entity(
        &self,
        partition_key: &str,
        row_key: &str,
        filter: Option<&str>,
    ) -> Result<Option<(Version, Vec<u8>)>, ServiceError> {
        let print = |entity: EntityRef<'_>| {
            let body = single(self.format, self.context(), &self.select, &entity)?;
            Ok((entity.version(), body))
        };
        let entities = &self.table.entities;
        let found = match filter {
            None => entities.read(partition_key, row_key, print),
            Some(filter) => {
                let query = entities.query().partition(partition_key).rows(row_key..=row_key);
                let mut found = None;
                let keep = |entity: EntityRef<'_>| {
                    found = Some(print(entity)?);
                    Ok(())
                };
                query.filter(parsed(filter)?).visit(keep).map(|_| found)
            }
        };
        found.map_err(|error| failure::of(&error))
    }

    /// A page of a query; without one, a page of nothing. There is `room` for the body beforehand.
    pub(super) fn page(
        &self,
        query: Option<EntityQuery>,
        room: usize,
    ) -> Result<PrintedPage, ServiceError> {
        let mut body = Vec::with_capacity(room);
        let page = match self.format {
            BodyFormat::Json(metadata) => {
                let printer = EntityPrinter::new(self.context(), metadata, &self.select);
                printer.begin_page(&mut body);
                let mut entities = PagePrinter::new(printer);
                let page = visit(query, |entity| entities.entity(&mut body, &entity))?;
                printer.end_page(&mut body);
                page
            }
            BodyFormat::Atom => {
                let printer = AtomPrinter::new(self.context(), now(), &self.select);
                printer.begin_feed(&mut body);
                let page = visit(query, |entity| printer.feed_entity(&mut body, &entity))?;
                printer.end_feed(&mut body);
                page
            }
        };
        if body.capacity() / 2 > body.len() {
            body.shrink_to_fit();
        }
        let stop = page.as_ref().map_or(StopReason::Top, PageEnd::stop_reason);
        Ok(PrintedPage { body, next: page.and_then(|page| page.continuation().cloned()), stop })
    }

    fn context(&self) -> Context<'_> {
        Context { base: &self.base, account: self.account.name(), table: &self.table.name }
    }
}

/// An entity as the whole of a body.
pub(super) fn single(
    format: BodyFormat,
    context: Context<'_>,
    select: &Select,
    entity: &impl EntitySource,
) -> Result<Vec<u8>, RowError> {
    let mut body = Vec::with_capacity(ENTITY_BYTES);
    match format {
        BodyFormat::Json(metadata) => {
            EntityPrinter::new(context, metadata, select).single(&mut body, entity)?;
        }
        BodyFormat::Atom => {
            let updated = DateTime::from(entity.version());
            AtomPrinter::new(context, updated, select).single(&mut body, entity)?;
        }
    }
    Ok(body)
}

fn visit(
    query: Option<EntityQuery>,
    each: impl FnMut(EntityRef<'_>) -> Result<(), RowError>,
) -> Result<Option<PageEnd>, ServiceError> {
    query.map(|query| query.visit(each)).transpose().map_err(|error| failure::of(&error))
}
