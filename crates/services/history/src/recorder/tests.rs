use super::*;
use crate::answer::{self, Parts};
use crate::history::{History, Place};
use crate::layout::{LEAST_BYTES, Layout, USUAL_BYTES};
use crate::metric::Asked;
use crate::object::Subject;
use crate::question::Plan;
use amita_types::{ClusterId, StoreId};
use std::path::Path;

const START: u64 = 1_800_000_000;
const SECOND_NS: u64 = 1_000_000_000;

fn place(folder: &Path, node: &str, bytes: u64) -> Place {
    Place {
        folder: folder.to_owned(),
        bytes,
        cluster: ClusterId(7),
        node: node.to_owned(),
    }
}

fn open(folder: &Path, node: &str, now: u64) -> History {
    let place = place(folder, node, LEAST_BYTES);
    History::open(&place, Layout::within(place.bytes).unwrap(), now)
        .unwrap()
        .0
}

/// A volume that has done so many writes of 4 KiB, each in about so many microseconds.
fn volume(name: &str, writes: u64, us: u16) -> (Object, Totals) {
    let totals = Totals {
        rates: vec![
            (Metric::Iops, writes),
            (Metric::WriteIops, writes),
            (Metric::Bytes, writes * 4096),
            (Metric::WriteBytes, writes * 4096),
        ],
        gauges: Vec::new(),
        latencies: vec![(
            Metric::WriteLatency,
            Buckets::of([(us, writes)], writes * 1000 * u64::from(us)),
        )],
    };
    (Object::Volume(name.to_owned()), totals)
}

fn counts(seconds: u64, objects: Vec<(Object, Totals)>) -> Counts {
    Counts {
        now_ns: (5 + seconds) * SECOND_NS,
        objects,
    }
}

fn ask(history: &History, subject: &str, metric: &str, step: u64, now: u64) -> Vec<answer::Point> {
    let page = part(history, subject, metric, step, now);
    answer::points(Asked::named(metric).unwrap(), [&page])
}

fn part(history: &History, subject: &str, metric: &str, step: u64, now: u64) -> Parts {
    let plan = Plan::new(START - 3600, now, Some(step), now).unwrap();
    let subject: Subject = subject.parse().unwrap();
    history.part(&subject, Asked::named(metric).unwrap(), &plan)
}

#[test]
fn rates_of_ten_seconds_become_those_of_a_minute_with_their_maximum() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), "n1", START);
    let mut writes = 0;
    for step in 0..=120_u64 {
        // A thousand a second, and once in a minute ten thousand.
        writes += if step % 6 == 3 { 100_000 } else { 10_000 };
        history.take(counts(10 * step, vec![volume("db", writes, 100)]), START + 10 * step);
    }
    let now = START + 1200;
    let fine = ask(&history, "volume/db", "iops", 10, now);
    assert_eq!(fine.len(), 120);
    assert!(fine.iter().all(|point| point.mean == 1000.0 || point.mean == 10_000.0));
    let minutes = ask(&history, "volume/db", "iops", 60, now);
    assert_eq!(minutes.len(), 20);
    assert!(
        minutes
            .iter()
            .all(|point| (point.mean, point.max) == (2500.0, 10_000.0)),
        "{minutes:?}"
    );
    let long = ask(&history, "cluster", "write-bytes", 600, now);
    assert_eq!(
        (long.len(), long[0].mean, long[0].max),
        (2, 2500.0 * 4096.0, 10_000.0 * 4096.0)
    );
    assert_eq!(long[0].at, START);
    let latency = ask(&history, "node/n1", "latency", 600, now);
    assert_eq!(latency[0].percentiles.unwrap().count, 1_500_000);
    assert!(ask(&history, "volume/other", "iops", 600, now).is_empty());
    assert!(ask(&history, "node/n2", "iops", 600, now).is_empty());
}

#[test]
fn a_process_goes_on_where_the_one_before_it_ended_or_was_killed() {
    for in_good_order in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        for process in 0..2 {
            let begin = START + process * 300;
            let history = open(folder.path(), "n1", begin);
            for step in 0..=30 {
                history.take(
                    counts(10 * step, vec![volume("db", step * 500, 100)]),
                    begin + 10 * step,
                );
            }
            if in_good_order {
                history.end();
            }
        }
        let history = open(folder.path(), "n1", START + 600);
        let whole = ask(&history, "volume/db", "iops", 600, START + 600);
        assert_eq!(whole.len(), 1, "in good order: {in_good_order}");
        assert_eq!((whole[0].mean, whole[0].max), (50.0, 50.0));
    }
}

#[test]
fn a_clock_that_steps_moves_figures_and_does_not_change_them() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), "n1", START);
    // An hour of 100 a second; half way the clock is set back by ten minutes, then forward by 30.
    let mut wall = START;
    for step in 0..=360_u64 {
        match step {
            180 => wall -= 600,
            250 => wall += 1800,
            _ => {}
        }
        history.take(counts(10 * step, vec![volume("db", step * 1000, 100)]), wall);
        wall += 10;
    }
    let fine = ask(&history, "volume/db", "iops", 10, wall);
    assert!(fine.iter().all(|point| (point.mean, point.max) == (100.0, 100.0)));
    let minutes = ask(&history, "volume/db", "iops", 60, wall);
    assert!(minutes.iter().all(|point| point.mean == 100.0), "{minutes:?}");
    let gap = fine.windows(2).map(|two| two[1].at - two[0].at).max();
    assert!(gap.unwrap() >= 1200, "the time that never was has no figures: {gap:?}");
}

#[test]
fn a_count_that_begins_anew_is_no_peak() {
    let folder = tempfile::tempdir().unwrap();
    let history = open(folder.path(), "n1", START);
    let seen = [Some(1000), Some(2000), None, Some(300), Some(1300)];
    for (step, writes) in (0..).zip(seen) {
        let volumes = writes.map(|writes| volume("db", writes, 100));
        history.take(counts(10 * step, volumes.into_iter().collect()), START + 10 * step);
    }
    let means: Vec<f64> = ask(&history, "volume/db", "iops", 10, START + 50)
        .iter()
        .map(|point| point.mean)
        .collect();
    assert_eq!(means, [100.0, 0.0, 30.0, 100.0]);
}

/// What two nodes know, put together, is what one node would know that had seen all.
#[test]
fn nodes_together_know_what_one_would_that_saw_all() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = ["n1", "n2", "all"].map(|node| open(folder.path(), node, START));
    for step in 0..=180_u64 {
        let own = [
            vec![volume("a", step * 700, 90), volume("b", step * step, 120)],
            vec![volume("b", step * 30, 140), volume("c", step * 5, 200)],
        ];
        // A volume that two nodes had open is one to who sees all.
        let both = volume("b", step * step + step * 30, 120);
        let mut all = vec![own[0][0].clone(), own[1][1].clone(), both];
        all[2].1.latencies = vec![(
            Metric::WriteLatency,
            Buckets::of(
                [(120, step * step), (140, step * 30)],
                (step * step * 120 + step * 30 * 140) * 1000,
            ),
        )];
        let now = START + 10 * step;
        for (history, objects) in nodes.iter().zip(own.into_iter().chain([all])) {
            history.take(counts(10 * step, objects), now);
        }
    }
    let now = START + 1800;
    for subject in ["cluster", "volume/a", "volume/b", "volume/c"] {
        for step in [10, 60, 600, 1200] {
            for metric in ["iops", "write-bytes", "latency", "write-latency"] {
                let asked = Asked::named(metric).unwrap();
                let pages = [&nodes[0], &nodes[1], &nodes[2]].map(|node| part(node, subject, metric, step, now));
                let together = answer::points(asked, &pages[..2]);
                let alone = answer::points(asked, &pages[2..]);
                assert_eq!(together.len(), alone.len());
                for (one, other) in together.iter().zip(&alone) {
                    assert_eq!((one.at, one.percentiles), (other.at, other.percentiles));
                    assert!(
                        (one.mean - other.mean).abs() < 1e-6,
                        "{subject} {metric} {one:?} {other:?}"
                    );
                    assert!(one.max + 1e-6 >= other.max, "it was not more than both");
                }
                assert!(!alone.is_empty());
                assert_eq!(answer::heatmap(&pages[..2]), answer::heatmap(&pages[2..]));
            }
        }
    }
    let plan = Plan::new(START, now, Some(60), now).unwrap();
    let tops = [0, 1, 2].map(|n| nodes[n].top(false, &plan));
    for by in [answer::By::Iops, answer::By::Bytes, answer::By::Latency] {
        assert_eq!(answer::top(&tops[..2], by, 10), answer::top(&tops[2..], by, 10));
    }
    let (rows, rest) = answer::top(&tops[..2], answer::By::Iops, 1);
    assert_eq!((rows[0].name.as_str(), rows[0].ios), ("a", 180 * 700));
    assert_eq!(rest.ios, 180 * 180 + 180 * 35);
}

#[test]
fn gauges_are_averaged_over_time_and_added_over_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = ["n1", "n2"].map(|node| open(folder.path(), node, START));
    for step in 0..=60_u64 {
        for (history, store) in nodes.iter().zip(1..) {
            let totals = Totals {
                gauges: vec![(Metric::Used, 1000 * step * store), (Metric::Capacity, 100_000)],
                ..Totals::default()
            };
            let objects = vec![
                (Object::Store(StoreId(store.into())), totals.clone()),
                (Object::Node, totals),
            ];
            history.take(counts(10 * step, objects), START + 10 * step);
        }
    }
    let now = START + 600;
    let used = ask(&nodes[1], &format!("store/{}", StoreId(2)), "used", 600, now);
    assert_eq!((used[0].mean, used[0].max), (61_000.0, 120_000.0));
    let pages = [0, 1].map(|n| part(&nodes[n], "cluster", "used", 600, now));
    let all = answer::points(Asked::of(Metric::Used), &pages);
    assert_eq!((all[0].mean, all[0].max), (30_500.0 + 61_000.0, 180_000.0));
}

/// 30 days of ten thousand busy volumes: the file has its size, the 30 days are there, and no I/O is missing in the sums.
#[test]
fn thirty_days_of_ten_thousand_volumes_have_room() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path(), "n1", USUAL_BYTES);
    let layout = Layout::within(place.bytes).unwrap();
    let (ring, _) = Ring::open(&place.path(), layout, place.cluster, &place.node).unwrap();
    let figures = |ios: u64| {
        let rate = |sum| Value::Rate {
            sum,
            max_milli: sum * 2,
        };
        let latency = Value::Latency(Buckets::of((40..60).map(|at| (at, ios / 20)), ios * 900));
        Figures(
            [
                (Metric::Iops, rate(ios)),
                (Metric::Bytes, rate(ios * 4096)),
                (Metric::ReadLatency, latency),
            ]
            .into(),
        )
    };
    let volumes = 10_000_u64;
    let total: u64 = (1..=volumes).map(|n| n * 20).sum();
    let mut frame = Frame {
        at: START / 600 * 600,
        covered_ms: 600_000,
        objects: vec![(Object::Node, figures(total))],
    };
    frame
        .objects
        .extend((1..=volumes).map(|n| (Object::Volume(format!("volume-{n:05}")), figures(n * 20))));
    // As the recorder does it for each interval; all are alike here, so that once is enough.
    frame.keep(MAX_KEPT);
    let slots = Layout::reach_s(2) / 600;
    for slot in 0..slots {
        if slot > 0 && slot % 500 != 0 {
            // The same body at another time.
            let one = ring.get(2, frame.at, &|_| true).unwrap();
            ring.put(
                2,
                &Frame {
                    at: frame.at + slot * 600,
                    ..one
                },
            )
            .unwrap();
        } else {
            ring.put(
                2,
                &Frame {
                    at: frame.at + slot * 600,
                    ..frame.clone()
                },
            )
            .unwrap();
        }
    }
    drop(ring);
    let (history, _) = History::open(&place, layout, START).unwrap();
    assert!(std::fs::metadata(history.path()).unwrap().len() <= USUAL_BYTES);
    let now = frame.at + 30 * 24 * 3600;
    let plan = Plan::new(now - 30 * 24 * 3600, now, Some(7200), now).unwrap();
    let page = history.part(&"cluster".parse().unwrap(), Asked::named("iops").unwrap(), &plan);
    let points = answer::points(Asked::named("iops").unwrap(), [&page]);
    assert_eq!(points.len(), 360);
    assert!(
        points
            .iter()
            .all(|point| (point.mean - total as f64 / 600.0).abs() < 1e-6)
    );
    let top = history.top(false, &plan);
    let named: u64 = top.rows.iter().map(|row| row.ios).sum();
    assert_eq!(named + top.rest.ios, total * slots);
    assert_eq!(top.rows[0].name, "volume-10000");
    assert!(top.rows.len() > 40, "{} volumes have names", top.rows.len());
}
