//! What can go wrong with identities, and what to do about it.

use crate::clock::UnixSeconds;
use crate::name::{BadUri, Name, Role};
use crate::token::BadToken;
use crate::trust::Refusal;
use amita_types::ClusterId;
use std::io;
use std::path::{Path, PathBuf};

/// What happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The system refuses something with a file or folder.
    #[error("{}: cannot {what}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// `read it`, `write it`, ...
        what: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// Others may read or write what must be this user's alone.
    #[error(
        "{} is open to other users (mode {mode:04o}): `chmod {wanted:o} {}` mends that; if it was so for long, make a new one",
        path.display(), path.display()
    )]
    Loose {
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// What they have to be.
        wanted: u32,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to user {owner}, not to the one who runs this ({user}): `chown {user} {}` mends that", path.display(), path.display())]
    Owner {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this.
        user: u32,
    },
    /// What a file says is not what it has to say.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// There is no identity in the folder.
    #[error(
        "{} holds no identity ({missing} is not there): `amita node join`, `amita client create` or `amita operator create` makes one",
        path.display()
    )]
    NoIdentity {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        missing: &'static str,
    },
    /// There is no authority in the folder.
    #[error("{} holds no certificate authority: `amita cluster init --ca {}` makes one for a new cluster", path.display(), path.display())]
    NoAuthority {
        /// The folder.
        path: PathBuf,
    },
    /// There is something already where something is to be made.
    #[error("{} exists already, and is not overwritten: choose another folder, or move it away", path.display())]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// A certificate is refused.
    #[error("{whose}: {why}")]
    Refused {
        /// Whose, or which file.
        whose: String,
        /// Why.
        why: Refusal,
    },
    /// The own certificate has ended.
    #[error(
        "the certificate of {name} in {} has ended on {since}: `amita cert renew` cannot renew what has ended; join again with a new token (`amita node token`)",
        path.display()
    )]
    Expired {
        /// The folder.
        path: PathBuf,
        /// Who.
        name: Name,
        /// Since when.
        since: UnixSeconds,
    },
    /// The own certificate is not valid yet.
    #[error("the certificate of {name} in {} is valid from {from} on, and it is {now}: is this machine's clock right?", path.display())]
    NotYet {
        /// The folder.
        path: PathBuf,
        /// Who.
        name: Name,
        /// From when on.
        from: UnixSeconds,
        /// What the clock says.
        now: UnixSeconds,
    },
    /// The list of what is trusted is older than one that was seen here.
    #[error(
        "the trust list has number {given}, and number {seen} was seen already: an older one was put back, and is refused; get the newest from the authority (`amita cert renew`)"
    )]
    OlderTrust {
        /// Its number.
        given: u64,
        /// The highest that was seen.
        seen: u64,
    },
    /// The list of what is trusted is not by an authority that is trusted here.
    #[error("the trust list is refused: {0}")]
    ForeignTrust(String),
    /// The name is of another cluster.
    #[error("{name} is of another cluster; this is {cluster}")]
    OtherCluster {
        /// The name.
        name: Name,
        /// The cluster.
        cluster: ClusterId,
    },
    /// No such name can be made.
    #[error(transparent)]
    BadUri(#[from] BadUri),
    /// A role that nobody is given.
    #[error("nobody is given the role {0}: it is the authority's own server's")]
    ReservedRole(Role),
    /// A token that cannot be used.
    #[error(transparent)]
    Token(#[from] BadToken),
    /// A signing request that is none.
    #[error("the signing request is refused: {0}")]
    Request(String),
    /// Who asks for a renewal may not have one.
    #[error("{name} is not given a new certificate: {why}")]
    NotRenewed {
        /// Who.
        name: Name,
        /// Why.
        why: String,
    },
    /// A client has been granted something else.
    #[error(
        "{0} has been granted something else: `amita client change` changes that, `amita client list --ca DIR` shows it"
    )]
    GrantedOtherwise(Name),
    /// A client cannot be granted that.
    #[error("{name} cannot be granted that: {why}")]
    NotGranted {
        /// Who.
        name: Name,
        /// Why.
        why: String,
    },
    /// Nothing known has this name or serial number.
    #[error(
        "the authority knows no certificate of {0} that is still valid: `amita cert list --ca DIR` shows what there is"
    )]
    NotIssued(String),
    /// A rotation of the authority cannot be begun or ended now.
    #[error("{0}")]
    Rotation(String),
    /// The authority's server cannot be reached.
    #[error("the authority at {server} cannot be reached: {why}")]
    Unreachable {
        /// Where.
        server: String,
        /// The system's words.
        why: String,
    },
    /// The authority's server refuses, or is not believed.
    #[error("the authority at {server}: {why}")]
    Server {
        /// Where.
        server: String,
        /// Why.
        why: String,
    },
    /// A key or certificate could not be made.
    #[error("cannot make {what}: {why}")]
    Make {
        /// What.
        what: &'static str,
        /// The library's words.
        why: String,
    },
}

impl IdentityError {
    pub(crate) fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> IdentityError {
        let path = path.to_owned();
        move |source| IdentityError::File { path, what, source }
    }

    pub(crate) fn content(path: &Path, what: impl Into<String>) -> IdentityError {
        IdentityError::Content {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn make(what: &'static str) -> impl FnOnce(rcgen::Error) -> IdentityError {
        move |why| IdentityError::Make {
            what,
            why: why.to_string(),
        }
    }
}
