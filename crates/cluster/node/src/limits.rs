//! Limits of volumes: where I/O waits for tokens, and who lends them.
//!
//! # The story
//! A volume may do 1,000 operations a second, and hosts of it are connected to two gateways, on four cores each. A request waits where its
//! host is (S16): at the [`Gate`] of the core that has its connection, before it is routed, and is gone with its host (R9). What
//! all gates let pass together is bounded by tokens, which the volume's owner lends them for a moment ([`amita_qos::lease`]): the [`Lender`], on one core
//! of the owner ([`lending_core`]). In any time T no more passes than rate x T + burst.
//!
//! A gate's asks go the way of the volume's I/O ([`crate::forwarder`]): to that core of this node, or to the gateway that owns the volume; so
//! whoever is asked is who has the volume open, and a volume that nobody owns is opened by the first ask.
//!
//! # Owners that follow one another
//! The lender's epoch is the volume's generation. It lends nothing before every store in sync has adopted that durably (as a snapshot waits for it,
//! S2): from then on an older owner carries nothing out, whether or not it has heard that it is one. Then it begins empty, and fills from a lease
//! later on, when what the older one had lent has lapsed. Of what is carried out no more passes than the limit, whoever owned the
//! volume meanwhile. A store in sync that does not answer is evicted, and awaited no more; where it is not, because its group has no copy to
//! spare, the lender begins after [`PATIENCE`] all the same: what is blocked there is no reason to block the rest of the volume.

//!
//! # Tenants and pools
//! What all volumes of a tenant, or of a pool, may do together is lent by one grantor as well: the owner of one volume, the seat, which the record of these
//! limits names. A gate asks it as it asks volumes' owners. What passes by its tokens is carried out by many owners, so no store's generation keeps one that was
//! replaced from lending: it lends by a mandate ([`amita_qos::lease::Mandate`]), for which it reads the record and the seat's; and its successor waits for as
//! long as that holds. A seat that is gone, or has no owner for long, is replaced by the first gateway that notices, by compare-and-set, with another term;
//! the epoch is the term and the seat's generation.

mod gate;
mod joints;
mod lender;
mod wire;

pub use gate::{Counts, Gate, JointCounts, MOST_TOLD_OF, Passage, Whose};
pub(crate) use joints::{Seat, epoch, given_to};
pub use lender::Lender;
pub use wire::{Answer, read_answer, read_asks, read_joint_asks, write_answer, write_asks, write_joint_asks};

use amita_qos::{Ask, Grant};
use amita_types::VolumeId;
use std::time::Duration;

/// A lender waits no longer for stores that have not adopted its generation: longer than a dead one takes to be evicted.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The core of the owner that lends a volume's tokens, and those of tenants and pools whose seat it is.
#[must_use]
pub fn lending_core(volume: VolumeId, cores: usize) -> usize {
    (volume.0 % cores.max(1) as u64) as usize
}

/// Asks of one volume's limits, by their places ([`amita_qos::Limits::in_order`]).
pub type Asks = Vec<(usize, Ask)>;
/// And grants.
pub type Grants = Vec<(usize, Grant)>;

#[cfg(test)]
mod tests;
