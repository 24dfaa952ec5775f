//! What sessions reserve as only SCSI has it, and how that ends.

use super::functions::{function, response};
use super::*;

const RESERVE: u8 = 0x16;
const RELEASE: u8 = 0x17;
const CONFLICT: u8 = 0x18;

/// A gateway whose volumes know of such reservations, and two sessions.
fn two_sessions() -> (World, Host, Host) {
    let mut world = World::new();
    let mut catalog = Catalog::clone(&world.port.catalog());
    catalog.scsi = Arc::new(amita_scsi::Catalog {
        extended_reservations: true,
        ..amita_scsi::Catalog::clone(&catalog.scsi)
    });
    world.set(catalog);
    let one = Host::session_of(&mut world, 1, &[]);
    let two = Host::session_of(&mut world, 2, &[]);
    (world, one, two)
}

/// The status of RESERVE (6) and the like.
fn six(host: &mut Host, world: &mut World, operation: u8) -> u8 {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    host.run(world, command(0, 0x80, 0, cdb), &[]).status
}

fn reads(host: &mut Host, world: &mut World) -> u8 {
    host.run(world, read(0, 0, 1), &[]).status
}

fn logout() -> Header {
    Header::new(0x40 | opcode::LOGOUT, 0x80)
}

#[test]
fn a_lock_keeps_others_out_until_it_is_released() {
    let (mut world, mut one, mut two) = two_sessions();
    assert_eq!(six(&mut one, &mut world, RESERVE), 0);
    assert_eq!(six(&mut one, &mut world, RESERVE), 0, "once more");
    assert_eq!(six(&mut two, &mut world, RESERVE), CONFLICT);
    assert_eq!(six(&mut two, &mut world, RELEASE), 0, "it is no error");
    assert_eq!(
        (reads(&mut one, &mut world), reads(&mut two, &mut world)),
        (0, CONFLICT)
    );
    assert_eq!(six(&mut one, &mut world, RELEASE), 0);
    assert_eq!(reads(&mut two, &mut world), 0);
    assert_eq!(six(&mut two, &mut world, RESERVE), 0);
}

#[test]
fn a_lock_ends_before_its_logout_is_answered() {
    let (mut world, mut one, mut two) = two_sessions();
    assert_eq!(six(&mut one, &mut world, RESERVE), 0);
    one.give(&mut world, logout(), &[]);
    assert_eq!(one.one().kind(), opcode::LOGOUT_RESPONSE);
    assert_eq!(reads(&mut two, &mut world), 0);
    assert_eq!(six(&mut two, &mut world, RESERVE), 0);
}

#[test]
fn resets_end_anybodys_lock() {
    const UNIT_RESET: u8 = 5;
    const TARGET_RESET: u8 = 6;
    let (mut world, mut one, mut two) = two_sessions();
    assert_eq!(six(&mut one, &mut world, RESERVE), 0);
    two.give(&mut world, function(UNIT_RESET, 0, 0, 0), &[]);
    one.settle(&mut world);
    two.settle(&mut world);
    assert_eq!(response(&two.one()), 0);
    for host in [&mut one, &mut two] {
        host.run(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]);
    }
    assert_eq!(six(&mut two, &mut world, RESERVE), 0);
    assert_eq!(reads(&mut one, &mut world), CONFLICT);
    // Its own it knows of, whether the settings tell of it yet or not.
    two.give(&mut world, function(TARGET_RESET, 0, 0, 0), &[]);
    one.settle(&mut world);
    two.settle(&mut world);
    assert_eq!(response(&two.one()), 0);
    one.run(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]);
    assert_eq!(six(&mut one, &mut world, RESERVE), 0);
}

/// REGISTER with ALL_TG_PT at a target with one port, and READ FULL STATUS: who is registered is told by its name.
#[test]
fn registrants_are_told_by_their_names() {
    let (mut world, mut one, mut two) = two_sessions();
    let mut cdb = [0; 16];
    (cdb[0], cdb[8]) = (0x5f, 24);
    let mut list = [0; 24];
    (list[15], list[20]) = (7, 4);
    for host in [&mut one, &mut two] {
        assert_eq!(host.run(&mut world, command(0, 0xa0, 24, cdb), &list).told(), GOOD);
        assert_eq!(host.run(&mut world, command(0, 0xa0, 24, cdb), &list).status, CONFLICT);
    }
    assert_eq!(
        six(&mut one, &mut world, RESERVE),
        CONFLICT,
        "who is registered reserves by its key"
    );
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[7]) = (0x5e, 3, 4);
    let told = one.run(&mut world, command(0, 0xc0, 1024, cdb), &[]).data;
    let told = String::from_utf8_lossy(&told);
    for isid in [1, 2] {
        let name = format!("{INITIATOR},i,0x8000000000{isid:02x}\0");
        assert!(told.contains(&name), "{told:?}");
    }
}
