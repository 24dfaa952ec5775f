//! A core says what it has counted.

use super::Core;
use crate::observe::{CoreReport, Observe, StoreReport, VolumeReport};
use amita_reactor::driver::{Driver, Time};
use amita_store::State;
use std::fmt::Write;

/// Answers a question. Whoever asked may have gone meanwhile.
pub(super) fn observe(core: &mut Core, driver: &dyn Driver, question: &Observe) {
    let mut counted = Vec::new();
    for (store, question) in question.space.iter().flat_map(|asked| asked.iter()) {
        let count = core.cx.stores.count(driver.now(), *store, question);
        counted.extend(count.map(|count| (*store, count)));
    }
    let mut report = report(core, driver, question.traces);
    report.counted = counted;
    let _ = question.reply.send(Box::new(report));
}

fn report(core: &Core, driver: &dyn Driver, with_traces: bool) -> CoreReport {
    let traces = &core.cx.shards.traces;
    let volumes = core.cx.shards.usage().map(|(id, sequencer, usage)| {
        let status = sequencer.status();
        VolumeReport {
            id,
            name: sequencer.volume_name().to_owned(),
            usage: usage.clone(),
            in_flight: status.ios,
            syncing: status.syncs.iter().filter(|sync| sync.ended.is_none()).count(),
            stuck_groups: status.stuck_groups.len(),
            counters: status.counters,
        }
    });
    let stores = core.cx.stores.paths().map(|(path, store)| StoreReport {
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
        volumes: volumes.collect(),
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
