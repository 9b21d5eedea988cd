//! Entity group transactions, as a client writes them: all operations of one partition, all or none.

use std::ops::Range;

use http::StatusCode;
use tablestone::{Entity, Version};
use uuid::Uuid;

use super::exchange::{Answer, Body, refused};
use super::{Client, ClientError};
use crate::address::push_entity_address;
use crate::headers::Metadata;
use crate::wire::json::EntityPrinter;
use crate::wire::{Context, Select, Written};

/// Largest transaction in bytes: the service takes 4 MiB.
const MAX_BYTES: usize = (4 << 20) - (16 << 10);
/// How entities are printed: as lines, which have no addresses.
const CONTEXT: Context<'_> = Context { base: "", account: "", table: "" };

/// How an entity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It must not exist.
    Insert,
    /// In place of what is there, if anything is.
    InsertOrReplace,
    /// Into what is there, if anything is.
    InsertOrMerge,
}

impl Client {
    /// Writes up to 100 entities of one partition, each once, in as few transactions as their size
    /// allows; gives the number written to `written` after each.
    ///
    /// # Errors
    /// [`ClientError`], whose index is that of the entity: transactions before it were done.
    pub fn write<'e>(
        &self,
        table: &str,
        write: Write,
        entities: impl IntoIterator<Item = &'e Entity>,
        mut written: impl FnMut(usize),
    ) -> Result<(), ClientError> {
        let form = Form { base: self.endpoint.base(), table, write, id: Uuid::new_v4() };
        let mut transaction = Transaction::new(form);
        let mut done = 0;
        for entity in entities {
            let operation = transaction.push(entity);
            if transaction.bytes.len() > MAX_BYTES && transaction.operations > 1 {
                let next = transaction.split_off(operation);
                done += self.commit(transaction, done, &mut written)?;
                transaction = next;
            }
        }
        if transaction.operations > 0 {
            self.commit(transaction, done, &mut written)?;
        }
        Ok(())
    }

    /// Sends a transaction, `done` operations after the first.
    fn commit(
        &self,
        transaction: Transaction<'_>,
        done: usize,
        written: &mut impl FnMut(usize),
    ) -> Result<usize, ClientError> {
        let operations = transaction.operations;
        let (content_type, bytes) = transaction.finish();
        let body = Body::Batch { content_type: &content_type, bytes: &bytes };
        let answer = self.send("/$batch", body)?;
        check(&answer).map_err(|error| later(error, done))?;
        written(operations);
        Ok(operations)
    }
}

/// The error with its index that many operations later.
fn later(mut error: ClientError, operations: usize) -> ClientError {
    if let ClientError::Refused { index: Some(index), .. } = &mut error {
        *index += operations;
    }
    error
}

/// Whether the transaction was done: then the first part, as all others, says so.
fn check(answer: &Answer) -> Result<(), ClientError> {
    let text = String::from_utf8_lossy(&answer.body);
    let part = text.split_once("HTTP/1.1 ").map(|(_, part)| part);
    let status = part.and_then(|part| StatusCode::from_bytes(part.as_bytes().get(..3)?).ok());
    let (Some(part), Some(status)) = (part, status) else {
        return Err(answer.wrong(&"expected the parts of a batch"));
    };
    if status.is_success() {
        return Ok(());
    }
    let error = part.find('{').zip(part.rfind('}')).and_then(|(from, to)| part.get(from..=to));
    let refused = error.and_then(|error| refused(answer, status, error.as_bytes()));
    Err(refused.unwrap_or_else(|| answer.wrong(&format_args!("status {status} without an error"))))
}

/// What the operations of a transaction have in common.
#[derive(Clone, Copy)]
struct Form<'a> {
    base: &'a str,
    table: &'a str,
    write: Write,
    /// Makes boundaries that are in no entity.
    id: Uuid,
}

/// A transaction as it is printed.
struct Transaction<'a> {
    form: Form<'a>,
    bytes: Vec<u8>,
    operations: usize,
}

impl<'a> Transaction<'a> {
    fn new(form: Form<'a>) -> Self {
        let id = form.id;
        let bytes = format!(
            "--batch_{id}\r\nContent-Type: multipart/mixed; boundary=changeset_{id}\r\n\r\n"
        );
        Self { form, bytes: bytes.into_bytes(), operations: 0 }
    }

    /// Adds an operation; gives where it is.
    fn push(&mut self, entity: &Entity) -> Range<usize> {
        let began = self.bytes.len();
        let Form { base, table, write, id } = self.form;
        let mut address = format!("{base}/");
        let method = match write {
            Write::Insert => "POST",
            Write::InsertOrReplace => "PUT",
            Write::InsertOrMerge => "MERGE",
        };
        if write == Write::Insert {
            address.push_str(table);
        } else {
            let (partition_key, row_key) = (entity.partition_key(), entity.row_key());
            push_entity_address(&mut address, table, partition_key, row_key);
        }
        let head = format!(
            "--changeset_{id}\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\n{method} {address} HTTP/1.1\r\n\
             Content-Type: application/json\r\nPrefer: return-no-content\r\n\r\n"
        );
        self.bytes.extend_from_slice(head.as_bytes());
        let printer = EntityPrinter::new(CONTEXT, Metadata::Minimal, &Select::ALL);
        let printed = printer.line(&mut self.bytes, &Written { entity, version: Version::ZERO });
        debug_assert!(printed.is_ok(), "only what is stored can be damaged");
        self.bytes.extend_from_slice(b"\r\n");
        self.operations += 1;
        began..self.bytes.len()
    }

    /// Takes the last operation into a transaction of its own.
    fn split_off(&mut self, last: Range<usize>) -> Self {
        let mut next = Self::new(self.form);
        next.bytes.extend(self.bytes.drain(last));
        next.operations = 1;
        self.operations -= 1;
        next
    }

    /// Content-Type and body.
    fn finish(mut self) -> (String, Vec<u8>) {
        let id = self.form.id;
        let end = format!("--changeset_{id}--\r\n--batch_{id}--\r\n");
        self.bytes.extend_from_slice(end.as_bytes());
        (format!("multipart/mixed; boundary=batch_{id}"), self.bytes)
    }
}
