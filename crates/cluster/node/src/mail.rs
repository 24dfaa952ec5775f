//! What the cores of one node say to each other.
//!
//! Each ordered pair of cores has a ring of its own (single producer, single consumer). A message to the own core goes
//! to a queue instead, so that nothing above cares how many cores there are. Rings are bounded; what does not fit waits
//! in an overflow queue of the sender and goes first in the next pass, so that order between two cores is kept.

use amita_fabric::{Link, Message};
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::buggify::{IS_BUILT, Point, slow};
use amita_reactor::driver::Time;
use amita_reactor::mailbox::{Receiver, Sender};
use amita_sequencer::{self as volume, Opened};
use amita_store::LinkId;
use amita_types::io::Payload;
use amita_types::message::{Answer, Request};
use amita_types::{Generation, NodeId, StoreId, TraceId, VolumeId};
use std::collections::VecDeque;

/// Messages that one ring holds, at most.
pub const RING_MESSAGES: usize = 4096;
/// Messages that all rings into one core hold together, about: there are as many as other cores, and slots are memory that
/// stays in use (128 cores with the largest rings: 19 GB). What does not fit waits with its sender.
pub const MAIL_MESSAGES: usize = 16 << 10;

/// Messages that each ring of a node with so many cores holds.
#[must_use]
pub fn ring_messages(cores: usize) -> usize {
    let others = cores.saturating_sub(1).max(1);
    (MAIL_MESSAGES / others).next_power_of_two().min(RING_MESSAGES)
}

/// From one core to another of the same node.
#[derive(Debug)]
pub enum CoreMessage {
    /// A request for a store that the receiving core serves.
    ToStore {
        /// Who asks: the answer goes back by it.
        link: LinkId,
        /// The request.
        request: Request,
        /// Its payload.
        payload: Slice,
    },
    /// A store's answer, for the core named in `link`.
    FromStore {
        /// Who had asked.
        link: LinkId,
        /// The answer.
        answer: Answer,
        /// Its payload.
        payload: Slice,
    },
    /// A message for a peer node, to be sent by the receiving core, which owns the link. Dropped when the link is gone:
    /// the sequencer sends again in the right order once it has heard of the new one (R8).
    ToPeer {
        /// The link.
        link: Link,
        /// The message.
        message: Message,
        /// Its payload.
        payload: Slice,
    },
    /// A peer's answer that belongs to a sequencer of the receiving core.
    ToSequencer {
        /// The answer.
        answer: Answer,
        /// Its payload.
        payload: Slice,
    },
    /// A piece of a front end's I/O, for the core that sequences its chunk.
    Piece {
        /// Where the I/O came in.
        origin: Origin,
        /// The volume.
        volume: VolumeId,
        /// What to do.
        op: amita_types::io::Op,
        /// The payload of a write.
        payload: Slice,
    },
    /// The end of a piece.
    Done {
        /// Where the I/O came in.
        origin: Origin,
        /// The core that sequenced it.
        core: u16,
        /// How it ended.
        result: Result<(), amita_types::io::IoError>,
        /// What was read.
        payload: Payload,
    },
    /// The host of a traced I/O that the receiving core has sequenced was told.
    Acknowledged {
        /// Which.
        trace: TraceId,
        /// When.
        at: Time,
    },
    /// The exports, for a front end of the receiving core.
    Listed {
        /// Who had asked.
        origin: Origin,
        /// What there is.
        exports: Vec<frontend::Export>,
    },
    /// An incoming link is gone: the receiving core's stores take its credits back.
    LinkClosed {
        /// The link.
        link: LinkId,
    },
    /// To the directory: open a volume.
    Open {
        /// Who asks.
        origin: Origin,
        /// The volume's name.
        name: String,
    },
    /// From the directory: it is open, or not.
    Opened {
        /// Who had asked.
        origin: Origin,
        /// The volume, or why not.
        result: Result<frontend::VolumeInfo, frontend::OpenError>,
    },
    /// To the directory: where is the owner of a volume that hosts have I/O for? It is opened here if it has none.
    Seek {
        /// The core that asks.
        core: usize,
        /// The volume.
        volume: VolumeId,
        /// Owners that this core has found to be lost; and whether surely so, by their ports.
        lost: Vec<(NodeId, bool)>,
    },
    /// A host has gone that other gateways serve as well, and what it asked for goes with it (R9).
    HostGone {
        /// The core of its connection.
        core: u16,
        /// Its front.
        front: amita_frontend::FrontId,
    },
    /// The cluster does not know this node as living: all hosts are dropped.
    DropHosts,
    /// From the directory: there.
    Sought {
        /// The volume.
        volume: VolumeId,
        /// Where its I/O goes.
        way: Sought,
    },
    /// To all cores: the volume is to be handed over. What is under way on it ends, what comes waits.
    Leave {
        /// The volume.
        volume: VolumeId,
        /// The generation under which it is open.
        generation: amita_types::Generation,
        /// Which attempt to hand it over: the directory counts them.
        attempt: u64,
    },
    /// To all cores: it is not handed over after all.
    Stay {
        /// The volume.
        volume: VolumeId,
    },
    /// To the directory: nothing is under way any more on a core. Said once for each attempt.
    Left {
        /// The volume.
        volume: VolumeId,
        /// The generation under which it is open.
        generation: amita_types::Generation,
        /// The attempt: word of an earlier one, after which the core took I/O in again, does not count for a later one.
        attempt: u64,
        /// The core.
        core: usize,
    },
    /// A command about a volume's reservation (in JSON), for the core that holds the link to its owner.
    Reserve {
        /// Where it came in.
        origin: Origin,
        /// The volume.
        volume: VolumeId,
        /// The command.
        payload: Slice,
    },
    /// To core 0: a command about the reservation of a volume that is open here.
    ReserveHere {
        /// Where it came in.
        origin: Origin,
        /// The volume.
        volume: VolumeId,
        /// The command.
        command: frontend::reservation::Command,
    },
    /// The end of such a command.
    Reserved {
        /// Where it came in.
        origin: Origin,
        /// How it ended.
        result: Result<frontend::reservation::State, frontend::reservation::Refusal>,
    },
    /// To all cores: I/O is held against this from now on.
    Adopt {
        /// The volume.
        volume: VolumeId,
        /// What is reserved.
        adopted: crate::reservations::Adopted,
    },
    /// To core 0: it is, and nothing is under way that it forbids.
    Adopted {
        /// The volume.
        volume: VolumeId,
        /// The core.
        core: usize,
    },
    /// To the register of NVMe controllers: a queue asks.
    Nvme {
        /// Whose connection it is.
        connection: frontend::ConnectionId,
        /// The queue's tag.
        tag: u64,
        /// What it asks.
        call: amita_nvme::Call,
    },
    /// From the register, to a queue's front.
    NvmeReply {
        /// The front.
        front: frontend::FrontId,
        /// The tag of what it asked, or 0.
        tag: u64,
        /// What is said.
        word: amita_nvme::Reply,
    },
    /// The settings that concern NVMe hosts, made anew.
    Catalog(std::sync::Arc<amita_nvme::Catalog>),
    /// To the directory: one front end less uses the volume.
    Close {
        /// The volume.
        volume: VolumeId,
    },
    /// From the directory: make a sequencer for this core's chunks.
    MakeShard {
        /// What was opened.
        opened: Box<Opened>,
    },
    /// To the directory: made.
    ShardMade {
        /// The volume.
        volume: VolumeId,
        /// Under which generation.
        generation: amita_types::Generation,
    },
    /// To all cores: the volume is no longer ours; front ends that use it are told why.
    DropShard {
        /// The volume.
        volume: VolumeId,
        /// The generation that ended; a newer shard stays.
        generation: amita_types::Generation,
        /// Why.
        why: String,
        /// It was handed over: hosts go on, by the new owner.
        handed_over: bool,
    },
    /// To all cores: the volume is deleted, or about to be.
    EndShard {
        /// The volume.
        volume: VolumeId,
        /// Why.
        why: String,
    },
    /// To the directory: a core's sequencer of the volume is there no more.
    ShardEnded {
        /// The volume.
        volume: VolumeId,
        /// The core.
        core: usize,
    },
    /// A store of this node serves now, on this core.
    StoreServes {
        /// The store.
        store: StoreId,
        /// The core.
        core: usize,
    },
    /// A store of this node could not be opened or mounted.
    StoreUnmounted,
    /// A link to the peer is there, and this core may send over the named one.
    PeerUp {
        /// The peer.
        peer: NodeId,
        /// The link to name.
        link: Link,
    },
    /// The link to the peer broke.
    PeerDown {
        /// The peer.
        peer: NodeId,
    },
    /// To the cores that hold links to the peer: the port at the end of the sender's refuses, for so long and so often that it
    /// counts; or it does not.
    PeerRefused {
        /// The peer.
        peer: NodeId,
        /// The core that says so.
        core: usize,
        /// Does it?
        refused: bool,
    },
    /// The peer is to be taken for dead.
    PeerLost {
        /// The peer.
        peer: NodeId,
    },
    /// To the directory: a core's sequencer says that a syncing store holds everything of its chunks in a group.
    Whole {
        /// The volume.
        volume: VolumeId,
        /// The sequencer's generation.
        generation: amita_types::Generation,
        /// The core.
        core: usize,
        /// Which store of which group.
        member: amita_types::map::WholeMember,
    },
    /// Look at all copies of a volume's chunks.
    Scrub {
        /// The volume.
        volume: VolumeId,
        /// The generation under which it is open.
        generation: amita_types::Generation,
    },
    /// To the directory: a core's sequencer has done so.
    Scrubbed {
        /// The volume.
        volume: VolumeId,
        /// The sequencer's generation.
        generation: amita_types::Generation,
        /// The core.
        core: usize,
        /// What was found.
        report: amita_types::map::ScrubReport,
    },
    /// To the directory: another gateway asks for a volume.
    Release {
        /// The core that owns the link.
        core: usize,
        /// The link that asked.
        link: Link,
        /// The asker's tag.
        tag: u64,
        /// The volume.
        volume: VolumeId,
        /// The generation that it knows.
        generation: amita_types::Generation,
        /// Though hosts use it here.
        hand_over: bool,
    },
    /// An answer to that, to be sent over a link of the receiving core.
    Reply {
        /// The link.
        link: Link,
        /// What to send.
        message: Message,
    },
    /// To the directory: a peer answered a question of ours.
    Released {
        /// Our tag.
        tag: u64,
        /// What it said.
        outcome: amita_fabric::ReleaseOutcome,
    },
    /// A change of the metadata, passed on by the core that the control thread talks to.
    Record(crate::control::Record),
    /// The end of a metadata call of a sequencer on the receiving core.
    Metadata {
        /// Which.
        call: volume::CallId,
        /// How it ended.
        result: Result<amita_metadata::Reply, amita_metadata::Error>,
    },
}

/// Where a volume's I/O goes, as the directory knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// It is open here, on every core.
    Here,
    /// To its owner.
    There(NodeId),
    /// Nobody knows yet: ask again.
    Later,
    /// There is no such volume, or it cannot be opened.
    Nowhere,
}

/// Where an I/O came in: the core, the front end and its own tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The core.
    pub core: u16,
    /// The front end there.
    pub front: frontend::FrontId,
    /// Its tag.
    pub tag: u64,
    /// When its last byte had come in, and when it was parsed; of an I/O.
    pub arrived: Time,
    /// See `arrived`.
    pub parsed: Time,
    /// Its trace, if it has one.
    pub trace: TraceId,
    /// The host, where its front serves hosts that other gateways serve as well: such I/O may be forwarded.
    pub host: frontend::HostKey,
    /// Of a forwarded request: the generation under which alone it may be carried out here. Zero: of a host of ours.
    pub generation: Generation,
}

impl Origin {
    /// May what is asked be carried out under this generation of ours? What other gateways forward names the one that they
    /// mean: they may have gone to the next owner with it since (R9).
    #[must_use]
    pub fn may_act_under(&self, generation: Generation) -> bool {
        self.generation == Generation(0) || self.generation == generation
    }
}

impl CoreMessage {
    /// Is it a step of an I/O, which changes nothing that anybody waits for?
    #[must_use]
    pub fn is_of_io(&self) -> bool {
        use CoreMessage::{Acknowledged, Done, FromStore, Piece, ToPeer, ToSequencer, ToStore};
        matches!(
            self,
            Acknowledged { .. }
                | ToStore { .. }
                | FromStore { .. }
                | ToPeer { .. }
                | ToSequencer { .. }
                | Piece { .. }
                | Done { .. }
        )
    }
}

/// One core's end of all rings.
pub struct Mail {
    core: usize,
    senders: Vec<Option<Sender<CoreMessage>>>,
    receivers: Vec<Option<Receiver<CoreMessage>>>,
    overflow: Vec<VecDeque<CoreMessage>>,
    own: VecDeque<CoreMessage>,
    /// The ring to take from: until it is empty, then the next, so that with many cores a message does not cost a look at
    /// the rings of all.
    turn: usize,
    /// Only in simulations: rings from which nothing is taken until then, and what time it is.
    held: Vec<Time>,
    now: Time,
}

impl Mail {
    /// The mail of a node with one core: no rings at all.
    #[must_use]
    pub fn alone() -> Mail {
        Mail {
            core: 0,
            senders: vec![None],
            receivers: vec![None],
            overflow: vec![VecDeque::new()],
            own: VecDeque::new(),
            turn: 0,
            held: Vec::new(),
            now: Time(0),
        }
    }

    /// The mail of `core`, with a ring to and from each other core (`None` at its own place).
    #[must_use]
    pub fn new(
        core: usize,
        senders: Vec<Option<Sender<CoreMessage>>>,
        receivers: Vec<Option<Receiver<CoreMessage>>>,
    ) -> Mail {
        let overflow = senders.iter().map(|_| VecDeque::new()).collect();
        Mail {
            core,
            senders,
            receivers,
            overflow,
            own: VecDeque::new(),
            turn: 0,
            held: Vec::new(),
            now: Time(0),
        }
    }

    /// How many cores the node has.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.senders.len()
    }

    /// Sends to a core, the own one included.
    pub fn send(&mut self, core: usize, message: CoreMessage) {
        let Some(sender) = self.senders.get_mut(core).and_then(Option::as_mut) else {
            self.own.push_back(message);
            return;
        };
        if !self.overflow[core].is_empty() {
            self.overflow[core].push_back(message);
        } else if let Err(message) = sender.send(message) {
            self.overflow[core].push_back(message);
        }
    }

    /// Sends what one closure makes to every core, the own one included.
    pub fn broadcast(&mut self, mut make: impl FnMut() -> CoreMessage) {
        for core in 0..self.cores() {
            self.send(core, make());
        }
    }

    /// The next message for this core.
    pub fn take(&mut self) -> Option<CoreMessage> {
        if let Some(message) = self.own.pop_front() {
            return Some(message);
        }
        for _ in 0..self.receivers.len() {
            if IS_BUILT && self.held.get(self.turn).is_some_and(|until| *until > self.now) {
                self.turn = (self.turn + 1) % self.receivers.len();
                continue;
            }
            let found = self.receivers[self.turn].as_mut().and_then(Receiver::pop);
            if found.is_some() {
                return found;
            }
            self.turn = (self.turn + 1) % self.receivers.len();
        }
        None
    }

    /// A pass begins: a simulation may hold rings back, each by itself. Elsewhere this does nothing.
    pub fn begin_pass(&mut self, now: Time) {
        if !IS_BUILT {
            return;
        }
        self.now = now;
        self.held.resize(self.receivers.len(), Time(0));
        for (receiver, held) in self.receivers.iter_mut().zip(&mut self.held) {
            if let Some(receiver) = receiver
                && *held <= now
                && receiver.has_any()
                && let Some(time) = slow(Point::SlowMail)
            {
                *held = now.plus(time);
            }
        }
    }

    /// When a ring that is held back may be taken from.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let held = self.held.iter().filter(|until| **until > self.now);
        held.min().copied().filter(|_| IS_BUILT)
    }

    /// The next message that this core sent to itself.
    pub fn take_own(&mut self) -> Option<CoreMessage> {
        self.own.pop_front()
    }

    /// Tries again to send what did not fit; true when something is still waiting.
    pub fn retry(&mut self) -> bool {
        let mut waiting = !self.own.is_empty();
        for (core, queue) in self.overflow.iter_mut().enumerate() {
            let Some(sender) = self.senders[core].as_mut() else {
                continue;
            };
            while let Some(message) = queue.pop_front() {
                if let Err(message) = sender.send(message) {
                    queue.push_front(message);
                    waiting = true;
                    break;
                }
            }
        }
        waiting
    }

    /// This core.
    #[must_use]
    pub fn core(&self) -> usize {
        self.core
    }
}

#[cfg(test)]
mod tests;
