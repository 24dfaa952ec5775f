//! The program `amita-bench`: see the library of the same name.

use amita_terminal::error::Kind;
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    amita::panics::install();
    amita::logging::start(log::LevelFilter::Info);
    match amita_bench::run(&amita_bench::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Whoever has closed the pipe knows. And nobody is left to tell when standard error is gone.
            if failure.kind != Kind::Unread {
                let _ = writeln!(std::io::stderr(), "amita-bench: {failure}");
            }
            failure.exit_code()
        }
    }
}
