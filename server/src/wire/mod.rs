//! The forms of the protocol's bodies, both directions side by side: entities as JSON and Atom,
//! service documents as XML, entity group transactions as MIME, positions as continuation tokens.
//!
//! Invariant: nothing here knows of connections, accounts or tables' contents; bytes come in or go
//! out, and malformed bytes are an error that says where and what was expected.

pub mod atom;
pub mod batch;
mod body;
mod context;
pub mod continuation;
pub mod edm;
pub(crate) mod instant;
pub mod json;
mod names;
mod select;
mod source;
pub mod xml;

pub use body::{BodyValue, EntityBody};
pub use context::Context;
pub use select::Select;
pub use source::{EntitySource, Written};

pub(crate) use body::own_text;

/// Adds texts.
fn put(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}
