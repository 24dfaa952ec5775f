//! Why something could not be done.

use crate::piece::PieceId;
use crate::state::{Refusal, SessionId};
use crate::store::StoreError;
use crate::vault::VaultId;
use std::io;

/// Why a vault does not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object store did not do what it was asked.
    #[error("{object}: cannot {what}: {source}")]
    Store {
        /// The object, or the beginning of the names that were to be listed.
        object: String,
        /// What was to be done.
        what: &'static str,
        /// Why not.
        source: StoreError,
    },
    /// The object store has not answered what was asked of one object, and has answered for others: an [`Error::Store`].
    #[error("{0}; the repository answers for other objects")]
    Unanswered(Box<Error>),
    /// A point that is to be made once is there.
    #[error("point {name:?} is made already: it is point {point}")]
    Made {
        /// What it is called.
        name: String,
        /// Its number.
        point: u64,
    },
    /// There is no such vault.
    #[error("there is no vault {vault} here: is this the right repository? `Vault::all` lists what is there")]
    NoVault {
        /// Which was looked for.
        vault: VaultId,
    },
    /// No sealed key opens.
    #[error(
        "the {} opens none of the {slots} sealed keys of vault {vault}{}",
        if *.is_drawn { "key in the key file, which `amita backup` has drawn," } else { "passphrase in the key file" },
        not_tried(*.costly)
    )]
    Passphrase {
        /// Which vault.
        vault: VaultId,
        /// How many keys were looked at.
        slots: usize,
        /// How many beside these cost too much to be tried.
        costly: usize,
        /// What was tried with was drawn ([`DRAWN`](crate::DRAWN)), and is nobody's passphrase.
        is_drawn: bool,
    },
    /// A passphrase cannot be tried on a key: whether it opens that is not known.
    #[error("{object} cannot be tried: {why}")]
    Untried {
        /// The key's object.
        object: String,
        /// Why not.
        why: &'static str,
    },
    /// The last passphrase of a vault is not removed.
    #[error("{object} is the vault's last key: nothing would open it any more")]
    LastKey {
        /// The key's object.
        object: String,
    },
    /// An object is not what was put.
    #[error("{object} is damaged: {why}")]
    Damaged {
        /// Which.
        object: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An object is not there.
    #[error("{object} is missing")]
    Missing {
        /// Which.
        object: String,
    },
    /// An object was written by a later version.
    #[error("{object} has a format that this version does not know ({version}): use a newer one")]
    NewerFormat {
        /// Which.
        object: String,
        /// The character that tells its version.
        version: char,
    },
    /// A point needs a piece that no pack has.
    #[error("piece {0} is in no pack")]
    NoPiece(PieceId),
    /// The vault's journal is not the one that it was.
    #[error("the journal's entry {number} is not the one that is remembered: the vault was set back or replaced")]
    Replaced {
        /// Which entry.
        number: u64,
    },
    /// The order of the vault's entries does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The session could not put something that it had taken.
    #[error(
        "the session could not put what it had taken, and makes no point any more: begin another one, which finds what was put"
    )]
    Broken,
    /// There is no such point.
    #[error("there is no point {0}")]
    NoPoint(u64),
    /// A point does not have the volume.
    #[error("point {point} has no such volume")]
    NoVolume {
        /// Which point.
        point: u64,
    },
    /// Sessions that began before may still need what is condemned.
    #[error("sessions {} began before and are still open", list(.0))]
    Waiting(Vec<SessionId>),
    /// A range is not what it may be.
    #[error("the range of {length} bytes at {offset} {why}")]
    Range {
        /// Its first byte.
        offset: u64,
        /// Its length.
        length: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A number is larger than the format allows.
    #[error("{what} is larger than the format allows: {most} at most")]
    Limit {
        /// What.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// What is backed up could not be read.
    #[error("what is backed up cannot be read: {0}")]
    Source(io::Error),
    /// Where it is restored to could not be written.
    #[error("what is restored cannot be written: {0}")]
    Sink(io::Error),
    /// Whoever has asked for it wants it to end.
    #[error("it was told to end before it had come to its end")]
    Ended,
    /// Whoever has asked for it does not want it any more, as the vault is now.
    #[error("{0}")]
    Unwanted(io::Error),
    /// The machine has no random numbers, or no memory for a passphrase.
    #[error("cryptography fails: {0}")]
    Cryptography(&'static str),
}

impl Error {
    /// Is it the journal itself that cannot be gone on with, or read?
    #[must_use]
    pub fn is_of_journal(&self) -> bool {
        match self {
            Error::Damaged { object, .. } | Error::Missing { object } | Error::NewerFormat { object, .. } => {
                object.starts_with("journal/")
            }
            _ => false,
        }
    }

    /// Has the store not answered?
    pub(crate) fn is_unknown(&self) -> bool {
        let Error::Store { source, .. } = self else {
            return false;
        };
        matches!(source, StoreError::Unknown(_))
    }

    /// Is the repository not what was put there, as against a target that is away or full?
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. } | Error::Missing { .. } | Error::NoPiece(_) | Error::Replaced { .. }
        )
    }
}

fn not_tried(costly: usize) -> String {
    match costly {
        0 => String::new(),
        _ => format!(
            "; keys that were not tried, for that takes more than is spent on a vault that may be another one's: {costly}"
        ),
    }
}

fn list(sessions: &[SessionId]) -> String {
    let texts: Vec<String> = sessions.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// A call of the store, with the object that it was about.
pub(crate) fn of<'a>(object: &'a str, what: &'static str) -> impl FnOnce(StoreError) -> Error + 'a {
    move |source| Error::Store {
        object: object.to_owned(),
        what,
        source,
    }
}
