//! A core says what it has counted.

use super::Core;
use crate::observe::{CoreReport, Observe, StoreReport, VolumeReport};
use amita_reactor::driver::Driver;
use amita_store::State;

impl Core {
    /// Answers a question. Whoever asked may have gone meanwhile.
    pub(super) fn observe(&self, driver: &dyn Driver, question: &Observe) {
        let _ = question.reply.send(Box::new(self.report(driver, question.traces)));
    }

    fn report(&self, driver: &dyn Driver, with_traces: bool) -> CoreReport {
        let traces = &self.shards.traces;
        let volumes = self.shards.usage().map(|(id, sequencer, usage)| {
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
        let stores = self.stores.paths().map(|(path, store)| StoreReport {
            id: store.status().id,
            path: path.display().to_string(),
            serves: matches!(store.state(), State::Serving) && self.stores.serves(store.status().id),
            status: store.status(),
            times: store.times().clone(),
        });
        CoreReport {
            core: self.config.core,
            now: driver.now(),
            passes: self.passes,
            driver: driver.counts(),
            volumes: volumes.collect(),
            stores: stores.collect(),
            fabric: self.fabric.counters(),
            links: self.fabric.links(),
            sessions: self.fronts.sessions(),
            background_bytes: self.shards.pace().bytes,
            traces: *traces.counters(),
            stages: traces.stages().clone(),
            slow_after: traces.slow_after(),
            recent: traces.recent().filter(|_| with_traces).cloned().collect(),
            slow: traces.slow().filter(|_| with_traces).cloned().collect(),
        }
    }
}
