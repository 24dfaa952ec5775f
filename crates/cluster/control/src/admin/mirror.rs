//! Volumes that are mirrored to another cluster (decision 081): the steps of this cluster's end, each one transaction that compares the mirror's
//! record. What may be when is decided by [`crate::mirror`].

mod add;
mod closed;
mod doors;
mod pair;
mod peer;
mod point;
mod record;
mod remove;
mod role;
mod set;
mod users;

pub use add::{MirrorWish, TargetWish, add_mirror, add_mirrored, complete_mirrored};
pub use closed::none_closed;
pub(crate) use closed::{Door, none_closed_to, opened_again, set_door};
pub use doors::{close_mirrored, open_mirrored};
pub use pair::{Joined, USUAL_KEEP, add_mirror_to_join, join_mirror, join_mirror_again, joined};
pub use peer::{mirror_by_id, tell_mirror_peer};
pub use point::{Cutting, arrive, cut_point, gone_back, let_points_go, mirrored_volume, sweep_points, unmirrored};
pub use record::{mirror, mirror_of, mirrors, note_mirror};
pub use remove::{delete_mirrored, leave_mirror, remove_mirror};
pub(super) use role::goes_back;
pub use role::{
    begin_pass, begin_return, decline_demotion, demote_mirror, demote_unused, depose_mirror, depose_seen,
    follow_mirror, force_mirror, pause_mirror, promote_mirror, ready_mirror, returned, see_mirror, take_back_mirror,
};
pub use set::{MirrorChange, set_mirror};
