//! Records of sets that nobody else ends (S4): the owner of a set's first volume leads it, and is gone with that volume.

use super::super::Result;
use super::super::subsystem::{put, unchanged};
use super::super::volume::believable;
use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::map::{self, SetState, SnapshotSet, Volume, is_hidden};
use amita_types::{SetId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For how long a set is looked at that is not decided. Whoever leads one gives it up within two minutes.
const UNDECIDED: Duration = Duration::from_secs(600);
/// For how long the record of one that is decided stays: whoever wished it is to read why it is void.
const KEPT: Duration = Duration::from_secs(60);
/// Records that are changed at one look.
const MOST: usize = 64;

/// Which sets were seen, and since when by a clock that only goes on; with the revision of the record, which is another one when the
/// set is decided.
#[derive(Default)]
pub struct SetSweep {
    seen: BTreeMap<(SetId, u64), Duration>,
}

impl SetSweep {
    /// Makes sets void whose first volume is deleted, or that nobody decides; removes records that are decided and that no volume's
    /// names. `now`: by a clock that only goes on. Returns what was made void.
    ///
    /// # Errors
    /// The metadata is suspected or away, or the record of a volume cannot be read: what it names is not known.
    pub fn sweep(&mut self, meta: &dyn Transact, now: Duration) -> Result<Vec<String>> {
        let sets = meta.txn(&Call::prefix(map::sets_prefix()))?;
        if sets.values(0).is_empty() {
            self.seen.clear();
            return Ok(Vec::new());
        }
        believable(meta)?;
        // At one moment: a set that is decided then is named by no volume later that does not name it then.
        let reply = meta.txn(&Call {
            then: [map::sets_prefix(), map::volume_key("")]
                .map(|key| Op::Prefix { key })
                .into(),
            ..Call::default()
        })?;
        let volumes = reply.values(1).iter().map(KeyValue::json::<Volume>);
        let volumes: Vec<Volume> = volumes
            .collect::<std::result::Result<_, _>>()
            .map_err(amita_metadata::Error::from)?;
        let there = volumes.iter().filter(|volume| !is_hidden(&volume.name));
        let there: BTreeSet<VolumeId> = there.map(|volume| volume.id).collect();
        let former: BTreeSet<VolumeId> = volumes.iter().flat_map(|volume| volume.former.clone()).collect();
        let named: BTreeSet<SetId> = volumes.iter().filter_map(|volume| volume.lineage.set).collect();
        let before = std::mem::take(&mut self.seen);
        let mut ended = Vec::new();
        let mut changed = 0;
        // What nobody can read is told of by the status.
        for found in reply.values(0) {
            let Ok(set) = found.json::<SnapshotSet>() else { continue };
            let seen = (set.id, found.mod_revision);
            let since = *before.get(&seen).unwrap_or(&now);
            self.seen.insert(seen, since);
            let for_long = now.saturating_sub(since);
            let then = match &set.state {
                _ if changed == MOST => continue,
                SetState::Taking => {
                    let first = set.volumes.first().filter(|first| !there.contains(&first.id));
                    let is_former = first.is_some_and(|first| former.contains(&first.id));
                    let why = match first {
                        Some(first) if is_former => format!("its volume {} was reverted meanwhile", first.name),
                        Some(first) => format!("its volume {} was deleted meanwhile", first.name),
                        None if for_long < UNDECIDED => continue,
                        None => format!("no gateway has decided it within {} s", UNDECIDED.as_secs()),
                    };
                    ended.push(format!("set {} ({}): {why}", set.id, set.name));
                    put(found.key.clone(), &set.voided(why, is_former))
                }
                _ if for_long < KEPT || named.contains(&set.id) => continue,
                _ => Op::Delete { key: found.key.clone() },
            };
            changed += 1;
            let call = Call {
                compares: vec![unchanged(&found.key, found.mod_revision)],
                then: vec![then],
                otherwise: Vec::new(),
            };
            // Who has changed it meanwhile has decided it, or removed it.
            meta.txn(&call)?;
        }
        Ok(ended)
    }
}
