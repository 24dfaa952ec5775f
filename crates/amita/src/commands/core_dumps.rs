//! What a process that holds keys and data leaves behind when it crashes: nothing, unless somebody looks for a fault.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// The setting of `serve`, `meta` and `ca serve`; other commands have none, and leave nothing.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct CoreDumps {
    /// Let the system write a core dump when this process crashes, and let debuggers in: keys are in it (buffers with data are
    /// not). For whoever looks for a fault
    #[arg(long, env = "AMITA_CORE_DUMPS")]
    pub core_dumps: bool,
}

impl CoreDumps {
    /// Forbids them, where they are not asked for: to the system, and to other processes of this user, which could read this
    /// one's memory otherwise.
    pub fn settle(self) {
        if self.core_dumps {
            return;
        }
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        if let Err(why) = setrlimit(Resource::Core, none) {
            log::warn!("core dumps cannot be limited: {why}");
        }
        if let Err(why) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            log::warn!("core dumps cannot be forbidden: {why}");
        }
    }
}

#[cfg(test)]
mod tests;
