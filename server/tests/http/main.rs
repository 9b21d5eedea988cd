//! Raw HTTP against a server in this process: what SDKs never send, and what they rely on.

mod connections;
mod support;
