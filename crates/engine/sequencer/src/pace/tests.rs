//! A core with clients and a rebuild, simulated: what the clients feel hangs on how many windows are under way.

use super::*;

const MS: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn time(ms: u64) -> Time {
    Time(ms * MS)
}

/// A disk that clients and a rebuild share: each window under way costs the clients some latency.
struct Disk {
    pace: Pace,
    now: Time,
    /// Windows under way: when each ends, and its start.
    windows: Vec<(Time, Time)>,
    /// Clients' I/Os a second.
    iops: u64,
    /// What an I/O takes without windows, and more for each window.
    alone_us: u64,
    more_us: u64,
    rebuild: Option<Level>,
    window_ms: u64,
    /// What a window moves.
    bytes: u64,
    seed: u64,
    /// One in fifty takes so many times as long, one way or the other.
    odd_times: u64,
    /// What clients saw, and what the rebuild moved, each window taken for a full one, since it was looked at.
    seen: crate::histogram::Histogram,
    moved: u64,
}

impl Disk {
    fn new(settings: &Recovery) -> Disk {
        Disk {
            pace: Pace::new(settings, 1),
            now: time(1),
            windows: Vec::new(),
            iops: 2000,
            alone_us: 200,
            more_us: 100,
            rebuild: None,
            window_ms: 4,
            bytes: 128 << 10,
            seed: 7,
            odd_times: 4,
            seen: Default::default(),
            moved: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.seed >> 33) % below
    }

    fn run(&mut self, length: Duration) {
        let end = self.now.plus(length);
        self.seen.clear();
        self.moved = 0;
        while self.now < end {
            // A step of half a millisecond.
            self.now = self.now.plus(Duration::from_micros(500));
            let now = self.now;
            let over: Vec<_> = self.windows.extract_if(.., |(ends, _)| *ends <= now).collect();
            for (_, started) in over {
                let level = self.rebuild.unwrap_or(Level::Degraded);
                self.pace.end(now, level, started, self.bytes, 4);
                self.moved += 128 << 10;
            }
            if let Some(level) = self.rebuild {
                while self.windows.len() < 8 && self.pace.start(now, level).is_ok() {
                    self.windows.push((now.plus(ms(self.window_ms)), now));
                }
            }
            let mut ios = self.iops / 2000;
            ios += u64::from(self.random(2000) < self.iops % 2000);
            for io in 0..ios {
                let mut us = self.alone_us + self.more_us * self.windows.len() as u64;
                if self.random(50) == 0 {
                    us *= self.odd_times;
                }
                us += self.random(us / 4 + 1);
                let latency = Duration::from_micros(us);
                self.seen.record(latency);
                self.pace.client(now, io % 2 == 0, latency);
            }
        }
    }

    fn p99_us(&self) -> u64 {
        self.seen.permille(990).as_micros() as u64
    }

    fn mean_us(&self) -> u64 {
        self.seen.mean().as_micros() as u64
    }
}

#[test]
fn a_rebuild_leaves_the_clients_their_latency() {
    for (more_us, window_ms) in [(100, 4), (400, 4), (800, 2), (20, 1)] {
        let mut disk = Disk::new(&Recovery::default());
        (disk.more_us, disk.window_ms) = (more_us, window_ms);
        disk.run(ms(5000));
        let (p99, mean) = (disk.p99_us(), disk.mean_us());
        disk.rebuild = Some(Level::Degraded);
        disk.run(ms(10_000));
        disk.run(ms(60_000));
        let (during, mean_during) = (disk.p99_us(), disk.mean_us());
        assert!(
            during <= p99 * 22 / 10,
            "{more_us}: p99 {p99} us before, {during} during"
        );
        // 70 % of the throughput, with a little for the search itself.
        assert!(
            mean_during * 65 <= mean * 100,
            "{more_us}: mean {mean} us before, {mean_during} during"
        );
        assert!(disk.moved > 10 << 20, "{more_us}: {} bytes in a minute", disk.moved);
    }
}

#[test]
fn what_is_not_urgent_takes_half_of_what_clients_may_lose() {
    for level in [Level::Rebalance, Level::Scrub] {
        let mut disk = Disk::new(&Recovery::default());
        // The mean decides, and not the tail.
        disk.more_us = 20;
        disk.run(ms(5000));
        let mean = disk.mean_us();
        disk.rebuild = Some(level);
        disk.run(ms(10_000));
        disk.run(ms(60_000));
        let during = disk.mean_us();
        assert!(
            during * 82 <= mean * 100,
            "{level:?}: mean {mean} us before, {during} during"
        );
        // One window after the other, which costs a tenth.
        assert!(disk.moved > 1 << 30, "{level:?}: {} bytes in a minute", disk.moved);
    }
}

#[test]
fn what_costs_the_clients_nothing_goes_on_at_full_speed() {
    // By default scrubs have 4 windows.
    for (level, windows) in [(Level::Degraded, 8), (Level::Rebalance, 8), (Level::Scrub, 4)] {
        // Also where nearly nothing may be lost.
        for iops_percent in [70, 95] {
            let mut disk = Disk::new(&Recovery {
                iops_percent,
                ..Recovery::default()
            });
            disk.more_us = 0;
            disk.run(ms(3000));
            disk.rebuild = Some(level);
            disk.run(ms(10_000));
            disk.run(ms(20_000));
            let most = windows * 250 * 20 * (128 << 10);
            let moved = disk.moved;
            assert!(moved > most / 10 * 8, "{level:?}, {iops_percent}: {moved} of {most}");
        }
    }
}

#[test]
fn what_costs_the_clients_nothing_is_not_held_back_by_chance() {
    for (iops, odd_times) in [(2000, 15), (400, 8), (400, 15)] {
        let mut disk = Disk::new(&Recovery::default());
        (disk.more_us, disk.iops, disk.odd_times) = (0, iops, odd_times);
        disk.run(ms(5000));
        disk.rebuild = Some(Level::Rebalance);
        disk.run(ms(60_000));
        disk.run(ms(120_000));
        let most = 8 * 250 * 120 * (128 << 10);
        let moved = disk.moved;
        assert!(
            moved > most / 2,
            "{iops} a second, odd ones {odd_times} times: {moved} of {most}"
        );
    }
}

#[test]
fn idle_clients_need_no_care_and_get_it_when_they_are_back() {
    let mut disk = Disk::new(&Recovery::default());
    disk.more_us = 800;
    disk.run(ms(3000));
    let p99 = disk.p99_us();
    disk.iops = 0;
    disk.rebuild = Some(Level::Degraded);
    disk.run(ms(3000));
    disk.run(ms(1000));
    let most = 8 * 250 * (128 << 10);
    assert!(disk.moved > most / 10 * 8, "{} of {most}", disk.moved);
    disk.iops = 2000;
    disk.run(ms(3000));
    disk.run(ms(10_000));
    let during = disk.p99_us();
    assert!(during <= p99 * 22 / 10, "p99 {p99} us before, {during} during");
}

#[test]
fn a_rebuild_that_finds_clients_at_work_first_sees_what_is_normal() {
    let mut disk = Disk::new(&Recovery::default());
    disk.more_us = 1000;
    disk.rebuild = Some(Level::Degraded);
    disk.run(ms(5000));
    assert!(disk.pace.status().pauses >= 1);
    disk.run(ms(40_000));
    let status = disk.pace.status();
    assert!((2..=4).contains(&status.pauses), "{status:?}");
    // One in fifty takes four times as long.
    assert!(status.normal_p99[0] < Duration::from_micros(1100), "{status:?}");
    let during = disk.p99_us();
    assert!(during <= 2200, "p99 {during} us");
}

#[test]
fn a_group_without_a_copy_to_spare_never_waits_for_good() {
    for (level, least) in [(Level::Critical, 8), (Level::Scrub, 0)] {
        let mut disk = Disk::new(&Recovery::default());
        // Whatever is done hurts.
        disk.more_us = 20_000;
        disk.run(ms(3000));
        disk.rebuild = Some(level);
        disk.run(ms(20_000));
        disk.run(ms(20_000));
        let per_second = disk.moved / (128 << 10) / 20;
        assert!(per_second >= least, "{level:?}: {per_second} windows a second");
        assert!(disk.moved > 0, "{level:?}");
        assert!(per_second < 100, "{level:?}: {per_second} windows a second");
    }
}

/// Whatever is done hurts, and takes long: what each level moves of a rate that is to be kept, in bytes a second.
fn moved_at(settings: &Recovery, cores: u16, level: Level) -> u64 {
    let mut disk = Disk::new(settings);
    disk.pace.set(settings, cores);
    (disk.more_us, disk.window_ms) = (20_000, 400);
    disk.run(ms(3000));
    disk.rebuild = Some(level);
    disk.run(ms(20_000));
    disk.run(ms(60_000));
    disk.moved / 60
}

#[test]
fn lost_copies_are_brought_back_at_the_rate_that_is_kept() {
    let kept = Recovery {
        least_bytes_per_s: 1 << 20,
        ..Recovery::default()
    };
    for level in [Level::Critical, Level::Degraded] {
        let without = moved_at(&Recovery::default(), 1, level);
        assert!(without > 0 && without < 200 << 10, "{level:?}: {without} without one");
        let with = moved_at(&kept, 1, level);
        // For a second in twenty it is learned what is normal.
        assert!((900 << 10..1100 << 10).contains(&with), "{level:?}: {with}");
        let share = moved_at(&kept, 4, level);
        assert!(
            (200 << 10..300 << 10).contains(&share),
            "{level:?}: {share} of one core of four"
        );
    }
    for level in [Level::Rebalance, Level::Scrub] {
        let with = moved_at(&kept, 1, level);
        assert!(with < 200 << 10, "{level:?}: {with}, which no copy is lost for");
    }
    // A limit is a limit.
    let limited = Recovery {
        degraded: Limits {
            bytes_per_s: 256 << 10,
            ..Limits::default()
        },
        ..kept
    };
    let with = moved_at(&limited, 1, Level::Degraded);
    assert!(with < 300 << 10, "{with}");
}

#[test]
fn windows_that_find_nothing_keep_to_the_rate_as_well() {
    let settings = Recovery {
        least_bytes_per_s: 1 << 20,
        ..Recovery::default()
    };
    let mut disk = Disk::new(&settings);
    (disk.more_us, disk.window_ms, disk.bytes) = (20_000, 400, 0);
    disk.run(ms(3000));
    disk.rebuild = Some(Level::Degraded);
    disk.run(ms(20_000));
    disk.run(ms(60_000));
    let windows = disk.moved / (128 << 10);
    assert!(
        (420..=500).contains(&windows),
        "{windows} in a minute, of which 480 are due"
    );
}

#[test]
fn what_was_moved_faster_counts_for_a_second_of_what_comes() {
    let settings = Recovery {
        least_bytes_per_s: 1 << 20,
        ..Recovery::default()
    };
    let mut disk = Disk::new(&settings);
    // Nothing hurts at first, and it goes far beyond the rate.
    disk.more_us = 0;
    disk.run(ms(3000));
    disk.rebuild = Some(Level::Degraded);
    disk.run(ms(20_000));
    assert!(disk.moved > 200 << 20, "{}", disk.moved);
    (disk.more_us, disk.window_ms) = (20_000, 400);
    disk.run(ms(10_000));
    disk.run(ms(20_000));
    assert!(disk.moved / 20 > 900 << 10, "{} a second", disk.moved / 20);
}

#[test]
fn limits_hold_on_each_core_and_for_each_level() {
    let limit = |bytes_per_s, iops, windows| Limits {
        bytes_per_s,
        iops,
        windows,
    };
    for (limits, windows_per_s) in [
        (limit(16 << 20, 0, 0), 128),
        (limit(0, 400, 0), 100),
        (limit(0, 0, 1), 250),
    ] {
        let settings = Recovery {
            automatic: false,
            degraded: limits,
            ..Recovery::default()
        };
        let mut disk = Disk::new(&settings);
        disk.rebuild = Some(Level::Degraded);
        disk.run(ms(1000));
        disk.run(ms(10_000));
        let found = disk.moved / (128 << 10) / 10;
        assert!(
            found.abs_diff(windows_per_s) <= windows_per_s / 8,
            "{limits:?}: {found} windows a second"
        );
        let mut disk = Disk::new(&settings);
        disk.pace.set(&settings, 4);
        disk.rebuild = Some(Level::Degraded);
        disk.run(ms(10_000));
        let share = disk.moved / (128 << 10) / 10;
        let expected = if limits.windows == 1 { 250 } else { windows_per_s / 4 };
        assert!(share.abs_diff(expected) <= expected / 8 + 1, "{limits:?}: {share}");
    }
}

#[test]
fn the_more_urgent_goes_first() {
    let settings = Recovery {
        automatic: false,
        critical: Limits {
            windows: 1,
            ..Limits::default()
        },
        ..Recovery::default()
    };
    let mut pace = Pace::new(&settings, 1);
    assert_eq!(pace.start(time(1), Level::Scrub), Ok(()));
    assert_eq!(pace.start(time(1), Level::Critical), Ok(()));
    let again = pace.start(time(2), Level::Critical).unwrap_err();
    assert!(again > time(2));
    assert!(pace.start(time(3), Level::Degraded).is_err(), "more urgent work waits");
    pace.end(time(4), Level::Critical, time(1), 0, 0);
    assert_eq!(pace.start(time(5), Level::Critical), Ok(()));
    assert_eq!(pace.start(time(5), Level::Degraded), Ok(()));
    assert!(pace.start(time(6), Level::Critical).is_err());
    // It has lost interest.
    assert_eq!(pace.start(time(40), Level::Rebalance), Ok(()));
}

#[test]
fn a_pass_ends_when_it_is_dropped() {
    let settings = Recovery {
        automatic: false,
        degraded: Limits {
            bytes_per_s: 1 << 20,
            windows: 1,
            ..Limits::default()
        },
        ..Recovery::default()
    };
    let pacer = Pacer::new(&settings, 1);
    let mut pass = pacer.start(time(1), Level::Degraded).unwrap();
    assert!(pacer.start(time(2), Level::Degraded).is_err());
    let forced = pacer.force(time(2), Level::Degraded);
    drop(forced);
    pass.add(1 << 20, 2);
    assert!(!pass.is_old(time(2)) && pass.is_old(time(600)));
    pacer.tell(time(10));
    drop(pass);
    let again = pacer.start(time(11), Level::Degraded).unwrap_err();
    assert_eq!(again, time(1010), "it is paid for after a second");
    assert!(pacer.start(again, Level::Degraded).is_ok());
    assert_eq!(pacer.status().bytes, 1 << 20);
}

/// One window at a time for data that is to lie elsewhere.
fn narrow() -> Pace {
    let one = Limits {
        windows: 1,
        ..Limits::default()
    };
    let settings = Recovery {
        automatic: false,
        rebalance: one,
        scrub: one,
        ..Recovery::default()
    };
    Pace::new(&settings, 1)
}

/// Copies ask whenever one of their windows ends, and others only now and then.
#[test]
fn copies_and_what_is_as_little_urgent_take_turns() {
    let mut pace = narrow();
    let (mut copies, mut others) = (0, 0);
    for at in 0..1000 {
        let now = time(at);
        if at % 5 == 0 && pace.start(now, Level::Rebalance).is_ok() {
            others += 1;
            pace.end(now, Level::Rebalance, now, 0, 1);
        }
        if pace.start_copy(now).is_ok() {
            copies += 1;
            // It is under way until somebody asks again.
            let end = now.plus(Duration::from_micros(999));
            pace.start(end, Level::Rebalance).unwrap_err();
            pace.end(end, Level::Rebalance, now, 0, 1);
        }
    }
    assert!(copies >= 450 && others >= 90, "{copies} {others}");
}

#[test]
fn copies_alone_wait_for_no_turn_and_keep_nobody_out_who_has_other_limits() {
    let mut pace = narrow();
    for at in 0..100 {
        pace.start_copy(time(at)).unwrap();
        pace.start_copy(time(at)).unwrap_err();
        if at == 50 {
            // Its own limit keeps it then, and no copy is kept by that.
            pace.start(time(at), Level::Scrub).unwrap();
        }
        if at >= 50 {
            pace.start(time(at), Level::Scrub).unwrap_err();
        }
        pace.end(time(at), Level::Rebalance, time(at), 0, 1);
    }
}

#[test]
fn copies_give_way_to_what_is_urgent() {
    let mut pace = narrow();
    pace.settings.automatic = true;
    pace.start(time(1), Level::Degraded).unwrap();
    pace.start(time(2), Level::Critical).unwrap_err();
    pace.end(time(2), Level::Degraded, time(1), 0, 1);
    pace.start_copy(time(3)).unwrap_err();
    pace.start(time(3), Level::Critical).unwrap();
}
