//! Whoever watches the node asks its cores by this.

use super::core_thread::ToCores;
use super::links::Shown;
use super::plane::Joined;
use super::{ServeConfig, ServeError};
use crate::control::ToCore;
use crate::observe::{
    CollectReport, CollectSessions, CoreReport, CoreSessions, ExportCounters, KeptQuestion, KeptTraces, NodeReport,
    NodeSessions, Observe, ProcessReport, Server, SessionsQuestion, SessionsWanted, TraceSource, Wanted,
};
use amita_control::agent::{Agent, Insight, Policies};
use amita_identity::Live;
use amita_types::{ClusterId, NodeId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Cores that are asked for sessions at once: what they tell is there before it is known how much that is.
const ASKED_AT_ONCE: usize = 8;
/// For how long the cores are waited for: they answer within a pass.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whoever has it can ask the cores, until they end; then nothing is answered.
pub(super) fn collector(
    config: &ServeConfig,
    joined: &Joined,
    cores: &ToCores,
    agent: &Agent,
    older: &Arc<AtomicBool>,
    export: &Arc<ExportCounters>,
    links: &Shown,
) -> CollectReport {
    let asking = Asking {
        cluster: joined.cluster,
        node: joined.node,
        name: config.name.clone(),
        cores: cores.clone(),
        policies: agent.policies().clone(),
        insight: agent.insight().clone(),
        older: Arc::clone(older),
        identity: config.identity.clone(),
        started: SystemTime::now(),
        export: Arc::clone(export),
        links: Arc::clone(links),
    };
    Arc::new(move |wanted| asking.ask(wanted))
}

/// Whoever has it can take the traces of the cores, until they end.
pub(super) fn traces(
    config: &ServeConfig,
    joined: &Joined,
    cores: &ToCores,
    export: &Arc<ExportCounters>,
) -> TraceSource {
    let cores = cores.clone();
    TraceSource {
        cluster: joined.cluster,
        node: joined.node,
        name: config.name.clone(),
        collect: Arc::new(move |after: &[u64]| {
            let (reply, replies) = channel();
            for core in 0..cores.len() {
                let question = KeptQuestion {
                    after: after.get(core).copied().unwrap_or(0),
                    reply: reply.clone(),
                };
                cores.send(core, ToCore::Kept(question));
            }
            drop(reply);
            let mut answers: Vec<(SystemTime, KeptTraces)> = Vec::new();
            await_all(&replies, |answer| answers.push((SystemTime::now(), answer)));
            answers.sort_by_key(|(_, answer)| answer.core);
            answers
        }),
        counters: Arc::clone(export),
    }
}

/// Whoever has it can ask for the sessions of initiators, until the cores end.
pub(super) fn sessions(cores: &ToCores) -> CollectSessions {
    let cores = cores.clone();
    Arc::new(move |wanted: &SessionsWanted| {
        let ask = |core: usize, after: u64, wanted: Arc<SessionsWanted>, reply: Sender<Box<CoreSessions>>| {
            cores.send(core, ToCore::Sessions(SessionsQuestion { after, wanted, reply }));
        };
        gather(cores.len(), wanted, &ask)
    })
}

/// How a core is asked: its number, the number of the last session that is not wanted, and what is.
type Ask<'a> = &'a dyn Fn(usize, u64, Arc<SessionsWanted>, Sender<Box<CoreSessions>>);

/// Sessions of so many cores, as far as they are wanted.
fn gather(cores: usize, wanted: &SessionsWanted, ask: Ask<'_>) -> NodeSessions {
    let (first, behind) = wanted.after.unwrap_or((0, 0));
    let mut found = NodeSessions::default();
    let mut left = wanted.limit;
    let asked: Vec<usize> = (first..cores).collect();
    for some in asked.chunks(ASKED_AT_ONCE) {
        let (reply, replies) = channel();
        let own = Arc::new(SessionsWanted {
            limit: left,
            ..wanted.clone()
        });
        for &core in some {
            let after = if core == first { behind } else { 0 };
            ask(core, after, Arc::clone(&own), reply.clone());
        }
        drop(reply);
        let mut answers: Vec<CoreSessions> = Vec::new();
        await_all(&replies, |answer| answers.push(answer));
        found.silent += some.len() - answers.len();
        answers.sort_by_key(|answer| answer.core);
        for mut answer in answers {
            found.is_cut |= answer.is_cut || answer.sessions.len() > left;
            answer.sessions.truncate(left);
            left -= answer.sessions.len();
            found.cores.push(answer);
            if found.is_cut {
                return found;
            }
        }
    }
    found
}

/// What the cores answer, of those that do so in time.
fn await_all<T>(replies: &Receiver<Box<T>>, mut each: impl FnMut(T)) {
    let until = Instant::now() + PATIENCE;
    while let Ok(answer) = replies.recv_timeout(until.saturating_duration_since(Instant::now())) {
        each(*answer);
    }
}

/// Serves what the cores say, where the settings want it.
pub(super) fn start(config: &ServeConfig, collect: &CollectReport) -> Result<Option<Server>, ServeError> {
    let Some(address) = config.metrics else { return Ok(None) };
    let server = Server::start(address, Arc::clone(collect));
    server.map(Some).map_err(|why| ServeError::listen(address, &why))
}

/// What it takes to ask.
struct Asking {
    cluster: ClusterId,
    node: NodeId,
    name: String,
    cores: ToCores,
    policies: Policies,
    insight: Insight,
    /// The node's keeper tells by this.
    older: Arc<AtomicBool>,
    identity: Option<Arc<Live>>,
    started: SystemTime,
    export: Arc<ExportCounters>,
    links: Shown,
}

impl Asking {
    fn ask(&self, wanted: Wanted) -> NodeReport {
        let (reply, replies) = channel();
        for core in 0..self.cores.len() {
            let question = Observe {
                traces: wanted.traces,
                space: wanted.space.clone(),
                reply: reply.clone(),
            };
            self.cores.send(core, ToCore::Observe(question));
        }
        drop(reply);
        let mut cores: Vec<CoreReport> = Vec::new();
        await_all(&replies, |report| cores.push(report));
        cores.sort_by_key(|report| report.core);
        NodeReport {
            node: self.node,
            name: self.name.clone(),
            cluster: self.cluster,
            cores,
            core_count: self.cores.len(),
            policies: self.policies.reports(),
            process: ProcessReport::of(self.started),
            certificate: self.identity.as_ref().map(|live| (&*live.current()).into()),
            leads: self.insight.leads(),
            metadata_silent: self.insight.silent(),
            metadata_older: self.older.load(Ordering::Relaxed),
            figures: if wanted.figures { self.insight.figures() } else { None },
            export: self.export.report(),
            links: self.links.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

#[cfg(test)]
mod tests;
