//! What a core of a simulated node is wired to: one network, or two.
//!
//! The simulated network knows hosts, and no interfaces. So a core's second interface is a host of its own there, which runs nothing,
//! has the core's clock, lives and stands still with it: what is lost, late or cut between two of those is so by the second network
//! alone. Here the two are one driver.

use super::node::FURTHER;
use amita_reactor::admission::AcceptLimits;
use amita_reactor::driver::{AcceptCounts, DriverCounts, FileId, FileInfo, ListenerId, PathCounts, SocketId, TimerId};
use amita_reactor::sim::SimDriver;
use amita_reactor::{BufMut, Completion, Driver, Outcome, Pool, Segments, Time, Token, Wait, Waker};
use amita_types::link::Network;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The places of second interfaces begin behind this one, in the order of the cores that they belong to.
pub const SECOND: u32 = 40;
/// Sockets and listeners of the second interface have this bit.
const SECOND_SOCKET: u64 = 1 << 40;
const SECOND_LISTENER: u32 = 1 << 31;

/// The place of the second interface of the core at a place.
#[must_use]
pub fn second(place: u32) -> u32 {
    SECOND + place
}

/// The place of the core that an interface belongs to.
#[must_use]
pub fn core_place(place: u32) -> u32 {
    match place > SECOND && place <= SECOND + 2 * FURTHER {
        true => place - SECOND,
        false => place,
    }
}

/// By which network an interface is reached.
#[must_use]
pub fn network_of(place: u32) -> Network {
    match core_place(place) == place {
        true => Network::First,
        false => Network::Second,
    }
}

fn place_of(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, 0, high, low] => Some(u32::from(high) << 8 | u32::from(low)),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

/// Who refuses whose connects on the way: pairs of places, from and to.
#[derive(Clone, Default)]
pub struct Firewall(Rc<RefCell<BTreeSet<(u32, u32)>>>);

impl Firewall {
    pub fn refuse(&self, from: u32, to: u32) {
        self.0.borrow_mut().insert((from, to));
    }

    pub fn pass(&self, from: u32, to: u32) {
        self.0.borrow_mut().remove(&(from, to));
    }

    fn refuses(&self, from: u32, to: u32) -> bool {
        self.0.borrow().contains(&(from, to))
    }
}

/// The driver of one core.
pub struct Wires {
    first: SimDriver,
    second: Option<SimDriver>,
    firewall: Firewall,
    /// Connects that were refused on the way, and that nobody has heard of.
    refused: Vec<Token>,
}

impl Wires {
    pub fn new(first: SimDriver, second: Option<SimDriver>, firewall: Firewall) -> Wires {
        Wires {
            first,
            second,
            firewall,
            refused: Vec::new(),
        }
    }

    /// The core's address by the first network.
    pub fn ip(&self) -> IpAddr {
        self.first.ip()
    }

    /// The core has work left: it runs again at once.
    pub fn again(&mut self) {
        self.first.again();
    }

    /// The driver that has the socket, and its number there.
    fn of(&mut self, socket: SocketId) -> (&mut SimDriver, SocketId) {
        match &mut self.second {
            Some(second) if socket.0 & SECOND_SOCKET != 0 => (second, SocketId(socket.0 & !SECOND_SOCKET)),
            _ => (&mut self.first, socket),
        }
    }

    fn of_listener(&mut self, listener: ListenerId) -> (&mut SimDriver, ListenerId) {
        match &mut self.second {
            Some(second) if listener.0 & SECOND_LISTENER != 0 => (second, ListenerId(listener.0 & !SECOND_LISTENER)),
            _ => (&mut self.first, listener),
        }
    }
}

/// What the second driver's completions are to whoever has both.
fn mark(completion: &mut Completion) {
    let socket = match &mut completion.outcome {
        Outcome::Accepted { socket, .. } | Outcome::Connected { result: Ok(socket) } => socket,
        _ => return,
    };
    socket.0 |= SECOND_SOCKET;
}

impl Driver for Wires {
    fn refresh(&mut self) {
        self.first.refresh();
    }

    fn now(&self) -> Time {
        self.first.now()
    }

    fn pool(&self) -> &Pool {
        self.first.pool()
    }

    fn open(&mut self, path: &Path) -> io::Result<(FileId, FileInfo)> {
        self.first.open(path)
    }

    fn read(&mut self, file: FileId, offset: u64, buffer: BufMut, token: Token) {
        self.first.read(file, offset, buffer, token);
    }

    fn write(&mut self, file: FileId, offset: u64, data: Segments, token: Token) {
        self.first.write(file, offset, data, token);
    }

    fn flush(&mut self, file: FileId, token: Token) {
        self.first.flush(file, token);
    }

    fn discard(&mut self, file: FileId, offset: u64, bytes: u64, token: Token) {
        self.first.discard(file, offset, bytes, token);
    }

    fn listen(&mut self, address: SocketAddr, token: Token) -> io::Result<(ListenerId, SocketAddr)> {
        match &mut self.second {
            Some(second) if second.ip() == address.ip() => {
                let (listener, bound) = second.listen(address, token)?;
                Ok((ListenerId(listener.0 | SECOND_LISTENER), bound))
            }
            _ => self.first.listen(address, token),
        }
    }

    fn limit_accepts(&mut self, listener: ListenerId, limits: AcceptLimits) {
        let (driver, listener) = self.of_listener(listener);
        driver.limit_accepts(listener, limits);
    }

    fn set_known(&mut self, listener: ListenerId, address: IpAddr, is_known: bool) {
        let (driver, listener) = self.of_listener(listener);
        driver.set_known(listener, address, is_known);
    }

    fn connect(&mut self, address: SocketAddr, token: Token) {
        let to = place_of(address.ip());
        let Some((to, own)) = to.zip(self.second.as_ref().map(SimDriver::node)) else {
            return self.first.connect(address, token);
        };
        let by_second = core_place(to) != to;
        let from = if by_second { own } else { core_place(own) };
        if self.firewall.refuses(from, to) {
            self.refused.push(token);
            return self.first.again();
        }
        match &mut self.second {
            Some(second) if by_second => second.connect(address, token),
            _ => self.first.connect(address, token),
        }
    }

    fn send(&mut self, socket: SocketId, data: Segments, token: Token) {
        let (driver, socket) = self.of(socket);
        driver.send(socket, data, token);
    }

    fn receive(&mut self, socket: SocketId, buffer: BufMut, token: Token) {
        let (driver, socket) = self.of(socket);
        driver.receive(socket, buffer, token);
    }

    fn close(&mut self, socket: SocketId) {
        let (driver, socket) = self.of(socket);
        driver.close(socket);
    }

    fn abort(&mut self, socket: SocketId) {
        let (driver, socket) = self.of(socket);
        driver.abort(socket);
    }

    fn watch_peer(&mut self, socket: SocketId, patience: Duration) {
        let (driver, socket) = self.of(socket);
        driver.watch_peer(socket, patience);
    }

    fn path(&mut self, socket: SocketId) -> Option<PathCounts> {
        let (driver, socket) = self.of(socket);
        driver.path(socket)
    }

    fn timer(&mut self, at: Time, token: Token) -> TimerId {
        self.first.timer(at, token)
    }

    fn cancel_timer(&mut self, timer: TimerId) {
        self.first.cancel_timer(timer);
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) {
        self.first.poll(wait, completions);
        let Some(second) = &mut self.second else { return };
        let own = completions.len();
        second.poll(wait, completions);
        completions[own..].iter_mut().for_each(mark);
        completions.extend(self.refused.drain(..).map(|token| Completion {
            token,
            outcome: Outcome::Connected {
                result: Err(io::ErrorKind::ConnectionRefused.into()),
            },
        }));
    }

    fn counts(&self) -> DriverCounts {
        let counts = self.first.counts();
        let second = self.second.as_ref().map(|second| second.counts().accepts);
        DriverCounts {
            accepts: second.map_or(counts.accepts, |second: AcceptCounts| counts.accepts.and(second)),
            ..counts
        }
    }

    fn waker(&self) -> Waker {
        self.first.waker()
    }
}
