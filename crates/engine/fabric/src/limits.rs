//! Everything a peer can make this node hold or do has a bound, and each bound has its reason here.
//!
//! Those that an operator may want to move are settings with these as their defaults ([`crate::Limits`],
//! [`crate::Timeouts`]); the others are part of the protocol.

use amita_reactor::{AcceptLimits, Rate};
use amita_types::layout::MAX_IO_BYTES;
use std::time::Duration;

/// The longest head of a frame, its prefix included. The longest is the answer `Held` of 256 chunks
/// (6,454 B); the rest is room for later versions. Small enough that a peer which announces a head and never sends it
/// holds nothing worth speaking of.
pub const MAX_HEAD_BYTES: usize = 8192;

/// The longest head of a frame of the handshake. Whoever has not said a valid hello gets the smallest receive block,
/// and this fits into it.
pub const MAX_HANDSHAKE_HEAD_BYTES: usize = 1024;

/// The longest payload of a frame: one message of the data path.
pub const MAX_PAYLOAD_BYTES: usize = MAX_IO_BYTES as usize;

/// The longest frame.
pub const MAX_FRAME_BYTES: usize = MAX_HEAD_BYTES + MAX_PAYLOAD_BYTES;

/// The longest reason in a `Refuse` frame, in bytes of UTF-8: it ends up in a log line.
pub const MAX_REASON_BYTES: usize = 256;

/// What a request costs of a link's window beside its payload, in bytes: its head, and what the receiver keeps of it.
pub const REQUEST_CHARGE_BYTES: u32 = 128;

/// What the answer to a request that lists blocks (changes, allocation, a verification) costs of the window: it is of
/// this size at most.
pub const LIST_CHARGE_BYTES: u32 = 1024;

/// What the answer to a request that lists chunks or states costs of the window: it is of this size at most.
pub const CHUNKS_CHARGE_BYTES: u32 = 8192;
const _: () = assert!(CHUNKS_CHARGE_BYTES as usize == MAX_HEAD_BYTES);

/// The most that one request can cost of a window; no window may be smaller, or that request could never be sent.
pub const MAX_CHARGE_BYTES: u32 = MAX_IO_BYTES + REQUEST_CHARGE_BYTES + LIST_CHARGE_BYTES;

/// The largest window, in requests, that this end makes use of, whatever a peer grants: it bounds what the table of
/// requests in flight can grow to.
pub const MAX_WINDOW_REQUESTS: u32 = 16 * 1024;

/// The largest window, in bytes, that this end makes use of.
pub const MAX_WINDOW_BYTES: u32 = 64 << 20;

/// Requests in flight on a link, by default: far above what 0.5 MiB of the smallest data messages make (128).
pub const WINDOW_REQUESTS: u32 = 1024;

/// Bytes in flight on a link, by default. Beyond 0.5 MiB a connection gains nothing and overruns the cache (measured);
/// the little more is for the heads, so that four of the largest messages fit.
pub const WINDOW_BYTES: u32 = 4 * MAX_CHARGE_BYTES;

/// Requests that may wait in the fabric for the window of one link, by default. Senders bound what they have under way (a sequencer 2 MiB
/// of writes a store, hosts their queues) and keep it until it is answered, so that what waits costs a reference. But there are as many of
/// them as volumes: a queue that they can fill breaks its link, and what is sent again fills the next one.
pub const QUEUE_REQUESTS: usize = 1 << 20;

/// Bytes (as charged to the window) that may wait in the fabric for the window of one link, by default.
pub const QUEUE_BYTES: usize = 4 << 30;

/// Requests for release that may be unanswered on a link, in each direction. They are one per volume that moves.
pub const MAX_RELEASES: u32 = 256;

/// Forwarded requests in flight on a link, in each direction. They have a window of their own: a store's request must never
/// wait behind one that is answered only when such requests have been (two gateways that forward to each other would
/// stand still).
pub const FORWARD_REQUESTS: u32 = 512;

/// Bytes of forwarded requests and their answers in flight on a link: as above.
pub const FORWARD_BYTES: u32 = 1 << 20;

/// What the answer to a forwarded request about a reservation costs of that window: it is of this size at most.
pub const RESERVATION_CHARGE_BYTES: u32 = 64 << 10;

/// And what the answer to forwarded asks for tokens costs.
pub const TOKENS_CHARGE_BYTES: u32 = 8 << 10;

/// Stands above the older snapshot's number in the `length` of a forwarded [`ForwardOp::Differ`](crate::ForwardOp::Differ) that asks which chunks
/// were changed, and not which blocks of one.
pub const OF_CHUNKS: u64 = 1 << 32;

/// Unanswered bytes over all incoming links of a core, by default; above it no incoming link is read. It is what
/// bounds the buffers that peers can make this core hold.
pub const UNANSWERED_BYTES: u64 = 64 << 20;

/// Answers of one incoming link that wait to be sent, in bytes: a peer that asks and does not read is not read.
pub const OUTBOX_BYTES: usize = 2 << 20;

/// Connections from addresses of no known peer that have not said a valid hello, by default. When one more comes in, the
/// oldest of the address that has most of them is dropped: it is the likeliest to be stuck or to mean harm, and a flood from
/// one address pushes out nothing but itself.
pub const MAX_HANDSHAKES: usize = 64;

/// The same for addresses of known peers, by default. Strangers cannot take these places. A node that comes back is called
/// by all others at once, each with a link or two to a core.
pub const MAX_KNOWN_HANDSHAKES: usize = 128;

/// Connections that a core takes in a second, by default. One costs it some 40 us until it is closed again, a handshake not counted: so
/// strangers take 0.2 % of it in the long run, and 10 ms after a pause. At once may come, after a pause, what a host of many cores that
/// starts makes (a link for each pair of cores), and as much of several. What peers may, a node that comes back needs, which all others
/// call at once; a peer gone mad takes 4 % of the core. Whoever would be above that is not accepted; see [`amita_reactor::admission`].
pub const ACCEPTS: AcceptLimits = AcceptLimits {
    strangers: Rate {
        per_second: HANDSHAKES_PER_SECOND,
        burst: 256,
    },
    source: Rate {
        per_second: HANDSHAKES_PER_SOURCE,
        burst: 128,
    },
    known: Rate {
        per_second: 1000,
        burst: 1024,
    },
};

/// Handshakes of protected links that strangers may begin in a second with a core, by default: each costs it 100 to 300 us,
/// so that they take 1.5 % of it at most. What comes in beyond that is closed at once.
pub const HANDSHAKES_PER_SECOND: u32 = 50;

/// Of those, what one address may begin: whoever uses up all that strangers have needs several.
pub const HANDSHAKES_PER_SOURCE: u32 = 25;

/// The same for addresses of known peers, by default: so that a node that comes back has its links to a hundred others within
/// a second, and a peer gone mad takes less than a tenth of a core.
pub const KNOWN_HANDSHAKES_PER_SECOND: u32 = 300;

/// Incoming connections of one peer on one core, by default; above it the oldest is dropped. A peer has at most one for
/// each of its links, so more are left over from an earlier life.
pub const MAX_CONNECTIONS_PER_PEER: usize = 16;

/// Connections of a core, by default. Above it a new one takes the place of the oldest without a hello, or is closed.
pub const MAX_CONNECTIONS: usize = 4096;

/// Attempts to connect that may be under way for one link: the kernel goes on with one for minutes after this end has
/// lost patience, and a later one may be answered before.
pub const MAX_ATTEMPTS: usize = 4;

/// How long a new connection may take for its hello.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an attempt to connect may take before the peer is reported unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// With requests outstanding: after so much silence the peer is asked whether it is there.
pub const QUIET: Duration = Duration::from_millis(500);

/// With something outstanding: after so much silence the link is dead. More precisely: when a ping has been unanswered
/// for this less [`QUIET`], and nothing else was heard for this.
pub const SILENCE: Duration = Duration::from_secs(2);

/// With nothing outstanding: how often the peer is asked whether it is there. Seldom, so that an idle cluster costs
/// nothing; it is what finds a half-open connection before the next request does.
pub const IDLE_PING: Duration = Duration::from_secs(5);

/// A send of answers that has not ended after so long: the peer lives, perhaps, but does not read. Long enough for the largest send
/// (0.5 MiB) over a bad network.
pub const SEND_STALL: Duration = Duration::from_secs(10);

/// The first pause before connecting again; each further one is twice as long.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(10);

/// A peer that refuses is dialled again after [`BACKOFF_FIRST`] so many times, before pauses grow: its host answers at once, so
/// this costs next to nothing, and the sooner several refusals are there, the sooner it is known that its process is dead.
pub const QUICK_REFUSALS: u32 = 8;

/// A link that was up for so long has carried something, and is not given up on when it breaks.
pub const USEFUL_LINK: Duration = Duration::from_millis(100);

/// Such a link is dialled again as if so many attempts had failed, at most: after 80 ms.
pub const BROKEN_FAILURES: u32 = 3;

/// The longest pause before connecting again.
pub const BACKOFF_LAST: Duration = Duration::from_secs(1);

/// How soon a receive is tried again for which the pool had no memory.
pub const STARVED_RETRY: Duration = Duration::from_millis(1);

/// Receive blocks, in bytes: the first for a connection that has not said hello or has been quiet; then one more step
/// each time that a receive filled what it was given.
pub const RECEIVE_CLASSES: [usize; 4] = [4 << 10, 64 << 10, 256 << 10, 512 << 10];

/// A connection that was quiet for so long begins again with the smallest receive block.
pub const RECEIVE_QUIET: Duration = Duration::from_secs(1);

const _: () = assert!(MAX_REASON_BYTES + 64 <= MAX_HANDSHAKE_HEAD_BYTES);
const _: () = assert!(MAX_HANDSHAKE_HEAD_BYTES <= RECEIVE_CLASSES[0]);
const _: () = assert!(CHUNKS_CHARGE_BYTES + REQUEST_CHARGE_BYTES <= MAX_CHARGE_BYTES);
const _: () = assert!(WINDOW_BYTES >= MAX_CHARGE_BYTES && WINDOW_BYTES <= MAX_WINDOW_BYTES);
const _: () = assert!(MAX_FRAME_BYTES <= RECEIVE_CLASSES[2]);

/// What a peer may send, in bytes, before it has proven who it is: a handshake with a chain of three certificates is 4 KiB.
/// What it makes this end keep meanwhile (these bytes twice, while a handshake takes them in, its answer and its state) is
/// below [`MAX_UNPROVEN_BYTES`].
pub const MAX_PROOF_BYTES: usize = 16 << 10;

/// What a connection that has proven nothing makes this end keep, in bytes, at most.
pub const MAX_UNPROVEN_BYTES: usize = 64 << 10;

/// Frames of one direction of a protected link after which its key is followed by the next one: far below what the cipher
/// bears (2^48, RFC 10032, section 6.4), and often enough that what was recorded cannot be read with keys that are taken
/// later.
pub const REKEY_FRAMES: u64 = 1 << 24;

/// So long after a stranger was told of, no other is: a log that strangers can fill is a hole of its own.
pub const STRANGER_PAUSE: Duration = Duration::from_secs(1);
