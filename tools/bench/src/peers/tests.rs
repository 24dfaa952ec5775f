use super::{Peer, cases, markdown};
use crate::case::Front;
use crate::row::{Done, Row};
use crate::units::Units;
use crate::usage::Usage;
use std::time::Duration;

#[test]
fn a_description_is_read_and_a_wrong_word_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("peer.json");
    let text = r#"{ "name": "ceph", "fio": ["--ioengine=rbd", "--pool=p"], "processes": { "osd.0": 12 } }"#;
    std::fs::write(&path, text).expect("written");
    let peer = Peer::read(&path).expect("a peer");
    assert_eq!((peer.name.as_str(), peer.processes["osd.0"]), ("ceph", 12));
    assert!(peer.start_seconds > 0.0);
    std::fs::write(&path, text.replace("processes", "process")).expect("written");
    assert!(Peer::read(&path).is_err());
}

#[test]
fn everybody_is_measured_at_the_same_points_and_stands_in_one_line() {
    let units = Units {
        p: Duration::from_micros(10),
        r: Duration::from_micros(50),
        cores: 2,
    };
    let row = |case, iops| {
        let usage = Usage {
            length: Duration::from_secs(1),
            ..Usage::default()
        };
        let done = Done {
            iops,
            ..Done::default()
        };
        Row::new(&case, &done, &usage, &units, None)
    };
    let mut ceph = cases(Front::Peer, Some("ceph"));
    let (ours, points) = (cases(Front::Libamita, None), ceph.len());
    ceph.truncate(1);
    assert_eq!(ceph[0].key(), "ceph.write.4k.qd1");
    let rows: Vec<Row> = ceph.into_iter().map(|case| row(case, 1111.0)).collect();
    let rows: Vec<Row> = rows
        .into_iter()
        .chain(ours.into_iter().map(|case| row(case, 2222.0)))
        .collect();
    let text = markdown(&rows);
    assert_eq!(text.lines().count(), points + 2, "{text}");
    let first = text.lines().nth(2).expect("a line");
    assert!(first.contains("1111;") && first.contains("2222;"), "{first}");
    assert!(text.lines().nth(3).expect("a line").contains("| -"), "{text}");
}
