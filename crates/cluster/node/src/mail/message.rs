//! What the cores of a node say to each other, by what it is about.

use crate::directory::{ClosingId, OpeningId};
use amita_fabric::{Link, Message};
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_sequencer::{self as volume, Opened};
use amita_store::LinkId;
use amita_types::io::Payload;
use amita_types::message::{Answer, Request};
use amita_types::{Generation, NodeId, SnapshotId, StoreId, TraceId, VolumeId};

/// From one core to another of the same node. (The common one, a step of an I/O, is the largest; boxing it would allocate per
/// I/O.)
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum CoreMessage {
    /// A step of an I/O.
    Io(IoMessage),
    Volume(VolumeMessage),
    /// Of a volume, to the directory on core 0.
    Directory(DirectoryMessage),
    Reservation(ReservationMessage),
    Snapshot(SnapshotMessage),
    Limit(LimitMessage),
    Node(NodeMessage),
}

/// A step of an I/O, which changes nothing that anybody waits for.
#[derive(Debug)]
pub enum IoMessage {
    /// A request for a store that the receiving core serves.
    ToStore {
        /// The node whose sequencer asks.
        from: NodeId,
        /// Who asks: the answer goes back by it.
        link: LinkId,
        request: Request,
        payload: Slice,
    },
    /// A store's answer, for the core named in `link`.
    FromStore {
        /// Who had asked.
        link: LinkId,
        answer: Answer,
        payload: Slice,
    },
    /// A message for a peer node, to be sent by the receiving core, which owns the link. Dropped when the link is gone:
    /// the sequencer sends again in the right order once it has heard of the new one (R8).
    ToPeer {
        link: Link,
        message: Message,
        payload: Slice,
    },
    /// A peer's answer that belongs to a sequencer of the receiving core.
    ToSequencer {
        /// Who has sent it.
        from: NodeId,
        answer: Answer,
        payload: Slice,
    },
    /// A piece of a front end's I/O, for the core that sequences its chunk.
    Piece {
        /// Where the I/O came in.
        origin: Origin,
        volume: VolumeId,
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
        result: Result<(), amita_types::io::IoError>,
        /// What was read.
        payload: Payload,
    },
    /// The host of a traced I/O that the receiving core has sequenced was told.
    Acknowledged { trace: TraceId, at: Time },
}

impl From<IoMessage> for CoreMessage {
    fn from(message: IoMessage) -> CoreMessage {
        CoreMessage::Io(message)
    }
}

/// How a volume is opened, used and given up: to the sequencers and front ends of all cores.
#[derive(Debug)]
pub enum VolumeMessage {
    /// The exports, for a front end of the receiving core.
    Listed {
        /// Who had asked.
        origin: Origin,
        /// What there is.
        exports: Vec<frontend::Export>,
    },
    /// From the directory: it is open, or not.
    Opened {
        /// Who had asked.
        origin: Origin,
        /// The volume, and by which number the front end closes it; or why not.
        result: Result<(OpeningId, frontend::VolumeInfo), frontend::OpenError>,
    },
    /// From the directory: make a sequencer for this core's chunks.
    MakeShard { opened: Box<Opened> },
    /// To all cores: the volume is no longer ours. Front ends that use it are told by [`VolumeMessage::Lost`].
    DropShard {
        volume: VolumeId,
        /// The generation that ended; a newer shard stays.
        generation: Generation,
        why: String,
        /// It was handed over: hosts go on, by the new owner.
        handed_over: bool,
    },
    /// From the directory, to all cores: it counts nobody as using the volume any more; front ends that do are told why.
    Lost {
        volume: VolumeId,
        /// The generation that ended; a newer shard stays. `None`: it was not open here, and no shard ends.
        generation: Option<Generation>,
        why: String,
        /// The numbers by which front ends knew it when it was lost.
        known: Vec<VolumeId>,
    },
    /// To all cores: the volume is deleted, or about to be.
    EndShard {
        volume: VolumeId,
        /// To be said again by `ShardEnded`.
        closing: ClosingId,
        why: String,
        /// The numbers by which front ends knew it then.
        known: Vec<VolumeId>,
    },
    /// From the directory: where a volume's I/O goes (asked by `Seek`).
    VolumeRoute {
        volume: VolumeId,
        /// Where its I/O goes.
        way: VolumeRoute,
    },
    /// To all cores: the volume is to be handed over. What is under way on it ends, what comes waits.
    Leave {
        volume: VolumeId,
        /// The generation under which it is open.
        generation: Generation,
        /// Which attempt to hand it over: the directory counts them.
        attempt: u64,
    },
    /// To all cores: it is not handed over after all.
    Stay { volume: VolumeId },
    /// The answer to another gateway's `Release`, to be sent over a link of the receiving core.
    Reply {
        link: Link,
        /// What to send.
        message: Message,
    },
    /// Look at all copies of a volume's chunks, or no longer.
    Scrub {
        volume: VolumeId,
        /// The generation under which it is open.
        generation: Generation,
        order: crate::scrubs::Order,
    },
}

impl From<VolumeMessage> for CoreMessage {
    fn from(message: VolumeMessage) -> CoreMessage {
        CoreMessage::Volume(message)
    }
}

/// To the directory, on core 0.
#[derive(Debug)]
pub enum DirectoryMessage {
    /// Open a volume.
    Open {
        /// Who asks.
        origin: Origin,
        /// The volume's name.
        name: String,
    },
    /// A front end uses no more what it has opened: whatever has become of that meanwhile.
    Close { opening: OpeningId },
    /// A core has made its sequencer (`MakeShard`).
    ShardMade {
        volume: VolumeId,
        /// Under which generation.
        generation: Generation,
    },
    /// A core's sequencer of the volume is there no more.
    ShardEnded {
        volume: VolumeId,
        /// As `EndShard` said.
        closing: ClosingId,
        core: usize,
    },
    /// Where is the owner of a volume that hosts have I/O for? It is opened here if it has none.
    Seek {
        /// The core that asks.
        core: usize,
        volume: VolumeId,
        /// Owners that this core has found to be lost; and whether surely so, by their ports.
        lost: Vec<(NodeId, bool)>,
        /// Nothing that waits is for the volume itself, but reads for clones or of snapshots: it may be a deleted one, or one that is closed.
        for_clones: bool,
    },
    /// Nothing is under way any more on a core. Said once for each attempt.
    Left {
        volume: VolumeId,
        /// The generation under which it is open.
        generation: Generation,
        /// The attempt: word of an earlier one, after which the core took I/O in again, does not count for a later one.
        attempt: u64,
        core: usize,
    },
    /// Another gateway asks for a volume.
    Release {
        /// The core that owns the link.
        core: usize,
        /// The link that asked.
        link: Link,
        /// The asker's tag.
        tag: u64,
        /// The asker.
        from: NodeId,
        volume: VolumeId,
        /// The generation that it knows.
        generation: Generation,
        /// Though hosts use it here.
        hand_over: bool,
    },
    /// A peer answered a question of ours.
    Released {
        tag: u64,
        /// Who has answered.
        from: NodeId,
        /// What it said.
        outcome: amita_fabric::ReleaseOutcome,
    },
    /// A core's sequencer says that a syncing store holds everything of its chunks in a group.
    Whole {
        volume: VolumeId,
        /// The sequencer's generation.
        generation: Generation,
        core: usize,
        /// Which store of which group.
        member: amita_types::map::WholeMember,
    },
    /// A core's sequencer has looked at all copies of a group (`Scrub`).
    Scrubbed {
        volume: VolumeId,
        /// The sequencer's generation.
        generation: Generation,
        core: usize,
        /// The look's number.
        number: u64,
        group: amita_types::GroupIndex,
        /// There is no group behind it.
        is_last: bool,
        report: amita_types::map::ScrubReport,
    },
}

impl From<DirectoryMessage> for CoreMessage {
    fn from(message: DirectoryMessage) -> CoreMessage {
        CoreMessage::Directory(message)
    }
}

/// About the reservations of volumes.
#[derive(Debug)]
pub enum ReservationMessage {
    /// A command about a volume's reservation (in JSON), for the core that holds the link to its owner.
    Reserve {
        /// Where it came in.
        origin: Origin,
        volume: VolumeId,
        /// The command.
        payload: Slice,
    },
    /// To core 0: a command about the reservation of a volume that is open here.
    ReserveHere {
        /// Where it came in.
        origin: Origin,
        volume: VolumeId,
        command: Box<frontend::reservation::Command>,
    },
    /// The end of such a command.
    Reserved {
        /// Where it came in.
        origin: Origin,
        result: Box<Result<frontend::reservation::State, frontend::reservation::Refusal>>,
    },
    /// To all cores: I/O is held against this from now on.
    Adopt {
        volume: VolumeId,
        /// What is reserved.
        adopted: crate::reservations::Adopted,
    },
    /// To core 0: it is, and nothing is under way that it forbids.
    Adopted {
        volume: VolumeId,
        /// Of what was adopted.
        revision: u64,
        core: usize,
    },
}

impl From<ReservationMessage> for CoreMessage {
    fn from(message: ReservationMessage) -> CoreMessage {
        CoreMessage::Reservation(message)
    }
}

/// About the snapshots of volumes that are open here.
#[derive(Clone, Copy, Debug)]
pub enum SnapshotMessage {
    /// From core 0: the volume's sequencer does this.
    Order {
        volume: VolumeId,
        /// The generation under which it is open.
        generation: Generation,
        order: crate::snapshots::Order,
    },
    /// To core 0: a sequencer has done something.
    Word {
        volume: VolumeId,
        /// The sequencer's generation.
        generation: Generation,
        core: usize,
        word: crate::snapshots::Word,
    },
    /// To core 0: the gateway that leads a set asks for a step.
    Asked {
        /// The core that owns the link.
        core: usize,
        /// The link that asked.
        link: Link,
        /// The asker.
        from: NodeId,
        cut: amita_fabric::Cut,
    },
    /// To core 0: an owner has answered.
    Answered {
        from: NodeId,
        tag: u64,
        outcome: amita_fabric::CutOutcome,
    },
}

impl From<SnapshotMessage> for CoreMessage {
    fn from(message: SnapshotMessage) -> CoreMessage {
        CoreMessage::Snapshot(message)
    }
}

/// About the tokens of limited volumes ([`crate::limits`]).
#[derive(Debug)]
pub enum LimitMessage {
    /// Asks of a gate, for the core that holds the link to the volume's owner.
    Ask {
        /// Whose.
        origin: Origin,
        volume: VolumeId,
        /// To lend, or to give back.
        work: crate::forwarder::Work,
        /// The asks.
        payload: Slice,
    },
    /// To the core that lends a volume's tokens: asks about one that is open here.
    AskHere {
        /// Whose.
        origin: Origin,
        volume: VolumeId,
        /// The asks.
        payload: Slice,
    },
    /// What was lent, or why nobody could be asked.
    Lent {
        /// Whose asks; of a gate's the tag is the volume's number.
        origin: Origin,
        result: Box<Result<crate::limits::Answer, amita_types::io::IoError>>,
    },
}

impl From<LimitMessage> for CoreMessage {
    fn from(message: LimitMessage) -> CoreMessage {
        CoreMessage::Limit(message)
    }
}

/// What the cores of a node hear of one another: of hosts, stores, peers and the metadata.
#[derive(Debug)]
pub enum NodeMessage {
    /// A host has gone that other gateways serve as well, and what it asked for goes with it (R9).
    HostGone {
        /// The core of its connection.
        core: u16,
        front: amita_frontend::FrontId,
    },
    /// A host at that address has shown to the sender that it may be here.
    HostShown { address: std::net::IpAddr },
    /// The cluster does not know this node as living: all hosts are dropped.
    DropHosts,
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
        front: frontend::FrontId,
        /// The tag of what it asked, or 0.
        tag: u64,
        /// What is said.
        word: amita_nvme::Reply,
    },
    /// To the register of iSCSI sessions: a connection asks.
    Iscsi {
        connection: frontend::ConnectionId,
        /// The connection's tag.
        tag: u64,
        /// What it asks.
        call: amita_iscsi::Call,
    },
    /// From the register, to a connection's front.
    IscsiReply {
        front: frontend::FrontId,
        /// The tag of what it asked, or 0.
        tag: u64,
        /// What is said.
        word: amita_iscsi::Reply,
    },
    /// Something that a front of the receiving core wanted computed.
    Computed {
        front: frontend::FrontId,
        /// The tag of what it asked.
        tag: u64,
        result: Option<frontend::Computed>,
    },
    /// The settings that concern NVMe hosts, made anew.
    Catalog(std::sync::Arc<amita_nvme::Catalog>),
    /// And those that concern initiators of iSCSI.
    IscsiCatalog(std::sync::Arc<amita_iscsi::Catalog>),
    /// A store of this node serves now, on this core.
    StoreServes { store: StoreId, core: usize },
    /// A store of this node could not be opened or mounted.
    StoreUnmounted,
    /// An incoming link is gone: the receiving core's stores take its credits back.
    LinkClosed { link: LinkId },
    /// A link to the peer is there, and this core may send over the named one.
    PeerUp {
        peer: NodeId,
        /// The link to name.
        link: Link,
    },
    /// The link to the peer broke.
    PeerDown { peer: NodeId },
    /// To the cores that hold links to the peer: the port at the end of the sender's refuses, for so long and so often that it
    /// counts; or it does not.
    PeerRefused {
        peer: NodeId,
        /// The core that says so.
        core: usize,
        refused: bool,
    },
    /// The peer is to be taken for dead.
    PeerLost { peer: NodeId },
    /// A change of the metadata, passed on by the core that the control thread talks to.
    Record(crate::control::Record),
    /// The end of a metadata call of a sequencer on the receiving core.
    Metadata {
        call: volume::CallId,
        result: Result<amita_metadata::Reply, amita_metadata::Error>,
    },
}

impl From<NodeMessage> for CoreMessage {
    fn from(message: NodeMessage) -> CoreMessage {
        CoreMessage::Node(message)
    }
}

/// Where a volume's I/O goes, as the directory knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeRoute {
    /// It is open here, on every core.
    Here,
    /// To its owner.
    There(NodeId),
    /// Nobody knows yet: ask again.
    Later,
    /// Its keys are not here: ask again, not so soon.
    Locked,
    /// It is closed to hosts, as its record says now.
    Closed,
    /// There is no such volume, or it cannot be opened.
    Nowhere,
}

/// Where an I/O came in: the core, the front end and its own tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub core: u16,
    /// The front end there.
    pub front: frontend::FrontId,
    pub tag: u64,
    /// When its last byte had come in, and when it was parsed; of an I/O.
    pub arrived: Time,
    /// See `arrived`.
    pub parsed: Time,
    /// Until when the core of its connection has looked after that before it let it go on: a limit may have held it for longer than its host
    /// may be out of sight (R9).
    pub kept: Time,
    /// Its trace, if it has one.
    pub trace: TraceId,
    /// The host, where its front serves hosts that other gateways serve as well: such I/O may be forwarded.
    pub host: frontend::HostKey,
    /// Of a forwarded request: the generation under which alone it may be carried out here. Zero: of a host of ours.
    pub generation: Generation,
    /// The snapshot that is read; [`SnapshotId::HEAD`]: the volume itself is used.
    pub snapshot: SnapshotId,
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
        matches!(self, CoreMessage::Io(_) | CoreMessage::Limit(_))
    }
}
