//! [`Scale`]: how large a run is.

use serde::{Deserialize, Serialize};

/// How much there is of everything: what behaviour with growth varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    pub entities: u64,
    /// Tables that the partitions are spread over.
    pub tables: usize,
    /// Threads instead of the work's own number.
    pub threads: Option<usize>,
}

impl Scale {
    pub fn of(entities: u64) -> Self {
        Self { entities, tables: 1, threads: None }
    }
}
