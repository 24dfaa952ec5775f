//! A volume goes back to a point (T2, T11): by the transaction of `amita volume revert` (decision 056), of a volume that is closed.

use super::{Gateway, TAKING_FOR, now};
use crate::admin::Described;
use crate::commands::volume::data::{Data, is_alone, not_alone};
use crate::commands::volume::snapshot;
use crate::logging::timestamp;
use amita_control::admin::{self, DataKeys};
use amita_node::volume_keys::KeyFile;
use amita_terminal::error::Result;
use amita_types::VolumeId;
use amita_types::map::{Mirror, Point, Snapshot, Volume};
use std::collections::BTreeMap;
use std::time::Instant;

/// As `amita volume revert` labels what it has taken before.
const LABEL: &str = "amita:revert";

impl Gateway {
    pub(super) fn go_back(&mut self, record: &Mirror, volume: VolumeId, point: &Point, keep: bool) -> Result<()> {
        self.wanted.check()?;
        let mut before = admin::mirrored_volume(&self.client, record, volume).described()?;
        let to = admin::snapshot(&self.client, &before.name, &point.snapshots).described()?;
        if to.size_bytes > before.size_bytes {
            let own = (record, self.claim);
            let grown = admin::resize_mirrored(&self.client, &before.name, to.size_bytes, own).described()?;
            before = grown.ok_or_else(|| self.wanted.lose())?;
        }
        admin::may_revert(&self.client, &before, &to, Some(record.id)).described()?;
        let data = self.way(record).open(&before.name)?;
        let owned = self.own(record, &before, &data, &to);
        // Whoever opens it from now on raises its generation, and is seen.
        data.close();
        let (owned, taken) = owned?;
        let keys = self.config.volume_keys.as_ref().map(KeyFile::at);
        let revert = admin::Revert {
            volume: &owned,
            to: &to,
            before: &taken,
            keep,
            now: now(),
            keys: keys.as_ref().map(|file| file as &dyn DataKeys),
            mirror: Some(record.id),
        };
        let reverted = admin::revert_volume(&self.client, &revert).described();
        if reverted.is_err() {
            // It is taken anew the next time.
            let gone = admin::delete_snapshot(&self.client, &owned.name, &taken.name);
            if let Err(why) = gone {
                log::debug!("snapshot {}@{} stays: {why}", owned.name, taken.name);
            }
        }
        reverted.map(drop)
    }

    /// The volume as it is owned here, by nobody else since it was read, and what was taken of it: all its stores have adopted the generation then.
    fn own(&self, record: &Mirror, before: &Volume, data: &Data, to: &Snapshot) -> Result<(Volume, Snapshot)> {
        let owned = admin::volume(&self.client, &before.name).described()?;
        if !is_alone(data, before, &owned) {
            return Err(not_alone(&before.name, "is reverted"));
        }
        self.wanted.check()?;
        let at = now();
        let name = format!("before-revert-{}", timestamp(at.as_secs(), at.subsec_millis()));
        let labels = BTreeMap::from([(LABEL.to_owned(), to.name.clone())]);
        let wish = admin::ask_mirrors_snapshot(&self.client, &owned.name, &name, labels, at, record.id).described()?;
        let state = snapshot::await_taken(&self.client, &wish, Instant::now() + TAKING_FOR).described()?;
        let taken = snapshot::taken(&format!("{}@{name}", owned.name), state, TAKING_FOR)?;
        Ok((owned, taken))
    }
}
