//! A core says what it has counted.
//!
//! The figures of a volume are 10 KB, and a core may have thousands of them, and know of more that are limited: they are copied over several
//! passes, so that no I/O waits for all of them. Those who ask are threads of this node, each of which waits for its answer: there are few
//! questions at a time.

use super::Core;
use super::context::Context;
use crate::limits::{Counts, Gate, JointCounts, MOST_TOLD_OF};
use crate::links::{LinkAnswer, LinkQuestion, Named, PLACES_PER_QUESTION};
use crate::observe::{
    CoreReport, CoreSessions, FoundSession, KeptQuestion, KeptTraces, Observe, SessionsQuestion, StoreReport,
    VolumeReport,
};
use crate::shards::Shards;
use amita_iscsi::IscsiFront;
use amita_reactor::driver::{Driver, Time};
use amita_store::State;
use amita_types::{NodeId, VolumeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

/// Volumes whose figures one pass copies at most, whoever asks: about 2.5 MB.
pub(super) const VOLUMES_PER_PASS: usize = 256;

/// The questions that are being answered, in the order in which they came.
#[derive(Default)]
pub(super) struct Observing(VecDeque<Answering>);

impl Observing {
    /// A question has come. Answered are the figures of the volumes that are open now, and of limited ones that are, or were used here lately, each as it is when its turn
    /// comes.
    pub(super) fn ask(&mut self, now: Time, shards: &Shards, gate: &Gate, question: Observe) {
        let left: Vec<VolumeId> = shards.volumes().collect();
        self.0.push_back(Answering {
            volumes: Vec::with_capacity(left.len()),
            limited: Vec::new(),
            limited_left: gate.told_of(now, left.iter().copied()),
            left,
            question,
        });
    }

    /// Has every question had its answer?
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Volumes that are still to be copied, for all questions.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        let of = |answering: &Answering| answering.left.len() + answering.limited_left.len();
        self.0.iter().map(of).sum()
    }
}

struct Answering {
    question: Observe,
    /// The volumes that are still to be copied. Their numbers say where to go on: what is opened or closed meanwhile makes none of the
    /// others come twice, or not at all.
    left: Vec<VolumeId>,
    volumes: Vec<VolumeReport>,
    /// The same of those that are limited.
    limited_left: Vec<VolumeId>,
    limited: Vec<(String, Counts)>,
}

impl Answering {
    /// Copies the figures of so many volumes at most. How many were looked at; one that is closed, or not limited, by now has none.
    fn copy(&mut self, cx: &Context, gate: &Gate, most: usize) -> usize {
        let from = self.left.len().saturating_sub(most);
        let piece = self.left.drain(from..);
        let looked_at = piece.len();
        self.volumes.extend(piece.filter_map(|id| of_volume(&cx.shards, id)));
        let from = self.limited_left.len().saturating_sub(most - looked_at);
        let piece = self.limited_left.drain(from..);
        let all_looked_at = looked_at + piece.len();
        self.limited.extend(piece.filter_map(|id| of_limited(cx, gate, id)));
        all_looked_at
    }

    fn is_copied(&self) -> bool {
        self.left.is_empty() && self.limited_left.is_empty()
    }
}

/// Goes on with the questions, as far as a pass may.
pub(super) fn go_on(core: &mut Core, driver: &dyn Driver) {
    let mut room = VOLUMES_PER_PASS;
    while let Some(mut answering) = core.observing.0.pop_front() {
        room -= answering.copy(&core.cx, &core.forwarding.gate, room);
        if !answering.is_copied() {
            return core.observing.0.push_front(answering);
        }
        answer(core, driver, answering);
    }
}

/// Whoever asked may have gone meanwhile.
fn answer(core: &mut Core, driver: &dyn Driver, answering: Answering) {
    let Answering {
        question,
        volumes,
        limited,
        ..
    } = answering;
    let mut counted = Vec::new();
    for (store, question) in question.space.iter().flat_map(|asked| asked.iter()) {
        let count = core.cx.stores.count(driver.now(), *store, question);
        counted.extend(count.map(|count| (*store, count)));
    }
    let mut report = report(core, driver, question.traces);
    (report.volumes, report.limited, report.counted) = (volumes, limited, counted);
    report.limits_known = core.forwarding.gate.limited();
    report.joints = joints(&core.forwarding.gate);
    let _ = question.reply.send(Box::new(report));
}

fn of_volume(shards: &Shards, id: VolumeId) -> Option<VolumeReport> {
    let (sequencer, usage) = shards.usage(id)?;
    let status = sequencer.status();
    Some(VolumeReport {
        id,
        name: sequencer.volume_name().to_owned(),
        usage: usage.clone(),
        in_flight: status.ios,
        syncing: status.syncs.iter().filter(|sync| sync.ended.is_none()).count(),
        stuck_groups: status.stuck_groups.len(),
        counters: status.counters,
    })
}

fn of_limited(cx: &Context, gate: &Gate, id: VolumeId) -> Option<(String, Counts)> {
    let counts = gate.counts_of(id)?;
    let record = cx.view.volume_of(id)?;
    Some((record.name.clone(), counts))
}

/// Tenants and pools whose limits something has passed here, or waits for.
fn joints(gate: &Gate) -> Vec<(String, JointCounts)> {
    let all = gate.joint_counts().map(|(name, _, counts)| (name.to_string(), counts));
    all.filter(|(_, counts)| *counts != JointCounts::default())
        .take(MOST_TOLD_OF)
        .collect()
}

/// Cut peers that one answer names: with more, something else is wrong.
const MOST_CUT: usize = 64;

/// Tells what the kernel has counted of some connections to other nodes. Clients come and go, and judge nobody.
pub(super) fn tell_links(core: &Core, driver: &mut dyn Driver, question: &LinkQuestion) {
    let Context {
        peers, view, config, ..
    } = &core.cx;
    let mut paths = Vec::new();
    let next = peers
        .fabric
        .paths(driver, question.from, PLACES_PER_QUESTION, &mut paths);
    let name = |node: NodeId| view.node_record(node).filter(|record| !record.client);
    paths.retain(|path| name(path.peer).is_some());
    let is_cut = |node: &NodeId| view.lives(*node) && name(*node).is_some();
    let cut: Vec<NodeId> = match question.from {
        0 => peers.lost().filter(is_cut).take(MOST_CUT).collect(),
        _ => Vec::new(),
    };
    let nodes: BTreeSet<NodeId> = paths.iter().map(|path| path.peer).chain(cut.iter().copied()).collect();
    let named = nodes.into_iter().filter_map(|node| {
        let record = name(node)?;
        Some(Named {
            node,
            name: record.name.clone(),
            has_second: record.fabric2.is_some(),
        })
    });
    let answer = LinkAnswer {
        core: config.core,
        named: named.collect(),
        paths,
        next,
        cut,
    };
    let _ = question.reply.send(Box::new(answer));
}

/// Tells which traces were kept since, with the names that go with them.
pub(super) fn tell_kept(core: &Core, driver: &dyn Driver, question: &KeptQuestion) {
    let (kept, view) = (&core.cx.shards.traces, &core.cx.view);
    let traces: Vec<_> = kept.kept_after(question.after).cloned().collect();
    let wanted: BTreeSet<_> = traces.iter().map(|trace| trace.volume).collect();
    let open = core.cx.shards.each().filter(|(volume, _)| wanted.contains(volume));
    let volumes = if wanted.is_empty() {
        Vec::new()
    } else {
        open.map(|(id, volume)| (id, volume.volume_name().to_owned())).collect()
    };
    let stores = traces.iter().flat_map(|trace| {
        let legs = trace.legs.iter().map(|leg| leg.store);
        legs.chain(trace.last).chain(trace.missed)
    });
    let stores: BTreeSet<_> = stores.collect();
    let nodes = stores.into_iter().filter_map(|store| {
        let node = view.node_of(store).and_then(|node| view.node_record(node))?;
        Some((store, node.name.clone()))
    });
    let answer = KeptTraces {
        core: core.cx.config.core,
        now: driver.now(),
        last: kept.kept(),
        nodes: nodes.collect(),
        traces,
        volumes,
    };
    // Whoever asked may have gone meanwhile.
    let _ = question.reply.send(Box::new(answer));
}

/// Tells which sessions of initiators there are.
pub(super) fn tell_sessions(core: &Core, driver: &dyn Driver, question: &SessionsQuestion) {
    let SessionsQuestion { after, wanted, reply } = question;
    let is_meant = |front: &IscsiFront| {
        let ends = front.ends();
        ends.is_some_and(|(initiator, target)| wanted.is_about(initiator, target))
    };
    let (found, is_cut) = core.fronts.initiators(*after, wanted.limit, is_meant);
    let sessions = found.into_iter().filter_map(|(front, peer, iscsi)| {
        Some(FoundSession {
            number: front.0,
            peer,
            report: iscsi.report()?,
        })
    });
    let answer = CoreSessions {
        core: core.cx.config.core,
        now: driver.now(),
        sessions: sessions.collect(),
        is_cut,
    };
    // Whoever asked may have gone meanwhile.
    let _ = reply.send(Box::new(answer));
}

/// All but what is copied a piece at a time, and what stores were asked to count.
fn report(core: &Core, driver: &dyn Driver, with_traces: bool) -> CoreReport {
    let traces = &core.cx.shards.traces;
    let turns: BTreeMap<_, _> = core.cx.stores.turn_counts().collect();
    let stores = core.cx.stores.paths().map(|(path, store)| StoreReport {
        turns: turns.get(&store.status().id).copied(),
        id: store.status().id,
        path: path.display().to_string(),
        serves: matches!(store.state(), State::Serving) && core.cx.stores.serves(store.status().id),
        status: store.status(),
        times: store.times().clone(),
    });
    CoreReport {
        core: core.cx.config.core,
        now: driver.now(),
        passes: core.cx.clock.passes(),
        driver: driver.counts(),
        volumes: Vec::new(),
        limited: Vec::new(),
        limits_known: 0,
        joints: Vec::new(),
        stores: stores.collect(),
        counted: Vec::new(),
        fabric: core.cx.peers.fabric.counters(),
        links: core.cx.peers.fabric.links(),
        sessions: core.fronts.sessions(),
        background_bytes: core.cx.shards.pace().bytes,
        traces: *traces.counters(),
        stages: traces.stages().clone(),
        slow_after: traces.slow_after(),
        recent: traces.recent().filter(|_| with_traces).cloned().collect(),
        slow: traces.slow().filter(|_| with_traces).cloned().collect(),
    }
}

/// What is under way, for a person who looks for a fault.
pub(super) fn describe(core: &Core, now: Time) -> String {
    let mut text = format!(
        "core {} at {:?}, timer {:?}",
        core.cx.config.core,
        now,
        core.cx.clock.timer()
    );
    for store in core.cx.stores.each() {
        let _ = write!(text, "\n  store: {:?}, {:?}", store.state(), store.status());
    }
    for (volume, sequencer) in core.cx.shards.each() {
        let _ = write!(
            text,
            "\n  volume {volume}: {:?}, {:?}, deadline {:?}",
            sequencer.status(),
            sequencer.counters(),
            sequencer.deadline()
        );
    }
    let _ = write!(text, "\n  background work: {:?}", core.cx.shards.pace());
    let _ = write!(text, "\n  fabric: {:?}", core.cx.peers.fabric.counters());
    core.fronts.describe(&mut text);
    text
}
