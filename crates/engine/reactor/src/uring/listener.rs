//! Listening sockets of the ring: what they accept, whom they turn away, and when they rest.

use super::guard::Guard;
use super::ring::{Payload, Reaped, Target, Verb};
use super::socket::prepare;
use super::{Meta, UringDriver, is_passing, sys};
use crate::admission::{AcceptLimits, Verdict};
use crate::driver::{AcceptCounts, ListenerId, Outcome, SocketId, Time, Token};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;

/// After a failed accept (no descriptors left, say) the listener rests, so that failing does not become a loop.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// Connections that are turned away at one time: a bound for the work of one pass.
const MOST_TURNED_AWAY: usize = 64;

/// A listening socket.
pub(super) struct Listener {
    /// Held open.
    socket: OwnedFd,
    target: Target,
    token: Token,
    /// It is a Unix socket.
    is_local: bool,
    /// After a failed accept.
    rests_until: Option<Time>,
    /// Bounds what it takes.
    guard: Option<Guard>,
}

impl Listener {
    pub fn bind(address: SocketAddr, token: Token) -> io::Result<(Listener, SocketAddr)> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("listening on {address}: {error}"));
        let socket = sys::stream_socket(address).map_err(named)?;
        // What it accepts has the same options (on Linux), so that each connection is spared the calls.
        prepare(&socket).map_err(named)?;
        let bound = sys::bind_and_listen(&socket, address, BACKLOG).map_err(named)?;
        Ok((Listener::new(socket, token, false), bound))
    }

    /// One that is bound, and may listen already: for as many as the others.
    pub fn local(listener: UnixListener, token: Token) -> io::Result<Listener> {
        // The ring waits by itself, and a listener that does not block would end its accepts.
        listener.set_nonblocking(false)?;
        let socket = OwnedFd::from(listener);
        sys::listen(&socket, BACKLOG)?;
        Ok(Listener::new(socket, token, true))
    }

    fn new(socket: OwnedFd, token: Token, is_local: bool) -> Listener {
        let target = Target {
            descriptor: socket.as_raw_fd(),
            registered: None,
        };
        Listener {
            socket,
            target,
            token,
            is_local,
            rests_until: None,
            guard: None,
        }
    }

    fn due(&self) -> Option<Time> {
        let changes = self.guard.as_ref().and_then(Guard::due);
        self.rests_until.into_iter().chain(changes).min()
    }
}

impl UringDriver {
    pub(super) fn limit_listener(&mut self, listener: ListenerId, limits: AcceptLimits) {
        let salt = RandomState::new().build_hasher().finish();
        if let Some(listener) = self.listeners.get_mut(listener.0 as usize) {
            listener.guard = (!listener.is_local).then(|| Guard::new(limits, salt, BACKLOG));
        }
    }

    pub(super) fn set_known_at(&mut self, listener: ListenerId, address: IpAddr, is_known: bool) {
        let Some(Listener { socket, guard, .. }) = self.listeners.get_mut(listener.0 as usize) else {
            return;
        };
        if let Some(guard) = guard {
            guard.set_known(socket, address, is_known);
            self.find_next_look();
        }
    }

    pub(super) fn accept(&mut self, listener: u32) {
        let target = self.listeners[listener as usize].target;
        self.ring
            .start(Verb::Accept, target, Payload::None, Meta::Accept { listener });
    }

    /// Accepts again where it had failed a moment ago, and lets in again whom it had not.
    pub(super) fn look_at_listeners(&mut self) {
        if self.listeners_due.is_none_or(|due| due > self.now) {
            return;
        }
        for index in 0..self.listeners.len() {
            let Listener {
                socket,
                guard,
                rests_until,
                ..
            } = &mut self.listeners[index];
            if let Some(guard) = guard {
                guard.look(socket, self.now);
            }
            if rests_until.take_if(|until| *until <= self.now).is_some() {
                self.accept(index as u32);
            }
        }
        self.find_next_look();
    }

    fn find_next_look(&mut self) {
        self.listeners_due = self.listeners.iter().filter_map(Listener::due).min();
    }

    /// What the guards of all listeners have counted.
    pub(super) fn accept_counts(&self) -> AcceptCounts {
        let guards = self.listeners.iter().filter_map(|listener| listener.guard.as_ref());
        let guarded = guards
            .map(Guard::counts)
            .fold(AcceptCounts::default(), AcceptCounts::and);
        guarded.and(self.counts.accepts)
    }

    pub(super) fn accept_ended(&mut self, event: Reaped, result: io::Result<usize>) {
        let Some(Meta::Accept { listener }) = self.ring.meta(event.slot) else {
            return;
        };
        let index = *listener;
        let mut rest = false;
        match result {
            Ok(descriptor) => self.has_come(index, sys::adopt(descriptor as i32)),
            Err(error) if is_passing(&error) || error.raw_os_error() == Some(libc::ECONNABORTED) => {}
            Err(error) => {
                rest = true;
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                    self.turn_away(index);
                }
                let token = self.listeners[index as usize].token;
                self.complete(token, Outcome::AcceptFailed { error });
            }
        }
        if !event.more {
            self.ring.take(event.slot);
            if rest {
                self.listeners[index as usize].rests_until = Some(self.now.plus(ACCEPT_REST));
                self.find_next_look();
            } else {
                self.accept(index);
            }
        }
    }

    /// A connection has come in.
    fn has_come(&mut self, index: u32, socket: OwnedFd) {
        let listener = &mut self.listeners[index as usize];
        let token = listener.token;
        if listener.is_local {
            if let Ok(peer) = sys::peer_process(&socket) {
                let socket = self.adopt(socket);
                self.complete(token, Outcome::AcceptedLocal { socket, peer });
            }
            return;
        }
        let admitted = match (sys::peer_address(&socket), &mut listener.guard) {
            (Ok(peer), None) => {
                self.counts.accepts.taken += 1;
                Some(peer)
            }
            (Ok(peer), Some(guard)) => {
                let verdict = guard.arrive(&listener.socket, self.now, peer.ip(), &socket);
                (verdict == Verdict::Admit).then_some(peer)
            }
            // It is gone already.
            (Err(_), guard) => {
                if let Some(guard) = guard {
                    let from = sys::former_peer(&socket).ok();
                    guard.came_and_went(&listener.socket, self.now, from.map(|peer| peer.ip()));
                }
                None
            }
        };
        self.find_next_look();
        match admitted {
            Some(peer) => {
                let socket = self.adopt(socket);
                self.complete(token, Outcome::Accepted { socket, peer });
            }
            None => sys::close_at_once(socket),
        }
    }

    #[cfg(test)]
    pub(super) fn passes(&self, listener: ListenerId, address: IpAddr) -> bool {
        let guard = self.listeners[listener.0 as usize].guard.as_ref();
        guard.is_none_or(|guard| guard.passes(address))
    }

    /// A connection that was accepted.
    fn adopt(&mut self, socket: OwnedFd) -> SocketId {
        let registers = self.config.register_files;
        let target = self.sockets.target(&mut self.ring, socket.as_raw_fd(), registers);
        self.sockets.add(socket, target, false)
    }

    /// No descriptor is left for those who wait at a listener. In the kernel's queue they would wait for as long as they like,
    /// for nobody: the spare descriptor is given up for a moment to accept each of them and close it.
    fn turn_away(&mut self, listener: u32) {
        let socket = &self.listeners[listener as usize].socket;
        for _ in 0..MOST_TURNED_AWAY {
            if !sys::wait_readable(socket, Duration::ZERO) {
                break;
            }
            self.spare = None;
            let refused = sys::accept_and_close(socket);
            self.spare = sys::event_file().ok();
            // Another core, or another thread, took the descriptor: it is tried again after the rest.
            if refused.is_err() {
                break;
            }
        }
        if self.spare.is_none() {
            self.spare = sys::event_file().ok();
        }
    }
}
