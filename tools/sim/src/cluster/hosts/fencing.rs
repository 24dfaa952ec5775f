//! Hosts that share a volume fence one another off by its persistent reservation, as clusters of hosts do (`fence_scsi`): one of them
//! preempts another's key, and from the answer on nothing that the other one has asked for takes effect, by whatever gateway.
//!
//! The one that was fenced off goes on for a while, since it knows nothing of that; then it starts again, and registers anew.

use super::fronted::{Client, FrontedHost};
use super::initiator::Initiator;
use super::{CLOSING_HOST, Hosts};
use crate::cluster::Setup;
use crate::history::{History, OperationId};
use crate::random::Random;
use crate::workload::Workload;
use amita_reactor::Time;
use std::time::Duration;

/// So long a host that was fenced off goes on at least: nothing of what it has sent is under way by then.
const UNAWARE: Duration = Duration::from_secs(3);

/// How it stands with a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Well,
    /// It is being fenced off.
    Attempted,
    /// It was, at that event of the history, and starts again then.
    Fenced { event: u64, until: Time },
    /// Nobody knows; it starts again as well.
    Doubtful { until: Time },
    /// It speaks NVMe/TCP, and does not register. The event from which on the volume was reserved.
    Stranger { since: Option<u64> },
}

/// Who fences off whom.
pub(super) struct Fencing {
    random: Random,
    next_at: Time,
    standings: Vec<Standing>,
}

impl Fencing {
    pub(super) fn new(setup: &Setup) -> Option<Fencing> {
        let fronted = setup.fronted.filter(|fronted| fronted.iscsi.reserves.is_some())?;
        let standing = |number| match fronted.registers(number) {
            true => Standing::Well,
            false => Standing::Stranger { since: None },
        };
        let mut random = Random::new(setup.seed).fork(72);
        Some(Fencing {
            next_at: Time(random.within(500_000_000, 3_000_000_000)),
            random,
            standings: (0..setup.profile.clients).map(standing).collect(),
        })
    }

    fn until(&self, index: usize) -> Option<Time> {
        match self.standings[index] {
            Standing::Fenced { until, .. } | Standing::Doubtful { until } => Some(until),
            Standing::Well | Standing::Attempted | Standing::Stranger { .. } => None,
        }
    }

    /// At which event a host was fenced off, if it is.
    pub(super) fn fenced_at(&self, index: usize) -> Option<u64> {
        match self.standings.get(index) {
            Some(Standing::Fenced { event, .. }) => Some(*event),
            Some(Standing::Stranger { since }) => *since,
            _ => None,
        }
    }

    /// May a host be told of a reservation that it is not admitted by?
    pub(super) fn may_conflict(&self, index: usize) -> bool {
        self.standings
            .get(index)
            .is_some_and(|standing| *standing != Standing::Well)
    }

    pub(super) fn deadline(&self, patient: bool) -> Option<Time> {
        let each = (0..self.standings.len()).filter_map(|index| self.until(index));
        each.chain((!patient).then_some(self.next_at)).min()
    }
}

impl Hosts {
    fn initiator(&mut self, index: usize) -> Option<&mut Initiator> {
        match &mut self.hosts.get_mut(index)?.fronted.as_mut()?.client {
            Client::Iscsi(initiator) => Some(initiator),
            _ => None,
        }
    }

    /// Is a host one that may be fenced off now?
    fn can_be_fenced(&self, now: Time, index: usize) -> bool {
        match self.hosts.get(index).and_then(|host| host.fronted.as_ref()) {
            Some(fronted) => match &fronted.client {
                Client::Iscsi(initiator) => initiator.can_be_fenced(now),
                Client::Nvme(linux) => linux.can_be_fenced(now),
                _ => false,
            },
            None => false,
        }
    }

    /// Fences hosts off, and starts those again that were.
    pub(super) fn act_fencing(&mut self, now: Time, workload: &mut Workload, history: &mut History) {
        let Some(fencing) = &mut self.fencing else { return };
        let hosts = 0..fencing.standings.len();
        let due: Vec<usize> = hosts
            .clone()
            .filter(|index| fencing.until(*index).is_some_and(|until| now >= until))
            .collect();
        let is_due = !self.patient && now >= fencing.next_at;
        for index in due {
            self.start_again(now, index, workload, history);
        }
        if !is_due {
            return;
        }
        let Some(fencing) = &mut self.fencing else { return };
        fencing.next_at = now.plus(Duration::from_millis(fencing.random.within(200, 4000)));
        let by = fencing.random.below(hosts.len() as u64) as usize;
        let standings = fencing.standings.clone();
        if standings.contains(&Standing::Attempted) {
            return;
        }
        let volume = self.hosts[by].volume;
        // By iSCSI, whomever it is.
        let may_act = self.initiator(by).is_some();
        let can = |index: usize| standings[index] == Standing::Well && self.can_be_fenced(now, index);
        let victims: Vec<usize> = match may_act && can(by) {
            true => hosts.filter(|index| *index != by && can(*index)).collect(),
            false => Vec::new(),
        };
        let victims: Vec<usize> = victims
            .into_iter()
            .filter(|index| self.hosts[*index].volume == volume)
            .collect();
        if victims.is_empty() {
            return;
        }
        let Some(fencing) = &mut self.fencing else { return };
        let victim = *fencing.random.pick(&victims);
        fencing.standings[victim] = Standing::Attempted;
        let number = self.hosts[victim].number;
        if let Some(fronted) = &mut self.hosts[victim].fronted {
            fronted.hold_still(now);
        }
        if let Some(initiator) = self.initiator(by) {
            initiator.fence(now, number);
        }
        self.run_fronted(now, by, workload, history);
    }

    /// A host has reserved its volume: strangers write nothing there any more.
    pub(super) fn reserved(&mut self, index: usize, history: &mut History) {
        let Some(fencing) = &mut self.fencing else { return };
        let volume = self.hosts[index].volume;
        for (standing, host) in fencing.standings.iter_mut().zip(&self.hosts) {
            if *standing == (Standing::Stranger { since: None }) && host.volume == volume {
                let since = Some(history.fence(host.number));
                *standing = Standing::Stranger { since };
                self.coverage.hit("iscsi.strangers_kept_out");
            }
        }
    }

    /// A host has been fenced off, or nobody knows.
    pub(super) fn fenced(&mut self, now: Time, victim: u32, is_done: bool, history: &mut History) {
        let Some(fencing) = &mut self.fencing else { return };
        let until = now.plus(UNAWARE + Duration::from_millis(fencing.random.below(2000)));
        fencing.standings[victim as usize] = match is_done {
            true => Standing::Fenced {
                event: history.fence(victim),
                until,
            },
            false => Standing::Doubtful { until },
        };
        let is_nvme = |host: &FrontedHost| matches!(host.client, Client::Nvme(_));
        let is_nvme = self.hosts[victim as usize].fronted.as_deref().is_some_and(is_nvme);
        self.coverage.hit(match (is_done, is_nvme) {
            (true, false) => "iscsi.fenced",
            (true, true) => "iscsi.fenced_nvme",
            (false, _) => "iscsi.fenced_perhaps",
        });
    }

    /// A host starts again: what it had under way nobody waits for.
    fn start_again(&mut self, now: Time, index: usize, workload: &mut Workload, history: &mut History) {
        let number = self.hosts[index].number;
        let Some(fronted) = &mut self.hosts[index].fronted else {
            return;
        };
        let gone: Vec<OperationId> = fronted.pending();
        fronted.start_again();
        for _ in gone {
            self.coverage.hit("hosts.unknown_outcome");
            if number < CLOSING_HOST {
                workload.ended(number);
            }
        }
        if let Some(fencing) = &mut self.fencing {
            fencing.standings[index] = Standing::Well;
        }
        self.run_fronted(now, index, workload, history);
    }

    /// The reservations that hosts keep come to their end. Returns whether they have.
    pub fn end_reservations(&mut self, now: Time, workload: &mut Workload, history: &mut History) -> bool {
        let Some(fencing) = &self.fencing else { return true };
        let is_calm = |standing: &Standing| matches!(standing, Standing::Well | Standing::Stranger { .. });
        if !fencing.standings.iter().all(is_calm) {
            return false;
        }
        let mut all = true;
        for index in 0..fencing.standings.len() {
            if let Some(initiator) = self.initiator(index) {
                all &= initiator.end_reservation(now);
            }
            self.run_fronted(now, index, workload, history);
        }
        all
    }
}

impl FrontedHost {
    /// It registers nothing any more before it starts again.
    fn hold_still(&mut self, now: Time) {
        match &mut self.client {
            Client::Iscsi(initiator) => initiator.hold_still(now, true),
            Client::Nvme(linux) => linux.hold_still(true),
            _ => {}
        }
    }

    /// The machine starts again: its connections are gone.
    fn start_again(&mut self) {
        match &mut self.client {
            Client::Iscsi(initiator) => **initiator = initiator.anew(),
            Client::Nvme(linux) => **linux = linux.anew(),
            _ => return,
        }
        self.close_all();
    }
}
