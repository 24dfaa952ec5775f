//! How large a model is, how it begins, and which rules it obeys.

/// What is written: a chunk, a block of it, and which of the block's two sectors (a mask).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub chunk: usize,
    /// The block of the chunk.
    pub block: usize,
    /// The sectors of the block: 0b11 is a whole block.
    pub sectors: u8,
}

/// A write of an owner that was there before the model begins (generation 0).
#[derive(Clone, Copy, Debug)]
pub struct Past {
    /// What it wrote, an index of [`Size::kinds`].
    pub kind: usize,
    /// Whether the stores in sync have it. Then it counts as acknowledged.
    pub inside: bool,
    /// Whether the stores that are out have it.
    pub outside: bool,
}

/// How a model begins: the first owners have their volumes open, and some stores are not members.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Stores that are neither in sync nor syncing.
    pub out: usize,
    /// What was written before.
    pub past: Vec<Past>,
}

/// The bounds within which everything is tried.
#[derive(Clone, Debug)]
pub struct Size {
    /// Stores, at most [`crate::state::STORES`].
    pub stores: usize,
    /// Volumes, at most [`crate::state::VOLUMES`]; chunk `i` belongs to volume `i % volumes`.
    pub volumes: usize,
    /// Chunks of the one group.
    pub chunks: usize,
    /// Generations of each volume: one owner each.
    pub generations: usize,
    /// What may be written.
    pub kinds: Vec<Kind>,
    /// Writes in all, the past's included, at most [`crate::state::WRITES`].
    pub writes: usize,
    /// Most unacknowledged writes of a chunk (64 in the product).
    pub window: u8,
    /// The least number of stores in sync.
    pub min_copies: usize,
    /// How often a store is evicted or dropped, at most.
    pub evictions: u8,
    /// How often a store is added as a syncing one, at most.
    pub additions: u8,
    /// How often a store starts anew, at most.
    pub crashes: u8,
    /// How often a link breaks by itself, at most.
    pub resets: u8,
    /// How often a read is asked for, at most.
    pub reads: u8,
    /// How often somebody compares and writes, at most.
    pub compares: u8,
    /// Whether requests to read and fences take time on their way to a store. (Answers always do: whoever acts on one
    /// stands still.)
    pub travel: bool,
    /// How often a disk loses the newest write that it had called durable, at most.
    pub lies: u8,
    /// How many blocks rot, at most.
    pub rots: u8,
    /// Whether what a store has accepted becomes durable by a step of its own. If not, it is durable at once.
    pub volatile: bool,
    /// Whether a link delivers in order.
    pub ordered: bool,
    /// Whether one store is silent for good: nothing reaches it.
    pub silent: bool,
    /// Whether the coordinator evicts.
    pub coordinator: bool,
    /// Whether sequencers evict.
    pub sequencers_evict: bool,
    /// How it begins.
    pub starts: Vec<Start>,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            stores: 3,
            volumes: 1,
            chunks: 1,
            generations: 2,
            kinds: vec![
                Kind {
                    chunk: 0,
                    block: 0,
                    sectors: 0b11,
                },
                Kind {
                    chunk: 0,
                    block: 1,
                    sectors: 0b11,
                },
            ],
            writes: 2,
            window: 1,
            min_copies: 1,
            evictions: 0,
            additions: 0,
            crashes: 0,
            resets: 0,
            reads: 0,
            lies: 0,
            rots: 0,
            compares: 0,
            travel: false,
            volatile: false,
            ordered: true,
            silent: false,
            coordinator: true,
            sequencers_evict: false,
            starts: vec![Start::default()],
        }
    }
}

/// What can be switched off. Each is a rule of `docs/protocol.md`, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// R1: a store applies a write only onto exactly its predecessor.
    Predecessor,
    /// R1: a version has a generation.
    Generations,
    /// R1: what differs is taken, whichever is larger.
    TakeWhatDiffers,
    /// R2: a syncing member's answer is required.
    SyncingAnswers,
    /// R2: a sequencer reads its generation with every new epoch.
    GenerationWithEpoch,
    /// R2: a store refuses an older epoch.
    StoreEpoch,
    /// R2: claims count only under the volume's present generation.
    ClaimGeneration,
    /// R2: claims count only in the stint that they were made in.
    ClaimSince,
    /// R2: a takeover makes a promotion under way fail (the key `raised`).
    Raised,
    /// R2: the promotion compares the group's record.
    PromotionEpoch,
    /// R2: a sequencer that finds a store in sync that it did not claim stops.
    ForeignPromotion,
    /// R3: a read is held until every member has what it shows.
    HoldReads,
    /// R3: syncing members are among those.
    HoldReadsSyncing,
    /// R4: a read needs leases.
    Leases,
    /// R4: a takeover waits leases out.
    WaitLeases,
    /// R4: a store that has started waits before it accepts a newer generation.
    WaitAfterStart,
    /// R4: syncing members that were said to be whole are among those whose leases count.
    LeasesSyncing,
    /// R5: an incomplete chunk is marked.
    JoinMarks,
    /// R5: an incomplete chunk serves nothing.
    IncompleteServesNothing,
    /// R5: a store serves only when it is in sync.
    SyncingServesNothing,
    /// R5: a mend replaces the exact entry only.
    ExactEntry,
    /// R5: whole is set behind the writes and behind the mends.
    WholeBehind,
    /// R6: the generation is raised, then the group is read.
    RaiseThenRead,
    /// R6: a fence is answered behind everything that was accepted before.
    Drain,
    /// R6: a roll-forward is one record.
    AtomicRoll,
    /// R6: the epoch is read again at the end of an opening that rolled forward.
    EndCheck,
    /// R8: a resend is answered once the original is durable.
    ResendDurable,
    /// R8: a read names the least version.
    Least,
    /// R10: all members are fenced before a chunk is opened.
    FenceAll,
    /// R10: the in-sync set keeps its minimum.
    MinCopies,
    /// R12: a sequencer may evict.
    SequencerEvicts,
    /// Resync: Join comes before the first write.
    Join,
    /// Resync: Join leaves whole only what is at the owner's version.
    JoinVersion,
    /// Resync: a stream of an older generation is not taken for one's own.
    JoinGeneration,
    /// Resync: contents are compared besides versions.
    CompareContent,
    /// Resync: what the target has newer than its base is compared, and not only what the source has.
    CompareTarget,
    /// Resync: the comparison goes back by a window behind the base.
    BaseWindow,
    /// Resync: the base stays until the chunk is whole again.
    BaseKept,
    /// Resync: entries of the owner's own generation that are newer than the source's are left alone.
    SkipNewer,
    /// Resync: an entry that was left alone counts as a difference.
    SkipIsDifference,
    /// Resync: a mend that did not meet its entry counts as a difference.
    MissIsDifference,
    /// Resync: an entry that has the source's version and other contents is not left alone.
    MendEqualVersion,
    /// Resync: a pass ends with its link.
    PassEndsWithLink,
    /// Resync: a claim needs every chunk of the volume.
    ClaimAllChunks,
    /// Resync: whole is durable before it is answered.
    WholeDurable,
    /// Resync: what was given out before the join is on every member in sync before anything is listed.
    SettleFirst,
    /// Resync: equal lists count only for a chunk that has nothing under way.
    EqualSettled,
    /// A compare-and-write has the chunk for itself, from its turn until its write has a version.
    CompareAlone,
    /// It is compared when all that has a version is acknowledged.
    CompareSettled,
    /// Rot: a member that cannot merge a write is rolled forward from a good one.
    RotHeals,
    /// Rot: to the good one's version, and not to that of the write that it refused.
    RotHealsToVersion,
    /// Rot: where nobody has the block whole, the entry travels as one that is damaged.
    RotTravels,
    /// Rot: what no member can merge keeps its version, and is not withdrawn.
    RotKeepsVersions,
}

/// The rules that are switched off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off(u64);

impl Off {
    /// All rules hold but these.
    #[must_use]
    pub fn these(rules: &[Rule]) -> Self {
        Self(rules.iter().fold(0, |set, rule| set | 1 << *rule as u8))
    }

    /// Whether the rule holds.
    #[must_use]
    pub fn holds(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) == 0
    }
}

/// All rules that can be switched off.
pub const ALL: &[Rule] = &[
    Rule::Predecessor,
    Rule::Generations,
    Rule::TakeWhatDiffers,
    Rule::SyncingAnswers,
    Rule::GenerationWithEpoch,
    Rule::StoreEpoch,
    Rule::ClaimGeneration,
    Rule::ClaimSince,
    Rule::Raised,
    Rule::PromotionEpoch,
    Rule::ForeignPromotion,
    Rule::HoldReads,
    Rule::HoldReadsSyncing,
    Rule::Leases,
    Rule::WaitLeases,
    Rule::WaitAfterStart,
    Rule::LeasesSyncing,
    Rule::JoinMarks,
    Rule::IncompleteServesNothing,
    Rule::SyncingServesNothing,
    Rule::ExactEntry,
    Rule::WholeBehind,
    Rule::RaiseThenRead,
    Rule::Drain,
    Rule::AtomicRoll,
    Rule::EndCheck,
    Rule::ResendDurable,
    Rule::Least,
    Rule::FenceAll,
    Rule::MinCopies,
    Rule::SequencerEvicts,
    Rule::Join,
    Rule::JoinVersion,
    Rule::JoinGeneration,
    Rule::CompareContent,
    Rule::CompareTarget,
    Rule::BaseWindow,
    Rule::BaseKept,
    Rule::SkipNewer,
    Rule::SkipIsDifference,
    Rule::MissIsDifference,
    Rule::MendEqualVersion,
    Rule::PassEndsWithLink,
    Rule::ClaimAllChunks,
    Rule::WholeDurable,
    Rule::SettleFirst,
    Rule::EqualSettled,
    Rule::CompareAlone,
    Rule::CompareSettled,
    Rule::RotHeals,
    Rule::RotHealsToVersion,
    Rule::RotTravels,
    Rule::RotKeepsVersions,
];
