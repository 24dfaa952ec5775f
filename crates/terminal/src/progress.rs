//! What a long command is at: a line a step, and a bar for what has a known length.

use crate::capture;
use crate::error::Result;
pub use indicatif::ProgressBar;
use indicatif::ProgressStyle;
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// The steps of a command, each with its time, on standard error.
#[derive(Debug)]
pub struct Steps {
    start: Instant,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps::new()
    }
}

impl Steps {
    /// Starts the clock.
    #[must_use]
    pub fn new() -> Steps {
        Steps { start: Instant::now() }
    }

    /// Does one step and says so.
    ///
    /// # Errors
    /// The step's.
    pub fn step<T>(&mut self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = Instant::now();
        // On a terminal the line stands while the work goes on; in a file it comes once, when it is done.
        let terminal = std::io::stderr().is_terminal();
        if terminal {
            // A terminal that cannot be written to shows nothing, and the work is what counts.
            let _ = write!(std::io::stderr(), "  ...    {what}").and_then(|()| std::io::stderr().flush());
        }
        let result = work();
        let mark = if result.is_ok() { "     " } else { " FAILED" };
        let back = if terminal { "\r" } else { "" };
        let seconds = before.elapsed().as_secs_f64();
        let _ = writeln!(std::io::stderr(), "{back}{seconds:>6.1} s {what}{mark}");
        result
    }

    /// Since the start, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

/// A bar over `bytes`; hidden when standard error is no terminal.
#[must_use]
pub fn bar(what: &str, bytes: u64) -> ProgressBar {
    if capture::is_on() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes).with_message(what.to_owned());
    let template = "{msg} [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// A bar over things that are counted, whose number is not known yet; hidden when standard error is no terminal.
#[must_use]
pub fn counted() -> ProgressBar {
    if capture::is_on() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}, {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
