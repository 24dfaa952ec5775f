use super::*;
use crate::mailbox;

/// CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn timers_fire_in_order_and_not_early() {
    each_way(|config| {
        let mut bench = Bench::new(config);
        let start = bench.driver.now();
        for (at, token) in [(30, 3), (10, 1), (20, 2), (15, 9)] {
            let id = bench.driver.timer(start.plus(Duration::from_millis(at)), Token(token));
            if token == 9 {
                bench.driver.cancel_timer(id);
            }
        }
        let mut fired = Vec::new();
        while fired.len() < 3 {
            bench.driver.poll(Wait::UntilEvent, &mut bench.done);
            for done in bench.done.drain(..) {
                assert!(matches!(done.outcome, Outcome::Timer));
                assert!(bench.driver.now() >= start.plus(Duration::from_millis(done.token.0 * 10)));
                fired.push(done.token.0);
            }
        }
        assert_eq!(fired, [1, 2, 3]);
    });
}

#[test]
fn a_poll_that_may_not_wait_returns_at_once() {
    let mut bench = Bench::new(UringConfig::default());
    let before = Instant::now();
    for _ in 0..100 {
        bench.driver.poll(Wait::No, &mut bench.done);
    }
    assert!(bench.done.is_empty() && before.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_idle_driver_sleeps() {
    let mut bench = Bench::new(UringConfig::default());
    let (_, _) = bench.driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
    bench.driver.timer(Time(500_000_000), Token(2));
    bench.driver.poll(Wait::No, &mut bench.done);
    let before = cpu();
    assert!(matches!(bench.wait(2), Outcome::Timer));
    assert!(
        cpu() - before < Duration::from_millis(5),
        "{:?} in half a second",
        cpu() - before
    );
}

#[test]
fn a_wake_ends_a_block_and_no_wake_is_lost() {
    each_way(|config| {
        let mut bench = Bench::new(config);
        let (mut sender, mut receiver) = mailbox::channel::<u64>(8, bench.driver.waker());
        const MESSAGES: u64 = 20_000;
        let thread = std::thread::spawn(move || {
            for number in 0..MESSAGES {
                let mut message = number;
                while let Err(back) = sender.send(message) {
                    message = back;
                    std::thread::yield_now();
                }
                if number % 1000 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let mut next = 0;
        while next < MESSAGES {
            bench.driver.poll(Wait::UntilEvent, &mut bench.done);
            assert!(bench.done.drain(..).all(|done| matches!(done.outcome, Outcome::Woken)));
            for number in receiver.drain() {
                assert_eq!(number, next);
                next += 1;
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn yielding_is_earned_by_short_blocks_lost_by_a_long_one_and_dearer_after_a_failure() {
    let short = Duration::from_micros(50);
    let mut pace = Pace::default();
    let tries_after = |pace: &mut Pace, blocks: u32| {
        pace.begin();
        for _ in 0..blocks {
            pace.blocked(short);
        }
        pace.should_yield(16)
    };
    assert!(!tries_after(&mut pace, 0), "an idle core blocks at once");
    assert!(!tries_after(&mut pace, 1));
    assert!(tries_after(&mut pace, 1));
    assert!(!pace.should_yield(0));
    pace.give_way();
    pace.found();
    assert!(tries_after(&mut pace, 0), "it goes on while it pays");
    pace.give_way();
    pace.blocked(short);
    assert!(
        !tries_after(&mut pace, 2) && tries_after(&mut pace, 1),
        "after a failure four are needed"
    );
    pace.blocked(Duration::from_millis(1));
    assert!(
        !tries_after(&mut pace, 3) && tries_after(&mut pace, 1),
        "after a long block all are needed again"
    );
}
