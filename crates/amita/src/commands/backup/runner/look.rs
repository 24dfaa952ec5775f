//! How a node looks, alike for policies and for tasks: it waits for news, begins with what is due when it is its turn, and carries an attempt out.

use super::RETRY;
use crate::commands::worker::{self, AGAIN, LOOK, spread};
use amita_api::panics::Unwinding;
use amita_metadata::{Batch, Client, Error, Waited};
use amita_types::map;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

/// Whose turn it is to be begun with at this node.
pub struct Turns<Id> {
    /// Since when what is due is seen to be nobody's.
    free: BTreeMap<Id, Instant>,
    /// When this node began with it last.
    tried: BTreeMap<Id, Instant>,
}

impl<Id> Default for Turns<Id> {
    fn default() -> Turns<Id> {
        Turns {
            free: BTreeMap::new(),
            tried: BTreeMap::new(),
        }
    }
}

impl<Id: Copy + Ord> Turns<Id> {
    /// Forgets since when what is not due any more was nobody's, and all of what is not there any more.
    pub fn keep(&mut self, is_due: impl Fn(Id) -> bool, is_there: impl Fn(Id) -> bool) {
        self.free.retain(|id, _| is_due(*id));
        self.tried.retain(|id, _| is_there(*id));
    }

    /// For how long what is due is seen to be nobody's.
    pub fn free_for(&mut self, id: Id) -> Duration {
        self.free.entry(id).or_insert_with(Instant::now).elapsed()
    }

    /// It is begun with. Else, for this node was at it a moment ago, how long it rests.
    pub fn begin(&mut self, id: Id) -> Result<(), Duration> {
        let rests = |last: &Instant| RETRY.saturating_sub(last.elapsed());
        match self.tried.get(&id).map(rests).filter(|rests| !rests.is_zero()) {
            Some(rests) => Err(rests),
            None => {
                self.tried.insert(id, Instant::now());
                Ok(())
            }
        }
    }
}

/// Waits for a change behind this revision that is one, until `stops` or `has_ended`, or for so long. Behind a change it waits for about `settle`, so that
/// many of them are read at once, and not by all nodes at one moment: the next watch begins behind what is read then.
pub fn wait(
    (client, revision): (&Client, u64),
    longest: Duration,
    settle: Duration,
    stops: &dyn Fn() -> bool,
    has_ended: &dyn Fn() -> bool,
    is_changed: &dyn Fn(&Batch) -> bool,
) {
    let mut watch = client.watch(&map::backups_prefix(), revision + 1);
    let began = Instant::now();
    while !stops() && !has_ended() && began.elapsed() < longest {
        let left = longest.saturating_sub(began.elapsed());
        match watch.wait(LOOK.min(left)) {
            Waited::Nothing => {}
            Waited::Item(Ok(batch)) if !is_changed(&batch) => {}
            Waited::Item(Ok(_)) => {
                drop(watch);
                return worker::rest(settle + spread(), &stops);
            }
            Waited::Item(Err(_)) | Waited::Ended => return worker::rest(AGAIN, &stops),
        }
    }
}

/// Carries an attempt out, and says what has become of it. It has no part in the way of I/O: what it comes over ends no node, and is told as all else that
/// ails it.
pub fn carry_out(
    what: &str,
    run: impl FnOnce() -> Result<&'static str, Error>,
    panicked: impl FnOnce() -> Result<(), Error>,
) {
    let _unwinding = Unwinding::begin();
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(become_of)) => log::info!("{what}: {become_of}"),
        Ok(Err(why)) => log::info!("{what} does not go on here: {why}"),
        Err(_) => {
            log::error!("{what} has panicked here");
            if let Err(why) = panicked() {
                log::debug!("why {what} does not go on is not noted: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_at_one_thing_no_oftener_than_that_and_forgets_what_is_gone() {
        let mut turns = Turns::default();
        assert_eq!(turns.begin(1), Ok(()));
        assert!(turns.begin(1).is_err_and(|rests| !rests.is_zero() && rests <= RETRY));
        assert_eq!(turns.begin(2), Ok(()));
        turns.keep(|_| false, |id| id != 1);
        assert_eq!(turns.begin(1), Ok(()));
        assert!(turns.begin(2).is_err());
    }
}
