//! Passes of a move get shorter until a last one is short enough for hosts to wait for it (decision 080). Where they do not, because hosts write as
//! fast as the target takes it, hosts are slowed, in steps: as QEMU does to a guest whose memory it moves (*auto-converge*). Pure: told what each
//! pass was.
//!
//! A last pass for which its owner cannot hold long enough is not begun: hosts would wait for nothing. That is known for certain only of what cannot
//! be brought as fast as any pass has brought anything; all else is tried.
//!
//! What a pass brings was written while the one before was under way. So with writes at half the rate at which passes bring them each is half of
//! the one before; and a step is seen at the second pass behind it only.

use super::LONGEST_HOLD;
use std::time::Duration;

/// Hosts wait for a last pass of this length, and for what comes before and behind it: with that for less than 50 ms.
const LAST_PASS: Duration = Duration::from_millis(25);
/// Behind a pass that has brought no more than this the next one is a last one, whatever it has taken: less can hardly be had.
const FEW: u64 = 256 << 10;
/// After so many passes a last one is tried, however much is left.
const PATIENT_PASSES: u32 = 8;
/// Hosts write so many bytes a second at least: they are never stopped.
const LEAST_RATE: u64 = 1 << 20;
/// A pass that has brought so much tells how fast bytes are brought.
const TELLS: u64 = 1 << 20;
/// Behind a rest of this length hosts are slowed once more, though that was in vain: what was in the way then may have passed, and of a minute they
/// are slowed for a few passes.
const FORGIVEN: Duration = Duration::from_secs(10);

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lap {
    /// Bytes that it has brought.
    pub bytes: u64,
    /// From when its snapshot was to be taken until the next one was.
    pub took: Duration,
    /// Of that, what it took to ask which blocks were changed: by chunk, however little that is.
    pub asked_in: Duration,
    /// Of that, what it took to bring them, but for what a rate had it wait: a last pass keeps to none.
    pub brought_in: Duration,
}

impl Lap {
    /// Of a pass that took so long, and waited for so long of that for its rate. How long it was until the next snapshot was taken is known later.
    #[must_use]
    pub fn of(bytes: u64, pass: Duration, asked_in: Duration, paced_in: Duration) -> Lap {
        Lap {
            bytes,
            took: Duration::ZERO,
            asked_in,
            brought_in: pass.saturating_sub(asked_in + paced_in),
        }
    }

    /// Can it be made shorter by slowing hosts? Where most of it is to ask what was changed, or hardly anything was, it cannot.
    fn is_for_writes(&self) -> bool {
        self.bytes > FEW && self.brought_in > self.asked_in.max(LAST_PASS / 2)
    }
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A last pass: while its owner holds.
    Last,
    /// Another pass, while hosts write no faster than so many bytes a second; none: as fast as they like.
    Pass(Option<u64>),
    /// None yet: a last pass would take as long as that at least, which is longer than its owner holds, and nothing is to be gained by slowing hosts.
    TooLong(Duration),
}

/// How the passes of a move go that one runner makes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Converging {
    before: Option<Lap>,
    slowed: Option<u64>,
    /// Passes until the last step is seen.
    unseen: u32,
    /// Hosts were slowed as far as that helps, and left alone again, and it has not come to a switch: that is not done twice at once.
    is_in_vain: bool,
    /// As many bytes a second as any pass has brought.
    fastest: Option<u64>,
    /// As long as any pass that had to ask has asked.
    least_asked: Option<Duration>,
}

impl Converging {
    /// Behind a pass, of whose move so many snapshots were taken.
    pub fn behind(&mut self, lap: Lap, taken: u32) -> Next {
        let before = self.before.replace(lap);
        self.unseen = self.unseen.saturating_sub(1);
        self.note_fastest(lap);
        let takes = self.takes_at_least(lap);
        let is_tried = taken.is_multiple_of(PATIENT_PASSES);
        let last = || match takes <= LONGEST_HOLD {
            true => Next::Last,
            false => Next::TooLong(takes),
        };
        if takes <= LONGEST_HOLD && (lap.bytes <= FEW || lasts(lap, before) <= LAST_PASS || is_tried) {
            return Next::Last;
        }
        let gets_shorter = before.is_none_or(|before| lap.bytes <= before.bytes / 2);
        if !gets_shorter && self.unseen == 0 {
            if self.slowed == Some(LEAST_RATE) || self.slowed.is_some() && !lap.is_for_writes() {
                // No more is to be gained.
                return last();
            }
            self.slow(lap);
        }
        match is_tried && !gets_shorter && self.slowed.is_none() {
            // Nor do they by slowing hosts.
            true => last(),
            false => Next::Pass(self.slowed),
        }
    }

    /// How long a pass like this one takes at least, of as much, with all that was not in its way at one time or another.
    fn takes_at_least(&self, lap: Lap) -> Duration {
        let bringing = self.fastest.map_or(Duration::ZERO, |fastest| {
            Duration::from_secs_f64(lap.bytes as f64 / fastest.max(1) as f64)
        });
        let asking = self.least_asked.unwrap_or(lap.asked_in).min(lap.asked_in);
        asking + bringing.min(lap.brought_in)
    }

    fn note_fastest(&mut self, lap: Lap) {
        let us = lap.brought_in.as_micros().max(1);
        let rate = (u128::from(lap.bytes) * 1_000_000 / us).min(u128::from(u64::MAX)) as u64;
        if lap.bytes >= TELLS {
            self.fastest = self.fastest.max(Some(rate));
        }
        if !lap.asked_in.is_zero() {
            self.least_asked = Some(self.least_asked.unwrap_or(lap.asked_in).min(lap.asked_in));
        }
    }

    /// Behind a last pass that was not made in time: hosts write less until the next one, if that was why.
    pub fn late(&mut self) {
        if let Some(lap) = self.before {
            self.slow(lap);
        }
    }

    /// How many bytes a second hosts may write; none: they are not slowed.
    #[must_use]
    pub fn slowed(&self) -> Option<u64> {
        self.slowed
    }

    /// Hosts are left alone for so long, for last passes have come to nothing, and nothing is known of passes then. Where they had been slowed, they
    /// are not again before a rest that is long enough.
    pub fn rest(&mut self, time: Duration) {
        self.is_in_vain = (self.is_in_vain || self.slowed.is_some()) && time < FORGIVEN;
        self.begin_anew();
    }

    /// Nothing is known of passes: what was open was closed, for whatever reason.
    pub fn begin_anew(&mut self) {
        *self = Converging {
            is_in_vain: self.is_in_vain,
            fastest: self.fastest,
            least_asked: self.least_asked,
            ..Converging::default()
        };
    }

    /// To half the rate at which passes bring what was written, and to half of what it was at least. Hosts that write hardly more than they may
    /// at least are not why passes are long.
    fn slow(&mut self, lap: Lap) {
        if self.is_in_vain || !lap.is_for_writes() {
            return;
        }
        let us = lap.took.as_micros().max(1);
        let half = (u128::from(lap.bytes) * 500_000 / us).min(u128::from(u64::MAX)) as u64;
        if self.slowed.is_none() && half < LEAST_RATE {
            return;
        }
        let rate = self.slowed.map_or(half, |slowed| half.min(slowed / 2));
        (self.slowed, self.unseen) = (Some(rate.max(LEAST_RATE)), 2);
    }
}

/// How long the next pass takes: as the one behind which it comes, and longer where more is written during that than was during the one before.
fn lasts(lap: Lap, before: Option<Lap>) -> Duration {
    let Some(before) = before else {
        return lap.asked_in + lap.brought_in;
    };
    let (now, then) = (lap.took.as_micros(), before.took.as_micros().max(1));
    let times = (now as f64 / then as f64).max(1.0);
    lap.asked_in + lap.brought_in.mul_f64(times.min(1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts that change `rate` bytes a second, if nothing slows them, and a mover that brings so many, asks for that long which, and takes that long
    /// besides. Returns how many passes it took to the last one, how many bytes that has to bring, and how fast hosts were let write.
    fn made(rate: f64, brings: f64, asks: f64, besides: f64) -> (u32, f64, Option<u64>) {
        let mut converging = Converging::default();
        let (mut bytes, mut slowed) = (256e6, None::<u64>);
        for taken in 1..1000 {
            let brought = bytes / brings;
            let took = asks + brought + besides;
            let lap = Lap {
                bytes: bytes as u64,
                took: Duration::from_secs_f64(took),
                asked_in: Duration::from_secs_f64(asks),
                brought_in: Duration::from_secs_f64(brought),
            };
            bytes = took * slowed.map_or(rate, |slowed| rate.min(slowed as f64));
            // The eighth is tried whatever is left: that is not looked at here.
            match converging.behind(lap, 8 * taken + 1) {
                Next::Last | Next::TooLong(_) => return (taken, bytes, slowed),
                Next::Pass(next) => slowed = next,
            }
        }
        panic!("passes do not come to an end");
    }

    #[test]
    fn hosts_that_write_little_are_not_slowed() {
        let (passes, bytes, slowed) = made(1e6, 200e6, 0.002, 0.05);
        assert_eq!((passes, slowed), (2, None));
        assert!(bytes < 1e6, "{bytes}");
    }

    #[test]
    fn however_fast_hosts_write_passes_come_to_a_short_one() {
        for rate in [20e6, 100e6, 400e6, 4e9] {
            for brings in [20e6, 100e6] {
                let (passes, bytes, slowed) = made(rate, brings, 0.002, 0.1);
                assert!(passes <= 40, "{rate} {brings}: {passes}");
                assert!(bytes / brings < 0.06, "{rate} {brings}: {bytes}");
                assert!(slowed.is_none_or(|slowed| slowed >= LEAST_RATE));
            }
        }
    }

    /// Of a large volume: to ask what was changed takes a second, so hosts are slowed until it is not the bringing that is long, and no further.
    #[test]
    fn hosts_are_not_slowed_for_what_it_takes_to_ask() {
        let (passes, bytes, slowed) = made(400e6, 100e6, 1.0, 0.1);
        assert!(passes <= 40, "{passes}");
        assert!(bytes / 100e6 <= 1.1, "{bytes}");
        assert!(slowed.is_some_and(|slowed| slowed > 10 << 20), "{slowed:?}");
        let idle = Lap {
            bytes: 1 << 20,
            took: Duration::from_secs(2),
            asked_in: Duration::from_secs(1),
            brought_in: Duration::from_millis(50),
        };
        let mut converging = Converging::default();
        for _ in 0..5 {
            assert_eq!(converging.behind(idle, 1), Next::Pass(None));
            converging.late();
            assert_eq!(converging.slowed(), None);
        }
    }

    /// Questions give way to hosts, who are silent while they are held: the shortest ones tell how long a last pass asks.
    #[test]
    fn hosts_that_were_in_the_way_of_questions_are_not_in_the_way_of_a_last_pass() {
        let lap = |ms| Lap {
            bytes: 2 << 20,
            took: Duration::from_secs(2),
            asked_in: Duration::from_millis(ms),
            brought_in: Duration::from_millis(80),
        };
        let mut converging = Converging::default();
        assert_eq!(converging.behind(lap(2000), 1), Next::Pass(None));
        assert!(matches!(converging.behind(lap(2000), PATIENT_PASSES), Next::TooLong(_)));
        let mut converging = Converging::default();
        assert_eq!(converging.behind(lap(300), 1), Next::Pass(None));
        assert_eq!(converging.behind(lap(2000), PATIENT_PASSES), Next::Last);
    }

    /// A hold that was too short for another reason slows nobody who writes next to nothing, or less than everybody may.
    #[test]
    fn who_writes_little_is_not_slowed_behind_a_late_pass() {
        for bytes in [0, FEW, 2 * FEW] {
            let lap = Lap {
                bytes,
                took: Duration::from_secs(1),
                asked_in: Duration::ZERO,
                brought_in: Duration::from_millis(100),
            };
            let mut converging = Converging::default();
            converging.behind(lap, PATIENT_PASSES);
            converging.late();
            assert_eq!(converging.slowed(), None, "{bytes}");
        }
    }

    #[test]
    fn little_is_brought_at_once() {
        let lap = |bytes| Lap {
            bytes,
            took: Duration::from_secs(60),
            asked_in: Duration::ZERO,
            brought_in: Duration::from_secs(50),
        };
        assert_eq!(Converging::default().behind(lap(FEW), 2), Next::Last);
        assert_eq!(Converging::default().behind(lap(FEW + 1), 2), Next::Pass(None));
        assert_eq!(
            Converging::default().behind(lap(20 << 20), PATIENT_PASSES),
            Next::Pass(None)
        );
    }

    /// Of eight passes one is a last one however much is left, if that can be brought while its owner holds, as fast as it ever was.
    #[test]
    fn what_cannot_be_brought_while_hosts_wait_is_not_tried() {
        let lap = |bytes: u64, rate: u64| Lap {
            bytes,
            took: Duration::from_secs(60),
            asked_in: Duration::from_millis(10),
            brought_in: Duration::from_secs_f64(bytes as f64 / rate as f64),
        };
        let (fast, slow) = (100 << 20, 10 << 20);
        let mut converging = Converging::default();
        // Hosts were busy in the second pass, to whom it gave way: the first one tells how fast it can be.
        assert_eq!(converging.behind(lap(1 << 30, fast), 1), Next::Pass(None));
        assert_eq!(converging.behind(lap(50 << 20, slow), PATIENT_PASSES), Next::Last);
        // Two seconds, however it is done. Hosts are slowed first.
        let mut converging = Converging::default();
        assert_eq!(converging.behind(lap(1 << 30, fast), 1), Next::Pass(None));
        assert_eq!(
            converging.behind(lap(200 << 20, fast), PATIENT_PASSES),
            Next::Pass(None),
            "they get shorter"
        );
        let next = converging.behind(lap(200 << 20, fast), 2 * PATIENT_PASSES);
        assert!(matches!(next, Next::Pass(Some(_))), "{next:?}");
        // Where that was in vain it is told for how long they would have to wait.
        converging.rest(Duration::from_secs(1));
        let mut behind = |taken| converging.behind(lap(200 << 20, fast), taken);
        assert_eq!([1, 2].map(&mut behind), [Next::Pass(None); 2]);
        assert_eq!(behind(PATIENT_PASSES), Next::TooLong(Duration::from_millis(2_010)));
    }

    /// Hosts that write the same 16 MiB again and again, and a move that may read 1 MiB a second: the last pass keeps to no rate.
    #[test]
    fn what_a_rate_has_a_pass_wait_for_is_not_what_hosts_would_wait_for() {
        let ms = Duration::from_millis;
        let lap = Lap {
            took: ms(17_000),
            ..Lap::of(16 << 20, ms(16_010), ms(10), ms(15_840))
        };
        let mut converging = Converging::default();
        assert_eq!(converging.behind(lap, 1), Next::Pass(None));
        assert_eq!(converging.behind(lap, PATIENT_PASSES), Next::Last);
        // One that really takes so long is not tried, and hosts that write hardly more than everybody may are not slowed.
        let slow = Lap {
            took: ms(17_000),
            ..Lap::of(16 << 20, ms(16_010), ms(10), Duration::ZERO)
        };
        let mut converging = Converging::default();
        assert_eq!(converging.behind(slow, 1), Next::Pass(None));
        assert_eq!(converging.behind(slow, PATIENT_PASSES), Next::TooLong(ms(16_010)));
    }

    /// The owner has changed, and all of a large volume was asked for: the next pass asks for what was changed.
    #[test]
    fn hosts_do_not_wait_for_a_pass_that_asks_for_long() {
        let lap = |ms| Lap {
            bytes: 0,
            took: Duration::from_secs(3),
            asked_in: Duration::from_millis(ms),
            brought_in: Duration::ZERO,
        };
        let mut converging = Converging::default();
        assert_eq!(converging.behind(lap(2_000), 2), Next::Pass(None));
        assert_eq!(converging.behind(lap(5), 3), Next::Last);
    }

    #[test]
    fn a_step_is_seen_before_the_next_one_is_taken_and_what_was_in_vain_is_not_done_again_at_once() {
        let lap = Lap {
            bytes: 100 << 20,
            took: Duration::from_secs(1),
            asked_in: Duration::ZERO,
            brought_in: Duration::from_secs(1),
        };
        let mut converging = Converging::default();
        let half = Next::Pass(Some(50 << 20));
        assert_eq!(converging.behind(lap, 1), Next::Pass(None), "nothing is known yet");
        assert_eq!(converging.behind(lap, 1), half);
        assert_eq!(converging.behind(lap, 1), half, "it was written before");
        assert_eq!(converging.behind(lap, 1), Next::Pass(Some(25 << 20)));
        // What fails in between says nothing of that.
        let mut closed = converging;
        closed.begin_anew();
        assert_eq!(closed.slowed(), None);
        assert_eq!([closed.behind(lap, 1), closed.behind(lap, 1)], [Next::Pass(None), half]);
        converging.late();
        assert_eq!(converging.slowed(), Some((25 << 20) / 2));
        converging.rest(Duration::from_millis(500));
        converging.late();
        assert_eq!(converging.slowed(), None);
        for _ in 0..5 {
            assert_eq!(converging.behind(lap, 1), Next::Pass(None));
            converging.late();
        }
        assert_eq!(converging.slowed(), None);
        // Not at the next one, either. Behind a long one hosts are slowed once more, and if that comes to nothing again there is another rest.
        converging.rest(Duration::from_secs(1));
        assert_eq!([1, 1].map(|taken| converging.behind(lap, taken)), [Next::Pass(None); 2]);
        converging.rest(FORGIVEN);
        assert_eq!(
            [1, 1].map(|taken| converging.behind(lap, taken)),
            [Next::Pass(None), half]
        );
        converging.rest(Duration::from_secs(1));
        assert_eq!([1, 1].map(|taken| converging.behind(lap, taken)), [Next::Pass(None); 2]);
    }
}
