//! A volume is deleted, or gets another name: what may be done to a volume that nobody uses.
//!
//! *Deleted for good*, its record goes, by one transaction, and with it all that rests on it; the stores give its space back by and by,
//! because a number that was given out and has no record is a deleted volume's (R13). *Deleted for a time*, its record gets a name
//! that nobody can give ([`map::Trashed`]): a volume with a record keeps its chunks. So both that and another name are one
//! transaction which moves the record from one key to another.
//!
//! Who owns it may be serving clients at that moment. So the owner is told by a record, [`Closing`], and takes it away when nothing
//! more is acknowledged. Without `force` it is asked *before*, and says when clients use the volume; with it the record comes with the
//! deletion, and whoever deletes waits until it is gone before the operator is told.

use super::lun::{Besides, any_lun_use, is_lun, lun_status, remove_disk};
use super::namespace::{any_use_of, remove_namespace, status_of};
use super::subsystem::{all_subsystems, put, unchanged, uses_guard};
use super::target::all_targets;
use super::volume::{believable, find_volume};
use super::{AdminError, RACES, Result, check_name, cluster, get, node_name, tries};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, About, Closing, Export, Pool, SNAPSHOTS_SINCE, Trashed, Volume};
use amita_types::{MirrorId, NodeId, VolumeId};
use std::time::Duration;

/// A volume that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Its record as it was.
    pub volume: Volume,
    /// The node that had it open last is not known as living. It is not waited for: if it runs after all, it may acknowledge
    /// something until it hears of the deletion, or finds that its liveness is gone.
    pub gone: bool,
    /// The node that had it open and does not answer: it may serve the clients that it can reach, from stores that nobody else can
    /// reach either, until it hears of the deletion.
    pub unheard: Option<String>,
    /// It was to go for good, and others were cloned from it: it is hidden, and goes when the last of them does.
    pub hidden: bool,
}

/// What is done to a volume that nobody uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is gone for good; one that others were cloned from stays under a hidden name until the last of them is gone.
    Purge {
        /// Its snapshots too; else one that has any stays.
        snapshots: bool,
        /// Now, in seconds since 1970.
        now: u64,
    },
    /// It is kept under a hidden name.
    Recycle {
        /// When it is deleted, in seconds since 1970.
        deleted_at: u64,
        /// When it goes for good.
        purge_at: u64,
    },
    /// It has another name.
    Rename {
        /// The new one.
        to: String,
    },
}

/// Carries a deletion, or a change of the name, out. When it returns, nothing more is acknowledged to anybody who has the volume
/// open, but for what [`Deleted`] says. `pause` waits a little, and says whether there is still patience.
///
/// # Errors
/// There is none of that name, or it is a namespace or a LUN, or clients use it at the node that owns it, or that node does not say (and
/// `force` is not given; with it that goes too); a record that nobody can read may make it one (whatever is given); it is protected, or has
/// snapshots; the new name cannot be, or is taken; the metadata is suspected, away or refuses.
pub fn carry_out(meta: &dyn Transact, mut deletion: Deletion, pause: &mut dyn FnMut() -> bool) -> Result<Deleted> {
    loop {
        if let Some(deleted) = deletion.step(meta)? {
            return Ok(deleted);
        }
        if !pause() {
            return deletion.give_up(meta);
        }
    }
}

/// Deletes a volume for good, with its snapshots, what the operator wished for it and who had reserved it; `now` is in seconds since 1970.
///
/// # Errors
/// As [`carry_out`].
pub fn delete_volume(
    meta: &dyn Transact,
    name: &str,
    force: bool,
    now: u64,
    pause: &mut dyn FnMut() -> bool,
) -> Result<Deleted> {
    carry_out(meta, Deletion::new(name, force, now), pause)
}

/// A deletion, or a change of the name, step by step.
#[derive(Debug)]
pub struct Deletion {
    name: String,
    /// Of no other volume that has the name.
    only: Option<VolumeId>,
    /// One that is closed for this mirror goes, for the mirror does.
    mirror: Option<MirrorId>,
    /// It goes only as long as an import of this format fills it, and nobody has it as a disk.
    filled_by: Option<String>,
    force: bool,
    fate: Fate,
    races: u32,
    /// What others changed at the last try; none: what is said of the volume itself.
    contended: Option<String>,
    stage: Stage,
    /// Another one has asked the owner, who has not answered yet.
    waits: bool,
}

#[derive(Debug)]
enum Stage {
    /// Nothing was done yet, or in vain.
    Begin,
    /// The owner is asked to close the volume.
    Asked(Asked),
    /// The record is gone, or hidden; the owner is told, by a record of this revision.
    Told(Volume, NodeId, Finished),
}

#[derive(Clone, Debug)]
struct Asked {
    volume: Volume,
    /// Of the volume's record.
    revision: u64,
    /// What volumes are used for, as of this.
    guard: (u64, u64),
    owner: NodeId,
    /// Of the record by which the owner is asked.
    question: u64,
}

/// What an owner says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing more is acknowledged.
    Closed,
    /// It has lost its liveness.
    Gone,
    /// So many clients use the volume: it goes on.
    Clients(u64),
    /// Another one has asked since: what the owner says is said to that one.
    Superseded,
}

impl Deletion {
    /// Of the volume of that name, for good and with its snapshots.
    #[must_use]
    pub fn new(name: &str, force: bool, now: u64) -> Deletion {
        Deletion::of(name, force, Fate::Purge { snapshots: true, now })
    }

    /// Of the volume of that name.
    #[must_use]
    pub fn of(name: &str, force: bool, fate: Fate) -> Deletion {
        Deletion {
            name: name.to_owned(),
            only: None,
            mirror: None,
            filled_by: None,
            force,
            fate,
            races: 0,
            contended: None,
            stage: Stage::Begin,
            waits: false,
        }
    }

    /// Of the volume of this number alone: where another one has its name by now, there is none.
    #[must_use]
    pub fn only(self, volume: VolumeId) -> Deletion {
        Deletion {
            only: Some(volume),
            ..self
        }
    }

    /// Of what an import of this format fills still: one that has come to its end stays ([`AdminError::Changed`]), and so does one that somebody has begun to
    /// use, as a namespace, a LUN or an export. `force` then closes it for who has it open, and takes it away from nobody else. All of it is so in the very
    /// transaction by which the volume goes.
    #[must_use]
    pub fn while_filled_by(self, format: &str) -> Deletion {
        Deletion {
            filled_by: Some(format.to_owned()),
            ..self
        }
    }

    /// One that is closed for this mirror goes too.
    pub(super) fn of_mirror(self, mirror: MirrorId) -> Deletion {
        Deletion {
            mirror: Some(mirror),
            ..self
        }
    }

    /// Gets on; `None`: the owner has not answered yet.
    ///
    /// # Errors
    /// As [`delete_volume`].
    pub fn step(&mut self, meta: &dyn Transact) -> Result<Option<Deleted>> {
        loop {
            match &self.stage {
                Stage::Begin => {
                    self.races += 1;
                    if self.races > RACES {
                        return Err(self.lost());
                    }
                    if self.races > 1 {
                        meta.after_lost(self.races - 1);
                    }
                    if let Some((volume, finished)) = self.begin(meta)? {
                        let gone = volume.owner.is_some();
                        return Ok(Some(Deleted::of(volume, gone, finished)));
                    }
                    if self.waits {
                        return Ok(None);
                    }
                }
                Stage::Asked(asked) => {
                    let asked = asked.clone();
                    match answer(meta, &asked.volume, asked.owner, asked.question)? {
                        None => return Ok(None),
                        Some(Answer::Clients(clients)) => {
                            return Err(AdminError::InUse {
                                name: asked.volume.name,
                                node: node_name(meta, asked.owner)?,
                                clients,
                            });
                        }
                        Some(Answer::Superseded) => self.stage = Stage::Begin,
                        Some(answer @ (Answer::Closed | Answer::Gone)) => {
                            self.stage = Stage::Begin;
                            let gone = answer == Answer::Gone;
                            let Asked {
                                volume,
                                revision,
                                guard,
                                ..
                            } = asked;
                            if let Some(finished) = self.finish(meta, &volume, revision, guard, None)? {
                                return Ok(Some(Deleted::of(volume, gone, finished)));
                            }
                        }
                    }
                }
                Stage::Told(volume, owner, finished) => {
                    let answered = answer(meta, volume, *owner, finished.revision)?;
                    return Ok(match answered {
                        // By one who forces it too, so that nobody has heard the answer yet.
                        None | Some(Answer::Superseded) => None,
                        Some(answer) => Some(Deleted::of(volume.clone(), answer == Answer::Gone, *finished)),
                    });
                }
            }
        }
    }

    /// There is no more patience.
    ///
    /// # Errors
    /// The volume is not deleted: nobody says whether it is in use; or the metadata is away or refuses.
    pub fn give_up(self, meta: &dyn Transact) -> Result<Deleted> {
        // Only one's own: another one may wait for the owner's answer to his.
        let drop = |volume: &Volume, question: u64| {
            let key = map::closing_key(volume.id);
            let call = Call {
                compares: vec![unchanged(&key, question)],
                then: vec![Op::Delete { key }],
                otherwise: Vec::new(),
            };
            meta.txn(&call)
        };
        match self.stage {
            Stage::Told(volume, owner, finished) => {
                drop(&volume, finished.revision)?;
                let unheard = Some(node_name(meta, owner)?);
                Ok(Deleted {
                    unheard,
                    ..Deleted::of(volume, false, finished)
                })
            }
            Stage::Asked(asked) => {
                drop(&asked.volume, asked.question)?;
                Err(AdminError::OwnerSilent {
                    name: asked.volume.name,
                    node: node_name(meta, asked.owner)?,
                })
            }
            Stage::Begin if self.waits => Err(AdminError::BeingClosed { name: self.name }),
            Stage::Begin => Err(self.lost()),
        }
    }

    /// Others were faster, and at what.
    fn lost(&self) -> AdminError {
        let key = self.contended.clone().unwrap_or_else(|| map::volume_key(&self.name));
        AdminError::TooManyRaces { key }
    }

    fn finish(
        &mut self,
        meta: &dyn Transact,
        volume: &Volume,
        revision: u64,
        guard: (u64, u64),
        closing: Option<&Closing>,
    ) -> Result<Option<Finished>> {
        let filled = self.is_filled(meta, volume)?;
        let finished = finish(
            meta,
            (&self.fate, self.mirror),
            volume,
            revision,
            guard,
            closing,
            filled,
        )?;
        Ok(match finished {
            Ok(finished) => Some(finished),
            Err(contended) => {
                self.contended = Some(contended);
                None
            }
        })
    }

    /// Where it goes only as long as it is filled: that it is, as of a record that is compared.
    fn is_filled(&self, meta: &dyn Transact, volume: &Volume) -> Result<Option<Compare>> {
        let Some(format) = &self.filled_by else { return Ok(None) };
        let key = map::about_key(volume.id);
        match get::<About>(meta, &key)? {
            Some((about, revision)) if about.import.as_ref().is_some_and(|import| import.format == *format) => {
                Ok(Some(unchanged(&key, revision)))
            }
            _ => Err(AdminError::Changed),
        }
    }

    /// Deletes the volume, or asks its owner; the volume, if that was all: nobody owns it, or nobody that lives.
    fn begin(&mut self, meta: &dyn Transact) -> Result<Option<(Volume, Finished)>> {
        believable(meta)?;
        let guard = uses_guard(meta)?;
        let (volume, revision) = find_volume(meta, &self.name)?;
        if let Some(only) = self.only.filter(|only| *only != volume.id) {
            return Err(AdminError::NoSuch {
                what: "volume",
                name: format!("{} of number {only}", self.name),
                there: vec![format!("{} of number {}", self.name, volume.id)],
            });
        }
        permit(meta, (&self.fate, self.mirror), &volume)?;
        self.is_filled(meta, &volume)?;
        let takes_away = self.force && self.filled_by.is_none();
        let used = any_use_of(&all_subsystems(meta)?, &volume)?;
        if let Some((subsystem, namespace)) = used {
            if !takes_away {
                let name = match namespace.snapshot {
                    None => volume.name,
                    Some(_) => status_of(meta, &subsystem, &namespace, Some(&volume))?.of(),
                };
                return Err(AdminError::Attached {
                    volume: name,
                    subsystem,
                    nsid: namespace.nsid,
                });
            }
            // First the hosts lose the disk, then it goes.
            return match remove_namespace(meta, &subsystem, namespace.nsid) {
                Ok(_) | Err(AdminError::NoSuch { .. }) => Ok(None),
                Err(why) => Err(why),
            };
        }
        let targets = all_targets(meta)?;
        if let Some((target, lun)) = any_lun_use(&targets, &volume)? {
            if !takes_away {
                let of = lun_status(meta, target, lun, Some(&volume))?.of();
                return Err(is_lun(&of, target, lun, Besides::Force));
            }
            return match remove_disk(meta, target, lun) {
                Ok(_) | Err(AdminError::NoSuch { .. } | AdminError::Changed) => Ok(None),
                Err(why) => Err(why),
            };
        }
        if self.filled_by.is_some() && get::<Export>(meta, &map::export_key(volume.id))?.is_some() {
            return Err(AdminError::StillExported { volume: volume.name });
        }
        let lives = super::status::lives(meta)?;
        let Some(owner) = volume.owner.filter(|owner| lives.alive(*owner)) else {
            let finished = self.finish(meta, &volume, revision, guard, None)?;
            return Ok(finished.map(|finished| (volume, finished)));
        };
        let closing = Closing {
            volume: self.name.clone(),
            owner,
            force: self.force,
            clients: None,
        };
        if self.force {
            if let Some(finished) = self.finish(meta, &volume, revision, guard, Some(&closing))? {
                self.stage = Stage::Told(volume, owner, finished);
            }
            return Ok(None);
        }
        let key = map::closing_key(volume.id);
        let standing = get::<Closing>(meta, &key)?;
        // One question at a time: who put it over another's would take the answer to that for the answer to his own.
        self.waits = standing
            .as_ref()
            .is_some_and(|(other, _)| other.clients.is_none() && other.owner == owner);
        if self.waits {
            self.races = 0;
            return Ok(None);
        }
        let before = standing.map_or(0, |(_, revision)| revision);
        let call = Call {
            compares: vec![
                unchanged(&map::volume_key(&volume.name), revision),
                unchanged(&key, before),
            ],
            then: vec![put(key, &closing)],
            otherwise: Vec::new(),
        };
        let asked = meta.txn(&call)?;
        if asked.succeeded {
            self.stage = Stage::Asked(Asked {
                volume,
                revision,
                guard,
                owner,
                question: asked.revision,
            });
        }
        Ok(None)
    }
}

impl Deleted {
    fn of(volume: Volume, gone: bool, finished: Finished) -> Deleted {
        Deleted {
            volume,
            gone,
            unheard: None,
            hidden: finished.hidden,
        }
    }
}

/// May that be done to the volume? The revision of what is known of it, by which it may.
pub(super) fn permit(meta: &dyn Transact, (fate, of): (&Fate, Option<MirrorId>), volume: &Volume) -> Result<u64> {
    let name = &volume.name;
    super::copy::may_end(meta, fate, volume)?;
    // While it is closed for a mirror no other one has it, and its record is compared.
    let goes_with = of.is_some() && volume.closed.as_ref().map(|closed| closed.mirror) == of;
    if !matches!(fate, Fate::Rename { .. }) && !goes_with {
        super::mirror::none_closed(volume)?;
        // Whoever adds it to a mirror writes its record, which is compared by whatever is done to it here.
        if let Some(mirror) = super::mirror::mirror_of(meta, volume.host())? {
            return Err(AdminError::Mirrored {
                volume: name.clone(),
                mirror: mirror.name,
            });
        }
    }
    let about = get::<About>(meta, &map::about_key(volume.id))?;
    let revision = about.as_ref().map_or(0, |(_, revision)| *revision);
    let is_protected = about.is_some_and(|(about, _)| about.protected);
    match fate {
        Fate::Purge { .. } | Fate::Recycle { .. } if is_protected => {
            return Err(AdminError::Protected {
                what: "volume",
                name: name.clone(),
                command: format!("amita volume protect {name} --off"),
            });
        }
        Fate::Purge { snapshots: true, .. } => return Ok(revision),
        Fate::Purge { snapshots: false, .. } => {
            // A mark has no data: with the volume nothing is left that could be compared with it.
            let is_one = |found: &&map::Snapshot| super::snapshot::is_sealed(found) && !found.hidden && !found.mark;
            let snapshots = super::snapshot::of_chain(meta, volume)?.iter().filter(is_one).count();
            return match snapshots {
                0 => Ok(revision),
                snapshots => Err(AdminError::HasSnapshots {
                    name: name.clone(),
                    snapshots,
                }),
            };
        }
        Fate::Rename { to } => {
            check_name("volume", to)?;
            if get::<Volume>(meta, &map::volume_key(to))?.is_some() {
                return Err(AdminError::Exists {
                    what: "volume",
                    name: to.clone(),
                });
            }
        }
        Fate::Recycle { deleted_at, purge_at } => {
            let keep = Duration::from_secs(purge_at.saturating_sub(*deleted_at));
            super::trash::check_time("volume", name, keep)?;
        }
    }
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        let how = match fate {
            Fate::Recycle { .. } => "delete it for good with --now, or let all programs be of this version first",
            _ => "all its programs must know of it first",
        };
        return Err(AdminError::BadSetting {
            what: "volume",
            name: name.clone(),
            why: format!(
                "the cluster's version is {version}, and another name of a volume needs {SNAPSHOTS_SINCE}: {how} \
                 (`amita cluster finalize`)"
            ),
        });
    }
    Ok(revision)
}

/// The transaction, and its revision; else the key of what has changed meanwhile.
///
/// It compares the counter of uses: whoever makes a namespace, a LUN, an export or a clone raises that, and need not write the volume's record. It raises
/// it only where others have to know of *this*: all who raise it compare the volume's record as well, which goes or moves here. Of two that read by one
/// data key and go at once the second is to know that it is the last; so one with a key raises it. So does another name, as ever.
fn finish(
    meta: &dyn Transact,
    (fate, of): (&Fate, Option<MirrorId>),
    volume: &Volume,
    revision: u64,
    (guard, guard_revision): (u64, u64),
    closing: Option<&Closing>,
    filled: Option<Compare>,
) -> Result<std::result::Result<Finished, String>> {
    let (key, guard_key) = (map::volume_key(&volume.name), map::counter_key("namespaces"));
    let about = permit(meta, (fate, of), volume)?;
    // Who makes a clone raises the guard.
    let held = match fate {
        Fate::Purge { now, .. } if super::clone::has_clones(meta, volume.id)? => Some(Fate::Recycle {
            deleted_at: *now,
            purge_at: *now,
        }),
        _ => None,
    };
    let fate = held.as_ref().unwrap_or(fate);
    let mut compares = vec![
        unchanged(&key, revision),
        unchanged(&guard_key, guard_revision),
        unchanged(&map::about_key(volume.id), about),
    ];
    compares.extend(filled);
    let mut then = leftovers(meta, fate, volume)?;
    match fate {
        Fate::Purge { now, .. } => {
            then.push(Op::Delete { key });
            if let Some((held, less)) = super::clone::unpin(meta, volume)? {
                compares.push(held);
                then.push(less);
            }
            then.extend(end_of_former(volume, &volume.name, *now));
        }
        Fate::Recycle { deleted_at, purge_at } => {
            let trashed = Trashed {
                volume: volume.id,
                name: volume.name.clone(),
                deleted_at: *deleted_at,
                purge_at: *purge_at,
                former: false,
            };
            then.push(put(map::trash_key(volume.id), &trashed));
            then.extend(moved(meta, volume, &map::hidden_name(volume.id))?);
        }
        Fate::Rename { to } => {
            compares.push(unchanged(&map::volume_key(to), 0));
            then.extend(moved(meta, volume, to)?);
        }
    }
    if volume.keys.is_some() || matches!(fate, Fate::Rename { .. }) {
        then.push(put(guard_key.clone(), &(guard + 1)));
    }
    then.extend(closing.map(|closing| put(map::closing_key(volume.id), closing)));
    // Who gives up says at what others were faster.
    let otherwise = compares.iter().map(|compare| Op::Get {
        key: compare.key().to_owned(),
    });
    let call = Call {
        otherwise: otherwise.collect(),
        compares,
        then,
    };
    let done = meta.txn(&call)?;
    if done.succeeded {
        return Ok(Ok(Finished {
            revision: done.revision,
            hidden: held.is_some(),
        }));
    }
    let now = |index: usize| done.value(index).map_or(0, |found| found.mod_revision);
    let changed = call.compares.iter().enumerate();
    let mut changed = changed.filter(|(index, compare)| **compare != unchanged(compare.key(), now(*index)));
    let of_volume = || map::volume_key(&volume.name);
    Ok(Err(changed
        .next()
        .map_or_else(of_volume, |(_, compare)| compare.key().to_owned())))
}

/// It is done.
#[derive(Clone, Copy, Debug)]
struct Finished {
    revision: u64,
    /// It is only hidden: others were cloned from it.
    hidden: bool,
}

/// What a volume was before it was reverted goes with it: these go as soon as nothing was cloned from them.
pub(super) fn end_of_former(volume: &Volume, called: &str, now: u64) -> impl Iterator<Item = Op> {
    volume.former.iter().map(move |data| {
        let trashed = Trashed {
            volume: *data,
            name: called.to_owned(),
            deleted_at: now,
            purge_at: now,
            former: true,
        };
        put(map::trash_key(*data), &trashed)
    })
}

/// The volume's record has another name. The old one goes first: at no moment two records speak of one volume. Whoever hears of that
/// before he hears of the new one takes the volume for deleted, so the pool's `raised` record is written too: no promotion that
/// knows half of it goes through (R11).
pub(super) fn moved(meta: &dyn Transact, volume: &Volume, to: &str) -> Result<Vec<Op>> {
    let now = Volume {
        name: to.to_owned(),
        ..volume.clone()
    };
    let key = map::volume_key(&volume.name);
    let mut moved = vec![Op::Delete { key }, put(map::volume_key(to), &now)];
    // A pool that has volumes stays.
    if let Some((pool, _)) = get::<Pool>(meta, &map::pool_key(&volume.pool))? {
        let raised = map::Raised {
            volume: volume.id,
            generation: volume.generation,
        };
        moved.push(put(map::raised_key(pool.id), &raised));
    }
    Ok(moved)
}

/// The records that go: those that speak of the volume by its name, and where it is deleted also how it is served, and at last all
/// that is known of it.
pub(super) fn leftovers(meta: &dyn Transact, fate: &Fate, volume: &Volume) -> Result<Vec<Op>> {
    let id = volume.id;
    let mut keys = vec![map::move_key(id), map::snapshot_wish_key(id)];
    if !matches!(fate, Fate::Rename { .. }) {
        keys.extend([map::reservation_key(id), map::export_key(id), map::flatten_key(id)]);
    }
    let mut prefixes = Vec::new();
    if matches!(fate, Fate::Purge { .. }) {
        keys.extend([
            map::scrub_key(id),
            map::about_key(id),
            map::trash_key(id),
            map::tenancy_key(id),
        ]);
        keys.extend(super::keys::last_of(meta, volume)?);
        prefixes.push(map::snapshots_prefix(id));
        // Those of former data are among the volume's own.
        prefixes.extend((!volume.is_former()).then(|| map::snapshot_names_prefix(volume.host())));
        if let Some((pool, _)) = get::<Pool>(meta, &map::pool_key(&volume.pool))? {
            keys.push(map::whole_key(pool.id, id));
        }
    }
    let alone = keys.into_iter().map(|key| Op::Delete { key });
    let all = prefixes.into_iter().map(|key| Op::DeletePrefix { key });
    Ok(alone.chain(all).collect())
}

/// How many clients use the volume at its owner; none: nobody does, and no more is acknowledged by one that had it open, until somebody opens it again.
/// It is asked as by a deletion, and nothing else of the volume is changed.
///
/// # Errors
/// There is no such volume; its owner does not say, or another one has asked it; the metadata is away or refuses.
pub(super) fn clients_of(
    meta: &dyn Transact,
    name: &str,
    pause: &mut dyn FnMut() -> bool,
) -> Result<Option<(NodeId, u64)>> {
    for _ in tries(meta) {
        let (volume, revision) = find_volume(meta, name)?;
        let lives = super::status::lives(meta)?;
        let Some(owner) = volume.owner.filter(|owner| lives.alive(*owner)) else {
            return Ok(None);
        };
        let key = map::closing_key(volume.id);
        let mut standing = get::<Closing>(meta, &key)?;
        // One question at a time.
        while standing
            .as_ref()
            .is_some_and(|(other, _)| other.clients.is_none() && other.owner == owner)
        {
            if !pause() {
                return Err(AdminError::BeingClosed { name: volume.name });
            }
            standing = get::<Closing>(meta, &key)?;
        }
        let closing = Closing {
            volume: volume.name.clone(),
            owner,
            force: false,
            clients: None,
        };
        let asked = meta.txn(&Call {
            compares: vec![
                unchanged(&map::volume_key(&volume.name), revision),
                unchanged(&key, standing.map_or(0, |(_, revision)| revision)),
            ],
            then: vec![put(key.clone(), &closing)],
            otherwise: Vec::new(),
        })?;
        if !asked.succeeded {
            continue;
        }
        loop {
            match answer(meta, &volume, owner, asked.revision)? {
                Some(Answer::Clients(clients)) => return Ok(Some((owner, clients))),
                Some(Answer::Closed | Answer::Gone) => return Ok(None),
                Some(Answer::Superseded) => break,
                None if pause() => {}
                None => {
                    // One's own alone.
                    meta.txn(&Call {
                        compares: vec![unchanged(&key, asked.revision)],
                        then: vec![Op::Delete { key }],
                        otherwise: Vec::new(),
                    })?;
                    return Err(AdminError::OwnerSilent {
                        name: volume.name,
                        node: node_name(meta, owner)?,
                    });
                }
            }
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

/// What the owner says, if it has. The record does not stay.
fn answer(meta: &dyn Transact, volume: &Volume, owner: NodeId, question: u64) -> Result<Option<Answer>> {
    let key = map::closing_key(volume.id);
    let Some((record, revision)) = get::<Closing>(meta, &key)? else {
        return Ok(Some(Answer::Closed));
    };
    let answer = match record.clients {
        Some(clients) => Answer::Clients(clients),
        None if revision != question => return Ok(Some(Answer::Superseded)),
        None if super::status::lives(meta)?.alive(owner) => return Ok(None),
        None => Answer::Gone,
    };
    let call = Call {
        compares: vec![unchanged(&key, revision)],
        then: vec![Op::Delete { key }],
        otherwise: Vec::new(),
    };
    // Where it has changed, there is another answer.
    Ok(meta.txn(&call)?.succeeded.then_some(answer))
}
