//! Two runs side by side: what has changed by more than runs of the same differ.

use crate::record::Run;
use crate::report::Figure;
use crate::row::{Row, show};
use amita_terminal::table::Table;
use std::fmt;

/// Two runs of the same on a quiet machine differ by so much, whatever chance within one run says: where memory lies, which
/// processor takes an interrupt, what the host does.
const DRIFT: f64 = 0.05;
/// Latencies' tails and what is counted over short times differ by more.
const TAIL_DRIFT: f64 = 0.2;

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B is better, beyond the noise.
    Better,
    /// B is worse, beyond the noise.
    Worse,
    /// Within the noise.
    Same,
    /// One of the two was disturbed, or is zero: it says nothing.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Same => "",
            Verdict::Unknown => "?",
        })
    }
}

/// Judges B against A, where both may be off by `noise` of themselves.
#[must_use]
pub fn verdict(a: f64, b: f64, noise: f64, more_is_better: bool) -> Verdict {
    if !(a > 0.0 && b > 0.0) {
        return Verdict::Unknown;
    }
    let change = (b / a).ln();
    if change.abs() <= (1.0 + noise).ln() {
        Verdict::Same
    } else if (change > 0.0) == more_is_better {
        Verdict::Better
    } else {
        Verdict::Worse
    }
}

/// What may be noise between two rows' rates: what runs differ by, or twice the chance of both together.
fn rate_noise(a: &Row, b: &Row) -> f64 {
    DRIFT.max(2.0 * (a.noise.powi(2) + b.noise.powi(2)).sqrt())
}

/// As Markdown: what A and B have in common, rows first, then figures; and what only one has, by name.
#[must_use]
pub fn markdown(a: &Run, b: &Run) -> String {
    let mut out = format!(
        "A: {}; {}; P {} us, R {} us\nB: {}; {}; P {} us, R {} us\n",
        a.machine.describe(),
        a.backing,
        show(a.p_us),
        show(a.r_us),
        b.machine.describe(),
        b.backing,
        show(b.p_us),
        show(b.r_us)
    );
    if a.backing != b.backing {
        out.push_str("\nThe stores lay on different things: the figures cannot be compared.\n");
    }
    if a.machine.kind() != b.machine.kind() {
        out.push_str("\nThe machines differ: only what is in P and R can be compared.\n");
    }
    let rows = rows(a, b);
    if !rows.is_empty() {
        out.push('\n');
        out.push_str(&rows);
    }
    let figures = figures(a, b);
    if !figures.is_empty() {
        out.push('\n');
        out.push_str(&figures);
    }
    out
}

fn rows(a: &Run, b: &Run) -> String {
    let mut table = Table::new(&[
        "case", "IOPS A", "B", "B/A", "", "CPU P A", "B", "B/A", "", "p50 us A", "B", "", "p99 us A", "B", "",
    ]);
    let mut some = false;
    for one in &a.rows {
        // The last of a name counts, in both: it may have been measured again.
        let is_last = a.rows.iter().rev().find(|row| row.key == one.key) == Some(one);
        let Some(other) = b.rows.iter().rev().find(|row| row.key == one.key).filter(|_| is_last) else {
            continue;
        };
        some = true;
        let noise = rate_noise(one, other);
        let unsure = one.disturbed || other.disturbed;
        let judge = |a: f64, b: f64, noise: f64, more_is_better: bool| {
            let found = verdict(a, b, noise, more_is_better);
            if unsure { Verdict::Unknown } else { found }.to_string()
        };
        let (first, second) = (one.latency(), other.latency());
        table.row([
            format!("`{}`", one.key),
            format!("{:.0}", one.iops),
            format!("{:.0}", other.iops),
            ratio(one.iops, other.iops),
            judge(one.iops, other.iops, noise, true),
            show(one.cpu_p),
            show(other.cpu_p),
            ratio(one.cpu_p, other.cpu_p),
            judge(one.cpu_p, other.cpu_p, noise, false),
            show(first.p50),
            show(second.p50),
            judge(first.p50, second.p50, noise, false),
            show(first.p99),
            show(second.p99),
            judge(first.p99, second.p99, noise.max(TAIL_DRIFT), false),
        ]);
    }
    if some { table.markdown() } else { String::new() }
}

fn figures(a: &Run, b: &Run) -> String {
    let mut table = Table::new(&["figure", "A", "B", "unit", "B/A", "", "target", "holds"]);
    let mut some = false;
    let find = |run: &'_ Run, name: &str| run.figures.iter().rev().find(|figure| figure.name == name).cloned();
    for one in &a.figures {
        let Some(other) = find(b, &one.name) else { continue };
        some = true;
        // Without a target nobody has said which way is better.
        let better = more_is_better(&other).or_else(|| more_is_better(one));
        let verdict = match better {
            Some(more) => verdict(one.value, other.value, 2.0 * DRIFT, more).to_string(),
            None => String::new(),
        };
        let holds = |figure: &Figure| match figure.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let (before, after) = (holds(one), holds(&other));
        table.row([
            format!("`{}`", one.name),
            show(one.value),
            show(other.value),
            one.unit.clone(),
            ratio(one.value, other.value),
            verdict,
            other.target.map(show).unwrap_or_default(),
            if before == after {
                after.to_owned()
            } else {
                format!("{before} -> {after}")
            },
        ]);
    }
    let only = |x: &Run, y: &Run| {
        let names = x.figures.iter().filter(|figure| find(y, &figure.name).is_none());
        names.map(|figure| format!("`{}`", figure.name)).collect::<Vec<_>>()
    };
    let mut out = if some { table.markdown() } else { String::new() };
    for (name, list) in [("A", only(a, b)), ("B", only(b, a))] {
        if !list.is_empty() {
            out.push_str(&format!("\nOnly in {name}: {}.\n", list.join(", ")));
        }
    }
    out
}

/// Is the target a limit from below? A figure that holds above it, or fails below it, says so.
fn more_is_better(figure: &Figure) -> Option<bool> {
    let (target, holds) = (figure.target?, figure.holds?);
    (figure.value != target).then_some((figure.value > target) == holds)
}

fn ratio(a: f64, b: f64) -> String {
    if a > 0.0 {
        format!("{:.2}", b / a)
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests;
