//! [`Client`]: an account's tables over HTTP, for the command line.
//!
//! Calls block; a client may be used by many threads at once, each of which has a connection while
//! it waits. Answers are read whole: pages are of a few mebibytes.

mod batch;
mod endpoint;
mod error;
mod exchange;
mod page;

pub use batch::Write;
pub use endpoint::{Endpoint, EndpointError};
pub use error::ClientError;
pub use page::{Page, PageKey};

use std::sync::Arc;

use percent_encoding::utf8_percent_encode;
use rustls_pki_types::CertificateDer;
use ureq::Agent;

use crate::address::ENCODED;
use crate::error::ErrorCode;
use crate::headers::names;
use exchange::Body;

/// An account's tables at an address.
///
/// ```
/// use tablestone_server::client::{Client, Endpoint};
/// let endpoint = Endpoint::from_connection_string("UseDevelopmentStorage=true")?;
/// assert_eq!(endpoint.to_string(), "http://127.0.0.1:10002/devstoreaccount1");
/// let client = Client::new(endpoint, 4, &[]);
/// # Ok::<(), tablestone_server::client::EndpointError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    endpoint: Endpoint,
    most: Arc<batch::Most>,
}

impl Client {
    /// A client that keeps up to `connections` connections for its next calls. It trusts these
    /// certificates, or, if there are none, those of the authorities that browsers trust.
    #[must_use]
    pub fn new(
        endpoint: Endpoint,
        connections: usize,
        certificates: &[CertificateDer<'static>],
    ) -> Self {
        let agent = exchange::agent(connections, certificates);
        Self { agent, endpoint, most: Arc::default() }
    }

    /// The same with a connection of its own, which nobody else uses.
    #[must_use]
    pub fn apart(&self) -> Self {
        let agent = self.agent.config().new_agent();
        Self { agent, endpoint: self.endpoint.clone(), most: Arc::clone(&self.most) }
    }

    /// Where the tables are.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The names of all tables, in order.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn tables(&self) -> Result<Vec<String>, ClientError> {
        let mut tables = Vec::new();
        let mut target = "/Tables".to_owned();
        loop {
            let answer = self.send(&target, Body::None)?;
            tables.append(&mut page::table_names(&answer)?);
            match answer.header(&names::NEXT_TABLE_NAME) {
                Some(next) => target = format!("/Tables?NextTableName={}", encoded(next)),
                None => return Ok(tables),
            }
        }
    }

    /// Creates a table unless there is one of that name; whether there was none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn create_table_if_missing(&self, name: &str) -> Result<bool, ClientError> {
        let body = format!("{{\"TableName\":{}}}", serde_json::Value::from(name));
        match self.send("/Tables", Body::Json(body.as_bytes())) {
            Err(error) if error.is(ErrorCode::TableAlreadyExists) => Ok(false),
            created => created.map(|_| true),
        }
    }

    /// Deletes a table.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn delete_table(&self, name: &str) -> Result<(), ClientError> {
        self.send(&format!("/Tables('{name}')"), Body::Delete).map(|_| ())
    }

    /// A page of a table's entities: those that pass the filter, from a key on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn page(
        &self,
        table: &str,
        filter: Option<&str>,
        select: Option<&[String]>,
        top: Option<u64>,
        from: Option<&PageKey>,
    ) -> Result<Page, ClientError> {
        let mut target = format!("/{table}()");
        let mut separator = '?';
        let mut parameter = |name: &str, value: &str| {
            target.push(separator);
            separator = '&';
            target.push_str(name);
            target.push('=');
            target.push_str(&encoded(value));
        };
        if let Some(filter) = filter {
            parameter("$filter", filter);
        }
        if let Some(select) = select {
            parameter("$select", &select.join(","));
        }
        if let Some(top) = top {
            parameter("$top", &top.to_string());
        }
        if let Some(from) = from {
            parameter("NextPartitionKey", &from.partition_key);
            if let Some(row_key) = &from.row_key {
                parameter("NextRowKey", row_key);
            }
        }
        let timestamps = select.is_some_and(|names| names.iter().any(|name| name == "Timestamp"));
        Page::read(&self.send(&target, Body::None)?, timestamps)
    }
}

fn encoded(value: &str) -> String {
    utf8_percent_encode(value, ENCODED).to_string()
}
