//! Entity group transactions, as a client writes them: all operations of one partition, all or none.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use tablestone::{Entity, Version};
use uuid::Uuid;

use super::exchange::{Answer, Body, refused};
use super::{Client, ClientError};
use crate::address::push_entity_address;
use crate::error::ErrorCode;
use crate::wire::json::EntityPrinter;
use crate::wire::{Select, Written};

/// Largest transaction: the service takes 100 operations, and 4 MiB.
const MAX_OPERATIONS: usize = 100;
const MAX_BYTES: usize = (4 << 20) - (16 << 10);
/// What servers say of more operations than they take.
const TOO_MANY: &str = "changes per change set";

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

/// How large transactions may be: as large as the service's, until the server refuses one.
#[derive(Debug)]
pub(super) struct Most {
    operations: AtomicUsize,
    bytes: AtomicUsize,
    /// The most bytes of one that it has taken.
    taken: AtomicUsize,
}

impl Default for Most {
    fn default() -> Self {
        let (operations, bytes) = (MAX_OPERATIONS.into(), MAX_BYTES.into());
        Self { operations, bytes, taken: AtomicUsize::new(0) }
    }
}

impl Most {
    /// Half of what was sent, if the error is that it was too large; says whether it is.
    fn lower(&self, error: &ClientError, operations: usize, bytes: usize) -> bool {
        if error.is(ErrorCode::RequestBodyTooLarge) {
            self.bytes.fetch_min(bytes / 2, Ordering::Relaxed);
            return true;
        }
        // The code says no more than that something is wrong with the request.
        let are_too_many =
            matches!(error, ClientError::Refused { message, .. } if message.contains(TOO_MANY));
        if are_too_many {
            self.operations.fetch_min(operations / 2, Ordering::Relaxed);
        }
        are_too_many
    }
}

impl Client {
    /// Writes entities of one partition, each once, in as few transactions as their size and the
    /// server's limits allow; gives the number written to `written` after each.
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
        let entities: Vec<&Entity> = entities.into_iter().collect();
        let (mut done, mut rest) = (0, entities.as_slice());
        while !rest.is_empty() {
            let transaction = Transaction::of(form, rest, &self.most);
            let (operations, bytes) = (transaction.operations, transaction.bytes.len());
            match self.commit(transaction) {
                Ok(()) => {
                    written(operations);
                    done += operations;
                    rest = rest.get(operations..).unwrap_or_default();
                }
                // Once more, with fewer of them.
                Err(error) if operations > 1 && self.most.lower(&error, operations, bytes) => {}
                Err(error) => return Err(later(error, done)),
            }
        }
        Ok(())
    }

    fn commit(&self, transaction: Transaction<'_>) -> Result<(), ClientError> {
        let is_one = transaction.operations == 1;
        let (content_type, bytes) = transaction.finish();
        // A server that refuses a body closes the connection, and who writes to that may not get to read why.
        let ask_first = bytes.len() > self.most.taken.load(Ordering::Relaxed);
        let body = Body::Batch { content_type: &content_type, bytes: &bytes, ask_first };
        let answer = self.send("/$batch", body).map_err(|error| {
            let is_of_it = is_one && error.is(ErrorCode::RequestBodyTooLarge);
            if is_of_it { of_the_first(error) } else { error }
        })?;
        self.most.taken.fetch_max(bytes.len(), Ordering::Relaxed);
        check(&answer).map_err(|error| if is_one { of_the_first(error) } else { error })
    }
}

/// The error of the only operation, which some errors do not number.
fn of_the_first(mut error: ClientError) -> ClientError {
    if let ClientError::Refused { index, .. } = &mut error {
        index.get_or_insert(0);
    }
    error
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

    /// Of as many of the first entities as may be in one: of one at least.
    fn of(form: Form<'a>, entities: &[&Entity], most: &Most) -> Self {
        let mut transaction = Self::new(form);
        let most_bytes = most.bytes.load(Ordering::Relaxed);
        for entity in entities.iter().take(most.operations.load(Ordering::Relaxed).max(1)) {
            let before = transaction.bytes.len();
            transaction.push(entity);
            if transaction.bytes.len() > most_bytes && transaction.operations > 1 {
                transaction.bytes.truncate(before);
                transaction.operations -= 1;
                break;
            }
        }
        transaction
    }

    /// Adds an operation.
    fn push(&mut self, entity: &Entity) {
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
        let printer = EntityPrinter::of_lines(&Select::ALL);
        let printed = printer.line(&mut self.bytes, &Written { entity, version: Version::ZERO });
        debug_assert!(printed.is_ok(), "only what is stored can be damaged");
        self.bytes.extend_from_slice(b"\r\n");
        self.operations += 1;
    }

    /// Content-Type and body.
    fn finish(mut self) -> (String, Vec<u8>) {
        let id = self.form.id;
        let end = format!("--changeset_{id}--\r\n--batch_{id}--\r\n");
        self.bytes.extend_from_slice(end.as_bytes());
        (format!("multipart/mixed; boundary=batch_{id}"), self.bytes)
    }
}
