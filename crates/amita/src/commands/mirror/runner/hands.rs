//! What is done to a mirror's volumes themselves, by gateways of this node that may open what is closed for it.

mod back;
mod pass;

use super::far::Far;
use super::goal;
use super::renewal::Renewal;
use crate::commands::pace::Pace;
use crate::commands::volume::data::{Data, Way};
use crate::commands::wanted::Wanted;
use amita_client::Config;
use amita_metadata::Client;
use amita_terminal::error::Result;
use amita_types::VolumeId;
use amita_types::map::{Mirror, Point};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where no request ends for so long, the gateways are for others.
const STALL: Duration = Duration::from_secs(120);
/// Snapshots are waited for so long.
const TAKING_FOR: Duration = Duration::from_secs(60);
/// And it is looked so often.
const TAKING_EVERY: Duration = Duration::from_millis(100);

/// What a turn has done to the volumes.
pub(super) trait Hands {
    /// Is there room on this node for work at data? Where there is, it is for the work that comes next.
    fn may_work(&mut self) -> bool;

    /// Makes the record's pass, all that is left of it: at its end this end is at the point. `sizes`: what the volumes have at the other end, by its
    /// last look; at the point it may be more or less. It is looked at within as well.
    fn bring(&mut self, record: &Mirror, far: &dyn Far, sizes: &[u64]) -> Result<()>;

    /// Makes the volume of that number what it was at the point; what it is now is kept, or not.
    fn revert(&mut self, record: &Mirror, volume: VolumeId, to: &Point, keep: bool) -> Result<()>;
}

/// A place among those that work at one time. It is given up when it is dropped.
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    /// One of so many, if there is one.
    pub fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        let room = |taken: usize| (taken < most).then_some(taken + 1);
        let had = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        had.is_ok().then(|| Place(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Those of a node.
pub(super) struct Gateway {
    client: Client,
    config: Config,
    /// The mirror's name.
    name: String,
    claim: u64,
    wanted: Rc<Wanted<Mirror>>,
    renewal: Rc<Renewal>,
    working: Arc<AtomicUsize>,
    most: usize,
    place: Option<Place>,
    pace: Pace,
    /// The target that was opened last. Its gateway owns those that were opened before as well.
    target: Option<Data>,
    /// Which volumes of the mirror it owns.
    opened: BTreeSet<usize>,
    noted: Instant,
    /// The other end is looked at again then.
    looks: Instant,
}

pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Gateway {
    /// `working`: how many mirrors are worked at on this node, of which `most` are at one time.
    pub fn new(
        (client, config): (Client, Config),
        (name, claim): (&str, u64),
        (wanted, renewal): (Rc<Wanted<Mirror>>, Rc<Renewal>),
        (working, most): (Arc<AtomicUsize>, usize),
    ) -> Gateway {
        Gateway {
            client,
            config,
            name: name.to_owned(),
            claim,
            wanted,
            renewal,
            working,
            most,
            place: None,
            pace: Pace::new(),
            target: None,
            opened: BTreeSet::new(),
            noted: Instant::now(),
            looks: Instant::now(),
        }
    }

    /// Others may work.
    pub fn give_room(&mut self) {
        self.place = None;
    }

    /// Lets go of all volumes, and of the place.
    fn close(&mut self) {
        if let Some(open) = self.target.take() {
            open.close();
        }
        self.opened.clear();
        self.place = None;
    }

    fn way(&self, record: &Mirror) -> Way {
        let mut config = self.config.clone();
        config.mirror = Some(record.id);
        let wanted = Rc::clone(&self.wanted);
        Way::of(config, None).stalling(STALL).wanted(move || wanted.check())
    }
}

impl Hands for Gateway {
    fn may_work(&mut self) -> bool {
        if self.place.is_none() {
            self.place = Place::take(&self.working, self.most);
        }
        self.place.is_some()
    }

    fn bring(&mut self, record: &Mirror, far: &dyn Far, sizes: &[u64]) -> Result<()> {
        goal::go_by(&self.wanted, record);
        let done = self.pass(record, far, sizes);
        self.close();
        done
    }

    fn revert(&mut self, record: &Mirror, volume: VolumeId, to: &Point, keep: bool) -> Result<()> {
        goal::go_by(&self.wanted, record);
        let done = self.go_back(record, volume, to, keep);
        self.close();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_work_at_one_time_and_no_more() {
        let working: Arc<AtomicUsize> = Arc::default();
        let one = Place::take(&working, 2);
        let other = Place::take(&working, 2);
        assert!(one.is_some() && other.is_some() && Place::take(&working, 2).is_none());
        drop(one);
        assert!(Place::take(&working, 2).is_some());
        drop(other);
        assert_eq!(working.load(Ordering::Relaxed), 0);
    }
}
