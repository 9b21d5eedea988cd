//! [`TableService`]: every operation of the protocol, from a request to its answer.
//!
//! Invariant: no operation reads a body or touches a table before the request's signature was
//! checked and allows it, and whatever goes wrong becomes an answer of the protocol.

mod account;
mod answer;
mod apply;
mod call;
mod catalog;
mod checkpoint;
mod cors;
mod direct;
mod disk_reads;
mod entities;
mod failure;
mod intent;
mod keys;
mod limits;
mod methods;
mod odata;
mod print;
mod properties;
mod query;
mod salvage;
mod subrequest;
mod tables;
mod transaction;
mod waits;
mod write;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::{Body, Incoming};
use tablestone::Database;

use self::account::{AccountState, Accounts};
use self::answer::Answer;
use self::call::Call;
use self::catalog::Catalog;
use self::methods::no_operation;
use self::waits::{Waits, Work};
use crate::address::{Parameter, Place, QueryString, Resource};
use crate::auth::{Account, Grant, Signed, unknown_account};
use crate::body::{AnswerBody, BodyBudget, RequestBody, Share};
use crate::config::Limits;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{ApiVersion, Common, Verb, check_host, host};
use crate::net::{Handler, Peer};
use crate::telemetry::{Action, Finished, TableMetrics, Telemetry};
use crate::wire::xml::{ServiceProperties, SignedIdentifier};

pub use self::catalog::OpenError;
pub(crate) use self::direct::NewTable;
pub(crate) use self::failure::chain;
pub(crate) use self::keys::{check as check_keys, check_table_name};
pub(crate) use self::salvage::{Kept, Named, NamedAgain, name_again};

/// The service: accounts, their tables, and a database under them.
///
/// It needs no network: [`handle`](Self::handle) takes a request and gives the answer.
pub struct TableService {
    accounts: Accounts,
    catalog: Arc<Catalog>,
    limits: Limits,
    budget: BodyBudget,
    /// For entities that merges make, which may be many times what was sent. It is apart from the other budget, as who
    /// waits for a large share keeps all others waiting.
    merging: BodyBudget,
    telemetry: Telemetry,
    waits: Waits,
}

impl TableService {
    /// The service of these accounts on a database, which it has for itself, and which was opened with the
    /// [options of the limits](Limits::options).
    ///
    /// # Errors
    /// [`OpenError`] if the database holds something else, or cannot be read.
    pub async fn open(
        database: Database,
        accounts: Vec<Account>,
        limits: Limits,
        telemetry: Telemetry,
    ) -> Result<Self, OpenError> {
        let (catalog, accounts) = Catalog::open(database, accounts).await?;
        Ok(Self::of(catalog, accounts, limits, telemetry))
    }

    /// As [`open`](Self::open), but nothing is written, not even what makes the database a server's: for who
    /// only reads, without requests.
    pub(crate) fn open_to_read(
        database: Database,
        accounts: Vec<Account>,
        limits: Limits,
        telemetry: Telemetry,
    ) -> Result<Self, OpenError> {
        let (catalog, accounts) = Catalog::open_to_read(database, accounts)?;
        Ok(Self::of(catalog, accounts, limits, telemetry))
    }

    fn of(catalog: Catalog, accounts: Accounts, limits: Limits, telemetry: Telemetry) -> Self {
        let budget = BodyBudget::new(limits.body_memory);
        let merging = BodyBudget::new(limits.body_memory / 2);
        let waits = Waits::new(catalog.database().clone());
        Self { accounts, catalog: Arc::new(catalog), limits, budget, merging, telemetry, waits }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        self.catalog.database()
    }

    /// Where requests are counted.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// What was done with each table since the service was opened, in the text form of Prometheus.
    #[must_use]
    pub fn table_metrics(&self) -> String {
        let mut metrics = TableMetrics::default();
        for account in self.accounts.iter() {
            for table in account.tables() {
                metrics.add(account.name(), &table.name, &table.entities.as_bytes().activity());
            }
        }
        metrics.render()
    }

    /// The answer to a request.
    pub async fn handle<B>(&self, request: Request<B>, peer: Peer) -> Response<AnswerBody>
    where
        B: Body<Data = Bytes> + Send,
    {
        let _waits = self.waits.began();
        let (head, body) = request.into_parts();
        let common = Common::of(&head.headers).or_signed_version(|| signed_version(&head));
        let mut request = self.telemetry.began(Finished {
            action: Action::Unknown,
            status: None,
            error: None,
            took: Duration::ZERO,
            method: head.method.as_str(),
            path: head.uri.path(),
            bytes: 0,
            id: common.id,
            client_id: common.client_id(),
            peer: peer.address,
        });
        let known = &mut request.known;
        let body = std::pin::pin!(body);
        let mut body = RequestBody::new(body);
        let outcome = self.answer(&head, &mut body, peer, &common, &mut known.action).await;
        let goes_on = match &outcome {
            Ok(_) => true,
            Err(_) => crate::body::discard(&head.headers, body, self.limits.body).await,
        };
        let action = known.action;
        let answer = outcome.unwrap_or_else(|error| self.failed(error, &head, &common, action));
        known.error = answer.error;
        let mut response = answer.into_response(&common);
        if action != Action::Preflight {
            self.allow_origin(&head, response.headers_mut());
        }
        if !goes_on {
            // The connection ends, and a client that does not know would send its next request there.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        known.status = Some(response.status());
        // Of an answer to HEAD no body is sent.
        if head.method != Method::HEAD {
            known.bytes = response.body().size_hint().lower();
        }
        drop(request);
        response
    }

    async fn answer<B>(
        &self,
        head: &Parts,
        body: B,
        peer: Peer,
        common: &Common,
        action: &mut Action,
    ) -> Result<Answer, ServiceError>
    where
        B: Body<Data = Bytes> + Send,
    {
        let verb = Verb::of(&head.method, &head.headers)?;
        check_host(&head.uri, &head.headers)?;
        if verb == Verb::Options {
            *action = Action::Preflight;
            // It is not signed: an account that there is not is like one without rules.
            let settings = self.cross_origin(head).unwrap_or_default();
            return cors::preflight(&settings, &head.headers);
        }
        let place = self.place(head)?;
        let query = QueryString::parse(head.uri.query().unwrap_or_default())?;
        query.check_timeout()?;
        let version = match ApiVersion::of(&head.headers)? {
            None => check_signed_version(&query).map(|()| common.version())?,
            stated => stated,
        };
        let signed = Signed {
            method: &head.method,
            path: head.uri.path(),
            query: &query,
            headers: &head.headers,
            place: &place,
            peer: peer.address,
            secure: peer.secure,
            now: SystemTime::now(),
        };
        let (account, grant) = self.authenticate(&signed)?;
        let address = place.resolve()?;
        let limits = &self.limits;
        let call =
            Call { head, peer, verb, address, query, version, account, grant, common, limits };
        self.dispatch(&call, body, action).await
    }

    /// The answer to a request that failed.
    fn failed(&self, error: ServiceError, head: &Parts, common: &Common, action: Action) -> Answer {
        let error = limits::told(error, &self.limits);
        let query = head.uri.query().unwrap_or_default();
        let format = QueryString::find(query, Parameter::Format);
        let error_answer = match action {
            Action::CreateTable | Action::InsertEntity => Answer::creation_error,
            Action::GetTableAcl
            | Action::SetTableAcl
            | Action::GetServiceProperties
            | Action::SetServiceProperties
            | Action::GetServiceStats => Answer::xml_error,
            _ => Answer::error,
        };
        let answer = error_answer(&error, format.as_deref(), &head.headers, common);
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED => self.with_allowed(answer, head),
            _ => answer,
        }
    }

    /// The answer with the methods that there are of what a request is addressed to, if that is anything.
    fn with_allowed(&self, answer: Answer, head: &Parts) -> Answer {
        let Ok(address) = self.place(head).and_then(Place::resolve) else {
            return answer;
        };
        let comp = QueryString::find(head.uri.query().unwrap_or_default(), Parameter::Comp);
        answer.with_text(header::ALLOW, methods::allowed(&address.resource, comp.as_deref()))
    }

    /// The account that a request is addressed to, and what its signature grants there. An account that does not exist
    /// is treated as one whose key nobody has, so that strangers do not find out which exist.
    fn authenticate(
        &self,
        signed: &Signed<'_>,
    ) -> Result<(&Arc<AccountState>, Grant), ServiceError> {
        let name = &*signed.place.account;
        let Some(account) = self.accounts.get(name) else {
            let nobodys = Account::new(name, Vec::new());
            signed.authenticate(&nobodys, |_| None::<Vec<SignedIdentifier>>)?;
            return Err(unknown_account(name));
        };
        let grant = signed.authenticate(account.account(), |table| account.policies(table))?;
        Ok((account, grant))
    }

    async fn dispatch<B>(
        &self,
        call: &Call<'_>,
        body: B,
        action: &mut Action,
    ) -> Result<Answer, ServiceError>
    where
        B: Body<Data = Bytes> + Send,
    {
        let comp = call.query.given(Parameter::Comp);
        // Whether a batch writes is said in its body.
        let may_write = !matches!(call.verb, Verb::Get | Verb::Head);
        if call.address.secondary && may_write && call.address.resource != Resource::Batch {
            return Err(ErrorCode::InsufficientAccountPermissions.error());
        }
        match (&call.address.resource, call.verb, comp) {
            (Resource::Service, Verb::Get, Some("properties")) => {
                *action = Action::GetServiceProperties;
                properties::get(call)
            }
            (Resource::Service, Verb::Put, Some("properties")) => {
                *action = Action::SetServiceProperties;
                self.set_properties(call, body).await
            }
            (Resource::Service, Verb::Get, Some("stats")) => {
                *action = Action::GetServiceStats;
                properties::stats(call)
            }
            (Resource::Tables, Verb::Get, None) => {
                *action = Action::QueryTables;
                self.query_tables(call).await
            }
            (Resource::Tables, Verb::Post, None) => {
                *action = Action::CreateTable;
                self.create_table(call, body).await
            }
            (Resource::Table { table }, Verb::Get, None) => {
                *action = Action::GetTable;
                tables::get(call, table)
            }
            (Resource::Table { table }, Verb::Delete, None) => {
                *action = Action::DeleteTable;
                self.delete_table(call, table).await
            }
            (Resource::Entities { table }, Verb::Get | Verb::Head, Some("acl")) => {
                *action = Action::GetTableAcl;
                tables::get_acl(call, table)
            }
            (Resource::Entities { table }, Verb::Put, Some("acl")) => {
                *action = Action::SetTableAcl;
                self.set_acl(call, table, body).await
            }
            (Resource::Entities { table }, Verb::Get, None) => {
                *action = Action::QueryEntities;
                self.query_entities(call, table).await
            }
            (Resource::Entity { table, partition_key, row_key }, Verb::Get, None) => {
                *action = Action::GetEntity;
                self.get_entity(call, table, partition_key, row_key).await
            }
            (Resource::Batch, Verb::Post, None) => {
                *action = Action::EntityGroupTransaction;
                self.transaction(call, body).await
            }
            (Resource::TablesOf { table, is_named }, verb, None)
                if *is_named || verb != Verb::Post =>
            {
                Err(tables::not_of_table(call, table, *is_named))
            }
            (Resource::Entities { .. } | Resource::TablesOf { .. }, Verb::Post, None)
            | (Resource::Entity { .. }, _, None) => {
                *action = write::action(call.verb, &call.head.headers);
                self.write_entity(call, body).await
            }
            (resource, _, comp) => Err(no_operation(resource, comp).error()),
        }
    }

    /// What `decode` makes of a body, in its turn, with a [share](BodyBudget::decoded) of the budget.
    async fn decoded<T, E: From<ServiceError>>(
        &self,
        share: &mut Share,
        work: Work,
        decode: impl Fn() -> Result<(T, usize), E>,
    ) -> Result<T, E> {
        self.budget.decoded(share, || self.waits.done(work, &decode)).await
    }

    /// Reads a body, which is for operations that are allowed.
    async fn body<B>(&self, call: &Call<'_>, body: B) -> Result<(Bytes, Share), ServiceError>
    where
        B: Body<Data = Bytes>,
    {
        crate::body::read(&call.head.headers, body, self.limits.body, &self.budget).await
    }

    fn place<'a>(&self, head: &'a Parts) -> Result<Place<'a>, ServiceError> {
        let host = host(&head.uri, &head.headers);
        Place::of(host, head.uri.path(), |name| self.accounts.get(name).is_some())
    }

    /// Adds what lets a web page from elsewhere see the answer, if a rule of the account does.
    fn allow_origin(&self, head: &Parts, answer: &mut HeaderMap) {
        if let Some(settings) = self.cross_origin(head) {
            cors::allow(&settings, head, answer);
        }
    }

    /// The settings of the account that a request's address names, if there is one that has rules.
    fn cross_origin(&self, head: &Parts) -> Option<Arc<ServiceProperties>> {
        let place = self.place(head).ok()?;
        let settings = self.accounts.get(&place.account)?.properties();
        (!settings.cors.is_empty() && place.resolve().is_ok()).then_some(settings)
    }
}

/// The version that a signature in the address asks for: by `api-version`, else that of its own form.
fn signed_version(head: &Parts) -> Option<ApiVersion> {
    let query = head.uri.query().filter(|query| query.contains("sv="))?;
    let query = QueryString::parse(query).ok()?;
    let form = query.get(Parameter::SignedVersion)?;
    ApiVersion::parse(query.given(Parameter::ApiVersion).unwrap_or(form))
}

/// Refuses an `api-version` beside a signature that is no version, as the header's would be.
fn check_signed_version(query: &QueryString<'_>) -> Result<(), ServiceError> {
    let asked = query.given(Parameter::ApiVersion);
    let counts = query.given(Parameter::SignedVersion).is_some();
    match asked.filter(|_| counts).map(ApiVersion::parse) {
        Some(None) => Err(ErrorCode::InvalidQueryParameterValue.error()),
        Some(Some(_)) | None => Ok(()),
    }
}

impl Handler for TableService {
    async fn handle(&self, request: Request<Incoming>, peer: Peer) -> Response<AnswerBody> {
        Self::handle(self, request, peer).await
    }
}

impl fmt::Debug for TableService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableService").field("limits", &self.limits).finish_non_exhaustive()
    }
}
