//! The conformance suite against the target of this repository.

mod common;

use amita_nvme_host::conformance::{Report, Verdict, run};
use common::Target;

/// Where the target departs from the letter, and why.
const KNOWN: &[(&str, &str)] = &[];
/// Cases that have nothing to try at this target. Any other that is skipped is a feature that was lost.
const NOT_THERE: &[&str] = &[
    "connect.without-authentication",
    "connect.disconnect-not-supported",
    "block.optional-not-there",
    "block.copy-not-there",
    "fused.not-there",
    "block.copy-limits",
    "life.keep-alive-by-traffic",
];

fn check(report: &Report) {
    let mut surprises = Vec::new();
    for line in &report.lines {
        let known = KNOWN.iter().any(|(name, _)| *name == line.name);
        match &line.outcome {
            Ok(()) if known => surprises.push(format!("{} passes: it is no longer a known fault", line.name)),
            Err(Verdict::Failed(_)) if !known => surprises.push(line.to_string()),
            Err(Verdict::Skipped(_)) if !NOT_THERE.contains(&line.name.as_str()) => surprises.push(line.to_string()),
            _ => {}
        }
    }
    println!("{report}");
    assert!(surprises.is_empty(), "{report}\n{}", surprises.join("\n"));
}

#[test]
fn the_target_conforms() {
    let target = Target::start();
    let report = run(&target.options(1), |_| {});
    check(&report);
    assert!(report.passed() >= 340, "{report}");
}

#[test]
fn the_target_conforms_with_blocks_of_512_bytes() {
    let target = Target::start();
    let mut options = target.options(2);
    options.only = ["block.", "transfer.", "fused.", "atomic.", "reservation."]
        .map(String::from)
        .to_vec();
    check(&run(&options, |_| {}));
}
