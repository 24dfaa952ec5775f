//! # The network's fault model
//!
//! Hosts are joined by links, one per direction; streams run over them as TCP's do. What each party may count on:
//!
//! * **Order.** The bytes of one stream arrive in order, once each, unaltered. Nothing else is ordered: two streams
//!   between the same hosts overtake each other.
//! * **Time.** Each send takes a seeded time, more with an extra delay or a bandwidth of its link. A send may be cut
//!   into pieces that arrive apart, anywhere, in the middle of a header too; a receive may get fewer bytes than are
//!   there. A send completes when its bytes are with the kernel: it says nothing about their arrival.
//! * **A lossy link** loses segments of one direction. A stream does not show that but by its time: what was lost is sent again after a
//!   retransmission time-out, and what follows waits for it; a connect is repeated. Both ends count as Linux does (`TCP_INFO`): the
//!   sender what was lost; the other end, whose acknowledgements are lost, what it sends again and its peer had.
//! * **A slow receiver** fills the window; then the sender's send waits.
//! * **A cut link** (a partition, of one direction or both) holds what is under way and what is sent; nothing is lost
//!   while the connection lasts. When it heals, all of it arrives. If what one end has sent stays unacknowledged (the
//!   bytes or their acknowledgements cannot pass) for too long, *that end's* connection breaks with `TimedOut`; the
//!   other end does not notice before it sends something or is reset, or, where it watches its peer, has asked for it and heard
//!   nothing, or that nobody knows the stream. A connect hangs until its time-out.
//! * **A closed stream** gives its peer the bytes sent before and then the end; if unread bytes were thrown away with
//!   it, the peer is reset. Bytes for a stream that is closed or unknown (its process died, its host started anew)
//!   reset the sender.
//! * **A process that dies** has its streams closed by its kernel. **A host without power** says nothing at all: its
//!   peers find out by time-outs, or, once it is back, by a reset.
//! * **A reset from outside** (a middlebox, an operator) takes both ends down in the middle of whatever is under way:
//!   a part of it, cut anywhere, still arrives.
//! * **A frozen process**: its kernel goes on accepting, receiving up to the window, and acknowledging.
//! * A connect to a host that is up and where nobody listens is refused.
//! * **A listener that bounds what it takes** ([`crate::admission`]): a connect that its rule keeps out is not answered, and is repeated
//!   after 1 and 2 seconds; one that is refused is made, and closed by the other end at once.
//!
//! Not modelled: corrupted bytes (frames carry checksums; their tests corrupt frames directly), address changes,
//! a full backlog.

mod connect;
mod flow;
mod listener;
mod path;

use super::coverage::Fault;
use super::engine::{Engine, Event, MAX_NODES, Process};
use crate::buf::{BufMut, Segments, Slice};
use crate::driver::{Outcome, SocketId, Time, Token};
use listener::Listener;
use path::Path;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How the network behaves when nothing is wrong with it.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Shortest and longest way from host to host.
    pub latency: (Duration, Duration),
    /// Bytes per second and direction of a stream; 0: no limit.
    pub bandwidth: u64,
    /// Bytes that a stream holds per direction before its sender must wait.
    pub window_bytes: usize,
    /// Sends, per mille, that are cut into pieces which arrive apart.
    pub small_pieces: u32,
    /// Receives, per mille, that get fewer bytes than are there.
    pub short_receives: u32,
    /// A connect that hears nothing ends after this.
    pub connect_timeout: Duration,
    /// A stream whose bytes are not acknowledged breaks after this (`TCP_USER_TIMEOUT`; the real driver sets it at the
    /// end that connected, the simulation is as impatient at both).
    pub unacknowledged_timeout: Duration,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        NetConfig {
            latency: (Duration::from_micros(10), Duration::from_micros(60)),
            bandwidth: 0,
            window_bytes: 256 << 10,
            small_pieces: 60,
            short_receives: 60,
            connect_timeout: Duration::from_secs(5),
            unacknowledged_timeout: Duration::from_secs(5),
        }
    }
}

/// One open connection, for those who plan faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number in the world; never reused.
    pub connection: u32,
    /// The node that connected.
    pub from: u32,
    /// The node that accepted.
    pub to: u32,
}

/// What one direction carries.
enum Piece {
    Data(Slice),
    /// The sender's end closed: no more bytes come.
    End,
    /// The receiver's end is reset.
    Reset,
}

/// From one end to the other.
#[derive(Default)]
struct Flow {
    /// Not arrived yet, with the time of arrival.
    transit: VecDeque<(Time, Piece)>,
    /// With the receiver's kernel, not received yet.
    arrived: VecDeque<Slice>,
    arrived_bytes: usize,
    /// Bytes that count against the window: in transit, arrived, or received without the sender knowing.
    window_used: usize,
    /// Of those: received, but the acknowledgement could not pass.
    unheard: usize,
    /// When the last piece arrives.
    last: Time,
    /// No more bytes come, and all have arrived.
    ended: bool,
    /// The present stall, if there is one; its number tells it from earlier ones.
    stalled: bool,
    stall: u32,
    /// When it began.
    stalled_at: Time,
}

struct Send {
    data: Segments,
    token: Token,
    /// Next segment, and the offset in it.
    segment: usize,
    offset: usize,
}

struct End {
    process: Process,
    /// Neither closed nor did its process die.
    open: bool,
    broken: Option<io::ErrorKind>,
    receive: Option<(BufMut, Token)>,
    send: Option<Send>,
    /// How long the other end may be silent, if it is asked, and since when it is.
    watch: Option<(Duration, Option<Time>)>,
    path: Path,
}

impl End {
    fn is_usable(&self) -> bool {
        self.open && self.broken.is_none()
    }
}

/// Ends 0 (who connected) and 1 (who accepted); flow 0 runs from end 0.
struct Connection {
    ends: [End; 2],
    flows: [Flow; 2],
}

/// All links, listeners and connections of a world.
pub(super) struct Net {
    config: NetConfig,
    connections: Vec<Connection>,
    attempts: Vec<connect::Attempt>,
    /// By node and port.
    listening: BTreeMap<(u32, u16), Listener>,
    listeners: u32,
    next_port: u16,
    cut: BTreeSet<(u32, u32)>,
    delays: BTreeMap<(u32, u32), Duration>,
    /// So many of a thousand segments are lost.
    losses: BTreeMap<(u32, u32), u32>,
}

/// The address of a node.
#[must_use]
pub fn node_ip(node: u32) -> IpAddr {
    assert!(node < MAX_NODES, "nodes are numbered below {MAX_NODES}");
    IpAddr::V4(Ipv4Addr::new(10, 0, (node >> 8) as u8, node as u8))
}

/// The node with an address; the loopback address is the asking node itself.
fn node_at(asking: u32, address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(ip) if ip.is_loopback() || ip.is_unspecified() => Some(asking),
        IpAddr::V4(ip) => match ip.octets() {
            [10, 0, high, low] => Some(u32::from(high) << 8 | u32::from(low)),
            _ => None,
        },
        IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() => Some(asking),
        IpAddr::V6(_) => None,
    }
}

/// Sockets are numbered by connection and end.
fn socket_of(connection: usize, end: usize) -> SocketId {
    SocketId(connection as u64 * 2 + end as u64)
}

impl Net {
    pub fn new(config: NetConfig) -> Net {
        Net {
            config,
            connections: Vec::new(),
            attempts: Vec::new(),
            listening: BTreeMap::new(),
            listeners: 0,
            next_port: 20_000,
            cut: BTreeSet::new(),
            delays: BTreeMap::new(),
            losses: BTreeMap::new(),
        }
    }

    /// Can nothing pass from one node to the other?
    fn is_cut(&self, engine: &Engine, from: u32, to: u32) -> bool {
        self.cut.contains(&(from, to)) || !engine.nodes.get(to as usize).is_none_or(|node| node.powered)
    }

    fn latency(&self, engine: &mut Engine, from: u32, to: u32) -> Duration {
        engine.random.duration(self.config.latency) + self.delays.get(&(from, to)).copied().unwrap_or_default()
    }

    pub fn set_delay(&mut self, from: u32, to: u32, delay: Duration) {
        self.delays.insert((from, to), delay);
    }

    pub fn cut(&mut self, from: u32, to: u32) {
        self.cut.insert((from, to));
    }

    pub fn heal(&mut self, engine: &mut Engine, from: u32, to: u32) {
        if self.cut.remove(&(from, to)) {
            self.passable(engine, from, to);
        }
    }

    /// Something may pass again: what was held moves on.
    pub fn passable(&mut self, engine: &mut Engine, from: u32, to: u32) {
        for index in 0..self.connections.len() {
            for end in 0..2 {
                let [sender, receiver] = [end, 1 - end].map(|end| self.connections[index].ends[end].process.node);
                if (sender, receiver) == (from, to) || (sender, receiver) == (to, from) {
                    self.resume(engine, index, end);
                }
            }
        }
        self.retry_connects(engine, from, to);
    }

    /// The open connections, oldest first.
    pub fn open_connections(&self) -> impl Iterator<Item = ConnectionInfo> + '_ {
        let open = self.connections.iter().enumerate();
        open.filter(|(_, connection)| connection.ends.iter().all(End::is_usable))
            .map(|(index, connection)| {
                let [from, to] = [0, 1].map(|end| connection.ends[end].process.node);
                ConnectionInfo {
                    connection: index as u32,
                    from,
                    to,
                }
            })
    }

    /// Which connection and end a socket of a process is.
    fn end_of(&self, process: Process, socket: SocketId) -> Option<(usize, usize)> {
        let (index, end) = ((socket.0 / 2) as usize, (socket.0 % 2) as usize);
        let found = &self.connections.get(index)?.ends[end];
        (found.process == process && found.open).then_some((index, end))
    }

    /// A process has ended. Its kernel closes its streams, unless the host has no power either.
    pub fn ended(&mut self, engine: &mut Engine, process: Process, powered: bool) {
        self.listening.retain(|_, listener| listener.process != process);
        self.forget_connects(process);
        for index in 0..self.connections.len() {
            for end in 0..2 {
                if self.connections[index].ends[end].process == process && self.connections[index].ends[end].open {
                    if powered {
                        self.close_end(engine, index, end);
                    } else {
                        let connection = &mut self.connections[index];
                        connection.ends[end].open = false;
                        connection.ends[end].receive = None;
                        connection.ends[end].send = None;
                        // What it had not put on the wire dies with it.
                        connection.flows[end] = Flow {
                            ended: false,
                            stalled: false,
                            ..Flow::default()
                        };
                    }
                }
            }
        }
    }
}
