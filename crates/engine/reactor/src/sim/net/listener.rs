//! Who listens, and how many each of them takes.

use super::*;
use crate::admission::{AcceptLimits, Admission, Verdict};
use crate::driver::{AcceptCounts, ListenerId};

/// A listening socket.
pub(super) struct Listener {
    id: ListenerId,
    pub process: Process,
    pub token: Token,
    pub open: bool,
    admission: Option<Admission>,
    counts: AcceptCounts,
}

/// What becomes of a connect that reaches a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reception {
    Taken,
    /// It is closed at once.
    Refused,
    /// It is not answered.
    Dropped,
}

impl Listener {
    fn new(id: ListenerId, process: Process, token: Token) -> Listener {
        Listener {
            id,
            process,
            token,
            open: true,
            admission: None,
            counts: AcceptCounts::default(),
        }
    }

    /// A connect from there comes in at this time of the process.
    pub fn receive(&mut self, now: Time, from: IpAddr) -> Reception {
        let Some(admission) = &mut self.admission else {
            self.counts.taken += 1;
            return Reception::Taken;
        };
        admission.look(now);
        if !admission.rule().passes(from) {
            return Reception::Dropped;
        }
        let was_open = admission.until().is_none();
        let verdict = admission.arrive(now, Some(from));
        self.counts.pauses += u64::from(was_open && admission.until().is_some());
        match verdict {
            Verdict::Admit => {
                self.counts.taken += 1;
                Reception::Taken
            }
            Verdict::Refuse => {
                self.counts.refused += 1;
                Reception::Refused
            }
        }
    }
}

impl Net {
    pub fn listen(
        &mut self,
        engine: &Engine,
        process: Process,
        address: SocketAddr,
        token: Token,
    ) -> io::Result<(ListenerId, SocketAddr)> {
        if node_at(process.node, address.ip()) != Some(process.node) {
            let text = format!("{address} is not an address of node {}", process.node);
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
        }
        let mut port = address.port();
        while port == 0 {
            self.next_port = self.next_port.checked_add(1).unwrap_or(20_000);
            if !self.listening.contains_key(&(process.node, self.next_port)) {
                port = self.next_port;
            }
        }
        if self
            .listening
            .get(&(process.node, port))
            .is_some_and(|other| engine.is_alive(other.process))
        {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!("port {port} is in use"),
            ));
        }
        self.listeners += 1;
        let listener = Listener::new(ListenerId(self.listeners), process, token);
        self.listening.insert((process.node, port), listener);
        Ok((ListenerId(self.listeners), SocketAddr::new(node_ip(process.node), port)))
    }

    fn listener_of(&mut self, process: Process, id: ListenerId) -> Option<&mut Listener> {
        self.listening
            .values_mut()
            .find(|listener| listener.id == id && listener.process == process)
    }

    pub fn limit_accepts(&mut self, process: Process, listener: ListenerId, limits: AcceptLimits) {
        if let Some(listener) = self.listener_of(process, listener) {
            listener.admission = Some(Admission::new(limits, SALT));
        }
    }

    pub fn set_known(&mut self, process: Process, listener: ListenerId, address: IpAddr, is_known: bool) {
        if let Some(admission) = self
            .listener_of(process, listener)
            .and_then(|listener| listener.admission.as_mut())
        {
            admission.set_known(address, is_known);
        }
    }

    /// What the listeners of a process did.
    pub fn accepts_of(&self, process: Process) -> AcceptCounts {
        let listeners = self.listening.values().filter(|listener| listener.process == process);
        let counts = listeners.map(|listener| listener.counts);
        counts.fold(AcceptCounts::default(), AcceptCounts::and)
    }
}

/// Nobody in a world looks for addresses that share a bucket.
const SALT: u64 = 0x5851_f42d_4c95_7f2d;
