//! Runs the conformance suite against a target.

use amita_nvme_host::conformance::{self, Line, Options, Verdict};
use clap::Parser;
use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::time::Duration;

/// Tries an NVMe/TCP target against the specifications.
///
/// THE DATA OF THE NAMESPACE ARE DESTROYED. Each case is named, with the rule that it stands for; a case whose subject
/// the target has not is skipped. Exit status: 0 when nothing failed, 1 when something did.
#[derive(Parser)]
#[command(name = "nvme-conformance", max_term_width = 100)]
struct Arguments {
    /// The target's address
    #[arg(long, default_value = "127.0.0.1")]
    address: String,
    /// The target's port
    #[arg(long, default_value_t = 4420)]
    port: u16,
    /// The subsystem's NQN
    #[arg(long, required_unless_present = "list")]
    nqn: Option<String>,
    /// The namespace; without: the first that there is
    #[arg(long)]
    nsid: Option<u32>,
    /// The host that connects
    #[arg(long, value_name = "NQN")]
    host: Option<String>,
    /// A second host, for reservations
    #[arg(long, value_name = "NQN")]
    second_host: Option<String>,
    /// A host that the target does not admit
    #[arg(long, value_name = "NQN")]
    denied_host: Option<String>,
    /// A host that the target admits after authentication only
    #[arg(long, value_name = "NQN")]
    authenticated_host: Option<String>,
    /// Only cases whose name contains this; may be given several times
    #[arg(long)]
    only: Vec<String>,
    /// Seconds to wait for an answer
    #[arg(long, default_value_t = 10.0)]
    timeout: f64,
    /// Only say which cases there are
    #[arg(long)]
    list: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for case in conformance::cases() {
            println!(
                "{}\n    rule: {}\n    does: {}\n    expects: {}",
                case.name, case.rule, case.does, case.expects
            );
        }
        return ExitCode::SUCCESS;
    }
    let found = (arguments.address.as_str(), arguments.port)
        .to_socket_addrs()
        .map(|mut all| all.next());
    let address = match found {
        Ok(Some(address)) => address,
        Ok(None) => return fail(&format!("{} has no address", arguments.address)),
        Err(error) => return fail(&format!("cannot resolve {}: {error}", arguments.address)),
    };
    let mut options = Options::new(address, arguments.nqn.as_deref().unwrap_or_default());
    options.nsid = arguments.nsid;
    if let Some(host) = arguments.host {
        options.host = host;
    }
    if let Some(host) = arguments.second_host {
        options.second_host = host;
    }
    options.denied_host = arguments.denied_host;
    options.authenticated_host = arguments.authenticated_host;
    options.only = arguments.only;
    match Duration::try_from_secs_f64(arguments.timeout) {
        Ok(timeout) if !timeout.is_zero() => options.timeout = timeout,
        _ => return fail("--timeout wants a number of seconds above 0"),
    }
    let report = conformance::run(&options, |line| {
        if !arguments.json {
            println!("{line}");
        }
    });
    if arguments.json {
        let lines: Vec<_> = report.lines.iter().map(json).collect();
        println!("{}", serde_json::Value::Array(lines));
    } else {
        println!("{report}");
    }
    if report.failed().count() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("nvme-conformance: {message}");
    ExitCode::from(2)
}

fn json(line: &Line) -> serde_json::Value {
    let (outcome, why) = match &line.outcome {
        Ok(()) => ("passed", None),
        Err(Verdict::Failed(why)) => ("failed", Some(why)),
        Err(Verdict::Skipped(why)) => ("skipped", Some(why)),
        Err(_) => ("unknown", None),
    };
    serde_json::json!({
        "name": line.name,
        "rule": line.rule,
        "does": line.does,
        "expects": line.expects,
        "outcome": outcome,
        "why": why,
        "seconds": line.took.as_secs_f64(),
    })
}
