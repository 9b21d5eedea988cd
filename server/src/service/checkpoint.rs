//! Backups of a database that is being served.

use std::path::{Path, PathBuf};

use super::TableService;
use crate::wire::instant::now;

impl TableService {
    /// Makes a [checkpoint](tablestone::Database::checkpoint) in a new directory of `under`, named for the time,
    /// such as `2026-11-27T080910.2847123Z`. Blocks.
    ///
    /// # Errors
    /// As there. The directory is gone then.
    pub fn checkpoint(&self, under: &Path) -> tablestone::Result<PathBuf> {
        let dir = under.join(now().to_string().replace(':', ""));
        self.database().checkpoint(&dir).inspect_err(|_| {
            // Empty then, if it could be made at all.
            let _ = std::fs::remove_dir(&dir);
        })?;
        tracing::info!(dir = %dir.display(), "made a checkpoint");
        Ok(dir)
    }
}
