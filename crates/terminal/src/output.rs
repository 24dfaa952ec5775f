//! What a command answers, on standard output. Nobody may be there to read it (`amita list | head -1`), or there may be no
//! room (`> /mnt/full/list`): neither is a fault of the program, and both are said by the exit code.

use crate::error::{Failure, Kind, Result};
use std::fmt;
use std::io::{ErrorKind, Write};

/// Writes a text as it is.
///
/// # Errors
/// See [`failed`].
pub fn text(text: fmt::Arguments<'_>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_fmt(text)
        .and_then(|()| out.flush())
        .map_err(|why| failed(&why))
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
