//! As who a backup is made: its snapshots are taken and deleted in the metadata.

use crate::admin::Admin;
use amita_control::access::Action;
use amita_control::admin::AdminError;
use amita_metadata::Transact;
use std::fmt;

/// As who.
pub enum By<'a> {
    /// As an operator: what may be is looked at, and what is done is in the audit log.
    Operator(&'a Admin),
    /// As a node, for a policy that an operator has made: that is in the audit log.
    Node(&'a dyn Transact),
}

impl By<'_> {
    /// Changes something.
    ///
    /// # Errors
    /// They may not; the metadata is away; or what `work` says.
    pub fn act<T, E: From<AdminError> + fmt::Display>(
        &self,
        action: Action,
        object: &str,
        work: impl FnOnce(&dyn Transact) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            By::Operator(admin) => admin.act(action, object, work),
            By::Node(meta) => work(*meta),
        }
    }

    /// Looks at something.
    pub fn read<T>(&self, work: impl FnOnce(&dyn Transact) -> T) -> T {
        match self {
            By::Operator(admin) => work(&admin.reader()),
            By::Node(meta) => work(*meta),
        }
    }
}
