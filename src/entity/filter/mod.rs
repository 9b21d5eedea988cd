//! Filters: conditions on entities, from text or built, planned into keys to read and evaluated on
//! stored rows (R-D06, R-D10).
//!
//! A [`Filter`] is parsed (`lex`, `parse`), printed (`print`) and brought to a normal form
//! (`normal`). The planner (`plan`) turns its comparisons with keys into boxes of keys (`boxes`,
//! made of `intervals`, put together by `join`), which an [`Explain`] puts into words; what is left
//! of it is compiled (`eval`) and evaluated on stored rows. Invariant: boxes and residual filter
//! together let pass what the filter lets pass, no more and no less.

pub(crate) mod bench;
mod boxes;
mod error;
mod eval;
mod explain;
mod expr;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod intervals;
mod join;
mod lex;
mod map;
#[cfg(any(test, fuzzing))]
mod naive;
mod normal;
mod parse;
mod plan;
mod print;
#[cfg(test)]
mod tests;

pub use error::{FilterError, FilterErrorKind};
pub(crate) use eval::{CompiledFilter, StoredRow};
pub(crate) use explain::KeyRange;
pub use explain::{Explain, Plan};
pub use expr::{Filter, FilterProperty};
