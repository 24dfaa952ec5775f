//! One limit that several spend: a volume's at its owner's cores and the gateways that forward to it, a tenant's at all nodes.
//!
//! # The story
//! A volume may do 10,000 operations a second. G1 and G2 both have hosts of it, and a request waits where its host is (S16), so
//! both must know what they may let pass. One of them loses its link, one is stopped for a minute and wakes, the owner dies and
//! another takes its place, messages are lost, repeated and late, and clocks run apart. What passes all of them together, in any time
//! T, is at most rate x T + burst, all the same.
//!
//! # Mechanism
//! **Tokens are lent, not rates.** The [`Grantor`] has the bucket. A [`Holder`] asks and is lent tokens, which leave the bucket; so the
//! holder's clock has no say in how many there are, and what is lost on the way was only not spent.
//!
//! **What is lent takes room.** Level and lent tokens together never exceed the burst. Otherwise the bucket would fill up behind
//! tokens that are still to be spent, and both would be spent at once.
//!
//! **Leases end, at the holder first.** A holder counts from the moment at which it *asked*, and four fifths of the lease; the
//! grantor from its latest grant, and all of it (as read leases do, R4): clocks that are off by a tenth each do no harm. A holder
//! that was stopped finds its tokens lapsed before it spends one. The grantor takes for spent what has ended; room comes back
//! then, tokens do not.
//!
//! **Asks are statements.** Each tells all that the holder was ever lent, spent and let go under this grantor, so it matters to nobody
//! which one was lost. It has a number, and an older one is not heard. One that is heard after the lease of what it tells of has ended revives
//! nothing: what a holder is counted to have only ever falls by what it says. Grants are numbered, too: a holder takes only newer ones, so a
//! grant that is older than one it has taken is void, and the grantor, told which was taken last, has its tokens back at once.
//! What it holds beyond need the holder gives back with its next ask.
//!
//! **Epochs.** Grantors of one limit follow one another by epochs: the generation of the volume, the term of the coordinator. A
//! grantor lends only while its [mandate](Grantor::mandate) lasts (the owner's read leases, the coordinator's lease), and its successor is
//! begun when that has ended, or waits for as long ([`Mandate`]). It begins empty, and fills from the moment at which the last lease of its predecessor has ended:
//! what that had lent and what it lends itself are never out together. A holder that hears of a newer epoch lets older tokens go.
//!
//! **Turns.** Holders that want more than there is share it by start-time fair queueing, as flows do. The one whose turn it is gets as
//! much as its next request needs, or nobody gets anything until there is as much: else four holders would each hold a quarter
//! of a large request for ever.
//!
//! **Slow ways.** A holder whose asks take a good part of a lease there and back finds its tokens lapsed, or nearly. It asks for a
//! [long lease](LONG_LEASE). What is lent so is half of the burst at most, and a successor keeps that half free until the long leases of
//! its predecessor have ended; it lends nothing for long before. So the others wait for a short lease when the grantor is replaced, whatever slow
//! ones there are, and what a slow one that has died holds is out for longer, but leaves them half of the room.
//!
//! **No grantor is heard.** A [standing share](Standing) is set apart for each holder for good: it trickles on, a request every 10 ms say,
//! while the owner is being replaced. It is as large as whoever writes the records says, and ends with the holder's session
//! (R9: a gateway whose lease has lapsed has no hosts any more).

mod grantor;
mod holder;
mod mandate;

pub use grantor::{Grantor, GrantorConfig, LeaseError, ROUNDS};
pub use holder::{Holder, HolderConfig};
pub use mandate::{MANDATE, Mandate};

use amita_reactor::Time;
use std::time::Duration;

/// How long tokens are lent for at a volume's owner.
pub const LEASE: Duration = Duration::from_millis(50);
/// How long they are lent for to who is slow to hear: whose asks take up to 0.8 s there and back.
pub const LONG_LEASE: Duration = Duration::from_secs(1);
/// Holders of one limit.
pub const MAX_HOLDERS: usize = 1024;

/// Counts the grantors of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseEpoch(pub u64);

/// One life of one holder: another life is another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId {
    /// Which gateway or core.
    pub place: u64,
    /// Its session.
    pub session: u64,
}

/// What each holder has whether or not a grantor is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Tokens a second, of each.
    pub rate: u64,
    /// How many have such a share.
    pub holders: u32,
}

/// A holder's statement and wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Of the grantor that is meant.
    pub epoch: LeaseEpoch,
    /// Who asks.
    pub holder: HolderId,
    /// Counts the holder's asks.
    pub number: u64,
    /// The newest grant that was taken.
    pub heard: u64,
    /// Tokens that were taken, in all, under this epoch.
    pub taken: u128,
    /// Of those, spent.
    pub spent: u128,
    /// Of those, lapsed or given back.
    pub gone: u128,
    /// Tokens that it would spend now beyond those that it has.
    pub want: u64,
    /// With fewer than these it can do nothing; at most `want`.
    pub least: u64,
    /// For a long lease. All asks of one holder are for the same.
    pub is_long: bool,
    /// The holder's clock; comes back with the grant.
    pub sent: Time,
}

/// Tokens for a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Of the grantor.
    pub epoch: LeaseEpoch,
    /// Whose.
    pub holder: HolderId,
    /// Counts the grantor's grants, of all holders.
    pub number: u64,
    /// How many.
    pub tokens: u64,
    /// From the ask that is answered.
    pub sent: Time,
}

#[cfg(test)]
mod tests;
