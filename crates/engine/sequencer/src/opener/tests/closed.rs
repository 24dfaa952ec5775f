//! Volumes that are closed to hosts, for a mirror.

use super::*;
use amita_types::MirrorId;
use amita_types::map::Closed;

const MIRROR: MirrorId = MirrorId(77);

fn closed(owner: Option<NodeId>) -> map::Volume {
    map::Volume {
        generation: Generation(5),
        closed: Some(Box::new(Closed {
            mirror: MIRROR,
            name: "dr".to_owned(),
            since: Generation(5),
        })),
        ..volume(owner)
    }
}

fn with_closed(owner: Option<NodeId>) -> State {
    let mut metadata = metadata(owner);
    put(&mut metadata, map::volume_key("v"), &closed(owner));
    metadata
}

fn open(metadata: State, mirror: Option<MirrorId>, for_host: bool) -> Rig {
    let mut config = OpenerConfig::new(ME, "v");
    (config.mirror, config.for_host) = (mirror, for_host);
    let now = Time(1_000_000);
    let mut rig = Rig {
        opener: Opener::new(config, 5 << 40, now),
        metadata,
        now,
        calls: Vec::new(),
        asked: Vec::new(),
        result: None,
    };
    rig.collect();
    rig
}

#[test]
fn hosts_are_refused_and_told_for_which_mirror() {
    for mirror in [None, Some(MirrorId(78))] {
        let mut rig = open(with_closed(Some(OTHER)), mirror, true).lives(OTHER);
        rig.run();
        let OpenError::Closed { volume, mirror } = rig.error() else {
            panic!("{:?}", rig.error())
        };
        assert_eq!((volume.as_str(), mirror.as_str()), ("v", "dr"));
        assert!(rig.error().to_string().contains("amita mirror show dr"));
        assert!(rig.asked.is_empty(), "nobody is asked to let go of it");
        assert_eq!(rig.volume(), closed(Some(OTHER)), "and nobody is deposed");
    }
}

#[test]
fn a_runner_of_the_mirror_opens_it_and_so_does_who_serves_no_host() {
    for (mirror, for_host) in [(Some(MIRROR), true), (None, false)] {
        let mut rig = open(with_closed(None), mirror, for_host);
        rig.run();
        assert_eq!(rig.opened().volume.closed, closed(None).closed, "whoever has it knows");
        let record = rig.volume();
        assert_eq!((record.generation, record.closed), (Generation(6), closed(None).closed));
    }
}

/// It is closed between the look at its record and the raise.
#[test]
fn who_finds_it_open_has_raised_it_before_it_was_closed_or_is_refused() {
    let mut rig = open(metadata(None), None, true);
    rig.step();
    rig.step();
    put(&mut rig.metadata, map::volume_key("v"), &closed(None));
    rig.run();
    assert!(matches!(rig.error(), OpenError::Closed { .. }), "{:?}", rig.error());
    assert_eq!(rig.volume(), closed(None));
    // And between the raise and the look at the groups: it is somebody else's by then.
    let mut rig = open(metadata(None), None, true);
    for _ in 0..3 {
        rig.step();
    }
    assert_eq!(rig.volume().generation, Generation(5), "raised");
    let later = map::Volume {
        generation: Generation(6),
        ..closed(None)
    };
    put(&mut rig.metadata, map::volume_key("v"), &later);
    rig.run();
    assert!(matches!(rig.error(), OpenError::Closed { .. }), "{:?}", rig.error());
}
