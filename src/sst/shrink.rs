//! Whether compression would make a table file smaller: found by trying it on some of its blocks.

use super::Reader;
use super::frame;
use super::source::Caching;
use crate::error::{Error, Result};

/// Index partitions of which the first and the last data block are tried, spread over the file.
const PARTITIONS: usize = 4;

impl Reader {
    /// Whether this zstd level would make the file shorter by about an eighth or more, which is also what
    /// a block must gain to be stored compressed. Of a file that is compressed it says no.
    ///
    /// # Errors
    /// Damage to what it reads; what the file system refuses.
    pub(crate) fn would_shrink(&self, zstd: i32) -> Result<bool> {
        let partitions = self.directory().top.len();
        let (mut raw_bytes, mut squeezed) = (0, Vec::new());
        for number in (0..partitions).step_by(partitions.div_ceil(PARTITIONS).max(1)) {
            let Some(first) = self.partition(number, Caching::Pass)? else { break };
            for place in [first.clone(), first.last()] {
                let handle = place.handle()?;
                if handle.compressed {
                    return Ok(false);
                }
                let held = self.source().load(&handle, Caching::Pass)?;
                raw_bytes += held.payload().len();
                frame::compress(zstd, held.payload(), &mut squeezed)
                    .map_err(|e| Error::io("compress a block of", self.source().path(), e))?;
            }
        }
        Ok(frame::is_worth_it(squeezed.len(), raw_bytes))
    }
}
