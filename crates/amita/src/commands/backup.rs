//! `amita backup`: volumes are copied into a repository that is nothing of the cluster's, and come back from there, also where there is no
//! cluster any more.
//!
//! What is in a repository, and how, is `amita_backup`'s; here is what reads and writes volumes, and what people say and are told.

mod base;
mod by;
mod changes;
mod failure;
mod key;
mod points;
mod policy;
mod pour;
mod prune;
mod repository;
mod restore;
mod run;
mod runner;
mod s3;
mod sessions;
mod target;
mod task;
mod tasks;
mod verify;

pub(crate) use points::{ANOTHER_NODE, known as points_of};
pub use runner::Backups;

use crate::cli::Endpoints;
use amita_terminal::error::Result;

/// What to do with backups.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Repositories: make one, and have the cluster know it
    #[command(subcommand)]
    Repository(repository::Command),
    /// Tasks: have nodes back a volume up, restore one or give a point up, once
    #[command(subcommand)]
    Task(tasks::Command),
    /// Policies: what nodes back up by themselves, when, and which of it is kept
    #[command(subcommand)]
    Policy(policy::Command),
    /// Back volumes up: what changed since their last backup, or all of them the first time
    ///
    /// A snapshot is taken of each volume, of several at one moment, and copied; nobody has to stop writing. At the end the snapshot is
    /// deleted but for its mark, which takes no space, and from which the next backup goes on; the mark of the one before is deleted. A run
    /// that was interrupted or killed is simply done again: what it has put is there, and is not sent once more.
    Run(run::Arguments),
    /// List what can be restored, the oldest first
    List(points::ListArguments),
    /// Show what a point has, and who is at work in the repository
    Show(points::ShowArguments),
    /// Read what is in the repository, and see whether it is whole
    ///
    /// Every pack is asked for, and every point's tree is read; of the data a sample, or all of it with --whole. Exit code 1: something is
    /// damaged or missing.
    Verify(verify::Arguments),
    /// Give up old points, and remove what no other one needs; backups may run meanwhile
    Prune(prune::Arguments),
    /// Restore a volume as it was at a point: to a new volume of any cluster, or to a file, without a cluster
    Restore(restore::Arguments),
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, endpoints: &Endpoints) -> Result<()> {
    let plain = endpoints.insecure_network();
    match command {
        Command::Repository(command) => repository::run(command, endpoints),
        Command::Task(command) => tasks::run(command, endpoints),
        Command::Policy(command) => policy::run(command, endpoints),
        Command::Run(arguments) => run::run(arguments, endpoints),
        Command::List(arguments) => points::list(arguments, plain),
        Command::Show(arguments) => points::show(arguments, plain),
        Command::Verify(arguments) => verify::run(arguments, plain),
        Command::Prune(arguments) => prune::run(arguments, plain),
        Command::Restore(arguments) => restore::run(arguments, endpoints),
    }
}
