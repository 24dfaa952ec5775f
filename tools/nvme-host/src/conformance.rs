//! The conformance suite: cases that each name the rule they stand for, run against any target.
//!
//! A case connects for itself and leaves nothing behind but changed blocks: **the suite destroys the data of the
//! namespace that it is given.** Every case also checks every PDU that the target sends (`wire::Pdu::decode`) and the
//! bookkeeping of transfers ([`crate::Queue`]), whatever else it is about.
//!
//! A target may lack what is optional: such a case is *skipped*, with the reason. What the specification leaves open is
//! accepted in each form that it allows.

mod admin;
mod ana;
mod atomic;
mod block;
mod connect;
mod controllers;
mod digest;
mod discovery;
mod errors;
mod event;
mod feature;
mod frame;
mod fused;
mod life;
mod logs;
mod property;
mod reservation;
mod subject;
mod transfer;

pub use subject::{Options, Subject};

use crate::Error;
use std::fmt;
use std::time::{Duration, Instant};

/// Why a case did not pass.
#[derive(Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The target does not do what the rule says: what it did.
    Failed(String),
    /// The target has not what the case is about.
    Skipped(String),
}

impl From<Error> for Verdict {
    fn from(error: Error) -> Verdict {
        Verdict::Failed(error.to_string())
    }
}

/// How a case ended.
pub type Outcome = Result<(), Verdict>;

type Run = Box<dyn Fn(&Subject) -> Outcome + Send + Sync>;

pub struct Case {
    /// Its name: group, dot, what it is about.
    pub name: String,
    /// The specification and the section.
    pub rule: &'static str,
    pub does: String,
    /// What must come of it.
    pub expects: String,
    run: Run,
}

impl Case {
    fn new(
        name: impl Into<String>,
        rule: &'static str,
        does: impl Into<String>,
        expects: impl Into<String>,
        run: impl Fn(&Subject) -> Outcome + Send + Sync + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            rule,
            does: does.into(),
            expects: expects.into(),
            run: Box::new(run),
        }
    }
}

/// How one case went.
#[derive(Debug)]
pub struct Line {
    /// The case's name.
    pub name: String,
    pub rule: &'static str,
    pub does: String,
    pub expects: String,
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// How all of them went.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of the suite.
    pub lines: Vec<Line>,
}

impl Report {
    /// Cases that passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.lines.iter().filter(|line| line.outcome.is_ok()).count()
    }

    /// Cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Line> {
        self.lines
            .iter()
            .filter(|line| matches!(line.outcome, Err(Verdict::Failed(_))))
    }

    /// Cases that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &Line> {
        self.lines
            .iter()
            .filter(|line| matches!(line.outcome, Err(Verdict::Skipped(_))))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(()) => write!(f, "passed   {}", self.name),
            Err(Verdict::Skipped(why)) => write!(f, "skipped  {}: {why}", self.name),
            Err(Verdict::Failed(why)) => write!(
                f,
                "FAILED   {}: {why}\n         rule: {}\n         does: {}\n         expected: {}",
                self.name, self.rule, self.does, self.expects
            ),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cases: {} passed, {} failed, {} skipped",
            self.lines.len(),
            self.passed(),
            self.failed().count(),
            self.skipped().count()
        )
    }
}

/// All cases, in the order in which they are run.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for group in [
        frame::cases,
        digest::cases,
        connect::cases,
        property::cases,
        admin::cases,
        controllers::cases,
        feature::cases,
        logs::cases,
        errors::cases,
        event::cases,
        block::cases,
        transfer::cases,
        fused::cases,
        atomic::cases,
        reservation::cases,
        ana::cases,
        discovery::cases,
        life::cases,
    ] {
        all.extend(group());
    }
    all
}

/// Runs the cases whose name contains one of `options.only` (all, if that is empty), telling `progress` each.
pub fn run(options: &Options, mut progress: impl FnMut(&Line)) -> Report {
    let subject = Subject::new(options.clone());
    let mut report = Report::default();
    for case in cases() {
        if !options.only.is_empty() && !options.only.iter().any(|only| case.name.contains(only.as_str())) {
            continue;
        }
        let start = Instant::now();
        let outcome = (case.run)(&subject);
        let line = Line {
            name: case.name,
            rule: case.rule,
            does: case.does,
            expects: case.expects,
            outcome,
            took: start.elapsed(),
        };
        progress(&line);
        report.lines.push(line);
    }
    report
}

/// The case fails, unless the condition holds.
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Verdict::Failed(format!($($message)+)));
        }
    };
}

/// The case is skipped, unless the condition holds.
macro_rules! need {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Verdict::Skipped(format!($($message)+)));
        }
    };
}

use {check, need};

#[cfg(test)]
mod tests;
