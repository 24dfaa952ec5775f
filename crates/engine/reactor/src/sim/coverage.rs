//! How often each fault was actually met: a fault that no run takes tests nothing.

use std::collections::BTreeMap;

macro_rules! faults {
    ($($variant:ident = $name:literal: $what:literal,)*) => {
        /// What can go wrong, one by one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault { $(#[doc = $what] $variant,)* }

        /// Names, in the order of the variants.
        const NAMES: &[&str] = &[$($name,)*];
    };
}

faults! {
    NodeKilled = "node.killed": "A process died.",
    NodePowerCut = "node.power_cut": "A host lost power.",
    NodeFrozen = "node.frozen": "A process was stopped for a time.",
    ClockStopped = "node.clock_stopped": "A process was stopped for a time that its clock did not count.",
    DiskReadError = "disk.read_error": "A read failed.",
    DiskWriteError = "disk.write_error": "A write failed, and nobody knows how much of it happened.",
    DiskFlushError = "disk.flush_error": "A flush failed, and writes before it are gone.",
    DiskGhost = "disk.ghost": "After a failed flush a write could still be read, and no flush made it durable.",
    DiskStalled = "disk.stalled": "An operation waited for a stalled disk.",
    DiskHung = "disk.hung": "An operation hung until somebody healed the disk.",
    DiskSlow = "disk.slow": "An operation took longer by the slow factor.",
    DiskBitFlipped = "disk.bit_flipped": "A bit rotted.",
    DiskMisdirected = "disk.misdirected_write": "A write went elsewhere and claimed success.",
    DiskLostWrite = "disk.lost_write": "A write did nothing and claimed success.",
    DiskNoSpace = "disk.no_space": "A write found no space, and a first part of it may be there.",
    DiskShortWrite = "disk.short_write": "A write ended short.",
    DiskDiscarded = "disk.discarded": "A discarded range became anything.",
    DiskDiscardError = "disk.discard_error": "A discard failed, and nobody knows whether it happened.",
    DiskReordered = "disk.reordered": "An operation completed before one that was started earlier.",
    CutKept = "cut.write_kept": "A power cut left a write that was not yet durable whole.",
    CutLost = "cut.write_lost": "A power cut took a write that was not yet durable.",
    CutTorn = "cut.write_torn": "A power cut left some sectors of a write.",
    CutInFlight = "cut.write_in_flight": "A power cut met a write that had not completed.",
    CutDiscard = "cut.discard_in_flight": "A power cut met a discard that had not taken effect.",
    CutJournal = "cut.journal_lost": "A power cut took all writes into holes and discards that no flush had followed.",
    CutFlush = "cut.flush_in_flight": "A power cut met a flush that had not completed.",
    KillKept = "kill.write_kept": "A write under way happened though its process died.",
    KillLost = "kill.write_lost": "A write under way did not happen because its process died.",
    KillPartial = "kill.write_partial": "Of a write under way a first part happened when its process died.",
    NetHeld = "net.held": "Bytes waited for a partition to heal.",
    NetAckHeld = "net.ack_held": "Bytes arrived, but the sender could not learn of it.",
    NetLost = "net.lost": "A segment, or what acknowledged one, was lost and sent again.",
    NetBroken = "net.timed_out": "A connection broke because nothing was acknowledged for too long.",
    NetReset = "net.reset": "A connection was reset from outside.",
    NetCutFrame = "net.cut_in_transit": "A reset took bytes that were under way.",
    NetResetByPeer = "net.reset_by_peer": "Bytes reached a host that does not know the connection (any more).",
    NetShortReceive = "net.short_receive": "A receive got fewer bytes than were there.",
    NetSmallPiece = "net.small_piece": "A send was cut into pieces that arrived apart.",
    NetWindowFull = "net.window_full": "A send waited for the receiver to take bytes.",
    NetRefused = "net.refused": "A connect met nobody.",
    NetConnectHeld = "net.connect_held": "A connect could not reach its host or hear from it.",
    NetConnectTimeout = "net.connect_timed_out": "A connect ended by its time-out.",
    NetUnreadClosed = "net.closed_unread": "A stream was closed with bytes unread, which resets it.",
}

/// Counts per fault.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    counts: Vec<u64>,
}

impl Coverage {
    pub fn new() -> Coverage {
        Coverage {
            counts: vec![0; NAMES.len()],
        }
    }

    pub fn count(&mut self, fault: Fault) {
        self.counts[fault as usize] += 1;
    }

    /// All names, those never taken too.
    pub fn report(&self) -> BTreeMap<&'static str, u64> {
        NAMES.iter().copied().zip(self.counts.iter().copied()).collect()
    }
}
