//! The thread that has the cores' connections measured, and tells the cluster what is found.

use super::core_thread::ToCores;
use crate::control::ToCore;
use crate::links::{LinkAnswer, LinkQuestion, Links, PLACES_PER_QUESTION, PeerLink, ROUND};
use amita_metadata::{Call, Client};
use amita_types::NodeId;
use amita_types::link::{LinkReport, links_key};
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long a core is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions to each core in a round: where it has more connections, the next round goes on.
const QUESTIONS: usize = 16;

/// The figures of peers, where others read them.
pub(super) type Shown = Arc<Mutex<Vec<PeerLink>>>;

/// The thread. Dropped, it ends; nobody waits for that: it may be waiting for metadata that is away.
pub(super) struct Measuring {
    _stop: Sender<()>,
}

impl Measuring {
    pub(super) fn start(node: NodeId, client: Client, cores: ToCores, shown: Shown) -> std::io::Result<Measuring> {
        let (stop, stopped) = channel::<()>();
        let mut meter = Meter {
            node,
            client,
            cores,
            links: Links::default(),
            from: BTreeMap::new(),
        };
        let run = move || {
            while stopped.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
                meter.round();
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = meter.links.shown();
            }
        };
        std::thread::Builder::new().name("amita-links".to_owned()).spawn(run)?;
        Ok(Measuring { _stop: stop })
    }
}

struct Meter {
    node: NodeId,
    client: Client,
    cores: ToCores,
    links: Links,
    /// Where to go on with each core.
    from: BTreeMap<usize, usize>,
}

impl Meter {
    fn round(&mut self) {
        for core in 0..self.cores.len() {
            for _ in 0..QUESTIONS {
                let from = self.from.remove(&core).unwrap_or(0);
                let Some(answer) = self.ask(core, from) else { break };
                self.links.take(&answer);
                let Some(next) = answer.next else { break };
                self.from.insert(core, next);
            }
        }
        if let Some(report) = self.links.end_round()
            && self.tell(report).is_none()
        {
            self.links.not_told();
        }
    }

    /// `None`: it does not answer, or has ended.
    fn ask(&self, core: usize, from: usize) -> Option<Box<LinkAnswer>> {
        let (reply, answer) = channel();
        self.cores.send(core, ToCore::Links(LinkQuestion { from, reply }));
        answer.recv_timeout(PATIENCE).ok()
    }

    /// `None`: the metadata is away; the next round tells it.
    fn tell(&self, mut report: LinkReport) -> Option<()> {
        report.at_s = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let value = serde_json::to_vec(&report).ok()?;
        self.client.txn(&Call::put(links_key(self.node), value)).ok().map(drop)
    }
}

const _: () = assert!(PLACES_PER_QUESTION * QUESTIONS >= 1024);
