//! Reservations of the volumes that this node owns: on core 0 only.
//!
//! A host's command comes to the volume's owner. It reads the record and the volume's own in one transaction, applies the
//! command, and writes the record under the condition that neither has changed: an owner that was deposed meanwhile cannot
//! change a reservation that its successor goes by. Then every core adopts it and holds all further I/O against it; a
//! core answers when no I/O is under way that it forbids. Only then is the host answered. So from the moment that a
//! command is acknowledged no host's I/O is carried out that it forbids, through whatever gateway it comes. A new owner
//! reads the record together with the groups, after it has raised the generation.
//!
//! A command is carried out once. Where nobody knows whether the record was written, the state that was meant is kept: found
//! again, it was, and the command has succeeded; as long as what it was based on is still there, the same is written again, under
//! the same condition. (Applied to its own outcome a command may do something else: a second preemption finds nobody, and is
//! refused; a registration that another host has preempted in between would come back.) Where neither is there, nobody knows, and
//! the host is told so.

use crate::faults::{Fault, Faults};
use crate::mail::Origin;
use amita_frontend::HostKey;
use amita_frontend::reservation::{Access, Command, Refusal, State};
use amita_metadata::{self as meta, Call, Compare, Op};
use amita_sequencer::CallId;
use amita_types::map;
use amita_types::{Generation, NodeId, VolumeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Attempts at a command that lose a race, or whose outcome is unknown.
const ROUNDS: u32 = 6;
/// Commands of a volume that wait; more are refused.
const MAX_WAITING: usize = 1024;

/// A command that came in.
#[derive(Debug)]
pub struct Asked {
    /// Where.
    pub origin: Origin,
    /// Whose.
    pub host: HostKey,
    pub command: Command,
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// A metadata call.
    Call(CallId, Call),
    /// Every core goes by it.
    Adopt(VolumeId, Adopted),
    /// The command has ended.
    Ended(Origin, Result<State, Refusal>),
}

/// A state that cores go by.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// The modification revision of its record: a later one counts.
    pub revision: u64,
    /// What is reserved; none: its record cannot be read. Then nobody knows who may do what, and nobody may.
    pub state: Option<Arc<State>>,
}

impl Adopted {
    /// What a volume's record says, as who opened the volume has read it; and why it cannot be read, where it cannot.
    #[must_use]
    pub fn read(record: &[u8], revision: u64) -> (Adopted, Option<String>) {
        let (state, why) = match serde_json::from_slice(record) {
            Ok(state) => (Some(Arc::new(state)), None),
            Err(why) => (None, Some(why.to_string())),
        };
        (Adopted { revision, state }, why)
    }

    /// May the host do that?
    #[must_use]
    pub fn allows(&self, host: HostKey, access: Access) -> bool {
        self.state.as_ref().is_some_and(|state| state.allows(host, access))
    }
}

enum Step {
    Reading,
    Writing(Planned),
    Adopting {
        state: State,
        /// Of its record.
        revision: u64,
        missing: BTreeSet<usize>,
    },
}

/// What a command makes of the record.
struct Planned {
    state: State,
    /// The modification revision of the record that it was applied to.
    base: u64,
}

struct Volume {
    name: String,
    generation: Generation,
    waiting: VecDeque<Asked>,
    step: Option<Step>,
    call: Option<CallId>,
    rounds: u32,
    /// The record may have been written so by the present command, or may still be: nobody knows.
    meant: Option<Planned>,
}

impl Volume {
    /// What the first host is told when its command cannot go on.
    fn unavailable(&self) -> Refusal {
        match self.step {
            Some(Step::Writing(_) | Step::Adopting { .. }) => Refusal::Unknown,
            _ if self.meant.is_some() => Refusal::Unknown,
            _ => Refusal::Unavailable,
        }
    }
}

pub struct Reservations {
    node: NodeId,
    cores: usize,
    base: u64,
    count: u64,
    volumes: BTreeMap<VolumeId, Volume>,
    effects: VecDeque<Effect>,
    /// Rules that are switched off to show that tests notice.
    pub faults: Faults,
}

impl Reservations {
    /// None; `base` stands above the low 20 bits of every call's id.
    #[must_use]
    pub fn new(node: NodeId, cores: usize, base: u64) -> Reservations {
        Reservations {
            node,
            cores,
            base,
            count: 0,
            volumes: BTreeMap::new(),
            effects: VecDeque::new(),
            faults: Faults::NONE,
        }
    }

    /// The next thing to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// A host asks, of a volume that is open here under this generation.
    pub fn ask(&mut self, volume: VolumeId, name: &str, generation: Generation, asked: Asked) {
        let entry = self.volumes.entry(volume).or_insert_with(|| Volume {
            name: name.to_owned(),
            generation,
            waiting: VecDeque::new(),
            step: None,
            call: None,
            rounds: 0,
            meant: None,
        });
        entry.generation = generation;
        if entry.waiting.len() >= MAX_WAITING {
            self.effects
                .push_back(Effect::Ended(asked.origin, Err(Refusal::Unavailable)));
            return;
        }
        entry.waiting.push_back(asked);
        self.advance(volume);
    }

    /// The volume is not ours any more under this generation. (It may be under a newer one: the word of each core comes.)
    pub fn lost(&mut self, volume: VolumeId, generation: Generation) {
        if self
            .volumes
            .get(&volume)
            .is_none_or(|entry| entry.generation > generation)
        {
            return;
        }
        if let Some(entry) = self.volumes.remove(&volume) {
            let first = entry.unavailable();
            let others = std::iter::repeat(Refusal::Unavailable);
            for (asked, why) in entry.waiting.into_iter().zip(std::iter::once(first).chain(others)) {
                self.effects.push_back(Effect::Ended(asked.origin, Err(why)));
            }
        }
    }

    /// Begins with the next command, if none is under way.
    fn advance(&mut self, volume: VolumeId) {
        let Some(entry) = self.volumes.get_mut(&volume) else {
            return;
        };
        if entry.step.is_some() {
            return;
        }
        if entry.waiting.is_empty() {
            self.volumes.remove(&volume);
            return;
        }
        entry.rounds = 0;
        entry.meant = None;
        self.read(volume);
    }

    fn call(&mut self, volume: VolumeId, step: Step, request: Call) {
        self.count += 1;
        let call = CallId(self.base | self.count & 0xf_ffff);
        if let Some(entry) = self.volumes.get_mut(&volume) {
            entry.step = Some(step);
            entry.call = Some(call);
            self.effects.push_back(Effect::Call(call, request));
        }
    }

    fn read(&mut self, volume: VolumeId) {
        let Some(entry) = self.volumes.get_mut(&volume) else {
            return;
        };
        entry.rounds += 1;
        if entry.rounds > ROUNDS {
            let why = entry.unavailable();
            return self.end(volume, Err(why));
        }
        let mut request = Call::get(map::volume_key(&entry.name));
        request.then.push(Op::Get {
            key: map::reservation_key(volume),
        });
        self.call(volume, Step::Reading, request);
    }

    /// The end of a call; false where it is none of these.
    pub fn answered(&mut self, call: CallId, result: &Result<meta::Reply, meta::Error>) -> bool {
        if call.0 >> 20 != self.base >> 20 {
            return false;
        }
        let found = self.volumes.iter_mut().find(|(_, entry)| entry.call == Some(call));
        let Some((&volume, entry)) = found else { return true };
        entry.call = None;
        match (entry.step.take(), result) {
            (Some(Step::Reading), Ok(reply)) => self.apply(volume, reply),
            (Some(Step::Writing(meant)), Ok(reply)) if reply.succeeded => {
                self.adopt(volume, meant.state, reply.revision);
            }
            (Some(Step::Writing(meant)), Err(meta::Error::Unknown { .. })) => {
                entry.meant = Some(meant).filter(|_| !self.faults.has(Fault::ApplyAgain));
                self.read(volume);
            }
            // Somebody else was quicker, or nobody knows: what is there now is looked at.
            (Some(_), Ok(_) | Err(meta::Error::Unknown { .. })) => self.read(volume),
            (_, Err(_)) | (None, _) => {
                let why = entry.unavailable();
                self.end(volume, Err(why));
            }
        }
        true
    }

    /// The record says this: every core goes by it before the host hears of it.
    fn adopt(&mut self, volume: VolumeId, state: State, revision: u64) {
        let Some(entry) = self.volumes.get_mut(&volume) else {
            return;
        };
        let adopted = Adopted {
            revision,
            state: Some(Arc::new(state.clone())),
        };
        let missing = (0..self.cores).collect();
        entry.step = Some(Step::Adopting {
            state,
            revision,
            missing,
        });
        self.effects.push_back(Effect::Adopt(volume, adopted));
    }

    fn apply(&mut self, volume: VolumeId, reply: &meta::Reply) {
        let Some(entry) = self.volumes.get(&volume) else { return };
        let unavailable = entry.unavailable();
        let record = reply.value(0).and_then(|found| {
            let record = found.json::<map::Volume>().ok()?;
            Some((record, found.mod_revision))
        });
        // The name may stand for what the volume has moved to, which this node owns as well, and by a generation of another count.
        let is_ours = |record: &map::Volume| {
            record.id == volume && record.owner == Some(self.node) && record.generation == entry.generation
        };
        let owned = record
            .filter(|(record, _)| is_ours(record))
            .map(|(_, revision)| revision);
        let (Some(volume_revision), Some(asked)) = (owned, entry.waiting.front()) else {
            return self.end(volume, Err(unavailable));
        };
        let (mut state, revision) = match reply.value(1) {
            None => (State::default(), 0),
            Some(found) => match found.json::<State>() {
                Ok(state) => (state, found.mod_revision),
                // What nobody can read nobody may change: the host is told as it is of its I/O.
                Err(_) if entry.meant.is_none() => return self.end(volume, Err(Refusal::Conflict)),
                Err(_) => return self.end(volume, Err(unavailable)),
            },
        };
        match &entry.meant {
            Some(meant) if meant.state == state && revision > 0 => return self.adopt(volume, state, revision),
            // Neither what was meant nor what it was based on: an operator has changed it since, or before.
            Some(meant) if meant.base != revision => return self.end(volume, Err(unavailable)),
            _ => {}
        }
        let before = state.clone();
        if let Err(refusal) = state.apply(asked.host, &asked.command) {
            return self.end(volume, Err(refusal));
        }
        if state == before {
            // An earlier command may have brought that about without an answer, and no core goes by it yet.
            return match revision {
                0 => self.end(volume, Ok(state)),
                _ => self.adopt(volume, state, revision),
            };
        }
        let key = map::reservation_key(volume);
        let compare = |key: String, equals| Compare::ModRevision { key, equals };
        let request = Call {
            compares: vec![
                compare(key.clone(), revision),
                compare(map::volume_key(&entry.name), volume_revision),
            ],
            then: vec![Op::Put {
                key,
                value: serde_json::to_vec(&state).expect("a record of numbers"),
                lease: None,
            }],
            otherwise: Vec::new(),
        };
        self.call(volume, Step::Writing(Planned { state, base: revision }), request);
    }

    /// A core goes by the state, and nothing is under way there that it forbids.
    pub fn adopted(&mut self, volume: VolumeId, revision: u64, core: usize) {
        let Some(entry) = self.volumes.get_mut(&volume) else {
            return;
        };
        let Some(Step::Adopting {
            state,
            revision: present,
            missing,
        }) = &mut entry.step
        else {
            return;
        };
        if *present != revision {
            return;
        }
        missing.remove(&core);
        if missing.is_empty() {
            let state = state.clone();
            self.end(volume, Ok(state));
        }
    }

    fn end(&mut self, volume: VolumeId, result: Result<State, Refusal>) {
        let Some(entry) = self.volumes.get_mut(&volume) else {
            return;
        };
        entry.step = None;
        entry.call = None;
        if let Some(asked) = entry.waiting.pop_front() {
            self.effects.push_back(Effect::Ended(asked.origin, result));
        }
        self.advance(volume);
    }
}

#[cfg(test)]
mod tests;
