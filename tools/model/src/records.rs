//! Compare-and-set on its own: a group's record, and two that evict members by it.
//!
//! A call takes time, is carried out at any moment after it was made, also long after whoever made it has been told that its outcome is
//! unknown, and its reply may be lost. And the metadata may be put back to an older copy while those who have read the newer one live:
//! its revisions are given out again then, to other changes.

use stateright::{Model, Property};

/// What a transaction compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The record's revision.
    Revision,
    Epoch,
    /// And all of it, as it was read.
    Value,
}

/// The rules, and the bounds.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// What a transaction compares.
    pub compare: Compare,
    /// What may have been done is read back before anything is built on it.
    pub reads_back: bool,
    /// How many members are evicted, at most.
    pub evictions: u8,
    /// How often a reply is lost.
    pub losses: u8,
    /// How often something else is written, which takes a revision.
    pub others: u8,
    /// Whether the metadata is put back to an older copy.
    pub restored: bool,
}

/// A record as somebody knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// When it was last changed.
    pub revision: u8,
    /// How often it was.
    pub epoch: u8,
    /// Who is in sync (a mask).
    pub in_sync: u8,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// What is there?
    Read,
    /// What was read, and who is in sync from then on.
    Put(Record, u8),
}

/// A call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Course {
    /// It was not carried out yet.
    Asked(Call),
    /// It was: this is there now.
    Done(Record),
}

/// Somebody who evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// What it goes by.
    pub known: Record,
    /// The outcome of its last call is not known: it reads first.
    pub in_doubt: bool,
    pub call: Option<Course>,
    /// An older call that nobody waits for, and that may be carried out yet.
    pub late: Option<Call>,
}

/// Those who evict: sequencers, or a sequencer and the coordinator.
const CLIENTS: usize = 2;
const MEMBERS: u8 = 3;

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What is there.
    pub record: Record,
    /// The newest revision.
    pub revision: u8,
    /// A copy of both.
    pub copy: Option<(Record, u8)>,
    /// It was put back.
    pub restored: bool,
    /// Who evicts.
    pub clients: [Client; CLIENTS],
    /// What may still happen: evictions, lost replies, other writes.
    pub left: [u8; 3],
    /// A transaction changed something else than its sender had read.
    pub blind: bool,
    /// A call was carried out when nobody waited for it any more.
    pub late: bool,
}

/// A step; numbers are clients, then members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It asks what is there.
    Read(usize),
    /// It evicts a member.
    Evict(usize, u8),
    /// Its call is carried out.
    Do(usize),
    /// It has the reply.
    Reply(usize),
    /// The reply is lost, or late: the outcome is unknown.
    Lose(usize),
    /// An older call of it is carried out.
    DoLate(usize),
    /// Something else is written.
    Other,
    /// A copy is made.
    Copy,
    /// The copy takes the metadata's place.
    Restore,
}

impl Records {
    fn carry_out(&self, s: &mut State, call: Call) -> Record {
        let Call::Put(read, in_sync) = call else {
            return s.record;
        };
        let same = match self.compare {
            Compare::Revision => read.revision == s.record.revision,
            Compare::Epoch => (read.revision, read.epoch) == (s.record.revision, s.record.epoch),
            Compare::Value => read == s.record,
        };
        if same {
            s.blind |= read != s.record;
            s.revision += 1;
            s.record = Record {
                revision: s.revision,
                epoch: read.epoch + 1,
                in_sync,
            };
        }
        s.record
    }
}

/// The name of the property that a change is one of what was read.
pub const SEEN: &str = "a transaction changes only what its sender has read";
/// The name of the property that nobody does without a member that is in sync.
pub const COUNTED: &str = "whoever is in sync is known to be by everybody who is in no doubt";
/// What happens somewhere: a late call succeeds.
pub const LATE: &str = "a call is carried out late";
/// What happens somewhere: after a restore somebody evicts.
pub const WENT_ON: &str = "a member is evicted after an older copy was put back";

impl Model for Records {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let record = Record {
            revision: 1,
            epoch: 1,
            in_sync: (1 << MEMBERS) - 1,
        };
        let client = Client {
            known: record,
            in_doubt: false,
            call: None,
            late: None,
        };
        vec![State {
            record,
            revision: 1,
            copy: None,
            restored: false,
            clients: [client; CLIENTS],
            left: [self.evictions, self.losses, self.others],
            blind: false,
            late: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        for client in 0..CLIENTS {
            actions.extend([Action::Read(client), Action::Do(client), Action::Reply(client)]);
            actions.extend([Action::Lose(client), Action::DoLate(client)]);
            actions.extend((0..MEMBERS).map(|member| Action::Evict(client, member)));
        }
        actions.push(Action::Other);
        if self.restored {
            actions.extend([Action::Copy, Action::Restore]);
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let mut next = *s;
        match action {
            Action::Read(c) if s.clients[c].call.is_none() => next.clients[c].call = Some(Course::Asked(Call::Read)),
            Action::Evict(c, member) if s.clients[c].call.is_none() && !s.clients[c].in_doubt => {
                let known = s.clients[c].known;
                let in_sync = known.in_sync & !(1 << member);
                if in_sync == known.in_sync || in_sync == 0 {
                    return None;
                }
                next.left[0] = s.left[0].checked_sub(1)?;
                next.clients[c].call = Some(Course::Asked(Call::Put(known, in_sync)));
            }
            Action::Do(c) => {
                let Some(Course::Asked(call)) = s.clients[c].call else {
                    return None;
                };
                let found = self.carry_out(&mut next, call);
                next.clients[c].call = Some(Course::Done(found));
            }
            Action::Reply(c) => {
                let Some(Course::Done(found)) = s.clients[c].call else {
                    return None;
                };
                let client = &mut next.clients[c];
                // What went back is noticed, and ends whoever notices it: it takes no step any more.
                if found.epoch < client.known.epoch {
                    return None;
                }
                (client.known, client.in_doubt, client.call) = (found, false, None);
            }
            Action::Lose(c) => {
                next.left[1] = s.left[1].checked_sub(1)?;
                let client = &mut next.clients[c];
                match client.call.take()? {
                    Course::Asked(Call::Put(read, in_sync)) => {
                        client.late = Some(Call::Put(read, in_sync));
                        if !self.reads_back {
                            client.known.in_sync = in_sync;
                        }
                    }
                    Course::Asked(Call::Read) | Course::Done(_) => {}
                }
                client.in_doubt |= self.reads_back;
            }
            Action::DoLate(c) => {
                let call = next.clients[c].late.take()?;
                let before = s.record;
                self.carry_out(&mut next, call);
                next.late |= before != next.record;
            }
            Action::Other => {
                next.left[2] = s.left[2].checked_sub(1)?;
                next.revision += 1;
            }
            Action::Copy if s.copy.is_none() && !s.restored => next.copy = Some((s.record, s.revision)),
            Action::Restore => {
                (next.record, next.revision) = next.copy.take()?;
                next.restored = true;
            }
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SEEN, |_, s: &State| !s.blind),
            // What is put back is another world, which stores' own epochs and the longest history answer for.
            Property::always(COUNTED, |_, s: &State| {
                s.restored
                    || s.clients
                        .iter()
                        .all(|client| client.in_doubt || s.record.in_sync & !client.known.in_sync == 0)
            }),
            Property::sometimes(LATE, |_, s: &State| s.late),
            Property::sometimes(WENT_ON, |_, s: &State| {
                s.restored
                    && s.clients
                        .iter()
                        .any(|client| client.known == s.record && s.record.epoch > 1)
            }),
        ]
    }
}
