//! Limits of volumes: where I/O waits for tokens, and who lends them.
//!
//! # The story
//! A volume may do 1,000 operations a second, and hosts of it are connected to two gateways, on four cores each. A request waits where its
//! host is (S16): at the [`Gate`] of the core that has its connection, before it is routed, and is gone with its host (R9). What
//! all gates let pass together is bounded by tokens, which the volume's owner lends them for a moment ([`amita_qos::lease`]): the [`Lender`], on core 0
//! of the owner. In any time T no more passes than rate x T + burst.
//!
//! A gate's asks go the way of the volume's I/O ([`crate::forwarder`]): to core 0 of this node, or to the gateway that owns the volume; so
//! whoever is asked is who has the volume open, and a volume that nobody owns is opened by the first ask.
//!
//! # Owners that follow one another
//! The lender's epoch is the volume's generation. It lends nothing before every store in sync has adopted that durably (as a snapshot waits for it,
//! S2): from then on an older owner carries nothing out, whether or not it has heard that it is one. Then it begins empty, and fills from a lease
//! later on, when what the older one had lent has lapsed. Of what is carried out no more passes than the limit, whoever owned the
//! volume meanwhile. A store in sync that does not answer is evicted, and awaited no more; where it is not, because its group has no copy to
//! spare, the lender begins after [`PATIENCE`] all the same: what is blocked there is no reason to block the rest of the volume.

mod gate;
mod lender;
mod wire;

pub use gate::{Counts, Gate, MOST_TOLD_OF, Passage};
pub use lender::Lender;
pub use wire::{Answer, read_answer, read_asks, write_answer, write_asks};

use amita_qos::{Ask, Grant};
use std::time::Duration;

/// A lender waits no longer for stores that have not adopted its generation: longer than a dead one takes to be evicted.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Asks of one volume's limits, by their places ([`amita_qos::Limits::in_order`]).
pub type Asks = Vec<(usize, Ask)>;
/// And grants.
pub type Grants = Vec<(usize, Grant)>;

#[cfg(test)]
mod tests;
