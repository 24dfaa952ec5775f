//! Asynchronous events (NVM Express Base 2.1, 5.1.2): what happened waits for a request of the host, and a request of the
//! host waits for something to happen. An event that was told is not told again until the host has read the log page that
//! belongs to it; what happens in the meantime is told then.

use super::page::plain;
use super::status::{ABORTED_QUEUE_DELETED, TOO_MANY_EVENT_REQUESTS};
use super::{Kind, MAX_EVENT_REQUESTS};
use crate::command::{Reply, Status};
use std::collections::VecDeque;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// Namespaces came, went, or changed.
    Namespaces,
    /// ANA groups have changed their state.
    Ana,
    /// The discovery log is another.
    Discovery,
    /// A reservation notification can be read.
    Reservation,
}

const ALL: [Happening; 4] = [
    Happening::Namespaces,
    Happening::Ana,
    Happening::Discovery,
    Happening::Reservation,
];

impl Happening {
    /// Its bit in the Asynchronous Event Configuration feature and in OAES; a reservation has a mask of its own.
    pub fn bit(self) -> u32 {
        match self {
            Happening::Namespaces => 1 << 8,
            Happening::Ana => 1 << 11,
            Happening::Discovery => 1 << 31,
            Happening::Reservation => 0,
        }
    }

    /// Dword 0: the type, the information, and the log page that belongs to it.
    fn result(self) -> u32 {
        let (kind, information) = match self {
            Happening::Namespaces => (2, 0x00),
            Happening::Ana => (2, 0x03),
            Happening::Discovery => (2, 0xf0),
            Happening::Reservation => (6, 0x00),
        };
        kind | information << 8 | u32::from(self.log()) << 16
    }

    pub fn log(self) -> u8 {
        match self {
            Happening::Namespaces => 0x04,
            Happening::Ana => 0x0c,
            Happening::Discovery => 0x70,
            Happening::Reservation => 0x80,
        }
    }
}

/// The events that a controller of that kind knows (OAES).
pub(crate) fn known(kind: Kind) -> u32 {
    match kind {
        Kind::Io => Happening::Namespaces.bit() | Happening::Ana.bit(),
        Kind::Discovery => Happening::Discovery.bit(),
    }
}

#[derive(Debug)]
pub(crate) struct Events {
    kind: Kind,
    /// What the host wants to hear of.
    wanted: u32,
    /// By [`ALL`]: has it happened, and was it not told yet?
    pending: [bool; ALL.len()],
    /// By [`ALL`]: it was told, and its log page was not read since.
    masked: [bool; ALL.len()],
    requests: VecDeque<u16>,
    ended: VecDeque<(u16, Reply)>,
}

impl Events {
    pub fn new(kind: Kind) -> Events {
        Events {
            kind,
            // A host that never sets the feature and asks for events gets those that there are.
            wanted: known(kind),
            pending: Default::default(),
            masked: Default::default(),
            requests: VecDeque::new(),
            ended: VecDeque::new(),
        }
    }

    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// What the host wants to hear of from now on.
    pub fn set_wanted(&mut self, wanted: u32) {
        self.wanted = wanted;
        for (happening, pending) in ALL.iter().zip(&mut self.pending) {
            if happening.bit() != 0 && happening.bit() & wanted == 0 {
                *pending = false;
            }
        }
    }

    /// The host waits for events.
    pub fn request(&mut self, id: u16) -> Result<(), Status> {
        if self.requests.len() >= MAX_EVENT_REQUESTS {
            return Err(TOO_MANY_EVENT_REQUESTS);
        }
        self.requests.push_back(id);
        Ok(())
    }

    pub fn happen(&mut self, what: Happening) {
        if what.bit() == 0 || self.wanted & what.bit() != 0 {
            self.pending[place(what)] = true;
        }
    }

    /// The host has read a log page: its event can be told again.
    pub fn read(&mut self, log: u8) {
        for (happening, masked) in ALL.iter().zip(&mut self.masked) {
            if happening.log() == log {
                *masked = false;
            }
        }
    }

    /// The host has read all that there was to tell of it: an event that has not been told yet would say nothing new.
    pub fn settled(&mut self, what: Happening) {
        self.pending[place(what)] = false;
    }

    /// Ends a request; tells whether there is one.
    pub fn abort(&mut self, id: u16, status: Status) -> bool {
        let Some(index) = self.requests.iter().position(|request| *request == id) else {
            return false;
        };
        self.requests.remove(index);
        self.ended.push_back((id, plain(status, 0)));
        true
    }

    /// Ends all requests.
    pub fn abort_all(&mut self) {
        while let Some(&id) = self.requests.front() {
            self.abort(id, ABORTED_QUEUE_DELETED);
        }
    }

    /// Ends all requests and forgets all that has happened.
    pub fn reset(&mut self) {
        self.abort_all();
        let ended = std::mem::take(&mut self.ended);
        *self = Events {
            ended,
            ..Events::new(self.kind)
        };
    }

    pub fn take(&mut self) -> Option<(u16, Reply)> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        let index = (0..ALL.len()).find(|&index| self.pending[index] && !self.masked[index])?;
        let id = self.requests.pop_front()?;
        self.pending[index] = false;
        self.masked[index] = true;
        Some((id, plain(Status::SUCCESS, ALL[index].result().into())))
    }
}

fn place(what: Happening) -> usize {
    what as usize
}
