//! Paths of before this driver was started, to which nobody comes back: a volume was taken from the node while the driver was away, and nobody has it unstaged. The
//! kernel tries them for ever.

use super::{Node, nvme};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tonic::Status;

/// For so long nobody may let them in, and nobody use them: gateways may be away as well.
const LONG: Duration = Duration::from_secs(600);

/// Subsystems that had no path, and no user, when the driver was started, and have had none since; and when it was started.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<Option<(Duration, BTreeSet<String>)>>);

impl Leftovers {
    /// Those that are to go by now, once: of those that are useless at present.
    fn due(&self, now: Duration, useless: BTreeSet<String>) -> BTreeSet<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, left) = state.get_or_insert_with(|| (now, useless.clone()));
        left.retain(|nqn| useless.contains(nqn));
        match now.saturating_sub(*begun) < LONG {
            true => BTreeSet::new(),
            false => std::mem::take(left),
        }
    }
}

impl Node {
    /// Ends them. A disk that is staged, and shown to nobody yet, has a path that is live.
    pub(super) fn end_of_leftovers(&self) -> Result<(), Status> {
        let machine = self.machine();
        let all = nvme::paths(machine)?;
        let live: BTreeSet<&str> = all
            .iter()
            .filter(|path| path.state == "live")
            .map(|path| path.nqn.as_str())
            .collect();
        let own = all.iter().map(|path| path.nqn.as_str());
        let dead: BTreeSet<&str> = own
            .filter(|nqn| !live.contains(nqn) && self.number(nqn).is_some())
            .collect();
        let mut useless = BTreeSet::new();
        for nqn in dead {
            let disks = nvme::disks(machine, |name| name == nqn)?;
            if disks.iter().all(|disk| self.not_used(disk).is_ok()) {
                useless.insert(nqn.to_owned());
            }
        }
        for nqn in self.leftovers.due(machine.now(), useless) {
            let Some((number, _hold)) = self
                .number(&nqn)
                .and_then(|number| Some((number, self.hold(number).ok()?)))
            else {
                continue;
            };
            match self.close_all(number).and_then(|()| self.leave(|name| name == nqn)) {
                Ok(()) => log::info!("{nqn} was left from before, and is ended"),
                Err(why) => log::warn!("{nqn} was left from before, and stays: {}", why.message()),
            }
        }
        Ok(())
    }
}
