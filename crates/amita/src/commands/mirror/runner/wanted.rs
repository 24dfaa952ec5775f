//! Is what is done for a mirror wanted still, and ours?

use amita_metadata::{Call, Client, Op};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_types::map::{self, Mirror, PointName};
use amita_types::{MirrorEpoch, MirrorId};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether it is wanted.
const LOOK: Duration = Duration::from_millis(500);

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

/// Is it wanted still, and ours?
pub(super) struct Wanted {
    client: Client,
    name: String,
    claim: u64,
    lost: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    goal: Cell<Option<Goal>>,
    looked: Cell<Instant>,
    /// Something of it has said no.
    called_off: Cell<bool>,
}

impl Wanted {
    pub fn new(client: Client, name: &str, claim: u64, lost: Arc<AtomicBool>, stop: Arc<AtomicBool>) -> Wanted {
        Wanted {
            client,
            name: name.to_owned(),
            claim,
            lost,
            stop,
            goal: Cell::new(None),
            looked: Cell::new(Instant::now()),
            called_off: Cell::new(false),
        }
    }

    /// This node ends, or another one is at the mirror.
    pub fn is_over(&self) -> bool {
        interrupt::caught() || self.stop.load(Ordering::Relaxed) || self.lost.load(Ordering::Relaxed)
    }

    /// From now on it is wanted for as long as the record says this.
    pub fn go_by(&self, record: &Mirror) {
        self.goal.set(Some(Goal::of(record)));
    }

    /// From now on it is wanted whatever the record says.
    pub fn go_by_nothing(&self) {
        self.goal.set(None);
    }

    /// It was called off, and what the record says now is to be done; told once.
    pub fn was_called_off(&self) -> bool {
        self.called_off.take()
    }

    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<()> {
        if self.is_over() {
            return Err(self.no("this node ends, or another one is at it"));
        }
        if self.called_off.get() {
            return Err(self.no("it was called off"));
        }
        let Some(goal) = self.goal.get() else { return Ok(()) };
        if self.looked.get().elapsed() < LOOK {
            return Ok(());
        }
        self.looked.set(Instant::now());
        let call = Call {
            then: vec![
                Op::Get {
                    key: map::mirror_key(&self.name),
                },
                Op::Get {
                    key: map::mirror_runner_key(&self.name),
                },
            ],
            ..Call::default()
        };
        // A pass needs no metadata before its place is noted.
        let Ok(reply) = self.client.txn(&call) else {
            return Ok(());
        };
        let record: Option<Mirror> = reply.value(0).and_then(|found| found.json().ok());
        if record.is_none_or(|record| goal != Goal::of(&record)) {
            return Err(self.no("it was called off"));
        }
        match reply.value(1).is_some_and(|found| found.mod_revision == self.claim) {
            true => Ok(()),
            false => Err(self.lose()),
        }
    }

    /// Another node is at it.
    pub fn lose(&self) -> Failure {
        self.lost.store(true, Ordering::Relaxed);
        self.no("another node is at it")
    }

    fn no(&self, why: &str) -> Failure {
        self.called_off.set(true);
        Failure::new(why).kind(Kind::Interrupted)
    }

    /// # Errors
    /// It is not wanted any more.
    pub fn rest(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}
