//! Rules of the coordinator, and of mirrors, that the simulator switches off.

amita_reactor::fault_switches! {
    /// R10: a node whose network is sick is isolated, whatever copies its groups have without it.
    IsolateTheNeeded,
    /// A node that was isolated stays away, however well it is.
    NeverBack,
    /// Nodes are isolated by policies that isolate nobody.
    IsolateByAnyPolicy,
    /// T1: the far end is at a point when some of its volumes have it.
    ArriveInParts,
    /// T2: who is promoted within a pass is that as it is.
    PromoteAsItIs,
    /// T3: a pass compares with the point of the pass that was begun.
    CompareWithBegun,
    /// T4: a point is noted when its snapshots are asked for, before any store has adopted the generation.
    NoteUnadopted,
    /// T5: the last point is cut while owners of before may acknowledge.
    HandOverOpen,
    /// A pass makes a volume smaller, and clears nothing of what it cuts off.
    CutOffUncleared,
}

/// The steps of mirrors are taken by whoever calls them, on a thread of their own: what is switched off of them is switched off for a thread.
#[cfg(any(test, feature = "planted"))]
mod here {
    use super::{Fault, Faults};
    use std::cell::Cell;

    thread_local! {
        static HERE: Cell<Faults> = const { Cell::new(Faults::NONE) };
    }

    /// Switches these rules of mirrors off, for what this thread does from now on.
    pub fn plant_here(faults: Faults) {
        HERE.set(faults);
    }

    pub fn is_off(fault: Fault) -> bool {
        HERE.get().has(fault)
    }
}

#[cfg(any(test, feature = "planted"))]
pub(crate) use here::is_off;
#[cfg(any(test, feature = "planted"))]
pub use here::plant_here;

/// Is the rule switched off, for this thread? Never.
#[cfg(not(any(test, feature = "planted")))]
#[inline(always)]
pub(crate) const fn is_off(_: Fault) -> bool {
    false
}
