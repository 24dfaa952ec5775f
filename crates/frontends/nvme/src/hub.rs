//! The register of a node's controllers.
//!
//! The queues of a controller are connections that may be on different cores. Each of them asks the register once when
//! it is connected, and is told when the controller is gone; between the two it is not involved in any I/O.
//!
//! A host that has something to prove gets its controller, or a queue of one, when it has proven it: before that the register
//! keeps nothing for it, so that strangers take nobody's place. It is told the number of its controller before, as Connect
//! wants it; that number is not taken until it comes back proven. (Two hosts may be told the same one then. That takes as many
//! that connect at once as there are numbers left, and the later one tries again.) Who has proven nothing may hold some of the
//! places from one address, and not all of them from everywhere.
//!
//! A controller lives as long as its admin queue's connection. When that ends, or the controller is disabled, its I/O
//! queues are told ([`Reply::Gone`]) and close; the admin queue has closed their [`Gate`] before, so that they start
//! nothing from that moment on.

use super::admin::ControllerShared;
use super::catalog::{Catalog, Subsystem};
use super::command::Status;
use super::failure::Failures;
use super::wire::status;
use amita_frontend::ConnectionId;
use numbers::Numbers;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod numbers;
#[cfg(test)]
mod tests;

/// Controllers of one subsystem at one gateway: what the numbers have room for.
pub const MAX_CONTROLLERS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 6;
/// Nodes whose controllers' numbers differ: FFF0h and above are reserved (NVM Express Base 2.1, 5.1.13.2.1, CNTLID).
const NODES: u64 = 1023;
/// Discovery controllers of a gateway: each is a host's persistent connection.
pub const MAX_DISCOVERY_CONTROLLERS: usize = 16 << 10;
/// Controllers of one subsystem at one gateway that one [`Holder`] may have: many times what the paths of a host need, and
/// never all of them.
pub const MAX_CONTROLLERS_OF_HOLDER: usize = 24;
/// The same of the discovery subsystem, where hosts behind one address (a /64 of IPv6) each keep one: half of the places that one address has
/// for strangers at a core, so that its hosts can still connect to what they have discovered.
pub const MAX_DISCOVERY_CONTROLLERS_OF_HOLDER: usize = 128;
/// Controllers of a subsystem, out of [`MAX_CONTROLLERS`], that only hosts which have proven themselves get, where any host
/// has something to prove.
pub const KEPT_FOR_PROVEN: usize = 16;

/// Hosts that are remembered to send Keep Alive late. Others may lose a controller more than once for it.
pub const MAX_SLOW_HOSTS: usize = 1024;

/// Who connects, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The name that the host used for it: the discovery subsystem has two.
    pub asked: String,
    /// The host's NQN.
    pub host: String,
    /// The host's identifier.
    pub host_id: [u8; 16],
}

/// Whose a controller is, as far as its places are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A host that has proven to be the one of that NQN.
    Proven(String),
    /// Whoever connects from there: a name that nothing stands behind is anybody's.
    Unproven(IpAddr),
}

/// Open as long as the I/O queues that have joined may do I/O: a controller that is enabled again has another one.
#[derive(Debug, Default)]
pub struct Gate(AtomicBool);

impl Gate {
    /// The queues are dead.
    pub fn shut(&self) {
        self.0.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What the queues of an enabled controller share.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Signs of life, and counters.
    pub controller: Arc<ControllerShared>,
    /// May I/O be done?
    pub gate: Arc<Gate>,
}

/// What a queue asks of the register.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Call {
    /// Which number would a controller get? It is told to a host that has still to prove itself, and nothing is kept for it.
    /// Answered by [`Reply::Offered`] or [`Reply::Refused`].
    Offer {
        party: Box<Party>,
        /// Of the discovery subsystem.
        discovery: bool,
    },
    /// An admin queue is connected, and its host has proven what it has to: a controller is made. Answered by
    /// [`Reply::Created`] or [`Reply::Refused`].
    Create {
        party: Box<Party>,
        /// Of the discovery subsystem.
        discovery: bool,
        holder: Holder,
        /// The number that it was told before, if it was.
        number: Option<u16>,
    },
    /// An I/O queue is connected. Answered by [`Reply::Joined`] or [`Reply::Refused`].
    Join {
        party: Box<Party>,
        /// The controller's number.
        controller: u16,
        /// The queue's number, from 1 on.
        queue: u16,
    },
    /// The admin queue's controller takes I/O queues. Answered by [`Reply::Enabled`]: the host must not be told before,
    /// or a queue that it connects then might come too early.
    Enable {
        queues: u16,
        /// What they get to see.
        shared: Shared,
    },
    /// It takes none any more: its I/O queues end. Answered by [`Reply::Disabled`].
    Disable,
    /// Commands of an I/O queue have failed. Answered by [`Reply::Noted`]: until then the queue says nothing more of them.
    Failed(Failures),
    /// A command of an admin queue has a question. Answered by [`Reply::Answer`].
    Ask(Question),
    /// The connection is gone. Not answered.
    Leave,
}

/// What an admin command has to know of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// May the host have so many I/O queues from now on, and no more?
    Grant(u16),
    /// What has failed on I/O queues since this was last asked?
    Failures,
    /// Which controllers has the subsystem here?
    Controllers,
}

/// What the register answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Is it granted? Not when the controller has had an I/O queue since it was enabled.
    Grant(bool),
    Failures(Failures),
    /// Their numbers, in order.
    Controllers(Vec<u16>),
}

/// What the register says to a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// A controller may get this number, if it is still free then.
    Offered { controller: u16 },
    /// The controller is there.
    Created {
        /// Its number.
        controller: u16,
        /// Is its host known to send Keep Alive late?
        slow: bool,
    },
    /// The queue is one of its controller's.
    Joined {
        /// What the controller's queues share.
        shared: Shared,
    },
    /// I/O queues may join.
    Enabled,
    /// No I/O queue may join any more.
    Disabled,
    /// It is not.
    Refused {
        status: Status,
        /// The result of the Connect command.
        result: u32,
    },
    /// To an I/O queue: its controller is gone.
    Gone,
    /// The failures will be told to the host.
    Noted,
    /// The answer to a question.
    Answer(Answer),
}

/// What a controller that is enabled has to give.
#[derive(Debug)]
struct Enabled {
    /// How many I/O queues it was granted: they are numbered from 1 to this.
    granted: u16,
    shared: Shared,
    /// Has there been an I/O queue since?
    joined: bool,
}

#[derive(Debug)]
struct Controller {
    party: Party,
    holder: Holder,
    /// While it is.
    enabled: Option<Enabled>,
    /// The I/O queues that are connected.
    queues: BTreeMap<u16, ConnectionId>,
    /// What has failed on them, and the admin queue has not been told.
    failures: Failures,
}

/// What names a controller at this gateway: its subsystem and its number.
type Key = (String, u16);

/// The register: on one core of the node, off the path of an I/O.
#[derive(Debug, Default)]
pub struct Hub {
    said: VecDeque<(ConnectionId, u64, Reply)>,
    controllers: BTreeMap<Key, Controller>,
    /// The numbers that they have, by subsystem.
    taken: BTreeMap<String, Numbers>,
    /// How many of them are whose.
    held: BTreeMap<(String, Holder), usize>,
    /// What each connection is: an admin queue (0) or an I/O queue of which controller.
    connections: BTreeMap<ConnectionId, (Key, u16)>,
    /// Where the search for a free number begins: one that was in use a moment ago is not used again at once.
    next: u16,
    /// Hosts, by their NQNs, that send Keep Alive late, or may.
    slow: BTreeSet<String>,
}

/// There is no place for it now.
fn busy() -> Reply {
    Reply::Refused {
        status: status::CONNECT_BUSY,
        result: 0,
    }
}

/// The result of a Connect command with an invalid parameter: where that is (Base 2.1, 6.3).
pub(super) const fn invalid(offset: u16, in_data: bool) -> u32 {
    offset as u32 | (in_data as u32) << 16
}

/// How a controller is refused to a host whose identifier a host of another name has.
pub(super) const IDENTIFIER_OF_ANOTHER: (Status, u32) = (status::CONNECT_PARAMETERS, invalid(0, true));

impl Hub {
    /// A queue asks.
    pub fn call(&mut self, from: ConnectionId, tag: u64, call: Call, catalog: &Catalog) {
        let word = match call {
            Call::Offer { party, discovery } => match self.free_number(&party, discovery, catalog) {
                Some(controller) => Reply::Offered { controller },
                None => busy(),
            },
            Call::Create {
                party,
                discovery,
                holder,
                number,
            } => self.create(from, *party, discovery, holder, number, catalog),
            Call::Join {
                party,
                controller,
                queue,
            } => self.join(from, &party, controller, queue),
            Call::Enable { queues, shared } => {
                let enabled = Enabled {
                    granted: queues,
                    shared,
                    joined: false,
                };
                self.enable(from, Some(enabled));
                Reply::Enabled
            }
            Call::Disable => {
                self.enable(from, None);
                Reply::Disabled
            }
            Call::Failed(failures) => {
                self.note(from, failures);
                Reply::Noted
            }
            Call::Ask(question) => Reply::Answer(self.answer(from, question)),
            Call::Leave => return self.leave(from),
        };
        self.said.push_back((from, tag, word));
    }

    /// What is to be said, and to whom; the tag of the call, or 0.
    pub fn next_reply(&mut self) -> Option<(ConnectionId, u64, Reply)> {
        self.said.pop_front()
    }

    /// How many controllers there are.
    #[must_use]
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// A number that no controller of the subsystem has here.
    fn free_number(&mut self, party: &Party, discovery: bool, catalog: &Catalog) -> Option<u16> {
        let (first, count) = match discovery {
            true => (1, MAX_DISCOVERY_CONTROLLERS),
            // Unique in the subsystem over all gateways.
            false => (((catalog.node.0 as u64 % NODES) as u16) << SLOT_BITS, MAX_CONTROLLERS),
        };
        let start = usize::from(self.next);
        self.next = self.next.wrapping_add(1);
        match self.taken.get(&party.subsystem) {
            Some(taken) => taken.free(first, count, start),
            None => Numbers::default().free(first, count, start),
        }
    }

    /// May one more be theirs?
    fn has_room(&self, subsystem: &str, discovery: bool, holder: &Holder, catalog: &Catalog) -> bool {
        let limit = match discovery {
            true => MAX_DISCOVERY_CONTROLLERS_OF_HOLDER,
            false => MAX_CONTROLLERS_OF_HOLDER,
        };
        let held = self.held.get(&(subsystem.to_owned(), holder.clone()));
        if held.is_some_and(|held| *held >= limit) {
            return false;
        }
        let proves = |known: &Arc<Subsystem>| known.hosts.iter().any(|host| host.has_to_prove());
        if discovery || matches!(holder, Holder::Proven(_)) || !catalog.subsystem(subsystem).is_some_and(proves) {
            return true;
        }
        let all = (subsystem.to_owned(), 0)..=(subsystem.to_owned(), u16::MAX);
        let unproven = self.controllers.range(all);
        let unproven = unproven.filter(|(_, known)| matches!(known.holder, Holder::Unproven(_)));
        unproven.count() < MAX_CONTROLLERS - KEPT_FOR_PROVEN
    }

    /// Is the identifier in use here by a host of another name? Reservations tell hosts apart by both, and reports show the identifier
    /// alone. Who has proven its name does not yield to one that has not.
    fn is_of_another(&self, party: &Party, holder: &Holder) -> bool {
        let all = (party.subsystem.clone(), 0)..=(party.subsystem.clone(), u16::MAX);
        let mut others = self.controllers.range(all).map(|(_, known)| known);
        let proven = |holder: &Holder| matches!(holder, Holder::Proven(_));
        others.any(|known| {
            let same = known.party.host_id == party.host_id && known.party.host != party.host;
            same && (proven(&known.holder) || !proven(holder))
        })
    }

    fn create(
        &mut self,
        from: ConnectionId,
        party: Party,
        discovery: bool,
        holder: Holder,
        number: Option<u16>,
        catalog: &Catalog,
    ) -> Reply {
        // A connection has one Connect command.
        if self.connections.contains_key(&from) || !self.has_room(&party.subsystem, discovery, &holder, catalog) {
            return busy();
        }
        if !discovery && self.is_of_another(&party, &holder) {
            let (status, result) = IDENTIFIER_OF_ANOTHER;
            return Reply::Refused { status, result };
        }
        // Another host may have proven itself meanwhile that was told the same number: this one tries again.
        let free = match number {
            Some(number) => {
                Some(number).filter(|number| !self.controllers.contains_key(&(party.subsystem.clone(), *number)))
            }
            None => self.free_number(&party, discovery, catalog),
        };
        let Some(number) = free else { return busy() };
        let slow = self.slow.contains(&party.host);
        let key = (party.subsystem.clone(), number);
        self.connections.insert(from, (key.clone(), 0));
        let held = self.held.entry((party.subsystem.clone(), holder.clone())).or_default();
        *held += 1;
        self.taken.entry(party.subsystem.clone()).or_default().take(number);
        let controller = Controller {
            party,
            holder,
            enabled: None,
            queues: BTreeMap::new(),
            failures: Failures::default(),
        };
        self.controllers.insert(key, controller);
        Reply::Created {
            controller: number,
            slow,
        }
    }

    fn join(&mut self, from: ConnectionId, party: &Party, number: u16, queue: u16) -> Reply {
        let refused = |status, result| Reply::Refused { status, result };
        let wrong = |offset, in_data| refused(status::CONNECT_PARAMETERS, invalid(offset, in_data));
        if self.connections.contains_key(&from) {
            return refused(status::SEQUENCE, 0);
        }
        let key = (party.subsystem.clone(), number);
        let Some(controller) = self.controllers.get_mut(&key) else {
            return wrong(16, true);
        };
        if controller.party.host != party.host {
            return wrong(512, true);
        }
        if controller.party.host_id != party.host_id {
            return wrong(0, true);
        }
        let Some(enabled) = &mut controller.enabled else {
            return refused(status::SEQUENCE, 0);
        };
        // A Queue ID beyond the number of queues that the controller has granted is an invalid parameter of Connect (Base
        // 2.1, 6.3, with 5.1.25.2.1).
        if queue == 0 || queue > enabled.granted {
            return wrong(42, false);
        }
        if controller.queues.contains_key(&queue) {
            return refused(status::SEQUENCE, 0);
        }
        controller.queues.insert(queue, from);
        enabled.joined = true;
        let shared = enabled.shared.clone();
        self.connections.insert(from, (key, queue));
        Reply::Joined { shared }
    }

    /// The controller whose admin queue that is.
    fn controller_of(&mut self, admin: ConnectionId) -> Option<&mut Controller> {
        match self.connections.get(&admin) {
            Some((key, 0)) => self.controllers.get_mut(key),
            _ => None,
        }
    }

    fn enable(&mut self, from: ConnectionId, enabled: Option<Enabled>) {
        let Some(controller) = self.controller_of(from) else {
            return;
        };
        // Queues that joined what was enabled before do not belong to what is enabled now.
        let queues = std::mem::take(&mut controller.queues);
        if let Some(before) = std::mem::replace(&mut controller.enabled, enabled) {
            before.shared.gate.shut();
        }
        self.dismiss(queues);
    }

    /// Keeps what failed on an I/O queue, if its controller is still there to tell it.
    fn note(&mut self, from: ConnectionId, failures: Failures) {
        if let Some((key, 1..)) = self.connections.get(&from)
            && let Some(controller) = self.controllers.get_mut(key)
        {
            controller.failures.append(failures);
        }
    }

    fn answer(&mut self, from: ConnectionId, question: Question) -> Answer {
        match question {
            Question::Grant(queues) => Answer::Grant(self.grant(from, queues)),
            Question::Failures => {
                let controller = self.controller_of(from);
                let failures = controller.map(|controller| std::mem::take(&mut controller.failures));
                Answer::Failures(failures.unwrap_or_default())
            }
            Question::Controllers => {
                let subsystem = self.connections.get(&from).map(|((subsystem, _), _)| subsystem);
                let numbers = subsystem.map(|subsystem| {
                    let all = (subsystem.clone(), 0)..=(subsystem.clone(), u16::MAX);
                    self.controllers.range(all).map(|((_, number), _)| *number).collect()
                });
                Answer::Controllers(numbers.unwrap_or_default())
            }
        }
    }

    /// Number of Queues comes before the first I/O queue, and holds until the next reset (Base 2.1, 5.1.25.2.1): that a
    /// queue is gone again does not help. It is decided here because here it is in one order with the queues that join.
    fn grant(&mut self, from: ConnectionId, queues: u16) -> bool {
        let enabled = self
            .controller_of(from)
            .and_then(|controller| controller.enabled.as_mut());
        match enabled {
            Some(enabled) if !enabled.joined => {
                enabled.granted = queues;
                true
            }
            _ => false,
        }
    }

    fn leave(&mut self, from: ConnectionId) {
        let Some((key, queue)) = self.connections.remove(&from) else {
            return;
        };
        if queue == 0 {
            let Some(controller) = self.controllers.remove(&key) else {
                return;
            };
            if let Some(taken) = self.taken.get_mut(&key.0) {
                taken.give_back(key.1);
                if taken.is_empty() {
                    self.taken.remove(&key.0);
                }
            }
            let holding = (key.0, controller.holder);
            if let Some(held) = self.held.get_mut(&holding) {
                *held -= 1;
                if *held == 0 {
                    self.held.remove(&holding);
                }
            }
            if let Some(enabled) = &controller.enabled {
                enabled.shared.gate.shut();
                let host = controller.party.host;
                match enabled.shared.controller.is_slow() {
                    Some(true) if self.slow.len() < MAX_SLOW_HOSTS => {
                        self.slow.insert(host);
                    }
                    Some(false) => {
                        self.slow.remove(&host);
                    }
                    _ => {}
                }
            }
            self.dismiss(controller.queues);
        } else if let Some(controller) = self.controllers.get_mut(&key)
            && controller.queues.get(&queue) == Some(&from)
        {
            controller.queues.remove(&queue);
        }
    }

    /// Tells I/O queues that their controller is gone.
    fn dismiss(&mut self, queues: BTreeMap<u16, ConnectionId>) {
        for mouth in queues.into_values() {
            self.connections.remove(&mouth);
            self.said.push_back((mouth, 0, Reply::Gone));
        }
    }
}
