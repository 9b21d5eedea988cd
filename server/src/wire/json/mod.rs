//! JSON: entities in and out, tables, errors (protocol 2, 3).
//!
//! Decoding reads the text once, without a tree between text and values. Encoding goes from the
//! stored row to the answer's buffer, likewise: it is what a query spends its time on.

mod decode;
mod documents;
mod encode;
#[cfg(test)]
mod encode_tests;
mod error;
mod escape;
mod lexer;
mod members;
mod page;
mod raw;
mod sink;
mod template;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) mod tests_support;

pub use decode::{decode_entity, decode_table_name};
pub use documents::{print_error, print_table, print_tables};
pub use encode::EntityPrinter;
pub use error::{JsonError, JsonErrorKind};
pub use page::PagePrinter;
pub use template::EntityDecoder;
