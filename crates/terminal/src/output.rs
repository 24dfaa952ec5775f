//! What a command answers, on standard output. Nobody may be there to read it (`amita list | head -1`), or there may be no
//! room (`> /mnt/full/list`): neither is a fault of the program, and both are said by the exit code.

use crate::capture;
use crate::error::{Context, Failure, Kind, Result};
use serde::Serialize;
use std::fmt;
use std::io::{ErrorKind, Write};

/// Writes a text as [`shown`] makes it: much of it comes from records and machines that somebody else may have written.
///
/// # Errors
/// See [`failed`].
pub fn text(text: fmt::Arguments<'_>) -> Result<()> {
    raw(&shown(&text.to_string()))
}

/// Writes what the program itself has to say to a terminal, as it is.
///
/// # Errors
/// See [`failed`].
pub fn raw(text: &str) -> Result<()> {
    if let Some(taken) = capture::output(text) {
        return taken;
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|why| failed(&why))
}

/// The same text, with a sign in the place of all that a terminal would obey instead of showing it, but for the ends of lines.
#[must_use]
pub fn shown(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(amita_audit::plain).collect();
    lines.join("\n")
}

/// Writes a value as JSON, with a newline. What a terminal would obey is escaped in it, so that its reader gets it as it was.
///
/// # Errors
/// See [`failed`].
pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    let json = serde_json::to_string_pretty(value).context(|| "cannot write JSON".to_owned())?;
    raw(&format!("{}\n", amita_audit::inert(&json)))
}

/// The same in one line.
///
/// # Errors
/// See [`failed`].
pub fn json_line<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    let json = serde_json::to_string(value).context(|| "cannot write JSON".to_owned())?;
    raw(&format!("{}\n", amita_audit::inert(&json)))
}

/// Says something beside the answer, on standard error. Nobody is left to tell where that is gone.
pub fn beside(text: &str) {
    let text = shown(text);
    if !capture::beside(&text) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// Why an answer could not be written: [`Kind::Unread`] where whoever reads has gone, which is no news to anybody.
#[must_use]
pub fn failed(why: &std::io::Error) -> Failure {
    if why.kind() == ErrorKind::BrokenPipe {
        return Failure::new("whoever read the answer has gone").kind(Kind::Unread);
    }
    Failure::new(format!("cannot write the answer to standard output: {why}"))
        .advice("What was to be changed has been changed: look at it, and do not do it again.")
}

/// As `print!`, but what cannot be written ends the function with a [`Failure`].
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => {
        $crate::output::text(format_args!($($arguments)*))?
    };
}

/// As `println!`, but what cannot be written ends the function with a [`Failure`].
#[macro_export]
macro_rules! say_line {
    () => {
        $crate::output::text(format_args!("\n"))?
    };
    ($($arguments:tt)*) => {
        $crate::output::text(format_args!("{}\n", format_args!($($arguments)*)))?
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_not_written() {
        let text = "a\u{1b}[2Jb\nc\u{9b}31m\u{202e}d\u{7f}\r\u{7}é\n";
        assert_eq!(
            shown(text),
            "a\u{fffd}[2Jb\nc\u{fffd}31m\u{fffd}d\u{fffd}\u{fffd}\u{fffd}é\n"
        );
        assert_eq!(shown("one\ntwo"), "one\ntwo");
        let failure = Failure::new("n1: \u{1b}]52;c;Zg==\u{7}").advice("look at\u{9b}it");
        assert_eq!(
            failure.to_string(),
            "n1: \u{fffd}]52;c;Zg==\u{fffd}\n  look at\u{fffd}it"
        );
    }
}
