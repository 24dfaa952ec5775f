//! The program `amita`: see the library of the same name.

use amita::{cli, logging};
use amita_terminal::error::{Failure, Kind};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (cli, as_json) = match cli::read(std::env::args_os()) {
        Ok(read) => read,
        Err(cli::Unread::Told(error)) => error.exit(),
        Err(cli::Unread::Json(failure)) => return told(&failure, true),
    };
    logging::start(cli.log.into());
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => told(&failure, as_json),
    }
}

/// Says on standard error why it did not work, as a script or a person reads it.
fn told(failure: &Failure, as_json: bool) -> ExitCode {
    let text = match as_json {
        true => failure.json(),
        false => format!("amita: {failure}"),
    };
    // Whoever has closed the pipe knows. A state that was asked for has been said. And nobody is left to tell when standard error is gone.
    if failure.kind != Kind::Unread && !failure.is_said() {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    failure.exit_code()
}
