//! The program `amita`: see the library of the same name.

use amita::{cli, logging};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    logging::start(cli.log.into());
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("amita: {failure}");
            failure.exit_code()
        }
    }
}
