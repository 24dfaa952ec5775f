//! Every interleaving of a few steps, under loom: each slot is written and read by one side at a time, nothing that was
//! sent is lost or leaked, and no receiver sleeps through a message.

use super::*;
use crate::waker::Kick;
use loom::model;
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// What a core blocks on: it stays rung until it is looked at, as an event file does.
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn new() -> Arc<Bell> {
        Arc::new(Bell {
            rung: Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !std::mem::take(&mut *rung) {
            rung = self.changed.wait(rung).unwrap();
        }
    }
}

impl Kick for Arc<Bell> {
    fn kick(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

#[test]
fn a_slot_is_used_by_one_side_at_a_time() {
    model(|| {
        let (mut sender, mut receiver) = channel::<usize>(1, Waker::idle());
        let sending = thread::spawn(move || {
            for number in 0..3 {
                while sender.send(number).is_err() {
                    thread::yield_now();
                }
            }
        });
        for number in 0..3 {
            let message = loop {
                match receiver.pop() {
                    Some(message) => break message,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(message, number);
        }
        sending.join().unwrap();
    });
}

#[test]
fn what_nobody_received_is_dropped_once() {
    model(|| {
        let (mut sender, mut receiver) = channel::<Arc<()>>(2, Waker::idle());
        let sending = thread::spawn(move || {
            for _ in 0..2 {
                sender.send(Arc::new(())).unwrap();
            }
        });
        receiver.pop();
        drop(receiver);
        sending.join().unwrap();
    });
}

#[test]
fn what_was_sent_before_the_sender_went_is_there() {
    model(|| {
        let (mut sender, mut receiver) = channel::<usize>(1, Waker::idle());
        let sending = thread::spawn(move || sender.send(7).unwrap());
        if receiver.is_closed() {
            assert_eq!(receiver.pop(), Some(7));
        }
        sending.join().unwrap();
    });
}

#[test]
fn no_receiver_sleeps_through_a_message() {
    model(|| {
        let bell = Bell::new();
        let waker = Waker::new(Box::new(bell.clone()));
        let (mut sender, mut receiver) = channel::<usize>(2, waker.clone());
        let sending = thread::spawn(move || {
            sender.send(0).unwrap();
            sender.send(1).unwrap();
        });
        let mut next = 0;
        loop {
            waker.take_note();
            for message in receiver.drain() {
                assert_eq!(message, next);
                next += 1;
            }
            if next == 2 {
                break;
            }
            if waker.fall_asleep() {
                bell.wait();
                waker.awake();
            }
        }
        sending.join().unwrap();
    });
}
