//! A volume is deleted: its owner closes it, and says so when nothing more of it is acknowledged.
//!
//! Who deletes a volume writes a wish for its owner ([`Closing`]). Without force it comes before the deletion, and is refused while
//! clients use the volume. With force the volume's record is gone already. Either way every core ends its sequencer, and when all
//! have said so the wish is removed: only then the operator is told. A deletion that comes without a wish (whoever deleted took this
//! node for dead) has the volume closed as well.

use super::{CLOSINGS, Directory, Effect, State};
use crate::shards::DIRECTORY;
use crate::token;
use crate::view::View;
use amita_metadata as meta;
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, Closing};
use amita_types::{Generation, VolumeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The pause between attempts to answer a wish.
const PAUSE: Duration = Duration::from_millis(500);
/// Deleted volumes that are remembered: one that was being opened when it was deleted is not opened after all. More are not being
/// opened at one time.
const MOST_GONE: usize = 4096;

/// One closing of a volume, counted: a core's word of an earlier one says nothing of what was opened since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosingId(pub u64);

/// What is being closed.
#[derive(Default)]
pub(super) struct Closings {
    /// The cores that have not said yet that they have ended their sequencers, by this closing, the last one of the volume.
    ending: BTreeMap<VolumeId, (ClosingId, BTreeSet<usize>)>,
    count: u64,
    /// Wishes that were answered, and when that is tried again.
    answered: BTreeMap<VolumeId, Time>,
    /// Volumes that were deleted of late.
    gone: VecDeque<VolumeId>,
    /// Volumes that are open by another name than the one that is gone; if they are not heard of by then they are gone, too.
    doubted: BTreeMap<VolumeId, Time>,
}

impl Closings {
    pub fn deadline(&self) -> Option<Time> {
        self.answered.values().chain(self.doubted.values()).min().copied()
    }

    /// Was the volume deleted a moment ago?
    pub fn is_gone(&self, volume: VolumeId) -> bool {
        self.gone.contains(&volume)
    }
}

impl Directory {
    /// A volume is not in the metadata any more under this name.
    pub fn deleted(&mut self, now: Time, volume: VolumeId, name: &str, view: &View) {
        // Whoever has it open by another name has read of that, later than what is heard here: the switch of a move gives what it moves to the
        // volume's name, and that is heard next. (But not where both have gone while nobody watched.)
        let is_open = self
            .volumes
            .iter()
            .any(|(known, state)| known != name && state.is_of(volume));
        if is_open || self.migrations.is_carried_by_another(volume, name) {
            self.closings.doubted.insert(volume, now.plus(PAUSE));
            return;
        }
        self.gone(now, volume, view);
    }

    /// Ends doubts of which nothing was heard.
    pub(super) fn end_doubts(&mut self, now: Time, view: &View) {
        let due: Vec<VolumeId> = self
            .closings
            .doubted
            .extract_if(.., |_, at| now >= *at)
            .map(|(volume, _)| volume)
            .collect();
        for volume in due.into_iter().filter(|volume| view.volume_of(*volume).is_none()) {
            self.gone(now, volume, view);
        }
    }

    fn gone(&mut self, now: Time, volume: VolumeId, view: &View) {
        if self.closings.gone.len() == MOST_GONE {
            self.closings.gone.pop_front();
        }
        self.closings.gone.push_back(volume);
        self.migrations.hold(volume, false);
        self.lose_carried(volume, "it was deleted");
        self.close_if_open(now, volume, "it was deleted", view);
    }

    /// A volume is in the metadata under this name. One that is open under another is closed: it was renamed, and all that is said
    /// of it to the metadata is said by its name.
    pub fn named(&mut self, now: Time, volume: VolumeId, name: &str, view: &View) {
        if self.closings.is_gone(volume) {
            self.closings.gone.retain(|gone| *gone != volume);
        }
        self.closings.doubted.remove(&volume);
        self.lose_renamed(volume, name);
        let other = self
            .volumes
            .iter()
            .any(|(known, state)| known != name && state.is_of(volume));
        if other {
            self.close_if_open(now, volume, "it was renamed", view);
        }
    }

    /// A core has ended its sequencer of a volume, as it was told to by this closing.
    pub fn shard_ended(&mut self, volume: VolumeId, closing: ClosingId, core: usize) {
        if let Some((last, cores)) = self.closings.ending.get_mut(&volume)
            && *last == closing
        {
            cores.remove(&core);
            if cores.is_empty() {
                self.closings.ending.remove(&volume);
            }
        }
    }

    pub(super) fn close_if_open(&mut self, now: Time, volume: VolumeId, why: &str, view: &View) {
        let Some(generation) = self.generation_of(volume) else {
            return;
        };
        self.lost(now, volume, generation);
        self.changed = true;
        self.closings.count += 1;
        let closing = ClosingId(self.closings.count);
        let cores = (0..self.cores).collect();
        self.closings.ending.insert(volume, (closing, cores));
        // Nobody is counted any more. Should it move before they are told, who uses it now would not know it by this number then.
        let (why, known) = (why.to_owned(), view.known_by(volume));
        self.effects.push_back(Effect::EndShards {
            volume,
            closing,
            why,
            known,
        });
    }

    fn generation_of(&self, volume: VolumeId) -> Option<Generation> {
        self.volumes.values().find_map(|state| match state {
            State::Open { info, generation, .. } | State::Leaving { info, generation, .. } if info.id == volume => {
                Some(*generation)
            }
            State::Making { opened, .. } if opened.volume.id == volume => Some(opened.generation),
            _ => None,
        })
    }

    /// Answers the wishes that volumes of this node be closed.
    pub fn carry_out_closings(&mut self, now: Time, view: &View) {
        let wishes = || view.closings().filter(|(_, wish, _)| wish.owner == self.node);
        let due: Vec<(VolumeId, Closing, u64)> = wishes()
            .filter(|(volume, wish, _)| {
                // One that was refused waits for whoever asked.
                wish.clients.is_none() && self.closings.answered.get(volume).is_none_or(|at| now >= *at)
            })
            .map(|(volume, wish, revision)| (volume, wish.clone(), revision))
            .collect();
        let all: BTreeSet<VolumeId> = wishes().map(|(volume, ..)| volume).collect();
        self.closings.answered.retain(|volume, _| all.contains(volume));
        for (volume, wish, revision) in due {
            self.carry_out_closing(now, volume, (wish, revision), view);
        }
    }

    fn carry_out_closing(&mut self, now: Time, volume: VolumeId, (wish, revision): (Closing, u64), view: &View) {
        let clients = self.volumes.values().find_map(|state| match state {
            State::Open { info, users, .. } if info.id == volume => Some(users.len() as u64),
            _ => None,
        });
        let carried = self.migrations.users(volume);
        let clients = clients.or((carried > 0 && !wish.force).then_some(carried));
        let key = map::closing_key(volume);
        let answer = match clients {
            Some(clients) if clients > 0 && !wish.force => {
                let refused = Closing {
                    clients: Some(clients),
                    ..wish
                };
                meta::Op::Put {
                    key: key.clone(),
                    value: serde_json::to_vec(&refused).expect("plain data"),
                    lease: None,
                }
            }
            // It is being made, or handed over: that comes to its end.
            None if !wish.force && self.generation_of(volume).is_some() => return self.look_again(now, volume),
            None if self.is_being_opened(&wish.volume) && !self.closings.is_gone(volume) => {
                return self.look_again(now, volume);
            }
            _ => {
                self.close_if_open(now, volume, "it is being deleted", view);
                if self.closings.ending.contains_key(&volume) {
                    return;
                }
                meta::Op::Delete { key: key.clone() }
            }
        };
        let request = meta::Call {
            compares: vec![meta::Compare::ModRevision { key, equals: revision }],
            then: vec![answer],
            otherwise: Vec::new(),
        };
        self.calls += 1;
        // Nobody waits for the end: while the wish is there, it is answered again.
        let call = CallId(token::id_base(0, DIRECTORY) | u64::from(CLOSINGS) << 20 | self.calls & 0xf_ffff);
        self.effects.push_back(Effect::Call { call, request });
        self.look_again(now, volume);
    }

    fn look_again(&mut self, now: Time, volume: VolumeId) {
        self.closings.answered.insert(volume, now.plus(PAUSE));
    }

    fn is_being_opened(&self, name: &str) -> bool {
        matches!(self.volumes.get(name), Some(State::Opening { .. }))
    }
}
