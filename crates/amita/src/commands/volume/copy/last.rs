//! A move comes to its end (decision 080, M1 to M6): passes until little is left, a last one while the volume's owner holds, and the switch.

use super::pass::{Step, TAKING_FOR, Work, now};
use crate::admin::Described;
use amita_control::admin::{self, Dressed, LONGEST_HOLD, Lap, Next, Pass, Switched};
use amita_terminal::error::Result;
use amita_types::map::{Copying, Moving, Snapshot};
use std::fmt;
use std::time::{Duration, Instant};

/// Where more last passes than this came to nothing, one behind the other, hosts are left alone for a while before the next one,
const AT_ONCE: u32 = 4;
/// for so long at first, twice as long each time, and never for longer than that; and it is told why.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// How often it is looked whether the last snapshot is taken: hosts wait meanwhile.
const LOOK: Duration = Duration::from_millis(1);
/// Within a hold the metadata is asked so many times as often as to look whether a move may be switched.
const ASKED_ON_HOLD: u32 = 3;
/// What helps where hosts would have to wait for longer than they may.
const WHAT_HELPS: &str =
    "have hosts write less for a while, or take load from the nodes and the metadata (`amita status`)";

/// How long hosts are left alone when so many last passes came to nothing.
fn pause(missed: u32) -> Duration {
    let (first, longest) = PAUSES;
    match missed.checked_sub(AT_ONCE) {
        None | Some(0) => Duration::ZERO,
        Some(more) => longest.min(first * (1 << (more - 1).min(10))),
    }
}

/// More than that the pass itself is not expected to take: where it was longer, that was for hosts, to whom a last one does not give way.
const LAST_PASS: Duration = Duration::from_millis(25);

/// Why it did not come to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// Its owner let go behind so long a hold; it would have taken so long.
    Late {
        hold: Duration,
        took: Duration,
    },
    /// It was not begun, for it would have taken that at least.
    TooLong(Duration),
    Other(String),
}

impl Default for Why {
    fn default() -> Why {
        Why::Other(String::new())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = LONGEST_HOLD.as_millis();
        match self {
            Why::Late { hold, took } => write!(
                out,
                "hosts' I/O was held for {} ms, and the last pass and the switch took {} ms (it is held for {longest} ms at most): {WHAT_HELPS}",
                hold.as_millis(),
                took.as_millis(),
            ),
            Why::TooLong(takes) => write!(
                out,
                "a last pass would take {} ms at least, and hosts' I/O is held for {longest} ms at most: {WHAT_HELPS}",
                takes.as_millis(),
            ),
            Why::Other(why) => out.write_str(why),
        }
    }
}

/// Last passes that came to nothing, one behind the other, or were not begun.
#[derive(Default)]
pub(super) struct Missed {
    last_passes: u32,
    /// The last one.
    why: Why,
    /// Hosts were left alone since.
    has_rested: bool,
}

impl Missed {
    /// One more came to nothing.
    fn count(&mut self, why: Why) {
        *self = Missed {
            last_passes: self.last_passes.saturating_add(1),
            why,
            has_rested: false,
        };
    }

    /// What an operator is told who asks why it does not come to an end.
    fn told(&self, rest: Duration) -> String {
        format!(
            "it has not come to a switch {} times, lately because {}. Hosts are left alone for {} s before the next attempt",
            self.last_passes,
            self.why,
            rest.as_secs_f32()
        )
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
        match next {
            Some(Next::Last) => {}
            Some(Next::TooLong(takes)) => {
                self.missed_one(Why::TooLong(takes));
                return match self.missed.rest() {
                    Some(rest) => self.rest(rest),
                    None => self.another_pass(None),
                };
            }
            Some(Next::Pass(_)) | None => return self.another_pass(None),
        }
        let asked = Instant::now();
        // Before anybody holds for it.
        admin::may_switch(&self.client, record).described()?;
        let asked = asked.elapsed();
        if let Some(rest) = self.missed.rest() {
            return self.rest(rest);
        }
        match admin::dress_move(&self.client, record, self.claim).described()? {
            Dressed::Done => {
                let passes = lap.map(|lap| (lap.asked_in + lap.brought_in).min(LAST_PASS));
                self.last_pass(moving, passes.unwrap_or_default() + ASKED_ON_HOLD * asked)
            }
            Dressed::Lacks => self.another_pass(None),
            Dressed::Lost => Err(self.wanted.lose()),
        }
    }

    /// Hosts are left alone for so long, and it is told why.
    fn rest(&mut self, rest: Duration) -> Result<Step> {
        let why = self.missed.told(rest);
        self.converging.rest(rest);
        self.note(&|record| {
            record.ails = Some(why.clone());
            if let Some(moving) = &mut record.moving {
                moving.slowed = None;
            }
        })?;
        self.wanted.rest(rest)?;
        self.another_pass(None)
    }

    /// `late`: the last pass was not made in time, and took so long.
    fn another_pass(&mut self, late: Option<Duration>) -> Result<Step> {
        if late.is_some() {
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
    /// It is expected to take so long.
    fn last_pass(&mut self, moving: Moving, expected: Duration) -> Result<Step> {
        let slowed = self.converging.slowed();
        let next = admin::next_move_pass(&self.client, self.volume, self.claim, None, slowed).described()?;
        let mut record = next.ok_or_else(|| self.wanted.lose())?;
        let hold = admin::move_hold(moving, expected);
        let asked = Instant::now();
        let until = asked + TAKING_FOR;
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
            self.missed_one(Why::Other(
                "other snapshots of it were taken meanwhile, or it has another size by now".to_owned(),
            ));
            // The next step settles for it as for any other.
            return Ok(Step::More);
        }
        let brought = began.elapsed();
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
            Switched::LetGo => {
                // Since it was asked for: a little more than its owner would have had to hold.
                let took = asked.elapsed();
                log::debug!(
                    "move {}: the snapshot took {} ms, the pass {} ms",
                    self.volume,
                    (began - asked).as_millis(),
                    brought.as_millis()
                );
                self.missed_one(match took >= hold {
                    true => Why::Late { hold, took },
                    false => {
                        Why::Other("its owner has let go of hosts' I/O, or another gateway owns it by now".to_owned())
                    }
                });
                self.another_pass(Some(took))
            }
            Switched::Anew(why) => {
                self.missed_one(Why::Other(why));
                self.another_pass(None)
            }
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

    /// Hosts were held for nothing, or would have been: there is another pass, from where the one before the last has ended.
    fn missed_one(&mut self, why: Why) {
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
        let late = || Why::Late {
            hold: LONGEST_HOLD,
            took: Duration::from_millis(1_240),
        };
        let mut missed = Missed::default();
        for _ in 0..AT_ONCE {
            missed.count(late());
            assert_eq!(missed.rest(), None);
        }
        let other = Why::Other("other snapshots of it were taken".to_owned());
        missed.count(other.clone());
        assert_eq!((missed.last_passes, &missed.why), (5, &other));
        assert_eq!(missed.rest(), Some(Duration::from_millis(500)));
        assert_eq!(missed.rest(), None);
        missed.count(late());
        assert_eq!(missed.rest(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn why_it_does_not_come_to_a_switch_is_told_with_what_helps() {
        let mut missed = Missed::default();
        missed.count(Why::Late {
            hold: LONGEST_HOLD,
            took: Duration::from_millis(1_240),
        });
        let told = missed.told(Duration::from_secs(1));
        assert!(
            told.contains("held for 720 ms, and the last pass and the switch took 1240 ms"),
            "{told}"
        );
        assert!(
            told.contains(WHAT_HELPS) && told.contains("left alone for 1 s"),
            "{told}"
        );
        missed.count(Why::TooLong(Duration::from_millis(2_010)));
        let told = missed.told(Duration::from_secs(60));
        assert!(told.contains("2 times") && told.contains("2010 ms at least"), "{told}");
        assert!(told.contains(WHAT_HELPS), "{told}");
    }
}
