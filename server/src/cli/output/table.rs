//! Text in aligned columns.

use std::io::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Output;
use crate::cli::CliError;

/// Widest cell; a longer one is cut.
const WIDEST: usize = 60;

/// Which side of its column a cell is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Align {
    Left,
    /// As numbers are.
    Right,
}

/// A header and rows, aligned when all are known.
pub(in crate::cli) struct TextTable {
    header: Vec<String>,
    rows: Vec<Vec<(String, Align)>>,
}

impl TextTable {
    pub(in crate::cli) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row with as many cells as the header.
    pub(in crate::cli) fn push(&mut self, cells: impl IntoIterator<Item = (String, Align)>) {
        self.rows
            .push(cells.into_iter().map(|(text, align)| (on_one_line(&text), align)).collect());
    }

    pub(in crate::cli) fn print(&self, output: &mut Output) -> Result<(), CliError> {
        let mut widths: Vec<usize> = self.header.iter().map(|name| name.width()).collect();
        for row in &self.rows {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.width());
            }
        }
        let numbers = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            let mut cells = cells.by_ref().filter(|(text, _)| !text.is_empty()).peekable();
            cells.peek().is_some() && cells.all(|(_, align)| *align == Align::Right)
        };
        let header = self.header.iter().enumerate().map(|(column, name)| {
            (name.clone(), if numbers(column) { Align::Right } else { Align::Left })
        });
        print_line(output, &header.collect::<Vec<_>>(), &widths)?;
        let rules = widths.iter().map(|width| ("-".repeat(*width), Align::Left));
        print_line(output, &rules.collect::<Vec<_>>(), &widths)?;
        for row in &self.rows {
            print_line(output, row, &widths)?;
        }
        Ok(())
    }
}

fn print_line(
    output: &mut Output,
    cells: &[(String, Align)],
    widths: &[usize],
) -> Result<(), CliError> {
    let mut line = String::new();
    for (index, ((text, align), width)) in cells.iter().zip(widths).enumerate() {
        if index > 0 {
            line.push_str("  ");
        }
        let room = " ".repeat(width.saturating_sub(text.width()));
        match align {
            Align::Left => line.extend([text, &*room]),
            Align::Right => line.extend([&*room, text]),
        }
    }
    Ok(writeln!(output, "{}", line.trim_end())?)
}

/// The text without what would break the table, cut if it is long.
fn on_one_line(text: &str) -> String {
    let mut shown = String::new();
    let mut width = 0;
    for character in text.chars() {
        let escaped: String = match character {
            '\n' => "\\n".into(),
            control if control.is_control() => control.escape_default().collect(),
            other => other.into(),
        };
        width += escaped.chars().map(|it| it.width().unwrap_or(0)).sum::<usize>();
        if width > WIDEST {
            shown.push('…');
            break;
        }
        shown.push_str(&escaped);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_on_their_line() {
        assert_eq!(on_one_line("a\nb\tc\u{1b}[31m"), "a\\nb\\tc\\u{1b}[31m");
        assert_eq!(on_one_line(&"x".repeat(WIDEST)), "x".repeat(WIDEST));
        assert_eq!(on_one_line(&"x".repeat(WIDEST + 1)), "x".repeat(WIDEST) + "…");
        assert_eq!(on_one_line(&"名".repeat(40)), "名".repeat(WIDEST / 2) + "…");
    }
}
