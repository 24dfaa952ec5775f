//! What a command answers when it cannot do what it was told: what happened, where, and what to do about it.

use crate::output::shown;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// Of what sort a failure is: scripts tell them apart by the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// It failed; the message says why. Exit code 1.
    Failed,
    /// The command line is wrong (clap answers most of these itself). Exit code 2.
    Usage,
    /// What was to be looked at cannot be read. Exit code 2.
    Unreadable,
    /// The metadata, or a node that is needed, cannot be reached. Exit code 3.
    Unreachable,
    /// What was named does not exist. Exit code 4.
    NotFound,
    /// It exists already, or it is in use. Exit code 5.
    Conflict,
    /// The person at the keyboard, or a signal, ended it. Exit code 130.
    Interrupted,
    /// Whoever read the answer has gone. Exit code 141, as of a program that SIGPIPE has ended.
    Unread,
}

impl Kind {
    /// The exit code of the process. They are documented in `docs/operating/quickstart.md`.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage | Kind::Unreadable => 2,
            Kind::Unreachable => 3,
            Kind::NotFound => 4,
            Kind::Conflict => 5,
            Kind::Interrupted => 130,
            Kind::Unread => 141,
        }
    }

    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Failed,
        Kind::Usage,
        Kind::Unreadable,
        Kind::Unreachable,
        Kind::NotFound,
        Kind::Conflict,
        Kind::Interrupted,
        Kind::Unread,
    ];

    /// Its name in an error as JSON, where the failure has none of its own: stable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Failed => "failed",
            Kind::Usage => "usage",
            Kind::Unreadable => "unreadable",
            Kind::Unreachable => "unreachable",
            Kind::NotFound => "no-such",
            Kind::Conflict => "conflict",
            Kind::Interrupted => "interrupted",
            Kind::Unread => "unread",
        }
    }

    /// What it means, in a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Kind::Failed => "The command failed.",
            Kind::Usage => "The command line is wrong.",
            Kind::Unreadable => "What was to be looked at cannot be read.",
            Kind::Unreachable => "The metadata, or a node that is needed, cannot be reached.",
            Kind::NotFound => "What was named does not exist.",
            Kind::Conflict => "It exists already, or it is in use.",
            Kind::Interrupted => "The person at the keyboard, or a signal, ended the command.",
            Kind::Unread => "Whoever read the answer has gone.",
        }
    }

    /// What to do about it, in a sentence.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Kind::Failed => "The message says why.",
            Kind::Usage => "See the command's `--help`.",
            Kind::Unreadable => "Look at the path, and at who may read it.",
            Kind::Unreachable => {
                "Look whether it runs and whether the address is right; an unknown outcome is looked at before it is tried again."
            }
            Kind::NotFound => "Look at the names that are near; `list` has all of them.",
            Kind::Conflict => "The message says what is in the way.",
            Kind::Interrupted => "What was begun may have been done: look at it.",
            Kind::Unread => "Nothing: what was to be changed has been changed.",
        }
    }
}

/// Why a command could not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of what sort.
    pub kind: Kind,
    /// What happened, and where: the path, the address, the name.
    pub what: String,
    /// What to do about it; empty where the first part says it all.
    pub advice: String,
    /// What went wrong, in a word that stays (`amita explain` has them all).
    pub code: &'static str,
}

/// A failure, as JSON says it.
#[derive(Serialize)]
struct Told<'a> {
    code: &'static str,
    message: &'a str,
    advice: &'a str,
    exit: u8,
}

impl Failure {
    /// A failure of the common sort.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure {
            kind: Kind::Failed,
            what: what.into(),
            advice: String::new(),
            code: Kind::Failed.name(),
        }
    }

    /// Of another sort. One that has a code of its own keeps it.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Failure {
        if self.code == self.kind.name() {
            self.code = kind.name();
        }
        self.kind = kind;
        self
    }

    /// With a code of its own.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Failure {
        self.code = code;
        self
    }

    /// The same for a program: one line of JSON, `{"error": {"code", "message", "advice", "exit"}}`.
    #[must_use]
    pub fn json(&self) -> String {
        let told = Told {
            code: self.code,
            message: &self.what,
            advice: &self.advice,
            exit: self.kind.code(),
        };
        amita_audit::inert(&serde_json::json!({ "error": told }).to_string())
    }

    /// As a program says it, for a script or for a person.
    #[must_use]
    pub fn told(&self, as_json: bool) -> String {
        match as_json {
            true => self.json(),
            false => format!("amita: {self}"),
        }
    }

    /// With what to do about it.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Failure {
        self.advice = advice.into();
        self
    }

    /// An answer whose meaning is the exit code: nothing more is to be said.
    #[must_use]
    pub fn said(kind: Kind) -> Failure {
        Failure::new("").kind(kind)
    }

    /// Is all of it said already?
    #[must_use]
    pub fn is_said(&self) -> bool {
        self.what.is_empty()
    }

    /// Ended by a signal.
    #[must_use]
    pub fn interrupted() -> Failure {
        Failure::new("interrupted").kind(Kind::Interrupted)
    }

    /// For `main`.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Other machines' words are in it.
        f.write_str(&shown(&self.what))?;
        if !self.advice.is_empty() {
            write!(f, "\n  {}", shown(&self.advice))?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Gives an error of a lower layer its what and where.
pub trait Context<T> {
    /// `what` comes before the error's own words.
    ///
    /// # Errors
    /// The same, as a [`Failure`].
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{}: {error}", what())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_error_as_json_has_its_code_and_what_a_terminal_would_obey_is_escaped() {
        let failure = Failure::new("pool \u{1b}[2J is full")
            .kind(Kind::Conflict)
            .advice("add stores");
        let said = failure.json();
        assert!(!said.contains('\u{1b}') && !said.contains('\n'), "{said}");
        let read: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let error = serde_json::json!({
            "code": "conflict", "message": "pool \u{1b}[2J is full", "advice": "add stores", "exit": 5
        });
        assert_eq!(read["error"], error);
        let own = Failure::new("x").code("pool-in-use").kind(Kind::Conflict);
        assert_eq!((own.code, own.kind.code()), ("pool-in-use", 5));
    }

    #[test]
    fn every_kind_has_a_name_of_its_own_and_says_what_to_do() {
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            assert!(
                kind.meaning().ends_with('.') && kind.advice().ends_with('.'),
                "{kind:?}"
            );
        }
    }
}
