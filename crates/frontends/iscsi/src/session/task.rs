//! A task under way, beside what the engine knows of it.

use super::work::copy::{Begun, Map, Piece, Progress};
use amita_frontend::pieces::piece_end;
use amita_frontend::slots::SlotId;
use amita_reactor::{BufMut, Slice, Time};
use amita_scsi::command::{Lengths, Lun};
use amita_scsi::plan::{Answer, Check, Gathering, Io, Segment};
use amita_scsi::{Sum, Summer};
use amita_types::MAX_IO_BYTES;
use amita_types::io::IoError;
use std::cell::Cell;
use std::collections::VecDeque;

/// How a task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The volume says so.
    Volume(IoError),
    /// Data is not what it was compared with.
    Different,
    /// What was moved over the network was not what should have been: an additional sense code and its qualifier, for ABORTED
    /// COMMAND (11.4.7.2).
    Transport(u8, u8),
    /// Memory is short.
    Memory,
    /// Its logical unit is not there any more.
    Gone,
    /// It was ended by a reset that came by another session: the host is told so, and repeats it (TAS of the control mode page).
    Cleared,
    /// It was ended by task management, or with its session: nobody is answered.
    Aborted,
}

/// What needs its data as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// A parameter list.
    List(Gathering),
    /// The block that many are compared with.
    Block,
    /// What is compared, and then written.
    CompareAndWrite,
    Or,
}

/// What a task does, and how far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// It waits for somebody's answer, or for pieces that are under way.
    #[default]
    Wait,
    /// It has its answer, and waits for data that the initiator sends unasked.
    Drain,
    /// Data goes to the host.
    Read,
    /// Data is read, and nobody gets it.
    Check,
    /// Data of the host is written as it comes; and read back then, if it is to be.
    Write { check: Option<Check> },
    /// Data of the host is compared as it comes.
    Compare,
    /// Data of the host is put together.
    Gather(Whole),
    /// The one piece of a COMPARE AND WRITE.
    CompareAndWrite,
    /// Pieces are read, and written with what the host has sent: those before `next` are begun.
    Or { next: u64 },
    /// Extents read as zeros: those before `next` are begun.
    Zero { next: usize },
    /// A block is written again and again: what is before this byte of the extent is begun.
    Fill { next: u64 },
    /// Which blocks are mapped.
    Blocks,
    /// The owner of a volume is asked whether the command may be given.
    Ask,
    /// Ranges are copied.
    Copy(Progress),
    /// A piece of them.
    CopyPiece(Piece),
}

/// An R2T that is not answered to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub tag: u32,
    /// Where its data ends, in the task's.
    pub end: u32,
    /// The DataSN of the next PDU.
    pub data_sn: u32,
}

/// Data that comes from the host.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// How much the task takes.
    pub end: u32,
    /// How much has come.
    pub received: u32,
    /// How much was asked for, or comes unasked.
    pub asked: u32,
    /// R2Ts that are outstanding, in order.
    pub open: VecDeque<Asked>,
    /// The number of the next R2T.
    pub r2t_sn: u32,
    /// Unasked data is still to come: until the PDU that says to be the last. The DataSN of the next one.
    pub unasked: Option<u32>,
    /// Where what is not submitted begins, in the volume.
    pub at: u64,
    /// A piece that is not here as a whole, and how much of it is.
    pub buffer: BufMut,
    pub filled: usize,
}

impl Incoming {
    fn clear(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        open.clear();
        *self = Incoming {
            open,
            ..Incoming::default()
        };
    }
}

/// Data that goes to the host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outgoing {
    /// How much has gone.
    pub sent: u32,
    /// The number of the next PDU.
    pub data_sn: u32,
    /// How much of the present sequence has gone.
    pub burst: u32,
}

/// A task.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// Counts the tasks of the session.
    pub serial: u64,
    pub tag: u32,
    pub lun: Lun,
    /// Does it not count against the window?
    pub is_immediate: bool,
    /// Do all later ones wait for it?
    pub is_ordered: bool,
    /// Does the initiator expect to send?
    pub writes: bool,
    /// When it came.
    pub since: Time,
    pub expected: Lengths,
    /// What it moves, or would move.
    pub wanted: Lengths,
    pub work: Work,
    /// What is done, where it is I/O.
    pub io: Option<Io>,
    /// What is asked of somebody else.
    pub then: Option<Box<Then>>,
    pub answer: Option<Answer>,
    pub incoming: Incoming,
    pub outgoing: Outgoing,
    /// Data that is here as a whole.
    pub whole: Slice,
    /// Bytes that it has of the room for such.
    pub gathers: usize,
    pub segments: Vec<Segment>,
    /// Pieces of a copy that are begun, in order.
    pub pieces: VecDeque<Begun>,
    /// Which blocks the chunks have that a copy reads next.
    pub maps: VecDeque<Map>,
    /// Is it one of the copies that are counted?
    pub is_copy: bool,
    /// What is read of a copy by token is summed by this, by section; of a piece, the sum and the section.
    pub summer: Option<Summer>,
    pub sums: Vec<Sum>,
    pub sum: Option<(usize, Sum)>,
    /// Does the host know already that it has ended well?
    pub is_told: bool,
    /// Does it not count against the window any more?
    pub has_left_window: bool,
    /// The task whose first data this one writes; and the one that writes this one's, while more of it may come.
    pub parent: Option<SlotId>,
    pub child: Option<SlotId>,
    /// A piece has not found what it was compared with; looked at where that is found out, and then nowhere else.
    pub missed: Cell<bool>,
}

/// What comes after somebody else's answer.
#[derive(Debug)]
pub(crate) enum Then {
    Reserve(amita_scsi::Reserving),
    Blocks(amita_scsi::LbaStatus),
    Copy(amita_scsi::CopyRest),
    Move,
    Ask(amita_scsi::Asking),
}

impl Task {
    /// Gives back what it refers to; its memory stays for the next task of the slot.
    pub fn clear(&mut self) {
        let mut incoming = std::mem::take(&mut self.incoming);
        incoming.clear();
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let mut maps = std::mem::take(&mut self.maps);
        maps.clear();
        *self = Task {
            incoming,
            segments,
            pieces,
            maps,
            ..Task::default()
        };
    }
}

/// What is written as one, and the boundary that no such write crosses: all I/O is cut at the multiples of this, so that no long
/// read sees half of what is atomic.
pub(crate) fn atom_bytes(chunk_bytes: u32) -> u32 {
    chunk_bytes.min(MAX_IO_BYTES)
}

/// Where the piece of a write ends that begins at `offset` of the volume.
pub(crate) fn cut(io: &Io, offset: u64, end: u64) -> u64 {
    use amita_scsi::plan::Work;
    match io.work {
        Work::WriteAtomic { extent, boundary_bytes } => match boundary_bytes {
            0 => extent.end(),
            boundary => (offset / boundary + 1).saturating_mul(boundary).min(end),
        },
        _ => piece_end(offset, end, atom_bytes(io.place.chunk_bytes)),
    }
}
