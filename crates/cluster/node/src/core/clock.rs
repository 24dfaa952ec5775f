//! When a core's passes begin, when the next one is due, and whether the core runs at all (R9).

use amita_reactor::driver::{Driver, Time, TimerId, Token};
use std::time::Duration;

/// However busy a core is, time is passed on to its parts so often.
const TICK_PAUSE: Duration = Duration::from_millis(20);
/// How often a core with hosts that other gateways serve as well looks at the clock.
pub(super) const PULSE: Duration = Duration::from_millis(250);

/// The clock of one core's passes.
#[derive(Debug)]
pub(super) struct Clock {
    timer: Option<(Time, TimerId)>,
    /// Something happened that is no part of an I/O: the parts that see to the rest are looked at.
    stirred: bool,
    /// When one of those parts is due.
    rest_due: Option<Time>,
    /// When time is next passed on to all parts.
    tick_due: Time,
    /// When the present pass began: what came in, came in before.
    began: Time,
    passes: u64,
    /// When the next pass begins at the latest, if the core runs.
    pulse: Option<Time>,
    /// This pass began late: what it has to read is read before anything that waits is sent.
    late: bool,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            timer: None,
            stirred: true,
            rest_due: None,
            tick_due: Time(0),
            began: Time(0),
            passes: 0,
            pulse: None,
            late: false,
        }
    }

    pub(super) fn begin_pass(&mut self, now: Time) {
        self.began = now;
        self.passes += 1;
    }

    /// When the present pass began.
    pub(super) fn began(&self) -> Time {
        self.began
    }

    /// How many passes there were.
    pub(super) fn passes(&self) -> u64 {
        self.passes
    }

    /// Something happened that is no part of an I/O.
    pub(super) fn stir(&mut self) {
        self.stirred = true;
    }

    /// Is time to be passed on to all parts in this pass?
    pub(super) fn is_tick_due(&self, now: Time) -> bool {
        self.stirred || now >= self.tick_due
    }

    /// It is: whatever a part is due for may change when it is due next.
    pub(super) fn begin_tick(&mut self, now: Time) {
        self.tick_due = now.plus(TICK_PAUSE);
        self.stirred = true;
    }

    /// When a part is due that sees to what is no part of an I/O: asked of `rest` only if something happened to it.
    pub(super) fn rest_due(&mut self, rest: impl FnOnce() -> Option<Time>) -> Option<Time> {
        if std::mem::take(&mut self.stirred) {
            self.rest_due = rest();
        }
        self.rest_due
    }

    /// The pass began: when it was to begin at the latest, if the core had been running. With `None` nobody asks.
    pub(super) fn check_pulse(&mut self, now: Time, due: Option<Time>) {
        self.late = due.is_some_and(|at| now > at.plus(PULSE));
    }

    /// When the next pass is to begin at the latest.
    pub(super) fn pulse(&self) -> Option<Time> {
        self.pulse
    }

    /// The end of a pass: the next one begins soon, if `needed`.
    pub(super) fn set_pulse(&mut self, now: Time, needed: bool) {
        self.pulse = needed.then(|| now.plus(PULSE));
    }

    /// Did this pass begin late?
    pub(super) fn is_late(&self) -> bool {
        self.late
    }

    /// All that came in meanwhile has been read. Did the pass begin late?
    pub(super) fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.late)
    }

    /// The timer has fired.
    pub(super) fn fired(&mut self) {
        self.timer = None;
    }

    /// When the timer fires.
    pub(super) fn timer(&self) -> Option<Time> {
        self.timer.map(|(at, _)| at)
    }

    /// Sets the one timer to the nearest deadline.
    pub(super) fn arm(&mut self, driver: &mut dyn Driver, next: Time, token: Token) {
        self.tick_due = self.tick_due.min(next);
        // A timer that fires early costs one pass; one that is moved costs a little each time: only move it forward
        // in time when it would fire too late.
        if let Some((at, timer)) = self.timer {
            if at <= next {
                return;
            }
            driver.cancel_timer(timer);
        }
        self.timer = Some((next, driver.timer(next, token)));
    }
}
