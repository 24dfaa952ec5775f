//! Tables on a terminal: columns as wide as their widest cell, numbers to the right.

use crate::error::Result;
use crate::output;
use crate::say;
use serde::Serialize;

/// Rows of text under a head.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(head: &[&str]) -> Table {
        Table {
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; a missing cell is empty. A cell is one line, and has nothing that a terminal would obey.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().map(|cell| amita_audit::plain(&cell)).collect();
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&self.head]);
                cells.map(|row| row[column].chars().count()).max().unwrap_or(0)
            })
            .collect()
    }

    /// A column all of whose cells start with a digit is one of numbers.
    fn is_number(&self, column: usize) -> bool {
        !self.rows.is_empty()
            && self
                .rows
                .iter()
                .all(|row| row[column].is_empty() || row[column].starts_with(|c: char| c.is_ascii_digit()))
    }

    /// As plain text, for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for row in [&self.head].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[column] - cell.chars().count());
                if column > 0 {
                    line.push_str("  ");
                }
                if self.is_number(column) {
                    line.push_str(&gap);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&gap);
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// As a Markdown table.
    #[must_use]
    pub fn markdown(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        let line = |cells: &[String], out: &mut String| {
            out.push('|');
            for (column, cell) in cells.iter().enumerate() {
                out.push_str(&format!(
                    " {cell}{} |",
                    " ".repeat(widths[column].saturating_sub(cell.chars().count()))
                ));
            }
            out.push('\n');
        };
        line(&self.head, &mut out);
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width.max(3))).collect();
        line(&rule, &mut out);
        for row in &self.rows {
            line(row, &mut out);
        }
        out
    }
}

/// What a command prints: one value, for people or for scripts.
///
/// # Errors
/// When the value cannot be written as JSON.
pub fn print<T: Serialize + ?Sized>(as_json: bool, value: &T, text: impl FnOnce() -> String) -> Result<()> {
    if as_json {
        output::json(value)?;
    } else {
        say!("{}", text());
    }
    Ok(())
}
