//! Writes of one partition, done all or none, and the memory for what merges make of them.

use tablestone::{Entity, EntityBatch, Error, Limit, Version};

use super::catalog::TableState;
use super::waits::Work;
use super::write::Write;
use super::{TableService, failure};
use crate::body::Share;
use crate::error::ServiceError;

/// Why writes were not done, and because of which of them.
pub(super) struct Failed {
    pub(super) error: ServiceError,
    pub(super) index: usize,
}

/// What is no operation's own mistake is told as the first's.
impl From<ServiceError> for Failed {
    fn from(error: ServiceError) -> Self {
        Self { error, index: 0 }
    }
}

/// What comes after the writes that are to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    /// A write to another partition or table: none is done, and whichever fails first is told.
    Elsewhere,
}

impl After {
    fn add_to(self, batch: &mut EntityBatch, partition_key: &str) {
        if self == Self::Elsewhere {
            let elsewhere = if partition_key.is_empty() { "elsewhere" } else { "" };
            batch.insert(&Entity::new(elsewhere, ""));
        }
    }
}

impl TableService {
    /// Does writes of one partition. The entities that merges make may be many times as large as what was sent, and are
    /// in memory twice until they are written: what is more than the engine's own limit needs a share of a budget
    /// (R-S12).
    pub(super) async fn apply<'w, 'r: 'w>(
        &self,
        table: &TableState,
        partition_key: &str,
        writes: impl Iterator<Item = &'w Write<'r>> + Clone,
        after: After,
        work: Work,
    ) -> Result<Version, Failed> {
        let merges = writes.clone().any(Write::is_merge);
        let (mut merged_bytes, mut share) = (0, Share::default());
        loop {
            let begin = || {
                let mut batch = table.entities.batch(partition_key);
                batch.merged_bytes(merged_bytes);
                writes.clone().for_each(|write| write.add_to(&mut batch));
                after.add_to(&mut batch, partition_key);
                table.entities.commit(batch)
            };
            let commit = self.waits.done(work, begin).await;
            match self.waits.committed(work, commit).await {
                Ok(version) => return Ok(version),
                Err(Error::LimitExceeded { what: Limit::BatchBytes, size, .. })
                    if merges && size > merged_bytes as u64 =>
                {
                    merged_bytes = usize::try_from(size).unwrap_or(usize::MAX);
                    let needed = merged_bytes.saturating_mul(2);
                    self.merging.grow_up_to_all(&mut share, needed).await?;
                }
                Err(error) => {
                    let (error, index) = failure::of_engine(&error);
                    return Err(Failed { error, index: index.unwrap_or_default() });
                }
            }
        }
    }
}
