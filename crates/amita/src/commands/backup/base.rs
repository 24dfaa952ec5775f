//! The snapshots that backups are made from, and which of them the next one goes on from.
//!
//! A backup's snapshot has a label that says for which vault and by which session it was taken, and the hash of that session's entry: so the
//! cluster remembers what the vault was, and a vault that was set back is seen. When a point has it, the snapshot is deleted but for its mark.
//! What a session that is over has left is deleted by the next one.

use super::by::By;
use super::failure::{self, Described as _};
use crate::admin::Described as _;
use crate::commands::volume::snapshot::{await_set, await_taken, not_noted, taken};
use amita_backup::{Error, Head, Identity, SessionId, Vault, VolumePoint};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, SetTaking};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_types::VolumeId;
use amita_types::map::{BACKUP_LABEL, BackedSnapshot, Namespace, Snapshot, SnapshotState, Volume};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The pause before a set is tried anew, whose owners have changed or were slow.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a volume is looked at anew that has changed between two looks, as one that has just moved to another pool.
const LOOKS: usize = 3;

/// What a snapshot's label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    session: SessionId,
    hash: [u8; 32],
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The label of a session's snapshots, `VAULT/SESSION/HASH`. The session has just begun: the last entry that is known is its own.
pub fn label(vault: &Vault, session: SessionId) -> String {
    format!("{}/{session}/{}", vault.id(), hexadecimal(&vault.head().hash))
}

/// What a snapshot's label says of a vault; none: it is of no backup into that one.
fn origin(snapshot: &Snapshot, vault: &str) -> Option<Origin> {
    let text = snapshot
        .labels
        .get(BACKUP_LABEL)?
        .strip_prefix(vault)?
        .strip_prefix('/')?;
    let (session, digits) = text.split_once('/')?;
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let session = SessionId(session.parse().ok()?);
    Some(Origin { session, hash })
}

/// A volume of the cluster that is backed up.
pub struct Subject {
    pub volume: Volume,
    pub identity: Identity,
}

impl Subject {
    pub fn find(by: &By<'_>, name: &str) -> Result<Subject> {
        if name.contains('@') {
            return Err(
                Failure::new(format!("{name} names a snapshot, and volumes are backed up"))
                    .kind(Kind::Usage)
                    .advice("Name the volume: a snapshot is taken of it."),
            );
        }
        let volume = by.read(|meta| admin::volume(meta, name)).described()?;
        let cluster = by.read(admin::cluster).described()?.id;
        let identity = Identity {
            cluster: cluster.0.to_be_bytes(),
            volume: *Namespace::uuid_of(cluster, volume.host()).as_bytes(),
            name: name.to_owned(),
        };
        Ok(Subject { volume, identity })
    }

    /// The volume of this number, whose name was this one a moment ago.
    ///
    /// # Errors
    /// The metadata is away; there is none of that name; or it is another volume by now.
    pub fn numbered(by: &By<'_>, id: VolumeId, name: &str) -> Result<Subject> {
        let subject = Subject::find(by, name)?;
        match subject.volume.host() == id {
            true => Ok(subject),
            false => Err(renamed(name)),
        }
    }

    /// The snapshot of this name, which a backup has taken of the volume that was known by this name: if it is the same volume, and the snapshot is
    /// its own.
    ///
    /// # Errors
    /// The metadata is away; or the volume is not known by its name any more.
    pub fn own_snapshot(&self, by: &By<'_>, name: &str) -> Result<Snapshot> {
        for _ in 0..LOOKS {
            let snapshots = self.snapshots(by)?;
            let now = by.read(|meta| admin::volume(meta, &self.volume.name)).described()?;
            if now.host() != self.volume.host() {
                break;
            }
            // Of which data it is that record says that was read behind it: numbers of data are never given again.
            let is_it = |snapshot: &Snapshot| snapshot.name == name && now.has_data(snapshot.volume);
            if let Some(own) = snapshots.into_iter().find(is_it) {
                return Ok(own);
            }
        }
        Err(renamed(&self.volume.name))
    }

    /// Is the vault what it was when this volume was backed up into it before? The journal was read behind these snapshots of the volume.
    ///
    /// # Errors
    /// It is another one; or that cannot be known.
    pub fn remembers(&self, snapshots: &[Snapshot], vault: &Vault) -> Result<()> {
        let name = vault.id().to_string();
        for Origin { session, hash } in snapshots.iter().filter_map(|snapshot| origin(snapshot, &name)) {
            let number = session.0;
            vault.check_head(Head { number, hash }).described()?;
        }
        Ok(())
    }

    /// Its snapshots. Whoever compares them with a vault reads its journal afterwards: a session has begun before its snapshots are there.
    ///
    /// # Errors
    /// The metadata is away, or the volume is gone.
    pub fn snapshots(&self, by: &By<'_>) -> Result<Vec<Snapshot>> {
        by.read(|meta| admin::snapshots(meta, &self.volume.name)).described()
    }

    /// Is the vault what it was when this volume was backed up into it before, and does nobody else do so now? The journal was read behind
    /// these snapshots of the volume: whoever took one of them had begun by then.
    ///
    /// # Errors
    /// It is another one, or somebody does.
    pub fn check(&self, snapshots: &[Snapshot], vault: &Vault, own: Option<SessionId>, is_full: bool) -> Result<()> {
        let name = vault.id().to_string();
        let is_own = |origin: &Origin| Some(origin.session) == own;
        let own_number = snapshots
            .iter()
            .find(|snapshot| origin(snapshot, &name).is_some_and(|found| is_own(&found)))
            .map(|snapshot| snapshot.number);
        for snapshot in snapshots {
            let Some(Origin { session, hash }) = origin(snapshot, &name).filter(|found| !is_own(found)) else {
                continue;
            };
            let remembered = Head {
                number: session.0,
                hash,
            };
            if !is_full {
                vault.check_head(remembered).described()?;
            }
            let Some(open) = vault.state().sessions().get(&session) else {
                continue;
            };
            // Of two that began at one time the one whose snapshot was taken first may not see the other's; the other one sees its, and gives
            // way.
            if own_number.is_none_or(|own| snapshot.number < own) {
                let what = format!(
                    "volume {} is being backed up into this vault by {}",
                    self.volume.name,
                    super::sessions::shown(session, open)
                );
                return Err(Failure::new(what)
                    .kind(Kind::Conflict)
                    .code(failure::BUSY)
                    .advice(format!(
                        "Wait for it; or where that process is dead for certain: --fence {session}."
                    )));
            }
        }
        Ok(())
    }

    /// The newest point that has the volume, and the newest one from whose snapshot, one of these, the changes can be told.
    pub fn before(&self, snapshots: &[Snapshot], vault: &Vault) -> Before {
        let (name, mut before) = (vault.id().to_string(), Before::default());
        for (number, point) in vault.state().points().iter().rev() {
            let is_it = |found: &&VolumePoint| {
                (found.identity.cluster, found.identity.volume) == (self.identity.cluster, self.identity.volume)
            };
            let Some(found) = point.volumes.iter().find(is_it) else {
                continue;
            };
            before.newest.get_or_insert(*number);
            // Of what another vault's backups have left nothing is counted; what is no backup's may be what a task has backed up.
            let is_ours =
                |snapshot: &Snapshot| origin(snapshot, &name).is_some() || !snapshot.labels.contains_key(BACKUP_LABEL);
            let is_base = |snapshot: &&Snapshot| {
                is_ours(snapshot) && versions(snapshot) == found.snapshot && snapshot.taken_at as i64 == point.time
            };
            if let Some(snapshot) = snapshots.iter().find(is_base) {
                before.base = Some((*number, snapshot.name.clone()));
                return before;
            }
        }
        before
    }

    /// Deletes of these snapshots what backups into this vault have left whose sessions are over, but for one snapshot. `is_full`: also what is
    /// of another journal than the vault has, which was set back. What of that could not be deleted, in sentences: the rest is.
    pub fn clean(
        &self,
        by: &By<'_>,
        snapshots: &[Snapshot],
        vault: &Vault,
        but: Option<&str>,
        is_full: bool,
    ) -> Vec<String> {
        let (name, state, mut left) = (vault.id().to_string(), vault.state(), Vec::new());
        for snapshot in snapshots {
            if but == Some(snapshot.name.as_str()) {
                continue;
            }
            let Some(Origin { session, hash }) = origin(snapshot, &name) else {
                continue;
            };
            let of_another = || {
                let remembered = Head {
                    number: session.0,
                    hash,
                };
                matches!(vault.check_head(remembered), Err(Error::Replaced { .. }))
            };
            // One that began since the journal was read is not over.
            let is_over = session.0 <= state.number() && !state.sessions().contains_key(&session);
            if (is_over || (is_full && of_another()))
                && let Err(why) = delete(by, &self.volume.name, &snapshot.name)
            {
                let (volume, snapshot) = (&self.volume.name, &snapshot.name);
                let what = format!("snapshot {volume}@{snapshot} of an earlier backup stays: {}", why.what);
                left.push(what);
            }
        }
        left
    }

    /// Which of these snapshots the next backup is not to do without: the one from which changes can be told; where there is none the newest mark,
    /// for it remembers what the vault was.
    pub fn spared(&self, snapshots: &[Snapshot], vault: &Vault) -> Option<String> {
        let name = vault.id().to_string();
        let session = |snapshot: &&Snapshot| origin(snapshot, &name).map(|origin| origin.session);
        // What is no backup's own is deleted by none, and remembers nothing of the vault.
        let is_own = |base: &str| {
            let mut own = snapshots.iter().filter(|snapshot| session(snapshot).is_some());
            own.any(|snapshot| snapshot.name == base)
        };
        let base = self.before(snapshots, vault).base.filter(|(_, base)| is_own(base));
        let marks = snapshots.iter().filter(|snapshot| snapshot.mark);
        let newest = || {
            let own = marks.filter(|snapshot| session(snapshot).is_some());
            own.max_by_key(session).map(|snapshot| snapshot.name.clone())
        };
        base.map(|(_, name)| name).or_else(newest)
    }
}

/// By its name another volume is known by now.
fn renamed(name: &str) -> Failure {
    let what = format!("volume {name} was renamed meanwhile, or another one has its name: nothing is made of it");
    Failure::new(what).kind(Kind::Conflict).advice("Do it again.")
}

/// What there is of a volume already.
#[derive(Debug, Default)]
pub struct Before {
    /// The newest point.
    pub newest: Option<u64>,
    /// The point from which the changes can be told, and the name of its snapshot.
    pub base: Option<(u64, String)>,
}

/// Which snapshot it is, as a point remembers it: the generation that sealed it, and its number.
pub fn versions(snapshot: &Snapshot) -> (u64, u64) {
    let (SnapshotState::Sealed(generation) | SnapshotState::Taking(generation)) = snapshot.state;
    (generation.0.into(), snapshot.number.0.into())
}

/// What the snapshots of a session are called, which has just begun. In a vault that was set back numbers of sessions come again, their entries
/// do not.
pub fn name_of(vault: &Vault, session: SessionId) -> String {
    let (vault, hash) = (vault.id().to_string(), vault.head().hash);
    format!("backup-{}-{session}-{}", &vault[..8], hexadecimal(&hash[..4]))
}

/// Takes the snapshots, at one moment; in the order of the volumes.
///
/// # Errors
/// They cannot be taken within the time; or a volume was renamed meanwhile, and they may be another one's.
pub fn take(by: &By<'_>, subjects: &[Subject], name: &str, label: &str, patience: Duration) -> Result<Vec<Snapshot>> {
    let labels = BTreeMap::from([(BACKUP_LABEL.to_owned(), label.to_owned())]);
    let until = interrupt::deadline(patience);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let names: Vec<String> = subjects.iter().map(|subject| subject.volume.name.clone()).collect();
    if let [volume] = &names[..] {
        let object = format!("{volume}@{name}");
        let state = by.act(Action::SnapshotCreate, &object, |meta| {
            let wish = admin::ask_snapshot(meta, volume, name, labels.clone(), now())?;
            await_taken(meta, &wish, until)
        });
        taken(&object, state.described()?, patience)?;
        return own(by, subjects, name);
    }
    let objects: Vec<String> = names.iter().map(|volume| format!("{volume}@{name}")).collect();
    let why = "a backup waits for it no longer";
    let state = by.act(Action::SnapshotSetCreate, &objects.join(" "), |meta| {
        let mut pause = PAUSE;
        loop {
            let set = admin::ask_set(meta, &names, name, labels.clone(), now())?;
            match await_set(meta, &set, until, why)? {
                SetTaking::Void(voided) if voided.again && Instant::now() + pause < until => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                state => return Ok::<_, AdminError>((set, state)),
            }
        }
    });
    let (set, state) = state.described()?;
    match state {
        SetTaking::Taken(_) => own(by, subjects, name),
        SetTaking::Void(voided) => Err(Failure::new(format!(
            "the volumes' snapshots cannot be taken at one moment: {}",
            voided.why
        ))
        .advice("See `amita status`; try again, or wait for longer with --timeout.")),
        other => Err(not_noted(set.id, name, &other)),
    }
}

/// The snapshot that is to be backed up, if it is there still, and the one that was meant.
///
/// # Errors
/// It is not; or the metadata is away.
pub fn given(by: &By<'_>, subjects: &[Subject], meant: &BackedSnapshot) -> Result<Vec<Snapshot>> {
    let look = |subject: &Subject| {
        let found = subject.snapshots(by)?.into_iter();
        let mut found = found.filter(|found| found.name == meant.name);
        let is_meant = |found: &Snapshot| {
            // In another pool it has the same number, and is of other data.
            let is_same = (found.number, found.taken_at) == (meant.number, meant.taken_at);
            is_same && subject.volume.has_data(found.volume) && !found.mark
        };
        found.find(is_meant).ok_or_else(|| {
            let object = format!("{}@{}", subject.volume.name, meant.name);
            Failure::new(format!(
                "there is no snapshot {object} any more, or another one has its name"
            ))
            .kind(Kind::NotFound)
        })
    };
    subjects.iter().map(look).collect()
}

/// The snapshots of this name, each its volume's own; in the order of the volumes. They were taken by the volumes' names.
fn own(by: &By<'_>, subjects: &[Subject], name: &str) -> Result<Vec<Snapshot>> {
    subjects.iter().map(|subject| subject.own_snapshot(by, name)).collect()
}

/// Deletes a snapshot but for its mark, from which the next backup goes on. Where it cannot be a mark it stays as it is: what that costs.
pub fn keep_mark(by: &By<'_>, volume: &str, name: &str) -> Option<String> {
    let object = format!("{volume}@{name}");
    let marked = by.act(Action::SnapshotDelete, &object, |meta| {
        admin::mark_snapshot(meta, volume, name)
    });
    let why = marked.err()?;
    Some(format!(
        "snapshot {object} stays for the next backup, and takes space until then: {why}"
    ))
}

/// Deletes a snapshot, or a mark; one that is not there is none.
///
/// # Errors
/// The metadata is away or refuses.
pub fn delete(by: &By<'_>, volume: &str, name: &str) -> Result<()> {
    let object = format!("{volume}@{name}");
    let deleted = by.act(Action::SnapshotDelete, &object, |meta| {
        admin::delete_snapshot(meta, volume, name)
    });
    match deleted {
        Err(AdminError::NoSuch { .. }) => Ok(()),
        other => other.described().map(drop),
    }
}

#[cfg(test)]
mod tests;
