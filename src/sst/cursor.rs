//! A cursor over a table file.
use super::Reader;
use crate::entry::{Cursor, Kind};
use crate::error::Result;
use crate::version::Version;

/// A position in a table file.
#[derive(Debug)]
pub(crate) struct SstCursor<'a> {
    reader: &'a Reader,
}

impl Cursor for SstCursor<'_> {
    fn seek(&mut self, _: &[u8]) -> Result<()> {
        unimplemented!()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn seek_before(&mut self, _: &[u8]) -> Result<()> {
        unimplemented!()
    }
    fn seek_to_last(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn valid(&self) -> bool {
        unimplemented!()
    }
    fn key(&self) -> &[u8] {
        unimplemented!()
    }
    fn version(&self) -> Version {
        unimplemented!()
    }
    fn kind(&self) -> Kind {
        unimplemented!()
    }
    fn value(&self) -> &[u8] {
        unimplemented!()
    }
    fn next(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn next_key(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn previous_key(&mut self) -> Result<()> {
        unimplemented!()
    }
}
