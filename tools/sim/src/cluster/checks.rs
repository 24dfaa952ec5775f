//! What is judged when a run is over.

mod inside;
mod membership;
mod paths;
mod stores;

pub(super) use inside::Looks;
pub(super) use paths::Owner;

use super::{Cluster, volume_name};
use crate::faults::Member;
use crate::solo::count_store;

impl Cluster {
    /// Counts what a node's parts have done; called before they go.
    pub(super) fn count_node(&mut self, member: Member) {
        for core in self.nodes[member].each_core() {
            for store in core.stores().each() {
                let status = store.status();
                count_store(&mut self.coverage, &status.counters);
                self.coverage
                    .add("store.records_replayed", status.mount.records_replayed);
                self.coverage
                    .add("store.mount_ended_short", u64::from(status.mount.ended_short));
            }
            for (_, sequencer) in core.shards().each() {
                count_sequencer(&mut self.coverage, &sequencer.status().counters);
            }
        }
    }

    /// The cluster in a few lines, for a failure's message.
    pub(super) fn describe(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for number in 0..self.setup.volumes {
            let gateway = self.hosts.gateways()[number as usize] + 1;
            let name = volume_name(number);
            let _ = writeln!(text, "{name}: its hosts are at node {gateway}");
            if let Ok(volume) = self.volume(number) {
                let (generation, owner) = (volume.generation, volume.owner);
                let _ = writeln!(text, "{name}: generation {generation}, owner {owner:?}");
            }
        }
        for id in self.groups() {
            if let Ok(group) = self.group(id) {
                let _ = writeln!(
                    text,
                    "group {id}: epoch {}, members {:?}, in sync {:?}, syncing {:?}",
                    group.epoch, group.members, group.in_sync, group.syncing
                );
            }
        }
        for (member, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(
                text,
                "node {}: up {}, stores failed: {:?}",
                member + 1,
                node.is_up(),
                node.failed
            );
            for core in node.each_core() {
                for store in core.stores().each() {
                    let _ = writeln!(text, "  store {:?}: {:?}", store.state(), store.status());
                }
                for (_, sequencer) in core.shards().each() {
                    let _ = writeln!(text, "  {:?}", sequencer.status());
                }
            }
        }
        text
    }
}

/// A sequencer's counters, as paths.
fn count_sequencer(coverage: &mut crate::coverage::Coverage, counters: &amita_sequencer::Counters) {
    coverage.add("volume.writes", counters.writes);
    coverage.add("volume.reads", counters.reads);
    coverage.add("volume.opened", counters.opened);
    coverage.add("volume.rolled", counters.rolled);
    coverage.add("volume.evicted", counters.evicted);
    coverage.add("volume.adopted", counters.adopted);
    coverage.add("volume.resent", counters.resent);
    coverage.add("volume.held", counters.held);
    coverage.add("volume.unleased", counters.unleased);
    coverage.add("volume.lease_renewals", counters.lease_renewals);
    coverage.add("volume.settles", counters.settles);
    coverage.add("volume.caught_up", counters.caught_up);
    coverage.add("volume.doubted", counters.doubted);
    coverage.add("volume.cleared", counters.cleared);
    coverage.add("volume.inherited", counters.inherited);
    coverage.add("volume.unsettled_parents", counters.unsettled_parents);
    coverage.add("volume.credit_waits", counters.credit_waits);
    coverage.add("volume.hedged", counters.hedged);
    coverage.add("volume.stale_epochs", counters.stale_epochs);
    coverage.add("volume.not_fenced", counters.not_fenced);
    coverage.add("volume.foreign_answers", counters.foreign_answers);
    coverage.add("volume.unknown", counters.unknown);
    coverage.add("volume.lost_races", counters.lost_races);
    coverage.add("volume.damaged", counters.damaged);
    coverage.add("sync.started", counters.sync_started);
    coverage.add("sync.dropped", counters.sync_dropped);
    coverage.add("sync.whole", counters.sync_whole);
    coverage.add("sync.promoted", counters.sync_promoted);
    coverage.add("sync.joined", counters.joined);
    coverage.add("sync.mended", counters.mended);
    coverage.add("sync.mended_blocks", counters.mended_blocks);
    coverage.add("sync.mend_skipped", counters.mend_skipped);
    coverage.add("sync.mend_restarts", counters.mend_restarts);
    coverage.add("sync.mend_held", counters.mend_held);
}
