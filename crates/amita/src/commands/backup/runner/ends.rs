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
    /// When somebody first saw that it is to end.
    told: OnceLock<Instant>,
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
            told: OnceLock::new(),
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
        if self.why().is_some() {
            self.told.get_or_init(Instant::now);
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

    /// For so long it should have ended; none: it need not.
    pub fn overdue(&self) -> Option<Duration> {
        let limit = self.begun.elapsed().checked_sub(self.limit);
        self.told.get().map(Instant::elapsed).max(limit)
    }

    /// What is known of an attempt that does not end: what it had come to, and not what has it wait there.
    pub fn stuck(&self, node: &str) -> String {
        let step = match self.step() {
            step if step.is_empty() => "it has not begun".to_owned(),
            step => format!("it was at this last: {step}"),
        };
        let why = match self.begun.elapsed() >= self.limit {
            true => format!("its limit of {} s is over", self.limit.as_secs()),
            false => "it was told to end".to_owned(),
        };
        format!("node {node} does not come to an end with it, though {why}: {step}")
    }
}
