//! What a command answers when it cannot do what it was told: what happened, where, and what to do about it.

use crate::output::shown;
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
}

impl Failure {
    /// A failure of the common sort.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure {
            kind: Kind::Failed,
            what: what.into(),
            advice: String::new(),
        }
    }

    /// Of another sort.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Failure {
        self.kind = kind;
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Failure {
        self.advice = advice.into();
        self
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
