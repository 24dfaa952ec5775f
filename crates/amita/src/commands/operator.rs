//! `amita operator`.

use crate::cli::Folder;
use crate::commands::join::{self, CreateArguments, JoinArguments};
use amita_identity::{OperatorRole, Role};
use amita_terminal::error::Result;

/// What to do with operators.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make an operator's identity: a folder, here; or with --token what lets them join from their own machine
    ///
    /// Roles: admin does everything; operator does the daily work with disks, pools, volumes and hosts; viewer looks and
    /// changes nothing; auditor looks, and reads the audit log; tenant has no business at the metadata (for the API, once there is
    /// one). An operator of several roles has several certificates: revoke OPERATOR/NAME first where one is to be taken away.
    Create {
        #[command(flatten)]
        create: CreateArguments,
        /// What they may do: admin, operator, tenant, viewer or auditor
        #[arg(long, value_name = "ROLE", default_value = "operator")]
        role: OperatorRole,
    },
    /// Get an operator an identity with a token: its key is made here, and never leaves
    Join(JoinArguments),
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, identity: &Folder) -> Result<()> {
    match command {
        Command::Create { create, role } => join::create_operator(create, *role, identity),
        Command::Join(arguments) => join::join(arguments, Role::Operator, identity),
    }
}
