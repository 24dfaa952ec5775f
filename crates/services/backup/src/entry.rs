//! What can happen to a vault: the entries of its journal.
//!
//! An entry's object is named by its number. Its body is the SHA-256 of the object of the entry before (32; zeros before the first), the
//! kind of entry (1), and what it says.

use crate::codec::{Cursor, Malformed, Writer};
use crate::pack::{Pack, PackName};
use crate::piece::{ID_BYTES, PieceId};
use crate::state::SessionId;
use crate::tree::{BRANCH_BYTES, MAX_VOLUME_BYTES};

/// The longest name of a volume, a point or a session, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 1024;
/// Volumes of a set.
pub(crate) const MAX_VOLUMES: usize = 1024;

/// Whose bytes they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The cluster's UUID.
    pub cluster: [u8; 16],
    /// The volume's UUID.
    pub volume: [u8; 16],
    /// What the volume was called.
    pub name: String,
}

/// A volume at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePoint {
    /// Which.
    pub identity: Identity,
    /// Its size: a multiple of 4096.
    pub bytes: u64,
    /// The snapshot that was read: the volume's generation, and the snapshot's number.
    pub snapshot: (u64, u64),
    /// It was encrypted at rest in its cluster: what is restored is to be, too.
    pub encrypted: bool,
    /// The point that changes were counted from. Nothing is read from it: it may be gone.
    pub parent: Option<u64>,
    /// One for each 64 GiB; `None` is zeros.
    pub(crate) branches: Vec<Option<PieceId>>,
}

/// Volumes, all at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// What it is called.
    pub name: String,
    /// When, in seconds since 1970, by the clock of who made it. Shown, and never decided by.
    pub time: i64,
    /// The volumes.
    pub volumes: Vec<VolumePoint>,
}

/// What happens to a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A session begins: the entry's number is its name from now on.
    Begin {
        /// What people know it by.
        label: String,
    },
    /// A session has put packs.
    Packs(Packs),
    /// A session has made a point: the entry's number is its name from now on.
    Point {
        /// Which session.
        session: SessionId,
        /// The point.
        point: Point,
    },
    /// A session goes on.
    Alive(SessionId),
    /// A session ends.
    End(SessionId),
    /// A session is taken for dead: nothing that it says from now on counts.
    Fence(SessionId),
    /// Points are given up.
    Forget(Vec<u64>),
    /// No point needs these packs, and no session that begins from now on builds on them.
    Condemn(Vec<PackName>),
    /// What was condemned is no part of the vault any more, but for these packs, which are needed.
    Sweep {
        /// They stay.
        kept: Vec<PackName>,
    },
    /// Objects of packs that were swept are deleted.
    Deleted(Vec<PackName>),
    /// These packs were found damaged or missing: nothing more builds on them, and other copies of their pieces are read first.
    Lost(Vec<PackName>),
}

/// Packs that a session has put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packs {
    pub(crate) session: SessionId,
    /// By their counts.
    pub(crate) packs: Vec<(u32, Pack)>,
}

/// What a volume was, in those bits of its size that a multiple of 4096 does not have.
const FACTS: u64 = crate::piece::BLOCK_BYTES as u64 - 1;
/// It was encrypted at rest.
const ENCRYPTED: u64 = 1;

const BEGIN: u8 = 1;
const PACKS: u8 = 2;
const POINT: u8 = 3;
const ALIVE: u8 = 4;
const END: u8 = 5;
const FENCE: u8 = 6;
const FORGET: u8 = 7;
const CONDEMN: u8 = 8;
const SWEEP: u8 = 9;
const DELETED: u8 = 10;
const LOST: u8 = 11;

pub(crate) fn write_names(names: &[PackName], writer: &mut Writer) {
    writer.number(names.len() as u64);
    names.iter().for_each(|name| name.encode(writer));
}

pub(crate) fn read_names<C: FromIterator<PackName>>(cursor: &mut Cursor) -> Result<C, Malformed> {
    let count = cursor.count(2)?;
    (0..count).map(|_| PackName::decode(cursor)).collect()
}

impl Point {
    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.bytes(self.name.as_bytes());
        writer.fixed(&self.time.to_le_bytes());
        writer.number(self.volumes.len() as u64);
        for volume in &self.volumes {
            writer.fixed(&volume.identity.cluster);
            writer.fixed(&volume.identity.volume);
            writer.bytes(volume.identity.name.as_bytes());
            writer.number(volume.bytes | if volume.encrypted { ENCRYPTED } else { 0 });
            writer.number(volume.snapshot.0);
            writer.number(volume.snapshot.1);
            // Points have numbers from 1 on.
            writer.number(volume.parent.unwrap_or(0));
            for branch in &volume.branches {
                writer.u8(branch.is_some().into());
                branch.iter().for_each(|branch| writer.fixed(&branch.0));
            }
        }
    }

    pub(crate) fn decode(cursor: &mut Cursor) -> Result<Point, Malformed> {
        let name = cursor.text(MAX_NAME_BYTES)?;
        let time = i64::from_le_bytes(cursor.array()?);
        let count = cursor.count(32)?;
        if count > MAX_VOLUMES {
            return Err(Malformed("a point has more volumes than it may"));
        }
        let mut volumes = Vec::with_capacity(count);
        for _ in 0..count {
            volumes.push(VolumePoint::decode(cursor)?);
        }
        Ok(Point { name, time, volumes })
    }
}

impl VolumePoint {
    fn decode(cursor: &mut Cursor) -> Result<VolumePoint, Malformed> {
        let identity = Identity {
            cluster: cursor.array()?,
            volume: cursor.array()?,
            name: cursor.text(MAX_NAME_BYTES)?,
        };
        let told = cursor.number()?;
        let (bytes, facts) = (told & !FACTS, told & FACTS);
        if bytes > MAX_VOLUME_BYTES || facts & !ENCRYPTED != 0 {
            return Err(Malformed(
                "a volume has a size that cannot be, or is what only a later version knows",
            ));
        }
        let snapshot = (cursor.number()?, cursor.number()?);
        let parent = Some(cursor.number()?).filter(|point| *point != 0);
        let mut branches = Vec::new();
        for _ in 0..bytes.div_ceil(BRANCH_BYTES) {
            branches.push(match cursor.u8()? {
                0 => None,
                1 => Some(PieceId(cursor.array::<ID_BYTES>()?)),
                _ => return Err(Malformed("a branch is neither there nor not there")),
            });
        }
        Ok(VolumePoint {
            identity,
            bytes,
            encrypted: facts & ENCRYPTED != 0,
            snapshot,
            parent,
            branches,
        })
    }
}

impl Entry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let session = |kind: u8, session: &SessionId, writer: &mut Writer| {
            writer.u8(kind);
            writer.number(session.0);
        };
        let names = |kind: u8, names: &[PackName], writer: &mut Writer| {
            writer.u8(kind);
            write_names(names, writer);
        };
        match self {
            Entry::Begin { label } => {
                writer.u8(BEGIN);
                writer.bytes(label.as_bytes());
            }
            Entry::Packs(put) => {
                session(PACKS, &put.session, &mut writer);
                writer.number(put.packs.len() as u64);
                for (count, pack) in &put.packs {
                    writer.number((*count).into());
                    pack.encode(&mut writer);
                }
            }
            Entry::Point { session: by, point } => {
                session(POINT, by, &mut writer);
                point.encode(&mut writer);
            }
            Entry::Alive(by) => session(ALIVE, by, &mut writer),
            Entry::End(by) => session(END, by, &mut writer),
            Entry::Fence(by) => session(FENCE, by, &mut writer),
            Entry::Forget(points) => {
                writer.u8(FORGET);
                writer.number(points.len() as u64);
                points.iter().for_each(|point| writer.number(*point));
            }
            Entry::Condemn(packs) => names(CONDEMN, packs, &mut writer),
            Entry::Sweep { kept } => names(SWEEP, kept, &mut writer),
            Entry::Deleted(packs) => names(DELETED, packs, &mut writer),
            Entry::Lost(packs) => names(LOST, packs, &mut writer),
        }
        writer.0
    }

    /// Reads one.
    ///
    /// # Errors
    /// What does not follow the format. Whether the vault's state allows it is another question.
    pub fn parse(bytes: &[u8]) -> Result<Entry, Malformed> {
        let mut cursor = Cursor(bytes);
        let kind = cursor.u8()?;
        let session = |cursor: &mut Cursor| cursor.number().map(SessionId);
        let entry = match kind {
            BEGIN => Entry::Begin {
                label: cursor.text(MAX_NAME_BYTES)?,
            },
            PACKS => {
                let session = session(&mut cursor)?;
                let count = cursor.count(32)?;
                let mut packs = Vec::with_capacity(count);
                for _ in 0..count {
                    packs.push((cursor.u32()?, Pack::decode(&mut cursor)?));
                }
                Entry::Packs(Packs { session, packs })
            }
            POINT => Entry::Point {
                session: session(&mut cursor)?,
                point: Point::decode(&mut cursor)?,
            },
            ALIVE => Entry::Alive(session(&mut cursor)?),
            END => Entry::End(session(&mut cursor)?),
            FENCE => Entry::Fence(session(&mut cursor)?),
            FORGET => {
                let count = cursor.count(1)?;
                Entry::Forget((0..count).map(|_| cursor.number()).collect::<Result<_, _>>()?)
            }
            CONDEMN => Entry::Condemn(read_names(&mut cursor)?),
            SWEEP => Entry::Sweep {
                kept: read_names(&mut cursor)?,
            },
            DELETED => Entry::Deleted(read_names(&mut cursor)?),
            LOST => Entry::Lost(read_names(&mut cursor)?),
            _ => return Err(Malformed("an entry is of no kind that there is")),
        };
        cursor.end()?;
        Ok(entry)
    }
}
