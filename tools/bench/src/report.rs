//! The figures, as a table for people and as JSON for scripts.

use crate::row::show as number;
use amita_terminal::error::{Context, Result};
use amita_terminal::table::Table;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One figure. The names are dotted paths and stay as they are: scripts compare them over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `path.write.4k.qd32.cpu_p`.
    pub name: String,
    /// What was measured.
    pub value: f64,
    /// Of what.
    pub unit: String,
    /// What it must reach; `None`: the figure stands for itself.
    pub target: Option<f64>,
    /// Does it? `None` without a target.
    pub holds: Option<bool>,
    /// What it is, for people.
    #[serde(skip)]
    pub label: String,
    /// Is the target a limit from below?
    #[serde(skip)]
    pub at_least: bool,
}

/// All figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// A figure without a target.
    pub fn note(&mut self, name: &str, label: &str, value: f64, unit: &'static str) {
        self.0.push(Figure {
            name: name.into(),
            value,
            unit: unit.into(),
            target: None,
            holds: None,
            label: label.into(),
            at_least: false,
        });
    }

    /// A figure that must be at most `target`.
    pub fn at_most(&mut self, name: &str, label: &str, value: f64, unit: &'static str, target: f64) {
        let holds = Some(value <= target);
        self.0.push(Figure {
            name: name.into(),
            value,
            unit: unit.into(),
            target: Some(target),
            holds,
            label: label.into(),
            at_least: false,
        });
    }

    /// A figure that must be at least `target`.
    pub fn at_least(&mut self, name: &str, label: &str, value: f64, unit: &'static str, target: f64) {
        let holds = Some(value >= target);
        self.0.push(Figure {
            name: name.into(),
            value,
            unit: unit.into(),
            target: Some(target),
            holds,
            label: label.into(),
            at_least: true,
        });
    }

    #[must_use]
    pub fn all(&self) -> &[Figure] {
        &self.0
    }

    /// As a Markdown table.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut table = Table::new(&["figure", "value", "unit", "target", "holds", "name"]);
        for figure in &self.0 {
            table.row([
                figure.label.clone(),
                number(figure.value),
                figure.unit.clone(),
                figure
                    .target
                    .map(|target| {
                        let limit = if figure.at_least { "at least" } else { "at most" };
                        format!("{limit} {}", number(target))
                    })
                    .unwrap_or_default(),
                figure
                    .holds
                    .map(|holds| if holds { "yes" } else { "NO" }.to_owned())
                    .unwrap_or_default(),
                format!("`{}`", figure.name),
            ]);
        }
        table.markdown()
    }

    /// Writes them as a JSON array.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(&self.0).context(|| "cannot write JSON".to_owned())?;
        std::fs::write(path, text + "\n").context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests;
