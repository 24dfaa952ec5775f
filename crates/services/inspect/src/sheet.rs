//! The sheet on which an inspection notes what it found, what it looked at, and what it could not look at.

use crate::code::{Check, Code};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; a cluster may well live with it.
    Notice,
    /// To be mended soon.
    Warning,
    /// Data or service are in danger, or suffer now.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        })
    }
}

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// `cluster`, `node`, `nic`, `disk`, `store`, `pool`, `subsystem`, `target` or `object`.
    pub kind: &'static str,
    /// Its name; a network interface and a disk are named behind their node: `n1/eth0`.
    pub name: String,
}

impl Place {
    /// A place of that kind and name.
    #[must_use]
    pub fn new(kind: &'static str, name: impl Into<String>) -> Place {
        Place {
            kind,
            name: name.into(),
        }
    }

    /// The whole cluster.
    #[must_use]
    pub fn cluster() -> Place {
        Place::new("cluster", "")
    }

    /// A node.
    #[must_use]
    pub fn node(name: &str) -> Place {
        Place::new("node", name)
    }

    /// A part of a node.
    #[must_use]
    pub fn part(kind: &'static str, node: &str, part: &str) -> Place {
        Place::new(kind, format!("{node}/{part}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => f.write_str(self.kind),
            name => write!(f, "{} {name}", self.kind),
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is: see [`Code`], and for those of the check `health` the facts of `amita status`.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The check that found it.
    pub check: &'static str,
    /// Where.
    pub place: Place,
    /// What was seen, with its figures.
    pub reason: String,
    /// What to do.
    pub mend: String,
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotLooked {
    /// The check that wanted to.
    pub check: &'static str,
    /// Where.
    pub place: Place,
    /// Why not.
    pub why: String,
}

/// A check, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// Its name.
    pub check: &'static str,
    /// Its title.
    pub title: &'static str,
    /// How many things it looked at.
    pub looked_at: usize,
    /// How many it could not look at.
    pub not_looked_at: usize,
    /// How much it found.
    pub found: usize,
}

/// What an inspection came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The cluster's number.
    pub cluster: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// The worst severity; none: nothing was found.
    pub worst: Option<Severity>,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub not_looked_at: Vec<NotLooked>,
    /// Every check, in its order.
    pub checks: Vec<Looked>,
}

/// Where checks note what they see.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    findings: Vec<Finding>,
    blind: Vec<NotLooked>,
    looked: BTreeMap<Check, usize>,
}

impl Sheet {
    /// A check has looked at a thing.
    pub fn look(&mut self, check: Check) {
        *self.looked.entry(check).or_default() += 1;
    }

    /// Something was found.
    pub fn find(&mut self, code: Code, place: Place, reason: impl Into<String>) {
        self.find_as(code, code.severity(), place, reason);
    }

    /// Something was found that matters less than it can.
    pub fn find_as(&mut self, code: Code, severity: Severity, place: Place, reason: impl Into<String>) {
        self.findings.push(Finding {
            code: code.name(),
            severity,
            check: code.check().name(),
            place,
            reason: reason.into(),
            mend: code.mend().to_owned(),
        });
    }

    /// Something was found that others have judged.
    pub fn note(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// A check could not look.
    pub fn blind(&mut self, check: Check, place: Place, why: impl Into<String>) {
        self.blind.push(NotLooked {
            check: check.name(),
            place,
            why: why.into(),
        });
    }

    /// Looks at a fact where it is known; where it is not, that is noted.
    pub fn look_at<'a, T>(
        &mut self,
        check: Check,
        place: Place,
        fact: &'a crate::inventory::Known<T>,
    ) -> Option<&'a T> {
        match fact.get() {
            Ok(fact) => {
                self.look(check);
                Some(fact)
            }
            Err(why) => {
                self.blind(check, place, why);
                None
            }
        }
    }

    /// Everything that was noted. A check that has neither looked nor said why not had nothing to look at, and that is said.
    #[must_use]
    pub fn finish(mut self, cluster: String, at: u64) -> Report {
        for check in Check::ALL {
            let silent = !self.looked.contains_key(check) && self.blind.iter().all(|blind| blind.check != check.name());
            if silent {
                self.blind(*check, Place::cluster(), "there is nothing of the kind in this cluster");
            }
        }
        self.findings.sort_by(|one, other| {
            (other.severity, one.check, &one.place).cmp(&(one.severity, other.check, &other.place))
        });
        let order = |name: &str| Check::ALL.iter().position(|check| check.name() == name);
        self.blind
            .sort_by_key(|blind| (order(blind.check), blind.place.clone()));
        self.blind.dedup();
        let checks = Check::ALL.iter().map(|check| Looked {
            check: check.name(),
            title: check.title(),
            looked_at: self.looked.get(check).copied().unwrap_or(0),
            not_looked_at: self.blind.iter().filter(|blind| blind.check == check.name()).count(),
            found: self.findings.iter().filter(|found| found.check == check.name()).count(),
        });
        Report {
            cluster,
            at,
            checks: checks.collect(),
            worst: self.findings.iter().map(|found| found.severity).max(),
            findings: self.findings,
            not_looked_at: self.blind,
        }
    }
}
