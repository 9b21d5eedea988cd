//! The body of `POST /$batch` (protocol 8): [`parse()`] takes a client's apart, [`BatchWriter`] prints
//! the answer.
//!
//! Both run through the text once. A sub-request borrows from the body, so a batch of 4 MiB costs
//! no copy of it.

mod error;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use error::{BatchError, BatchErrorKind};
pub use parse::{Batch, Headers, SubRequest, parse};
pub use print::BatchWriter;
pub(crate) use print::Pieces;
