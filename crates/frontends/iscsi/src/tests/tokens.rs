//! Copies by token, and volumes that hosts have moved.

use super::*;
use crate::hub::{Call, Reply};
use amita_scsi::TokenKeys;

const NOW: u64 = 1_800_000_000;
const POPULATE: u8 = 0x10;
const WRITE_USING: u8 = 0x11;

fn world() -> World {
    let mut world = World::new();
    world.port.set_clock(Box::new(|| NOW));
    with_key(&mut world, 7);
    world
}

/// The cluster has that key for tokens.
fn with_key(world: &mut World, key: u8) {
    let mut catalog = Catalog::clone(&world.port.catalog());
    let mut scsi = amita_scsi::Catalog::clone(&catalog.scsi);
    scsi.tokens = TokenKeys::new(&[[key; 32]]).map(Arc::new);
    catalog.scsi = Arc::new(scsi);
    world.set(catalog);
}

/// A range of blocks.
fn range(lba: u64, count: u32) -> Vec<u8> {
    [&lba.to_be_bytes()[..], &count.to_be_bytes(), &[0; 4]].concat()
}

fn send(host: &mut Host, world: &mut World, lun: u16, action: u8, list: &[u8]) -> Outcome {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[9]) = (0x83, action, 5);
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    host.run(world, command(lun, 0xa0, list.len() as u32, cdb), list)
}

fn populate(host: &mut Host, world: &mut World, lun: u16, lba: u64, count: u32) -> Outcome {
    let mut list = vec![0; 16];
    (list[1], list[15]) = (14 + 16, 16);
    list.extend(range(lba, count));
    send(host, world, lun, POPULATE, &list)
}

fn write_using(
    host: &mut Host,
    world: &mut World,
    lun: u16,
    (token, skip): (&[u8], u64),
    lba: u64,
    count: u32,
) -> Outcome {
    let mut list = vec![0; 536];
    list[..2].copy_from_slice(&(534_u16 + 16).to_be_bytes());
    list[8..16].copy_from_slice(&skip.to_be_bytes());
    list[16..528].copy_from_slice(token);
    list[535] = 16;
    list.extend(range(lba, count));
    send(host, world, lun, WRITE_USING, &list)
}

/// RECEIVE ROD TOKEN INFORMATION.
fn information(host: &mut Host, world: &mut World) -> Vec<u8> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[5], cdb[12]) = (0x84, 0x07, 5, 4);
    let outcome = host.run(world, command(0, 0xc0, 1024, cdb), &[]);
    assert_eq!(outcome.told(), GOOD);
    outcome.data
}

fn token_of(host: &mut Host, world: &mut World, lun: u16, lba: u64, count: u32) -> Vec<u8> {
    assert_eq!(populate(host, world, lun, lba, count).told(), GOOD);
    information(host, world)[38..].to_vec()
}

/// SBC-3, "POPULATE TOKEN command" and "WRITE USING TOKEN command": from one logical unit to another of other blocks, in parts.
#[test]
fn what_a_token_represents_is_written() {
    let mut world = world();
    let mut host = Host::session(&mut world);
    let data = pattern(3, 9 << 20);
    let around = pattern(5, 8192);
    for lba in [75, 77 + 1500] {
        assert_eq!(host.run(&mut world, write(1, lba, 2), &around).told(), GOOD);
    }
    for (index, part) in data.chunks(1 << 20).enumerate() {
        let lba = 24 + 2048 * index as u32;
        assert_eq!(host.run(&mut world, write(0, lba, 2048), part).told(), GOOD);
    }
    let token = token_of(&mut host, &mut world, 0, 24, 9 << 11);
    assert_eq!(token.len(), 512);
    // Of blocks of 4 KiB: 2304 in all; the first 300 are left out, and 1500 written, which end inside a section.
    let outcome = write_using(&mut host, &mut world, 1, (&token, 300), 77, 1500);
    assert_eq!(outcome.told(), GOOD);
    let told = information(&mut host, &mut world);
    assert_eq!(
        (told[4], told[5], &told[16..24]),
        (WRITE_USING, 1, &1500_u64.to_be_bytes()[..])
    );
    let (begin, bytes) = (300 * 4096, 1500 * 4096);
    assert!(world.volumes.read(world.volume(1), 77 * 4096, bytes) == data[begin..begin + bytes]);
    // Nothing else.
    assert!(world.volumes.read(world.volume(1), 75 * 4096, 8192) == around);
    assert!(world.volumes.read(world.volume(1), (77 + 1500) * 4096, 8192) == around);
    // By another session, which has been given the token by the first one's host.
    let mut other = Host::session_of(&mut world, 2, &[]);
    assert_eq!(write_using(&mut other, &mut world, 1, (&token, 0), 0, 64).told(), GOOD);
    assert!(world.volumes.read(world.volume(1), 0, 64 * 4096) == data[..64 * 4096]);
}

/// SPC-4, "ROD types": a point in time copy that is change vulnerable.
#[test]
fn what_has_changed_is_not_taken_for_what_it_was() {
    let mut world = world();
    let mut host = Host::session(&mut world);
    let data = pattern(8, 1 << 20);
    assert_eq!(host.run(&mut world, write(0, 0, 2048), &data).told(), GOOD);
    let token = token_of(&mut host, &mut world, 0, 0, 4096);
    // The same again changes nothing.
    assert_eq!(
        host.run(&mut world, write(0, 100, 4), &data[51_200..53_248]).told(),
        GOOD
    );
    assert_eq!(write_using(&mut host, &mut world, 1, (&token, 0), 0, 512).told(), GOOD);
    // One block of the second half, which has read as zeros.
    assert_eq!(host.run(&mut world, write(0, 3000, 1), &data[..512]).told(), GOOD);
    let outcome = write_using(&mut host, &mut world, 1, (&token, 0), 0, 512);
    assert_eq!(outcome.told(), (2, [5, 0x23, 6]));
    assert_eq!(information(&mut host, &mut world)[5], 2);
}

#[test]
fn tokens_that_are_refused() {
    let mut world = world();
    let mut host = Host::session(&mut world);
    let token = token_of(&mut host, &mut world, 0, 0, 64);
    let mut spoilt = token.clone();
    spoilt[200] ^= 1;
    let unknown = (2, [5, 0x23, 4]);
    assert_eq!(
        write_using(&mut host, &mut world, 1, (&spoilt, 0), 0, 8).told(),
        unknown
    );
    world.port.set_clock(Box::new(|| NOW + 60));
    let expired = write_using(&mut host, &mut world, 1, (&token, 0), 0, 8);
    assert_eq!(expired.told(), (2, [5, 0x23, 7]));
    world.port.set_clock(Box::new(|| NOW));
    // A gateway of another cluster, or one that has no key of it.
    with_key(&mut world, 8);
    let mut elsewhere = Host::session_of(&mut world, 2, &[]);
    assert_eq!(
        write_using(&mut elsewhere, &mut world, 1, (&token, 0), 0, 8).told(),
        unknown
    );
    // Without a key there are no tokens, and nothing tells of them.
    world.change(&mut [&mut host], |catalog, _| {
        let mut scsi = amita_scsi::Catalog::clone(&catalog.scsi);
        scsi.tokens = None;
        catalog.scsi = Arc::new(scsi);
    });
}

/// Copies of a session are counted: what is too many at once may come again.
#[test]
fn tokens_that_are_made_give_back_what_they_take() {
    let mut world = world();
    let mut host = Host::session(&mut world);
    for round in 0..20 {
        let outcome = populate(&mut host, &mut world, 0, round * 64, 4096);
        assert_eq!(outcome.told(), GOOD, "{round}");
    }
    // Where a read fails, no token is made.
    world.runs = false;
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[9], cdb[13]) = (0x83, POPULATE, 5, 32);
    let mut list = vec![0; 16];
    (list[1], list[15]) = (30, 16);
    list.extend(range(0, 64));
    host.give(&mut world, command(0, 0xa0, 32, cdb), &list);
    let abort = Header::new(opcode::TASK_MANAGEMENT, 0x80 | 2).with_task_tag(0x7777);
    let abort = host.numbered(abort);
    let bytes = pdu(abort, &[], host.digests);
    host.send(&mut world, &bytes);
    world.runs = true;
    host.settle(&mut world);
    assert!(
        host.pdus().iter().all(|pdu| pdu.kind() != opcode::SCSI_RESPONSE),
        "it was aborted"
    );
    assert_eq!(populate(&mut host, &mut world, 0, 0, 64).told(), GOOD);
}

/// SPC-4, "SET TARGET PORT GROUPS command".
#[test]
fn a_register_that_moves_nothing_says_so() {
    let mut world = world();
    world.change(&mut [], |_, target| {
        target.explicit_access = true;
        target.groups = vec![3, 4];
        for unit in &mut target.units {
            Arc::make_mut(unit).access = vec![(3, Alua::NonOptimized), (4, Alua::Optimized)];
        }
    });
    let mut host = Host::session(&mut world);
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[9]) = (0xa4, 0x0a, 8);
    let outcome = host.run(&mut world, command(0, 0xa0, 8, cdb), &[0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(outcome.told(), (2, [4, 0x67, 0x0a]));
    // What is so already needs nobody.
    let outcome = host.run(&mut world, command(0, 0xa0, 8, cdb), &[0, 0, 0, 0, 0, 0, 0, 4]);
    assert_eq!(outcome.told(), GOOD);
}

/// Where the node takes the wish, the host is told so as soon as it is known.
#[test]
fn a_move_that_is_accepted() {
    let mut world = world();
    world.change(&mut [], |_, target| {
        target.explicit_access = true;
        target.groups = vec![3, 4];
        Arc::make_mut(&mut target.units[0]).access = vec![(3, Alua::NonOptimized), (4, Alua::Optimized)];
    });
    let mut host = Host::session(&mut world);
    let asked = Arc::new(Asked::default());
    world.service.register = Some(asked.clone());
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[9]) = (0xa4, 0x0a, 8);
    let header = command(0, 0xa0, 8, cdb);
    let tag = host.give(&mut world, header, &[0, 0, 0, 0, 0, 0, 0, 3]);
    assert!(host.pdus().is_empty(), "nobody has answered");
    let (front, call_tag) = asked.0.lock().unwrap().expect("it is asked");
    assert_eq!(front, host.id);
    let reply = Box::new(Reply::Moving { is_accepted: true });
    let event = Event::Register { tag: call_tag, reply };
    world.service.events.push_back((host.id, event));
    host.settle(&mut world);
    let answer = host.one();
    assert_eq!((answer.header.task_tag(), answer.status()), (tag, GOOD));
}

/// A register that remembers who wanted a move.
#[derive(Debug, Default)]
struct Asked(std::sync::Mutex<Option<(FrontId, u64)>>);

impl amita_frontend::memory::Register for Asked {
    fn call(&self, front: FrontId, tag: u64, call: amita_frontend::RegisterMessage) {
        if let Ok(call) = call.downcast::<Call>()
            && let Call::Move { group: 3, .. } = *call
        {
            *self.0.lock().unwrap() = Some((front, tag));
        }
    }

    fn take(&self, _: FrontId) -> Vec<(u64, amita_frontend::RegisterMessage)> {
        Vec::new()
    }
}
