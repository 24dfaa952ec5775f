//! The command line, carried out by a node: whoever serves the API may give it what carries commands out, with the rights of who asks.
//!
//! Which commands there are, and what they say, is the binary's affair. Here they are bounded, and have places of their own: a command that
//! waits for something keeps no other request waiting.

use amita_control::access::Caller;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use zeroize::Zeroizing;

/// Commands that are carried out at once.
pub(crate) const MAX_COMMANDS: usize = 16;
/// The most arguments of a command,
pub(crate) const MAX_ARGUMENTS: usize = 1024;
/// and the longest one.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 16 << 10;
/// The most files that are sent with a command,
pub(crate) const MAX_FILES: usize = 8;
/// and the most bytes of one.
pub(crate) const MAX_FILE_BYTES: usize = 64 << 10;

/// Files of the machine that a command is given at: what they hold is sent with it, by the names that its arguments have for them. Keys and
/// passwords are among them, and no form of this shows what it holds.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<String, Zeroizing<String>>);

impl Files {
    /// What a file holds; none: it was not sent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Zeroizing<String>> {
        self.0.get(name)
    }

    /// Was none sent?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, String)> for Files {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(files: I) -> Files {
        let files = files.into_iter();
        Files(files.map(|(name, text)| (name, Zeroizing::new(text))).collect())
    }
}

impl Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files", self.0.len())
    }
}

/// A command that is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Its words, without the program's name.
    pub arguments: Vec<String>,
    /// The name that was written to confirm that something is destroyed.
    pub confirmed: Option<String>,
    /// What the files hold that it names.
    pub files: Files,
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
    /// They are connected by TLS: nobody else reads what they send, and what they are told.
    pub is_private: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_hold_is_shown_by_nothing() {
        let files: Files = [("key".to_owned(), "hush".to_owned())].into_iter().collect();
        assert_eq!(files.get("key").map(|text| text.as_str()), Some("hush"));
        assert_eq!((files.get("other"), files.is_empty()), (None, false));
        let line = CommandLine {
            arguments: vec!["host".to_owned()],
            confirmed: None,
            files,
        };
        let shown = format!("{line:?}");
        assert!(shown.contains("1 files") && !shown.contains("hush"), "{shown}");
    }
}
