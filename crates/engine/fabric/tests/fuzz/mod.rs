//! Conversations with a fabric out of any bytes, from either side: valid ones in which something is wrong at some point. Used by
//! `tests/fuzz.rs` on stable, and under libFuzzer by the targets in `fuzz/`.
//!
//! What must hold: nothing panics; a head that is read says what it says in one way only; what a link may have under way
//! stays within its window; links end for a reason that a broken peer gives; and a node that keeps to the rules is served in the end.

mod stranger;

use super::common::{Node, Raw, answer, config, raw_hello, read, renew_lease, write};
use super::world::{Cluster, millis, seconds};
use amita_fabric::codec::{self, Frame, PREFIX_BYTES, PROTOCOL_VERSION, encode, encode_hello, encode_ping};
use amita_fabric::{DownReason, Event, Message, ReleaseOutcome};
use amita_reactor::Slice;
use amita_testkit::fuzz::Input;
use amita_types::message::Request;
use amita_types::{Generation, NodeId, VolumeId};

pub use stranger::stranger;

/// One frame of every kind.
const WIRE: &str = include_str!("../fixtures/wire-v1.txt");
/// Decisions of one conversation.
const MAX_STEPS: usize = 48;
/// Connections of the broken peer at once.
const MAX_CONNECTIONS: usize = 6;

/// The frames that there are, their heads whole: seeds.
pub fn heads() -> Vec<Vec<u8>> {
    let lines = WIRE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let hex = |text: &str| {
        let pair =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
        text.as_bytes().chunks(2).map(pair).collect()
    };
    lines
        .map(|line| hex(line.split_once(": ").expect("NAME: HEX").1))
        .collect()
}

/// Writes the CRC that fits what the head says.
fn sign(head: &mut [u8]) {
    if head.len() > 4 {
        let crc = amita_types::crc32c(&head[4..]);
        head[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A head as it comes, and with the length and the CRC that fit it: an error, or a frame that is written in the same bytes again.
pub fn head(input: &[u8]) {
    decode(input);
    let mut signed = input.to_vec();
    if signed.len() >= PREFIX_BYTES {
        let length = u16::try_from(signed.len()).unwrap_or(u16::MAX);
        signed[8..10].copy_from_slice(&length.to_le_bytes());
        sign(&mut signed);
        decode(&signed);
    }
}

fn decode(data: &[u8]) {
    for agreed in [None, Some(PROTOCOL_VERSION)] {
        let Ok(Some(prefix)) = codec::prefix(data, agreed) else {
            continue;
        };
        let Some(head) = data.get(..prefix.head_bytes) else {
            continue;
        };
        if codec::check(head).is_err() {
            continue;
        }
        let Ok(frame) = codec::decode(prefix, head) else {
            continue;
        };
        let mut again = Vec::new();
        match &frame {
            Frame::Hello(hello) => encode_hello(&mut again, hello, false),
            Frame::Welcome(hello) => encode_hello(&mut again, hello, true),
            Frame::Refuse(refuse) => codec::encode_refuse(&mut again, refuse),
            Frame::Ping(number) => encode_ping(&mut again, PROTOCOL_VERSION, *number, false),
            Frame::Pong(number) => encode_ping(&mut again, PROTOCOL_VERSION, *number, true),
            Frame::Message(message) => {
                encode(&mut again, PROTOCOL_VERSION, message, prefix.payload_bytes).expect("what was read can be sent");
            }
        }
        // Later versions may say more in a hello, and a reason is shown as far as it is text.
        if !matches!(frame, Frame::Hello(_) | Frame::Welcome(_) | Frame::Refuse(_)) {
            assert_eq!(again, head, "{frame:?}");
        }
    }
}

/// A head and its payload.
type Sent = (Vec<u8>, Vec<u8>);

fn frame((message, payload): (Message, Slice)) -> Sent {
    let mut head = Vec::new();
    encode(&mut head, PROTOCOL_VERSION, &message, payload.len()).expect("valid");
    (head, payload.to_vec())
}

fn control(put: impl Fn(&mut Vec<u8>)) -> Sent {
    let mut head = Vec::new();
    put(&mut head);
    (head, Vec::new())
}

fn release(tag: u64) -> Message {
    Message::Release {
        tag,
        volume: VolumeId(1),
        generation: Generation(1),
        hand_over: false,
    }
}

/// Changes a head in some places; mostly with a CRC that fits, so that what is behind it is met too.
fn mangle(head: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..1 + input.below(3) {
        let at = input.place(head.len().max(1));
        match input.below(8) {
            0 => head.truncate(at),
            1 => head.extend_from_slice(input.take(8)),
            2 => {
                let edge = input.edge().to_le_bytes();
                head.iter_mut().skip(at).zip(edge).for_each(|(byte, new)| *byte = new);
            }
            _ => {
                let bits = input.byte();
                head.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
            }
        }
    }
    if input.below(4) > 0 {
        sign(head);
    }
}

/// What is the broken peer's node is not the honest one's: whoever may say any name is not for this to judge.
fn names_another(head: &[u8]) -> bool {
    let parsed = codec::prefix(head, None).ok().flatten();
    let decoded = parsed.and_then(|prefix| codec::decode(prefix, head.get(..prefix.head_bytes)?).ok());
    matches!(decoded, Some(Frame::Hello(hello)) if hello.node == NodeId(2))
}

fn send(cluster: &mut Cluster, connection: usize, (head, payload): &Sent) {
    if !names_another(head) {
        cluster.raw(9).send(connection, head);
        cluster.raw(9).send(connection, payload);
    }
}

/// A frame that has its place there: of an end that has called and asks, or of one that was called and answers.
fn lawful(input: &mut Input<'_>, asked: &mut Vec<Request>, is_asking: bool) -> Sent {
    let id = u64::from(input.byte());
    if !is_asking && !asked.is_empty() {
        return frame(answer(&asked.remove(input.below(asked.len()))));
    }
    match input.below(4) {
        0 if is_asking => frame(write(id, 1 + input.u32() % (128 << 10))),
        1 if is_asking => frame(read(id, 1 + u16::from(input.byte() & 31))),
        2 if is_asking => frame(renew_lease(id)),
        _ => control(|out| encode_ping(out, PROTOCOL_VERSION, id + 1, false)),
    }
}

/// A frame that may have no place there.
fn spoken(input: &mut Input<'_>, asked: &mut Vec<Request>, is_asking: bool) -> Sent {
    let id = u64::from(input.byte() & 7);
    match input.below(24) {
        0 => control(|out| encode_hello(out, &raw_hello(9, 1, (id & 3) as u16), false)),
        1 => control(|out| encode_hello(out, &raw_hello(9, 1, 0), true)),
        2 => control(|out| encode_ping(out, PROTOCOL_VERSION, id, true)),
        3 => frame((release(id), Slice::default())),
        4 => {
            let outcome = ReleaseOutcome::NotOwner;
            frame((Message::Released { tag: id, outcome }, Slice::default()))
        }
        5 | 6 => {
            let mut heads = heads();
            let mut head = heads.swap_remove(input.below(heads.len()));
            // With a payload of some length.
            let payload = input.place(9000);
            head[12..16].copy_from_slice(&(payload as u32).to_le_bytes());
            sign(&mut head);
            (head, vec![input.byte(); payload])
        }
        7 => lawful(input, asked, !is_asking),
        _ => lawful(input, asked, is_asking),
    }
}

/// Says what the input decides over the connections of the broken peer.
fn speak(cluster: &mut Cluster, input: &mut Input<'_>, asked: &mut Vec<Request>, is_asking: bool) {
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let open = cluster.raw(9).connections.len();
        let what = input.byte();
        if is_asking && (open == 0 || what >= 0xf0 && open < MAX_CONNECTIONS) {
            cluster.raw(9).connect(1);
            cluster.run(millis(2));
            continue;
        }
        if open == 0 {
            break;
        }
        let connection = input.below(open);
        match what {
            0x00..0xa8 => {
                let sent = spoken(input, asked, is_asking);
                send(cluster, connection, &sent);
            }
            0xa8..0xc0 => {
                let (mut head, mut payload) = spoken(input, asked, is_asking);
                mangle(&mut head, input);
                if input.below(4) == 0 {
                    payload.truncate(input.place(payload.len() + 1));
                }
                send(cluster, connection, &(head, payload));
            }
            0xc0..0xd0 => {
                let count = input.below(64);
                let noise = input.take(count);
                cluster.raw(9).send(connection, noise);
            }
            0xd0..0xd8 => cluster.raw(9).deaf ^= true,
            _ => cluster.run(millis(1 + u64::from(input.byte()))),
        }
    }
    cluster.run(millis(20));
}

/// Is the reason why a link ended one that a broken peer gives?
fn is_lawful(why: &DownReason) -> bool {
    !matches!(why, DownReason::Closed)
}

/// What the node that is under test has met: for a test that the conversations get somewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Links that ended.
    pub downs: usize,
    /// Requests that came.
    pub requests: usize,
    /// Good answers.
    pub answers: usize,
}

fn judge(cluster: &mut Cluster) -> Seen {
    let node = cluster.node(1);
    for (_, event) in &node.events {
        if let Event::Down { why, .. } = event {
            assert!(is_lawful(why), "{why:?}");
        }
    }
    // The honest node's link is one more.
    let (limits, links) = (config(1).limits, MAX_CONNECTIONS as u32 + 1);
    let (requests, bytes) = node.most_held;
    assert!(
        requests <= (limits.window_requests * links) as usize,
        "{requests} requests are held"
    );
    assert!(bytes <= limits.window_bytes * links, "{bytes} bytes are held");
    Seen {
        downs: node.count(|event| matches!(event, Event::Down { .. })),
        requests: node.requests.len(),
        answers: node.answers.len(),
    }
}

/// Somebody calls a node, which serves another one meanwhile.
pub fn dialler(input: &[u8]) {
    call(input);
}

pub fn call(input: &[u8]) -> Seen {
    let mut input = Input(input);
    let mut cluster = Cluster::new(1);
    cluster.start(1, Node::new(config(1)));
    let address = cluster.address(1);
    cluster.start(2, Node::new(config(2)).peer(1, address));
    cluster.start_raw(9, Raw::new(address, 1));
    cluster.run(millis(20));
    // Most conversations begin well.
    if input.byte() & 7 != 0 {
        cluster.raw(9).hello(0, 9, 1);
        cluster.run(millis(2));
    }
    cluster.node(1).answering = input.byte() & 7 != 0;
    speak(&mut cluster, &mut input, &mut Vec::new(), true);
    cluster.node(1).answering = true;
    cluster.node(1).answer_held(usize::MAX);
    let seen = judge(&mut cluster);
    cluster.node(2).send(1, write(1, 4096));
    cluster.run_till(|cluster| cluster.node(2).answers.len() == 1);
    assert_eq!(cluster.node(2).ups(), 1, "its link was never in question");
    seen
}

/// A node calls somebody, and asks.
pub fn acceptor(input: &[u8]) {
    be_called(input);
}

pub fn be_called(input: &[u8]) -> Seen {
    let mut input = Input(input);
    let mut cluster = Cluster::new(1);
    let address = cluster.address(9);
    cluster.start_raw(9, Raw::listening(address));
    cluster.run(millis(1));
    cluster.start(1, Node::new(config(1)).peer(9, address));
    cluster.run(millis(5));
    let mut asked = Vec::new();
    if input.byte() & 7 != 0 {
        let welcome = control(|out| encode_hello(out, &raw_hello(9, 1, 0), true));
        send(&mut cluster, 0, &welcome);
        cluster.run(millis(2));
        for message in [read(1, 2), write(2, 4096), renew_lease(3), read(4, 32)] {
            let Message::Request(request) = &message.0 else {
                panic!("a request");
            };
            asked.push(request.clone());
            cluster.node(1).send(9, message);
        }
        if let Some(link) = cluster.node(1).fabric.link_to(NodeId(9)) {
            let sent = cluster.node(1).fabric.send(link, release(1), Slice::default());
            sent.expect("it is up");
        }
        cluster.run(millis(2));
    }
    speak(&mut cluster, &mut input, &mut asked, false);
    let seen = judge(&mut cluster);
    // Each answer once, and to what was asked.
    let answers = &cluster.node(1).answers;
    let mut once: Vec<_> = answers.iter().map(|(_, id)| *id).collect();
    once.sort_unstable();
    once.dedup();
    assert!(once.iter().all(|id| (1..=4).contains(id)), "{answers:?}");
    // It goes on calling, and takes no harm from what it called.
    cluster.run(seconds(3));
    seen
}
