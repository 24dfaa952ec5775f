//! Prints the state of a cluster as JSON: `cargo run -p amita-control --example status -- http://127.0.0.1:2379`.

use amita_control::admin;
use amita_metadata::Client;
use std::process::ExitCode;

fn main() -> ExitCode {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    if endpoints.is_empty() {
        eprintln!("usage: status ENDPOINT...   (http://HOST:PORT of the metadata servers)");
        return ExitCode::from(2);
    }
    let status = Client::connect(&endpoints)
        .map_err(admin::AdminError::from)
        .and_then(|meta| admin::status(&meta));
    match status {
        Ok(status) => {
            println!("{}", serde_json::to_string_pretty(&status).expect("plain data"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
