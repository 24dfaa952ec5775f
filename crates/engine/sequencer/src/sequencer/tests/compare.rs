use super::rig::{Rig, version};
use amita_types::io::{IoError, Op};
use amita_types::message::Refusal;

const BLOCK: u64 = 4096;

/// Block `n` of the rig's volume is full of bytes `n`.
fn compare(rig: &mut Rig, block: u64, expected: u8, new: u8) -> crate::io::IoId {
    let mut data = vec![expected; 512];
    data.resize(1024, new);
    let op = Op::CompareAndWrite {
        offset: block * BLOCK,
        length: 512,
    };
    rig.submit(op, &data)
}

#[test]
fn writes_where_the_range_is_as_expected() {
    let mut rig = Rig::open(2, 1);
    let io = compare(&mut rig, 3, 3, 77);
    let sent = rig.reads();
    assert_eq!(sent.len(), 1, "it is read first");
    assert!(rig.writes(1).is_empty());
    rig.answer_read(&sent[0], super::rig::old(5));
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!((one.len(), two.len()), (1, 1), "then written everywhere");
    assert_eq!(rig.result(io), None);
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn writes_nothing_where_it_is_not() {
    let mut rig = Rig::open(2, 1);
    let io = compare(&mut rig, 3, 4, 77);
    let behind = rig.write(0, &[1; 4096]);
    let sent = rig.reads();
    assert!(rig.writes(1).is_empty(), "no write comes between");
    rig.answer_read(&sent[0], super::rig::old(5));
    assert_eq!(rig.result(io), Some(Err(IoError::Miscompare)));
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!(one.len(), 1, "only the other write");
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(behind), Some(Ok(())));
}

#[test]
fn waits_for_the_writes_before_it_and_lets_none_pass() {
    let mut rig = Rig::open(2, 1);
    let before = rig.write(3 * BLOCK, &[5; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    let first = compare(&mut rig, 3, 5, 6);
    let second = compare(&mut rig, 3, 5, 7);
    let behind = rig.write(3 * BLOCK, &[9; 4096]);
    let read = rig.read(0, 4096);
    let sent = rig.reads();
    assert_eq!(sent.len(), 1, "other reads go on; it waits for what has a version");
    rig.answer_read(&sent[0], version(6));
    rig.done(&one);
    rig.done(&two);
    assert_eq!((rig.result(before), rig.result(read)), (Some(Ok(())), Some(Ok(()))));
    let sent = rig.reads();
    assert_eq!(sent.len(), 1, "now the first of the two");
    rig.answer_blocks(&sent[0], version(6), 5);
    let (one, two) = (rig.writes(1), rig.writes(2));
    assert_eq!(one.len(), 2, "its write, and the one that had to wait for it");
    rig.done(&one);
    rig.done(&two);
    assert_eq!(rig.result(first), Some(Ok(())));
    assert_eq!(rig.result(behind), Some(Ok(())));
    let sent = rig.reads();
    assert_eq!(sent.len(), 1, "the second is compared with what both have left");
    rig.answer_blocks(&sent[0], version(8), 9);
    assert_eq!(rig.result(second), Some(Err(IoError::Miscompare)));
}

#[test]
fn asks_another_member_where_one_is_damaged_and_ends_where_all_are() {
    let mut rig = Rig::open(2, 1);
    let io = compare(&mut rig, 3, 3, 77);
    for _ in 0..2 {
        let sent = rig.reads();
        let block = amita_types::BlockIndex(3);
        rig.refuse(&sent[0], Refusal::Damaged { block });
    }
    assert_eq!(rig.result(io), Some(Err(IoError::Damaged)));
    rig.write(0, &[1; 4096]);
    assert_eq!(rig.writes(1).len(), 1, "others go on");
}

#[test]
fn ends_with_the_volume() {
    let mut rig = Rig::open(2, 1);
    let (one, two) = (compare(&mut rig, 3, 3, 77), compare(&mut rig, 4, 4, 77));
    rig.depose();
    let sent = rig.reads();
    rig.refuse(
        &sent[0],
        Refusal::Fenced {
            generation: amita_types::Generation(9),
        },
    );
    let lost = Some(Err(IoError::Lost));
    assert_eq!((rig.result(one), rig.result(two)), (lost, lost));
}

#[test]
fn of_a_wrong_length_is_refused() {
    let mut rig = Rig::open(2, 1);
    let op = Op::CompareAndWrite { offset: 0, length: 512 };
    let io = rig.submit(op, &[0; 512]);
    assert_eq!(rig.result(io), Some(Err(IoError::Invalid)));
}
