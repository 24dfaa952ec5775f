//! A namespace that is a snapshot: what it has is read, and nothing changes it (NVM Express Base 2.1, 8.1.16).

use super::*;
use amita_types::io::Op;

const PROTECTED: (u8, u8) = (0, 0x20);
const INVALID_OPCODE: (u8, u8) = (0, 0x01);

/// Namespace 2 is what the volume of namespace 1 was.
fn world() -> World {
    let mut world = World::new();
    world.change(&mut [], |subsystem| {
        let head = Namespace::clone(&subsystem.namespaces[0]);
        subsystem.namespaces[1] = Arc::new(Namespace {
            nsid: 2,
            snapshot: SnapshotId(7),
            uuid: [9; 16],
            nguid: [9; 16],
            ..head
        });
    });
    world
}

/// The command, for the snapshot. (By themselves commands have blocks of 512 bytes for namespace 2.)
fn of_snapshot(mut command: Sqe) -> Sqe {
    command.0[4] = 2;
    command
}

#[test]
fn whatever_would_change_it_is_refused_and_the_rest_is_done() {
    let mut world = world();
    let admin = Host::admin(&mut world);
    let mut host = Host::io(&mut world, &admin);
    let data = pattern(3, 8192);
    assert_eq!(host.run(&mut world, write(1, 1, 4, 2), &data).0, (0, 0));
    assert_eq!(
        host.run(&mut world, of_snapshot(read(1, 1, 4, 2)), &[]),
        ((0, 0), data.clone())
    );
    assert_eq!(
        host.run(&mut world, of_snapshot(write(1, 1, 4, 2)), &pattern(4, 8192))
            .0,
        PROTECTED
    );
    // Write Zeroes, with deallocation and without.
    for deallocate in [0, 1 << 25] {
        let zeroes = Sqe::new(8, 1, 2).blocks(4, 2);
        let zeroes = zeroes.dword(12, 1 | deallocate);
        assert_eq!(host.run(&mut world, zeroes, &[]).0, PROTECTED);
    }
    let mut range = [0; 32];
    range[4] = 2;
    range[8] = 4;
    let dataset = |attributes| Sqe::new(9, 1, 2).dword(11, attributes).transport(16);
    assert_eq!(host.run(&mut world, dataset(4), &range[..16]).0, PROTECTED);
    assert_eq!(host.run(&mut world, dataset(1), &range[..16]).0, (0, 0), "a hint");
    let mut from = [0; 32];
    from[8] = 4;
    let copy = Sqe::new(0x19, 1, 2).dword(10, 100).transport(32);
    assert_eq!(host.run(&mut world, copy, &from).0, PROTECTED);
    for opcode in [0x0d, 0x0e, 0x11, 0x15] {
        let reserve = Sqe::new(opcode, 1, 2).transport(16);
        assert_eq!(host.run(&mut world, reserve, &[0; 16]).0, INVALID_OPCODE);
    }
    assert_eq!(host.run(&mut world, Sqe::new(0, 1, 2), &[]).0, (0, 0), "flush");
    let compare = of_snapshot(write(1, 1, 4, 2)).opcode(5);
    assert_eq!(host.run(&mut world, compare, &data).0, (0, 0));
    assert_eq!(
        host.run(&mut world, Sqe::new(0x0c, 1, 2).blocks(4, 2), &[]).0,
        (0, 0),
        "verify"
    );
    assert_eq!(host.run(&mut world, of_snapshot(read(1, 1, 4, 2)), &[]), ((0, 0), data));
}

#[test]
fn a_pair_is_refused_by_its_write() {
    let mut world = world();
    let admin = Host::admin(&mut world);
    let mut host = Host::io_with(&mut world, &admin, 1, 0, 1, 0);
    let zeros = [0; 4096];
    let compare = of_snapshot(write(1, 1, 4, 1)).opcode(5).fuse(1).capsule(4096);
    let second = of_snapshot(write(2, 1, 4, 1)).fuse(2).capsule(4096);
    let pair = [host.capsule(compare, &zeros), host.capsule(second, &pattern(1, 4096))].concat();
    host.send(&mut world, &pair);
    let mut statuses: Vec<_> = host.pdus().iter().map(|pdu| (pdu.id(), pdu.status())).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [(1, (0, 0x09)), (2, PROTECTED)]);
    assert_eq!(host.run(&mut world, read(1, 1, 4, 1), &[]).1, zeros);
}

/// The service is told which of the two is meant, and a reservation of the volume holds nobody up who reads what it was.
#[test]
fn each_command_names_what_it_is_of() {
    let mut world = world();
    let (first, second) = (Host::admin_of(&mut world, 1), Host::admin_of(&mut world, 2));
    let (mut a, mut b) = (Host::io(&mut world, &first), Host::io(&mut world, &second));
    let mut key = [0; 16];
    key[8] = 5;
    assert_eq!(a.run(&mut world, Sqe::new(0x0d, 1, 1).transport(16), &key).0, (0, 0));
    key.rotate_left(8);
    // Exclusive access.
    let acquire = Sqe::new(0x11, 1, 1).dword(10, 2 << 8).capsule(16);
    assert_eq!(a.run(&mut world, acquire, &key).0, (0, 0));
    assert_eq!(b.run(&mut world, read(1, 1, 0, 1), &[]).0, (0, 0x83));
    assert_eq!(b.run(&mut world, of_snapshot(read(1, 1, 0, 1)), &[]).0, (0, 0));
    world.runs = false;
    b.command(&mut world, of_snapshot(read(1, 1, 0, 1)));
    let submitted = &world.service.queue[0];
    assert!(matches!(submitted.op, Op::Read { .. }));
    assert_eq!(submitted.source().snapshot, SnapshotId(7));
}
