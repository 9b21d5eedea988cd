//! Entities as lines of JSON.

use std::io::Write;

use super::{Output, Rows};
use crate::cli::CliError;
use crate::cli::store::Row;
use crate::wire::json::EntityPrinter;
use crate::wire::{Select, Written};

/// Writes an object a line.
pub(in crate::cli) struct JsonRows {
    output: Output,
    select: Select,
    line: Vec<u8>,
}

impl JsonRows {
    pub(in crate::cli) fn new(output: Output, select: Select) -> Self {
        Self { output, select, line: Vec::new() }
    }
}

impl Rows for JsonRows {
    fn row(&mut self, (entity, version): &Row) -> Result<(), CliError> {
        self.line.clear();
        let printer = EntityPrinter::of_lines(&self.select);
        printer.line(&mut self.line, &Written { entity, version: *version })?;
        self.line.push(b'\n');
        Ok(self.output.write_all(&self.line)?)
    }

    fn finish(self: Box<Self>) -> Result<(), CliError> {
        self.output.finish()
    }
}
