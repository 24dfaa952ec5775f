//! The rules of the store that can be switched off, and what it then does wrong.

use crate::fences::Fences;
use crate::format::record::Mark;
use crate::store::Question;
use amita_types::Version;
use amita_types::message::{Refusal, Scope};
use std::sync::Arc;

amita_reactor::fault_switches! {
    /// R1: a write is applied onto any predecessor.
    AnyPredecessor,
    /// R4: a newer generation does not wait for the lease of the old owner, nor after a start.
    NoLeaseWait,
    /// R6: a fence is answered at once, what was accepted under the older generation still under way.
    NoDrain,
    /// R7: what an ended account had in flight is granted to others at once.
    GrantsEndAtOnce,
    /// R8: a resend is answered at once, before the original is durable.
    ResendAtOnce,
    /// D1: a freed slot is reused at once.
    ReuseAtOnce,
    /// D2: a batch is answered when it is durable itself, whatever was logged before it.
    AnswersOutOfOrder,
    /// D2: replay does not check that a page names its predecessor's checksum and a known mount.
    ChainUnchecked,
    /// D4: the first bad log page is taken for the end of the log, whatever follows it.
    EndAtFirstBad,
    /// D4: a page that cannot be read is taken for one that was never written whole.
    UnreadableIsTorn,
    /// R6: fences wait for room, like everything else.
    FenceWaitsForRoom,
    /// R6: parts of roll-forwards that came by different links are taken for one.
    RollsOfAnyLink,
    /// D6: a slot that a read is under way on may be reused.
    NoPin,
    /// S12: a slot whose content is being replaced may be given to something else.
    RestoreUnpinned,
    /// D6: a slot that is being discarded may be written.
    DiscardUnpinned,
    /// A read's data is not checked against the index.
    SumUnchecked,
    /// Replay accepts a record whose data is not whole.
    ReplayUnverified,
    /// A fence is answered without having been logged.
    FenceNotPersisted,
    /// R2: an older epoch is served.
    OldEpochLetIn,
    /// R6: an older generation is served.
    OldOwnerLetIn,
    /// R4: after a start a newer generation need not wait for leases that were granted before it.
    LeaseForgotten,
    /// A change is answered when it is accepted.
    AnswerAtOnce,
    /// D1: the mark covers what is not durable.
    MarkEverything,
    /// D3: what is written into a hole of a file is not flushed.
    HolesUnflushed,
    /// D5: a checkpoint counts before it is durable.
    CheckpointUnflushed,
    /// D5: replay leaves the map of slots as the checkpoint has it.
    FreeMapStale,
    /// D7: what a sub-block write is merged with is not checked, and gets a fresh checksum.
    FreshSum,
    /// R5: a store that is being brought up to date, or whose copy of a chunk is incomplete, serves what it has.
    ServesSyncing,
    /// R5: what is pulled or repaired replaces whatever entry is there.
    MendsAnything,
    /// S6: a chunk is whole with its head alone.
    WholeWithoutStates,
    /// S9: what a list does not name is gone, though the list does not speak of it.
    TrimUnlisted,
    /// S9: a state goes with the newest of the snapshots that it stands for.
    TrimOfMany,
    /// S9: a state that goes leaves no mark, though one is wanted of it.
    LeavesNoMark,
    /// S9: a mark stays when nobody wants it any more.
    KeepsMarks,
    /// S5: a mark has the version that the chunk has now.
    MarksTooNew,
    /// D5: some slots that were given back are nobody's until the next mount. No host ever sees that.
    LosesSlots,
    /// S5: what was unmapped since a snapshot is not told as changed.
    ForgetsCleared,
    /// What a snapshot shares with the newest one alone is counted as its own.
    ForgetsNeighbour,
    /// S8: the chunk of a clone is made without the entries of its parent.
    ClonesNothing,
    /// R13: chunks that nothing needs are dropped though nothing durable says why.
    DropUnfenced,
    /// R13: chunks are dropped on the word of an epoch that the store has gone beyond.
    DropRelisted,
    /// R13: a chunk that is on its way out is there as long as it is.
    GoingIsThere,
    /// R14: whoever knows a volume's generation and its group's epoch is heard as its owner.
    AnyAsker,
}

/// The newest snapshot of each volume is forgotten, where that is switched on.
pub(crate) fn without_newest(faults: Faults, question: &Arc<Question>) -> Arc<Question> {
    if !faults.has(Fault::ForgetsNeighbour) {
        return Arc::clone(question);
    }
    let volumes = question.volumes.iter().map(|asked| {
        let mut asked = asked.clone();
        asked.live.pop();
        asked
    });
    Arc::new(Question {
        volumes: volumes.collect(),
        ..question.as_ref().clone()
    })
}

/// An older epoch or an older generation is taken for the present one, where that is switched on.
pub(crate) fn let_in(faults: Faults, fences: &Fences, mut scope: Scope) -> Scope {
    if faults.has(Fault::OldEpochLetIn)
        && let Err(Refusal::StaleEpoch { epoch }) = fences.check(&scope)
    {
        scope.epoch = epoch;
    }
    if faults.has(Fault::OldOwnerLetIn)
        && let Err(Refusal::Fenced { generation }) = fences.check(&scope)
    {
        scope.generation = generation;
    }
    scope
}

/// What is left of a state that goes, or is not, where that is switched on.
pub(crate) fn marked(faults: Faults, mark: Option<Mark>, now: Version) -> Option<Mark> {
    let version = |mark: Mark| match faults.has(Fault::MarksTooNew) {
        true => now,
        false => mark.version,
    };
    mark.filter(|_| !faults.has(Fault::LeavesNoMark)).map(|mark| Mark {
        version: version(mark),
        ..mark
    })
}
