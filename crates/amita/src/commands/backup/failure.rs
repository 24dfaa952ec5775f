//! Errors of repositories, as people read them.

use amita_backup::store::StoreError;
use amita_backup::{Error, Refusal};
use amita_terminal::error::{Failure, Kind, Result};

/// What begins what a repository has said.
const REPOSITORY: &str = "the repository: ";

/// Is it the repository that has failed, and not a volume?
pub fn is_of_repository(failure: &Failure) -> bool {
    failure.what.starts_with(REPOSITORY)
}

/// Errors of a vault, with their exit codes.
pub trait Described<T> {
    /// The same, as a [`Failure`].
    ///
    /// # Errors
    /// The same.
    fn described(self) -> Result<T>;
}

impl<T> Described<T> for std::result::Result<T, Error> {
    fn described(self) -> Result<T> {
        self.map_err(failure)
    }
}

/// What a source or a sink of ours has said, carried through the library.
pub fn carried(failure: Failure) -> std::io::Error {
    std::io::Error::other(failure)
}

/// As people read it.
pub fn failure(error: Error) -> Failure {
    let error = match error {
        Error::Source(why) | Error::Sink(why) if why.get_ref().is_some_and(|inner| inner.is::<Failure>()) => {
            let inner = why.into_inner().and_then(|inner| inner.downcast::<Failure>().ok());
            return inner.map_or_else(|| Failure::new("it failed"), |inner| *inner);
        }
        error => error,
    };
    let what = Failure::new(format!("{REPOSITORY}{error}"));
    match &error {
        Error::Store { source, .. } => match source {
            StoreError::Unknown(_) => what.kind(Kind::Unreachable).advice(
                "Do it again when the repository can be reached: what was put is there, and is not sent once more.",
            ),
            StoreError::Full => what.advice(
                "Make room, or have old points given up (`amita backup prune --keep-last`), and do it again: what was put is there, and is \
                 not sent once more.",
            ),
            StoreError::Locked { .. } => what.kind(Kind::Conflict),
            _ => what,
        },
        Error::Passphrase { .. } => what
            .kind(Kind::Unreadable)
            .advice("Name the key file that the vault was made with: --key-file FILE. Nothing else opens it."),
        Error::NoVault { .. } => Failure::new(format!("{REPOSITORY}it has no such vault"))
            .kind(Kind::NotFound)
            .advice("Is it the right folder, and is it mounted? --vault names a vault as `amita backup repository init` printed it."),
        Error::NoPoint(_) | Error::NoVolume { .. } | Error::Refused(Refusal::NoPoint(_)) => {
            what.kind(Kind::NotFound).advice("`amita backup list` shows what there is.")
        }
        Error::Replaced { .. } => what.advice(
            "Somebody has set the repository back to an older state, or put another one in its place: look at it before anything is put there. \
             --full goes on in what is there now, where packs were set back with the journal; else make a new vault, with another key file.",
        ),
        Error::Refused(_) | Error::Waiting(_) | Error::Made { .. } => what.kind(Kind::Conflict),
        Error::NewerFormat { .. } => what.kind(Kind::Unreadable),
        Error::Damaged { .. } | Error::Missing { .. } | Error::NoPiece(_) => what.advice(
            "`amita backup verify` says what else is damaged, and which points are whole; what is lost is put again by `amita backup verify \
             --give-up` and then `amita backup run --full`.",
        ),
        _ => what,
    }
}
