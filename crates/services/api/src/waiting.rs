//! Waiting on a thread that may wait, for what tasks are woken by: no clock is looked at meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits until `work` is ready, with what it is, or until then: none. It is to need no runtime: channels do not, timers and sockets do.
pub(crate) fn until<F: Future>(then: Instant, work: F) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return Some(done);
        }
        let left = then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::mpsc;

    #[test]
    fn who_waits_is_woken_by_what_comes_and_given_up_in_time() {
        let (to, mut from) = mpsc::channel(1);
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(until(soon, from.recv()), None::<Option<u8>>);
        to.try_send(1).unwrap();
        let hour = Instant::now() + Duration::from_secs(3600);
        let takes = std::thread::spawn(move || {
            let first = until(hour, from.recv());
            (first, until(hour, from.recv()), until(hour, from.recv()))
        });
        // There is room when the first one was taken.
        let room = until(hour, to.reserve()).expect("in time").expect("somebody takes it");
        room.send(2);
        drop(to);
        assert_eq!(takes.join().unwrap(), (Some(Some(1)), Some(Some(2)), Some(None)));
    }
}
