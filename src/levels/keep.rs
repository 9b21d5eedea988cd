//! Keeping what is whole of a damaged table file, which salvage sets aside.
//!
//! What whole blocks hold goes into a new file in its place, but for references to values that are damaged.
//! Invariant: the new file is durable before the damaged one gets another name, so a crash in between loses
//! nothing: the next salvage takes all the files that there are.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::edit::FileRecord;
use super::file::TableFile;
use super::open::Opening;
use super::values::Values;
use crate::entry::Kind;
use crate::error::{Error, Result};
use crate::sst::{self, FileId, Reader, Writer, WriterOptions};

impl Opening<'_> {
    /// The file that holds what is whole of a damaged one, under this new id; `None` if that is nothing.
    ///
    /// # Errors
    /// What the file system refuses.
    pub(super) fn keep_whole(
        &self,
        record: &FileRecord,
        damaged: &Path,
        values: &Values,
        id: FileId,
    ) -> Result<Option<TableFile>> {
        let path = self.dir.join(sst::file_name(id));
        let cache = || Arc::clone(self.cache);
        let opened = Reader::open(self.disk, damaged, &record.meta, cache(), self.read_mode);
        let reader = match opened {
            Ok(reader) => reader,
            // Where its blocks are is not known, or the file is not there.
            Err(Error::Corruption(_)) => return Ok(None),
            Err(Error::Io(error)) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let kept = self.copy_whole(&reader, &path, values, id).and_then(|meta| {
            let Some(meta) = meta else { return Ok(None) };
            self.disk.sync_dir(self.dir).map_err(|e| Error::io("sync directory", self.dir, e))?;
            let reader = Reader::open(self.disk, &path, &meta, cache(), self.read_mode)?;
            let janitor = Arc::clone(self.janitor);
            Ok(Some(TableFile::new(meta, reader, record.gc_bound, path.clone(), janitor)))
        });
        if !matches!(kept, Ok(Some(_))) {
            self.janitor.remove(path);
        }
        kept
    }

    /// Writes the new file; `None` if there is nothing to be in it.
    fn copy_whole(
        &self,
        reader: &Reader,
        path: &Path,
        values: &Values,
        id: FileId,
    ) -> Result<Option<sst::FileMeta>> {
        let file = self.disk.create(path).map_err(|e| Error::io("create", path, e))?;
        let mut writer = Writer::new(file, path.to_owned(), id, WriterOptions::default());
        let mut is_empty = true;
        reader.whole_entries(|entry| {
            if entry.kind == Kind::Reference {
                match values.verify(entry.value) {
                    Err(Error::Corruption(_)) => return Ok(()),
                    checked => checked?,
                }
            }
            is_empty = false;
            writer.add(entry)
        })?;
        if is_empty { Ok(None) } else { writer.finish().map(Some) }
    }
}
