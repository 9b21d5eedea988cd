//! The cursor over a memtable.
//!
//! Invariant: while valid, it is on a record of a node, both of which stay as long as the
//! memtable, so moving never fails and what it returns could outlive it.

use super::list::List;
use super::node::{NodeRef, RecordRef};
use crate::entry::{Cursor, Kind};
use crate::error::Result;
use crate::version::Version;

/// A [`Cursor`] over a memtable.
pub(crate) struct MemtableCursor<'a> {
    list: &'a List,
    position: Option<(NodeRef<'a>, RecordRef<'a>)>,
}

impl<'a> MemtableCursor<'a> {
    pub(super) fn new(list: &'a List) -> Self {
        Self { list, position: None }
    }

    fn be_at(&mut self, node: Option<NodeRef<'a>>) {
        self.position = node.map(|node| (node, node.newest()));
    }
}

impl Cursor for MemtableCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.be_at(self.list.at_or_after(key));
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.be_at(self.list.first());
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.be_at(self.list.before(key));
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.be_at(self.list.last());
        Ok(())
    }

    fn valid(&self) -> bool {
        self.position.is_some()
    }

    fn key(&self) -> &[u8] {
        self.position.map_or(&[], |(node, _)| node.key())
    }

    fn version(&self) -> Version {
        self.position.map_or(Version::ZERO, |(_, record)| record.version())
    }

    fn kind(&self) -> Kind {
        self.position.map_or(Kind::Delete, |(_, record)| record.kind())
    }

    fn value(&self) -> &[u8] {
        self.position.map_or(&[], |(_, record)| record.value())
    }

    fn next(&mut self) -> Result<()> {
        let Some((node, record)) = self.position else { return Ok(()) };
        match record.older() {
            Some(older) => self.position = Some((node, older)),
            None => self.be_at(self.list.next(node)),
        }
        Ok(())
    }

    fn next_key(&mut self) -> Result<()> {
        if let Some((node, _)) = self.position {
            self.be_at(self.list.next(node));
        }
        Ok(())
    }

    fn previous_key(&mut self) -> Result<()> {
        if let Some((node, _)) = self.position {
            self.be_at(self.list.before(node.key()));
        }
        Ok(())
    }
}
