//! Somebody on the way: takes connections, makes one to the target for each, and hands on what it likes.

use super::proof;
use super::sealing::lengths;
use amita_reactor::core::Service;
use amita_reactor::{Completion, Driver, Inbox, Outbox, Outcome, Slice, SocketId, Token, Wait};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From whoever called.
    Out,
    /// Back to him.
    Back,
}

/// A frame that came by.
pub struct Passing {
    /// The how manieth connection.
    pub connection: usize,
    pub way: Way,
    /// The how manieth frame of its way.
    pub number: u64,
    pub bytes: Vec<u8>,
}

type Tamper = Box<dyn FnMut(Passing) -> Vec<u8>>;

pub struct Relay {
    address: SocketAddr,
    target: SocketAddr,
    listens: bool,
    connections: Vec<[End; 2]>,
    /// Everything is handed on byte by byte.
    pub bytewise: bool,
    /// Frames in the same bytes as the handshake's end.
    pub followed: usize,
    pub tamper: Tamper,
}

/// What comes in at one end, and goes out at the other.
#[derive(Default)]
struct End {
    socket: Option<SocketId>,
    inbox: Inbox,
    outbox: Outbox,
    receiving: bool,
    flights: usize,
    frames: u64,
    is_over: bool,
    /// What goes out byte by byte.
    slow: VecDeque<u8>,
}

impl Relay {
    pub fn new(address: SocketAddr, target: SocketAddr) -> Relay {
        Relay {
            address,
            target,
            listens: false,
            connections: Vec::new(),
            bytewise: false,
            followed: 0,
            tamper: Box::new(|passing| passing.bytes),
        }
    }

    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Hands on what is whole of what came in at this end.
    fn hand_on(&mut self, connection: usize, at: usize) {
        let flights = [2, 1][at];
        let mut ended_here = false;
        loop {
            let end = &mut self.connections[connection][at];
            let data = end.inbox.data();
            if end.flights < flights && data != proof::ALERT {
                let Some(flight) = proof::flight(data) else { return };
                let bytes = flight.to_vec();
                end.inbox.skip(bytes.len());
                end.flights += 1;
                ended_here = end.flights == flights;
                self.put(connection, 1 - at, &bytes);
                continue;
            }
            if data.starts_with(&proof::ALERT) {
                let bytes = data.to_vec();
                end.inbox.skip(bytes.len());
                self.put(connection, 1 - at, &bytes);
                return;
            }
            let Some((_, whole)) = lengths(data).filter(|(_, whole)| *whole <= data.len()) else {
                return;
            };
            let bytes = data[..whole].to_vec();
            end.inbox.skip(whole);
            let number = end.frames;
            end.frames += 1;
            self.followed += usize::from(ended_here);
            let way = if at == 0 { Way::Out } else { Way::Back };
            let bytes = (self.tamper)(Passing {
                connection,
                way,
                number,
                bytes,
            });
            self.put(connection, 1 - at, &bytes);
        }
    }

    fn put(&mut self, connection: usize, at: usize, bytes: &[u8]) {
        let end = &mut self.connections[connection][at];
        if self.bytewise {
            end.slow.extend(bytes);
        } else {
            end.outbox.push(Slice::copy_from(bytes));
        }
    }
}

fn token(connection: usize, at: usize) -> Token {
    Token(9 << 56 | (connection as u64) << 1 | at as u64)
}

const LISTENER: Token = Token(9 << 56 | 0xff_ffff);

impl Service for Relay {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        if !std::mem::replace(&mut self.listens, true) {
            driver.listen(self.address, LISTENER).expect("the address is free");
        }
        for Completion { token: of, outcome } in completions.drain(..) {
            if let Outcome::Accepted { socket, .. } = outcome {
                let mut ends = [End::default(), End::default()];
                ends[0].socket = Some(socket);
                driver.connect(self.target, token(self.connections.len(), 1));
                self.connections.push(ends);
                continue;
            }
            let number = (of.0 & 0xff_ffff) as usize;
            let (connection, at) = (number >> 1, number & 1);
            let end = &mut self.connections[connection][at];
            match outcome {
                Outcome::Connected { result } => match result {
                    Ok(socket) => end.socket = Some(socket),
                    Err(_) => end.is_over = true,
                },
                Outcome::Sent { data, result } => {
                    end.outbox.sent(data);
                    end.is_over |= result.is_err();
                }
                Outcome::Received { buffer, result } => {
                    end.receiving = false;
                    let bytes = result.unwrap_or(0);
                    end.inbox.received(buffer, bytes);
                    end.is_over |= bytes == 0;
                    self.hand_on(connection, at);
                }
                other => panic!("{other:?}"),
            }
        }
        let pool = driver.pool().clone();
        for (connection, ends) in self.connections.iter_mut().enumerate() {
            let is_over = ends.iter().any(|end| end.is_over);
            for (at, end) in ends.iter_mut().enumerate() {
                let Some(socket) = end.socket else { continue };
                // What is on its way to an end is sent before that end is closed.
                if is_over
                    && (end.is_over
                        || (end.slow.is_empty() && end.outbox.queued_bytes() == 0 && !end.outbox.is_sending()))
                {
                    driver.close(socket);
                    end.socket = None;
                    continue;
                }
                if !end.receiving && !is_over {
                    let buffer = end.inbox.start_receive(&pool, 4096).expect("the heap has memory");
                    end.receiving = true;
                    driver.receive(socket, buffer, token(connection, at));
                }
                if !end.outbox.is_sending()
                    && let Some(byte) = end.slow.pop_front()
                {
                    end.outbox.push(Slice::copy_from(&[byte]));
                }
                if let Some(segments) = end.outbox.next_send() {
                    driver.send(socket, segments, token(connection, at));
                }
            }
        }
        Wait::UntilEvent
    }
}
