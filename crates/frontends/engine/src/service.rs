//! What a protocol asks of the storage, and what it hears back.
//!
//! Every call returns at once; its result comes later as an [`Event`] for the same [`FrontId`], never from inside the
//! call. A front that is gone (its connection closed) hears nothing more, and the service undoes what it had under way.

use crate::compute::{Computation, Computed};
use crate::register::RegisterMessage;
use crate::reservation;
use amita_reactor::Slice;
use amita_types::capability::Grant;
use amita_types::io::{IoError, Op, Payload};
use amita_types::{SnapshotId, VolumeId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// One connection of a host, among those of a core. Given by whoever accepts it and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontId(pub u64);

/// What I/O is about: a volume, or what it was at a snapshot of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    pub volume: VolumeId,
    /// [`SnapshotId::HEAD`]: the volume itself. All else can only be read.
    pub snapshot: SnapshotId,
}

impl Source {
    /// Is it the volume itself?
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.snapshot == SnapshotId::HEAD
    }
}

/// Between the name of a volume and that of its snapshot: no volume's name has it.
const BETWEEN: char = '@';

/// The names of the volume and of its snapshot, of `VOLUME@SNAPSHOT`; `None`: it names a volume.
#[must_use]
pub fn snapshot_named(name: &str) -> Option<(&str, &str)> {
    name.split_once(BETWEEN)
}

impl From<VolumeId> for Source {
    /// The volume itself.
    fn from(volume: VolumeId) -> Source {
        let snapshot = SnapshotId::HEAD;
        Source { volume, snapshot }
    }
}

/// A host, as reservations tell hosts apart: drawn from its name and its identifier together (by its protocol), the same for all its
/// connections and at every gateway. Nobody can make up a host whose key is another's. As text: 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
// It is a part of every message between cores: aligned like a number of 16 bytes, it would make all of them larger.
#[repr(Rust, packed(8))]
pub struct HostKey(pub u128);

impl From<[u8; 16]> for HostKey {
    fn from(bytes: [u8; 16]) -> HostKey {
        HostKey(u128::from_le_bytes(bytes))
    }
}

impl From<HostKey> for [u8; 16] {
    fn from(key: HostKey) -> [u8; 16] {
        { key.0 }.to_le_bytes()
    }
}

impl HostKey {
    /// Of a host that no reservation knows.
    pub const NONE: HostKey = HostKey(0);
}

/// A client that has proved who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name.
    pub name: Arc<str>,
    /// What its certificate grants, beside what is exported to its name.
    pub grant: Option<Arc<Grant>>,
}

impl From<&str> for Client {
    /// One whose certificate grants nothing.
    fn from(name: &str) -> Client {
        Client {
            name: name.into(),
            grant: None,
        }
    }
}

/// Who asks for volumes by their names, as far as its protocol has found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A part of this program: it may use every volume.
    Program,
    /// It has proved to be that client.
    Client(Client),
    /// It has proved nothing, and is on this machine: its address is, or it may open the socket's file.
    Local,
    /// It has proved nothing, and came over a network.
    Stranger,
}

impl Serialize for HostKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", { self.0 }))
    }
}

impl<'de> Deserialize<'de> for HostKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HostKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_key = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let key = u128::from_str_radix(&text, 16).ok().filter(|_| is_key);
        key.map(HostKey)
            .ok_or_else(|| serde::de::Error::custom("the key of a host has 32 hexadecimal digits"))
    }
}

/// The storage service, as the fronts of one core see it.
pub trait StorageService {
    /// Asks which volumes there are that `who` may use; ends in [`Event::Listed`]. Opens nothing.
    fn list(&mut self, front: FrontId, tag: u64, who: &Who);

    /// Opens a volume by its name; ends in [`Event::Opened`]. A volume that another gateway owns is taken over or
    /// refused, as the service sees fit; one that `who` may not use is not found. The name is checked text, but otherwise the
    /// host's; `VOLUME@SNAPSHOT` is a snapshot. A right that ends while the volume is open ends in [`Event::Lost`].
    ///
    /// When the front closes before that, the service undoes the opening by itself.
    fn open(&mut self, front: FrontId, tag: u64, name: &str, who: &Who);

    /// Asks which snapshots a volume can be compared with, for [`Op::Differ`]; ends in [`Event::Bases`]. `export` names the volume, or a
    /// snapshot of it: then only older ones are meant. `only`: those of these names; empty: all, but [`MAX_BASES`] at most. Opens nothing.
    fn bases(&mut self, front: FrontId, tag: u64, export: &str, only: Vec<String>, who: &Who);

    /// The front has no more use for what it opened. What it has submitted may still be under way.
    fn close(&mut self, front: FrontId, source: Source);

    /// Starts one piece of I/O on an open volume: inside one chunk, and at most `MAX_IO_BYTES` where it has data (see
    /// [`crate::pieces()`]). `data` is what a write writes, and empty for all else. Ends in exactly one [`Event::Done`].
    ///
    /// The volume need not be one that the front has [opened](StorageService::open): one that it knows from the cluster's
    /// settings is served here or forwarded to the gateway that owns it, and taken over when that one
    /// is dead.
    fn submit(&mut self, front: FrontId, tag: u64, source: Source, op: Op, data: Slice);

    /// From now on the front's I/O is this host's: the reservation of a volume is held against it.
    fn identify(&mut self, front: FrontId, host: HostKey);

    /// Looks at a volume's reservation, or changes it, for a host; ends in [`Event::Reserved`] when every gateway that
    /// serves the volume, now or later, goes by it.
    fn reserve(&mut self, front: FrontId, tag: u64, volume: VolumeId, host: HostKey, command: reservation::Command);

    /// Asks the protocol's register on this node; ends in [`Event::Register`].
    fn register(&mut self, front: FrontId, tag: u64, call: RegisterMessage);

    /// Has something computed that takes milliseconds, where no I/O waits for it; ends in [`Event::Computed`], after a while
    /// where hosts ask for much.
    fn compute(&mut self, front: FrontId, tag: u64, computation: Computation);
}

/// A volume, as a host may see it before it opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// May it be read only?
    pub read_only: bool,
    /// A line for people; may be empty.
    pub description: String,
}

/// The most snapshots that one [`StorageService::bases`] tells of.
pub const MAX_BASES: usize = 1024;

/// Snapshots that a volume, or a later snapshot of it, can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bases {
    /// Of this volume.
    pub volume: VolumeId,
    /// Their names and numbers, in order of the names.
    pub snapshots: Vec<(String, SnapshotId)>,
}

/// An open volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    pub id: VolumeId,
    /// The snapshot of it that is open; [`SnapshotId::HEAD`]: the volume itself.
    pub snapshot: SnapshotId,
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of a chunk: a power of two, at least one block.
    pub chunk_bytes: u32,
    /// May it be read only?
    pub read_only: bool,
}

impl VolumeInfo {
    /// What I/O on it is about.
    #[must_use]
    pub fn source(&self) -> Source {
        let (volume, snapshot) = (self.id, self.snapshot);
        Source { volume, snapshot }
    }
}

/// What comes back from the service.
#[derive(Debug)]
pub enum Event {
    /// The volumes, in order of their names.
    Listed {
        /// The call's.
        tag: u64,
        /// All of them, or why they cannot be told.
        result: Result<Vec<Export>, OpenError>,
    },
    /// A volume is open, or not.
    Opened {
        /// The call's.
        tag: u64,
        /// How it went.
        result: Result<VolumeInfo, OpenError>,
    },
    /// Snapshots to compare with.
    Bases {
        /// The call's.
        tag: u64,
        /// Those that there are, or why they cannot be told.
        result: Result<Bases, OpenError>,
    },
    /// A piece of I/O has ended.
    Done {
        /// The call's.
        tag: u64,
        /// Writes and clears that succeed are durable.
        result: Result<(), IoError>,
        /// What a read or an allocation query found. A read's has exactly the length that was asked for.
        payload: Payload,
    },
    /// The volume is no longer served here (another gateway took it over, or it was deleted). I/O that is under way
    /// still ends, with errors.
    Lost {
        source: Source,
        /// Why, for people.
        why: String,
    },
    /// What became of [`StorageService::reserve`].
    Reserved {
        /// The call's.
        tag: u64,
        /// What is so now; or why nothing was changed.
        result: Result<reservation::State, reservation::Refusal>,
    },
    /// The protocol's register speaks: it answers, or tells something of itself.
    Register {
        /// The call's; 0 where it speaks of itself.
        tag: u64,
        /// What it says.
        reply: RegisterMessage,
    },
    /// Something was computed.
    Computed {
        /// The call's.
        tag: u64,
        /// `None`: it was not, so much else waits.
        result: Option<Computed>,
    },
    /// The settings of the cluster that concern hosts have changed.
    Settings,
    /// Whom the cluster's authority vouches for may have changed.
    Trust,
}

/// Why a volume was not opened (or the volumes not listed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no volume of that name, or no such snapshot of it.
    NotFound,
    /// It cannot be opened now, and may later: the text says why.
    Unavailable(String),
    /// It may not be opened: the text says why.
    Refused(String),
    /// The node is stopping.
    ShuttingDown,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound => f.write_str("there is no volume of that name here, or no such snapshot of it"),
            OpenError::Unavailable(why) => write!(f, "not available now, try again: {why}"),
            OpenError::Refused(why) => write!(f, "refused: {why}"),
            OpenError::ShuttingDown => f.write_str("this node is stopping"),
        }
    }
}

impl std::error::Error for OpenError {}
