//! Sets of snapshots that this node leads (S4): on core 0 only.
//!
//! A set is a record ([`map::SnapshotSet`]), which whoever wants it puts there. The owner of its first volume leads, so that there is
//! always one, and no other: where it dies, the next owner of that volume does, and its raise has made the set void if the volume's
//! number was in the record. It
//!
//! 1. waits until each volume's record has a number for the set (the owners prepare by themselves, `snapshots/joined.rs`);
//! 2. has all owners *adopt* and hold; when all have,
//! 3. has all *release*, and each says whether it has held until then;
//! 4. has all *settle*, while nobody holds any more;
//! 5. makes the set's record `ready`, by a transaction that compares it. A raise of any of the volumes since its number was put there
//!    has made the record `void`.
//!
//! Whatever goes wrong before that makes the set void. The record goes when no volume's says that it is of this set.

use crate::faults::{Fault, Faults};
use crate::view::View;
use amita_fabric::{Cut, CutOutcome, CutStep};
use amita_metadata::{self as meta, Call, Compare, Op};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, SetState, SnapshotSet};
use amita_types::{Generation, NodeId, SetId, VolumeId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// For how long owners may take to put a number into their volumes' records. One whose stores do not answer refuses before.
const PREPARE_PATIENCE: Duration = Duration::from_secs(40);
/// For how long a round may take in which owners hold. What comes later finds that they have let go.
const ROUND_PATIENCE: Duration = Duration::from_secs(1);
/// For how long older writes may take. A store that does not answer is evicted before, where it may be.
const SETTLE_PATIENCE: Duration = Duration::from_secs(60);
/// Before an owner that has not said that it has settled is asked again: a link that broke has taken the question along, or the answer.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// And an owner to which there is no link for so long is given up: nobody else may want its volume, and take it over.
const AWAY_PATIENCE: Duration = Duration::from_secs(10);
/// Before it is looked again whether a set has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// After a call that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// For how long the record of a set that is void stays: whoever wished it is to read why.
const KEPT: Duration = Duration::from_secs(60);
/// Questions to one node that are under way. A link takes 256 (`docs/protocol-wire.md`).
const MAX_QUESTIONS: usize = 64;

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// A metadata call.
    Call(CallId, Call),
    /// A volume's owner is asked for a step; answered by [`Sets::answered_by`].
    Ask(NodeId, Cut),
}

/// How far a set has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until all numbers are in the records.
    Preparing,
    /// Until all owners have done this.
    Asking(CutStep),
    /// The record becomes ready.
    Deciding,
    /// The record becomes void.
    Voiding,
    /// It is decided: until no volume's record names it, and the time has passed.
    Ended,
    /// The record goes.
    Removing,
}

/// A volume of a set.
#[derive(Clone, Copy, Debug)]
struct Member {
    node: NodeId,
    generation: Generation,
    /// The question under way; none: not asked yet.
    tag: Option<u64>,
    /// It has done what all are asked for now.
    done: bool,
    /// Since when there was no link to its owner, each time that it was to be asked for this.
    away: Option<Time>,
    /// There was none the last time.
    is_away: bool,
}

/// A set that is led here.
#[derive(Debug)]
struct Leading {
    set: SnapshotSet,
    revision: u64,
    phase: Phase,
    members: BTreeMap<VolumeId, Member>,
    /// The end of the phase's patience.
    until: Time,
    /// When whoever owes an answer is asked again; none: it is not.
    asks_again: Option<Time>,
    /// Not before this the record of one that has ended goes.
    kept: Time,
    call: Option<CallId>,
    /// Why it is void, and whether the same may be tried again.
    void: Option<(String, bool)>,
}

/// All sets that are led here.
pub struct Sets {
    base: u64,
    count: u64,
    /// Questions, counted.
    tags: u64,
    leading: BTreeMap<SetId, Leading>,
    /// Of which set and volume a question under way is, and who is asked.
    asked: BTreeMap<u64, (SetId, VolumeId, NodeId)>,
    effects: VecDeque<Effect>,
    /// Rules that are switched off to show that tests notice.
    pub faults: Faults,
}

impl Sets {
    /// None; `base` stands above the low 20 bits of every call's id.
    #[must_use]
    pub fn new(base: u64) -> Sets {
        Sets {
            base,
            count: 0,
            tags: 0,
            leading: BTreeMap::new(),
            asked: BTreeMap::new(),
            effects: VecDeque::new(),
            faults: Faults::NONE,
        }
    }

    /// The next thing to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Sets::tick`] is wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let waiting = self.leading.values().filter(|leading| leading.call.is_none());
        waiting
            .map(|leading| leading.asks_again.map_or(leading.until, |at| at.min(leading.until)))
            .min()
    }

    /// Is any set led here?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leading.is_empty()
    }

    /// Begins with sets whose first volume is open here, goes on where all are prepared, and ends with those whose first volume is not
    /// here any more.
    pub fn look(&mut self, now: Time, view: &View, open: impl Fn(VolumeId) -> bool) {
        let is_led = |set: &SnapshotSet| set.first().is_some_and(&open);
        let gone: Vec<SetId> = self
            .leading
            .keys()
            .filter(|id| !view.set(**id).is_some_and(|(set, _)| is_led(set)))
            .copied()
            .collect();
        gone.into_iter().for_each(|set| self.forget(set));
        for (set, revision) in view.sets().filter(|(set, _)| is_led(set)) {
            let id = set.id;
            let new = || Leading {
                set: set.clone(),
                revision,
                phase: Phase::Preparing,
                members: BTreeMap::new(),
                until: now.plus(PREPARE_PATIENCE),
                asks_again: None,
                kept: now,
                call: None,
                void: None,
            };
            let leading = self.leading.entry(id).or_insert_with(new);
            if set.state != SetState::Taking {
                if !matches!(leading.phase, Phase::Ended | Phase::Removing) {
                    (leading.set, leading.revision) = (set.clone(), revision);
                    leading.phase = Phase::Ended;
                    leading.asks_again = None;
                    leading.kept = now.plus(match set.state {
                        SetState::Ready => Duration::ZERO,
                        _ => KEPT,
                    });
                    (leading.until, leading.call) = (now.plus(LOOK_AGAIN), None);
                    self.asked.retain(|_, (asked, ..)| *asked != id);
                }
            } else if leading.phase == Phase::Preparing {
                self.prepared(now, id, view);
            }
            self.remove_ended(now, id, view);
        }
    }

    /// The set is not led here any more.
    fn forget(&mut self, set: SetId) {
        self.leading.remove(&set);
        self.asked.retain(|_, (asked, ..)| *asked != set);
    }

    /// Are all numbers in the records?
    fn prepared(&mut self, now: Time, set: SetId, view: &View) {
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        let members = leading.set.volumes.iter().map(|volume| {
            let record = view.volume_of(volume.id)?;
            let is_prepared = record.lineage.taking && record.lineage.set == Some(set);
            let member = Member {
                node: record.owner?,
                generation: record.generation,
                tag: None,
                done: false,
                away: None,
                is_away: false,
            };
            is_prepared.then_some((volume.id, member))
        });
        if let Some(members) = members.collect() {
            leading.members = members;
            self.ask(now, set, CutStep::Adopt);
        }
    }

    /// All owners are asked for a step.
    fn ask(&mut self, now: Time, set: SetId, step: CutStep) {
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        leading.phase = Phase::Asking(step);
        leading.until = now.plus(match step {
            CutStep::Adopt | CutStep::Release => ROUND_PATIENCE,
            CutStep::Settle => SETTLE_PATIENCE,
        });
        // The others end before that, and hosts wait: the set is taken anew.
        leading.asks_again = (step == CutStep::Settle).then(|| now.plus(ASK_AGAIN));
        for member in leading.members.values_mut() {
            (member.tag, member.done) = (None, false);
            (member.away, member.is_away) = (None, false);
        }
        self.fill(set);
    }

    /// Sends as many questions as may be under way.
    fn fill(&mut self, set: SetId) {
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        let Phase::Asking(step) = leading.phase else { return };
        let mut under_way: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (.., node) in self.asked.values() {
            *under_way.entry(*node).or_default() += 1;
        }
        for (volume, member) in &mut leading.members {
            let count = under_way.entry(member.node).or_default();
            if member.done || member.tag.is_some() || *count >= MAX_QUESTIONS {
                continue;
            }
            *count += 1;
            self.tags += 1;
            let tag = self.tags;
            member.tag = Some(tag);
            self.asked.insert(tag, (set, *volume, member.node));
            let cut = Cut {
                tag,
                set,
                volume: *volume,
                generation: member.generation,
                step,
            };
            self.effects.push_back(Effect::Ask(member.node, cut));
        }
    }

    /// There is no link to who was to be asked.
    pub fn unreached(&mut self, now: Time, node: NodeId, tag: u64) {
        let Some((set, volume, _)) = self.asked.get(&tag).copied() else {
            return;
        };
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        if leading.asks_again.is_none() {
            return self.answered_by(now, node, tag, CutOutcome::NotOwner);
        }
        // The link comes back, or somebody takes over, which makes the set void.
        let Some(member) = leading.members.get_mut(&volume) else {
            return;
        };
        self.asked.remove(&tag);
        member.is_away = true;
        let since = *member.away.get_or_insert(now);
        if now >= since.plus(AWAY_PATIENCE) {
            let volume = named(&leading.set, volume);
            let why = format!(
                "the owner of volume {volume}, node {node}, could not be reached, and nobody has taken over from it"
            );
            self.void(now, set, why, true);
        }
    }

    /// Who owes an answer is asked again: what it was asked for it does once.
    fn ask_again(&mut self, now: Time, set: SetId) {
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        leading.asks_again = Some(now.plus(ASK_AGAIN));
        // What comes late of the last round counts, and of none before it.
        let owed: Vec<u64> = leading.members.values().filter_map(|member| member.tag).collect();
        self.asked.retain(|tag, (of, ..)| *of != set || owed.contains(tag));
        for member in leading.members.values_mut() {
            member.tag = None;
            if !std::mem::take(&mut member.is_away) {
                member.away = None;
            }
        }
        self.fill(set);
    }

    /// A node has answered a question.
    pub fn answered_by(&mut self, now: Time, from: NodeId, tag: u64, outcome: CutOutcome) {
        let Some((set, volume, node)) = self.asked.get(&tag).copied() else {
            return;
        };
        if node != from {
            return;
        }
        self.asked.remove(&tag);
        let one_round = self.faults.has(Fault::OneRound);
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        let Phase::Asking(step) = leading.phase else { return };
        let is_late = leading
            .members
            .get(&volume)
            .is_none_or(|member| member.tag != Some(tag));
        if is_late && !matches!(outcome, CutOutcome::Settled | CutOutcome::Spoilt) {
            // It was asked anew.
            return;
        }
        match (step, outcome) {
            (CutStep::Adopt, CutOutcome::Adopted)
            | (CutStep::Release, CutOutcome::Held)
            | (CutStep::Settle, CutOutcome::Settled) => {}
            (CutStep::Release, CutOutcome::Lapsed) if one_round => {}
            (CutStep::Release, CutOutcome::Lapsed) => {
                let why = format!(
                    "the owners did not all have the number of volume {} and the others within {} ms",
                    named(&leading.set, volume),
                    crate::snapshots::HOLD.as_millis()
                );
                return self.void(now, set, why, true);
            }
            (_, CutOutcome::Spoilt) => {
                let why = format!(
                    "a copy of volume {} was repaired while it was taken",
                    named(&leading.set, volume)
                );
                return self.void(now, set, why, true);
            }
            _ => {
                let why = format!(
                    "volume {} has another owner by now, or its owner does not answer",
                    named(&leading.set, volume)
                );
                return self.void(now, set, why, true);
            }
        }
        if let Some(member) = leading.members.get_mut(&volume) {
            (member.tag, member.done) = (None, true);
        }
        if !leading.members.values().all(|member| member.done) {
            return self.fill(set);
        }
        match step {
            CutStep::Adopt => self.ask(now, set, CutStep::Release),
            CutStep::Release => self.ask(now, set, CutStep::Settle),
            CutStep::Settle => {
                leading.phase = Phase::Deciding;
                leading.asks_again = None;
                self.decide(set);
            }
        }
    }

    /// All have held, and nothing older is left: it is one moment.
    fn decide(&mut self, set: SetId) {
        if let Some(leading) = self.leading.get(&set) {
            let ready = SnapshotSet {
                state: SetState::Ready,
                ..leading.set.clone()
            };
            let call = Call::put_if(map::set_key(set), leading.revision, json(&ready));
            self.call(set, call);
        }
    }

    /// It comes to nothing.
    fn void(&mut self, now: Time, set: SetId, why: String, again: bool) {
        self.asked.retain(|_, (asked, ..)| *asked != set);
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        leading.phase = Phase::Voiding;
        leading.asks_again = None;
        leading.until = now.plus(PAUSE);
        let void = leading.set.voided(why.clone(), again);
        leading.void = Some((why, again));
        let call = Call::put_if(map::set_key(set), leading.revision, json(&void));
        self.call(set, call);
    }

    /// Removes the record of a set that is decided, when no volume's record names it any more.
    fn remove_ended(&mut self, now: Time, set: SetId, view: &View) {
        let Some(leading) = self.leading.get_mut(&set) else {
            return;
        };
        let is_named = |volume: &map::SetVolume| {
            let record = view.volume_of(volume.id);
            record.is_some_and(|record| record.lineage.set == Some(set))
        };
        if leading.phase != Phase::Ended || now < leading.kept || leading.set.volumes.iter().any(is_named) {
            return;
        }
        leading.phase = Phase::Removing;
        let key = map::set_key(set);
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: leading.revision,
            }],
            then: vec![Op::Delete { key }],
            otherwise: Vec::new(),
        };
        self.call(set, call);
    }

    fn call(&mut self, set: SetId, request: Call) {
        self.count += 1;
        let call = CallId(self.base | self.count & 0xf_ffff);
        if let Some(leading) = self.leading.get_mut(&set) {
            leading.call = Some(call);
            self.effects.push_back(Effect::Call(call, request));
        }
    }

    /// The end of a call; false where it is none of these.
    pub fn answered(&mut self, now: Time, call: CallId, result: &Result<meta::Reply, meta::Error>) -> bool {
        if call.0 >> 20 != self.base >> 20 {
            return false;
        }
        let found = self.leading.values_mut().find(|leading| leading.call == Some(call));
        let Some(leading) = found else { return true };
        leading.call = None;
        // What has become of it the watch tells. What was not done is tried again: the record is compared.
        leading.until = now.plus(match result {
            Ok(_) => LOOK_AGAIN,
            Err(_) => PAUSE,
        });
        true
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        let silent = self
            .leading
            .iter()
            .filter(|(_, leading)| now < leading.until && leading.asks_again.is_some_and(|at| now >= at));
        let silent: Vec<SetId> = silent.map(|(set, _)| *set).collect();
        silent.into_iter().for_each(|set| self.ask_again(now, set));
        let waiting = self.leading.iter().filter(|(_, leading)| leading.call.is_none());
        let due: Vec<SetId> = waiting
            .filter(|(_, leading)| now >= leading.until)
            .map(|(set, _)| *set)
            .collect();
        for set in due {
            let Some(leading) = self.leading.get_mut(&set) else {
                continue;
            };
            let (phase, void) = (leading.phase, leading.void.clone());
            match phase {
                Phase::Preparing => {
                    let why = format!(
                        "not all of its volumes had it prepared within {} s; `amita status` shows whose stores or owners are silent",
                        PREPARE_PATIENCE.as_secs()
                    );
                    self.void(now, set, why, false);
                }
                Phase::Asking(CutStep::Settle) => {
                    let why = format!(
                        "writes of before were not acknowledged within {} s; `amita status` shows which stores are silent",
                        SETTLE_PATIENCE.as_secs()
                    );
                    self.void(now, set, why, false);
                }
                Phase::Asking(_) => self.void(
                    now,
                    set,
                    "an owner of its volumes has not answered in time".to_owned(),
                    true,
                ),
                Phase::Deciding => self.decide(set),
                Phase::Voiding => {
                    let (why, again) = void.unwrap_or_default();
                    self.void(now, set, why, again);
                }
                // A volume's record may name it still: its owner is about to change that.
                Phase::Ended | Phase::Removing => {
                    leading.phase = Phase::Ended;
                    leading.until = now.plus(LOOK_AGAIN);
                }
            }
        }
    }
}

/// What a volume of a set is called.
fn named(set: &SnapshotSet, volume: VolumeId) -> String {
    let found = set.volumes.iter().find(|found| found.id == volume);
    found.map_or_else(String::new, |found| found.name.clone())
}

fn json(record: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record of numbers and texts")
}

#[cfg(test)]
mod tests;
