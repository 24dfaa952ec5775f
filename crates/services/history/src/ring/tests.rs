use super::*;
use crate::buckets::Buckets;
use crate::layout::LEAST_BYTES;
use crate::metric::Metric;
use crate::value::Value;
use proptest::prelude::*;
use std::fs;

const CLUSTER: ClusterId = ClusterId(7);

fn everything(_: &Object) -> bool {
    true
}

fn small() -> Layout {
    Layout::within(LEAST_BYTES).unwrap()
}

fn frame(at: u64, ios: u64) -> Frame {
    let rate = Value::Rate {
        sum: ios,
        max_milli: ios * 100,
    };
    let latency = Value::Latency(Buckets::of([(30, ios)], ios * 3000));
    let figures = Figures([(Metric::Iops, rate), (Metric::WriteLatency, latency)].into());
    Frame {
        at,
        covered_ms: 10_000,
        objects: vec![
            (Object::Node, figures.clone()),
            (Object::Volume("db".to_owned()), figures),
        ],
    }
}

fn open(path: &Path) -> (Ring, Opened) {
    Ring::open(path, small(), CLUSTER, "n1").unwrap()
}

/// What is read of a part, by its time.
fn whole(ring: &Ring, part: usize) -> Vec<Frame> {
    let slots = (0..SLOTS[part]).filter_map(|slot| ring.in_slot(part, slot * STEPS_S[part]));
    let mut frames: Vec<Frame> = slots.collect();
    frames.sort_by_key(|frame| frame.at);
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_was_written_is_read_and_the_newest_of_each_place_stays(
        part in 0..3_usize,
        times in proptest::collection::vec(0..6000_u64, 1..60),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.n1");
        let (ring, opened) = open(&path);
        prop_assert_eq!(opened, Opened::New);
        let mut expected = std::collections::BTreeMap::new();
        for (n, step) in times.iter().enumerate() {
            let frame = frame(1_800_000_000 + step * STEPS_S[part], n as u64 + 1);
            ring.put(part, &frame).unwrap();
            expected.insert(step % SLOTS[part], frame);
        }
        drop(ring);
        let (ring, opened) = open(&path);
        prop_assert_eq!(opened, Opened::Kept);
        let mut expected: Vec<Frame> = expected.into_values().collect();
        expected.sort_by_key(|frame| frame.at);
        prop_assert_eq!(whole(&ring, part), expected.clone());
        for frame in expected {
            let older = ring.get(part, frame.at + Layout::reach_s(part), &everything);
            prop_assert_eq!(older, None, "an older round");
            prop_assert_eq!(ring.get(part, frame.at, &everything), Some(frame));
        }
        prop_assert_eq!(fs::metadata(&path).unwrap().len(), small().file_bytes());
    }

    #[test]
    fn a_file_that_is_cut_loses_what_was_cut_off(cut in 0..small().file_bytes(), near in 0..3_u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.n1");
        let (ring, _) = open(&path);
        for n in 0..20 {
            for (part, step) in STEPS_S.iter().enumerate() {
                ring.put(part, &frame(n * step, n + 1)).unwrap();
            }
        }
        // Anywhere, in the head, and among the pages of a part.
        let cut = match near { 0 => cut, 1 => cut % 5000, _ => small().offset(0, 0) + cut % (20 * 4096) };
        let before: Vec<Vec<Frame>> = (0..3).map(|part| whole(&ring, part)).collect();
        drop(ring);
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
        let (ring, opened) = open(&path);
        if cut < HEAD_BYTES as u64 {
            let is_aside = matches!(opened, Opened::SetAside { .. });
            prop_assert!(is_aside);
            prop_assert!(whole(&ring, 0).is_empty());
            return Ok(());
        }
        prop_assert_eq!(opened, Opened::Kept);
        for (part, before) in before.iter().enumerate() {
            // A page's bytes end well before the page does.
            let kept = |frame: &&Frame| small().offset(part, frame.at) + 150 <= cut;
            let found = whole(&ring, part);
            let left: Vec<&Frame> = before.iter().filter(kept).collect();
            prop_assert!(left.iter().all(|frame| found.contains(frame)));
            prop_assert!(found.iter().all(|frame| before.contains(frame)), "nothing is invented");
            prop_assert!(found.len() <= left.len() + 1);
        }
        ring.put(2, &frame(0, 99)).unwrap();
        prop_assert_eq!(ring.get(2, 0, &everything), Some(frame(0, 99)));
    }
}

#[test]
fn a_page_that_is_torn_at_any_byte_is_lost_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.n1");
    let (ring, _) = open(&path);
    for n in 0..3 {
        ring.put(0, &frame(n * 10, n + 1)).unwrap();
    }
    let (begin, old) = (small().offset(0, 10) as usize, fs::read(&path).unwrap());
    ring.put(0, &frame(10 + Layout::reach_s(0), 77)).unwrap();
    let new = fs::read(&path).unwrap();
    let newer = frame(10 + Layout::reach_s(0), 77);
    for torn in 0..200 {
        let mut bytes = old[begin..begin + 4096].to_vec();
        bytes[..torn].copy_from_slice(&new[begin..begin + torn]);
        ring.file.write_all_at(&bytes, begin as u64).unwrap();
        let found = ring.in_slot(0, 10);
        assert!(
            found.is_none() || found.as_ref() == Some(&frame(10, 2)) || found.as_ref() == Some(&newer),
            "torn at {torn}: {found:?}"
        );
        assert_eq!(ring.get(0, 0, &everything), Some(frame(0, 1)));
        assert_eq!(ring.get(0, 20, &everything), Some(frame(20, 3)));
    }
    // And any bit that is turned.
    for at in 0..150 {
        let mut bytes = new[begin..begin + 4096].to_vec();
        bytes[at] ^= 1 << (at % 8);
        ring.file.write_all_at(&bytes, begin as u64).unwrap();
        let found = ring.in_slot(0, 10);
        assert!(found.is_none() || found.as_ref() == Some(&newer), "bit of byte {at}");
    }
}

#[test]
fn what_is_not_ours_is_set_aside_and_never_stops_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.n1");
    let fresh = || {
        let (ring, _) = open(&path);
        ring.put(0, &frame(0, 1)).unwrap();
        drop(ring);
        fs::read(&path).unwrap()
    };
    let bytes = fresh();
    let mut later = bytes.clone();
    later[8] = 9;
    let mut damaged = bytes.clone();
    damaged[17] ^= 4;
    let mut silly = head(
        &Layout {
            page_bytes: [4096, 4097, 4096],
        },
        CLUSTER,
        "n1",
    )
    .to_vec();
    silly.resize(bytes.len(), 0);
    let other = head(&small(), CLUSTER, "n2").to_vec();
    let cases = [
        (later, "version 9"),
        (damaged, "damaged"),
        (silly, "cannot be"),
        (other, "another node's"),
        (b"a letter".to_vec(), "cut off"),
        (vec![0; 8192], "no file of figures"),
    ];
    for (content, expected) in cases {
        fs::write(&path, &content).unwrap();
        let (ring, opened) = open(&path);
        let Opened::SetAside { aside, why } = opened else {
            panic!("{expected}: {opened:?}")
        };
        assert!(why.contains(expected), "{why}");
        assert_eq!(fs::read(aside).unwrap(), content);
        assert!(whole(&ring, 0).is_empty());
        ring.put(0, &frame(0, 5)).unwrap();
    }
}

#[test]
fn another_size_keeps_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.n1");
    let (ring, _) = open(&path);
    for (part, step) in STEPS_S.iter().enumerate() {
        for n in 0..50 {
            ring.put(part, &frame(1_800_000_000 + n * step, n + 1)).unwrap();
        }
    }
    let before: Vec<Vec<Frame>> = (0..3).map(|part| whole(&ring, part)).collect();
    drop(ring);
    let larger = Layout::within(64 << 20).unwrap();
    for layout in [larger, small()] {
        let (ring, opened) = Ring::open(&path, layout, CLUSTER, "n1").unwrap();
        assert_eq!((opened, ring.layout()), (Opened::Kept, layout));
        let after: Vec<Vec<Frame>> = (0..3).map(|part| whole(&ring, part)).collect();
        assert_eq!(after, before);
        assert_eq!(fs::metadata(&path).unwrap().len(), layout.file_bytes());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn two_processes_do_not_write_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.n1");
    let (ring, _) = open(&path);
    assert!(matches!(
        Ring::open(&path, small(), CLUSTER, "n1"),
        Err(RingError::Taken(_))
    ));
    drop(ring);
    let (_ring, opened) = open(&path);
    assert_eq!(opened, Opened::Kept);
    let nowhere = folder.path().join("none/history.n1");
    let why = Ring::open(&nowhere, small(), CLUSTER, "n1").unwrap_err().to_string();
    assert!(why.contains("none/history.n1"), "{why}");
}
