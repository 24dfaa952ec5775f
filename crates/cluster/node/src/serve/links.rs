//! The thread that has the cores' connections measured, and tells the cluster what is found.

use super::core_thread::ToCores;
use super::{Level, Log};
use crate::control::ToCore;
use crate::links::{Heard, LinkAnswer, LinkQuestion, Links, PLACES_PER_QUESTION, PeerLink, ROUND, drafts};
use amita_control::agent::Journal;
use amita_control::events::Severity;
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

/// What the node has heard of others' links, and of the policy.
#[derive(Clone)]
pub(super) struct Hearing {
    node: NodeId,
    heard: Arc<Mutex<Heard>>,
}

impl Hearing {
    pub(super) fn of(node: NodeId) -> Hearing {
        Hearing {
            node,
            heard: Arc::default(),
        }
    }

    /// A record of the metadata is there, or gone.
    pub(super) fn hear(&self, key: &str, value: Option<&[u8]>) {
        self.now(|heard| heard.hear(self.node, key, value));
    }

    fn now<T>(&self, what: impl FnOnce(&mut Heard) -> T) -> T {
        what(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the thread works with, and for whom.
pub(super) struct Meter {
    pub(super) node: NodeId,
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) cores: ToCores,
    pub(super) hearing: Hearing,
    pub(super) journal: Journal,
    pub(super) log: Log,
}

/// The thread. Dropped, it ends; nobody waits for that: it may be waiting for metadata that is away.
pub(super) struct Measuring {
    _stop: Sender<()>,
}

impl Measuring {
    pub(super) fn start(meter: Meter, shown: Shown) -> std::io::Result<Measuring> {
        let (stop, stopped) = channel::<()>();
        let mut rounds = Rounds {
            meter,
            links: Links::default(),
            from: BTreeMap::new(),
        };
        let run = move || {
            while stopped.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
                rounds.round();
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = rounds.links.shown();
            }
        };
        std::thread::Builder::new().name("amita-links".to_owned()).spawn(run)?;
        Ok(Measuring { _stop: stop })
    }
}

struct Rounds {
    meter: Meter,
    links: Links,
    /// Where to go on with each core.
    from: BTreeMap<usize, usize>,
}

impl Rounds {
    fn round(&mut self) {
        for core in 0..self.meter.cores.len() {
            for _ in 0..QUESTIONS {
                let from = self.from.remove(&core).unwrap_or(0);
                let Some(answer) = self.ask(core, from) else { break };
                self.links.take(&answer);
                let Some(next) = answer.next else { break };
                self.from.insert(core, next);
            }
        }
        let ended = self.meter.hearing.now(|heard| self.links.end_round(heard));
        for (node, network) in ended.steer {
            for core in 0..self.meter.cores.len() {
                self.meter.cores.send(core, ToCore::Steer { node, network });
            }
        }
        for draft in drafts(self.meter.node, &self.meter.name, &ended.tales) {
            let level = match draft.kind.severity() {
                Severity::Info => Level::Info,
                Severity::Warning | Severity::Error => Level::Warn,
            };
            (self.meter.log)(level, &draft.text);
            self.meter.journal.tell(draft);
        }
        if let Some(report) = ended.report
            && self.tell(report).is_none()
        {
            self.links.not_told();
        }
    }

    /// `None`: it does not answer, or has ended.
    fn ask(&self, core: usize, from: usize) -> Option<Box<LinkAnswer>> {
        let (reply, answer) = channel();
        self.meter.cores.send(core, ToCore::Links(LinkQuestion { from, reply }));
        answer.recv_timeout(PATIENCE).ok()
    }

    /// `None`: the metadata is away; the next round tells it.
    fn tell(&self, mut report: LinkReport) -> Option<()> {
        report.at_s = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let value = serde_json::to_vec(&report).ok()?;
        let call = Call::put(links_key(self.meter.node), value);
        self.meter.client.txn(&call).ok().map(drop)
    }
}

const _: () = assert!(PLACES_PER_QUESTION * QUESTIONS >= 1024);
