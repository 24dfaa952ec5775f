//! Memory against the limit on the address space: what a node is going to take must fit before it serves anybody. Beyond the limit no
//! mapping is to be had, nor a thread's stack, and a process ends in the middle of its work.

use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;

/// What a node maps beside buffers and indexes: the program, stacks, rings, and what the allocator sets aside for each thread.
const BESIDE_BYTES: u64 = 1 << 30;

/// What a node was told to take. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub cores: usize,
    /// Buffers of each core.
    pub buffers: u64,
    /// For the indexes of all stores; none: what is usual for the machine.
    pub index: Option<u64>,
}

impl Plan {
    /// The bytes for the indexes, on a machine that has so many bytes of memory.
    ///
    /// # Errors
    /// When all of it does not fit beneath the limit.
    pub fn index_bytes(self, memory: u64, limit: Option<u64>) -> Result<u64> {
        let usual = memory / 2;
        let Some(limit) = limit else {
            return Ok(self.index.unwrap_or(usual));
        };
        let buffers = self.buffers.saturating_mul(self.cores as u64);
        let taken = buffers.saturating_add(BESIDE_BYTES);
        let all = taken.saturating_add(self.index.unwrap_or(0));
        if all > limit {
            return Err(self.refused(limit, all));
        }
        Ok(self.index.unwrap_or(usual.min(limit - taken)))
    }

    fn refused(self, limit: u64, all: u64) -> Failure {
        let Plan { cores, buffers, index } = self;
        let of = if cores == 1 {
            "one core".to_owned()
        } else {
            format!("each of {cores} cores")
        };
        let index = index.map_or_else(String::new, |bytes| {
            format!("{} of --index-memory, ", size::show(bytes))
        });
        Failure::new(format!(
            "this process may have {limit} of address space (RLIMIT_AS), and needs {all}: {buffers} of --buffers for {of}, \
             {index}and {beside} for all else",
            limit = size::show(limit),
            all = size::show(all),
            buffers = size::show(buffers),
            beside = size::show(BESIDE_BYTES),
        ))
        .kind(Kind::Usage)
        .advice(
            "Raise the limit where the node is started (`ulimit -v unlimited` in a shell, LimitAS=infinity in a unit of systemd), or \
             choose less with --buffers, --cores or --index-memory.",
        )
    }
}

/// The limit on the address space of this process, in bytes; none: there is none.
pub fn limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// The host's memory, in bytes.
pub fn of_the_host() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

#[cfg(test)]
mod tests;
