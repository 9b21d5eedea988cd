//! Atom (protocol 2, 3): the form of clients before 2015-12-11, and the only one before
//! 2013-08-15. Entities are entries, answers to queries are feeds.

mod name;
mod parse;
mod print;

#[cfg(test)]
mod tests;

pub use parse::{AtomError, parse_entity, parse_table_name};
pub use print::{AtomPrinter, print_table, print_tables};
