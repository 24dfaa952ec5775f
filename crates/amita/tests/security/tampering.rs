//! Somebody on the way between two nodes who changes, repeats, leaves out, moves and puts in what passes, and who wants the two to
//! protect themselves less.

use crate::bystander::Bystander;
use crate::relay::{Kind, Piece, Relay, Tamper, Way};
use crate::world::{
    PATIENCE, STORE_BYTES, VOLUME, VOLUME_BYTES, World, config, eventually, pattern, scratch, verify_job,
};
use amita_harness::cluster::{Cluster, Links, Metadata};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nodes warn of links that break, of peers that are away for a moment, and of what is brought up to date then.
const LINKS_BREAK: &[&str] = &["WARN"];

/// Three nodes that reach one another through relays alone.
pub fn world(links: Links) -> (World, Vec<Relay>) {
    let scratch = scratch(3 * STORE_BYTES);
    let mut config = config(&scratch, 3, Metadata::Embedded);
    config.links = links;
    let mut relays = Vec::new();
    let cluster = Cluster::start_with(config, |cluster| {
        for index in 0..cluster.nodes().len() {
            let relay = Relay::start(cluster.nodes()[index].fabric);
            cluster.advertise(index, relay.address());
            relays.push(relay);
        }
        Ok(())
    });
    let cluster = cluster.expect("a cluster");
    cluster.make_volume(VOLUME, VOLUME_BYTES).expect("a volume");
    (World { cluster, scratch }, relays)
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[at] ^= 1;
    changed
}

/// What is done to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    FlipHead,
    FlipTag,
    FlipPayload,
    Repeat,
    LeaveOut,
    /// It goes on behind the next one.
    Swap,
    /// A frame of an earlier link takes its place.
    Replay,
    /// One of the attacker's own comes before it.
    PutIn,
    Cut,
}

const ATTACKS: [Attack; 9] = [
    Attack::FlipHead,
    Attack::FlipTag,
    Attack::FlipPayload,
    Attack::Repeat,
    Attack::LeaveOut,
    Attack::Swap,
    Attack::Replay,
    Attack::PutIn,
    Attack::Cut,
];

/// Frames of links that are over, by the bytes that they have.
type Recorded = Arc<Mutex<Vec<Vec<u8>>>>;

/// Does this once, to a frame that goes this way, on a link that works; and says which connection it was.
fn once(attack: Attack, way: Way, recorded: &Recorded) -> (Tamper, Arc<AtomicU64>) {
    let (hit, recorded) = (Arc::new(AtomicU64::new(0)), Arc::clone(recorded));
    let told = Arc::clone(&hit);
    let mut held: Option<Vec<u8>> = None;
    let tamper = move |piece: &Piece<'_>| {
        let Kind::Frame { payload } = piece.kind else {
            return None;
        };
        if told.load(Ordering::Acquire) != 0 {
            // The one that was held back follows the next of its own way and link.
            let is_next = piece.connection == told.load(Ordering::Acquire) && piece.way == way;
            let late = if is_next { held.take() } else { None };
            return late.map(|late| [piece.bytes, &late].concat());
        }
        // Data, where that is what is wanted; and of a link that carries something already.
        let is_large = payload >= 4096 || attack != Attack::FlipPayload;
        if piece.way != way || piece.number < 8 || !is_large {
            return None;
        }
        let bytes = piece.bytes;
        let changed = match attack {
            Attack::FlipHead => flipped(bytes, 17),
            Attack::FlipTag => flipped(bytes, bytes.len() - payload - 1),
            Attack::FlipPayload => flipped(bytes, bytes.len() - 1),
            Attack::Repeat => [bytes, bytes].concat(),
            Attack::LeaveOut => Vec::new(),
            Attack::Swap => {
                held = Some(bytes.to_vec());
                Vec::new()
            }
            Attack::Replay => {
                let all = recorded.lock().expect("a lock");
                all.iter().find(|old| old.as_slice() != bytes)?.clone()
            }
            Attack::PutIn => [&vec![0; bytes.len()], bytes].concat(),
            Attack::Cut => bytes[..bytes.len() - 1].to_vec(),
        };
        told.store(piece.connection, Ordering::Release);
        Some(changed)
    };
    (Box::new(tamper), hit)
}

/// Keeps some frames that pass as they are.
fn record(relay: &Relay, recorded: &Recorded) {
    let (kept, enough) = (Arc::clone(recorded), Arc::new(AtomicBool::new(false)));
    let full = Arc::clone(&enough);
    relay.set(Some(Box::new(move |piece| {
        let mut all = kept.lock().expect("a lock");
        if piece.kind != Kind::Record && all.len() < 64 {
            all.push(piece.bytes.to_vec());
        }
        full.store(all.len() >= 64, Ordering::Release);
        None
    })));
    eventually("frames pass", || enough.load(Ordering::Acquire));
    relay.set(None);
}

/// S1, S2: whatever is done to a frame ends its link, and nothing else; no write is lost, doubled or changed by it.
#[test]
fn what_is_done_to_frames_on_the_way_reaches_nobody() {
    let (world, relays) = world(Links::Auth);
    let mut bystander = Bystander::start(&world, 0);
    let recorded: Recorded = Arc::default();
    // The bystander's gateway sends its writes to the second and third node; frames of one link are kept for later ones.
    record(&relays[1], &recorded);
    for (number, attack) in ATTACKS.into_iter().enumerate() {
        // Answers carry no data as long as the gateway reads from its own store.
        let ways = if attack == Attack::FlipPayload {
            &[Way::Out][..]
        } else {
            &[Way::Out, Way::Back]
        };
        for way in ways {
            let relay = &relays[1 + number % 2];
            let (tamper, hit) = once(attack, *way, &recorded);
            let connections = relay.connections();
            relay.set(Some(tamper));
            eventually("a frame is attacked", || hit.load(Ordering::Acquire) != 0);
            // Where a frame is held back or left out, it is the next one that is found wrong.
            eventually("the link is made anew", || relay.working() > connections);
            relay.set(None);
            bystander.goes_on();
        }
    }

    // The same all the time, while stock fio writes every block and checks all of them.
    let over = AtomicBool::new(false);
    let tampered = std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            let mut count = 0;
            for (number, attack) in ATTACKS.into_iter().cycle().enumerate() {
                if over.load(Ordering::Acquire) {
                    break;
                }
                let relay = &relays[1 + number % 2];
                let (tamper, hit) = once(attack, [Way::Out, Way::Back][number / 2 % 2], &recorded);
                relay.set(Some(tamper));
                std::thread::sleep(Duration::from_millis(250));
                relay.set(None);
                count += usize::from(hit.load(Ordering::Acquire) != 0);
            }
            count
        });
        let mut job = verify_job("tampered", &world.uri(0), 32 << 20, 16 << 20, 11);
        job.more.push("--rate_iops=1500".to_owned());
        let report = job.run(world.folder(), 2 * PATIENCE);
        over.store(true, Ordering::Release);
        let report = report.expect("all blocks are right");
        assert_eq!(report.read.ios, (16 << 20) / 4096);
        attacker.join().expect("the attacker ends")
    });
    assert!(tampered > 0, "fio was not disturbed");
    bystander.unharmed(&world, 1);

    // The nodes know what it was.
    let forged = forged(&world);
    assert!(forged >= ATTACKS.len() as u64, "{forged} frames were found forged");
    world.end(LINKS_BREAK);
}

/// How many frames all nodes have refused as forged.
fn forged(world: &World) -> u64 {
    let nodes = world.json(&["node", "list"]);
    let of = |node: &serde_json::Value| {
        let address = node["metrics"]
            .as_str()
            .expect("an address")
            .parse()
            .expect("an address");
        let text = crate::strangers::get(address, "/metrics");
        let lines = text.lines().filter(|line| line.contains("event=\"forged\""));
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum::<f64>() as u64
    };
    nodes.as_array().expect("a list").iter().map(of).sum()
}

/// Where a part of some bytes stands.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// The caller's hello with a list of protocols that offers less: `auth` for `secret`, with the lengths around it.
fn offering_less(hello: &[u8]) -> Option<Vec<u8>> {
    const LESS: usize = "secret".len() - "auth".len();
    let name = b"amita-fabric/1 secret";
    let at = find(hello, name)?;
    let mut changed = hello.to_vec();
    changed.splice(at..at + name.len(), *b"amita-fabric/1 auth");
    changed[at - 1] -= LESS as u8;
    let mut shorten = |from: usize| {
        let length = u16::from_be_bytes([changed[from], changed[from + 1]]) - LESS as u16;
        changed[from..from + 2].copy_from_slice(&length.to_be_bytes());
    };
    // Of the list, of the extension, of the record, of the message (three bytes, the first of them 0).
    for from in [at - 3, at - 5, 3, 7] {
        shorten(from);
    }
    // Of all extensions: behind the random number, the session, the ciphers and the compressions.
    let session = 43 + 1 + usize::from(hello[43]);
    let ciphers = session + 2 + usize::from(u16::from_be_bytes([hello[session], hello[session + 1]]));
    shorten(ciphers + 1 + usize::from(hello[ciphers]));
    Some(changed)
}

/// What somebody on the way does to handshakes so that less protects the link, or none at all.
#[derive(Clone, Copy, Debug)]
enum Downgrade {
    /// TLS 1.2 is all that the caller seems to speak.
    Version,
    /// `auth` is all that the caller seems to want.
    Protection,
    /// The caller seems to speak no TLS.
    Strip,
    /// The acceptor seems to speak no TLS.
    StripBack,
    /// An earlier caller's hello.
    Replay,
    /// A bit of the acceptor's proof.
    FlipProof,
    /// A bit of the caller's proof.
    FlipFinish,
}

fn downgrade(how: Downgrade, hello: Vec<u8>) -> Tamper {
    Box::new(move |piece| {
        let is_hello = piece.number == 0;
        let bytes = piece.bytes;
        let is_sealed = bytes.first() == Some(&23);
        match (how, piece.way) {
            // The list of versions of the caller: 1.3 alone (RFC 8446, section 4.2.1).
            (Downgrade::Version, Way::Out) if is_hello => {
                let list = find(bytes, &[0, 0x2b, 0, 3, 2, 3, 4])?;
                let mut changed = bytes.to_vec();
                changed[list + 6] = 3;
                Some(changed)
            }
            (Downgrade::Protection, Way::Out) if is_hello => offering_less(bytes),
            (Downgrade::Strip, Way::Out) if is_hello => Some(crate::attacker::PLAIN_HELLO.to_vec()),
            (Downgrade::StripBack, Way::Back) if is_hello => Some(crate::attacker::PLAIN_HELLO.to_vec()),
            (Downgrade::Replay, Way::Out) if is_hello => Some(hello.clone()),
            (Downgrade::FlipProof, Way::Back) | (Downgrade::FlipFinish, Way::Out) if is_sealed => {
                Some(flipped(bytes, bytes.len() - 1))
            }
            _ => None,
        }
    })
}

/// S1: two nodes are talked down to nothing less, and what they say is not read.
#[test]
fn nobody_on_the_way_talks_two_nodes_down_or_reads_what_they_say() {
    let (world, relays) = world(Links::Secret);
    let secret = pattern(77, 1 << 20);
    let mut client = world.open(0);
    client.write(0, &secret).expect("written");
    client.close();
    let looked_at: usize = relays.iter().map(Relay::seen_bytes).sum();
    assert!(looked_at > 2 * secret.len(), "both copies passed: {looked_at} bytes");
    for relay in &relays {
        assert!(!relay.has_seen(&secret[4096..4096 + 24]), "data passes in plain text");
    }

    // Of a real hello.
    let hello = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&hello);
    relays[1].set(Some(Box::new(move |piece| {
        if piece.way == Way::Out && piece.number == 0 {
            *kept.lock().expect("a lock") = piece.bytes.to_vec();
        }
        None
    })));
    relays[1].cut();
    eventually("a node calls", || !hello.lock().expect("a lock").is_empty());
    let hello = hello.lock().expect("a lock").clone();
    assert!(offering_less(&hello).is_some(), "the hello offers its protection");

    for how in [
        Downgrade::Version,
        Downgrade::Protection,
        Downgrade::Strip,
        Downgrade::StripBack,
        Downgrade::Replay,
        Downgrade::FlipProof,
        Downgrade::FlipFinish,
    ] {
        let relay = &relays[1];
        relay.set(Some(downgrade(how, hello.clone())));
        relay.cut();
        let (connections, tampered) = (relay.connections(), relay.tampered());
        eventually("handshakes are attacked", || relay.tampered() >= tampered + 2);
        assert!(
            relay.working() <= connections,
            "{how:?}: a link came about whose handshake was changed"
        );
        relay.set(None);
        eventually("an honest link is made", || relay.working() > connections);
    }
    // What went on meanwhile is right, and comes from wherever.
    eventually("all stores are there", || world.json(&["status"])["health"] == "ok");
    let mut client = world.open(2);
    let mut read = vec![0; secret.len()];
    client.read(0, &mut read).expect("read");
    assert!(read == secret);
    client.close();
    world.end(LINKS_BREAK);
}
