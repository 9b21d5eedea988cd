//! Raw HTTP against a server in this process: what SDKs never send, and what they rely on.

mod access;
mod atom;
mod batch;
mod batch_addresses;
mod binary;
mod budget;
mod codes;
mod connections;
mod cross_origin;
mod empty_transactions;
mod entities;
mod errors;
mod filters;
mod headers;
mod histories;
mod hostile;
mod kill;
mod limits;
mod lost_tables;
mod merges;
mod missing;
mod permissions;
mod process;
#[path = "../processes/mod.rs"]
mod processes;
mod proxies;
mod queries;
#[path = "../requests/mod.rs"]
mod requests;
mod secondary;
mod serving;
mod support;
mod tables;
mod transaction_order;
mod transactions;
mod writes;
