//! A host that is silent while a command of it grows old.
//!
//! A host that hears nothing by a path gives it up when its keep alive time is over, and goes on by another **at once**. What this
//! gateway has of it then must not be carried out any more (R9). Keep alive ends a controller that was silent for the whole of
//! that time; but the host counts from when it *sent* a Keep Alive, and what is carried out late has to come to the volume's owner
//! still. So a command that is older than [`Config::stale_after`](crate::Config) is kept only while the host is heard: a command of this queue or
//! of the admin queue, where Keep Alive comes twice in its time from hosts as they are (Linux), within [`PART`] of it. Else the queue
//! ends, and with it all that it has waiting.

use super::{End, Queue};
use crate::admin::ControllerShared;
use amita_frontend::engine::Engine;
use amita_frontend::front::CloseReason;
use amita_reactor::Time;
use std::time::Duration;

/// Percent of the keep alive time for which a host may be silent while a command of it is old: more than the half after which hosts
/// send the next Keep Alive, and as much less than the whole as a command may take to the owner.
const PART: u32 = 60;
/// For hosts without a keep alive time.
const NO_KEEP_ALIVE: Duration = Duration::from_secs(3);
/// All queues of a core look at the same moments, so far apart, and at the one when a host that stays silent is given up: to look takes a walk
/// over all its sessions.
const LOOK: Duration = Duration::from_millis(250);

/// Queues tell the others of their controller so often that its host is heard.
const TELL_NS: u64 = 250_000_000;

/// When the host was heard, and when to look for that.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// When to look for old commands; none while there is no command.
    pub look_at: Option<Time>,
    /// When this queue has taken a command last.
    pub heard_at: Time,
    /// When the controller's other queues were told that it was.
    pub told_at: Time,
}

impl Watch {
    /// Is it to be told to the controller's other queues that the host is heard? Asked with each command.
    pub fn is_to_be_told(&self, now: Time) -> bool {
        now.0.saturating_sub(self.told_at.0) >= TELL_NS
    }

    /// A command has come.
    pub fn command(&mut self, now: Time, stale_after: Duration) {
        self.heard_at = now;
        if self.look_at.is_none() {
            self.look_at = Some(next_look(now.plus(stale_after)));
        }
    }

    /// Ends the queue when a command has grown old and the host was not heard.
    pub(super) fn look(
        &mut self,
        controller: &ControllerShared,
        engine: &mut Engine<Queue>,
        stale_after: Duration,
        now: Time,
    ) -> Result<(), End> {
        if self.look_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        let Some(oldest) = engine.oldest(|request| request.own.since) else {
            self.look_at = None;
            return Ok(());
        };
        let old_at = oldest.plus(stale_after);
        if now < old_at {
            self.look_at = Some(next_look(old_at));
            return Ok(());
        }
        let limit = match controller.kato_ms() {
            0 => NO_KEEP_ALIVE,
            kato_ms => Duration::from_millis(u64::from(kato_ms)) * PART / 100,
        };
        let silent_at = self.heard_at.max(controller.heard_at()).plus(limit);
        if now >= silent_at {
            return Err(End::Now(CloseReason::Timeout));
        }
        self.look_at = Some(next_look(Time(now.0 + 1)).min(silent_at));
        Ok(())
    }
}

/// The first moment to look that is not before this one.
fn next_look(at: Time) -> Time {
    Time(at.0.next_multiple_of(LOOK.as_nanos() as u64))
}
