//! `amita store check`.

use super::{CheckArguments, open, show};
use amita_store::offline::{self, CheckOptions, Problem, Report};
use amita_terminal::error::{Failure, Result};
use amita_terminal::progress;
use serde_json::json;

pub(super) fn run(arguments: &CheckArguments) -> Result<()> {
    let common = &arguments.common;
    let file = open::file(&common.path)?;
    let options = CheckOptions {
        data: arguments.data,
        most: arguments.most.max(1),
    };
    let bar = progress::counted();
    let report = offline::check(&file, &open::config(common), &options, &mut |progress| {
        bar.set_message(progress.what);
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    if let [Problem::Refused(error)] = &report.problems[..] {
        let failure = open::refused(&common.path, error);
        if failure.kind == amita_terminal::error::Kind::Unreadable {
            return Err(failure);
        }
    }
    let shown = common.path.display().to_string();
    if common.json {
        show::print(&[show::report(&shown, &report)])?;
    } else {
        show::print_text(&text(&shown, &report, arguments.data))?;
    }
    if report.is_clean() {
        return Ok(());
    }
    let count = report.problems.len() as u64 + report.more;
    Err(Failure::new(format!("{shown} has {}", problems(count))))
}

fn problems(count: u64) -> String {
    format!("{count} problem{}", if count == 1 { "" } else { "s" })
}

fn text(shown: &str, report: &Report, data: bool) -> String {
    let seen = report.seen;
    let mut out = String::new();
    if report.mount.is_some() {
        out.push_str(&format!(
            "{} chunks, {} of them clones, with {} states for snapshots\n",
            seen.chunks, seen.clones, seen.states
        ));
        out.push_str(&format!(
            "{} leaves, {} of them read, {} lost\n",
            seen.leaves, seen.leaf_pages_read, seen.leaves_lost
        ));
        out.push_str(&format!(
            "{} slots in use, {} of them shared, {} leaked ({} bytes)\n",
            seen.slots_held,
            seen.slots_shared,
            seen.slots_leaked,
            seen.slots_leaked * 4096
        ));
        let verified = seen.blocks_verified;
        out.push_str(&match data {
            true => format!("{verified} blocks of data read and compared\n"),
            false => "data not read (--data reads it)\n".to_owned(),
        });
    }
    for remark in &report.remarks {
        out.push_str(&format!("remark: {remark}\n"));
    }
    for problem in &report.problems {
        out.push_str(&format!("PROBLEM: {problem}\n"));
    }
    if report.more > 0 {
        out.push_str(&format!("and {} not listed\n", problems(report.more)));
    }
    if report.is_clean() {
        out.push_str(&format!("{shown} is clean\n"));
    }
    out
}

/// The report for scripts.
pub(super) fn value(path: &str, report: &Report) -> serde_json::Value {
    let list = |problems: &[Problem]| -> Vec<serde_json::Value> {
        let of = problems.iter();
        of.map(|problem| json!({ "kind": problem.kind(), "offset": problem.offset(), "what": problem.to_string() }))
            .collect()
    };
    let seen = report.seen;
    json!({
        "path": path,
        "clean": report.is_clean(),
        "problems": list(&report.problems),
        "problems_not_listed": report.more,
        "remarks": list(&report.remarks),
        "seen": {
            "chunks": seen.chunks,
            "clones": seen.clones,
            "states": seen.states,
            "state_pages": seen.state_pages,
            "leaves": seen.leaves,
            "leaf_pages_read": seen.leaf_pages_read,
            "leaves_lost": seen.leaves_lost,
            "entries": seen.entries,
            "slots_held": seen.slots_held,
            "slots_shared": seen.slots_shared,
            "slots_leaked": seen.slots_leaked,
            "blocks_verified": seen.blocks_verified,
        },
        "mount": report.mount.as_ref().map(show::mount),
    })
}
