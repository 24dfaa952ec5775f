use super::super::Change;
use super::*;
use crate::control::Record;
use amita_types::Generation;
use amita_types::map::{self, Lineage};

const OLD: VolumeId = VolumeId(1);
const NEW: VolumeId = VolumeId(2);

fn volume(id: VolumeId, name: &str, lineage: Lineage) -> Volume {
    Volume {
        generation: Generation(3),
        lineage,
        ..Volume::new(id, name, "p", 1 << 20)
    }
}

fn put(view: &mut View, created: u64, record: &Volume) -> Change {
    view.apply(&Record {
        key: map::volume_key(&record.name),
        value: Some(serde_json::to_vec(record).unwrap()),
        revision: created,
        created,
    })
}

fn gone(view: &mut View, name: &str) {
    view.apply(&Record {
        key: map::volume_key(name),
        value: None,
        revision: 9,
        created: 1,
    });
}

fn moved(host: VolumeId) -> Lineage {
    Lineage {
        host: Some(host),
        ..Lineage::default()
    }
}

/// What the switch writes, in its order.
fn switch(view: &mut View, old: VolumeId, new: VolumeId) {
    let former = Lineage {
        former_of: Some(OLD),
        ..Lineage::default()
    };
    let left = put(view, 20, &volume(old, &map::hidden_name(old), former));
    assert_eq!(left, Change::Nothing, "the volume has its number still");
    assert!(!view.volume_of(old).unwrap().is_former());
    gone(view, &map::moving_name(new));
    let change = put(view, 1, &volume(new, "db", moved(OLD)));
    assert_eq!(change, Change::Volume(new, Generation(3)));
}

fn with_volume() -> View {
    let mut view = View::default();
    put(&mut view, 1, &volume(OLD, "db", Lineage::default()));
    put(&mut view, 10, &volume(NEW, &map::moving_name(NEW), Lineage::default()));
    view
}

#[test]
fn what_hosts_have_open_is_what_the_volume_is_now() {
    let mut view = with_volume();
    assert_eq!(view.present(OLD), OLD);
    switch(&mut view, OLD, NEW);
    assert_eq!(view.take_switched(), [(OLD, NEW)]);
    assert!(view.take_switched().is_empty());
    assert_eq!(
        view.take_deleted(),
        [(NEW, map::moving_name(NEW))],
        "by the name that it had, as with any change of a name"
    );
    assert_eq!((view.present(OLD), view.present(NEW)), (NEW, NEW));
    assert!(view.has_moved(NEW) && !view.has_moved(OLD));
    assert_eq!(view.known_by(NEW), [OLD, NEW]);
    assert!(
        view.known_by(OLD).is_empty(),
        "who has opened that goes on with what it is"
    );
    // What it was is there for its clones, and goes.
    assert!(view.volume_of(OLD).unwrap().is_former());
    gone(&mut view, &map::hidden_name(OLD));
    assert_eq!(view.present(OLD), NEW);
    // Once more: whoever has it open since then, too.
    put(&mut view, 11, &volume(VolumeId(3), "~3", Lineage::default()));
    switch(&mut view, NEW, VolumeId(3));
    assert_eq!((view.present(OLD), view.present(NEW)), (VolumeId(3), VolumeId(3)));
    assert_eq!(view.known_by(VolumeId(3)), [OLD, NEW, VolumeId(3)]);
}

#[test]
fn of_a_volume_that_is_gone_nothing_is_found() {
    let mut view = with_volume();
    switch(&mut view, OLD, NEW);
    gone(&mut view, "db");
    assert_eq!(view.present(OLD), OLD);
    assert_eq!(
        view.known_by(NEW),
        [OLD, NEW],
        "who has it open is told that it is gone"
    );
}

#[test]
fn nobody_goes_on_with_what_a_volume_was_before_it_was_reverted() {
    let mut view = with_volume();
    switch(&mut view, OLD, NEW);
    let mut reverted = volume(VolumeId(3), "db", moved(OLD));
    reverted.former = vec![NEW];
    put(&mut view, 1, &reverted);
    assert_eq!(view.take_switched().len(), 1, "of the move alone");
    assert_eq!((view.present(OLD), view.present(NEW)), (OLD, NEW));
    assert_eq!(
        view.known_by(NEW),
        [OLD, NEW],
        "who has it open is told that it is lost"
    );
    assert_eq!(view.known_by(VolumeId(3)), [VolumeId(3)]);
}

/// Who reads a snapshot from before a revert knows it by the number of what the volume was then.
#[test]
fn what_was_read_of_before_a_revert_is_found_behind_a_move() {
    let mut view = with_volume();
    let mut reverted = volume(VolumeId(5), "db", moved(OLD));
    reverted.former = vec![OLD];
    put(&mut view, 1, &reverted);
    assert_eq!(view.present(OLD), OLD);
    switch(&mut view, VolumeId(5), NEW);
    assert_eq!((view.present(VolumeId(5)), view.present(OLD)), (NEW, NEW));
    assert_eq!(view.take_switched(), [(VolumeId(5), NEW)]);
}
