//! `amita status --check`: one line and an exit code, as plugins of monitoring systems have it (Nagios, Icinga, Zabbix and others).

use amita_control::admin::Status;
use amita_control::health::{Space, sentence};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::output;

/// What a plugin says: its word, and the sort of failure whose exit code is its own (1, 2, 3).
fn judged(status: &Status) -> (&'static str, Option<Kind>) {
    match status.health {
        "ok" => ("OK", None),
        "degraded" => ("WARNING", Some(Kind::Failed)),
        // And any word that only a newer version knows.
        _ => ("CRITICAL", Some(Kind::Unreadable)),
    }
}

/// Prints the line.
///
/// # Errors
/// Not all is well, or it is not known: the line has said so.
pub(super) fn run(looked: &Result<Status>) -> Result<()> {
    let (line, kind) = match looked {
        Ok(status) => {
            let (word, kind) = judged(status);
            (line(word, &sentence(status), &figures(status)), kind)
        }
        Err(failure) => (line("UNKNOWN", &failure.what, ""), Some(Kind::Unreachable)),
    };
    output::text(format_args!("{line}\n"))?;
    match kind {
        None => Ok(()),
        Some(kind) => Err(Failure::said(kind)),
    }
}

/// One line: what is behind a bar are figures.
fn line(word: &str, text: &str, figures: &str) -> String {
    let text = text.replace('|', "/");
    let text: Vec<&str> = text.split_whitespace().collect();
    let figures = match figures {
        "" => String::new(),
        figures => format!(" | {figures}"),
    };
    format!("{word} - {}{figures}", text.join(" "))
}

fn figures(status: &Status) -> String {
    let mut figures = vec![
        format!("nodes={}", status.nodes.iter().filter(|found| found.alive).count()),
        format!("stores={}", status.stores.iter().filter(|found| found.alive).count()),
        format!("volumes={}", status.volumes.len()),
        format!("facts={}", status.facts.len()),
    ];
    if let Some(percent) = Space::of(&status.stores).used_percent() {
        figures.push(format!("used={percent}%"));
    }
    figures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::tests::status;

    #[test]
    fn words_and_exit_codes_are_those_of_plugins() {
        let codes = ["ok", "degraded", "blocked", "of-tomorrow"].map(|health| {
            let (word, kind) = judged(&status(health));
            (word, kind.map_or(0, Kind::code))
        });
        let expected = [("OK", 0), ("WARNING", 1), ("CRITICAL", 2), ("CRITICAL", 2)];
        assert_eq!(codes, expected);
        let away = Err(Failure::new("the metadata\nis away").kind(Kind::Unreachable));
        let failed = run(&away).expect_err("not known");
        assert!(failed.is_said() && failed.kind.code() == 3, "{failed:?}");
        let denied = Err(Failure::new("who asks may not"));
        assert_eq!(run(&denied).expect_err("not known").kind.code(), 3);
    }

    #[test]
    fn it_is_one_line_whatever_is_said() {
        let said = line("UNKNOWN", "no | answer\n  at all", "");
        assert_eq!(said, "UNKNOWN - no / answer at all");
        let status = status("ok");
        let said = line("OK", &sentence(&status), &figures(&status));
        assert_eq!(
            said,
            "OK - All is well: 0 nodes, 0 stores, 0 volumes. | nodes=0 stores=0 volumes=0 facts=0"
        );
    }
}
