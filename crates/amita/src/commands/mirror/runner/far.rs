//! What a runner needs of the other end.

use crate::commands::mirror::link::{Link, Renewed};
use crate::commands::mirror::wire::Reader;
use amita_api::mirror::MirrorLink;
use amita_terminal::error::Result;
use amita_types::MirrorEpoch;
use amita_types::map::{Point, PointName};
use std::io::Read;

/// The other end, as it is asked.
pub(super) trait Far {
    /// What it is.
    fn look(&self) -> Result<MirrorLink>;

    /// Has it cut a point of this epoch; none: it is being cut.
    fn cut(&self, epoch: MirrorEpoch) -> Result<Option<Point>>;

    /// Another token in place of the one that it knows this end by.
    fn renew(&self) -> Result<Renewed>;

    /// What a point of it has of a volume, or what differs from another point, behind so many bytes.
    fn data(
        &self,
        point: PointName,
        volume: &str,
        base: Option<PointName>,
        after: u64,
    ) -> Result<Reader<Box<dyn Read>>>;
}

impl Far for Link {
    fn look(&self) -> Result<MirrorLink> {
        Link::look(self)
    }

    fn cut(&self, epoch: MirrorEpoch) -> Result<Option<Point>> {
        Link::cut(self, epoch)
    }

    fn renew(&self) -> Result<Renewed> {
        Link::renew(self)
    }

    fn data(
        &self,
        point: PointName,
        volume: &str,
        base: Option<PointName>,
        after: u64,
    ) -> Result<Reader<Box<dyn Read>>> {
        Link::data(self, point, volume, base, after)
    }
}
