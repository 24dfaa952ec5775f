use super::*;
use crate::directory::OpeningId;
use amita_reactor::Waker;
use amita_reactor::mailbox::channel;

/// The mail of core 0 of a node, and the other cores' ends towards it.
fn mail(cores: usize, capacity: usize) -> (Mail, Vec<Sender<CoreMessage>>) {
    let (mut starts, mut ends, mut senders) = (vec![None], vec![None], Vec::new());
    for _ in 1..cores {
        let (sender, receiver) = channel(capacity, Waker::idle());
        senders.push(sender);
        ends.push(Some(receiver));
        starts.push(Some(channel(capacity, Waker::idle()).0));
    }
    (Mail::new(0, starts, ends), senders)
}

fn close(number: u64) -> CoreMessage {
    let opening = OpeningId(number);
    DirectoryMessage::Close { opening }.into()
}

fn number(message: CoreMessage) -> u64 {
    match message {
        CoreMessage::Directory(DirectoryMessage::Close { opening }) => opening.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_ring_is_drained_and_each_keeps_its_order() {
    let (mut mail, mut senders) = mail(5, 8);
    for round in 0..3 {
        for (core, sender) in senders.iter_mut().enumerate() {
            for at in 0..4 {
                sender.send(close(core as u64 * 100 + round * 10 + at)).expect("room");
            }
        }
        let mut last = [None; 4];
        let mut count = 0;
        while let Some(message) = mail.take() {
            let number = number(message);
            let core = (number / 100) as usize;
            assert!(last[core] < Some(number), "in order: {number} after {:?}", last[core]);
            last[core] = Some(number);
            count += 1;
        }
        assert_eq!(count, 16);
    }
}

#[test]
fn a_message_comes_whichever_ring_was_emptied_last() {
    let (mut mail, mut senders) = mail(4, 8);
    for core in [2, 0, 1, 1, 2, 0] {
        let sender: &mut Sender<CoreMessage> = &mut senders[core];
        sender.send(close(core as u64)).expect("room");
        assert_eq!(mail.take().map(number), Some(core as u64));
        assert!(mail.take().is_none());
    }
}

#[test]
fn the_rings_of_many_cores_are_small() {
    assert_eq!(ring_messages(1), RING_MESSAGES);
    assert_eq!(ring_messages(2), RING_MESSAGES);
    for cores in 2..=crate::serve::MAX_CORES {
        let each = ring_messages(cores);
        assert!(each.is_power_of_two() && each >= 64, "{cores} cores: {each}");
        assert!((cores - 1) * each <= 2 * MAIL_MESSAGES, "{cores} cores: {each}");
    }
}

#[test]
fn that_messages_are_of_several_kinds_takes_no_room() {
    assert_eq!(size_of::<CoreMessage>(), size_of::<IoMessage>());
}

#[test]
fn what_a_pass_left_behind_keeps_the_core_awake() {
    let (mut mail, mut senders) = mail(2, 8);
    for at in 0..3 {
        senders[0].send(close(at)).expect("room");
    }
    // Who sent it has woken the core once: nobody does so again for what is left.
    let taken = mail.take_at_most(2);
    assert_eq!(taken.len(), 2);
    assert!(mail.retry(), "one is left");
    assert_eq!(mail.take_at_most(2).len(), 1);
    assert!(!mail.retry());
}
