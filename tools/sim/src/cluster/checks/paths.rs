//! The paths of initiators: where nothing is wrong any more each comes back, and says truly whether its gateway owns the volume (SPC-4, "Target
//! port asymmetric access states"). A host that goes by others meanwhile would notice neither.

use crate::cluster::Cluster;
use amita_types::NodeId;
use std::collections::BTreeSet;
use std::time::Duration;

/// So long after all was healed each path was seen to be right. (In long lives they are looked at every 20 s.)
const BACK: Duration = Duration::from_secs(90);
/// A session that is reinstated is away for a moment: they need not be right all at once.
const LOOK: Duration = Duration::from_millis(10);

/// A gateway that owns a volume, by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub tag: u16,
    /// Has it the volume open? A gateway that has started anew, and was asked for nothing of the volume since, has not, and is no shorter way to it.
    pub is_open: bool,
}

impl Cluster {
    /// Every path of every initiator is seen to be right, under the owners of the moment. (Where something may rightly wait for ever, a session that
    /// has asked for it may have to wait for that before it is logged in again.)
    pub(in crate::cluster) fn judge_paths(&mut self) -> Result<(), String> {
        if self.may_block_at_all() {
            return Ok(());
        }
        let limit = self.world.now().plus(BACK);
        let (mut right, mut known) = (BTreeSet::new(), Vec::new());
        loop {
            let volumes = 0..self.setup.volumes;
            let owners: Vec<Option<Owner>> = volumes
                .map(|number| self.owner_of(number))
                .collect::<Result<_, String>>()?;
            if owners != known {
                known = owners;
                right.clear();
            }
            let Some(wrong) = self.hosts.wrong_path(&known, &mut right) else {
                self.coverage.add("judge.paths", right.len() as u64);
                return Ok(());
            };
            if self.world.now() >= limit {
                return Err(format!("nothing is wrong any more, and {wrong}\n{}", self.describe()));
            }
            self.rest(LOOK)?;
        }
    }

    fn owner_of(&self, number: u64) -> Result<Option<Owner>, String> {
        let volume = self.volume(number)?;
        let of = |node: NodeId| {
            let mut cores = self.nodes[node.0 as usize - 1].each_core();
            Owner {
                tag: node.0 as u16,
                is_open: cores.any(|core| core.shards().generation(volume.id).is_some()),
            }
        };
        Ok(volume.owner.map(of))
    }
}
