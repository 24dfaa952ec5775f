//! Faults that the simulator plants: each switches one rule off, most of them a part of R9. Without the feature `planted` there is nothing to
//! switch, and every question is answered `false` at compile time.

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
                pub(crate) fn $name(self) -> bool {
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
    /// Each new text of a store's record counts as a new link to the store.
    up_at_each_record,
    /// A core that did not run keeps its hosts and what they had sent.
    no_pulse,
    /// An owner carries out what comes from a gateway whose session has ended.
    any_session,
    /// An owner carries out what was on the way for however long.
    any_age,
    /// An owner carries out what was meant for another generation of it.
    any_generation,
    /// What a host asked for stays when the host has gone.
    keep_for_gone_hosts,
    /// A compare-and-write that may have been carried out is sent again.
    repeat_compare,
    /// A write that may have been carried out is sent again as a new one, to whoever owns the volume.
    carry_out_again,
    /// An owner does not know what it has carried out.
    no_window,
    /// What the owner finds to be old is sent again with a fresh date.
    date_again,
    /// A gateway that is not known as living keeps its hosts.
    keep_when_lapsed,
    /// A gateway that is asked for a volume gives it away with I/O of NVMe hosts under way.
    cut_on_release,
    /// A gateway that reaches nobody deposes an owner that lives.
    depose_alone,
    /// What was sent by a link that broke is answered as failed at once, though the owner may still carry it out.
    fail_at_once,
    /// A core's word that it has nothing under way counts for whichever attempt to hand a volume over is under way.
    any_attempt,
    /// What another core of the node has taken in is carried out, or passed on, however long ago that was.
    any_age_between_cores,
    /// A volume that is opened again takes the place of its older sequencer, which is not ended first.
    forget_old_shard,
    /// A command about a reservation whose outcome is unknown is applied to what is there then.
    apply_again,
    /// A reservation's record that cannot be read counts as none.
    unreadable_is_none,
}
