//! Telling what is beneath that a range is not needed: three backings, three ways.
//!
//! * **A regular file**: a hole is punched (`IORING_OP_FALLOCATE`, which the kernel hands to a worker of its own). Whether
//!   the device hears of it is up to the file system (mount option `discard`, or `fstrim`).
//! * **A file in memory**: the same, and inline where it is small: it gives memory back.
//! * **A block device**: `BLKDISCARD`, by a thread of this driver that starts with the first one. Not `fallocate`: on a
//!   block device the kernel makes of a punched hole an order to write zeros (`blkdev_fallocate` calls
//!   `blkdev_issue_zeroout`), which a drive without that command refuses, and which another may carry out by wearing its
//!   flash; the flag that would ask for a plain discard (`FALLOC_FL_NO_HIDE_STALE`) never gets past the system call. Not a
//!   command of the ring (`BLOCK_URING_CMD_DISCARD`): that came with Linux 6.12, and 6.1 is to do. The call blocks, so it
//!   has a thread; one is enough, as discards are background work.

use super::file::Way;
use super::ring::{Payload, Reaped, Verb};
use super::{Meta, UringDriver, is_passing, sys};
use crate::driver::{FileId, Outcome, Token, Waker};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a drop waits for the discard that a device is at. What takes longer ends by itself, and keeps the device
/// locked until then.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// A discard for the thread.
struct Order {
    device: Arc<File>,
    offset: u64,
    bytes: u64,
    token: Token,
}

/// The thread that discards on block devices, one range after the other.
pub(super) struct Discarder {
    orders: Option<Sender<Order>>,
    ended: Receiver<(Token, io::Result<()>)>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Discarder {
    /// Starts the thread; it wakes the core after each discard.
    fn start(waker: Waker) -> io::Result<Discarder> {
        let (orders, to_do) = channel::<Order>();
        let (done, ended) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            for order in to_do {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let result = sys::discard_device(&order.device, order.offset, order.bytes);
                // The device is let go of before anybody learns that this is over.
                drop(order.device);
                if done.send((order.token, result)).is_err() {
                    return;
                }
                waker.wake();
            }
        };
        let thread = thread::Builder::new().name("discard".to_owned()).spawn(work)?;
        Ok(Discarder {
            orders: Some(orders),
            ended,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Discarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.orders = None;
        let started = Instant::now();
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && started.elapsed() < DROP_PATIENCE {
                thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                // It has no panic of its own to pass on.
                let _ = thread.join();
            }
        }
    }
}

impl UringDriver {
    pub(super) fn start_discard(&mut self, file: FileId, offset: u64, bytes: u64, token: Token) {
        let open = &mut self.files[file.0 as usize];
        let end = offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok());
        if bytes == 0 || end.is_none() {
            let text = format!("discard of {bytes} bytes at {offset}: not a range of a file");
            let result = Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            return self.complete(token, Outcome::Discarded { result });
        }
        if open.is_device {
            let order = Order {
                device: open.file.clone(),
                offset,
                bytes,
                token,
            };
            return self.order_discard(order);
        }
        if let Some(map) = &mut open.map {
            map.forget(offset, bytes);
        }
        if open.way == Way::Memory && bytes <= self.config.inline_bytes as u64 {
            let result = sys::punch(open.file.as_raw_fd(), offset, bytes);
            return self.complete(token, Outcome::Discarded { result });
        }
        self.urgent = true;
        let meta = Meta::Discard { file: file.0, token };
        self.ring
            .start(Verb::Punch { offset, bytes }, open.target, Payload::None, meta);
    }

    fn order_discard(&mut self, order: Order) {
        let token = order.token;
        let started = match &self.discarder {
            Some(_) => Ok(()),
            None => Discarder::start(self.waker.clone()).map(|discarder| self.discarder = Some(discarder)),
        };
        let orders = self.discarder.as_ref().and_then(|discarder| discarder.orders.as_ref());
        let result = started.and_then(|()| {
            let sent = orders.is_some_and(|orders| orders.send(order).is_ok());
            sent.then_some(())
                .ok_or_else(|| io::Error::other("the thread that discards has died"))
        });
        if result.is_err() {
            self.complete(token, Outcome::Discarded { result });
        }
    }

    /// What the thread has done.
    pub(super) fn collect_discards(&mut self) {
        if let Some(discarder) = &self.discarder {
            for (token, result) in discarder.ended.try_iter() {
                self.ready.push(super::Completion {
                    token,
                    outcome: Outcome::Discarded { result },
                });
            }
        }
    }

    pub(super) fn discard_ended(&mut self, event: Reaped, result: io::Result<usize>) {
        let Some(Meta::Discard { file, token }) = self.ring.meta(event.slot) else {
            return;
        };
        let (file, token) = (*file, *token);
        if result.as_ref().is_err_and(is_passing) {
            let target = self.files[file as usize].target;
            self.urgent = true;
            return self.ring.restart(event.slot, target, 0);
        }
        self.ring.take(event.slot);
        self.complete(
            token,
            Outcome::Discarded {
                result: result.map(drop),
            },
        );
    }
}
