//! For as long as what is done for a mirror is wanted.

use crate::commands::wanted::Wanted;
use amita_types::map::{self, Mirror, PointName};
use amita_types::{MirrorEpoch, MirrorId};

/// What the record says for as long as the work goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Goal {
    id: MirrorId,
    role: map::MirrorRole,
    epoch: MirrorEpoch,
    /// The point that a pass is to; and it stands still.
    to: Option<PointName>,
    is_paused: bool,
    /// It is being removed: what was to go back does not.
    is_leaving: bool,
}

impl Goal {
    fn of(record: &Mirror) -> Goal {
        Goal {
            id: record.id,
            role: record.standing.role,
            epoch: record.standing.epoch,
            to: record.pass.as_ref().map(|pass| pass.to),
            is_paused: record.pass.is_some() && record.paused.is_some(),
            is_leaving: record.leaving,
        }
    }
}

/// From now on it is wanted for as long as the record says this.
pub(super) fn go_by(wanted: &Wanted<Mirror>, record: &Mirror) {
    let goal = Goal::of(record);
    wanted.go_by(record, move |now| {
        (Goal::of(now) == goal).then_some(now.limit_bytes_per_s)
    });
}
