//! Fault switches: each turns one rule of the protocol off, so that tests and the simulator can show that they notice.
//! What a sequencer does wrong then, where that is more than leaving something out, is in `sequencer/faults.rs`.

amita_reactor::fault_switches! {
    /// R2: an eviction does not compare the volume's generation, and nothing read back is checked for it.
    SkipGenerationCheck,
    /// R3: a read's answer is not held until its version is everywhere.
    NoHold,
    /// S7: what was never touched here is told as unchanged since a snapshot that was taken before the volume was opened here.
    UnchangedBefore,
    /// S7: what carries the number of a snapshot is told as unchanged since then.
    UnchangedAtNumber,
    /// R4: reads do without leases.
    NoLeases,
    /// R4: an owner that was not asked is taken to have given its leases back.
    GiveBackUnasked,
    /// R6: the opener reads the groups before it raises the generation.
    ReadGroupsBeforeRaise,
    /// R1: members are believed whatever versions they claim.
    AnyJump,
    /// R6: each part of a roll-forward is applied by itself.
    RollInParts,
    /// R7: versions are given out without looking at credits.
    NoCredits,
    /// R7: a store that was asked, and has granted too little, is taken to be full.
    FullWithoutWord,
    /// R7: a clear of a chunk that was never written gets a version like any other.
    ClearWhatIsNotThere,
    /// R7: credits that are not used are never given back.
    KeepCredits,
    /// D7: a member that cannot carry out a write, because what it is merged with has rotted, and cannot be evicted, is
    /// sent the write again and again.
    NoCatchUp,
    /// R8: reads name no least version.
    NoLeast,
    /// R8: what is asked of a snapshot names the snapshot's version only.
    NoNewest,
    /// R8: nobody is asked for, or looks at, the version of which blocks are allocated, or differ.
    BlindMaps,
    /// R8: a member that lacks what it has acknowledged is read as any other once it was caught up.
    TrustDoubted,
    /// R8: a member is in doubt no more though what it holds was not compared.
    ClearUnlooked,
    /// R10: a group is served when those of its members that can be reached are fenced.
    ServeHalfFenced,
    /// R10: members are evicted below the pool's least.
    IgnoreMinCopies,
    /// A write is acknowledged by the first answer.
    AcknowledgeEarly,
    /// R2: a raise of the generation does not rewrite what promotions compare.
    RaiseSilently,
    /// R2: a member that is claimed to be whole is not waited for.
    ForgetClaimed,
    /// R4: leases of members that are claimed to be whole are not counted.
    NoClaimedLeases,
    /// R5: a member is claimed to be whole while chunks are still being compared.
    ClaimEarly,
    /// R5: a syncing member is not told where a chunk's history goes on.
    NoJoin,
    /// R5: what a member skipped because it was not as expected is not compared again.
    TrustMends,
    /// R1: blocks are compared by their versions only.
    CompareVersions,
    /// R1: only chunks that a member lists are compared.
    TrustLists,
    /// R1: a chunk is compared while writes are under way that the source may not have.
    CompareUnsettled,
    /// After a reconnection writes are resent from the newest to the oldest.
    ResendOutOfOrder,
    /// A write is acknowledged by the answers of more than half of the members.
    AcknowledgeByMajority,
    /// R12: a write is acknowledged without a lost member before the group's epoch has moved.
    IgnoreLost,
    /// R4: a lease is counted from the answer that carries it.
    LeaseFromArrival,
    /// R4: all of a lease counts, as if clocks ran alike.
    WholeLease,
    /// R12: what a store answers out of its memory shows that its disk lives.
    MemoryIsLife,
    /// R12: `Busy` is silence, whatever the store has done before.
    BusyIsSilence,
    /// R6: a chunk is opened at the longest version, and the shorter members are left as they are.
    OpenWithoutRoll,
    /// R6: a compare-and-set of unknown outcome is taken for done.
    TrustUnknown,
    /// R2: a write is acknowledged without the answers of syncing members, which are not dropped for that.
    SkipSyncing,
    /// R1: a chunk is compared and pulled while the source has writes of it under way.
    NoSettling,
    /// R5: a syncing member is called whole without anything having been compared.
    WholeAtOnce,
    /// R5: entries up to the version at which the copy was last whole are taken for equal.
    TrustBase,
    /// R5: reads go to syncing members, too.
    ReadFromSyncing,
    /// R14: an answer in a store's name counts, whoever gives it.
    AnyAnswer,
    /// Some of the bytes that are under way to a store are counted for good: a limit that nobody reaches in a short
    /// run.
    ForgetBytes,
    /// S2: what carries a number is acknowledged, and shown by reads, before all cores carry it.
    NoCutHold,
    /// S2: a snapshot is taken though stores may still take writes of an older owner.
    LazyFences,
    /// S2: a takeover leaves a snapshot that is not sealed to be sealed.
    KeepUnsealed,
    /// S4: a takeover leaves a set that is being taken alone.
    LeaveSets,
    /// S3: a write that is sent again carries the newest number.
    NumberWhenSent,
    /// S3: a member joins a chunk's history with the newest number.
    JoinWithNewest,
    /// S6: a member is called whole without its states having been compared.
    BringHeadsAlone,
    /// S5: a member is rolled forward in one step, across the snapshots that lie between.
    RollAcross,
    /// S8: where a clone has no chunk of its own there is none.
    InheritNothing,
    /// S7: what members inherit is made as it is, though it is not the same on all of them.
    InheritUnequal,
    /// S6: a member is brought up to date for a clone before it has what that comes from.
    ParentsLast,
    /// S12: a repair gives the volume's block another slot, and does not look at what snapshots and clones have.
    RepairHeadsAlone,
    /// S6, S13: a member that comes back makes no chunk of a clone before the others do.
    MakeWithoutComing,
    /// S14: what is sent again is encrypted anew.
    SealAgain,
    /// S15: a write that is not whole is encrypted as it is, and stores merge it.
    MergeCiphertext,
    /// S15: blocks without data are decrypted.
    DecryptHoles,
    /// S14: a mended entry gets the version that the member has.
    MendUnderOwn,
    /// S7: a snapshot is sealed while older writes have no acknowledgement.
    SealUnsettled,
}
