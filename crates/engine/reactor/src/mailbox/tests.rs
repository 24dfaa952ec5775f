use super::*;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;

#[test]
fn messages_arrive_in_order_and_a_full_ring_gives_them_back() {
    let (mut sender, mut receiver) = channel(3, Waker::idle());
    assert_eq!(receiver.pop(), None);
    for round in 0..5 {
        for number in 0..4 {
            sender.send(round * 10 + number).unwrap();
        }
        assert_eq!(sender.send(99), Err(99), "four is the next power of two");
        assert_eq!(receiver.pop(), Some(round * 10));
        sender.send(round * 10 + 4).unwrap();
        let rest: Vec<i32> = receiver.drain().collect();
        assert_eq!(rest, (1..5).map(|number| round * 10 + number).collect::<Vec<_>>());
    }
}

#[test]
fn each_end_knows_when_the_other_has_gone_and_no_message_leaks() {
    let message = Arc::new(());
    let (mut sender, receiver) = channel(8, Waker::idle());
    for _ in 0..5 {
        sender.send(message.clone()).unwrap();
    }
    assert!(!sender.is_closed() && !receiver.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    drop(sender);
    assert_eq!(Arc::strong_count(&message), 1);
    let (sender, mut receiver) = channel::<u8>(8, Waker::idle());
    drop(sender);
    assert!(receiver.is_closed() && receiver.pop().is_none());
}

#[test]
fn who_sees_that_the_sender_has_gone_sees_all_that_it_sent() {
    for _ in 0..if cfg!(miri) { 20 } else { 1_000 } {
        let (mut sender, mut receiver) = channel::<u64>(2, Waker::idle());
        let thread = thread::spawn(move || sender.send(7).unwrap());
        while !receiver.is_closed() {
            thread::yield_now();
        }
        assert_eq!(receiver.pop(), Some(7));
        thread.join().unwrap();
    }
}

#[test]
fn millions_of_messages_cross_between_threads_in_order() {
    let (mut sender, mut receiver) = channel::<Box<u64>>(64, Waker::idle());
    const MESSAGES: u64 = if cfg!(miri) { 300 } else { 300_000 };
    let thread = thread::spawn(move || {
        for number in 0..MESSAGES {
            let mut message = Box::new(number);
            while let Err(back) = sender.send(message) {
                message = back;
                thread::yield_now();
            }
        }
    });
    let mut next = 0;
    while next < MESSAGES {
        for message in receiver.drain() {
            assert_eq!(*message, next);
            next += 1;
        }
        thread::yield_now();
    }
    thread.join().unwrap();
}

/// Blocks a thread as a core does.
#[derive(Default)]
struct Bell {
    rung: Mutex<u64>,
    changed: std::sync::Condvar,
}

impl crate::waker::Kick for Arc<Bell> {
    fn kick(&self) {
        *self.rung.lock().unwrap() += 1;
        self.changed.notify_all();
    }
}

#[test]
fn a_sleeping_receiver_is_woken_once_and_an_awake_one_is_not_disturbed() {
    let bell = Arc::new(Bell::default());
    let waker = Waker::new(Box::new(bell.clone()));
    let (mut sender, _receiver) = channel(8, waker.clone());
    sender.send(1).unwrap();
    assert_eq!(*bell.rung.lock().unwrap(), 0, "awake");
    assert!(!waker.fall_asleep(), "the note of that message keeps it awake");
    assert!(waker.take_note() && !waker.take_note());
    assert!(waker.fall_asleep());
    sender.send(2).unwrap();
    sender.send(3).unwrap();
    assert_eq!(*bell.rung.lock().unwrap(), 1);
    waker.awake();
    assert!(waker.take_note());
}

#[test]
fn no_wake_is_lost_between_the_last_look_and_falling_asleep() {
    let bell = Arc::new(Bell::default());
    let waker = Waker::new(Box::new(bell.clone()));
    let (mut sender, mut receiver) = channel::<u64>(4, waker.clone());
    let done = Arc::new(AtomicBool::new(false));
    const MESSAGES: u64 = if cfg!(miri) { 100 } else { 20_000 };
    let over = done.clone();
    let thread = thread::spawn(move || {
        for number in 0..MESSAGES {
            while sender.send(number).is_err() {
                thread::yield_now();
            }
            // Lets the receiver fall asleep now and then.
            if number % 64 == 0 {
                thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        over.store(true, Ordering::SeqCst);
    });
    let mut next = 0;
    while next < MESSAGES {
        for number in receiver.drain() {
            assert_eq!(number, next);
            next += 1;
        }
        let before = *bell.rung.lock().unwrap();
        if next < MESSAGES && waker.fall_asleep() {
            let rung = bell.rung.lock().unwrap();
            let patience = std::time::Duration::from_secs(10);
            let (_rung, result) = bell
                .changed
                .wait_timeout_while(rung, patience, |rung| *rung == before)
                .unwrap();
            assert!(!result.timed_out(), "slept through message {next}");
            waker.awake();
        }
        waker.take_note();
    }
    thread.join().unwrap();
    assert!(done.load(Ordering::SeqCst));
}
