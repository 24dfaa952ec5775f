//! Faults that tests plant: each switches one rule of the protocol off. Without the feature `planted` there is nothing
//! to switch, and every question is answered `false` at compile time.

macro_rules! planted {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Which rules are switched off.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Planted {
            $(
                #[cfg(any(test, feature = "planted"))]
                $(#[$doc])*
                pub $name: bool,
            )*
        }

        impl Planted {
            $(
                pub(crate) fn $name(&self) -> bool {
                    #[cfg(any(test, feature = "planted"))]
                    { self.$name }
                    #[cfg(not(any(test, feature = "planted")))]
                    { false }
                }
            )*
        }
    };
}

planted! {
    /// R2: an eviction does not compare the volume's generation, and nothing read back is checked for it.
    skip_generation_check,
    /// R3: a read's answer is not held until its version is everywhere.
    no_hold,
    /// R4: reads do without promises.
    no_promises,
    /// R4: an owner that was not asked is taken to have given its promises back.
    give_back_unasked,
    /// R6: the opener reads the groups before it raises the generation.
    read_groups_before_raise,
    /// R1: members are believed whatever versions they claim.
    any_jump,
    /// R6: each part of a roll-forward is applied by itself.
    roll_in_parts,
    /// R7: versions are given out without looking at credits.
    no_credits,
    /// R7: a store that was asked, and has granted too little, is taken to be full.
    full_without_word,
    /// R7: a clear of a chunk that was never written gets a version like any other.
    clear_what_is_not_there,
    /// R7: credits that are not used are never given back.
    keep_credits,
    /// D7: a member that cannot carry out a write, because what it is merged with has rotted, and cannot be evicted, is sent
    /// the write again and again.
    no_catch_up,
    /// R8: reads name no least version.
    no_least,
    /// R10: a group is served when those of its members that can be reached are fenced.
    serve_half_fenced,
    /// R10: members are evicted below the pool's least.
    ignore_min_copies,
    /// A write is acknowledged by the first answer.
    acknowledge_early,
    /// R2: a raise of the generation does not rewrite what promotions compare.
    raise_silently,
    /// R2: a member that is claimed to be whole is not waited for.
    forget_claimed,
    /// R4: promises of members that are claimed to be whole are not counted.
    no_claimed_promises,
    /// R5: a member is claimed to be whole while chunks are still being compared.
    claim_early,
    /// R5: a syncing member is not told where a chunk's history goes on.
    no_join,
    /// R5: what a member skipped because it was not as expected is not compared again.
    trust_mends,
    /// R1: blocks are compared by their versions only.
    compare_versions,
    /// R1: only chunks that a member lists are compared.
    trust_lists,
    /// R1: a chunk is compared while writes are under way that the source may not have.
    compare_unsettled,
    /// After a reconnection writes are resent from the newest to the oldest.
    resend_out_of_order,
    /// A write is acknowledged by the answers of more than half of the members.
    acknowledge_by_majority,
    /// R12: a write is acknowledged without a lost member before the group's epoch has moved.
    ignore_lost,
    /// R4: a promise is counted from the answer that carries it.
    promise_from_arrival,
    /// R4: all of a promise counts, as if clocks ran alike.
    whole_promise,
    /// R12: what a store answers out of its memory shows that its disk lives.
    memory_is_life,
    /// R12: `Busy` is silence, whatever the store has done before.
    busy_is_silence,
    /// R6: a chunk is opened at the longest version, and the shorter members are left as they are.
    open_without_roll,
    /// R6: a compare-and-set of unknown outcome is taken for done.
    trust_unknown,
    /// R2: a write is acknowledged without the answers of syncing members, which are not dropped for that.
    skip_syncing,
    /// R1: a chunk is compared and pulled while the source has writes of it under way.
    no_settling,
    /// R5: a syncing member is called whole without anything having been compared.
    whole_at_once,
    /// R5: entries up to the version at which the copy was last whole are taken for equal.
    trust_base,
    /// R5: reads go to syncing members, too.
    read_from_syncing,
    /// Some of the bytes that are under way to a store are counted for good: a limit that nobody reaches in a short run.
    forget_bytes,
}
