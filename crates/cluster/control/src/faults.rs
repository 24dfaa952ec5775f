//! Rules of the coordinator that the simulator switches off.

amita_reactor::fault_switches! {
    /// R10: a node whose network is sick is isolated, whatever copies its groups have without it.
    IsolateTheNeeded,
    /// A node that was isolated stays away, however well it is.
    NeverBack,
    /// Nodes are isolated by policies that isolate nobody.
    IsolateByAnyPolicy,
}
