use super::parse;
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
