//! Connections to gateways, and which of them kept this machine waiting.
//!
//! The kernel makes one connection of the whole machine at a time (a mutex of `/dev/nvme-fabrics`). A gateway whose machine takes connections by TCP, and which says
//! nothing then, holds it for ten seconds and more, and with it the paths of all volumes. So what took long is not asked again at once, by whichever volume.

use super::machine::Machine;
use super::nvme::{ALREADY, FABRICS};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What takes longer than this has kept the machine waiting.
const LONG: Duration = Duration::from_secs(1);
/// For so long such an address is left alone; twice as long each time after that,
const FIRST: Duration = Duration::from_secs(30);
/// at most.
const MOST: Duration = Duration::from_secs(240);
/// Addresses that are known to be slow, at most: more gateways than a cluster has.
const MOST_SLOW: usize = 1024;

/// For so long a gateway may be away and come again: it is started anew, or its machine is. A host's I/O waits as long for a path (decision 069).
const LEFT: Duration = Duration::from_secs(600);

/// Why there is no path.
#[derive(Debug)]
pub(super) enum Missing {
    /// Nobody answers there, or not soon, or nobody was asked for that: it is not asked again at once.
    Silent(io::Error),
    /// The gateway does not let this node in, and says so at once.
    Refused(io::Error),
}

impl Missing {
    pub(super) fn why(&self) -> &io::Error {
        match self {
            Missing::Silent(why) | Missing::Refused(why) => why,
        }
    }
}

/// An address that kept the machine waiting.
#[derive(Clone, Copy, Debug)]
struct Slow {
    until: Duration,
    wait: Duration,
    /// It took a connection: the kernel waited, and not this driver alone.
    in_kernel: bool,
}

/// Of all volumes of this node.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    /// Who connects: the kernel would have the others wait all the same, and so they see who was slow meanwhile.
    turn: Mutex<()>,
    slow: Mutex<BTreeMap<SocketAddr, Slow>>,
    /// Paths to gateways that are not named any more, and since when.
    left: Mutex<BTreeMap<(String, SocketAddr), Duration>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gateways {
    /// Did an address keep this machine waiting, and is left alone for now?
    pub(super) fn is_slow(&self, machine: &dyn Machine, address: SocketAddr) -> bool {
        self.slow_one(machine, address).is_some()
    }

    /// Of these paths to gateways that are not named any more, those of which that was so for long.
    pub(super) fn left_for_long(
        &self,
        machine: &dyn Machine,
        paths: BTreeSet<(String, SocketAddr)>,
    ) -> Vec<(String, SocketAddr)> {
        let now = machine.now();
        let mut left = lock(&self.left);
        left.retain(|path, _| paths.contains(path));
        for path in paths {
            left.entry(path).or_insert(now);
        }
        let is_long = |(_, since): &(&(String, SocketAddr), &Duration)| now.saturating_sub(**since) >= LEFT;
        left.iter().filter(is_long).map(|(path, _)| path.clone()).collect()
    }

    fn slow_one(&self, machine: &dyn Machine, address: SocketAddr) -> Option<Slow> {
        let slow = lock(&self.slow).get(&address).copied();
        slow.filter(|slow| machine.now() < slow.until)
    }

    fn put_off(&self, machine: &dyn Machine, address: SocketAddr, in_kernel: bool) {
        let now = machine.now();
        let mut all = lock(&self.slow);
        if all.len() >= MOST_SLOW {
            all.retain(|_, slow| now < slow.until);
        }
        if all.len() >= MOST_SLOW && !all.contains_key(&address) {
            return;
        }
        let wait = all.get(&address).map_or(FIRST, |before| (before.wait * 2).min(MOST));
        log::warn!(
            "{address} keeps this machine waiting: it is left alone for {} s",
            wait.as_secs()
        );
        let until = now + wait;
        all.insert(address, Slow { until, wait, in_kernel });
    }

    /// Connects by a line; what the kernel says. One that is slow is asked only where there is no other (`is_last`), and not where the kernel would wait for it.
    ///
    /// # Errors
    /// There is no path.
    pub(super) fn connect(
        &self,
        machine: &dyn Machine,
        address: SocketAddr,
        line: &str,
        is_last: bool,
    ) -> Result<String, Missing> {
        let left_alone = || {
            self.slow_one(machine, address)
                .filter(|slow| slow.in_kernel || !is_last)
        };
        let silent = |slow: Slow| {
            let seconds = slow.until.saturating_sub(machine.now()).as_secs();
            Missing::Silent(io::Error::other(format!(
                "it kept this machine waiting, and is asked again in {seconds} s"
            )))
        };
        if let Some(slow) = left_alone() {
            return Err(silent(slow));
        }
        // The kernel waits two minutes for an address that says nothing at all, and more than one for a gateway that is stopped.
        let begun = machine.now();
        if let Err(why) = machine.greet(address) {
            if machine.now().saturating_sub(begun) > LONG {
                self.put_off(machine, address, false);
            }
            return Err(Missing::Silent(why));
        }
        let _turn = lock(&self.turn);
        if let Some(slow) = left_alone() {
            return Err(silent(slow));
        }
        let begun = machine.now();
        match machine.exchange(FABRICS, line) {
            Ok(said) => {
                lock(&self.slow).remove(&address);
                Ok(said)
            }
            Err(why) if why.raw_os_error() != Some(ALREADY) && machine.now().saturating_sub(begun) > LONG => {
                self.put_off(machine, address, true);
                Err(Missing::Silent(why))
            }
            Err(why) => Err(Missing::Refused(why)),
        }
    }
}
