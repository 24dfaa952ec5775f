//! Members that left because the network of their node is sick.
//!
//! * The policy isolates, and the node's links to half of all others at least were bad at some time.
//! * Enough copies are left at other nodes that serve them: the pool's least number, and two at least.
//! * No other node is isolated meanwhile.

use super::{Cluster, Counts, Move, Then, home, node_id};
use amita_reactor::Time;
use amita_types::{NodeId, StoreId, map};
use std::collections::BTreeMap;
use std::time::Duration;

/// That a node is gone the coordinator may not have heard yet.
const UNHEARD: Duration = Duration::from_secs(3);

/// Who was isolated, and who is gone.
#[derive(Default)]
pub(super) struct Isolations {
    /// Nodes that have not been taken in again, since when.
    away: BTreeMap<NodeId, Time>,
    /// When nodes' liveness keys went.
    gone: BTreeMap<String, Time>,
}

impl Isolations {
    pub fn lives(&mut self, live_key: &str) {
        self.gone.remove(live_key);
    }

    pub fn dies(&mut self, live_key: &str, at: Time) {
        self.gone.insert(live_key.to_owned(), at);
        self.away.retain(|node, _| live_key != map::live_key(*node));
    }

    /// Another coordinator knows nothing of who rests.
    pub fn forget(&mut self) {
        self.away.clear();
    }
}

impl Cluster {
    /// The coordinator has taken a member out that a living node serves, and that is neither slow nor unwanted.
    pub(super) fn judge_isolation(
        &self,
        then: &mut Then,
        changed: &Move<'_>,
        store: StoreId,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let (at, member) = (then.at, home(store).0);
        let node = node_id(member);
        let Some(measured) = self.setup.measured.filter(|_| self.networks.may_isolate(at)) else {
            return Err("the coordinator evicted a store that a living node serves".to_owned());
        };
        let bad = self.bad_peers(member, at).len();
        if bad * 2 < self.nodes.len() - 1 {
            return Err(format!(
                "node {node} was isolated, and {bad} of its links were ever bad"
            ));
        }
        let others = changed.now.in_sync.iter().filter(|other| home(**other).0 != member);
        let served = others.filter(|other| then.was_live(**other, at)).count();
        let least = changed.min_copies.max(2);
        if served < least {
            return Err(format!(
                "node {node} was isolated, and {served} copies are left at others, where {least} must be"
            ));
        }
        let rest = Duration::from_secs(measured.settings.rest_s.into());
        let away = &mut then.isolations.away;
        // Its rest began when it was decided, a little before.
        let rests = |since: Time| since.plus(rest) > at.plus(UNHEARD) && !self.networks.is_set_back(since, at);
        away.retain(|_, since| rests(*since));
        if let Some(other) = away.keys().find(|other| **other != node) {
            return Err(format!("node {node} was isolated while node {other} was"));
        }
        away.entry(node).or_insert(at);
        counts.isolated += 1;
        Ok(())
    }

    /// Members are listed that will be brought up to date: has one of them come back before its time was over?
    pub(super) fn count_back(&self, then: &mut Then, changed: &Move<'_>, counts: &mut Counts) {
        let Some(measured) = self.setup.measured else { return };
        let rest = Duration::from_secs(measured.settings.rest_s.into());
        for syncing in changed.listed() {
            let node = node_id(home(syncing.store).0);
            if let Some(since) = then.isolations.away.remove(&node) {
                let is_early = since.plus(rest) > then.at && !self.networks.is_set_back(since, then.at);
                counts.back_early += u64::from(is_early);
            }
        }
    }
}

impl Then {
    /// Does the store's node live and serve it, as far as somebody can have heard?
    fn was_live(&self, store: StoreId, at: Time) -> bool {
        let gone = self.isolations.gone.get(&map::live_key(node_id(home(store).0)));
        self.is_live(store) || gone.is_some_and(|gone| gone.plus(UNHEARD) > at)
    }
}
