//! Moments of a volume's move to another pool, seen from outside: in the middle of a pass, and where its owner holds and the switch is made.

use crate::cluster::Cluster;
use amita_control::admin;
use amita_metadata::{Call, Client};
use amita_terminal::error::{Failure, Result};
use amita_types::map::{self, Copying};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// How often the metadata is asked: a hold lasts 30 ms at first.
const LOOK: Duration = Duration::from_millis(4);

/// When something is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A pass has gone through something, and is not done.
    Pass,
    /// The owner holds what hosts write: the switch is near.
    Switch,
}

/// Who is at a move at a moment that was seen, by the names of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Who carries it out.
    pub mover: Option<String>,
    /// Who owns the volume.
    pub owner: Option<String>,
}

/// A look at the moves of a cluster.
pub struct Moves {
    client: Client,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

impl Moves {
    /// Of a cluster's metadata, as its operator.
    ///
    /// # Errors
    /// When the endpoint is none, or there is no identity for it.
    pub fn of(cluster: &Cluster) -> Result<Moves> {
        let client = cluster.metadata_client()?;
        Ok(Moves { client })
    }

    /// The move that is under way and has not come to its switch; none: there is none.
    ///
    /// # Errors
    /// When the metadata is away.
    pub fn under_way(&self) -> Result<Option<Copying>> {
        let copies = admin::copies(&self.client).map_err(failed)?;
        Ok(copies.into_iter().find(|copy| copy.moving.is_some() && !copy.whole))
    }

    /// Nothing of any move is left.
    ///
    /// # Errors
    /// When the metadata is away.
    pub fn is_over(&self) -> Result<bool> {
        Ok(admin::copies(&self.client).map_err(failed)?.is_empty())
    }

    /// The name of the pool that a volume lies in.
    ///
    /// # Errors
    /// When the metadata is away, or knows no such volume.
    pub fn pool(&self, volume: &str) -> Result<String> {
        Ok(admin::volume(&self.client, volume).map_err(failed)?.pool)
    }

    /// Waits for that moment of the move of this volume; who is at it then. None: the move was over before that was seen, and whoever wants to see it begins another one.
    ///
    /// # Errors
    /// When the metadata is away, or it does not come within `limit`.
    pub fn await_moment(&self, volume: &str, moment: Moment, limit: Duration) -> Result<Option<Sight>> {
        let until = Instant::now() + limit;
        let nodes = admin::nodes(&self.client).map_err(failed)?;
        let mut mover = None;
        loop {
            // The record says in one who owns it and whether that one holds.
            let found = admin::volume(&self.client, volume).map_err(failed)?;
            let copy = self.under_way()?;
            if let Some(copy) = &copy {
                let at = self
                    .client
                    .txn(&Call::get(map::copier_key(copy.volume)))
                    .map_err(failed)?;
                mover = at.value(0).and_then(|found| found.json::<String>().ok()).or(mover);
            }
            let is_now = match moment {
                Moment::Pass => copy.as_ref().is_some_and(|copy| copy.place.pass_bytes > 0),
                // The copy is read last: where it is there, the switch was still to come.
                Moment::Switch => found.lineage.held && copy.is_some(),
            };
            if is_now && mover.is_some() {
                let owner = nodes.iter().find(|node| Some(node.id) == found.owner);
                return Ok(Some(Sight {
                    mover,
                    owner: owner.map(|node| node.name.clone()),
                }));
            }
            let Some(copy) = copy else { return Ok(None) };
            if Instant::now() >= until {
                return Err(Failure::new(format!(
                    "the move of {volume} did not come to {moment:?}: {copy:?}"
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills a node with SIGKILL. `false`: the move may have come to its switch before that.
    ///
    /// # Errors
    /// When the node does not run, or the metadata is away.
    pub fn strike(&self, cluster: &mut Cluster, index: usize) -> Result<bool> {
        cluster.signal_node(index, Signal::KILL)?;
        // Before its end is waited for: whoever lives may make the switch meanwhile.
        let copy = self.under_way();
        cluster.kill_node(index);
        Ok(copy?.is_some())
    }
}
