//! What the fabric allocates: nothing for a message once warm, and nothing large for whatever a peer sends.

mod common;

use amita_fabric::codec::{self, Kind};
use amita_fabric::limits::{MAX_PROOF_BYTES, MAX_UNPROVEN_BYTES};
use amita_fabric::secure::{Protection, Recorded, Role};
use amita_fabric::{Config, Event, Fabric, Message};
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Completion, Driver, Pool, PoolConfig, Slice, Wait};
use amita_testkit::allocations::{self, Counting};
use amita_types::message::{Answer, AnswerBody};
use amita_types::{NodeId, RequestId};
use common::proof::{Authority, StandIn};
use common::{STORE, config, name, secured, secured_by, write};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One end: passes completions on, and collects what came into vectors that keep their capacity.
struct End {
    fabric: Fabric,
    driver: UringDriver,
    completions: Vec<Completion>,
    came: Vec<(amita_fabric::Link, Message, Slice)>,
    up: bool,
}

impl End {
    fn new(mut config: Config) -> End {
        let pool = Pool::new(PoolConfig::with_total(16 << 20)).expect("16 MiB");
        config.pool = pool.clone();
        let driver = UringDriver::new(UringConfig::default(), pool).expect("io_uring");
        let mut fabric = Fabric::new(config);
        for node in [1, 2] {
            fabric.set_name(NodeId(node), Some(Recorded::node(name(node))));
        }
        End {
            fabric,
            driver,
            completions: Vec::new(),
            came: Vec::new(),
            up: false,
        }
    }

    fn begin(&mut self) {
        self.driver.poll(Wait::No, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.fabric.completion(&mut self.driver, completion);
        }
        for event in self.fabric.events() {
            match event {
                Event::Message {
                    link, message, payload, ..
                } => self.came.push((link, message, payload)),
                Event::Up { .. } => self.up = true,
                Event::Down { why, .. } => panic!("{why}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_warm_exchange_of_writes_and_answers_allocates_nothing() {
    allocates_nothing(config(1), config(2));
}

#[test]
fn nor_does_one_over_a_protected_link() {
    for protection in [Protection::Auth, Protection::Secret] {
        let authority = Authority::new(7);
        allocates_nothing(secured(1, protection, &authority), secured(2, protection, &authority));
    }
}

fn allocates_nothing(one: Config, two: Config) {
    let (mut one, mut two) = (End::new(one), End::new(two));
    let address = two
        .fabric
        .listen(&mut two.driver, "127.0.0.1:0".parse().expect("an address"))
        .expect("free");
    let now = one.driver.now();
    one.fabric.set_peer(now, NodeId(2), Some(address));
    let (message, payload) = write(0, 4096);
    let Message::Request(mut request) = message else {
        panic!("a request")
    };
    let done = Answer {
        id: RequestId(0),
        store: STORE,
        lease_ms: 250,
        credit_blocks: 1,
        waited: Default::default(),
        trace: None,
        result: Ok(AnswerBody::Done),
    };
    let (mut next, mut answered) = (0u64, 0u64);
    let mut allocated_before = 0;
    // Depth 64: more than one send is under way at times, and receives end in the middle of frames.
    const WARM: u64 = 50_000;
    const MEASURED: u64 = 50_000;
    while answered < WARM + MEASURED {
        one.begin();
        answered += one.came.len() as u64;
        one.came.clear();
        if allocated_before == 0 && answered >= WARM {
            allocated_before = allocations::count();
        }
        if let Some(link) = one.fabric.link_to(NodeId(2)) {
            while next < answered + 64 {
                request.id = RequestId(next);
                one.fabric
                    .send(link, Message::Request(request.clone()), payload.clone())
                    .expect("within the window");
                next += 1;
            }
        }
        one.fabric.flush(&mut one.driver);

        two.begin();
        for (link, message, data) in two.came.drain(..) {
            let Message::Request(request) = message else {
                panic!("a request")
            };
            assert_eq!(data.len(), 4096);
            let answer = Answer {
                id: request.id,
                ..done.clone()
            };
            two.fabric
                .send(link, Message::Answer(answer), Slice::default())
                .expect("asked for");
        }
        two.fabric.flush(&mut two.driver);
    }
    assert!(one.up && two.up);
    let allocated = allocations::count() - allocated_before;
    assert!(allocated_before > 0, "the counter counts");
    assert_eq!(allocated, 0, "allocations in {MEASURED} writes and answers");
}

/// Heads with a valid CRC and nonsense behind it, of every kind, and plain noise.
#[test]
fn nothing_that_a_peer_sends_makes_the_decoder_allocate_much() {
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut head = Vec::with_capacity(2048);
    let mut decoded = 0;
    allocations::forget_largest();
    for round in 0..200_000u64 {
        head.clear();
        head.extend((0..16 + random() % 1009).map(|_| random() as u8));
        let kind = Kind::ALL[(round % Kind::ALL.len() as u64) as usize];
        let bytes = head.len() as u16;
        head[4..6].copy_from_slice(b"Am");
        head[6] = u8::from(kind as u8 > 3);
        head[7] = kind as u8;
        head[8..10].copy_from_slice(&bytes.to_le_bytes());
        head[10..12].fill(0);
        if round % 3 > 0 {
            let payload = if round % 3 == 1 { 0 } else { random() as u32 % 33 * 4096 };
            head[12..16].copy_from_slice(&payload.to_le_bytes());
        }
        let crc = amita_types::crc32c(&head[4..]);
        head[..4].copy_from_slice(&crc.to_le_bytes());
        if let Ok(Some(prefix)) = codec::prefix(&head, Some(1))
            && codec::check(&head[..prefix.head_bytes]).is_ok()
        {
            decoded += u64::from(codec::decode(prefix, &head).is_ok());
        }
    }
    assert!(
        allocations::largest() <= 4096,
        "{} bytes at once",
        allocations::largest()
    );
    assert!(decoded > 100, "{decoded}: some of it made sense");
}

/// Strangers who say as much as they may without ever coming to the end of it: in one piece that is taken only whole, which is
/// the worst for whoever takes it in.
#[test]
fn a_connection_that_has_proven_nothing_is_cheap() {
    let authority = Authority::new(7);
    let handshakes = || StandIn::new(&authority, authority.certificate(Role::Node, "n1"), Protection::Auth, 1);
    let mut config = secured_by(1, handshakes());
    // Receive blocks are to be counted.
    config.pool = Pool::heap();
    let pool = Pool::new(PoolConfig::with_total(16 << 20)).expect("16 MiB");
    let mut driver = UringDriver::new(UringConfig::default(), pool).expect("io_uring");
    let mut fabric = Fabric::new(config);
    let any = "127.0.0.1:0".parse().expect("an address");
    let address = fabric.listen(&mut driver, any).expect("free");
    let mut completions = Vec::with_capacity(1024);
    const STRANGERS: usize = 16;
    let said = [&(MAX_PROOF_BYTES as u16).to_le_bytes()[..], &[7; MAX_PROOF_BYTES - 2]].concat();
    let mut streams = Vec::with_capacity(STRANGERS);
    let before = allocations::held();
    allocations::forget_most_held();
    let mut received = 0;
    let mut pass = |fabric: &mut Fabric, driver: &mut UringDriver| {
        driver.poll(Wait::No, &mut completions);
        for completion in completions.drain(..) {
            fabric.completion(driver, completion);
        }
        fabric.flush(driver);
        received = fabric.counters().bytes_received;
        received
    };
    for _ in 0..STRANGERS {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(&said).expect("sent");
        streams.push(stream);
    }
    while pass(&mut fabric, &mut driver) < (STRANGERS * said.len()) as u64 {}
    let most = usize::try_from(allocations::most_held() - before).expect("more than before");
    assert!(most > STRANGERS * MAX_PROOF_BYTES, "{most} bytes: all of it is kept");
    assert!(
        most <= STRANGERS * MAX_UNPROVEN_BYTES,
        "{} bytes for each",
        most / STRANGERS
    );
    assert_eq!(fabric.counters().strangers, 0, "all of them are there");
    // One byte more, and they are gone.
    for stream in &mut streams {
        stream.write_all(&[7]).expect("sent");
    }
    while fabric.counters().strangers < STRANGERS as u64 {
        pass(&mut fabric, &mut driver);
    }
    for mut stream in streams {
        stream.set_nonblocking(true).expect("set");
        let mut bytes = [0; 64];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Err(why) if why.kind() != ErrorKind::WouldBlock => break,
                Ok(some) => panic!("a stranger was told {:?}", &bytes[..some]),
                Err(_) => _ = pass(&mut fabric, &mut driver),
            }
        }
    }
}
