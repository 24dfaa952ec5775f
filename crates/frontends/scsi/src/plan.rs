//! What is to be done for a command.
//!
//! [`plan()`] is given a task; what it returns is either the [answer](Plan::Answer) or says what comes before that. What it takes from the
//! host and what it sends there is told by [`Plan::lengths`] before a byte moves. The transport knows what it is to move, and tells the
//! [`Residual`]; what it is to bring less of than the command takes is its to shorten or to refuse. Afterwards:
//!
//! * [`Plan::Gather`]: [`gathered`] is given the parameter list, and returns the next plan (which takes nothing more from the host).
//! * [`Plan::Io`]: it is carried out as [`Work`] says; all of it went well: [`Answer::good`]; something failed: [`failed`].
//! * [`Plan::Reserve`]: the service is asked; [`reserved`](crate::persistent::reserved) is given what it said.
//! * [`Plan::Blocks`]: the allocation of chunk after chunk is asked for until [`LbaStatus`] has enough.
//! * [`Plan::Copy`]: pieces are read and written; [`copied`](crate::copy::copied) is given how it went.
//! * [`Plan::Token`]: [`begun`](crate::token::begun) is told the time, and says what is to be copied, or only read.
//! * [`Plan::Move`]: a volume is to be moved to another gateway; [`moved`](crate::access::moved) is told whether somebody will see to it.
//! * [`Plan::Ask`]: the volume's owner is asked whether it is reserved so that the command is refused; where it is not, [`asked`] returns the next plan.

use crate::command::{Cdb, Lengths, Lun, Task};
use crate::copy::CopyRest;
use crate::lba_status::LbaStatus;
use crate::nexus::Nexus;
use crate::persistent::{Reservation, Reserving};
use crate::sense::{Key, Sense, Status, code};
use crate::token::TokenWork;
use crate::unit::{Catalog, Target, Unit};
use amita_frontend::reservation::Access;
use amita_frontend::{HostKey, Source};
use amita_types::VolumeId;
use amita_types::io::IoError;

/// The longest READ, WRITE, VERIFY or the like, in blocks: MAXIMUM TRANSFER LENGTH of the block limits page. None of it is held as a whole.
/// (ESXi sends up to 32 MiB at once where it may.)
pub const MAX_TRANSFER_BLOCKS: u64 = 1 << 16;
/// The longest ORWRITE, in bytes: that one is held as a whole, as far as transports have room for such.
pub const MAX_OR_BYTES: u64 = 2 << 20;
/// What a host had best ask for at once: OPTIMAL TRANSFER LENGTH.
pub const OPTIMAL_TRANSFER_BYTES: u64 = 128 << 10;
/// The longest COMPARE AND WRITE, in bytes: what the volume compares and writes as one.
pub const MAX_COMPARE_BYTES: u64 = 64 << 10;
/// The longest WRITE ATOMIC, in bytes, and the largest boundary between what is written as one.
pub const MAX_ATOMIC_BYTES: u64 = 128 << 10;
/// What any WRITE ATOMIC is aligned to and a multiple of: one of this length is written as one wherever it is (ATOMIC ALIGNMENT, ATOMIC
/// TRANSFER LENGTH GRANULARITY and MAXIMUM ATOMIC TRANSFER LENGTH alike, since no other alignment keeps all lengths inside one chunk). It is
/// the page of databases that ask for such writes.
pub const ATOMIC_UNIT_BYTES: u64 = 16 << 10;
/// The most block descriptors of one UNMAP: MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
pub const MAX_UNMAP_DESCRIPTORS: u32 = 256;
/// The longest parameter list that any command takes.
pub const MAX_LIST_BYTES: u32 = 64 << 10;

/// What is to be done for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Plan {
    /// It has ended.
    Answer(Answer),
    /// A parameter list is to come.
    Gather {
        /// How long it is: more than nothing, at most [`MAX_LIST_BYTES`].
        bytes: u32,
        /// For [`gathered`].
        then: Gathering,
    },
    /// I/O on one logical unit.
    Io(Io),
    /// The volume's reservations are looked at or changed.
    Reserve {
        volume: VolumeId,
        /// Who asks: the nexus.
        host: HostKey,
        command: Reservation,
        /// For [`reserved`](crate::persistent::reserved).
        then: Reserving,
    },
    /// Which blocks are mapped.
    Blocks(LbaStatus),
    /// Ranges are copied, one after the other.
    Copy {
        segments: Vec<Segment>,
        /// For [`copied`](crate::copy::copied).
        then: CopyRest,
    },
    /// Something is to be done with a token.
    Token(Box<TokenWork>),
    /// The volume is to be moved to the gateway with that tag, if it is not there; moved or not, the next catalog tells it.
    Move { volume: VolumeId, group: u16 },
    /// A reservation refuses the command, as far as this gateway has heard. Its owner is asked, by I/O of that access that moves nothing: it goes well:
    /// [`asked`]; it fails: [`failed`].
    Ask(Asking),
}

impl Plan {
    /// What the command takes from the host and sends there if all goes well: a GET LBA STATUS, a reservation and a token may send less.
    #[must_use]
    pub fn lengths(&self) -> Lengths {
        match self {
            Plan::Answer(answer) => Lengths {
                out: 0,
                into: answer.data.len() as u64,
            },
            Plan::Gather { bytes, .. } => Lengths {
                out: u64::from(*bytes),
                into: 0,
            },
            Plan::Io(io) => io.lengths(),
            Plan::Reserve { .. }
            | Plan::Blocks(_)
            | Plan::Copy { .. }
            | Plan::Token(_)
            | Plan::Move { .. }
            | Plan::Ask(_) => Lengths::default(),
        }
    }
}

/// A command whose parameter list, or leave, is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    pub(crate) lun: Lun,
    pub(crate) cdb: Cdb,
}

/// A command that a volume's owner has to let pass. It has all that it takes of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The logical unit that may be reserved.
    pub place: Place,
    /// What the command does there, as reservations see it.
    pub access: Access,
    pub(crate) then: Gathering,
    /// Its parameter list, if it has one.
    pub(crate) list: Option<Vec<u8>>,
}

/// What is to be done for a task of that nexus. It is called once for each, in the order in which they were sent: what is pending for the host is
/// told to the first.
pub fn plan(task: &Task<'_>, catalog: &Catalog, target: &Target, nexus: &mut Nexus) -> Plan {
    crate::device::plan(task, catalog, target, nexus)
}

/// What is to be done now that the parameter list is here. It takes nothing more from the host.
pub fn gathered(then: &Gathering, list: &[u8], catalog: &Catalog, target: &Target, nexus: &mut Nexus) -> Plan {
    crate::device::gathered(then, list, catalog, target, nexus)
}

/// What is to be done now that the owner lets the command pass. It takes nothing more from the host.
pub fn asked(then: &Asking, catalog: &Catalog, target: &Target, nexus: &mut Nexus) -> Plan {
    crate::device::asked(then, catalog, target, nexus)
}

impl From<Answer> for Plan {
    fn from(answer: Answer) -> Plan {
        Plan::Answer(answer)
    }
}

impl From<Sense> for Plan {
    fn from(sense: Sense) -> Plan {
        Plan::Answer(Answer::check(sense))
    }
}

/// A part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub from: Place,
    /// The first byte there.
    pub from_offset: u64,
    pub to: Place,
    /// The first byte there.
    pub to_offset: u64,
    /// How many bytes. What is written is never read by the same segment.
    pub length: u64,
    /// Which byte it begins with of what a token represents, where what is read is to be [summed](CopyRest::summer): such a segment lies in one
    /// section.
    pub summed_at: Option<u64>,
    /// Is it zeros that are written? Nothing is read then, and `from` is where they go.
    pub is_zero: bool,
    /// Is it written? Else it is only summed.
    pub is_written: bool,
}

/// What the host expected to be moved, and was not, or the other way round (SAM-5, "Data transfer"; RFC 7143, 11.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// Just what was expected.
    #[default]
    None,
    /// So many bytes fewer than were expected.
    Underflow(u64),
    /// So many bytes more would have been moved.
    Overflow(u64),
}

impl Residual {
    /// Of what was expected, and what the command moves or would move.
    #[must_use]
    pub fn of(expected: u64, wanted: u64) -> Residual {
        match expected.cmp(&wanted) {
            std::cmp::Ordering::Equal => Residual::None,
            std::cmp::Ordering::Greater => Residual::Underflow(expected - wanted),
            std::cmp::Ordering::Less => Residual::Overflow(wanted - expected),
        }
    }
}

/// Bytes of a logical unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The first byte.
    pub offset: u64,
    /// How many; may be none.
    pub length: u64,
}

impl Extent {
    /// The byte after the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Have both a byte?
    #[must_use]
    pub fn overlaps(&self, other: &Extent) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub source: Source,
    /// The logical unit's, which stays the same when its volume moves; zeros where only the rest is known.
    pub uuid: [u8; 16],
    pub chunk_bytes: u32,
    pub block_bytes: u32,
}

impl Place {
    /// A logical unit's.
    #[must_use]
    pub fn of(unit: &Unit) -> Place {
        Place {
            source: unit.source(),
            uuid: unit.uuid,
            chunk_bytes: unit.chunk_bytes,
            block_bytes: unit.block_bytes,
        }
    }

    /// Is it still that logical unit's? A volume that has moved to another pool has another number, and is the same disk to its hosts.
    #[must_use]
    pub fn is_still_of(&self, unit: &Unit) -> bool {
        let now = unit.source();
        let is_known = self.source == now || (self.uuid, self.source.snapshot) == (unit.uuid, now.snapshot);
        is_known && self.block_bytes == unit.block_bytes
    }
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    pub sense: Option<Sense>,
    /// Data-in, already as short as the allocation length; the transport cuts it to what it expects.
    pub data: Vec<u8>,
}

impl Answer {
    /// It worked, and nothing goes back.
    #[must_use]
    pub fn good() -> Answer {
        Answer::of(Status::Good)
    }

    /// A status without sense data.
    #[must_use]
    pub fn of(status: Status) -> Answer {
        Answer {
            status,
            sense: None,
            data: Vec::new(),
        }
    }

    /// It worked: of `data` the first `allocation` bytes go back.
    #[must_use]
    pub fn with_data(mut data: Vec<u8>, allocation: u64) -> Answer {
        data.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
        Answer { data, ..Answer::good() }
    }

    /// CHECK CONDITION.
    #[must_use]
    pub fn check(sense: Sense) -> Answer {
        Answer {
            sense: Some(sense),
            ..Answer::of(Status::CheckCondition)
        }
    }
}

impl From<Sense> for Answer {
    fn from(sense: Sense) -> Answer {
        Answer::check(sense)
    }
}

/// What a VERIFY, or the second half of a WRITE AND VERIFY, looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every block can be read.
    Readable,
    /// The blocks are those of data-out.
    Same,
    /// Every block is the one of data-out.
    SameBlock,
}

/// I/O on one logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    pub place: Place,
    pub work: Work,
}

impl Io {
    /// What is taken from the host, and sent there.
    #[must_use]
    pub fn lengths(&self) -> Lengths {
        let block = u64::from(self.place.block_bytes);
        let out = match &self.work {
            Work::Write(extent)
            | Work::WriteAtomic { extent, .. }
            | Work::WriteAndCheck(extent, _)
            | Work::Or(extent) => extent.length,
            Work::Check(extent, Check::Same) => extent.length,
            Work::Check(extent, Check::SameBlock) if extent.length > 0 => block,
            Work::CompareAndWrite(extent) => 2 * extent.length,
            Work::Read(_) | Work::Check(..) | Work::Zero(_) | Work::Fill(..) | Work::Touch => 0,
        };
        let into = match &self.work {
            Work::Read(extent) => extent.length,
            _ => 0,
        };
        Lengths { out, into }
    }
}

/// What is done. An extent of no bytes is done at once, but for what reservations say to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Read it to data-in.
    Read(Extent),
    /// Write data-out to it.
    Write(Extent),
    /// Write data-out to it, as one piece of I/O between two multiples of `boundary_bytes` each, which [`atoms`] gives: none crosses
    /// from one chunk into the next, or is longer than [`MAX_ATOMIC_BYTES`].
    WriteAtomic { extent: Extent, boundary_bytes: u64 },
    /// Write data-out to it, and then read it back.
    WriteAndCheck(Extent, Check),
    /// Read it, and send nothing. `Same` takes as many bytes of data-out, `SameBlock` one block.
    Check(Extent, Check),
    /// Compare it with the first half of data-out; where all are the same, write the second half; as one
    /// ([`amita_types::io::Op::CompareAndWrite`]): the extent lies in one chunk and is at most [`MAX_COMPARE_BYTES`] long.
    CompareAndWrite(Extent),
    /// Or data-out into it: what is there is read, and the result written by compare and write, again when somebody was faster.
    Or(Extent),
    /// Make them read as zeros: whole blocks of 4 KiB are unmapped, parts of blocks written
    /// ([`amita_frontend::pieces::zeroes`] with holes).
    Zero(Vec<Extent>),
    /// Write this block to it, again and again.
    Fill(Extent, Vec<u8>),
    /// Nothing, but by way of the volume's owner, who says whether this host may write
    /// ([`amita_types::io::Op::Clear`] of no bytes): SYNCHRONIZE CACHE.
    Touch,
}

/// The pieces of a WRITE ATOMIC, each of which is written as one: cut at the multiples of the boundary.
pub fn atoms(extent: Extent, boundary_bytes: u64) -> impl Iterator<Item = Extent> {
    let mut offset = extent.offset;
    std::iter::from_fn(move || {
        if offset >= extent.end() {
            return None;
        }
        let cut = match boundary_bytes {
            0 => extent.end(),
            boundary => (offset / boundary + 1).saturating_mul(boundary).min(extent.end()),
        };
        let atom = Extent {
            offset,
            length: cut - offset,
        };
        offset = cut;
        Some(atom)
    })
}

/// The answer to I/O that has failed; `at`: the byte of the volume where, if that is known.
#[must_use]
pub fn failed(place: &Place, error: IoError, at: Option<u64>) -> Answer {
    let (key, code) = match error {
        IoError::Reserved => return Answer::of(Status::ReservationConflict),
        // The host waits a moment and asks again.
        IoError::Busy => return Answer::of(Status::Busy),
        IoError::Miscompare => return miscompare(None),
        IoError::OutOfRange => (Key::IllegalRequest, code::LBA_OUT_OF_RANGE),
        // SBC-3, "Resource exhaustion considerations": by this code ESXi pauses a virtual machine instead of failing its I/O.
        IoError::NoSpace => (Key::DataProtect, code::SPACE_ALLOCATION_FAILED),
        IoError::ReadOnly => (Key::DataProtect, code::WRITE_PROTECTED),
        // It is being moved, or cannot be reached by way of this gateway now: by another path, or by this one in a moment, it works. Nothing else
        // would do: an error of the hardware is the disk's own, and no multipath software tries it again.
        IoError::Lost | IoError::Unavailable => (Key::NotReady, code::ASYMMETRIC_ACCESS_TRANSITION),
        // No path leads further, and nothing is to be kept for later: a sense key that every host takes as the last word, for reads as for writes.
        IoError::Closed => (Key::DataProtect, code::ACCESS_DENIED_NO_RIGHTS),
        IoError::Damaged => (Key::MediumError, code::UNRECOVERED_READ_ERROR),
        _ => (Key::HardwareError, code::INTERNAL_TARGET_FAILURE),
    };
    let mut sense = Sense::new(key, code);
    if matches!(error, IoError::OutOfRange | IoError::Damaged | IoError::NoSpace) {
        sense.information = at.map(|at| at / u64::from(place.block_bytes));
    }
    sense.into()
}

/// The answer to a comparison that has failed; `at`: the byte of data-out that differs first, if it is known (SBC-3, "COMPARE AND WRITE command":
/// INFORMATION).
#[must_use]
pub fn miscompare(at: Option<u64>) -> Answer {
    let mut sense = Sense::new(Key::Miscompare, code::MISCOMPARE_DURING_VERIFY);
    sense.information = at;
    sense.into()
}

#[cfg(test)]
mod tests;
