use super::{What, judge, judged};
use crate::case::{Case, Front, Mix};
use crate::report::Figures;
use crate::row::{Done, Latency, Row};
use crate::units::Units;
use crate::usage::{Usage, Used};
use std::collections::HashSet;
use std::time::Duration;

#[test]
fn each_row_of_the_promise_is_judged() {
    let all: Vec<(String, What, f64)> = [Front::Libamita, Front::Local, Front::Nbd]
        .into_iter()
        .flat_map(judged)
        .flat_map(|judged| {
            let targets = judged.targets.into_iter();
            targets.map(move |target| (judged.case.key(), target.what, target.limit))
        })
        .collect();
    for (key, what, limit) in [
        ("libamita.write.4k.qd32", What::CpuP, 0.7),
        ("libamita.read.4k.qd32", What::CpuP, 0.4),
        ("local.read.4k.qd32", What::CpuP, 0.15),
        ("nbd.write.4k.qd32", What::CpuP, 1.2),
        ("nbd.read.4k.qd32", What::CpuP, 0.9),
        ("libamita.write.4k.qd32", What::Iops, 168_000.0),
        ("libamita.read.4k.qd32", What::Iops, 280_000.0),
        ("libamita.write.4k.qd1", What::LatencyR, 0.8),
        ("libamita.read.4k.qd1", What::LatencyR, 0.4),
        ("libamita.write.4k.qd1.one_core", What::LatencyP, 4.5),
        ("libamita.read.4k.qd1.one_core", What::LatencyP, 1.8),
        ("libamita.write.128k.qd16", What::Bandwidth, 1.25),
        ("libamita.read.128k.qd16", What::Bandwidth, 5.1),
    ] {
        assert!(
            all.contains(&(key.to_owned(), what, limit)),
            "{key} {what:?} is not judged"
        );
    }
    let keys: HashSet<_> = all.iter().map(|(key, what, _)| format!("{key} {what:?}")).collect();
    assert_eq!(keys.len(), all.len(), "something is judged twice");
}

#[test]
fn figures_have_the_names_that_scripts_know() {
    let units = Units {
        p: Duration::from_micros(10),
        r: Duration::from_micros(50),
        cores: 2,
    };
    let used = Used {
        cpu: Duration::from_millis(110),
        ..Used::default()
    };
    let usage = Usage {
        length: Duration::from_secs(1),
        by_name: [("fio".to_owned(), used)].into(),
        ..Usage::default()
    };
    let done = Done {
        iops: 10_000.0,
        write: Latency {
            mean: 75.0,
            ..Latency::default()
        },
        ..Done::default()
    };
    let mut figures = Figures::default();
    for (front, depth) in [(Front::Nbd, 32), (Front::Libamita, 1)] {
        let case = Case::new(front, Mix::Write, depth);
        let row = Row::new(&case, &done, &usage, &units, None);
        let all = judged(front);
        let judged = all.iter().find(|judged| judged.case == case).expect("judged");
        judge(judged, &row, &units, &mut figures);
    }
    let found = serde_json::to_value(figures.all()).expect("JSON");
    let holds = |name: &str| {
        let mut figures = found.as_array().expect("a list").iter();
        let figure = figures.find(|figure| figure["name"] == name);
        let figure = figure.unwrap_or_else(|| panic!("no figure {name}"));
        (figure["value"].as_f64(), figure["holds"].as_bool())
    };
    assert_eq!(holds("path.write.4k.qd32.cpu_p"), (Some(1.1), Some(true)));
    assert_eq!(holds("path.write.4k.qd32.fio_cpu_us"), (Some(11.0), None));
    assert_eq!(holds("libamita.write.4k.qd1.latency_r"), (Some(1.5), Some(false)));
    assert_eq!(holds("libamita.write.4k.qd1.iops"), (Some(10_000.0), None));
}
