//! The figures: tables for people as they come, and an array for scripts, in the form that `amita-bench` writes.

use serde_json::{Value, json};
use std::path::Path;

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    None,
    AtLeast(f64),
    AtMost(f64),
}

/// All figures of a run.
#[derive(Default)]
pub struct Figures {
    all: Vec<Value>,
    missed: Vec<String>,
}

impl Figures {
    /// A figure; its name is a dotted path beneath `store`. Returns it as it stands in a table.
    pub fn put(&mut self, name: &str, value: f64, unit: &str, target: Target) -> String {
        let (limit, holds) = match target {
            Target::None => (None, None),
            Target::AtLeast(limit) => (Some(limit), Some(value >= limit)),
            Target::AtMost(limit) => (Some(limit), Some(value <= limit)),
        };
        let name = format!("store.{name}");
        let shown = match holds {
            Some(false) => format!("{} NO", number(value)),
            _ => number(value),
        };
        if let (Some(false), Some(limit)) = (holds, limit) {
            let bound = if matches!(target, Target::AtLeast(_)) {
                "at least"
            } else {
                "at most"
            };
            self.missed.push(format!(
                "`{name}` is {}, {bound} {} {unit}",
                number(value),
                number(limit)
            ));
        }
        self.all
            .push(json!({ "name": name, "value": value, "unit": unit, "target": limit, "holds": holds }));
        shown
    }

    /// A figure that stands for itself.
    pub fn note(&mut self, name: &str, value: f64, unit: &str) -> String {
        self.put(name, value, unit, Target::None)
    }

    /// What does not hold, one line each.
    pub fn missed(&self) -> &[String] {
        &self.missed
    }

    /// Puts them into the file, in place of the store's figures of an earlier run; others' stay.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let mut all = match std::fs::read_to_string(path) {
            Ok(text) => serde_json::from_str::<Vec<Value>>(&text).map_err(|error| problem(&error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(problem(&error)),
        };
        all.retain(|figure| !figure["name"].as_str().is_some_and(|name| name.starts_with("store.")));
        all.extend(self.all.iter().cloned());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| problem(&error))?;
        }
        let text = serde_json::to_string_pretty(&all).map_err(|error| problem(&error))?;
        std::fs::write(path, text + "\n").map_err(|error| problem(&error))
    }
}

/// A Markdown table whose columns line up.
pub struct Table(Vec<Vec<String>>);

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table(vec![head.iter().map(|&cell| cell.to_owned()).collect()])
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }

    pub fn print(&self) {
        let columns = self.0[0].len();
        let width = |column: usize| {
            self.0
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (at, row) in self.0.iter().enumerate() {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!(" {cell:<width$} "));
            println!("|{}|", cells.collect::<Vec<_>>().join("|"));
            if at == 0 {
                let lines = widths.iter().map(|&width| "-".repeat(width + 2));
                println!("|{}|", lines.collect::<Vec<_>>().join("|"));
            }
        }
        println!();
    }
}

/// Three digits that matter.
pub fn number(value: f64) -> String {
    if value == 0.0 || value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
