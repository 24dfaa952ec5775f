//! Hosts that answer no question (iPXE, EDK2): nothing of theirs waits for an answer.

use super::silence::{NOTHING, SILENCE_MS, answer, block, ms, question};
use super::*;

/// A host that has just logged in, and has sent nothing else.
fn newcomer(world: &mut World) -> Host {
    let mut host = Host::open(world);
    let answer = host.login_with(world, INITIATOR, 1, &[]);
    assert_eq!((answer.header.0[36], answer.header.0[37]), (0, 0));
    host
}

/// The question that its first command brought, which is answered behind that.
fn first(world: &mut World, host: &mut Host) -> u32 {
    let tag = host.give(world, command(0, 0x80, 0, TEST_UNIT_READY), &[]);
    let said = host.pdus();
    let kinds: Vec<u8> = said.iter().map(Pdu::kind).collect();
    assert_eq!(kinds, [opcode::NOP_IN, opcode::SCSI_RESPONSE]);
    assert_eq!(said[1].header.task_tag(), tag);
    said[0].header.target_tag()
}

fn unit_attentions(world: &mut World, host: &mut Host) {
    for lun in [0, 0, 0, 1, 1, 1] {
        host.run(world, command(lun, 0x80, 0, TEST_UNIT_READY), &[]);
    }
}

/// Unit attentions of a host that names none of the statuses that it is sent.
fn unseen_unit_attentions(world: &mut World, host: &mut Host) {
    let seen = host.stat_sn;
    for lun in [0, 0, 0, 0, 1, 1, 1] {
        let header = host.numbered(command(lun, 0x80, 0, TEST_UNIT_READY)).with_u32(28, seen);
        let bytes = pdu(header, &[], host.digests);
        host.send(world, &bytes);
        host.pdus();
    }
}

#[test]
fn keep_their_sessions_over_pauses() {
    let mut world = World::new();
    let mut host = newcomer(&mut world);
    first(&mut world, &mut host);
    unit_attentions(&mut world, &mut host);
    let data = pattern(1, 4096);
    for pause in [SILENCE_MS, 2999, 3000, 14_000] {
        world.pass(ms(pause));
        host.tick(&mut world);
        assert_eq!(host.run(&mut world, write(1, 0, 1), &data).told(), GOOD, "{pause}");
        assert_eq!(host.run(&mut world, read(1, 0, 1), &[]).data, data, "{pause}");
    }
    assert_eq!(host.closed, None);
    // They are given up as all are that are silent for half a minute.
    let since = world.now;
    let mut questions = 0;
    while host.closed.is_none() {
        world.now = host.front.deadline().expect("a deadline");
        host.tick(&mut world);
        questions += host.pdus().len();
    }
    assert_eq!((host.closed, questions), (Some(CloseReason::Timeout), 1));
    assert_eq!(world.now, since.plus(ms(30_000)));
}

/// One command is enough: the next one tells.
#[test]
fn are_known_by_their_second_command() {
    let mut world = World::new();
    let mut host = newcomer(&mut world);
    first(&mut world, &mut host);
    world.pass(ms(29_999));
    host.tick(&mut world);
    question(&mut host);
    let tag = host.give(&mut world, command(1, 0x80, 0, TEST_UNIT_READY), &[]);
    let said = host.one();
    assert_eq!((said.kind(), said.header.task_tag()), (opcode::SCSI_RESPONSE, tag));
}

/// iPXE takes the StatSN of whatever comes last, of a NOP-In too, for one that was used up.
#[test]
fn are_known_where_they_acknowledge_a_question_as_a_status() {
    let mut world = World::new();
    let mut host = newcomer(&mut world);
    first(&mut world, &mut host);
    world.pass(ms(15_000));
    host.tick(&mut world);
    question(&mut host);
    let exp_stat_sn = host.stat_sn.wrapping_add(1);
    let header = host
        .numbered(command(1, 0x80, 0, TEST_UNIT_READY))
        .with_u32(28, exp_stat_sn);
    let bytes = pdu(header, &[], host.digests);
    host.send(&mut world, &bytes);
    let said = host.one();
    assert_eq!(
        (said.kind(), said.header.task_tag()),
        (opcode::SCSI_RESPONSE, header.task_tag())
    );
}

/// A silence of one that was taken for such a host, and an answer behind it that is too late: what follows is doubted.
#[test]
fn are_doubted_when_their_answer_comes_behind_a_silence() {
    let mut world = World::new();
    let mut host = newcomer(&mut world);
    let asked = first(&mut world, &mut host);
    unit_attentions(&mut world, &mut host);
    world.pass(ms(2 * SILENCE_MS));
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    let tag = host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    let asked = question(&mut host);
    assert_eq!(block(&world, 0), NOTHING.to_vec());
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().header.task_tag(), tag);
    assert_eq!(block(&world, 0), pattern(1, 4096));
}

/// What names no status behind the question may be of a host that has not heard it. It waits, as does what comes behind it until that is known.
#[test]
fn are_not_those_who_have_not_seen_the_question() {
    let mut world = World::new();
    let mut host = newcomer(&mut world);
    unseen_unit_attentions(&mut world, &mut host);
    let seen = host.stat_sn;
    world.pass(ms(SILENCE_MS));
    let mut tags = Vec::new();
    let mut send = |world: &mut World, host: &mut Host, number, exp_stat_sn: u32| {
        let header = host.numbered(write(1, 0, 1)).with_u32(28, exp_stat_sn);
        tags.push(header.task_tag());
        let bytes = pdu(header, &pattern(number, 4096), host.digests);
        host.send(world, &bytes);
    };
    // The second one tells of what nobody has sent.
    send(&mut world, &mut host, 1, seen.wrapping_sub(7));
    question(&mut host);
    send(&mut world, &mut host, 2, seen + 2);
    assert_eq!((host.pdus(), block(&world, 0)), (vec![], NOTHING.to_vec()));
    send(&mut world, &mut host, 3, seen);
    let said: Vec<u32> = host.pdus().iter().map(|pdu| pdu.header.task_tag()).collect();
    assert_eq!(said, tags);
    assert_eq!(block(&world, 0), pattern(3, 4096), "in their order");
}

/// Who answers does, however late it was, and whatever its commands tell later.
#[test]
fn are_no_longer_those_who_answer() {
    let mut world = World::new();
    let mut host = newcomer(&mut world);
    let asked = first(&mut world, &mut host);
    unit_attentions(&mut world, &mut host);
    world.pass(ms(2 * SILENCE_MS));
    assert_eq!(
        host.run(&mut world, read(1, 0, 1), &[]).told(),
        GOOD,
        "it has not answered yet"
    );
    let bytes = answer(&host, asked);
    host.send(&mut world, &bytes);
    for _ in 0..2 {
        world.pass(ms(SILENCE_MS));
        let tag = host.give(&mut world, read(1, 0, 1), &[]);
        let asked = question(&mut host);
        host.give(
            &mut world,
            Header::new(0x40 | opcode::NOP_OUT, 0x80).with_target_tag(NO_TAG),
            &[],
        );
        assert_eq!(
            host.one().kind(),
            opcode::NOP_IN,
            "its own is answered, and the command waits"
        );
        let bytes = answer(&host, asked);
        host.send(&mut world, &bytes);
        assert_eq!(host.one().header.task_tag(), tag);
    }
}
