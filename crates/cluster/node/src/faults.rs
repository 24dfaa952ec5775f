//! Rules that the simulator switches off, most of them a part of R9.

amita_reactor::fault_switches! {
    /// Each new text of a store's record counts as a new link to the store.
    UpAtEachRecord,
    /// A core that did not run keeps its hosts and what they had sent.
    NoPulse,
    /// An owner carries out what comes from a gateway whose session has ended.
    AnySession,
    /// An owner carries out what was on the way for however long.
    AnyAge,
    /// An owner carries out what was meant for another generation of it.
    AnyGeneration,
    /// What a host asked for stays when the host has gone.
    KeepForGoneHosts,
    /// A compare-and-write that may have been carried out is sent again.
    RepeatCompare,
    /// A write that may have been carried out is sent again as a new one, to whoever owns the volume.
    CarryOutAgain,
    /// An owner does not know what it has carried out.
    NoWindow,
    /// What the owner finds to be old is sent again with a fresh date.
    DateAgain,
    /// A gateway that is not known as living keeps its hosts.
    KeepWhenLapsed,
    /// A gateway that is asked for a volume gives it away with I/O of NVMe hosts under way.
    CutOnRelease,
    /// Whether a host's machine is there is not asked where its protocol does not.
    UnwatchedHosts,
    /// A gateway that has said that it does not have a volume goes on opening it.
    KeepOpening,
    /// A gateway that reaches nobody deposes an owner that lives.
    DeposeAlone,
    /// What was sent by a link that broke is answered as failed at once, though the owner may still carry it out.
    FailAtOnce,
    /// A core's word that it has nothing under way counts for whichever attempt to hand a volume over is under way.
    AnyAttempt,
    /// What another core of the node has taken in is carried out, or passed on, however long ago that was.
    AnyAgeBetweenCores,
    /// A volume that is opened again takes the place of its older sequencer, which is not ended first.
    ForgetOldShard,
    /// R14: a store believes what a fence says of the volume's owner and of the group.
    AnyFence,
    /// R14: a volume is released to whoever asks, and whoever says that it was released is believed.
    AnyRelease,
    /// R14: a fence that is newer than the view waits for the watch: the metadata is not asked.
    WatchOnly,
    /// A command about a reservation whose outcome is unknown is applied to what is there then.
    ApplyAgain,
    /// S2: an owner seals the number that the one before it was about to seal.
    SealAnothers,
    /// S2: a snapshot is released when one core carries its number.
    ReleaseEarly,
    /// S4: an owner of a volume of a set lets go when its own cores carry the number.
    LetGoAlone,
    /// S4: a set is decided by the answers to the first round: whoever has let go since counts as well.
    OneRound,
    /// M2: an owner that holds for the last pass of a move begins hosts' I/O all the same.
    NoHold,
    /// M3: an owner that holds for the last pass of a move begins hosts' reads all the same.
    ReadOnHold,
    /// M4: an owner lets go of what it holds when its time is up, without the metadata's word that it may.
    LetGoUnasked,
    /// A reservation's record that cannot be read counts as none.
    UnreadableIsNone,
    /// I/O is carried out whoever it comes from, and whoever has reserved the volume.
    AnyHost,
    /// A command about a reservation is answered while I/O is under way that it forbids.
    PreemptAtOnce,
    /// S16: what waits for a limit stays when its host has gone.
    HoldForGoneHosts,
    /// S16: of what waits for a limit the newest goes first.
    OvertakeAtGate,
    /// Hosts that are slowed for a move stay so when it is at its end.
    SlowForGood,
}
