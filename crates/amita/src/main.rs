//! The program `amita`: see the library of the same name.

use amita::by_api::client;
use amita::{cli, logging, panics};
use amita_terminal::error::{Failure, Kind, Result};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    panics::install();
    let words: Vec<OsString> = std::env::args_os().collect();
    let (cli, as_json) = match cli::read(words.iter().cloned()) {
        Ok(read) => read,
        Err(cli::Unread::Told(error)) => error.exit(),
        Err(cli::Unread::Json(failure)) => return told(&failure, true),
    };
    logging::start(cli.log.into());
    match run(cli, &words) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => told(&failure, as_json),
    }
}

/// Does it here, or has a node do it; the exit code.
fn run(cli: cli::Cli, words: &[OsString]) -> Result<u8> {
    match client::is_sent(&cli.given)? {
        true => client::run(&cli, words),
        false => cli::run(cli).map(|()| 0),
    }
}

/// Says on standard error why it did not work, as a script or a person reads it.
fn told(failure: &Failure, as_json: bool) -> ExitCode {
    // Whoever has closed the pipe knows. A state that was asked for has been said. And nobody is left to tell when standard error is gone.
    if failure.kind != Kind::Unread && !failure.is_said() {
        let _ = writeln!(std::io::stderr(), "{}", failure.told(as_json));
    }
    failure.exit_code()
}
