//! `amita status --watch`: the same again and again. On a terminal it stands still and changes; on a pipe each change is printed.

use super::forecast::Known;
use super::{Shown, text};
use crate::admin::Admin;
use crate::cli::Endpoints;
use crate::logging::timestamp;
use amita_control::admin::Status;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::{interrupt, output};
use std::io::IsTerminal;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);
/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// What is left of a line is cleared.
const END_OF_LINE: &str = "\x1b[K\n";
/// All below is cleared.
const CLEAR_BELOW: &str = "\x1b[J";

/// Shows it until the command is ended.
///
/// # Errors
/// The metadata may not be spoken to; nobody reads it. That the metadata is away for a while is shown, and is no reason to end.
pub(super) fn run(as_json: bool, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let mut known = Known::default();
    again(as_json, || {
        Ok(match &admin.status() {
            Ok(status) if as_json => json(status)?,
            Ok(status) => text(status, known.now(status, metadata)),
            Err(failure) => not_known(failure, as_json),
        })
    })
}

/// Why there is nothing to be shown.
pub(super) fn not_known(failure: &Failure, as_json: bool) -> String {
    match as_json {
        true => failure.json(),
        false => format!("Not known: {failure}\n"),
    }
}

/// Looks again and again, and shows it, until the command is ended.
pub(super) fn again(as_json: bool, mut look: impl FnMut() -> Result<String>) -> Result<()> {
    interrupt::catch();
    let on_terminal = std::io::stdout().is_terminal();
    let mut last = String::new();
    while !interrupt::caught() {
        let shown = look()?;
        show(&shown, &mut last, as_json, on_terminal)?;
        match interrupt::sleep(EVERY) {
            Err(failure) if failure.kind == Kind::Interrupted => break,
            other => other?,
        }
    }
    Ok(())
}

fn json(status: &Status) -> Result<String> {
    serde_json::to_string(&Shown::of(status)).map_err(|why| Failure::new(format!("cannot write JSON: {why}")))
}

fn show(shown: &str, last: &mut String, as_json: bool, on_terminal: bool) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = timestamp(now.as_secs(), now.subsec_millis());
    if on_terminal && !as_json {
        let lines = output::shown(&format!("{now}  {shown}")).replace('\n', END_OF_LINE);
        return output::raw(&format!("{HOME}{lines}{CLEAR_BELOW}"));
    }
    let Some(change) = change(shown, last, as_json, &now) else {
        return Ok(());
    };
    output::raw(&change)
}

/// What is printed where something is not as it was a moment ago.
fn change(shown: &str, last: &mut String, as_json: bool, now: &str) -> Option<String> {
    if shown == last {
        return None;
    }
    shown.clone_into(last);
    Some(match as_json {
        true => format!("{}\n", amita_audit::inert(shown)),
        false => format!("{now}  {}\n", output::shown(shown)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_printed_on_a_pipe() {
        let mut last = String::new();
        let first = change("All is well.\n", &mut last, false, "12:00");
        assert_eq!(first.as_deref(), Some("12:00  All is well.\n\n"));
        assert_eq!(change("All is well.\n", &mut last, false, "12:01"), None);
        assert!(change("Not well.\n", &mut last, false, "12:02").is_some());
        let line = change("{}", &mut last, true, "12:03");
        assert_eq!(line.as_deref(), Some("{}\n"));
    }
}
