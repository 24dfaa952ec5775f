//! Compare and Write, as one.

use super::*;
use amita_types::io::{IoError, Op};

const FAILED: (u8, u8) = (0, 0x09);
const MISSING: (u8, u8) = (0, 0x0a);

fn start() -> (World, Host) {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let io = Host::io_with(&mut world, &admin, 1, 0, 1, 0);
    (world, io)
}

fn compare(first: u64, count: u32) -> Sqe {
    write(1, 1, first, count).opcode(5).fuse(1)
}

fn second(first: u64, count: u32) -> Sqe {
    write(2, 1, first, count).fuse(2)
}

/// Sends commands together and answers all R2Ts with their command's data; statuses by identifier.
fn run(world: &mut World, host: &mut Host, commands: &[(Sqe, &[u8])]) -> Vec<(u16, (u8, u8))> {
    let mut bytes = Vec::new();
    for (command, data) in commands {
        let data = if command.0[39] == 1 { data } else { &[][..] };
        bytes.extend(host.capsule(*command, data));
    }
    let mut statuses = Vec::new();
    while !bytes.is_empty() {
        host.send(world, &bytes);
        bytes.clear();
        for pdu in host.pdus() {
            let id = pdu.id();
            if pdu.kind == kind::RESPONSE {
                statuses.push((id, pdu.status()));
                continue;
            }
            let (tag, length) = (u16_at(&pdu.header, 2), u32_at(&pdu.header, 8) as usize);
            let found = commands.iter().find(|(command, _)| u16_at(&command.0, 2) == id);
            bytes.extend(host.data_pdu(id, tag, 0, &found.unwrap().1[..length], true));
        }
    }
    statuses
}

#[test]
fn a_pair_is_done_as_one() {
    for in_capsule in [false, true] {
        let (mut world, mut host) = start();
        let (old, new) = (vec![0; 4096], pattern(1, 4096));
        let way = |command: Sqe| if in_capsule { command.capsule(4096) } else { command };
        let pair = [(way(compare(5, 1)), &old[..]), (way(second(5, 1)), &new[..])];
        assert_eq!(run(&mut world, &mut host, &pair), [(1, (0, 0)), (2, (0, 0))]);
        assert_eq!(host.run(&mut world, read(3, 1, 5, 1), &[]).1, new);
        // It is other data now.
        assert_eq!(run(&mut world, &mut host, &pair), [(1, (2, 0x85)), (2, FAILED)]);
        assert_eq!(host.run(&mut world, read(3, 1, 5, 1), &[]).1, new);
        world.service.fault = Some((5 * 4096, IoError::NoSpace));
        assert_eq!(run(&mut world, &mut host, &pair), [(1, FAILED), (2, (0, 0x81))]);
    }
    let (mut world, mut host) = start();
    world.runs = false;
    let old = vec![0; 64 << 10];
    assert_eq!(
        run(&mut world, &mut host, &[(compare(0, 16), &old), (second(0, 16), &old)]),
        []
    );
    let ops: Vec<Op> = world.service.queue.iter().map(|submitted| submitted.op).collect();
    assert_eq!(
        ops,
        [Op::CompareAndWrite {
            offset: 0,
            length: 64 << 10
        }]
    );
}

#[test]
fn half_a_pair_is_refused() {
    let (mut world, mut host) = start();
    let zeros = vec![0; 8192];
    let flush = Sqe::new(0, 3, 1);
    assert_eq!(run(&mut world, &mut host, &[(second(0, 1), &zeros)]), [(2, MISSING)]);
    let statuses = run(
        &mut world,
        &mut host,
        &[(compare(0, 1).capsule(4096), &zeros[..4096]), (flush, &[])],
    );
    assert_eq!(statuses, [(1, MISSING), (3, (0, 0))]);
    let statuses = run(
        &mut world,
        &mut host,
        &[(compare(0, 1), &zeros), (flush, &[]), (second(0, 1), &zeros)],
    );
    assert_eq!(statuses, [(2, MISSING), (3, (0, 0)), (1, MISSING)]);
    // Two firsts.
    let again = Sqe(compare(0, 1).0).dword(0, 0x0004_4105);
    let statuses = run(
        &mut world,
        &mut host,
        &[(compare(0, 1), &zeros), (again, &zeros), (second(0, 1), &zeros)],
    );
    assert_eq!(statuses, [(1, MISSING), (4, (0, 0)), (2, (0, 0))]);
}

#[test]
fn pairs_that_do_not_fit_are_refused() {
    let (mut world, mut host) = start();
    let zeros = vec![0; 1 << 20];
    let mut sum = |first: Sqe, other: Sqe| {
        let mut statuses = run(&mut world, &mut host, &[(first, &zeros), (other, &zeros)]);
        statuses.sort_unstable();
        let statuses: Vec<_> = statuses.into_iter().map(|(_, status)| status).collect();
        statuses
    };
    assert_eq!(sum(compare(0, 1), second(1, 1)), [FAILED, (0, 2)]);
    assert_eq!(sum(compare(0, 1), second(0, 2)), [FAILED, (0, 2)]);
    assert_eq!(
        sum(compare(0, 17), second(0, 17)),
        [(0, 0x14), MISSING],
        "more than ACWU"
    );
    assert_eq!(
        sum(compare(255, 2), second(255, 2)),
        [(0, 0x14), MISSING],
        "over a chunk's border"
    );
    assert_eq!(sum(compare(0, 1).opcode(1), second(0, 1)), [(0, 2), MISSING]);
    assert_eq!(sum(compare(0, 1), second(0, 1)), [(0, 0), (0, 0)], "all is well again");
}
