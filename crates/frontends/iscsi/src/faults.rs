//! Rules that the simulator switches off.

amita_reactor::fault_switches! {
    /// What nobody knows to be written is answered as written.
    TrustLost,
    /// A function is answered before what it has ended is over.
    AbortAtOnce,
    /// A session takes the place of another one of which something is still under way.
    ReinstateAtOnce,
    /// What is reserved for others is answered as written.
    ConflictIsGood,
    /// A piece of a copy that the volume has failed is taken for copied.
    TrustPieces,
    /// A session goes by the settings of its login as long as it lasts: what it tells of access stays as it was.
    DeafToSettings,
    /// What comes behind a silence is carried out, though its host may have gone.
    BelieveSilentHosts,
}
