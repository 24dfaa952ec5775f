//! The program `amita`: see the library of the same name.

use amita::{cli, logging};
use amita_terminal::error::Kind;
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    logging::start(cli.log.into());
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Whoever has closed the pipe knows. And nobody is left to tell when standard error is gone.
            if failure.kind != Kind::Unread {
                let _ = writeln!(std::io::stderr(), "amita: {failure}");
            }
            failure.exit_code()
        }
    }
}
