//! Sockets of the ring: made, used, closed. Each operation under way on one completes exactly once, also when the
//! socket is closed; the descriptor goes only after the last of them.

use super::ring::{Payload, Reaped, Ring, Target, Verb};
use super::{Meta, UringDriver, is_passing, sys};
use crate::buf::{BufMut, Segments};
use crate::driver::{Outcome, PathCounts, SocketId, Token};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A connection made from here breaks when what was sent is not taken for so long, in milliseconds: a peer that vanished
/// is noticed though it never says so. (Not one that was accepted: the kernel counts a full window as well, and a host
/// that is paused for a while shall find its connection again.)
const UNACKNOWLEDGED_TIMEOUT_MS: i32 = 5_000;

/// A connection without traffic is probed after so many seconds, then so many times so many seconds apart, so that a
/// peer that vanished does not keep it for ever.
const KEEPALIVE_AFTER_S: i32 = 60;
const KEEPALIVE_PROBES: i32 = 3;
const KEEPALIVE_EVERY_S: i32 = 10;

/// Of a connection whose peer is watched: it is asked so many times within half of the patience, after it was silent for the other half.
const WATCH_PROBES: i32 = 3;

/// A connect that hears nothing is repeated so many times (after 1, 2, 4 seconds) before it fails with `TimedOut`.
const CONNECT_REPEATS: i32 = 2;

struct Socket {
    descriptor: OwnedFd,
    target: Target,
    receiving: bool,
    /// The ring's slot of the last receive.
    receive: u32,
    sending: bool,
    connecting: bool,
    closed: bool,
    /// The last receive emptied the socket.
    drained: bool,
}

/// A place for sockets, one after the other; its generation tells them apart.
#[derive(Default)]
struct Place {
    generation: u32,
    socket: Option<Socket>,
}

/// The sockets of a driver.
#[derive(Default)]
pub(super) struct Sockets {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Sockets {
    /// How operations name a descriptor.
    pub fn target(&self, ring: &mut Ring<Meta>, descriptor: RawFd, register: bool) -> Target {
        if register {
            ring.register_file(descriptor)
        } else {
            Target {
                descriptor,
                registered: None,
            }
        }
    }

    pub fn add(&mut self, descriptor: OwnedFd, target: Target, connecting: bool) -> SocketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.socket = Some(Socket {
            descriptor,
            target,
            receiving: false,
            receive: 0,
            sending: false,
            connecting,
            closed: false,
            drained: true,
        });
        SocketId(u64::from(place.generation) << 32 | u64::from(index))
    }

    fn any(&mut self, id: SocketId) -> Option<&mut Socket> {
        let place = self.places.get_mut(id.0 as u32 as usize)?;
        if u64::from(place.generation) != id.0 >> 32 {
            return None;
        }
        place.socket.as_mut()
    }

    #[cfg(test)]
    pub fn descriptor(&mut self, id: SocketId) -> Option<&OwnedFd> {
        self.open(id).map(|socket| &socket.descriptor)
    }

    /// A socket that is not closed.
    fn open(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.any(id).filter(|socket| !socket.closed)
    }

    /// Lets a closed socket go when nothing is under way on it any more.
    fn release(&mut self, ring: &mut Ring<Meta>, id: SocketId) {
        let Some(socket) = self.any(id) else { return };
        if socket.closed && !socket.receiving && !socket.sending && !socket.connecting {
            ring.unregister_file(socket.target);
            let index = id.0 as u32;
            let place = &mut self.places[index as usize];
            place.socket = None;
            // A generation is used once: a place that has used up all of them stays empty.
            if let Some(generation) = place.generation.checked_add(1) {
                place.generation = generation;
                self.free.push(index);
            }
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "this socket is closed")
}

fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the socket was closed here")
}

impl UringDriver {
    pub(super) fn start_connect(&mut self, address: SocketAddr, token: Token) {
        self.urgent = true;
        let socket = sys::stream_socket(address).and_then(|socket| {
            let tcp = libc::IPPROTO_TCP;
            sys::set_option(&socket, tcp, libc::TCP_SYNCNT, CONNECT_REPEATS)?;
            sys::set_option(&socket, tcp, libc::TCP_USER_TIMEOUT, UNACKNOWLEDGED_TIMEOUT_MS)?;
            prepare(&socket)?;
            Ok(socket)
        });
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => return self.complete(token, Outcome::Connected { result: Err(error) }),
        };
        let target = self
            .sockets
            .target(&mut self.ring, socket.as_raw_fd(), self.config.register_files);
        let id = self.sockets.add(socket, target, true);
        self.ring.connect(target, address, Meta::Connect { socket: id, token });
    }

    pub(super) fn connect_ended(&mut self, event: Reaped, result: io::Result<usize>) {
        let Some((Meta::Connect { socket: id, token }, _)) = self.ring.take(event.slot) else {
            return;
        };
        if let Some(socket) = self.sockets.any(id) {
            socket.connecting = false;
            socket.closed = result.is_err();
        }
        self.sockets.release(&mut self.ring, id);
        self.complete(
            token,
            Outcome::Connected {
                result: result.map(|_| id),
            },
        );
    }

    pub(super) fn start_receive(&mut self, id: SocketId, buffer: BufMut, token: Token) {
        assert!(
            !buffer.is_empty(),
            "a receive needs room, or its end would look like the peer's"
        );
        let poll_first = self.config.poll_first;
        let Some(socket) = self.sockets.open(id) else {
            return self.complete(
                token,
                Outcome::Received {
                    buffer,
                    result: Err(closed()),
                },
            );
        };
        assert!(!socket.receiving, "one receive per socket at a time");
        socket.receiving = true;
        let (target, drained) = (socket.target, socket.drained);
        let verb = Verb::Receive {
            poll_first: poll_first && drained,
        };
        let meta = Meta::Receive { socket: id, token };
        let slot = self.ring.start(verb, target, Payload::Buffer(buffer), meta);
        if let Some(socket) = self.sockets.open(id) {
            socket.receive = slot;
        }
    }

    pub(super) fn cancel_receive_of(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.open(id).filter(|socket| socket.receiving) {
            self.ring.cancel(socket.receive);
        }
    }

    pub(super) fn receive_ended(&mut self, event: Reaped, mut result: io::Result<usize>) {
        let Some((Meta::Receive { socket: id, token }, Payload::Buffer(buffer))) = self.ring.take(event.slot) else {
            return;
        };
        if let Some(socket) = self.sockets.any(id) {
            socket.receiving = false;
            socket.drained = !event.nonempty && result.as_ref().is_ok_and(|count| *count < buffer.len());
            if socket.closed {
                result = Err(aborted());
            } else if result
                .as_ref()
                .is_err_and(|error| error.raw_os_error() == Some(libc::ECANCELED))
            {
                result = Err(io::ErrorKind::Interrupted.into());
            }
        }
        self.sockets.release(&mut self.ring, id);
        self.complete(token, Outcome::Received { buffer, result });
    }

    pub(super) fn start_send(&mut self, id: SocketId, mut data: Segments, token: Token) {
        self.urgent = true;
        let total = data.iter().map(|piece| piece.len()).sum();
        let zero_copy = self.config.zero_copy_bytes.is_some_and(|least| total >= least);
        let Some(socket) = self.sockets.open(id) else {
            data.clear();
            return self.complete(
                token,
                Outcome::Sent {
                    data,
                    result: Err(closed()),
                },
            );
        };
        if total == 0 {
            data.clear();
            return self.complete(token, Outcome::Sent { data, result: Ok(()) });
        }
        assert!(!socket.sending, "one send per socket at a time");
        socket.sending = true;
        let meta = Meta::Send {
            socket: id,
            token,
            total,
            done: 0,
            zero_copy,
            error: None,
            polls: self.counts.polls,
        };
        self.ring
            .start(Verb::Send { zero_copy }, socket.target, Payload::Data(data), meta);
    }

    pub(super) fn send_ended(&mut self, event: Reaped, result: io::Result<usize>) {
        let meta = self.ring.meta(event.slot);
        let Some(Meta::Send {
            socket: id,
            total,
            done,
            zero_copy,
            error: failure,
            ..
        }) = meta
        else {
            return;
        };
        let id = *id;
        let mut copy = false;
        // A zero-copy send says twice that it is over: first how it went, then that the memory is free again.
        if !event.notification {
            match result {
                Ok(count) => *done += count,
                Err(error) if is_passing(&error) => {}
                // Where the kernel, the route or a limit does not allow it without a copy, then with one.
                Err(error) if *zero_copy && is_refusal(&error) => copy = true,
                Err(error) => *failure = Some(error),
            }
        }
        *zero_copy &= !copy;
        if event.more {
            return;
        }
        let over = *done == *total || failure.is_some();
        let (done, zero_copy) = (*done, *zero_copy);
        if let Some(socket) = self.sockets.any(id)
            && !over
            && !socket.closed
        {
            let target = socket.target;
            self.urgent = true;
            self.ring.set_verb(event.slot, Verb::Send { zero_copy });
            return self.ring.restart(event.slot, target, done);
        }
        let Some((
            Meta::Send {
                token,
                error,
                total,
                polls,
                ..
            },
            Payload::Data(mut data),
        )) = self.ring.take(event.slot)
        else {
            return;
        };
        let mut result = match error {
            Some(error) => Err(error),
            None if done == total => Ok(()),
            None => Err(aborted()),
        };
        if let Some(socket) = self.sockets.any(id) {
            socket.sending = false;
            if socket.closed && result.is_err() {
                result = Err(aborted());
            }
        }
        self.sockets.release(&mut self.ring, id);
        // Whoever sends so little has nothing left in the queue: it was empty when this was taken from it, and no pass ran
        // since that could have filled it.
        let little = total < LITTLE_BYTES && data.len() < crate::stream::MAX_SEND_SEGMENTS;
        if polls + 1 == self.counts.polls && little && result.is_ok() {
            self.sent_at_once += 1;
        }
        data.clear();
        self.complete(token, Outcome::Sent { data, result });
    }

    /// See tcp(7): the bound on what was sent and not acknowledged is one on questions as well, once one was asked.
    pub(super) fn watch_socket(&mut self, id: SocketId, patience: Duration) {
        let Some(socket) = self.sockets.open(id) else { return };
        let half = i32::try_from(patience.as_secs() / 2).unwrap_or(i32::MAX).max(1);
        for (option, value) in [
            (libc::TCP_KEEPIDLE, half),
            (libc::TCP_KEEPINTVL, (half / WATCH_PROBES).max(1)),
            (libc::TCP_KEEPCNT, WATCH_PROBES),
        ] {
            // A Unix socket has none of these, and a peer that cannot vanish.
            let _ = sys::set_option(&socket.descriptor, libc::IPPROTO_TCP, option, value);
        }
    }

    pub(super) fn unheard_of(&mut self, id: SocketId) -> Option<Duration> {
        let socket = self.sockets.open(id)?;
        sys::unheard(&socket.descriptor)
    }

    pub(super) fn path_of(&mut self, id: SocketId) -> Option<PathCounts> {
        let socket = self.sockets.open(id)?;
        sys::path(&socket.descriptor)
    }

    pub(super) fn abort_socket(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.open(id) {
            sys::reset_on_close(&socket.descriptor);
        }
        self.close_socket(id);
    }

    pub(super) fn close_socket(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.open(id) {
            socket.closed = true;
            if socket.receiving || socket.sending {
                // Ends what is under way: receives see the end, sends a broken pipe. What the kernel has not seen yet
                // meets the same when it is handed over.
                sys::shutdown(&socket.descriptor);
            }
            self.sockets.release(&mut self.ring, id);
        }
    }
}

/// A send of less leaves nothing behind in an [`Outbox`](crate::Outbox), whatever its last piece was.
const LITTLE_BYTES: usize = crate::stream::MAX_SEND_BYTES / 2;

/// Is that how a send without a copy is refused?
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// What every stream of the network is set to.
pub(super) fn prepare(socket: &OwnedFd) -> io::Result<()> {
    let tcp = libc::IPPROTO_TCP;
    sys::set_option(socket, tcp, libc::TCP_NODELAY, 1)?;
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    sys::set_option(socket, tcp, libc::TCP_KEEPIDLE, KEEPALIVE_AFTER_S)?;
    sys::set_option(socket, tcp, libc::TCP_KEEPCNT, KEEPALIVE_PROBES)?;
    sys::set_option(socket, tcp, libc::TCP_KEEPINTVL, KEEPALIVE_EVERY_S)
}
