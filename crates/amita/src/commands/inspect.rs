//! `amita inspect`: what an experienced operator would look at, with what was found, and what could not be looked at.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_inspect::report::moment;
use amita_inspect::{Report, Severity, gather, html, inspect};
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::table::print;
use amita_terminal::{output, say_line};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// `amita inspect`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one line for a monitoring system, and say it by the exit code: 0 nothing or notices, 1 a warning, 2 critical, 3 not known
    #[arg(long, conflicts_with_all = ["html", "json"])]
    pub check: bool,
    /// Write it into this file, as a page for a browser that loads nothing from elsewhere
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Inspects the cluster.
///
/// # Errors
/// When the metadata cannot be reached, or the file cannot be written; with `--check`, when something is to be mended.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let looked = Admin::connect(metadata).and_then(|admin| look(&admin));
    if arguments.check {
        return check(&looked);
    }
    let report = looked?;
    if let Some(file) = &arguments.html {
        write_new(file, html::page(&report).as_bytes())?;
        say_line!("{}: {}", file.display(), report.sentence());
        return Ok(());
    }
    print(arguments.json, &report, || report.text())
}

/// Gathers and judges.
///
/// # Errors
/// The metadata cannot be reached, or holds no cluster.
pub(super) fn look(admin: &Admin) -> Result<Report> {
    let facts = gather(&admin.reader(), now()).described()?;
    Ok(inspect(&facts))
}

pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Writes a file that was not there, for its owner alone: it says much about a cluster.
///
/// # Errors
/// There is one of that name, or it cannot be written.
pub(super) fn write_new(file: &Path, bytes: &[u8]) -> Result<()> {
    let opened = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    let mut opened = match opened {
        Ok(opened) => opened,
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Failure::new(format!("{} is there already", file.display()))
                .kind(Kind::Conflict)
                .advice("Name another file, or move it away."));
        }
        Err(why) => return Err(Failure::new(format!("{}: {why}", file.display()))),
    };
    opened
        .write_all(bytes)
        .and_then(|()| opened.sync_all())
        .context(|| format!("{} cannot be written", file.display()))
}

/// One line and an exit code, as plugins of monitoring systems have it.
fn check(looked: &Result<Report>) -> Result<()> {
    let (word, text, kind) = match looked {
        Ok(report) => {
            let worst = report.findings.first();
            let first = worst.map_or_else(String::new, |found| {
                format!("; {} at {}: {}", found.code, found.place, found.reason)
            });
            let (word, kind) = match report.worst {
                None | Some(Severity::Notice) => ("OK", None),
                Some(Severity::Warning) => ("WARNING", Some(Kind::Failed)),
                Some(Severity::Critical) => ("CRITICAL", Some(Kind::Unreadable)),
            };
            (word, format!("{}{first}", report.sentence()), kind)
        }
        Err(failure) => ("UNKNOWN", failure.what.clone(), Some(Kind::Unreachable)),
    };
    let text: Vec<&str> = text.split_whitespace().collect();
    let counts = looked.as_ref().map_or_else(
        |_| String::new(),
        |report| {
            format!(
                " | critical={} warnings={} notices={} not_looked_at={}",
                report.count(Severity::Critical),
                report.count(Severity::Warning),
                report.count(Severity::Notice),
                report.not_looked_at.len()
            )
        },
    );
    output::text(format_args!("{word} - {}{counts}\n", text.join(" ").replace('|', "/")))?;
    match kind {
        None => Ok(()),
        Some(kind) => Err(Failure::said(kind)),
    }
}

/// When a report was made, as people read it.
pub(super) fn made(report: &Report) -> String {
    moment(report.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_inspect::sheet::Sheet;
    use amita_inspect::{Code, Place};

    fn report(found: &[Code]) -> Report {
        let mut sheet = Sheet::default();
        for code in found {
            sheet.find(*code, Place::node("n1"), "seen | with a bar");
        }
        sheet.finish("9".to_owned(), 1_800_000_000)
    }

    #[test]
    fn exit_codes_are_those_of_plugins() {
        let code = |looked: &Result<Report>| {
            check(looked).map_or_else(|failure| (failure.is_said(), failure.kind.code()), |()| (true, 0))
        };
        assert_eq!(code(&Ok(report(&[]))), (true, 0));
        assert_eq!(code(&Ok(report(&[Code::SwapOn]))), (true, 0));
        assert_eq!(code(&Ok(report(&[Code::SwapOn, Code::NicErrors]))), (true, 1));
        assert_eq!(code(&Ok(report(&[Code::NicErrors, Code::DiskReadOnly]))), (true, 2));
        assert_eq!(code(&Err(Failure::new("away").kind(Kind::Unreachable))), (true, 3));
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("page.html");
        write_new(&file, b"one").expect("written");
        let refused = write_new(&file, b"two").expect_err("it is there");
        assert_eq!(
            (refused.kind, std::fs::read(&file).expect("a file")),
            (Kind::Conflict, b"one".to_vec())
        );
    }
}
