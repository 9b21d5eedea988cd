//! The forms of the protocol's bodies, both directions: JSON, Atom, XML, batches, continuations.
//!
//! Nothing here knows of connections, accounts or the database: functions from bytes to values and
//! back. Bytes from a client never panic; each refusal names where and what was expected.

pub mod batch;
pub mod continuation;
