//! A report as text.

use crate::sheet::{Report, Severity};
use std::fmt::Write as _;

/// Not looked at for one reason: so many places of it are named.
const NAMED: usize = 3;

/// A day, as people write it everywhere: `2026-11-26`, in UTC.
#[must_use]
pub fn day(at: u64) -> String {
    strftime(at, "%Y-%m-%d")
}

/// A moment: `2026-11-26 14:05 UTC`.
#[must_use]
pub fn moment(at: u64) -> String {
    strftime(at, "%Y-%m-%d %H:%M UTC")
}

fn strftime(at: u64, form: &str) -> String {
    let time = i64::try_from(at)
        .ok()
        .and_then(|at| jiff::Timestamp::from_second(at).ok());
    time.map_or_else(|| format!("{at} s after 1970"), |time| time.strftime(form).to_string())
}

impl Report {
    /// How many findings are of a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.severity == severity).count()
    }

    /// The whole in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let looked: usize = self.checks.iter().map(|check| check.looked_at).sum();
        let found = match self.worst {
            None => "nothing found".to_owned(),
            Some(_) => {
                let counts = [Severity::Critical, Severity::Warning, Severity::Notice]
                    .map(|severity| (self.count(severity), severity));
                let words = counts
                    .iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, severity)| format!("{count} {severity}"));
                words.collect::<Vec<_>>().join(", ")
            }
        };
        format!(
            "{found}; {looked} things looked at by {} checks, {} not looked at",
            self.checks.len(),
            self.not_looked_at.len()
        )
    }

    /// As text, for a terminal. Names and texts are those of records: whoever shows it keeps a terminal from obeying them.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("cluster {} at {}: {}\n", self.cluster, moment(self.at), self.sentence());
        for found in &self.findings {
            // Writing to a text cannot fail.
            let _ = write!(
                out,
                "\n{} {} at {}\n  {}\n  What to do: {}\n",
                found.severity, found.code, found.place, found.reason, found.mend
            );
        }
        out.push_str("\nlooked at:\n");
        for check in &self.checks {
            let _ = writeln!(
                out,
                "  {:<20} {:>5} looked at, {:>3} not, {:>3} found",
                check.title, check.looked_at, check.not_looked_at, check.found
            );
        }
        let reasons = self.blind_reasons();
        if !reasons.is_empty() {
            out.push_str("\nnot looked at:\n");
        }
        for (check, why, places) in reasons {
            let _ = writeln!(out, "  {check}: {why}: {places}");
        }
        out
    }

    /// The reasons for not having looked, each once, with where it was so.
    #[must_use]
    pub fn blind_reasons(&self) -> Vec<(&'static str, &str, String)> {
        let mut all: Vec<(&'static str, &str, Vec<String>)> = Vec::new();
        for blind in &self.not_looked_at {
            let place = blind.place.to_string();
            match all
                .iter_mut()
                .find(|(check, why, _)| (*check, *why) == (blind.check, blind.why.as_str()))
            {
                Some((_, _, places)) => places.push(place),
                None => all.push((blind.check, &blind.why, vec![place])),
            }
        }
        let named = |places: Vec<String>| match places.len() {
            count if count > NAMED => format!("{} and {} more", places[..NAMED].join(", "), count - NAMED),
            _ => places.join(", "),
        };
        all.into_iter()
            .map(|(check, why, places)| (check, why, named(places)))
            .collect()
    }
}
