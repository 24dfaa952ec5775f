//! What computes for hosts that authenticate themselves: one thread of the node, beside its cores.
//!
//! A Diffie-Hellman exchange takes milliseconds, and whoever can connect can ask for one: on a core it would stand before the I/O
//! of all others. A front of a core asks by its [`Desk`]; the thread takes what the [`Schedule`] lets it take, and the result
//! comes back as [`ToCore::Computed`]. The thread gives way to others where processors are short, and the schedule bounds what
//! it does in a second, for each source and for all together: authentication is slow then, and I/O is not. A core never waits for
//! it: orders go by a channel, and the schedule is the thread's alone.

mod schedule;

use crate::control::ToCore;
use amita_frontend::{Computation, Computed, FrontId};
use amita_reactor::Waker;
use amita_reactor::driver::Time;
use schedule::{MAX_WAITING, Next, Schedule};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How far the thread stands behind the cores: one of this niceness gets a tenth of a processor that a core wants too.
pub(crate) const NICENESS: i32 = 10;
/// How long it waits at most, where there is nothing to wait for.
const IDLE: Duration = Duration::from_secs(3600);

/// Who waits for a computation.
struct Order {
    reply: Reply,
    front: FrontId,
    tag: u64,
}

/// The way to a core.
#[derive(Clone)]
struct Reply {
    sender: Sender<ToCore>,
    waker: Waker,
}

enum Message {
    Order(Computation, Order),
    Stop,
}

/// Where orders go.
#[derive(Clone)]
pub(crate) struct Orders {
    sender: Sender<Message>,
    /// How many the thread has not taken in yet.
    untaken: Arc<AtomicUsize>,
}

/// The thread. Dropped, it stops.
pub(crate) struct Worker {
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

/// Where the fronts of a core have something computed.
pub(crate) struct Desk {
    orders: Orders,
    reply: Reply,
}

impl Order {
    fn answer(self, result: Option<Computed>) {
        let Order { reply, front, tag } = self;
        // A core that has ended needs no answer.
        if reply.sender.send(ToCore::Computed { front, tag, result }).is_ok() {
            reply.waker.wake();
        }
    }
}

impl Worker {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Worker> {
        let (sender, inbox) = channel();
        let untaken = Arc::<AtomicUsize>::default();
        let orders = Orders {
            sender,
            untaken: untaken.clone(),
        };
        let thread = std::thread::Builder::new().name("authenticate".into()).spawn(move || {
            // Of this thread alone (Linux). Without it the schedule still bounds what is done.
            let _ = rustix::process::nice(NICENESS);
            work(&inbox, &untaken);
        })?;
        Ok(Worker {
            orders,
            thread: Some(thread),
        })
    }

    pub(crate) fn orders(&self) -> &Orders {
        &self.orders
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.orders.sender.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(inbox: &Receiver<Message>, untaken: &AtomicUsize) {
    let begun = Instant::now();
    let now = || Time(begun.elapsed().as_nanos() as u64);
    let mut schedule = Schedule::default();
    let mut pause = IDLE;
    loop {
        let mut message = match inbox.recv_timeout(pause) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        while let Some(told) = message {
            let Message::Order(computation, order) = told else {
                return;
            };
            untaken.fetch_sub(1, Ordering::Relaxed);
            if let Some(refused) = schedule.push(computation, order) {
                refused.answer(None);
            }
            message = inbox.try_recv().ok();
        }
        pause = match schedule.next(now()) {
            Next::Do(computation, order) => {
                let result = Some(computation.run());
                order.answer(result);
                Duration::ZERO
            }
            Next::At(time) => time.since(now()),
            Next::Nothing => IDLE,
        };
    }
}

impl Orders {
    /// For the core that is reached so.
    pub(crate) fn desk(&self, sender: Sender<ToCore>, waker: Waker) -> Desk {
        Desk {
            orders: self.clone(),
            reply: Reply { sender, waker },
        }
    }
}

impl Desk {
    /// Has something computed for a front of this core.
    pub(crate) fn compute(&self, front: FrontId, tag: u64, computation: Computation) {
        let reply = self.reply.clone();
        let order = Order { reply, front, tag };
        if self.orders.untaken.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.orders.untaken.fetch_sub(1, Ordering::Relaxed);
            return order.answer(None);
        }
        // The thread ends after the cores.
        let _ = self.orders.sender.send(Message::Order(computation, order));
    }
}

#[cfg(test)]
mod tests;
