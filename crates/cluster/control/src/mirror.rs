//! What an end of a mirror may become, and when (decision 081): decided by its own record, and by what it has seen of the other end. Nothing here
//! reads or writes anything; [`crate::admin`] makes of each step one transaction that compares the record.

mod rules;

use amita_types::map::Mirror;
pub(crate) use rules::Steps;
pub use rules::{Begun, DEFAULT_INTERVAL_S, LEAST_INTERVAL_S, Next, Refused, common, label_of, lag, snapshots_of};

/// What somebody has to do for this end, next.
#[must_use]
pub fn next(mirror: &Mirror) -> Next {
    mirror.next()
}

/// The label of a mirror's snapshots: its number.
pub const MIRROR_LABEL: &str = "amita:mirror";
