//! What an end of a mirror may become, and when (decision 081): decided by its own record, and by what it has seen of the other end. Nothing here
//! reads or writes anything; [`crate::admin`] makes of each step one transaction that compares the record.

mod refused;
mod rules;
mod view;

use amita_types::MirrorId;
use amita_types::map::Mirror;
pub use refused::Refused;
pub use rules::{
    Begun, DEFAULT_INTERVAL_S, LEAST_INTERVAL_S, MAX_NAME_BYTES, MOST_KEPT, Next, UNCLAIMED_POINTS, check, common,
    label_of, lag, snapshots_of,
};
pub(crate) use rules::{Steps, called};
pub use view::{MirrorView, PassView, PassVolumeView, PauseView, PeerView, PointView, SeenView, late_after_s, view};

/// What somebody has to do for this end, next.
#[must_use]
pub fn next(mirror: &Mirror) -> Next {
    mirror.next()
}

pub use amita_types::map::MIRROR_LABEL;

/// The field of a mirror's record in which the token for the other end is sealed.
pub const TOKEN_FIELD: &str = "token";

/// What that sealed token is bound to: in another mirror's record it does not open.
#[must_use]
pub fn token_bound_to(mirror: MirrorId) -> String {
    format!("mirror {mirror}")
}
