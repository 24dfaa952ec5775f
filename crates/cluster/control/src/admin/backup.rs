//! Backups: where they go, by which policies they are made by themselves, and what somebody wants once.

mod policy;
mod repository;
mod task;
mod verification;

pub use policy::{
    BackupChange, BackupVolumes, backup_policies, backup_policy, backup_volumes, create_backup_policy,
    delete_backup_policy, note_backup, note_backup_by_rules, run_backup_policy, set_backup_policy,
};
pub use repository::{
    RepositoryChange, add_backup_repository, backup_repositories, backup_repository, remove_backup_repository,
    set_backup_repository,
};
pub use task::{
    BackupTaskWish, UnreadableTask, WishedWork, backup_task, backup_tasks, cancel_backup_task, create_backup_task,
    note_backup_task, note_backup_task_place, remove_backup_task,
};
pub use verification::{VerifyChange, note_backup_verified, verify_backup_policy};
