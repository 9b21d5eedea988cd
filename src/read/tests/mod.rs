//! Reads compared with a naive model, over memtables and table files.

mod costs;
mod estimates;
mod pages;
mod points;
mod shelf;
mod world;
