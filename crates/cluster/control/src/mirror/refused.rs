//! Why a step of an end is not taken.

use amita_types::MirrorEpoch;
use amita_types::map::{MAX_POINTS, MirrorRole, PointName};

/// Why a step is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The step is another role's.
    #[error("this end is {is}{}, and that is for {wanted}", if *.handed { ", handed over" } else { "" })]
    Role {
        is: MirrorRole,
        handed: bool,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// The request is of another epoch.
    #[error("this end is in epoch {own}, and the request is for epoch {asked}")]
    Epoch { own: MirrorEpoch, asked: MirrorEpoch },
    /// Nothing was heard of the other end.
    #[error("the other end was never heard")]
    Unheard,
    /// The other end has not been demoted.
    #[error("the other end is {is}, in epoch {epoch}: demote it first, there")]
    NotHanded { is: MirrorRole, epoch: MirrorEpoch },
    /// This end has not the other one's last point.
    #[error(
        "this end is at point {}, and the other end's last one is {last}: it is promoted when it has that", shown(.own.as_ref())
    )]
    NotAtLast { own: Option<PointName>, last: PointName },
    /// Its demotion was declined here.
    #[error("the demotion of epoch {epoch} was declined: the other end takes it back")]
    Declined { epoch: MirrorEpoch },
    /// The other end has not declined.
    #[error(
        "the other end has not declined the demotion of epoch {epoch}; where it does not answer there is only force"
    )]
    NotDeclined { epoch: MirrorEpoch },
    /// It has no point.
    #[error("this end has no point: nothing whole was brought yet")]
    NoPoint,
    /// Its volumes are on their way back.
    #[error("its volumes go back to a point, and are not all there: wait for the end of the resync")]
    Returning,
    /// It is not what its point is.
    #[error(
        "a pass was begun since its point, {at}: promote it by force first (`amita mirror promote --force`), which goes back to that, and remove it \
         then; or have its volumes deleted (`amita mirror remove --delete`)"
    )]
    Begun { at: PointName },
    /// A later epoch is known.
    #[error("it knows of no later epoch than its own, {own}")]
    NotLater { own: MirrorEpoch },
    /// The other end cannot be followed now.
    #[error("the other end is {is}, and cannot be followed")]
    NotServing { is: MirrorRole },
    /// It has something of its own.
    #[error("it has what the other end has not: that is given up by an operator's word alone (`amita mirror resync`)")]
    OwnData,
    /// Not all volumes are what they are to be.
    #[error("not all of its volumes are at point {to}, in one set, under the generations that the pass was made by")]
    NotWhole { to: PointName },
    /// It goes on, whatever it hears.
    #[error("it was added with --never-deposed: it goes on, and there is a split")]
    NeverDeposed,
    /// There is nothing newer.
    #[error("there is nothing newer than what it is at")]
    Nothing,
    /// It has as many as can be.
    #[error(
        "it has {MAX_POINTS} points, which are the most: the other end has not said for long that it has later ones"
    )]
    Full,
    /// Its volumes are being made.
    #[error(
        "it is not joined yet: give `amita mirror join` again, with the file that the other end has made, which goes on where it was"
    )]
    Joining,
    /// It is being removed.
    #[error(
        "its removal was begun, and is not over: give `amita mirror remove` again, with --delete where its volumes were to be deleted"
    )]
    Leaving,
    /// What the other end shows of itself cannot be.
    #[error("what the other end shows of itself cannot be, and is not believed: {0}")]
    Absurd(String),
    /// What was said to be there is not.
    #[error("point {0} is not there")]
    NoSuch(PointName),
}

fn shown(point: Option<&PointName>) -> String {
    point.map_or_else(|| "none".to_owned(), PointName::to_string)
}
