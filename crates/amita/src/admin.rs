//! The operator's commands and the metadata: a session of who runs the command, and errors as people read them.

use crate::cli::Endpoints;
use amita_control::access::{Action, Caller, Denied, Reader, Session};
use amita_control::admin::{self, AdminError, Code, Listed, Status};
use amita_metadata::Transact;
use amita_metadata::client::{Client, Watch};
use amita_terminal::error::{Failure, Kind, Result};
use std::fmt;

/// The way of a command to the metadata: what it changes, it changes by [`Admin::act`], which says what the action is.
#[derive(Debug)]
pub struct Admin {
    session: Session<Client>,
}

impl Admin {
    /// To the endpoints of the command line, as who their identity says.
    ///
    /// # Errors
    /// When none are given, the identity cannot be read or may not look at the cluster, or they may not be spoken to like
    /// that.
    pub fn connect(endpoints: &Endpoints) -> Result<Admin> {
        let (client, caller) = endpoints.connect_as()?;
        // Who asks a node again and again for what they may not does not fill the audit log with it.
        let tells = endpoints.lent().is_none_or(|lent| lent.tells_refusals);
        let session = Session::open_telling(client, caller, tells).map_err(|why| denied(&why))?;
        Ok(Admin { session })
    }

    /// As who this is done.
    #[must_use]
    pub fn session(&self) -> &Session<Client> {
        &self.session
    }

    /// Who we are to the cluster.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        self.session.caller()
    }

    /// For reading.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        self.session.reader()
    }

    /// Does something that changes the metadata, if they may; it is in the audit log.
    ///
    /// # Errors
    /// They may not; the metadata is away; or what `work` says.
    pub fn act<T, E: From<AdminError> + fmt::Display>(
        &self,
        action: Action,
        object: &str,
        work: impl FnOnce(&dyn Transact) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.session.act(action, object, work)
    }

    /// May they? For what changes nothing.
    ///
    /// # Errors
    /// They may not.
    pub fn permit(&self, action: Action) -> Result<()> {
        self.permit_on(action, "")
    }

    /// May they, to that object?
    ///
    /// # Errors
    /// They may not.
    pub fn permit_on(&self, action: Action, object: &str) -> Result<()> {
        self.session.permit(action, object).map_err(|why| denied(&why))
    }

    /// The changes of keys with a prefix.
    #[must_use]
    pub fn watch(&self, prefix: &str, from_revision: u64) -> Watch {
        self.session.connection().watch(prefix, from_revision)
    }

    /// The state of the cluster.
    ///
    /// # Errors
    /// When the metadata is away, or holds no cluster.
    pub fn status(&self) -> Result<Status> {
        admin::status(&self.reader()).described()
    }
}

/// What of a list can be read; of the rest it is said what it is.
///
/// # Errors
/// The list cannot be had.
pub fn readable<T>(listed: std::result::Result<Listed<T>, AdminError>) -> std::result::Result<Vec<T>, AdminError> {
    let Listed { readable, unreadable } = listed?;
    for why in unreadable {
        log::warn!("{why}");
    }
    Ok(readable)
}

/// Errors of the operations, as people read them.
pub trait Described<T> {
    /// The same, as a [`Failure`] with its exit code.
    ///
    /// # Errors
    /// The same.
    fn described(self) -> Result<T>;
}

impl<T> Described<T> for std::result::Result<T, AdminError> {
    fn described(self) -> Result<T> {
        self.map_err(|error| {
            let kind = match &error {
                AdminError::Metadata(inner) => return metadata_failure(inner),
                AdminError::Denied(why) => return denied(why),
                AdminError::BadName { .. } | AdminError::BadSetting { .. } => Kind::Usage,
                AdminError::NoCluster
                | AdminError::NoSuch { .. }
                | AdminError::NotAllowed { .. }
                | AdminError::InitiatorNotAllowed { .. } => Kind::NotFound,
                AdminError::Exists { .. }
                | AdminError::NoKeys { .. }
                | AdminError::Unreadable { .. }
                | AdminError::InUse { .. }
                | AdminError::Protected { .. }
                | AdminError::HasSnapshots { .. }
                | AdminError::Ambiguous { .. }
                | AdminError::IsOpen { .. }
                | AdminError::OwnerSilent { .. }
                | AdminError::BeingClosed { .. }
                | AdminError::Suspected { .. }
                | AdminError::WouldWait { .. }
                | AdminError::Attached { .. }
                | AdminError::AttachedStill { .. }
                | AdminError::ReadOnlyExport { .. }
                | AdminError::Copying { .. }
                | AdminError::Closed { .. }
                | AdminError::Mirror { .. }
                | AdminError::Mirrored { .. }
                | AdminError::MirrorsPoint { .. }
                | AdminError::Shrinking { .. }
                | AdminError::SnapshotAttached { .. }
                | AdminError::ServedByNvme { .. }
                | AdminError::Exported { .. }
                | AdminError::StillExported { .. }
                | AdminError::HasNamespaces { .. }
                | AdminError::Allowed { .. }
                | AdminError::IsLun { .. }
                | AdminError::WrittenBeside { .. }
                | AdminError::HasLuns { .. }
                | AdminError::InitiatorAllowed { .. }
                | AdminError::NodeLives { .. }
                | AdminError::NodeNeeded { .. }
                | AdminError::NodeTaken { .. }
                | AdminError::StoreServed { .. }
                | AdminError::StoreOutdated { .. }
                | AdminError::Full { .. }
                | AdminError::OverQuota { .. }
                | AdminError::PoolInUse { .. }
                | AdminError::RepositoryInUse { .. }
                | AdminError::JobCannot { .. }
                | AdminError::BackupTaskCannot { .. }
                | AdminError::BeingTaken { .. }
                | AdminError::TakenBeside { .. }
                | AdminError::ImportTaken { .. }
                | AdminError::Changed
                | AdminError::StillNeeded { .. } => Kind::Conflict,
                _ => Kind::Failed,
            };
            Failure::new(error.to_string()).kind(kind).code(error.code().name())
        })
    }
}

/// A failure to reach the metadata has a code of its own.
#[must_use]
pub fn metadata_failure(error: &amita_metadata::Error) -> Failure {
    let kind = match error {
        amita_metadata::Error::Unavailable { .. } | amita_metadata::Error::Unknown { .. } => Kind::Unreachable,
        amita_metadata::Error::Setting { .. } => Kind::Usage,
        _ => Kind::Failed,
    };
    let code = AdminError::Metadata(error.clone()).code().name();
    Failure::new(error.to_string()).kind(kind).code(code)
}

/// Somebody may not do it.
#[must_use]
pub fn denied(why: &Denied) -> Failure {
    let failure = Failure::new(why.to_string()).code(Code::Denied.name());
    failure.advice(
        "`amita cert show` says who you are here (--identity, AMITA_IDENTITY). An admin gives roles: `amita operator create \
         --role`.",
    )
}
