//! What the ends of a mirror ask of each other, as the API has it; and what was done at them, for who judges that.

use amita_types::MirrorEpoch;
use amita_types::map::{Point, PointName, Standing};
use std::time::Duration;

/// What is asked of the other end.
#[derive(Clone, Debug)]
pub(in crate::cluster) enum FarAsk {
    /// What it is.
    Look,
    /// A point of this epoch.
    Cut(MirrorEpoch),
    /// It declines the demotion of this epoch, of who is this.
    Decline(MirrorEpoch, Standing),
    /// A piece of what a point has of a volume, or of what differs from the base, behind so many bytes.
    Take {
        point: PointName,
        volume: String,
        base: Option<PointName>,
        after: u64,
    },
}

/// What it answers.
#[derive(Clone, Debug)]
pub(in crate::cluster) enum FarAnswer {
    Link(Link),
    /// None: it is being cut.
    Cut(Option<Point>),
    Taken(Taken),
}

/// Why it does not.
#[derive(Clone, Debug)]
pub(in crate::cluster) enum FarWhy {
    /// Nothing was heard.
    Unheard(String),
    /// It says no: it is something else by now.
    Conflict(String),
    Other(String),
}

impl FarWhy {
    pub fn text(&self) -> &str {
        match self {
            FarWhy::Unheard(why) | FarWhy::Conflict(why) | FarWhy::Other(why) => why,
        }
    }
}

/// An end as it shows itself.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct Link {
    pub standing: Standing,
    /// Its clock, in seconds.
    pub clock: u64,
    /// What its volumes have, by name.
    pub sizes: Vec<(String, u64)>,
}

/// A piece.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct Taken {
    /// The volume's size at the point.
    pub size_bytes: u64,
    /// All is sent, though only what differs was asked for.
    pub whole: bool,
    /// Where, what (none: zeros), and how much.
    pub pieces: Vec<(u64, Option<Vec<u8>>, u64)>,
    /// Everything before was sent.
    pub reached: u64,
}

/// What each block of each volume holds, as a number; 0: zeros.
pub(in crate::cluster) type Content = Vec<Vec<u64>>;

/// What was done.
#[derive(Debug)]
pub(in crate::cluster) enum Did {
    /// A host has all volumes open, of so many blocks.
    Opened(Vec<u64>),
    /// It is refused: the volumes are closed; or for another reason.
    Refused {
        is_closed: bool,
    },
    Began {
        volume: usize,
        block: u64,
        value: u64,
    },
    Acknowledged {
        value: u64,
    },
    /// What has come of it is not known; or it was refused for good, for the volume is closed.
    Failed {
        is_closed: bool,
    },
    /// Whoever makes a volume smaller has marked it, and begins to clear.
    Shrinks,
    /// So many blocks from the first on are cleared, or are to be: the operations of which the last one has this number.
    Clears {
        volume: usize,
        first: u64,
        count: u64,
        value: u64,
        acknowledged: bool,
    },
    /// All behind the new end is.
    ClearedAll,
    /// It was asked for then.
    Read {
        asked: Duration,
        volume: usize,
        first: u64,
        values: Vec<u64>,
    },
    /// What the snapshots of a point hold.
    Point {
        name: PointName,
        snapshots: String,
        content: Content,
    },
    /// The other end was answered.
    Served(Result<FarAnswer, FarWhy>),
    /// A pass begins to write.
    Writes,
    /// And that it is all there, and its set is asked for.
    Seals,
}
