//! Reservations of the volumes that this node owns: on core 0 only.
//!
//! A host's command comes to the volume's owner. It reads the record and the volume's own in one transaction, applies the
//! command, and writes the record under the condition that neither has changed: an owner that was deposed meanwhile cannot
//! change a reservation that its successor goes by. Then every core adopts it and holds all further I/O against it; a
//! core answers when no I/O is under way that it forbids. Only then is the host answered. So from the moment that a
//! command is acknowledged no host's I/O is carried out that it forbids, through whatever gateway it comes. A new owner
//! reads the record together with the groups, after it has raised the generation.

use crate::mail::Origin;
use amita_cluster::map;
use amita_cluster::{Generation, NodeId, VolumeId};
use amita_meta::{self as meta, Call, Compare, Op};
use amita_uss::HostKey;
use amita_uss::reservation::{Command, Refusal, State};
use amita_volume::CallId;
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
    /// What.
    pub command: Command,
}

/// What is to be done.
#[derive(Debug)]
pub enum Act {
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
    /// What is reserved.
    pub state: Arc<State>,
}

enum Step {
    Reading,
    Writing(State),
    Adopting { state: State, missing: BTreeSet<usize> },
}

struct Volume {
    name: String,
    generation: Generation,
    waiting: VecDeque<Asked>,
    step: Option<Step>,
    call: Option<CallId>,
    rounds: u32,
}

/// All of them.
pub struct Reservations {
    node: NodeId,
    cores: usize,
    base: u64,
    count: u64,
    volumes: BTreeMap<VolumeId, Volume>,
    acts: VecDeque<Act>,
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
            acts: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub fn next_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
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
        });
        entry.generation = generation;
        if entry.waiting.len() >= MAX_WAITING {
            self.acts.push_back(Act::Ended(asked.origin, Err(Refusal::Unavailable)));
            return;
        }
        entry.waiting.push_back(asked);
        self.advance(volume);
    }

    /// The volume is not ours any more.
    pub fn lost(&mut self, volume: VolumeId) {
        if let Some(entry) = self.volumes.remove(&volume) {
            let ended = entry.waiting.into_iter();
            self.acts
                .extend(ended.map(|asked| Act::Ended(asked.origin, Err(Refusal::Unavailable))));
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
        self.read(volume);
    }

    fn call(&mut self, volume: VolumeId, step: Step, request: Call) {
        self.count += 1;
        let call = CallId(self.base | self.count & 0xf_ffff);
        if let Some(entry) = self.volumes.get_mut(&volume) {
            entry.step = Some(step);
            entry.call = Some(call);
            self.acts.push_back(Act::Call(call, request));
        }
    }

    fn read(&mut self, volume: VolumeId) {
        let Some(entry) = self.volumes.get_mut(&volume) else {
            return;
        };
        entry.rounds += 1;
        if entry.rounds > ROUNDS {
            return self.end(volume, Err(Refusal::Unavailable));
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
            (Some(Step::Writing(state)), Ok(reply)) if reply.succeeded => {
                let adopted = Adopted {
                    revision: reply.revision,
                    state: Arc::new(state.clone()),
                };
                let missing = (0..self.cores).collect();
                entry.step = Some(Step::Adopting { state, missing });
                self.acts.push_back(Act::Adopt(volume, adopted));
            }
            // Somebody else was quicker, or nobody knows: what is there now is looked at.
            (Some(_), Ok(_) | Err(meta::Error::Unknown { .. })) => self.read(volume),
            (_, Err(_)) | (None, _) => self.end(volume, Err(Refusal::Unavailable)),
        }
        true
    }

    fn apply(&mut self, volume: VolumeId, reply: &meta::Reply) {
        let Some(entry) = self.volumes.get(&volume) else { return };
        let record = reply.value(0).and_then(|found| {
            let record = found.json::<map::Volume>().ok()?;
            Some((record, found.mod_revision))
        });
        let owned = record
            .filter(|(record, _)| record.owner == Some(self.node) && record.generation == entry.generation)
            .map(|(_, revision)| revision);
        let (Some(volume_revision), Some(asked)) = (owned, entry.waiting.front()) else {
            return self.end(volume, Err(Refusal::Unavailable));
        };
        let (mut state, revision) = match reply.value(1) {
            None => (State::default(), 0),
            Some(found) => match found.json::<State>() {
                Ok(state) => (state, found.mod_revision),
                // What nobody can read nobody may change.
                Err(_) => return self.end(volume, Err(Refusal::Unavailable)),
            },
        };
        let before = state.clone();
        if let Err(refusal) = state.apply(asked.host, &asked.command) {
            return self.end(volume, Err(refusal));
        }
        if state == before {
            return self.end(volume, Ok(state));
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
        self.call(volume, Step::Writing(state), request);
    }

    /// A core goes by the state, and nothing is under way there that it forbids.
    pub fn adopted(&mut self, volume: VolumeId, core: usize) {
        let Some(entry) = self.volumes.get_mut(&volume) else {
            return;
        };
        let Some(Step::Adopting { state, missing }) = &mut entry.step else {
            return;
        };
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
            self.acts.push_back(Act::Ended(asked.origin, result));
        }
        self.advance(volume);
    }
}

#[cfg(test)]
mod tests;
