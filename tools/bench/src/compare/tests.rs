use super::{Verdict, markdown, more_is_better, verdict};
use crate::case::{Case, Front, Mix};
use crate::record::Run;
use crate::report::Figures;
use crate::row::{Done, Latency, Row};
use crate::units::Units;
use crate::usage::{Usage, Used};
use std::time::Duration;

#[test]
fn a_change_counts_beyond_the_noise_and_in_its_direction() {
    assert_eq!(verdict(100.0, 104.0, 0.05, true), Verdict::Same);
    assert_eq!(verdict(100.0, 96.0, 0.05, true), Verdict::Same);
    assert_eq!(verdict(100.0, 110.0, 0.05, true), Verdict::Better);
    assert_eq!(verdict(100.0, 110.0, 0.05, false), Verdict::Worse);
    assert_eq!(verdict(100.0, 80.0, 0.05, false), Verdict::Better);
    assert_eq!(verdict(100.0, 80.0, 0.5, false), Verdict::Same);
    assert_eq!(verdict(0.0, 80.0, 0.05, true), Verdict::Unknown);
    // Twice as much and half as much are equally far.
    assert_eq!(verdict(100.0, 200.0, 1.0, true), verdict(100.0, 50.0, 1.0, true));
}

#[test]
fn which_way_is_better_is_read_from_target_and_judgment() {
    let mut figures = Figures::default();
    figures.at_most("a", "", 1.0, "P", 2.0);
    figures.at_most("b", "", 3.0, "P", 2.0);
    figures.at_least("c", "", 3.0, "IOPS", 2.0);
    figures.at_least("d", "", 1.0, "IOPS", 2.0);
    figures.note("e", "", 1.0, "us");
    let found: Vec<_> = figures.all().iter().map(more_is_better).collect();
    assert_eq!(found, [Some(false), Some(false), Some(true), Some(true), None]);
}

fn run(iops: f64, noise: f64, disturbed: bool) -> Run {
    let units = Units {
        p: Duration::from_micros(10),
        r: Duration::from_micros(50),
        cores: 2,
    };
    let used = Used {
        cpu: Duration::from_millis(900),
        ..Used::default()
    };
    let usage = Usage {
        length: Duration::from_secs(1),
        by_name: [("client".to_owned(), used)].into(),
        ..Usage::default()
    };
    let done = Done {
        iops,
        read: Latency {
            p50: 10.0,
            p99: 20.0,
            ..Latency::default()
        },
        noise,
        ..Done::default()
    };
    let mut row = Row::new(&Case::new(Front::Libamita, Mix::Read, 32), &done, &usage, &units, None);
    row.disturbed = disturbed;
    let mut figures = Figures::default();
    figures.at_least("rate", "", iops, "IOPS", 120_000.0);
    figures.note(if disturbed { "only" } else { "both" }, "", 1.0, "");
    Run {
        figures: figures.all().to_vec(),
        rows: vec![row],
        ..Run::default()
    }
}

#[test]
fn the_table_marks_what_changed_and_names_what_is_missing() {
    let text = markdown(&run(100_000.0, 0.01, false), &run(150_000.0, 0.01, false));
    let row = text
        .lines()
        .find(|line| line.contains("libamita.read"))
        .expect("the row");
    assert!(row.contains("1.50") && row.matches("better").count() == 2, "{text}");
    assert!(text.contains("NO -> yes"), "{text}");
    // So much chance within the runs says that this is nothing.
    let text = markdown(&run(100_000.0, 0.3, false), &run(150_000.0, 0.3, false));
    let row = text
        .lines()
        .find(|line| line.contains("libamita.read"))
        .expect("the row");
    assert!(!row.contains("better") && !row.contains("WORSE"), "{text}");
    let text = markdown(&run(100_000.0, 0.01, false), &run(50_000.0, 0.01, true));
    let row = text
        .lines()
        .find(|line| line.contains("libamita.read"))
        .expect("the row");
    assert!(row.contains('?') && !row.contains("WORSE"), "{text}");
    assert!(
        text.contains("Only in A: `both`.") && text.contains("Only in B: `only`."),
        "{text}"
    );
}
