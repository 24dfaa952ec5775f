//! How a volume goes from one living gateway to another: because another asks and nobody uses it here, or because the
//! operator wishes it elsewhere.

use super::{Directory, Effect, MOVES, Requester, State, Waiting};
use crate::faults::Fault;
use crate::shards::DIRECTORY;
use crate::token;
use crate::view::View;
use amita_fabric::{Message, ReleaseOutcome};
use amita_metadata as meta;
use amita_reactor::driver::Time;
use amita_sequencer::{CallId, Consent};
use amita_types::map;
use amita_types::{Generation, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long what is under way may take to end, of a volume that is to be handed over.
pub(super) const LEAVE_PATIENCE: Duration = Duration::from_millis(1500);
/// The same where another gateway asks because it was asked to open it: it waits for 300 ms
/// ([`amita_sequencer::OpenerConfig`]).
const RELEASE_PATIENCE: Duration = Duration::from_millis(200);
/// For how long a volume that was handed over is not opened here again, unless its new owner has been heard of.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(3);
/// For how long a gateway does not depose one that lives, and that it does not reach, of a volume that was taken from
/// it.
const TAKEN_PATIENCE: Duration = Duration::from_secs(10);
/// The pause between attempts to carry out a wish.
const MOVE_PAUSE: Duration = Duration::from_millis(500);

/// Volumes on their way to another gateway, or from one.
#[derive(Default)]
pub(super) struct Moves {
    /// Volumes that were handed over a moment ago: their new owner is on its way.
    handed_over: BTreeMap<VolumeId, Time>,
    /// Volumes that the operator wants here, and when they are tried again.
    wanted: BTreeMap<VolumeId, Time>,
    /// Attempts to hand a volume over, counted.
    attempts: u64,
    /// When volumes were taken from this gateway.
    taken: BTreeMap<VolumeId, Time>,
}

impl Moves {
    /// When a wish is to be tried again.
    pub fn deadline(&self) -> Option<Time> {
        self.wanted.values().min().copied()
    }

    /// Was it handed over a moment ago?
    pub fn was_handed_over(&self, now: Time, volume: VolumeId) -> bool {
        self.handed_over.get(&volume).is_some_and(|until| now < *until)
    }

    fn note_handed_over(&mut self, now: Time, volume: VolumeId) {
        self.handed_over.insert(volume, now.plus(HAND_OVER_PATIENCE));
    }

    /// It was taken from this gateway.
    pub fn note_taken(&mut self, now: Time, volume: VolumeId) {
        self.taken.retain(|_, at| now < at.plus(TAKEN_PATIENCE));
        self.taken.insert(volume, now);
    }

    /// Was it taken from this gateway a moment ago, by one that lives? Two that do not reach each other take turns of
    /// this length.
    pub fn was_taken(&self, now: Time, volume: VolumeId) -> bool {
        self.taken.get(&volume).is_some_and(|at| now < at.plus(TAKEN_PATIENCE))
    }
}

impl Directory {
    /// Another gateway asks for a volume. It is heard if it means the very generation that is open here, as whoever has read the
    /// record does; and it takes what hosts use only by the operator's wish, as this node reads it in the metadata (R14).
    pub fn release(
        &mut self,
        now: Time,
        asker: Requester,
        volume: VolumeId,
        generation: Generation,
        hand_over: bool,
        view: &View,
    ) {
        let believes_all = self.faults.has(Fault::AnyRelease);
        let is_wished = believes_all
            || view
                .moves()
                .any(|(wished, wish, _)| wished == volume && wish.to == asker.node);
        let held = self.volumes.iter().find_map(|(name, state)| match state {
            State::Open {
                info,
                generation: ours,
                users,
                ..
            } if info.id == volume => Some((name.clone(), *ours, users.len())),
            _ => None,
        });
        // Who is patient asks again; it is told once.
        if self.asks_again(asker, volume, generation) {
            return;
        }
        let outcome = match held {
            Some((_, ours, _)) if ours != generation && !believes_all => ReleaseOutcome::NotOwner,
            Some((_, ours, users)) if ours >= generation && users > 0 => ReleaseOutcome::Busy { clients: users as u32 },
            // Who has read the wish a moment before this node asks again.
            Some(_) if hand_over && !is_wished => ReleaseOutcome::Busy { clients: 0 },
            Some((name, ours, _)) if hand_over => return self.leave(now, asker, name, ours, LEAVE_PATIENCE),
            // Hosts that have not opened it, by NVMe, may have I/O under way all the same: that ends first.
            Some((name, ours, _)) if !self.faults.has(Fault::CutOnRelease) => {
                return self.leave(now, asker, name, ours, RELEASE_PATIENCE);
            }
            Some((name, ours, _)) => {
                self.volumes.remove(&name);
                self.upkeep.claims.lost(volume, ours);
                let why = "another gateway asked for it and nobody used it here".to_owned();
                self.effects.push_back(Effect::DropShards {
                    volume,
                    generation: ours,
                    why,
                    handed_over: true,
                });
                self.moves.note_handed_over(now, volume);
                ReleaseOutcome::Released
            }
            None if self.is_about_to_serve(volume, view) || self.is_leaving(volume) || self.moves_to(volume, view) => {
                ReleaseOutcome::Busy { clients: 0 }
            }
            None => {
                self.give_up_opening(volume, generation, view);
                ReleaseOutcome::NotOwner
            }
        };
        self.reply(asker, outcome);
    }

    /// Is the volume on its way to whoever asks? Then he is told, by the link by which he asked last.
    fn asks_again(&mut self, by: Requester, volume: VolumeId, generation: Generation) -> bool {
        let mut states = self.volumes.values_mut();
        let asker = states.find_map(|state| match state {
            State::Leaving {
                info,
                generation: ours,
                asker,
                ..
            } if info.id == volume && *ours == generation && (asker.node, asker.tag) == (by.node, by.tag) => {
                Some(asker)
            }
            _ => None,
        });
        asker.map(|asker| *asker = by).is_some()
    }

    /// Whoever was told that nobody has the volume takes it, and this node's opening for nobody would be deposed. So it ends now: a host
    /// that comes meanwhile would be served by it for a moment, and then lose the volume. Who means an older generation than this
    /// node knows of takes nothing: the record that he has read is gone.
    fn give_up_opening(&mut self, volume: VolumeId, asked: Generation, view: &View) {
        if self.faults.has(Fault::KeepOpening) {
            return;
        }
        let Some(name) = self.name_of(volume, view) else {
            return;
        };
        let known = view.volume_of(volume).map(|record| record.generation);
        match self.volumes.remove(&name) {
            Some(State::Opening { .. }) if known.is_none_or(|known| asked >= known) => self.openers.end(&name),
            Some(State::Making { opened, .. }) if asked >= opened.generation => {
                let generation = opened.generation;
                self.upkeep.claims.lost(volume, generation);
                self.effects.push_back(Effect::DropShards {
                    volume,
                    generation,
                    why: "another gateway asked for it while it was being opened for nobody".to_owned(),
                    handed_over: false,
                });
            }
            // Open under another generation than the asker means: its sequencers learn that they are deposed, if they are.
            Some(other) => drop(self.volumes.insert(name, other)),
            None => {}
        }
    }

    /// The name of a volume, as the records say it. A gateway that has just begun may open one before it was told of its record: then as
    /// whoever opens it has read.
    fn name_of(&self, volume: VolumeId, view: &View) -> Option<String> {
        if let Some(record) = view.volume_of(volume) {
            return Some(record.name.clone());
        }
        let making = self.volumes.iter().find(|(_, state)| state.is_of(volume));
        making
            .map(|(name, _)| name)
            .or_else(|| self.openers.name_of(volume))
            .cloned()
    }

    /// Is this node about to serve the volume to somebody? The record may name it already: it would be deposed of what its hosts have
    /// just begun to use. Where nobody waits (a store is to be brought up to date, say), whoever asks has it: most askers take a
    /// refusal for the end.
    fn is_about_to_serve(&self, volume: VolumeId, view: &View) -> bool {
        let state = self.name_of(volume, view).and_then(|name| self.volumes.get(&name));
        let is_awaited = match state {
            Some(State::Opening { waiting } | State::Making { waiting, .. }) => waiting.is_anybody(),
            _ => false,
        };
        is_awaited || self.migrations.users(volume) > 0
    }

    /// Is this what a volume moves to that somebody uses here? Whoever asks has read of the switch first, and those who use it go on with it.
    fn moves_to(&self, volume: VolumeId, view: &View) -> bool {
        let open = self.volumes.values().filter_map(|state| match state {
            State::Open { info, users, .. } if !users.is_empty() => Some(info.id),
            _ => None,
        });
        let mut used = open.chain(self.migrations.used());
        used.any(|used| {
            let record = view.volume_of(used);
            record.is_some_and(|record| record.lineage.moving == Some(volume))
        })
    }

    /// Is the volume on its way to another gateway? What hosts have under way is still carried out here.
    fn is_leaving(&self, volume: VolumeId) -> bool {
        let mut states = self.volumes.values();
        states.any(|state| matches!(state, State::Leaving { info, .. } if info.id == volume))
    }

    /// Begins to hand a volume over: every core ends what it has under way.
    fn leave(&mut self, now: Time, asker: Requester, name: String, generation: Generation, patience: Duration) {
        let Some(State::Open { info, closed, .. }) = self.volumes.remove(&name) else {
            return;
        };
        let volume = info.id;
        self.moves.attempts += 1;
        let attempt = self.moves.attempts;
        let state = State::Leaving {
            info,
            generation,
            attempt,
            missing: (0..self.cores).collect(),
            asker,
            until: now.plus(patience),
            closed,
        };
        self.volumes.insert(name, state);
        self.effects.push_back(Effect::Leave {
            volume,
            generation,
            attempt,
        });
    }

    /// Nothing is under way any more on a core, of a volume that is to be handed over by this attempt. A core's word
    /// about an earlier attempt may come late; it has taken I/O in since, because the volume stayed, and its leases
    /// stand.
    pub fn left(&mut self, now: Time, volume: VolumeId, (generation, attempt): (Generation, u64), core: usize) {
        let any_attempt = self.faults.has(Fault::AnyAttempt);
        let found = self.volumes.iter_mut().find_map(|(name, state)| match state {
            State::Leaving {
                info,
                generation: ours,
                attempt: present,
                missing,
                asker,
                ..
            } if info.id == volume && *ours == generation && (*present == attempt || any_attempt) => {
                missing.remove(&core);
                missing.is_empty().then(|| (name.clone(), *asker))
            }
            _ => None,
        });
        let Some((name, asker)) = found else { return };
        self.volumes.remove(&name);
        self.upkeep.claims.lost(volume, generation);
        self.moves.note_handed_over(now, volume);
        self.effects.push_back(Effect::DropShards {
            volume,
            generation,
            why: "it was handed over to another gateway".to_owned(),
            handed_over: true,
        });
        self.reply(asker, ReleaseOutcome::Released);
    }

    /// What is under way does not end: the volume stays.
    pub(super) fn end_late_leaves(&mut self, now: Time) {
        let late: Vec<String> = self
            .volumes
            .iter()
            .filter(|(_, state)| matches!(state, State::Leaving { until, .. } if now >= *until))
            .map(|(name, _)| name.clone())
            .collect();
        for name in late {
            let Some(State::Leaving {
                info,
                generation,
                asker,
                closed,
                ..
            }) = self.volumes.remove(&name)
            else {
                continue;
            };
            self.effects.push_back(Effect::Stay { volume: info.id });
            let users = self.migrations.take_users(info.id);
            self.volumes.insert(
                name,
                State::Open {
                    info,
                    generation,
                    users,
                    closed,
                },
            );
            self.reply(asker, ReleaseOutcome::Busy { clients: 0 });
        }
    }

    /// The operator wants volumes here: they are taken over with their owners' consent, and the wish is removed when it
    /// has come true.
    pub(super) fn carry_out_moves(&mut self, now: Time, view: &View) {
        self.moves.wanted.retain(|volume, _| {
            view.moves()
                .any(|(wished, wish, _)| wished == *volume && wish.to == self.node)
        });
        self.moves.handed_over.retain(|_, until| now < *until);
        let due: Vec<(VolumeId, String, u64)> = view
            .moves()
            .filter(|(volume, wish, _)| {
                wish.to == self.node && self.moves.wanted.get(volume).is_none_or(|at| now >= *at)
            })
            .map(|(volume, wish, revision)| (volume, wish.volume.clone(), revision))
            .collect();
        for (volume, name, revision) in due {
            self.moves.wanted.insert(volume, now.plus(MOVE_PAUSE));
            let record = view.volume_named(&name).filter(|_| !self.volumes.contains_key(&name));
            if record.is_some_and(|record| self.is_locked(record)) {
                continue;
            }
            match self.volumes.get(&name) {
                Some(State::Open { .. }) => {
                    let key = map::move_key(volume);
                    let request = meta::Call {
                        compares: vec![meta::Compare::ModRevision {
                            key: key.clone(),
                            equals: revision,
                        }],
                        then: vec![meta::Op::Delete { key }],
                        otherwise: Vec::new(),
                    };
                    self.calls += 1;
                    // Nobody waits for the end: while the wish is there, it is tried again.
                    let call = CallId(token::id_base(0, DIRECTORY) | u64::from(MOVES) << 20 | self.calls & 0xf_ffff);
                    self.effects.push_back(Effect::Call { call, request });
                }
                Some(_) => {}
                None if !self.openers.is_full() => {
                    self.begin(now, &name, Waiting::default(), (Consent::HandOver, false));
                }
                None => {}
            }
        }
    }

    pub(super) fn reply(&mut self, asker: Requester, outcome: ReleaseOutcome) {
        self.effects.push_back(Effect::Reply {
            core: asker.core,
            link: asker.link,
            message: Message::Released {
                tag: asker.tag,
                outcome,
            },
        });
    }
}
