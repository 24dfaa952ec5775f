//! `amita-sim scale`.

use super::calibrate::{self, Measured};
use super::report::{Options, Report, insert};
use std::io::{IsTerminal, Write};

/// What the command is told.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// The JSON of a bench: figures to calibrate with.
    pub calibrate: Option<String>,
    /// `3,10,100`: how many nodes.
    pub nodes: Option<String>,
    /// Only tables with this in their title.
    pub only: Option<String>,
    /// A document to put the tables into; none: they are printed.
    pub write: Option<String>,
}

/// Runs it; false when the model is further from a measured figure than it should be.
///
/// # Errors
/// A file cannot be read or written, or an argument makes no sense.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut options = Options::usual();
    if let Some(path) = &arguments.calibrate {
        let text = std::fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))?;
        options.measured = Measured::parse(&text).map_err(|why| format!("{path}: {why}"))?;
    }
    if let Some(nodes) = &arguments.nodes {
        let parsed: Result<Vec<usize>, _> = nodes.split(',').map(str::parse).collect();
        options.nodes = parsed.map_err(|_| format!("{nodes:?} is no list of numbers; write for example 3,10"))?;
        if options.nodes.iter().any(|&nodes| !(3..=2000).contains(&nodes)) {
            return Err(
                "3 to 2,000 nodes are possible: three copies need three, and larger plans take hours".to_owned(),
            );
        }
    }
    let live = std::io::stderr().is_terminal();
    let tell = |what: &str| {
        if live {
            let _ = write!(std::io::stderr(), "\r{what:60}");
        }
    };
    if arguments.only.is_some() && arguments.write.is_some() {
        return Err("a document gets all tables, not --only some".to_owned());
    }
    let only = arguments.only.as_deref().unwrap_or_default();
    let tables = Report::new(&options, &tell).tables(only);
    tell("");
    match &arguments.write {
        None => print!("{tables}"),
        Some(path) => {
            let document = std::fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))?;
            let document = insert(&document, &tables).map_err(|why| format!("{path}: {why}"))?;
            std::fs::write(path, document).map_err(|why| format!("{path}: {why}"))?;
            println!("the tables of {path} are new");
        }
    }
    let (costs, _) = calibrate::fit(&options.measured);
    let mut good = true;
    for compared in calibrate::compare(&costs, &options.measured) {
        if compared.off().abs() > calibrate::TOLERANCE {
            good = false;
            eprintln!(
                "{}: measured {:.2}, by the model {:.2}",
                compared.figure.name, compared.measured, compared.predicted
            );
        }
    }
    Ok(good)
}
