//! The command line, carried out by a node: whoever serves the API may give it what carries commands out, with the rights of who asks.
//!
//! Which commands there are, and what they say, is the binary's affair. Here they are bounded, and have places of their own: a command that
//! waits for something keeps no other request waiting.

use amita_control::access::Caller;
use std::fmt::Debug;

/// Commands that are carried out at once.
pub(crate) const MAX_COMMANDS: usize = 16;
/// The most arguments of a command,
pub(crate) const MAX_ARGUMENTS: usize = 1024;
/// and the longest one.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 16 << 10;

/// A command that is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Its words, without the program's name.
    pub arguments: Vec<String>,
    /// The name that was written to confirm that something is destroyed.
    pub confirmed: Option<String>,
}

/// As whom a command is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnBehalf {
    /// Who asks.
    pub caller: Caller,
    /// Is a refusal told in the audit log?
    pub tells_refusals: bool,
    /// When the token that they have shown ends, in seconds since 1970.
    pub ends_at: Option<u64>,
}

/// What has become of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// As the program's.
    pub exit_code: u8,
    /// What it has said on standard output.
    pub stdout: String,
    /// What it has said on standard error.
    pub stderr: String,
    /// The name that has to be written, and what is lost: nothing was done.
    pub question: Option<(String, String)>,
    /// The answer has a secret.
    pub is_secret: bool,
    /// They may not.
    pub is_denied: bool,
    /// The metadata is away, as this says: another node may reach it. What was to be changed may have been in part.
    pub away: Option<String>,
}

/// What carries commands out, on a thread that may wait.
pub trait Commands: Send + Sync + Debug {
    /// Carries one out. It ends within minutes, whatever it waits for.
    fn run(&self, line: &CommandLine, asker: OnBehalf) -> Outcome;
}
