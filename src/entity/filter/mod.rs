//! Filters: conditions on entities, from text or built (R-D06).
//!
//! A [`Filter`] is parsed (`lex`, `parse`), printed (`print`) and brought to a normal form
//! (`normal`), in which keys are compared with Strings only. Invariant: what is printed parses to
//! the same filter, and the normal form lets the same entities pass.
#![cfg_attr(not(test), allow(dead_code, reason = "queries call it"))]

mod error;
mod expr;
mod lex;
#[cfg(any(test, fuzzing))]
mod naive;
mod normal;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use error::{FilterError, FilterErrorKind};
pub use expr::{Filter, FilterProperty};
