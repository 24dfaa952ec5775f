//! Moves that hosts ask for (SET TARGET PORT GROUPS of iSCSI), where their target's record lets them: on core 0 only.
//!
//! A host's wish becomes a record as the operator's does ([`map::Move`]), and is carried out as that is. It is refused while another one for the
//! volume is under way, and for a while after one was accepted here: two hosts that each want the volume at their own gateway
//! move it to and fro, and each time all hosts' I/O waits for the handover. Who is refused is told so (67h/0Ah), and uses the path that it has.

use amita_frontend::ConnectionId;
use amita_metadata::{self as meta, Call, Compare, Op};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, Move, Volume};
use amita_types::{NodeId, VolumeId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// For so long after an accepted wish none is accepted of the same volume.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);
/// Wishes under way at once.
const MAX_UNDER_WAY: usize = 64;
/// Counts the wishes, the operator's and hosts' alike.
const COUNTER: &str = "moves";

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A metadata call.
    Call(CallId, Call),
    /// Who asked is told.
    Answer { asker: Asker, is_accepted: bool },
}

/// Who asks: a connection, by the tag of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub connection: ConnectionId,
    pub tag: u64,
}

#[derive(Debug)]
struct Wish {
    asker: Asker,
    volume: VolumeId,
    name: String,
    to: NodeId,
    /// It was read what is there; it is being written.
    writes: bool,
}

/// Hosts' wishes.
pub(crate) struct Wishes {
    /// What stands above the count in the ids of calls.
    base: u64,
    count: u64,
    under_way: BTreeMap<CallId, Wish>,
    /// When one was accepted last.
    accepted: BTreeMap<VolumeId, Time>,
    effects: VecDeque<Effect>,
}

impl Wishes {
    /// None; `base` stands above the low 20 bits of every call's id.
    pub(crate) fn new(base: u64) -> Wishes {
        Wishes {
            base,
            count: 0,
            under_way: BTreeMap::new(),
            accepted: BTreeMap::new(),
            effects: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// A host wants the volume of that name to be owned by that gateway, which lives.
    pub(crate) fn ask(&mut self, now: Time, asker: Asker, volume: VolumeId, name: &str, to: NodeId) {
        self.accepted.retain(|_, at| now < at.plus(PAUSE));
        let is_under_way = self.under_way.values().any(|wish| wish.volume == volume);
        if is_under_way || self.accepted.contains_key(&volume) || self.under_way.len() >= MAX_UNDER_WAY {
            return self.refuse(asker);
        }
        let wish = Wish {
            asker,
            volume,
            name: name.to_owned(),
            to,
            writes: false,
        };
        let mut request = Call::get(map::volume_key(name));
        for key in [map::move_key(volume), map::counter_key(COUNTER)] {
            request.then.push(Op::Get { key });
        }
        self.call(wish, request);
    }

    /// It cannot be.
    pub(crate) fn refuse(&mut self, asker: Asker) {
        let is_accepted = false;
        self.effects.push_back(Effect::Answer { asker, is_accepted });
    }

    fn call(&mut self, wish: Wish, request: Call) {
        self.count += 1;
        let call = CallId(self.base | self.count & 0xf_ffff);
        self.under_way.insert(call, wish);
        self.effects.push_back(Effect::Call(call, request));
    }

    /// The end of a call; false where it is none of these.
    pub(crate) fn answered(&mut self, now: Time, call: CallId, result: &Result<meta::Reply, meta::Error>) -> bool {
        if call.0 & !0xf_ffff != self.base {
            return false;
        }
        let Some(wish) = self.under_way.remove(&call) else {
            return true;
        };
        match result {
            Ok(reply) if !wish.writes => self.write(wish, reply),
            Ok(reply) if reply.succeeded => {
                self.accepted.insert(wish.volume, now);
                let (asker, is_accepted) = (wish.asker, true);
                self.effects.push_back(Effect::Answer { asker, is_accepted });
            }
            // Somebody else was quicker: the host sees what becomes of it.
            Ok(_) => self.refuse(wish.asker),
            Err(_) => {
                // It may have been written.
                if wish.writes {
                    self.accepted.insert(wish.volume, now);
                }
                self.refuse(wish.asker);
            }
        }
        true
    }

    /// Writes the wish, if nothing speaks against it.
    fn write(&mut self, mut wish: Wish, reply: &meta::Reply) {
        let volume = reply.value(0).and_then(|found| {
            let record = found.json::<Volume>().ok()?;
            (record.id == wish.volume && record.owner != Some(wish.to)).then_some(found.mod_revision)
        });
        // One that was refused nobody waits for, and another may take its place; any other one goes before.
        let earlier = match reply.value(1) {
            None => Some(0),
            Some(found) => {
                let record = found.json::<Move>().ok().filter(|record| record.refused.is_some());
                record.map(|_| found.mod_revision)
            }
        };
        let counter = match reply.value(2) {
            None => Some((0, 0)),
            Some(found) => found.json::<u64>().ok().map(|last| (last, found.mod_revision)),
        };
        let (Some(volume), Some(earlier), Some((last, counter))) = (volume, earlier, counter) else {
            return self.refuse(wish.asker);
        };
        let Some(number) = last.checked_add(1) else {
            return self.refuse(wish.asker);
        };
        let record = Move {
            volume: wish.name.clone(),
            to: wish.to,
            number,
            refused: None,
        };
        let keys = (map::move_key(wish.volume), map::counter_key(COUNTER));
        let compare = |key: String, equals| Compare::ModRevision { key, equals };
        let put = |key: String, value: serde_json::Result<Vec<u8>>| Op::Put {
            key,
            value: value.expect("a record of names and numbers"),
            lease: None,
        };
        let request = Call {
            compares: vec![
                compare(map::volume_key(&wish.name), volume),
                compare(keys.0.clone(), earlier),
                compare(keys.1.clone(), counter),
            ],
            then: vec![
                put(keys.0, serde_json::to_vec(&record)),
                put(keys.1, serde_json::to_vec(&number)),
            ],
            otherwise: Vec::new(),
        };
        wish.writes = true;
        self.call(wish, request);
    }
}

#[cfg(test)]
mod tests;
