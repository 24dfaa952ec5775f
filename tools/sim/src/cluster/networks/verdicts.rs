//! What coordinators say of networks, and whether they may.

use super::{Cluster, Networks};
use crate::faults::Member;
use amita_control::coordinator::{Sentence, Warning};
use amita_control::network::Blame;
use amita_reactor::Time;
use amita_types::NodeId;
use amita_types::recovery::SickPolicy;
use std::collections::BTreeMap;
use std::time::Duration;

/// What one coordinator has said.
#[derive(Debug, Default)]
pub struct Verdicts {
    said: Vec<Verdict>,
    resting: Resting,
}

#[derive(Debug)]
pub enum Verdict {
    Said(Warning),
    /// It leads no more, and knows nothing of what it has said.
    Deposed,
}

/// A node that was isolated.
#[derive(Clone, Copy, Debug)]
struct Rest {
    since: Time,
    /// At the latest.
    until: Time,
    count: u32,
}

type Resting = BTreeMap<NodeId, Rest>;

impl Verdicts {
    /// Keeps what is about networks.
    pub fn hear(&mut self, verdict: Verdict) {
        if let Verdict::Deposed | Verdict::Said(Warning::SickNetwork { .. } | Warning::NetworkWell { .. }) = verdict {
            self.said.push(verdict);
        }
    }
}

fn member(node: NodeId) -> Member {
    node.0 as usize - 1
}

impl Cluster {
    /// What coordinators have said of networks since somebody looked.
    pub(in crate::cluster) fn hear_verdicts(&mut self, now: Time) -> Result<(), String> {
        for place in 0..self.leads.len() {
            let verdicts = self.leads[place].as_mut().map(|lead| &mut lead.verdicts);
            let Some(verdicts) = verdicts.filter(|verdicts| !verdicts.said.is_empty()) else {
                continue;
            };
            let Verdicts { said, mut resting } = std::mem::take(verdicts);
            for verdict in said {
                match verdict {
                    Verdict::Deposed => resting.clear(),
                    Verdict::Said(warning) => self.judge_verdict(now, &mut resting, &warning)?,
                }
            }
            if let Some(lead) = &mut self.leads[place] {
                lead.verdicts.resting = resting;
            }
        }
        Ok(())
    }

    fn judge_verdict(&mut self, now: Time, resting: &mut Resting, warning: &Warning) -> Result<(), String> {
        self.tell(|| format!("a coordinator: {warning}"));
        match warning {
            Warning::SickNetwork {
                blame,
                evidence,
                sentence,
            } => {
                self.judge_blame(now, blame, evidence)?;
                self.judge_sentence(now, resting, blame, sentence)
            }
            // Its rest may end from now on.
            Warning::NetworkWell {
                blame: Blame::Node(node),
                ..
            } => {
                if let Some(rest) = resting.get_mut(node) {
                    rest.until = now;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whoever is blamed has had bad links enough; in a cluster that is well nobody is.
    fn judge_blame(&mut self, now: Time, blame: &Blame, evidence: &str) -> Result<(), String> {
        let (is_right, path) = match blame {
            Blame::Node(node) => {
                let bad = self.bad_peers(member(*node), now).len();
                let is_right = bad >= 2 && bad * 2 >= self.nodes.len() - 1;
                (is_right, "network.blamed_node")
            }
            Blame::Link(one, other) => {
                let is_right = self.bad_peers(member(*one), now).contains(&member(*other));
                (is_right, "network.blamed_link")
            }
            Blame::Network => (self.has_bad_links(), "network.blamed_network"),
            // No node of a run has a rack.
            Blame::Rack(..) => (false, "network.blamed_rack"),
        };
        if !is_right {
            return Err(format!(
                "{blame} is blamed, and nothing that was injected has made it sick: {evidence}"
            ));
        }
        self.coverage.hit(path);
        Ok(())
    }

    /// What is done is what the policy says, and to one node at a time.
    fn judge_sentence(
        &mut self,
        now: Time,
        resting: &mut Resting,
        blame: &Blame,
        sentence: &Sentence,
    ) -> Result<(), String> {
        let (least, path) = match sentence {
            Sentence::Proposed { .. } => (SickPolicy::Propose, "network.proposed"),
            Sentence::Avoided => (SickPolicy::Avoid, "network.avoided"),
            Sentence::Isolated => (SickPolicy::Isolate, "network.isolated"),
            Sentence::Stays { hindrance } if hindrance.contains("no copy to spare") => {
                (SickPolicy::Isolate, "network.stays_for_copies")
            }
            Sentence::Stays { .. } => (SickPolicy::Isolate, "network.stays"),
            _ => (SickPolicy::Propose, "network.told"),
        };
        if !self.networks.in_force(now).any(|policy| policy >= least) {
            return Err(format!("the policy does not allow what becomes of {blame}: {sentence}"));
        }
        self.coverage.hit(path);
        if let (Blame::Node(node), Sentence::Isolated) = (blame, sentence) {
            let rest_s = self.setup.measured.map_or(0, |measured| measured.settings.rest_s);
            isolate(&self.networks, now, resting, *node, Duration::from_secs(rest_s.into()))?;
        }
        Ok(())
    }
}

/// A node is isolated; no other one may be resting.
fn isolate(networks: &Networks, now: Time, resting: &mut Resting, node: NodeId, rest: Duration) -> Result<(), String> {
    resting.retain(|_, known| !networks.is_set_back(known.since, now));
    let other = resting
        .iter()
        .find(|(other, known)| **other != node && known.until > now);
    if let Some((other, known)) = other {
        return Err(format!(
            "node {node} is isolated, and node {other} is so since {} ms",
            known.since.0 / 1_000_000
        ));
    }
    let count = resting.get(&node).map_or(0, |known| known.count);
    let until = now.plus(rest.saturating_mul(1 << count.min(16)));
    let count = count + 1;
    resting.insert(
        node,
        Rest {
            since: now,
            until,
            count,
        },
    );
    Ok(())
}
