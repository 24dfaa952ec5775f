//! Passes of a move get shorter until a last one is short enough for hosts to wait for it (decision 080). Where they do not, because hosts write as
//! fast as the target takes it, hosts are slowed, in steps: as QEMU does to a guest whose memory it moves (*auto-converge*). Pure: told what each
//! pass was.
//!
//! What a pass brings was written while the one before was under way. So with writes at half the rate at which passes bring them each is half of
//! the one before; and a step is seen at the second pass behind it only.

use std::time::Duration;

/// Hosts wait for a last pass of this length, and for what comes before and behind it: with that for less than 50 ms.
const LAST_PASS: Duration = Duration::from_millis(25);
/// Behind a pass that has brought no more than this the next one is a last one, whatever it has taken: less can hardly be had.
const FEW: u64 = 256 << 10;
/// After so many passes a last one is tried, however much is left.
const PATIENT_PASSES: u32 = 8;
/// Hosts write so many bytes a second at least: they are never stopped.
const LEAST_RATE: u64 = 1 << 20;

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lap {
    /// Bytes that it has brought.
    pub bytes: u64,
    /// From when its snapshot was to be taken until the next one was.
    pub took: Duration,
    /// Of that, what it took to ask for what was changed, and to bring it.
    pub brought_in: Duration,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A last pass: while its owner holds.
    Last,
    /// Another pass, while hosts write no faster than so many bytes a second; none: as fast as they like.
    Pass(Option<u64>),
}

/// How the passes of a move go that one runner makes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Converging {
    before: Option<Lap>,
    slowed: Option<u64>,
    /// Passes until the last step is seen.
    unseen: u32,
}

impl Converging {
    /// Behind a pass, of whose move so many snapshots were taken.
    pub fn behind(&mut self, lap: Lap, taken: u32) -> Next {
        let before = self.before.replace(lap);
        self.unseen = self.unseen.saturating_sub(1);
        if lap.bytes <= FEW || lasts(lap, before) <= LAST_PASS || taken.is_multiple_of(PATIENT_PASSES) {
            return Next::Last;
        }
        let gets_shorter = before.is_none_or(|before| lap.bytes <= before.bytes / 2);
        if !gets_shorter && self.unseen == 0 {
            if self.slowed == Some(LEAST_RATE) {
                // No more is to be gained.
                return Next::Last;
            }
            self.slow(lap);
        }
        Next::Pass(self.slowed)
    }

    /// Behind a last pass that was not made in time: hosts write less until the next one.
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

    /// Hosts are left alone for a while, and nothing is known of passes then.
    pub fn rest(&mut self) {
        *self = Converging::default();
    }

    /// To half the rate at which passes bring what was written, and to half of what it was at least.
    fn slow(&mut self, lap: Lap) {
        let us = lap.took.as_micros().max(1);
        let half = (u128::from(lap.bytes) * 500_000 / us).min(u128::from(u64::MAX)) as u64;
        let rate = self.slowed.map_or(half, |slowed| half.min(slowed / 2));
        (self.slowed, self.unseen) = (Some(rate.max(LEAST_RATE)), 2);
    }
}

/// How long the next pass takes: as the one behind which it comes, and longer where more is written during that than was during the one before.
fn lasts(lap: Lap, before: Option<Lap>) -> Duration {
    let Some(before) = before else {
        return lap.brought_in;
    };
    let (now, then) = (lap.took.as_micros(), before.took.as_micros().max(1));
    let times = (now as f64 / then as f64).max(1.0);
    lap.brought_in.mul_f64(times.min(1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts that change `rate` bytes a second, if nothing slows them, and a mover that brings so many, and takes that long for a pass besides. Returns
    /// how many passes it took to the last one, how many bytes that has to bring, and how fast hosts were let write.
    fn made(rate: f64, brings: f64, besides: f64) -> (u32, f64, Option<u64>) {
        let mut converging = Converging::default();
        let (mut bytes, mut slowed) = (256e6, None::<u64>);
        for taken in 1..1000 {
            let brought = bytes / brings;
            let took = brought + besides;
            let lap = Lap {
                bytes: bytes as u64,
                took: Duration::from_secs_f64(took),
                brought_in: Duration::from_secs_f64(brought),
            };
            bytes = took * slowed.map_or(rate, |slowed| rate.min(slowed as f64));
            // The eighth is tried whatever is left: that is not looked at here.
            match converging.behind(lap, 8 * taken + 1) {
                Next::Last => return (taken, bytes, slowed),
                Next::Pass(next) => slowed = next,
            }
        }
        panic!("passes do not come to an end");
    }

    #[test]
    fn hosts_that_write_little_are_not_slowed() {
        let (passes, bytes, slowed) = made(1e6, 200e6, 0.05);
        assert_eq!((passes, slowed), (2, None));
        assert!(bytes < 1e6, "{bytes}");
    }

    #[test]
    fn however_fast_hosts_write_passes_come_to_a_short_one() {
        for rate in [20e6, 100e6, 400e6, 4e9] {
            for brings in [20e6, 100e6] {
                let (passes, bytes, slowed) = made(rate, brings, 0.1);
                assert!(passes <= 40, "{rate} {brings}: {passes}");
                assert!(bytes / brings < 0.06, "{rate} {brings}: {bytes}");
                assert!(slowed.is_none_or(|slowed| slowed >= LEAST_RATE));
            }
        }
    }

    #[test]
    fn a_pass_that_is_long_whatever_it_brings_is_tried_when_no_more_is_to_be_gained() {
        // To ask for what was changed alone takes a second.
        let mut converging = Converging::default();
        let mut slowed = Some(u64::MAX);
        for _ in 0..100 {
            let lap = Lap {
                bytes: 10 << 20,
                took: Duration::from_secs(2),
                brought_in: Duration::from_secs(1),
            };
            match converging.behind(lap, 1) {
                Next::Last => {
                    assert_eq!(slowed, Some(LEAST_RATE));
                    return;
                }
                Next::Pass(rate) => slowed = rate,
            }
        }
        panic!("it is never tried");
    }

    #[test]
    fn little_is_brought_at_once_and_much_after_eight_passes() {
        let lap = |bytes| Lap {
            bytes,
            took: Duration::from_secs(60),
            brought_in: Duration::from_secs(50),
        };
        assert_eq!(Converging::default().behind(lap(FEW), 2), Next::Last);
        assert_eq!(Converging::default().behind(lap(FEW + 1), 2), Next::Pass(None));
        assert_eq!(Converging::default().behind(lap(1 << 40), PATIENT_PASSES), Next::Last);
    }

    #[test]
    fn a_step_is_seen_before_the_next_one_is_taken() {
        let lap = Lap {
            bytes: 100 << 20,
            took: Duration::from_secs(1),
            brought_in: Duration::from_secs(1),
        };
        let mut converging = Converging::default();
        let half = Next::Pass(Some(50 << 20));
        assert_eq!(converging.behind(lap, 1), Next::Pass(None), "nothing is known yet");
        assert_eq!(converging.behind(lap, 1), half);
        assert_eq!(converging.behind(lap, 1), half, "it was written before");
        assert_eq!(converging.behind(lap, 1), Next::Pass(Some(25 << 20)));
        converging.late();
        assert_eq!(converging.slowed(), Some((25 << 20) / 2));
        converging.rest();
        converging.late();
        assert_eq!(converging.slowed(), None);
        assert_eq!(converging.behind(lap, 1), Next::Pass(None));
    }
}
