//! Whoever watches the node asks its cores by this.

use super::core_thread::ToCores;
use super::plane::Joined;
use super::{ServeConfig, ServeError};
use crate::control::ToCore;
use crate::observe::{CollectReport, CoreReport, NodeReport, Observe, ProcessReport, Server, Wanted};
use amita_control::agent::{Agent, Insight, Policies};
use amita_identity::Live;
use amita_types::{ClusterId, NodeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

/// For how long the cores are waited for: they answer within a pass.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whoever has it can ask the cores, until they end; then nothing is answered.
pub(super) fn collector(
    config: &ServeConfig,
    joined: &Joined,
    cores: &ToCores,
    agent: &Agent,
    older: &Arc<AtomicBool>,
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
    };
    Arc::new(move |wanted| asking.ask(wanted))
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
        let until = Instant::now() + PATIENCE;
        let mut cores: Vec<CoreReport> = Vec::new();
        while let Ok(report) = replies.recv_timeout(until.saturating_duration_since(Instant::now())) {
            cores.push(*report);
        }
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
        }
    }
}
