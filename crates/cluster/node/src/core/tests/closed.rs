//! Hosts that go on asking for a volume that a mirror has closed.

use super::*;
use crate::control::Record;
use crate::forwarder::State;
use amita_types::SnapshotId;

fn record(generation: u32, is_closed: bool) -> Record {
    let closed = map::Closed {
        mirror: amita_types::MirrorId(77),
        name: "dr".to_owned(),
        since: Generation(4),
    };
    let record = map::Volume {
        owner: None,
        closed: is_closed.then(|| Box::new(closed)),
        ..opened(Generation(generation)).volume
    };
    Record {
        key: map::volume_key(&record.name),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: u64::from(generation),
        created: 1,
    }
}

impl Rig {
    /// A host, of whose namespaces the volume is one, was told that it is closed.
    fn was_told_that_it_is_closed(&mut self) {
        self.core.cx.view.apply(&record(4, true));
        self.core.fronts.with(self.front, |_, service| {
            service.identify(self.front, frontend::HostKey(9));
        });
        self.write(1);
        self.sought(VolumeRoute::Closed);
        assert_eq!(self.ended(), [(1, Err(IoError::Closed))]);
    }

    fn state(&self) -> State {
        self.core.forwarding.forwarder.state(VOLUME)
    }
}

/// Each reading of the record is an opener's work; and what is wanted of snapshots would wait behind hosts for good.
#[test]
fn hosts_of_a_closed_volume_rest_and_its_snapshots_are_read_meanwhile() {
    let mut rig = Rig::new();
    rig.was_told_that_it_is_closed();
    rig.write(2);
    assert!(matches!(rig.state(), State::Resting(_)), "{:?}", rig.state());
    assert_eq!(rig.ended().len(), 1);
    let now = rig.driver.now();
    let mut origin = rig.core.cx.origin(now, rig.front, 3);
    origin.snapshot = SnapshotId(1);
    let (offset, length) = (0, 4096);
    let (core, work) = (&mut rig.core, Work::Io(Op::Read { offset, length }));
    core.forwarding
        .wait(&mut core.cx, now, VOLUME, origin, work, amita_reactor::Slice::default());
    assert_eq!(rig.state(), State::Asking, "at once");
    rig.sought(VolumeRoute::Closed);
    assert_eq!(rig.ended(), [(1, Err(IoError::Closed)), (2, Err(IoError::Closed))]);
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 1), "the snapshot is read");
}

#[test]
fn hosts_that_rest_hear_the_last_word_in_the_end() {
    let mut rig = Rig::new();
    rig.was_told_that_it_is_closed();
    rig.write(2);
    let until = rig.world.now().plus(Duration::from_millis(300));
    while rig.world.now() < until {
        rig.pass();
    }
    assert_eq!(rig.state(), State::Asking);
    rig.sought(VolumeRoute::Closed);
    assert_eq!(rig.ended(), [(1, Err(IoError::Closed)), (2, Err(IoError::Closed))]);
}

#[test]
fn hosts_that_rest_go_on_when_the_volume_is_opened() {
    let mut rig = Rig::new();
    rig.was_told_that_it_is_closed();
    rig.write(2);
    assert!(matches!(rig.state(), State::Resting(_)), "{:?}", rig.state());
    rig.core.control(ToCore::Record(record(5, false)));
    rig.pass();
    assert_eq!(rig.state(), State::Asking);
    assert_eq!(rig.ended().len(), 1);
}
