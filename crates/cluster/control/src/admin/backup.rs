//! Backups that are made by themselves: where they go, and by which policies.

mod policy;
mod repository;
mod verification;

pub use policy::{
    BackupChange, BackupVolumes, backup_policies, backup_policy, backup_volumes, create_backup_policy,
    delete_backup_policy, note_backup, note_backup_by_rules, run_backup_policy, set_backup_policy,
};
pub use repository::{
    RepositoryChange, add_backup_repository, backup_repositories, backup_repository, remove_backup_repository,
    set_backup_repository,
};
pub use verification::{VerifyChange, note_backup_verified, verify_backup_policy};
