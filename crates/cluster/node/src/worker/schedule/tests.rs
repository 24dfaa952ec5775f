use super::*;
use amita_frontend::Wanted;
use std::collections::BTreeMap;

/// What one exponentiation costs: of the smallest group, of the largest that is taken by default, and of the largest.
const COSTS: [Duration; 3] = [
    Duration::from_micros(500),
    Duration::from_micros(2_700),
    Duration::from_micros(12_000),
];

fn address(number: u32) -> IpAddr {
    IpAddr::from(number.to_be_bytes())
}

fn computation(source: u32, cost: Duration) -> (Computation, Wanted) {
    Computation::new(address(source), cost, || ())
}

/// Takes all that may be done until that time, each at the moment when it may be, and counts what it cost, by source.
fn run(schedule: &mut Schedule<u32>, from: Time, until: Time) -> BTreeMap<u32, Duration> {
    let mut spent: BTreeMap<u32, Duration> = BTreeMap::new();
    let mut now = from;
    while now < until {
        match schedule.next(now) {
            Next::Do(computation, source) => *spent.entry(source).or_default() += computation.cost(),
            Next::At(time) => {
                assert!(time > now, "it is not said again and again");
                now = time;
            }
            Next::Nothing => break,
        }
    }
    spent
}

fn total(spent: &BTreeMap<u32, Duration>) -> Duration {
    spent.values().sum()
}

/// Whatever strangers ask for, from however many addresses: in each second the node computes its share of a second, beside what it has
/// saved up once, and one more computation.
#[test]
fn what_strangers_can_have_computed_is_bounded() {
    for cost in COSTS {
        for sources in [1, 3, 1000] {
            let mut schedule = Schedule::default();
            let mut kept = Vec::new();
            let mut spent: BTreeMap<u32, Duration> = BTreeMap::new();
            for second in 0..10 {
                let (from, until) = (Time(second * 1_000_000_000), Time((second + 1) * 1_000_000_000));
                for number in 0..5_000 {
                    let (computation, wanted) = computation(number % sources, cost);
                    schedule.push(computation, number % sources);
                    kept.push(wanted);
                }
                for (source, more) in run(&mut schedule, from, until) {
                    *spent.entry(source).or_default() += more;
                }
                let seconds = second as u32 + 1;
                let bound = BURST + SHARE * seconds + cost;
                assert!(
                    total(&spent) <= bound,
                    "{sources} sources, {seconds} s: {:?}",
                    total(&spent)
                );
                for (source, own) in &spent {
                    let bound = BURST_OF_SOURCE + SHARE_OF_SOURCE * seconds + cost;
                    assert!(*own <= bound, "source {source} of {sources}, {seconds} s: {own:?}");
                }
            }
            // And it is not much less: whoever has to wait is served all the same.
            let due = if sources < 4 {
                SHARE_OF_SOURCE * sources * 9
            } else {
                SHARE * 9
            };
            assert!(total(&spent) >= due, "{sources} sources: {:?}", total(&spent));
        }
    }
}

#[test]
fn a_host_does_not_wait_for_strangers() {
    let mut schedule = Schedule::default();
    let mut kept = Vec::new();
    for number in 0..20_000 {
        let (computation, wanted) = computation(1 + number % 50, COSTS[1]);
        schedule.push(computation, 1 + number % 50);
        kept.push(wanted);
    }
    // They have used up what is saved; then a host comes.
    run(&mut schedule, Time(0), Time(3_000_000_000));
    let (mine, _wanted) = computation(9999, COSTS[0]);
    let refused = schedule.push(mine, 9999);
    assert_ne!(refused, Some(9999), "there is room for it");
    let mut now = Time(3_000_000_000);
    let mut before = 0;
    loop {
        match schedule.next(now) {
            Next::Do(_, 9999) => break,
            Next::Do(..) => before += 1,
            Next::At(time) => now = time,
            Next::Nothing => panic!("it is lost"),
        }
    }
    assert!(before <= 50, "each of the others had a turn, at most: {before}");
    assert!(now.since(Time(3_000_000_000)) < Duration::from_secs(1), "{now:?}");
}

#[test]
fn what_nobody_waits_for_costs_nothing() {
    let mut schedule = Schedule::default();
    let (first, wanted) = computation(1, COSTS[0]);
    let (second, kept) = computation(1, COSTS[0]);
    assert_eq!(schedule.push(first, 1), None);
    assert_eq!(schedule.push(second, 2), None);
    drop(wanted);
    assert!(matches!(schedule.next(Time(0)), Next::Do(_, 2)));
    assert!(matches!(schedule.next(Time(0)), Next::Nothing));
    assert_eq!(schedule.all.left, (BURST - COSTS[0]).as_nanos() as i64);
    drop(kept);
}

#[test]
fn what_waits_is_bounded_and_the_longest_queue_pays() {
    let mut schedule = Schedule::default();
    let mut kept = Vec::new();
    let mut push = |schedule: &mut Schedule<u32>, source: u32| {
        let (computation, wanted) = computation(source, COSTS[0]);
        kept.push(wanted);
        schedule.push(computation, source)
    };
    for _ in 0..MAX_WAITING_OF_SOURCE {
        assert_eq!(push(&mut schedule, 1), None);
    }
    assert_eq!(push(&mut schedule, 1), Some(1), "its own queue is full");
    for source in 2..=4 {
        for _ in 0..MAX_WAITING_OF_SOURCE {
            assert_eq!(push(&mut schedule, source), None);
        }
    }
    assert_eq!(schedule.count, MAX_WAITING);
    // A newcomer gets the place of one that has many.
    for source in 10..20 {
        assert!(push(&mut schedule, source).is_some_and(|refused| refused <= 4));
    }
    assert_eq!(schedule.count, MAX_WAITING);
    // Where nobody waits any more, there is room.
    kept.clear();
    let (computation, _wanted) = computation(7, COSTS[0]);
    assert_eq!(schedule.push(computation, 7), None);
    assert_eq!(schedule.count, 1);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut schedule = Schedule::default();
    let mut now = Time(0);
    for number in 0..3 * MAX_SOURCES as u32 {
        let (computation, _wanted) = computation(number, COSTS[0]);
        schedule.push(computation, number);
        loop {
            match schedule.next(now) {
                Next::At(time) => now = time,
                Next::Do(..) => break,
                Next::Nothing => panic!("it was wanted"),
            }
        }
        assert!(schedule.sources.len() <= MAX_SOURCES);
    }
}
