//! Fault switches: each turns one rule off, so that a test can show that it would notice.

amita_reactor::fault_switches! {
    /// Bucket: other limits begin with a full bucket.
    RefillOnChange,
    /// Bucket: an I/O is let pass whatever it still owes.
    ForgetDebt,
    /// Scheduler: a flow that was idle comes back with the turns that it did not take.
    IdleSaves,
    /// Scheduler: what was done by weight counts as reserved.
    ReserveByWeight,
    /// Scheduler: the newest of a flow goes first.
    Overtake,
    /// Scheduler: a limit that several flows share is not charged.
    ForgetShared,
    /// Scheduler: who waits for a shared limit is woken in the order of coming, whatever its weight.
    WakeByArrival,
    /// Lines: the newest of a line goes first.
    OvertakeInLine,
    /// Lease: what is lent takes no room in the grantor's bucket.
    LentTakesNoRoom,
    /// Lease: a holder spends tokens whatever their age.
    SpendLapsed,
    /// Lease: tokens hold from the moment at which they came.
    HoldFromArrival,
    /// Lease: all of a lease counts, as if clocks ran alike.
    WholeLease,
    /// Lease: a grant that comes twice counts twice.
    AcceptTwice,
    /// Lease: what came late, after a newer one, is heard.
    HearOldAsks,
    /// Lease: what a holder gives back counts though its lease has ended, and was taken for spent.
    TakeBackLate,
    /// Lease: an ask that is heard after its lease has ended revives what was taken for spent.
    ReviveLapsed,
    /// Lease: a new grantor begins with a full bucket.
    BeginFull,
    /// Lease: a new grantor does not wait until its predecessor's leases have ended.
    BeginAtOnce,
    /// Lease: a new grantor leaves no room for what its predecessor has lent for long.
    ForgetLongLeases,
    /// Lease: a new grantor lends for long before the long leases of its predecessor have ended.
    LendLongEarly,
    /// Lease: all that there is can be lent for long.
    LendAllForLong,
    /// Lease: a grantor lends whether or not it still may.
    LendWithoutMandate,
    /// Lease: a new grantor does not wait until its predecessor's mandate has ended.
    ForgetMandate,
    /// Lease: a mandate counts from when it is known that the grantor had it, and not from when it began to read that.
    MandateFromAnswer,
    /// Lease: what stands apart for when no grantor is heard is lent as well.
    LendStanding,
}
