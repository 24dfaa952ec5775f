//! What waits for the engine: renewals of leases before everything else.
//!
//! Nothing is refused for want of room: who asks has a place among the requests, or a stream, and what waits keeps it until it is
//! taken, also where who asked has gone away. So no more waits than there are of those, and no crowd of one sort keeps leases
//! from being renewed. A lease therefore ends when it is over, neither sooner nor later, however much is asked.

use super::engine::EngineRequest;
use super::shares::Hold;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Inner>);

#[derive(Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    renewals: VecDeque<(EngineRequest, Hold)>,
    others: VecDeque<(EngineRequest, Hold)>,
    /// A watch has room again.
    look: bool,
    stop: bool,
    /// Nobody takes anything any more.
    ended: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.renewals.is_empty() && self.others.is_empty() && !self.look && !self.stop
    }
}

/// The engine has ended.
pub(super) struct Ended;

impl Queue {
    /// Has it carried out; what is held for it is given back then.
    pub(super) fn put(&self, request: EngineRequest, hold: Hold) -> Result<(), Ended> {
        let mut waiting = self.lock();
        if waiting.ended {
            return Err(Ended);
        }
        let renews = matches!(request, EngineRequest::KeepAlive(..));
        let line = if renews {
            &mut waiting.renewals
        } else {
            &mut waiting.others
        };
        line.push_back((request, hold));
        drop(waiting);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Has it look which watches have room.
    pub(super) fn look(&self) {
        self.lock().look = true;
        self.0.changed.notify_one();
    }

    /// Has the engine end.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.0.changed.notify_one();
    }

    /// Waits until there is something to do, or so long; `false`: it is to end.
    pub(super) fn wait(&self, longest: Option<Duration>) -> bool {
        let until = longest.map(|longest| Instant::now() + longest);
        let mut waiting = self.lock();
        while waiting.is_empty() {
            waiting = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.0.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let waited = self.0.changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        waiting.look = false;
        !waiting.stop
    }

    /// A renewal of a lease, if one waits.
    pub(super) fn renewal(&self) -> Option<EngineRequest> {
        self.lock().renewals.pop_front().map(|(request, _)| request)
    }

    /// Anything else.
    pub(super) fn other(&self) -> Option<EngineRequest> {
        self.lock().others.pop_front().map(|(request, _)| request)
    }

    /// Whoever waits hears that nobody answers.
    pub(super) fn end(&self) {
        let mut waiting = self.lock();
        waiting.ended = true;
        let left = (
            std::mem::take(&mut waiting.renewals),
            std::mem::take(&mut waiting.others),
        );
        drop(waiting);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
