//! Why an attempt at a run ends before its end.

use amita_types::map::{BackupPolicy, BackupRepository};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The node ends.
    Node,
    /// The key is lost, or must be taken for lost.
    Lost,
    /// The policy, or the task, or its repository is another one, or gone.
    Changed,
    /// Its time is over.
    Limit,
}

/// What is looked at by the attempt, again and again, and set by whoever looks after it.
#[derive(Debug)]
pub struct Ends<P = BackupPolicy> {
    node: Arc<AtomicBool>,
    /// Of the policy's key, once it is had.
    key: OnceLock<Arc<AtomicBool>>,
    lost: AtomicBool,
    changed: AtomicBool,
    begun: Instant,
    limit: Duration,
    by: Mutex<Option<(P, Option<BackupRepository>)>>,
    /// What the attempt does now.
    step: Mutex<String>,
}

impl<P: Clone + PartialEq> Ends<P> {
    /// Of an attempt that begins now. `node`: the node ends.
    pub fn new(node: Arc<AtomicBool>, limit: Duration) -> Ends<P> {
        Ends {
            node,
            key: OnceLock::new(),
            lost: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            begun: Instant::now(),
            limit,
            by: Mutex::new(None),
            step: Mutex::default(),
        }
    }

    /// The policy's key is had, and lost when that says so.
    pub fn holds(&self, lost: &Arc<AtomicBool>) {
        let _ = self.key.set(Arc::clone(lost));
    }

    /// What the attempt goes by.
    pub fn goes_by(&self, policy: &P, repository: Option<&BackupRepository>) {
        let by = Some((policy.clone(), repository.cloned()));
        *self.by.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }

    /// So it is now: if the attempt goes by something else, it ends.
    pub fn compare(&self, policy: Option<&P>, repository: Option<&BackupRepository>) {
        let by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        if by
            .as_ref()
            .is_some_and(|(known, place)| Some(known) != policy || place.as_ref() != repository)
        {
            self.change();
        }
    }

    pub fn change(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// The key is given up, also where the attempt does not come to its end.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        if let Some(key) = self.key.get() {
            key.store(true, Ordering::Relaxed);
        }
    }

    pub fn why(&self) -> Option<Why> {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is(&self.lost) || self.key.get().is_some_and(|key| is(key)) {
            Some(Why::Lost)
        } else if is(&self.node) {
            Some(Why::Node)
        } else if is(&self.changed) {
            Some(Why::Changed)
        } else {
            (self.begun.elapsed() >= self.limit).then_some(Why::Limit)
        }
    }

    /// The attempt comes to this now.
    pub fn comes_to(&self, step: impl Into<String>) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step.into();
    }

    /// What the attempt has come to last; nothing: it has not begun.
    pub fn step(&self) -> String {
        self.step.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For so long it should have ended.
    pub fn overdue(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.limit)
    }
}
