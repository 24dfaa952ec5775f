//! Resets of logical units, which are for all sessions at all gateways (SAM-5, "Logical unit reset").

use super::functions::{function, response};
use super::*;
use amita_frontend::reservation::State;

const UNIT_RESET: u8 = 5;
const TARGET_RESET: u8 = 6;
const TASK_ABORTED: u8 = 0x40;
/// Unit attention: BUS DEVICE RESET FUNCTION OCCURRED.
const RESET: (u8, [u8; 3]) = (2, [6, 0x29, 3]);

/// A gateway of a cluster whose owners count resets.
fn cluster() -> World {
    let world = World::new();
    change(&world, |scsi| scsi.extended_reservations = true);
    world
}

fn change(world: &World, change: impl FnOnce(&mut amita_scsi::Catalog)) {
    let mut catalog = Catalog::clone(&world.port.catalog());
    let mut scsi = amita_scsi::Catalog::clone(&catalog.scsi);
    scsi.revision += 1;
    change(&mut scsi);
    catalog.scsi = Arc::new(scsi);
    world.set(catalog);
}

/// The settings tell that the volumes were reset so often; and that is heard of.
fn tell(world: &mut World, hosts: &mut [&mut Host], resets: &[(VolumeId, u64)]) {
    let state = |resets| {
        Arc::new(State {
            resets,
            ..State::default()
        })
    };
    let reservations = resets.iter().map(|(volume, resets)| (*volume, state(*resets)));
    change(world, |scsi| scsi.reservations = reservations.collect());
    for host in hosts {
        world.service.events.push_back((host.id, Event::Settings));
        host.settle(world);
    }
}

/// What the owners have counted.
fn counted(world: &World) -> Vec<(VolumeId, u64)> {
    let reserved = world.service.reservations();
    reserved
        .into_iter()
        .map(|(volume, state)| (volume, state.resets))
        .collect()
}

fn ready(host: &mut Host, world: &mut World, lun: u16) -> (u8, [u8; 3]) {
    host.run(world, command(lun, 0x80, 0, TEST_UNIT_READY), &[]).told()
}

#[test]
fn what_another_gateway_has_reset_ends_here_too() {
    let mut world = cluster();
    let volume = world.volume(1);
    tell(&mut world, &mut [], &[(volume, 4)]);
    let mut host = Host::session(&mut world);
    assert_eq!(ready(&mut host, &mut world, 1), GOOD, "what was before it is no news");
    world.runs = false;
    let ended = host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    let other = host.give(&mut world, read(0, 0, 1), &[]);
    tell(&mut world, &mut [&mut host], &[(volume, 5)]);
    assert_eq!(host.pdus(), [], "what is under way lands first");
    world.runs = true;
    host.settle(&mut world);
    let pdus = host.pdus();
    let of = |tag| pdus.iter().find(|pdu| pdu.header.task_tag() == tag).expect("an answer");
    // TAS of the control mode page is 1.
    assert_eq!(of(ended).status().0, TASK_ABORTED);
    assert_eq!(of(other).kind(), opcode::DATA_IN, "of another logical unit");
    assert_eq!(ready(&mut host, &mut world, 1), RESET);
    for lun in 0..2 {
        assert_eq!(ready(&mut host, &mut world, lun), GOOD);
    }
    // The same once more is no news; several at once are one.
    tell(&mut world, &mut [&mut host], &[(volume, 5)]);
    assert_eq!(ready(&mut host, &mut world, 1), GOOD);
    tell(&mut world, &mut [&mut host], &[(volume, 8)]);
    assert_eq!(
        [ready(&mut host, &mut world, 1), ready(&mut host, &mut world, 1)],
        [RESET, GOOD]
    );
    // An operator has removed the record: it is counted anew.
    tell(&mut world, &mut [&mut host], &[]);
    assert_eq!(ready(&mut host, &mut world, 1), GOOD);
    tell(&mut world, &mut [&mut host], &[(volume, 1)]);
    assert_eq!(ready(&mut host, &mut world, 1), RESET);
}

/// What its own gateway has told it it is not told again, nor are tasks ended that it has begun since.
#[test]
fn a_reset_is_heard_of_once() {
    let mut world = cluster();
    let mut host = Host::session_of(&mut world, 1, &[]);
    let mut other = Host::session_of(&mut world, 2, &[]);
    host.give(&mut world, function(UNIT_RESET, 1, NO_TAG, 0), &[]);
    other.settle(&mut world);
    host.settle(&mut world);
    assert_eq!(response(&host.one()), 0);
    for host in [&mut host, &mut other] {
        assert_eq!(ready(host, &mut world, 1), RESET);
    }
    world.runs = false;
    let tags = [&mut host, &mut other].map(|host| host.give(&mut world, read(1, 0, 1), &[]));
    let counts = counted(&world);
    assert_eq!(counts.iter().map(|count| count.1).sum::<u64>(), 1);
    tell(&mut world, &mut [&mut host, &mut other], &counts);
    world.runs = true;
    for (host, tag) in [&mut host, &mut other].into_iter().zip(tags) {
        host.settle(&mut world);
        let pdu = host.one();
        assert_eq!((pdu.kind(), pdu.header.task_tag()), (opcode::DATA_IN, tag));
        assert_eq!(ready(host, &mut world, 1), GOOD);
    }
}

/// The settings may be faster than the register.
#[test]
fn a_reset_that_the_settings_tell_first() {
    let mut world = cluster();
    let mut host = Host::session_of(&mut world, 1, &[]);
    let mut other = Host::session_of(&mut world, 2, &[]);
    world.runs = false;
    let ended = other.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    let header = host.numbered(function(UNIT_RESET, 1, NO_TAG, 0));
    host.receive(&mut world, &pdu(header, &[], (false, false)));
    let counts = counted(&world);
    tell(&mut world, &mut [&mut other], &counts);
    assert_eq!(ready(&mut other, &mut world, 1), RESET);
    let later = other.give(&mut world, write(1, 1, 1), &pattern(2, 4096));
    // Its own it knows of by the owner's answer only.
    world.service.events.push_front((host.id, Event::Settings));
    host.settle(&mut world);
    other.settle(&mut world);
    host.settle(&mut world);
    assert_eq!(host.pdus(), [], "a task of the other one is under way");
    world.service.run_one(0);
    other.settle(&mut world);
    host.settle(&mut world);
    assert_eq!(response(&host.one()), 0, "what was begun since is not waited for");
    world.runs = true;
    other.settle(&mut world);
    let told: Vec<(u32, u8)> = other
        .pdus()
        .iter()
        .map(|pdu| (pdu.header.task_tag(), pdu.status().0))
        .collect();
    assert_eq!(told[..], [(ended, TASK_ABORTED), (later, 0)]);
    assert_eq!(
        [ready(&mut host, &mut world, 1), ready(&mut host, &mut world, 1)],
        [RESET, GOOD]
    );
    assert_eq!(ready(&mut other, &mut world, 1), GOOD, "told once");
}

#[test]
fn a_reset_that_its_owner_has_not_counted_is_rejected() {
    let mut world = cluster();
    let mut host = Host::session(&mut world);
    world.change(&mut [&mut host], |_, target| {
        Arc::make_mut(&mut target.units[1]).volume = VolumeId(999);
    });
    host.give(&mut world, function(UNIT_RESET, 1, NO_TAG, 0), &[]);
    assert_eq!(response(&host.one()), 255);
    host.give(&mut world, function(UNIT_RESET, 0, NO_TAG, 0), &[]);
    assert_eq!(response(&host.one()), 0);
}

#[test]
fn a_reset_waits_until_other_gateways_have_heard_of_it() {
    let mut world = cluster();
    change(&world, |scsi| {
        let other = Group {
            tag: 4,
            node: NodeId(2),
            name: "n2".into(),
            alive: true,
        };
        scsi.groups.push(other);
    });
    let mut host = Host::session(&mut world);
    host.give(&mut world, function(UNIT_RESET, 1, NO_TAG, 0), &[]);
    assert_eq!(host.pdus(), []);
    assert_eq!(counted(&world)[1].1, 1, "its owner has it");
    world.now = host.front.deadline().expect("a deadline");
    assert!(world.now > Time(0), "other gateways look now and then");
    host.tick(&mut world);
    assert_eq!(response(&host.one()), 0);
}

/// A host that has lost all of its disks for a while resets them side by side. Each reset is carried out; and what was sent behind one is not ended by it.
#[test]
fn several_resets_are_carried_out_one_after_the_other() {
    let mut world = cluster();
    change(&world, |scsi| {
        let other = Group {
            tag: 4,
            node: NodeId(2),
            name: "n2".into(),
            alive: true,
        };
        scsi.groups.push(other);
    });
    let mut host = Host::session_of(&mut world, 1, &[]);
    let mut other = Host::session_of(&mut world, 2, &[]);
    world.runs = false;
    let mut bytes = Vec::new();
    let mut resets = Vec::new();
    for lun in [1, 0, 1] {
        let header = host.numbered(function(UNIT_RESET, lun, NO_TAG, 0));
        resets.push(header.task_tag());
        bytes.extend(pdu(header, &[], (false, false)));
    }
    let behind = host.numbered(read(0, 0, 1));
    bytes.extend(pdu(behind, &[], (false, false)));
    host.send(&mut world, &bytes);
    world.runs = true;
    let mut answered = Vec::new();
    for _ in 0..3 {
        other.settle(&mut world);
        host.settle(&mut world);
        world.now = host.front.deadline().expect("other gateways hear of each");
        host.tick(&mut world);
        for told in host.pdus() {
            match told.kind() {
                opcode::TASK_MANAGEMENT_RESPONSE => {
                    assert_eq!(response(&told), 0);
                    answered.push(told.header.task_tag());
                }
                // The unit attention of the reset, and nothing else, keeps it from reading.
                _ => assert_eq!((told.header.task_tag(), told.status()), (behind.task_tag(), RESET)),
            }
        }
    }
    assert_eq!(answered, resets);
    let counts: Vec<u64> = counted(&world).into_iter().map(|count| count.1).collect();
    assert_eq!(counts, [1, 2]);
    for host in [&mut host, &mut other] {
        assert_eq!(ready(host, &mut world, 1), RESET);
        assert_eq!(ready(host, &mut world, 1), GOOD);
    }
}

#[test]
fn a_reset_of_the_target_is_counted_by_all_owners() {
    let mut world = cluster();
    let mut host = Host::session(&mut world);
    let volumes: Vec<VolumeId> = (2..50)
        .map(|number| world.volumes.add(&format!("vol{number}"), 16 * MIB, 1 << 20, false))
        .collect();
    world.change(&mut [&mut host], |_, target| {
        let last = target.units[1].clone();
        target.units.extend((2..).zip(&volumes).map(|(number, volume)| {
            Arc::new(Unit {
                number,
                volume: *volume,
                name: format!("vol{number}"),
                uuid: [number as u8 + 1; 16],
                ..Unit::clone(&last)
            })
        }));
        // A snapshot has no owner.
        Arc::make_mut(&mut target.units[0]).snapshot = SnapshotId(1);
    });
    host.give(&mut world, function(TARGET_RESET, 0, NO_TAG, 0), &[]);
    assert_eq!(response(&host.one()), 0);
    let counts: Vec<u64> = counted(&world).into_iter().map(|count| count.1).collect();
    assert_eq!((counts[0], &counts[1..]), (0, &[1; 49][..]));
}

/// What an owner has done for a task its host is told, also where a reset has come meanwhile.
#[test]
fn a_reservation_that_was_made_before_a_reset() {
    const REGISTER_AND_IGNORE: u8 = 6;
    let mut world = cluster();
    let volume = world.volume(1);
    let mut host = Host::session(&mut world);
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[8]) = (0x5f, REGISTER_AND_IGNORE, 24);
    let mut list = [0; 24];
    list[15] = 7;
    let register = host.numbered(command(1, 0xa0, 24, cdb));
    host.receive(&mut world, &pdu(register, &list, (false, false)));
    // The settings come before the owner's answer.
    change(&world, |scsi| {
        let state = State {
            resets: 1,
            ..State::default()
        };
        scsi.reservations = BTreeMap::from([(volume, Arc::new(state))]);
    });
    world.service.events.push_front((host.id, Event::Settings));
    host.settle(&mut world);
    assert_eq!(host.one().status(), GOOD);
    assert_eq!(ready(&mut host, &mut world, 1), RESET);
}
