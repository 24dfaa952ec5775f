//! Answers that are on their way: what they hold is held until the last byte has left, and who does not take them is cut off.
//!
//! Whether a peer takes anything is seen by what HTTP/2 asks for next, so an answer is handed to it in pieces. One that is not
//! taken ends its connection: HTTP/2 asks nothing of a stream that has no room, and would keep it for as long as the peer likes.

use super::shares::Share;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::Status;
use tonic::body::Body;

/// A message that waits is looked at this often, and so often before it is given up: ten seconds, during which the peer has to
/// take [`LEAST_TAKEN`] of it, or what is left. Looks are counted, not time: a server that was paused blames nobody.
const LOOK_PAUSE: Duration = Duration::from_millis(2500);
const MOST_LOOKS: u32 = 4;
const LEAST_TAKEN: usize = 1 << 20;
/// What is handed over at once.
const PIECE_BYTES: usize = 16 * 1024;

/// What the messages that are made next hold.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<Vec<Share>>>);

impl Held {
    pub(super) fn add(&self, share: Option<Share>) {
        lock(&self.0).extend(share);
    }

    fn take(&self) -> Vec<Share> {
        std::mem::take(&mut lock(&self.0))
    }
}

/// The messages of one connection that have not left yet.
#[derive(Clone, Default)]
pub(super) struct Unsent(Arc<Mutex<Messages>>);

#[derive(Default)]
struct Messages {
    next: u64,
    waiting: HashMap<u64, Waiting>,
}

#[derive(Default)]
struct Waiting {
    looks: u32,
    taken: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unsent {
    /// Waits until the peer has left a message for too long.
    pub(super) async fn is_left(&self) {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            if self.look() {
                return;
            }
        }
    }

    fn look(&self) -> bool {
        let mut left = false;
        for waiting in lock(&self.0).waiting.values_mut() {
            waiting.looks += 1;
            left |= waiting.looks > MOST_LOOKS;
        }
        left
    }

    fn begin(&self) -> u64 {
        let mut messages = lock(&self.0);
        let number = messages.next;
        messages.next += 1;
        messages.waiting.insert(number, Waiting::default());
        number
    }

    fn took(&self, number: u64, bytes: usize) {
        if let Some(waiting) = lock(&self.0).waiting.get_mut(&number) {
            waiting.taken += bytes;
            if waiting.taken >= LEAST_TAKEN {
                *waiting = Waiting::default();
            }
        }
    }
}

/// A message, for as long as a piece of it is somewhere.
struct Message {
    bytes: Bytes,
    number: u64,
    unsent: Unsent,
    _held: (Vec<Share>, Arc<Share>),
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        lock(&self.unsent.0).waiting.remove(&self.number);
    }
}

/// A body whose messages are counted until they have left.
pub(super) struct Sending {
    body: Body,
    /// Of the message at hand.
    rest: Bytes,
    number: u64,
    held: Held,
    /// Its place among the requests or streams.
    place: Arc<Share>,
    unsent: Unsent,
}

impl Sending {
    pub(super) fn new(body: Body, held: Held, place: Arc<Share>, unsent: Unsent) -> Sending {
        Sending {
            body,
            rest: Bytes::new(),
            number: 0,
            held,
            place,
            unsent,
        }
    }
}

impl hyper::body::Body for Sending {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            let bytes = match frame.into_data() {
                Ok(bytes) => bytes,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            };
            self.number = self.unsent.begin();
            self.rest = Bytes::from_owner(Message {
                bytes,
                number: self.number,
                unsent: self.unsent.clone(),
                _held: (self.held.take(), Arc::clone(&self.place)),
            });
        } else {
            // The piece before has found room.
            self.unsent.took(self.number, PIECE_BYTES);
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        if self.rest.is_empty() {
            self.rest = Bytes::new();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests;
