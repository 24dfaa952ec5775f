//! A set of snapshots that the volume is in, and how it ends with its owner (S4).

use amita_metadata::{Call, Compare, KeyValue, Op};
use amita_types::SetId;
use amita_types::map::{self, SetState, Snapshot, SnapshotSet, SnapshotState};

/// What was read of a set that the owner before had not ended.
#[derive(Clone, Debug)]
pub(super) struct OpenSet {
    /// Its key, and the revision of its record; 0: it is gone, and with that void.
    key: String,
    revision: u64,
    record: Option<SnapshotSet>,
    /// The volume's own snapshot, by its key and revision.
    snapshot: Option<(String, u64, Snapshot)>,
}

impl OpenSet {
    /// # Errors
    /// A record that cannot be read: its key, and why.
    pub fn read(
        set: SetId,
        record: Option<&KeyValue>,
        snapshot: Option<&KeyValue>,
    ) -> Result<OpenSet, (String, String)> {
        let bad = |found: &KeyValue, why: String| (found.key.clone(), why);
        let read = record.map(|found| {
            let parsed = found.json::<SnapshotSet>();
            parsed.map_err(|error| bad(found, error.to_string()))
        });
        let own = snapshot.map(|found| {
            let parsed = found.json::<Snapshot>();
            let parsed = parsed.map_err(|error| bad(found, error.to_string()))?;
            Ok::<_, (String, String)>((found.key.clone(), found.mod_revision, parsed))
        });
        Ok(OpenSet {
            key: map::set_key(set),
            revision: record.map_or(0, |found| found.mod_revision),
            record: read.transpose()?,
            snapshot: own.transpose()?,
        })
    }

    /// Is it decided, and its snapshots are ones?
    pub fn is_ready(&self) -> bool {
        let is_there = self.snapshot.is_some();
        is_there && (self.record.as_ref()).is_some_and(|set| set.state == SetState::Ready)
    }

    /// What the raise of the volume's generation does with it. It compares what was read here: an owner that is deposed may have a
    /// leader that is about to decide.
    pub fn decide(&self, call: &mut Call, volume: &str) {
        let compare = |key: &str, equals| Compare::ModRevision {
            key: key.to_owned(),
            equals,
        };
        call.compares.push(compare(&self.key, self.revision));
        let json = "a record of numbers and texts";
        if let Some(set) = self.record.as_ref().filter(|set| set.state == SetState::Taking) {
            let why = format!("volume {volume} was taken over by another gateway meanwhile");
            call.then.push(Op::Put {
                key: self.key.clone(),
                value: serde_json::to_vec(&set.voided(why, true)).expect(json),
                lease: None,
            });
        }
        if let Some((key, revision, snapshot)) = self.snapshot.as_ref().filter(|_| self.is_ready())
            && let SnapshotState::Taking(generation) = snapshot.state
        {
            let sealed = Snapshot {
                state: SnapshotState::Sealed(generation),
                ..snapshot.clone()
            };
            call.compares.push(compare(key, *revision));
            call.then.push(Op::Put {
                key: key.clone(),
                value: serde_json::to_vec(&sealed).expect(json),
                lease: None,
            });
        }
    }
}
