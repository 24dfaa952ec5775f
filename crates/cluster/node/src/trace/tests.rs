//! Which I/Os are traced, and what is kept of them.

use super::*;
use amita_frontend::FrontId;

fn at(us: u64) -> Time {
    Time(us * 1000)
}

fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

fn origin(trace: TraceId, arrived: Time, parsed: Time) -> Origin {
    Origin {
        core: 0,
        front: FrontId(1),
        tag: 1,
        arrived,
        parsed,
        kept: arrived,
        trace,
        host: amita_frontend::HostKey::NONE,
        generation: amita_types::Generation(0),
        snapshot: amita_types::SnapshotId::HEAD,
    }
}

const OP: Op = Op::Write {
    offset: 4096,
    length: 4096,
};
const VOLUME: VolumeId = VolumeId(7);

fn one_in(one_in: u32) -> TraceConfig {
    TraceConfig {
        one_in,
        at_least_every: Duration::from_secs(1000),
        kept: 4,
        ..TraceConfig::default()
    }
}

fn end(traces: &mut Traces, now: Time, origin: &Origin, began: Time, course: &Course) {
    traces.ended(
        now,
        &Ended {
            origin,
            began,
            volume: VOLUME,
            op: OP,
            error: None,
            course,
        },
    );
}

/// Drives one traced I/O with two stores through all of its stages, beginning at `from`.
fn whole(traces: &mut Traces, from: u64) -> TraceId {
    traces.begin_pass();
    let id = traces.sample(at(from));
    assert!(id.is_some() && traces.is_hot());
    let origin = origin(id, at(from), at(from + 1));
    traces.open(at(from + 2), &origin, VOLUME, OP);
    traces.sent(at(from + 5), id, StoreId(1), true);
    traces.sent(at(from + 5), id, StoreId(2), false);
    traces.left(at(from + 9));
    let stages = |answered_us: u32| StoreTrace {
        id,
        issued_ns: 1000,
        data_ns: 2000,
        log_ns: 3000,
        durable_ns: 3000,
        answered_ns: answered_us * 1000,
    };
    traces.answered(at(from + 20), StoreId(1), &stages(4));
    traces.begin_pass();
    traces.answered(at(from + 50), StoreId(2), &stages(10));
    let course = Course {
        sent: at(from + 2),
        answered: at(from + 50),
        last: Some(StoreId(2)),
        missed: None,
    };
    end(traces, at(from + 52), &origin, at(from + 2), &course);
    traces.acknowledge(&origin, 0);
    assert!(traces.is_hot());
    assert_eq!(traces.acknowledged(at(from + 60)), None);
    id
}

#[test]
fn the_stages_follow_one_another_and_sum_to_the_total() {
    let mut traces = Traces::new(one_in(1), 0);
    let id = whole(&mut traces, 1000);
    let trace = traces.recent().next().expect("it has ended");
    assert_eq!((trace.id, trace.total()), (id, us(60)));
    let stages: Vec<(&str, u128)> = trace
        .stages()
        .map(|(stage, took)| (stage.name(), took.as_micros()))
        .collect();
    assert_eq!(
        stages,
        [
            ("parse", 1),
            ("hop", 1),
            ("sequence", 3),
            ("send", 4),
            ("stores", 41),
            ("order", 2),
            ("acknowledge", 8)
        ]
    );
    let last = trace.last_leg().expect("one answered last");
    assert_eq!((last.store, last.way()), (StoreId(2), us(31)));
    // One in this process has the request when it leaves the sequencer.
    assert_eq!(trace.legs[0].way(), us(11));
    assert_eq!(traces.stages().way.count(), 2);
    let typical = traces.stages().permille(Stage::Stores, 500);
    assert!(typical.abs_diff(us(41)) <= us(41) / 16, "{typical:?}");
}

#[test]
fn one_in_so_many_is_traced_and_the_first_after_a_pause() {
    let mut traces = Traces::new(one_in(10), 2);
    let sampled: Vec<bool> = (0..30).map(|_| traces.sample(at(0)).is_some()).collect();
    let which: Vec<usize> = (0..30).filter(|&n| sampled[n]).collect();
    assert_eq!(which, [9, 19, 29]);
    assert!(!traces.sample(Time(1)).is_some());
    assert_eq!(
        traces.sample(Time(1_000_000_000_000)),
        TraceId::new(2, 3),
        "the first after a pause"
    );
    let mut off = Traces::new(one_in(0), 0);
    assert!((0..5000).all(|n| !off.sample(at(n * 1_000_000)).is_some()));
}

#[test]
fn a_slow_io_is_kept_though_it_was_not_traced() {
    let mut traces = Traces::new(one_in(0), 0);
    let origin = origin(TraceId::NONE, at(10), at(10));
    let course = |us| Course {
        sent: at(20),
        answered: at(us),
        last: Some(StoreId(9)),
        missed: None,
    };
    end(&mut traces, at(4000), &origin, at(15), &course(3990));
    assert_eq!(traces.slow().count(), 0);
    end(&mut traces, at(300_010), &origin, at(15), &course(300_000));
    let slow = traces.slow().next().expect("it was slow");
    assert_eq!((slow.last, slow.total()), (Some(StoreId(9)), us(300_000)));
    let longest = slow.stages().max_by_key(|(_, took)| *took).expect("stages");
    assert_eq!(longest, (Stage::Stores, us(299_980)));
    assert_eq!(slow.stages().map(|(_, took)| took).sum::<Duration>(), slow.total());
    assert_eq!(traces.counters().slow, 1);
}

#[test]
fn the_limit_follows_the_p99() {
    let mut traces = Traces::new(one_in(0), 0);
    assert_eq!(traces.slow_after(), Duration::from_millis(5));
    let origin = origin(TraceId::NONE, at(0), at(0));
    for _ in 0..COUNT_ONE_IN * COUNTED {
        end(&mut traces, at(2000), &origin, at(0), &Course::default());
    }
    let after = traces.slow_after();
    assert!(
        after > Duration::from_millis(18) && after < Duration::from_millis(22),
        "{after:?}"
    );
    let mut set = Traces::new(
        TraceConfig {
            slow: Some(us(100)),
            ..one_in(0)
        },
        0,
    );
    for _ in 0..COUNT_ONE_IN * COUNTED {
        end(&mut set, at(2000), &origin, at(0), &Course::default());
    }
    assert_eq!(set.slow_after(), us(100));
    assert_eq!(set.slow().count(), 4, "no more are kept");
    assert_eq!(set.counters().slow, COUNT_ONE_IN * COUNTED);
}

#[test]
fn what_is_kept_and_under_way_is_bounded() {
    let mut traces = Traces::new(one_in(1), 0);
    let ids: Vec<TraceId> = (0..6).map(|n| whole(&mut traces, 1000 * n)).collect();
    assert_eq!(traces.recent().map(|trace| trace.id).collect::<Vec<_>>(), ids[2..]);
    for n in 0..2 * MAX_ACTIVE as u64 {
        let id = traces.sample(at(n));
        traces.open(at(n), &origin(id, at(n), at(n)), VOLUME, OP);
    }
    assert_eq!(traces.active.len(), MAX_ACTIVE);
    assert_eq!(traces.counters().missed, MAX_ACTIVE as u64);
}

/// The host's session is on another core than the sequencer: that one is told.
#[test]
fn another_core_is_told_of_the_end() {
    let mut front = Traces::new(one_in(1), 0);
    let mut sequencer = Traces::new(one_in(1), 1);
    let id = front.sample(at(1));
    let origin = origin(id, at(1), at(2));
    sequencer.open(at(5), &origin, VOLUME, OP);
    end(&mut sequencer, at(9), &origin, at(5), &Course::default());
    front.acknowledge(&origin, 1);
    assert_eq!(front.acknowledged(at(11)), Some((1, id)));
    assert_eq!(front.acknowledged(at(11)), None);
    sequencer.close(at(11), id);
    let trace = sequencer.recent().next().expect("it has ended");
    assert_eq!(trace.total(), us(10));
    assert_eq!(trace.stages().nth(1), Some((Stage::Hop, us(3))));
}

/// Whoever asks again and again is told of each once, slow or not, and can tell how many were pushed out.
#[test]
fn what_is_kept_is_told_once() {
    let mut traces = Traces::new(
        TraceConfig {
            slow: Some(us(60)),
            ..one_in(1)
        },
        0,
    );
    let numbers = |traces: &Traces, after| {
        let mut all: Vec<u64> = traces.kept_after(after).map(|trace| trace.number).collect();
        all.sort_unstable();
        all
    };
    assert_eq!((numbers(&traces, 0), traces.kept()), (vec![], 0));
    // Traced, and slow: in both rings.
    whole(&mut traces, 1000);
    assert_eq!((traces.recent().count(), traces.slow().count()), (1, 1));
    assert_eq!((numbers(&traces, 0), traces.kept()), (vec![1], 1));
    // Slow, and not traced.
    let late = origin(TraceId::NONE, at(10), at(10));
    end(&mut traces, at(4000), &late, at(15), &Course::default());
    assert_eq!((numbers(&traces, 1), traces.kept()), (vec![2], 2));
    assert!(traces.kept_after(1).all(|trace| trace.is_slow && !trace.id.is_some()));
    assert_eq!(numbers(&traces, 2), Vec::<u64>::new());
    // Traced ones that are not slow push the first out of one ring only.
    traces.set(TraceConfig {
        slow: Some(us(1_000_000)),
        ..one_in(1)
    });
    for n in 0..4 {
        whole(&mut traces, 10_000 * (n + 1));
    }
    assert_eq!((numbers(&traces, 0), traces.kept()), (vec![1, 2, 3, 4, 5, 6], 6));
    assert_eq!(traces.kept_after(0).filter(|trace| trace.is_slow).count(), 2);
    whole(&mut traces, 100_000);
    assert_eq!(
        (numbers(&traces, 0), traces.kept()),
        (vec![1, 2, 4, 5, 6, 7], 7),
        "one was pushed out, and the difference tells it"
    );
    assert_eq!(numbers(&traces, 4), [5, 6, 7]);
}
