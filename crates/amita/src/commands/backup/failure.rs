//! Errors of repositories, as people read them.

use amita_backup::store::StoreError;
use amita_backup::{Error, Refusal};
use amita_terminal::error::{Failure, Kind, Result};

/// What begins what a repository has said.
const REPOSITORY: &str = "the repository: ";

/// The codes of what a run of several volumes goes on from in other ways than from a volume's own failure.
const FULL: &str = "repository-full";
const FAILED: &str = "repository-failed";
const REPLACED: &str = "repository-replaced";
const OVER: &str = "session-over";
/// Somebody else backs the volume up.
pub const BUSY: &str = "volume-being-backed-up";

/// What to do where keys cost more than is spent on a vault that may be another one's.
pub const COSTLY: &str = "Where that is the vault, name it (--vault VAULT): then keys of any cost are tried. Else name the key file that it was made with (--key-file FILE).";

/// What has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// This volume, or what the repository has of it: others may be backed up.
    Volume,
    /// The vault is not what it was, or somebody has taken this process for dead: nothing is given up by whoever finds that.
    Doubt,
    /// The repository has no room.
    Full,
    /// The repository, its key or its journal: all else would come to the same.
    Repository,
}

/// What has failed, as the error said that this was made from.
pub fn trouble(failure: &Failure) -> Trouble {
    let is_closed = || matches!(failure.kind, Kind::Unreachable | Kind::Unreadable);
    match failure.code {
        FULL => Trouble::Full,
        FAILED => Trouble::Repository,
        REPLACED | OVER => Trouble::Doubt,
        _ if failure.what.starts_with(REPOSITORY) && is_closed() => Trouble::Repository,
        _ => Trouble::Volume,
    }
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
        Error::Source(why) | Error::Sink(why) | Error::Unwanted(why)
            if why.get_ref().is_some_and(|inner| inner.is::<Failure>()) =>
        {
            let inner = why.into_inner().and_then(|inner| inner.downcast::<Failure>().ok());
            return inner.map_or_else(|| Failure::new("it failed"), |inner| *inner);
        }
        Error::Ended => return Failure::interrupted(),
        error => error,
    };
    let what = Failure::new(format!("{REPOSITORY}{error}"));
    match &error {
        Error::Store { source, .. } => match source {
            StoreError::Unknown(_) => what.kind(Kind::Unreachable).advice(
                "Do it again when the repository can be reached: what was put is there, and is not sent once more.",
            ),
            StoreError::Full => what.code(FULL).advice(
                "Make room, or have old points given up (`amita backup prune --keep-last`), and do it again: what was put is there, and is \
                 not sent once more.",
            ),
            StoreError::Locked { .. } => what.code(FAILED).kind(Kind::Conflict),
            _ => what.code(FAILED),
        },
        // Not as if it were away: doing it again comes to the same for as long as this one object is not answered for.
        Error::Unanswered(_) => what.advice(
            "What else can be locked is locked. Look in the repository's own log why it does not answer for that object; `amita backup verify` says what \
             of the points is damaged.",
        ),
        Error::Passphrase { costly: 1.., .. } => what.kind(Kind::Unreadable).advice(COSTLY),
        Error::Untried { .. } => what.kind(Kind::Unreadable).advice(
            "Each key says how much memory a try takes, and this machine does not have that now. `amita backup` makes none of more than 256 MiB.",
        ),
        Error::Passphrase { .. } => what
            .kind(Kind::Unreadable)
            .advice("Name the key file that the vault was made with: --key-file FILE. Nothing else opens it."),
        Error::NoVault { .. } => Failure::new(format!("{REPOSITORY}it has no such vault"))
            .kind(Kind::NotFound)
            .advice("Is it the right folder, and is it mounted? --vault names a vault as `amita backup repository init` printed it."),
        Error::NoPoint(_) | Error::NoVolume { .. } | Error::Refused(Refusal::NoPoint(_)) => {
            what.kind(Kind::NotFound).advice("`amita backup list` shows what there is.")
        }
        Error::Replaced { .. } => what.code(REPLACED).advice(
            "Somebody has set the repository back to an older state, or put another one in its place: look at it before anything is put there. \
             --full goes on in what is there now, where packs were set back with the journal; else make a new vault, with another key file.",
        ),
        Error::Refused(Refusal::Over(_)) => what.code(OVER).kind(Kind::Conflict),
        Error::Refused(_) | Error::Waiting(_) | Error::Made { .. } => what.kind(Kind::Conflict),
        Error::NewerFormat { .. } => what.kind(Kind::Unreadable),
        Error::Damaged { .. } | Error::Missing { .. } | Error::NoPiece(_) => {
            let what = what.advice(
                "`amita backup verify` says what else is damaged, and which points are whole; what is lost is put again by `amita backup \
                 verify --give-up` and then `amita backup run --full`.",
            );
            match error.is_of_journal() {
                true => what.code(FAILED),
                false => what,
            }
        }
        _ => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_backup::SessionId;

    fn store(source: StoreError) -> Error {
        Error::Store {
            object: "packs/a".to_owned(),
            what: "put it",
            source,
        }
    }

    #[test]
    fn what_has_failed_is_known_by_the_error_and_not_by_its_words() {
        let damaged = |object: &str| Error::Damaged {
            object: object.to_owned(),
            why: "it is short",
        };
        let carried = Error::Source(carried(Failure::new("the volume: the target is full")));
        for (error, wanted) in [
            (store(StoreError::Full), Trouble::Full),
            (store(StoreError::Unknown("cut".to_owned())), Trouble::Repository),
            (
                store(StoreError::Refused("the target is full of itself".to_owned())),
                Trouble::Repository,
            ),
            (store(StoreError::Unsupported("locks")), Trouble::Repository),
            (
                Error::Unanswered(Box::new(store(StoreError::Unknown("503".to_owned())))),
                Trouble::Volume,
            ),
            (damaged("journal/a/1"), Trouble::Repository),
            (damaged("packs/a/1"), Trouble::Volume),
            (Error::Replaced { number: 7 }, Trouble::Doubt),
            (Error::Refused(Refusal::Over(SessionId(7))), Trouble::Doubt),
            (Error::Refused(Refusal::Pending), Trouble::Volume),
            (Error::NoPoint(3), Trouble::Volume),
            (
                Error::Limit {
                    what: "a point's name",
                    most: 1,
                },
                Trouble::Volume,
            ),
            (
                Error::Made {
                    name: "p/1/t".to_owned(),
                    point: 4,
                },
                Trouble::Volume,
            ),
            (carried, Trouble::Volume),
        ] {
            let failure = failure(error);
            assert_eq!(trouble(&failure), wanted, "{failure:?}");
        }
        assert_eq!(failure(Error::Ended).kind, Kind::Interrupted);
        // One object that is not answered for is no repository that is away.
        let away = || store(StoreError::Unknown("503".to_owned()));
        assert_eq!(failure(away()).kind, Kind::Unreachable);
        assert_ne!(failure(Error::Unanswered(Box::new(away()))).kind, Kind::Unreachable);
    }
}
