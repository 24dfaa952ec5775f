//! What hosts do with a volume, as one core sees it: how much, and how long it takes.

use amita_reactor::histogram::Histogram;
use amita_types::io::Op;
use std::time::Duration;

/// A kind of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    Read,
    Write,
    /// Blocks are unmapped.
    Clear,
    /// Questions for what is allocated.
    Allocation,
}

impl IoKind {
    pub const ALL: [IoKind; 4] = [IoKind::Read, IoKind::Write, IoKind::Clear, IoKind::Allocation];

    /// The kind of an I/O.
    #[must_use]
    pub fn of(op: &Op) -> IoKind {
        match op {
            Op::Read { .. } => IoKind::Read,
            Op::Write { .. } | Op::CompareAndWrite { .. } => IoKind::Write,
            Op::Clear { .. } => IoKind::Clear,
            Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => IoKind::Allocation,
        }
    }

    /// Its name, in metrics and to people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IoKind::Read => "read",
            IoKind::Write => "write",
            IoKind::Clear => "clear",
            IoKind::Allocation => "allocation",
        }
    }
}

/// What was done of one kind.
#[derive(Clone, Debug, Default)]
pub struct KindUsage {
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// How long they took, from the last byte that came in to the answer's way to the front; all of them.
    pub latency: Histogram,
}

/// What was done with a volume.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    kinds: [KindUsage; IoKind::ALL.len()],
}

impl Usage {
    /// An I/O has ended.
    #[inline]
    pub fn count(&mut self, op: &Op, took: Duration, ok: bool) {
        let kind = &mut self.kinds[IoKind::of(op) as usize];
        kind.latency.record(took);
        if ok {
            kind.bytes += op.length();
        } else {
            kind.errors += 1;
        }
    }

    pub fn each(&self) -> impl Iterator<Item = (IoKind, &KindUsage)> {
        IoKind::ALL.into_iter().zip(&self.kinds)
    }

    /// Adds what another core has counted.
    pub fn add(&mut self, other: &Usage) {
        for (own, more) in self.kinds.iter_mut().zip(&other.kinds) {
            own.bytes += more.bytes;
            own.errors += more.errors;
            own.latency.add(&more.latency);
        }
    }
}
