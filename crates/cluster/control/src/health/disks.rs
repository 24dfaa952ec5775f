//! Disks that are not well, as the coordinator has noted them.

use super::{Fact, Kind, Picture};
use amita_types::condition::DiskLevel;

impl Picture<'_> {
    pub(super) fn of_disks(&self, facts: &mut Vec<Fact>) {
        for found in self.sick_disks {
            let own = self.stores.iter().find(|own| own.store.id == found.store);
            // Of one that was taken out nobody needs to hear.
            let Some(own) = own else { continue };
            let (id, node) = (found.store, &own.node_name);
            // What a disk calls itself, and says of itself, may be anything.
            let (disk, evidence) = (found.disk.escape_debug(), found.evidence.escape_debug().to_string());
            let evidence = evidence.trim_end_matches('.');
            let whose = format!("The disk of store {id} on node {node} ({disk})");
            let failing = || {
                let decision = found.decision.escape_debug();
                format!("{whose} predicts its failure: {evidence}. {decision}")
                    .trim_end()
                    .to_owned()
            };
            let (kind, text, advice) = match found.level {
                DiskLevel::Warn => (
                    Kind::DiskAging,
                    format!("{whose} is not well: {evidence}."),
                    "Order another one.".to_owned(),
                ),
                DiskLevel::Avoid => (
                    Kind::DiskFailing,
                    failing(),
                    format!(
                        "`amita disk drain {id}` moves its copies to others; `amita disk replace {id} NEW` gives them to a new disk."
                    ),
                ),
                DiskLevel::Isolate => (
                    Kind::DiskFailing,
                    failing(),
                    format!("When no group is left on it, `amita disk forget {id}`, and take it out."),
                ),
            };
            facts.push(Fact::new(kind, [id.to_string(), node.clone()], text, &advice));
        }
    }
}
