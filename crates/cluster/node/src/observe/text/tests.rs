//! The page of a node with everything on it; the page of the documentation.

use super::*;
use crate::observe::{CertificateReport, CoreReport, Exchange, ExportCounters, Fate, ProcessReport, VolumeReport};
use crate::trace::{StageTimes, TraceCounters};
use crate::usage::Usage;
use amita_control::admin::{
    BackupFigures, BackupTaskFigures, DiskFigures, Figures, GroupCounts, MirrorFigures, PoolFigures, StoreFigures,
    VerifiedFigures,
};
use amita_control::backups::task::TaskState;
use amita_control::events::Severity;
use amita_control::health::Kind;
use amita_reactor::{DriverCounts, Time};
use amita_types::condition::DiskLevel;
use amita_types::io::Op;
use amita_types::map::MirrorRole;
use amita_types::{ClusterId, NodeId, StoreId, VolumeId};
use std::sync::Arc;

fn volume(name: &str, writes: u32) -> VolumeReport {
    let mut usage = Usage::default();
    for n in 0..writes {
        let op = Op::Write {
            offset: 0,
            length: 4096,
        };
        usage.count(&op, Duration::from_micros(100 + u64::from(n)), n != 0);
    }
    VolumeReport {
        id: VolumeId(1),
        name: name.to_owned(),
        usage,
        in_flight: 2,
        syncing: 1,
        stuck_groups: 0,
        counters: amita_sequencer::Counters {
            writes: writes.into(),
            ..amita_sequencer::Counters::default()
        },
    }
}

fn core(core: usize, volumes: Vec<VolumeReport>) -> CoreReport {
    CoreReport {
        core,
        now: Time(1),
        passes: 10,
        driver: DriverCounts {
            blocked_ns: 1_500_000_000,
            ..DriverCounts::default()
        },
        volumes,
        limited: vec![(
            "db".to_owned(),
            crate::limits::Counts {
                held: 7,
                held_ns: 500_000_000,
                waiting: 3,
                waiting_bytes: 12_288,
                ..crate::limits::Counts::default()
            },
        )],
        limits_known: 4,
        joints: Vec::new(),
        stores: Vec::new(),
        counted: Vec::new(),
        fabric: amita_fabric::Counters::default(),
        links: 2,
        sessions: 1,
        background_bytes: 0,
        traces: TraceCounters::default(),
        stages: StageTimes::default(),
        slow_after: Duration::from_millis(5),
        recent: Vec::new(),
        slow: Vec::new(),
    }
}

fn figures(name: &str) -> Figures {
    let count = |kind: &Kind| u64::from(*kind == Kind::NodeDown) * 2;
    Figures {
        worst: Some(Severity::Warning),
        facts: Kind::ALL.iter().map(|kind| (*kind, count(kind))).collect(),
        nodes_alive: 3,
        nodes_away: 2,
        volumes: 7,
        pools: vec![PoolFigures {
            name: name.to_owned(),
            raw_bytes: 1000,
            used_bytes: 250,
            fullest_percent: Some(30),
            groups: GroupCounts {
                whole: 60,
                degraded: 4,
                ..GroupCounts::default()
            },
        }],
        stores: vec![StoreFigures {
            id: StoreId(5),
            node: "n1".to_owned(),
            class: "ssd".to_owned(),
            draining: true,
        }],
        backups: vec![BackupFigures {
            name: name.to_owned(),
            running: true,
            runs: 5,
            failures: 1,
            missed: 2,
            points: 9,
            forgotten: 4,
            read_bytes: 1 << 30,
            sent_bytes: 1 << 20,
            failing: 1,
            late_s: 0,
            succeeded_at: Some(1_800_000_000),
            verified: Some(VerifiedFigures {
                runs: 3,
                failures: 1,
                read_bytes: 1 << 20,
                damaged: 2,
                points_lost: 1,
                late_s: Some(7),
                ended_at: Some(1_800_000_000),
                whole_since: None,
            }),
        }],
        backup_tasks: vec![BackupTaskFigures {
            kind: "backup",
            states: vec![(TaskState::Running, 2), (TaskState::Failed, 1)],
            oldest: vec![(TaskState::Running, 1_799_999_000)],
            late_s: 8,
            done_at: Some(1_800_000_000),
            took_s: Some(40),
        }],
        mirrors: vec![MirrorFigures {
            name: name.to_owned(),
            role: MirrorRole::Secondary,
            lag_s: Some(61),
            left_bytes: 1 << 24,
        }],
        sick_disks: vec![DiskFigures {
            store: StoreId(5),
            node: "n1".to_owned(),
            disk: "nvme0n1, Example D7 S1".to_owned(),
            level: DiskLevel::Avoid,
        }],
        scrub_oldest_at: Some(1_700_000_000),
        version: 9,
    }
}

fn report(name: &str) -> NodeReport {
    NodeReport {
        node: NodeId(1),
        name: "n1".to_owned(),
        cluster: ClusterId(1),
        cores: vec![core(0, vec![volume(name, 3)]), core(1, vec![volume(name, 4)])],
        core_count: 2,
        policies: vec![amita_control::agent::PolicyReport {
            name: name.to_owned(),
            runs: 3,
            taken: 5,
            deleted: 2,
            sets: 3,
            sets_void: 1,
            failures: 1,
            missed: 4,
            failing: 1,
            late_s: 0,
            ended_at: Some(1_800_000_000),
        }],
        process: ProcessReport {
            started_at: 1.5,
            now: 2.25,
            open_files: Some(40),
            max_files: Some(1024),
            resident_bytes: Some(1 << 20),
        },
        certificate: Some(CertificateReport {
            begins: 100,
            expires: 700,
            authority_expires: Some(9000),
        }),
        leads: true,
        metadata_silent: Duration::from_millis(1500),
        metadata_older: true,
        figures: Some(Arc::new(figures(name))),
        export: export(),
        links: vec![crate::links::PeerLink {
            name: "n2".to_owned(),
            sent: 900,
            lost: 20,
            round_trip_us: 250,
            least_us: 100,
            bad: Some(amita_types::link::LinkTrouble::Loss),
            network: amita_types::link::Network::Second,
            left: Some(amita_types::link::LinkTrouble::Cut),
        }],
    }
}

fn export() -> crate::observe::ExportReport {
    let counters = ExportCounters::default();
    counters.count(Fate::Accepted, 5);
    counters.count(Fate::Full, 2);
    counters.count_request(Exchange::Deferred);
    counters.count_rejected(3);
    counters.set_waiting(7);
    counters.report()
}

#[test]
fn every_metric_is_defined_once() {
    let page = render(&report("disk0"));
    let mut names: Vec<&str> = metrics().map(|metric| metric.name).collect();
    for name in &names {
        for word in ["HELP", "TYPE"] {
            let start = format!("# {word} {name} ");
            assert_eq!(
                page.lines().filter(|line| line.starts_with(&start)).count(),
                1,
                "{name}"
            );
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), metrics().count());
    for metric in metrics() {
        assert!(!metric.help.contains(['\n', '\\']), "{}", metric.name);
        let counts = metric.kind == MetricKind::Counter;
        assert_eq!(counts, metric.name.ends_with("_total"), "{}", metric.name);
    }
}

#[test]
fn what_cores_count_of_one_volume_is_added_up() {
    let page = render(&report("disk0"));
    for line in [
        "amita_volume_latency_seconds_count{volume=\"disk0\",op=\"write\"} 7",
        "amita_volume_latency_seconds_bucket{volume=\"disk0\",op=\"write\",le=\"0.000065536\"} 0",
        "amita_volume_latency_seconds_bucket{volume=\"disk0\",op=\"write\",le=\"0.000131072\"} 7",
        "amita_volume_latency_seconds_bucket{volume=\"disk0\",op=\"write\",le=\"+Inf\"} 7",
        "amita_volume_latency_seconds_sum{volume=\"disk0\",op=\"write\"} 0.000709",
        "amita_volume_bytes_total{volume=\"disk0\",op=\"write\"} 20480",
        "amita_volume_errors_total{volume=\"disk0\",op=\"write\"} 2",
        "amita_volume_in_flight{volume=\"disk0\"} 4",
        "amita_sequencer_events_total{volume=\"disk0\",event=\"writes\"} 7",
        "amita_core_passes_total{core=\"1\"} 10",
        "amita_core_blocked_seconds_total{core=\"0\"} 1.5",
        "amita_cores_silent 0",
        "amita_otlp_traces_total{outcome=\"accepted\"} 5",
        "amita_otlp_traces_total{outcome=\"full\"} 2",
        "amita_otlp_traces_total{outcome=\"late\"} 0",
        "amita_otlp_requests_total{outcome=\"deferred\"} 1",
        "amita_otlp_requests_total{outcome=\"failed\"} 0",
        "amita_otlp_rejected_spans_total 3",
        "amita_otlp_waiting_traces 7",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is missing:\n{page}");
    }
}

/// What the process says of itself, and what the coordinator says of the cluster.
#[test]
fn the_one_that_leads_tells_of_the_cluster() {
    let page = render(&report("main"));
    for line in [
        "process_start_time_seconds 1.5",
        "process_open_fds 40",
        "process_max_fds 1024",
        "process_resident_memory_bytes 1048576",
        "amita_node_time_seconds 2.25",
        "amita_coordinator 1",
        "amita_metadata_silent_seconds 1.5",
        "amita_metadata_older 1",
        "amita_certificate_begins_timestamp_seconds 100",
        "amita_certificate_expires_timestamp_seconds 700",
        "amita_authority_expires_timestamp_seconds 9000",
        "amita_health 1",
        "amita_health_facts{fact=\"node-down\",severity=\"warning\"} 2",
        "amita_health_facts{fact=\"pool-full\",severity=\"error\"} 0",
        "amita_nodes{state=\"away\"} 2",
        "amita_volumes 7",
        "amita_pool_bytes{pool=\"main\",what=\"used\"} 250",
        "amita_pool_fullest_ratio{pool=\"main\"} 0.3",
        "amita_pool_groups{pool=\"main\",state=\"degraded\"} 4",
        "amita_store_info{store=\"00000000-0000-0000-0000-000000000005\",node=\"n1\",class=\"ssd\",duty=\"draining\"} 1",
        "amita_disk_level{store=\"00000000-0000-0000-0000-000000000005\",node=\"n1\",disk=\"nvme0n1, Example D7 S1\"} 2",
        "amita_scrub_oldest_timestamp_seconds 1700000000",
        "amita_cluster_version 9",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is missing:\n{page}");
    }
    let other = NodeReport {
        leads: false,
        metadata_older: false,
        figures: None,
        certificate: None,
        ..report("main")
    };
    let page = render(&other);
    for line in ["amita_coordinator 0", "amita_metadata_older 0"] {
        assert!(page.lines().any(|found| found == line), "{line} is missing:\n{page}");
    }
    for start in [
        "amita_health",
        "amita_pool_",
        "amita_store_info",
        "amita_disk_",
        "amita_certificate_",
    ] {
        assert!(!page.lines().any(|line| line.starts_with(start)), "{start}: {page}");
    }
}

#[test]
fn strange_names_are_escaped() {
    let page = render(&report("a\"b\\c\nd"));
    assert!(page.contains("{volume=\"a\\\"b\\\\c\\nd\"}"), "{page}");
}

/// `docs/operating/metrics.md` has a row for each metric.
#[test]
fn the_documentation_lists_every_metric() {
    let text = include_str!("../../../../../../docs/operating/metrics.md");
    let rows: Vec<String> = metrics()
        .map(|metric| {
            let labels = metric.labels.join(", ");
            format!(
                "| `{}` | {} | {labels} | {} |",
                metric.name,
                metric.kind.name(),
                metric.help
            )
        })
        .collect();
    for row in &rows {
        assert!(
            text.contains(row.as_str()),
            "docs/operating/metrics.md lacks a row; all are:\n{}",
            rows.join("\n")
        );
    }
    let listed = text
        .lines()
        .filter(|line| line.starts_with("| `amita_") || line.starts_with("| `process_"))
        .count();
    assert_eq!(listed, rows.len(), "docs/operating/metrics.md lists what is no metric");
}
