//! A move comes to its end (decision 080, M1 to M6): passes until little is left, a last one while the volume's owner holds, and the switch.

use super::pass::{Step, TAKING_FOR, Work, now};
use crate::admin::Described;
use amita_control::admin::{self, Dressed, Lap, Next, Pass, Switched};
use amita_terminal::error::Result;
use amita_types::map::{Copying, Moving, Snapshot};
use std::time::{Duration, Instant};

/// Where more last passes than this came to nothing, one behind the other, hosts are left alone for a while before the next one,
const AT_ONCE: u32 = 4;
/// for so long at first, twice as long each time, and never for longer than that; and it is told why.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// How often it is looked whether the last snapshot is taken: hosts wait meanwhile.
const LOOK: Duration = Duration::from_millis(1);

/// How long hosts are left alone when so many last passes came to nothing.
fn pause(missed: u32) -> Duration {
    let (first, longest) = PAUSES;
    match missed.checked_sub(AT_ONCE) {
        None | Some(0) => Duration::ZERO,
        Some(more) => longest.min(first * (1 << (more - 1).min(10))),
    }
}

/// Last passes that came to nothing, one behind the other.
#[derive(Default)]
pub(super) struct Missed {
    last_passes: u32,
    /// The last one.
    why: String,
    /// Hosts were left alone since.
    has_rested: bool,
}

impl Missed {
    /// One more came to nothing.
    fn count(&mut self, why: &str) {
        *self = Missed {
            last_passes: self.last_passes.saturating_add(1),
            why: why.to_owned(),
            has_rested: false,
        };
    }

    /// For how long hosts are to be left alone before the next one, if they were not since the last one.
    fn rest(&mut self) -> Option<Duration> {
        let rest = pause(self.last_passes);
        (!rest.is_zero() && !std::mem::replace(&mut self.has_rested, true)).then_some(rest)
    }
}

impl Work {
    /// The target is what the newest snapshot is: there is another pass, or the last one.
    pub(super) fn move_on(&mut self, record: &Copying) -> Result<Step> {
        let Some(moving) = record.moving else {
            return Ok(Step::Ended);
        };
        // What another runner has opened is opened anew, and has a pass of its own.
        let lap = self.lap.take().filter(|_| self.target.is_some());
        let next = lap.map(|lap| {
            let took = self.lap_began.elapsed();
            self.converging.behind(Lap { took, ..lap }, moving.taken)
        });
        log::debug!("move {}: {lap:?}, and then {next:?}", self.volume);
        if next != Some(Next::Last) {
            return self.another_pass(false);
        }
        // Before anybody holds for it.
        admin::may_switch(&self.client, record).described()?;
        if let Some(rest) = self.missed.rest() {
            let why = format!(
                "{} last passes came to nothing, lately because {}; hosts are left alone for {} s before the next one",
                self.missed.last_passes,
                self.missed.why,
                rest.as_secs_f32()
            );
            self.converging.rest();
            self.note(&|record| {
                record.ails = Some(why.clone());
                if let Some(moving) = &mut record.moving {
                    moving.slowed = None;
                }
            })?;
            self.wanted.rest(rest)?;
            return self.another_pass(false);
        }
        match admin::dress_move(&self.client, record, self.claim).described()? {
            Dressed::Done => self.last_pass(moving),
            Dressed::Lacks => self.another_pass(false),
            Dressed::Lost => Err(self.wanted.lose()),
        }
    }

    fn another_pass(&mut self, late: bool) -> Result<Step> {
        if late {
            self.converging.late();
        }
        let slowed = self.converging.slowed();
        let next = admin::next_move_pass(&self.client, self.volume, self.claim, late, slowed).described()?;
        let record = next.ok_or_else(|| self.wanted.lose())?;
        // Nobody holds now, so there is time for what the passes before have left; and the record names none of that any more.
        admin::forget_move_snapshots(&self.client, &record, &[record.place.base]).described()?;
        Ok(Step::More)
    }

    /// Its owner takes the last snapshot, and holds. What is not done when it lets go is a pass as any, and there is another one.
    fn last_pass(&mut self, moving: Moving) -> Result<Step> {
        let slowed = self.converging.slowed();
        let next = admin::next_move_pass(&self.client, self.volume, self.claim, false, slowed).described()?;
        let mut record = next.ok_or_else(|| self.wanted.lose())?;
        let hold = admin::move_hold(moving);
        let until = Instant::now() + TAKING_FOR;
        let last = loop {
            let taken = admin::take_last_snapshot(&self.client, &record, self.claim, hold, now());
            if let Some(taken) = taken.described()? {
                break taken;
            }
            self.untaken_within(until, &record.of, &record.snapshot, LOOK)?;
        };
        let began = Instant::now();
        record.place.last = Some(last.number);
        self.hurries_until = began + 4 * hold;
        if !self.bring_last(&record, &last)? {
            self.missed_one("other snapshots of it were taken meanwhile, or it has another size by now");
            // The next step settles for it as for any other.
            return Ok(Step::More);
        }
        match admin::switch_volume(&self.client, &record, self.claim, last.number).described()? {
            Switched::Made => {
                let took = began.elapsed();
                log::info!(
                    "move {}: the last pass and the switch took {} ms",
                    self.volume,
                    took.as_millis()
                );
                self.close();
                Ok(Step::More)
            }
            Switched::Lost => Err(self.wanted.lose()),
            Switched::LetGo => self.came_to_nothing("its owner has let go", true),
            Switched::Anew(why) => self.came_to_nothing(&why, false),
        }
    }

    /// The pass is made that the owner holds for. `false`: it is none of which only that snapshot is left.
    fn bring_last(&mut self, record: &Copying, last: &Snapshot) -> Result<bool> {
        let ahead = admin::points_ahead(&self.client, record, last.number).described()?;
        if ahead.iter().any(|point| point.number != last.number) {
            return Ok(false);
        }
        let next = admin::next_pass(&self.client, record).described()?;
        let Pass::To {
            of,
            snapshot,
            base: Some(base),
        } = next
        else {
            return Ok(false);
        };
        let Some(mut target) = self.target.take() else {
            return Ok(false);
        };
        if target.size_bytes() != snapshot.size_bytes {
            self.target = Some(target);
            return Ok(false);
        }
        // It is little, and hosts wait.
        self.hurries = true;
        let mut place = record.place;
        (place.pass, place.pass_bytes) = (snapshot.number, 0);
        // None of it is noted: that would take time, and whoever goes on from the place before writes the same bytes again.
        let copied = self.copy(&mut target, &mut place, &of, &snapshot, Some(base.as_str()), true);
        self.target = Some(target);
        copied?;
        Ok(true)
    }

    /// The switch was not made: there is another pass, from where the one before the last has ended.
    fn came_to_nothing(&mut self, why: &str, late: bool) -> Result<Step> {
        self.missed_one(why);
        self.another_pass(late)
    }

    /// Hosts were held for nothing.
    fn missed_one(&mut self, why: &str) {
        log::info!("move {}: another last pass is needed: {why}", self.volume);
        self.missed.count(why);
    }

    /// The volume is in the other pool: its snapshots get their names there, and the record goes.
    pub(super) fn end_move(&mut self, record: &Copying) -> Result<Step> {
        self.held(admin::end_move(&self.client, record, self.claim))?;
        Ok(Step::Ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_left_alone_when_it_does_not_end() {
        let of = |missed| pause(missed).as_millis();
        assert_eq!([0, 4, 5, 6, 7].map(of), [0, 0, 500, 1_000, 2_000]);
        assert_eq!(of(u32::MAX), 60_000);
    }

    #[test]
    fn hosts_are_left_alone_once_for_each_that_came_to_nothing() {
        let mut missed = Missed::default();
        for _ in 0..AT_ONCE {
            missed.count("its owner has let go");
            assert_eq!(missed.rest(), None);
        }
        missed.count("other snapshots of it were taken");
        assert_eq!(
            (missed.last_passes, missed.why.as_str()),
            (5, "other snapshots of it were taken")
        );
        assert_eq!(missed.rest(), Some(Duration::from_millis(500)));
        assert_eq!(missed.rest(), None);
        missed.count("its owner has let go");
        assert_eq!(missed.rest(), Some(Duration::from_secs(1)));
    }
}
