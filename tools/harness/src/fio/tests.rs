use super::{Job, parse};
use std::path::Path;
use std::time::Duration;

#[test]
fn the_report_is_found_behind_notes() {
    let text = r#"fio: some note
{ "fio version": "fio-3.33", "jobs": [ { "error": 0,
  "write": { "total_ios": 10, "iops": 5.5, "lat_ns": { "mean": 2000.0, "max": 9000 },
             "clat_ns": { "percentile": { "50.000000": 1500, "99.000000": 7000, "99.900000": 8000 } } },
  "read": { "total_ios": 0, "iops": 0.0, "lat_ns": { "mean": 0.0, "max": 0 }, "clat_ns": { } } } ] }
trailing words"#;
    let report = parse(text).expect("a report");
    assert_eq!(report.write.ios, 10);
    assert!((report.write.iops - 5.5).abs() < 1e-9);
    assert_eq!(report.write.latency.p99, Duration::from_nanos(7000));
    assert_eq!(report.write.latency.max, Duration::from_nanos(9000));
    assert_eq!(report.read.ios, 0);
}

#[test]
fn a_job_that_failed_and_no_report_are_errors() {
    assert!(parse(r#"{ "jobs": [ { "error": 5 } ] }"#).is_err());
    assert!(parse("fio: pid=1, err=5").is_err());
    assert!(parse("{ broken").is_err());
}

#[test]
fn several_targets_are_worked_on_alike_and_reported_together() {
    let target = |name: &str| vec!["--ioengine=nbd".to_owned(), format!("--uri={name}")];
    let mut job = Job {
        name: "both".to_owned(),
        target: target("one"),
        pattern: "randread",
        block_bytes: 4096,
        depth: 4,
        offset_bytes: 0,
        size_bytes: 1 << 20,
        run: None,
        more: vec!["--ramp_time=1".to_owned()],
        also: Vec::new(),
    };
    let alone = job.arguments(Path::new("out"));
    assert_eq!(alone[0], "--name=both");
    assert!(!alone.contains(&"--group_reporting".to_owned()));
    job.also = vec![target("two")];
    let both = job.arguments(Path::new("out"));
    let sections: Vec<usize> = (0..both.len()).filter(|&at| both[at].starts_with("--name=")).collect();
    assert_eq!(sections.len(), 3);
    assert_eq!(both[0], "--name=global");
    assert!(both[..sections[1]].contains(&"--ramp_time=1".to_owned()));
    assert_eq!(both[sections[1] + 1..sections[2]], target("one"));
    assert_eq!(both[sections[2] + 1..], target("two"));
}
