//! A volume is deleted.
//!
//! Its record goes, by one transaction, and with it all that rests on it; the stores give its space back by and by, because a number
//! that was given out and has no record is a deleted volume's (R13). (A recycle time would be a state in the record: a volume with a
//! record keeps its chunks.)
//!
//! Who owns it may be serving clients at that moment. So the owner is told by a record, [`Closing`], and takes it away when nothing
//! more is acknowledged. Without `force` it is asked *before*, and says when clients use the volume; with it the record comes with the
//! deletion, and whoever deletes waits until it is gone before the operator is told.

use super::namespace::{remove_namespace, use_of};
use super::subsystem::{put, subsystems, unchanged, uses_guard};
use super::volume::{believable, find_volume};
use super::{AdminError, RACES, Result, get, node_name};
use amita_metadata::{Call, Op, Transact};
use amita_types::NodeId;
use amita_types::map::{self, Closing, Pool, Volume};

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
}

/// Deletes a volume's record, with what the operator wished for it and who had reserved it. When it returns, nothing more is
/// acknowledged to anybody who has it open, but for what [`Deleted`] says. `pause` waits a little, and says
/// whether there is still patience.
///
/// # Errors
/// There is none of that name, or it is a namespace, or clients use it at the node that owns it, or that node does not say (and
/// `force` is not given; with it the namespace goes too); the metadata is suspected, away or refuses.
pub fn delete_volume(meta: &dyn Transact, name: &str, force: bool, pause: &mut dyn FnMut() -> bool) -> Result<Deleted> {
    let mut deletion = Deletion::new(name, force);
    loop {
        if let Some(deleted) = deletion.step(meta)? {
            return Ok(deleted);
        }
        if !pause() {
            return deletion.give_up(meta);
        }
    }
}

/// A deletion, step by step.
#[derive(Debug)]
pub struct Deletion {
    name: String,
    force: bool,
    races: u32,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Nothing was done yet, or in vain.
    Begin,
    /// The owner is asked to close the volume: whose record was of this revision, and what volumes are used for as of this.
    Asked(Volume, u64, (u64, u64), NodeId),
    /// The record is gone; the owner is told.
    Told(Volume, NodeId),
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
}

impl Deletion {
    /// Of the volume of that name.
    #[must_use]
    pub fn new(name: &str, force: bool) -> Deletion {
        Deletion {
            name: name.to_owned(),
            force,
            races: 0,
            stage: Stage::Begin,
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
                        let key = map::volume_key(&self.name);
                        return Err(AdminError::TooManyRaces { key });
                    }
                    if let Some(volume) = self.begin(meta)? {
                        let gone = volume.owner.is_some();
                        return Ok(Some(Deleted::of(volume, gone)));
                    }
                }
                Stage::Asked(volume, revision, guard, owner) => {
                    let (volume, revision, guard, owner) = (volume.clone(), *revision, *guard, *owner);
                    match answer(meta, &volume, owner)? {
                        None => return Ok(None),
                        Some(Answer::Clients(clients)) => {
                            return Err(AdminError::InUse {
                                name: volume.name,
                                node: node_name(meta, owner)?,
                                clients,
                            });
                        }
                        Some(answer @ (Answer::Closed | Answer::Gone)) => {
                            self.stage = Stage::Begin;
                            let gone = answer == Answer::Gone;
                            if delete(meta, &volume, revision, guard, None)? {
                                return Ok(Some(Deleted::of(volume, gone)));
                            }
                        }
                    }
                }
                Stage::Told(volume, owner) => {
                    let answered = answer(meta, volume, *owner)?;
                    return Ok(answered.map(|answer| Deleted::of(volume.clone(), answer == Answer::Gone)));
                }
            }
        }
    }

    /// There is no more patience.
    ///
    /// # Errors
    /// The volume is not deleted: nobody says whether it is in use; or the metadata is away or refuses.
    pub fn give_up(self, meta: &dyn Transact) -> Result<Deleted> {
        let drop = |volume: &Volume| {
            let call = Call {
                then: vec![Op::Delete {
                    key: map::closing_key(volume.id),
                }],
                ..Call::default()
            };
            meta.txn(&call)
        };
        match self.stage {
            Stage::Told(volume, owner) => {
                drop(&volume)?;
                let unheard = Some(node_name(meta, owner)?);
                Ok(Deleted {
                    unheard,
                    ..Deleted::of(volume, false)
                })
            }
            Stage::Asked(volume, _, _, owner) => {
                drop(&volume)?;
                Err(AdminError::OwnerSilent {
                    name: volume.name,
                    node: node_name(meta, owner)?,
                })
            }
            Stage::Begin => Err(AdminError::TooManyRaces {
                key: map::volume_key(&self.name),
            }),
        }
    }

    /// Deletes the volume, or asks its owner; the volume, if that was all: nobody owns it, or nobody that lives.
    fn begin(&mut self, meta: &dyn Transact) -> Result<Option<Volume>> {
        believable(meta)?;
        let guard = uses_guard(meta)?;
        let (volume, revision) = find_volume(meta, &self.name)?;
        let subsystems = subsystems(meta)?;
        let used = use_of(&subsystems, volume.id);
        if let Some((subsystem, namespace)) = used {
            if !self.force {
                return Err(AdminError::Attached {
                    volume: volume.name,
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
        let lives = super::status::lives(meta)?;
        let Some(owner) = volume.owner.filter(|owner| lives.alive(*owner)) else {
            return Ok(delete(meta, &volume, revision, guard, None)?.then_some(volume));
        };
        let closing = Closing {
            volume: self.name.clone(),
            owner,
            force: self.force,
            clients: None,
        };
        if self.force {
            if delete(meta, &volume, revision, guard, Some(&closing))? {
                self.stage = Stage::Told(volume, owner);
            }
            return Ok(None);
        }
        let call = Call {
            compares: vec![unchanged(&map::volume_key(&volume.name), revision)],
            then: vec![put(map::closing_key(volume.id), &closing)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            self.stage = Stage::Asked(volume, revision, guard, owner);
        }
        Ok(None)
    }
}

impl Deleted {
    fn of(volume: Volume, gone: bool) -> Deleted {
        Deleted {
            volume,
            gone,
            unheard: None,
        }
    }
}

/// The transaction; `false`: something has changed meanwhile.
fn delete(
    meta: &dyn Transact,
    volume: &Volume,
    revision: u64,
    (guard, guard_revision): (u64, u64),
    closing: Option<&Closing>,
) -> Result<bool> {
    let (key, guard_key) = (map::volume_key(&volume.name), map::counter_key("namespaces"));
    let mut then: Vec<Op> = leftovers(meta, volume)?;
    then.push(Op::Delete { key: key.clone() });
    then.push(put(guard_key.clone(), &(guard + 1)));
    then.extend(closing.map(|closing| put(map::closing_key(volume.id), closing)));
    let call = Call {
        compares: vec![unchanged(&key, revision), unchanged(&guard_key, guard_revision)],
        then,
        otherwise: Vec::new(),
    };
    Ok(meta.txn(&call)?.succeeded)
}

/// The records that go with a volume.
fn leftovers(meta: &dyn Transact, volume: &Volume) -> Result<Vec<Op>> {
    let id = volume.id;
    let mut keys = vec![
        map::move_key(id),
        map::reservation_key(id),
        map::scrub_key(id),
        map::export_key(id),
        map::about_key(id),
        map::snapshot_wish_key(id),
    ];
    if let Some((pool, _)) = get::<Pool>(meta, &map::pool_key(&volume.pool))? {
        keys.push(map::whole_key(pool.id, id));
    }
    let prefixes = [map::snapshots_prefix(id), map::snapshot_names_prefix(id)];
    let alone = keys.into_iter().map(|key| Op::Delete { key });
    Ok(alone.chain(prefixes.map(|key| Op::DeletePrefix { key })).collect())
}

/// What the owner says, if it has. The record does not stay.
fn answer(meta: &dyn Transact, volume: &Volume, owner: NodeId) -> Result<Option<Answer>> {
    let key = map::closing_key(volume.id);
    let Some((record, revision)) = get::<Closing>(meta, &key)? else {
        return Ok(Some(Answer::Closed));
    };
    let answer = match record.clients {
        Some(clients) => Answer::Clients(clients),
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
