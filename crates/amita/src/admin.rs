//! The operator's commands and the metadata: a connection, and errors as people read them.

use crate::cli::Endpoints;
use amita_control::admin::{self, AdminError, Status};
use amita_metadata::client::Client;
use amita_terminal::error::{Failure, Kind, Result};

/// A connection to the metadata.
#[derive(Debug)]
pub struct Admin {
    client: Client,
}

impl Admin {
    /// To the endpoints of the command line.
    ///
    /// # Errors
    /// When none are given, the identity cannot be read, or they may not be spoken to like that.
    pub fn connect(endpoints: &Endpoints) -> Result<Admin> {
        Ok(Admin {
            client: endpoints.connect()?,
        })
    }

    /// For the operations of [`amita_control::admin`].
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The state of the cluster.
    ///
    /// # Errors
    /// When the metadata is away, or holds no cluster.
    pub fn status(&self) -> Result<Status> {
        admin::status(&self.client).described()
    }
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
                AdminError::BadName { .. } | AdminError::BadSetting { .. } => Kind::Usage,
                AdminError::NoCluster | AdminError::NoSuch { .. } | AdminError::NotAllowed { .. } => Kind::NotFound,
                AdminError::Exists { .. }
                | AdminError::InUse { .. }
                | AdminError::IsOpen { .. }
                | AdminError::OwnerSilent { .. }
                | AdminError::Suspected { .. }
                | AdminError::WouldWait { .. }
                | AdminError::Attached { .. }
                | AdminError::ServedByNvme { .. }
                | AdminError::Exported { .. }
                | AdminError::HasNamespaces { .. }
                | AdminError::Allowed { .. }
                | AdminError::NodeLives { .. }
                | AdminError::NodeNeeded { .. }
                | AdminError::NodeTaken { .. }
                | AdminError::StoreServed { .. }
                | AdminError::StoreOutdated { .. }
                | AdminError::Full { .. }
                | AdminError::StillNeeded { .. } => Kind::Conflict,
                _ => Kind::Failed,
            };
            Failure::new(error.to_string()).kind(kind)
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
    Failure::new(error.to_string()).kind(kind)
}
