//! A whole run as it is kept: the machine, the units, the figures and the rows.

use crate::machine::Machine;
use crate::report::Figure;
use crate::row::Row;
use amita_terminal::error::{Context, Failure, Kind, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where runs that are to be kept are appended, below the repository's root.
pub const RESULTS: &str = "docs/benchmarks/results";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The machine, and when.
    pub machine: Machine,
    /// What the stores lay on: one kind in a run.
    pub backing: String,
    /// P in microseconds.
    pub p_us: f64,
    /// R in microseconds.
    pub r_us: f64,
    /// The figures with their targets.
    pub figures: Vec<Figure>,
    /// The cases.
    pub rows: Vec<Row>,
}

impl Run {
    /// Writes it to a file of its own.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        make_folder_of(path)?;
        let text = serde_json::to_string_pretty(self).context(|| "cannot write JSON".to_owned())?;
        std::fs::write(path, text + "\n").context(|| format!("cannot write {}", path.display()))
    }

    /// Appends it, as one line, to the file of machines of this kind in `folder`. Returns the file's path.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn append(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("{}.jsonl", self.machine.kind()));
        make_folder_of(&path)?;
        let line = serde_json::to_string(self).context(|| "cannot write JSON".to_owned())?;
        let file = std::fs::File::options().create(true).append(true).open(&path);
        file.and_then(|mut file| writeln!(file, "{line}"))
            .context(|| format!("cannot append to {}", path.display()))?;
        Ok(path)
    }

    /// Reads a run: `FILE`, whether it holds one run, the array of figures, or a run a line, of which the last is taken;
    /// `FILE#N` is the line N.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(name: &str) -> Result<Run> {
        let (path, wanted) = match name.rsplit_once('#') {
            Some((path, line)) if !Path::new(name).exists() => {
                let line: usize = line.parse().map_err(|_| {
                    Failure::new(format!("{name}: what stands after # is the number of a line")).kind(Kind::Usage)
                })?;
                (path, Some(line))
            }
            _ => (name, None),
        };
        let text = std::fs::read_to_string(path).context(|| format!("cannot read {path}"))?;
        parse(&text, wanted).context(|| format!("cannot read {path}"))
    }
}

fn parse(text: &str, wanted: Option<usize>) -> std::result::Result<Run, String> {
    if wanted.is_none() {
        if let Ok(run) = serde_json::from_str::<Run>(text) {
            return Ok(run);
        }
        if let Ok(figures) = serde_json::from_str::<Vec<Figure>>(text) {
            return Ok(Run {
                figures,
                ..Run::default()
            });
        }
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let line = match wanted {
        Some(number) => number.checked_sub(1).and_then(|index| lines.get(index)),
        None => lines.last(),
    };
    let line = line.ok_or_else(|| format!("it has {} lines", lines.len()))?;
    serde_json::from_str(line).map_err(|error| format!("no run of the benchmark: {error}"))
}

fn make_folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Run, parse};
    use crate::machine::Machine;
    use crate::report::Figures;

    fn run(p_us: f64) -> Run {
        let mut figures = Figures::default();
        figures.at_most("a.b", "label", 1.0, "P", 2.0);
        Run {
            machine: Machine::here(),
            p_us,
            // What is read back has no words for people.
            figures: serde_json::from_value(serde_json::to_value(figures.all()).expect("JSON")).expect("figures"),
            ..Run::default()
        }
    }

    #[test]
    fn runs_are_appended_and_found_by_their_line() {
        let folder = tempfile::tempdir().expect("a folder");
        // It has the time in it.
        let last = run(2.0);
        let path = run(1.0).append(folder.path()).expect("appended");
        last.append(folder.path()).expect("appended");
        let path = path.display().to_string();
        assert_eq!(Run::read(&path).expect("the last"), last);
        assert_eq!(Run::read(&format!("{path}#1")).expect("the first").p_us, 1.0);
        assert!(
            Run::read(&format!("{path}#3"))
                .expect_err("none")
                .what
                .contains("2 lines")
        );
        assert!(Run::read(&format!("{path}#x")).is_err());
    }

    #[test]
    fn a_run_alone_and_an_array_of_figures_are_read_too() {
        // Made once: it has the time in it.
        let run = run(3.0);
        let text = serde_json::to_string_pretty(&run).expect("JSON");
        assert_eq!(parse(&text, None).expect("a run"), run);
        let figures = serde_json::to_string_pretty(&run.figures).expect("JSON");
        assert_eq!(parse(&figures, None).expect("figures").figures, run.figures);
        assert!(parse("[1, 2]", None).is_err() && parse("", None).is_err());
    }
}
