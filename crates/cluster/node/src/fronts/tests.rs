//! What sessions hold of memory, and how many of strangers there are, over real sockets.

use super::*;
use amita_frontend::{HostKey, reservation};
use amita_reactor::driver::Wait;
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{PoolConfig, Slice};
use amita_types::io::Op;
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Instant;

mod flood;
mod losses;
mod memory;
mod places;

const SESSIONS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes whatever comes, and says that it was there. A stranger takes nothing, and is one until the flag is set.
struct Sink {
    known: Rc<Cell<bool>>,
}

impl Front for Sink {
    fn received(
        &mut self,
        _: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        _: &mut dyn StorageService,
    ) -> Flow {
        inbox.skip(inbox.len());
        outbox.append(pool, b"!");
        Flow::Go
    }

    fn event(&mut self, _: Time, _: Event, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn tick(&mut self, _: Time, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn wants_input(&self) -> bool {
        self.known.get()
    }

    fn is_stranger(&self) -> bool {
        !self.known.get()
    }

    fn receive_bytes(&self) -> usize {
        256 << 10
    }

    fn peer_patience(&self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }

    fn client(&self) -> Option<Arc<str>> {
        self.known.get().then(|| "shop".into())
    }

    fn end_pass(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn closed(&mut self, _: &mut dyn StorageService) {}
}

/// How many blocks of that size are free.
fn free(pool: &Pool, bytes: usize) -> usize {
    let taken: Vec<_> = std::iter::from_fn(|| pool.take(bytes)).collect();
    taken.len()
}

struct Rig {
    driver: UringDriver,
    fronts: Fronts,
    pool: Pool,
    address: SocketAddr,
}

impl Rig {
    fn new() -> Rig {
        Rig::of(Rc::new(Cell::new(true)))
    }

    /// Of sessions that are strangers until this is set.
    fn of(known: Rc<Cell<bool>>) -> Rig {
        let classes = vec![(4 << 10, 8), (64 << 10, 2), (256 << 10, 1)];
        let hosts = vec![(4 << 10, 4 * SESSIONS), (64 << 10, SESSIONS), (256 << 10, SESSIONS)];
        let config = PoolConfig {
            classes,
            hosts,
            huge_pages: false,
        };
        let pool = Pool::new(config).unwrap();
        let mut driver = UringDriver::new(UringConfig::default(), pool.clone()).unwrap();
        let mut fronts = Fronts::default();
        fronts.hold_apart(pool.hosts());
        let make: MakeFront = Box::new(move |_, _, _, _| Box::new(Sink { known: known.clone() }));
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let (_, address) = fronts.listen(&mut driver, local, make).unwrap();
        Rig {
            driver,
            fronts,
            pool,
            address,
        }
    }

    fn pass(&mut self) {
        let mut completions = Vec::new();
        self.driver.poll(Wait::No, &mut completions);
        for completion in completions {
            self.fronts.completion(&mut self.driver, completion);
        }
        self.fronts.tick(&mut self.driver);
        self.fronts.end_pass(&mut self.driver);
        self.fronts.flush(&mut self.driver);
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&Rig) -> bool) {
        let by = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < by, "never: {what}");
            self.pass();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn sessions_that_are_quiet_hold_little_and_only_of_what_is_for_hosts() {
    let mut rig = Rig::new();
    let mut clients: Vec<TcpStream> = (0..SESSIONS)
        .map(|_| TcpStream::connect(rig.address).unwrap())
        .collect();
    rig.until("all are in", |rig| rig.fronts.sessions() == SESSIONS);
    let hosts = rig.pool.hosts();
    for round in 0..2 {
        for client in &mut clients {
            client.set_nonblocking(true).unwrap();
        }
        // What they send at once makes their blocks grow.
        rig.until("the largest blocks are in use", |_| {
            for client in &mut clients {
                let _ = client.write(&[7; 64 << 10]);
            }
            free(&hosts, 256 << 10) < SESSIONS
        });
        let all = (free(&rig.pool, 4 << 10), 8 + 2 + 1);
        assert_eq!(all.0, all.1, "of the others' memory nothing is in use");
        rig.until("what they held is given back", |_| {
            free(&hosts, 256 << 10) == SESSIONS && free(&hosts, 64 << 10) == 2 * SESSIONS
        });
        // Those of 64 KiB serve for small ones too.
        let small = free(&hosts, 4 << 10) - SESSIONS;
        assert!(small >= 3 * SESSIONS, "round {round}: {small} small blocks are free");
        assert_eq!(rig.fronts.sessions(), SESSIONS, "nobody was cut off");
    }
}

fn source(number: u8) -> Source {
    Source::Address([192, 0, 2, number].into())
}

/// Adds one, as it is accepted; the session that made room, or `Err` where it is closed.
fn come(strangers: &mut Strangers, from: u8, id: u64) -> Result<Option<u64>, ()> {
    let room = strangers.admit(source(from)).ok_or(())?;
    if let Some(oldest) = room {
        let whose = strangers.of.iter().find(|(_, ids)| ids.contains(&oldest));
        let whose = *whose.expect("a stranger").0;
        strangers.remove(whose, oldest);
    }
    strangers.add(source(from), id);
    Ok(room)
}

#[test]
fn strangers_of_one_address_are_few_and_make_room_for_others() {
    let mut strangers = Strangers::default();
    let mut id = 0;
    let mut next = || {
        id += 1;
        id
    };
    for from in 1..=4 {
        for _ in 0..MAX_STRANGERS_OF_SOURCE {
            assert_eq!(come(&mut strangers, from, next()), Ok(None));
        }
        assert_eq!(
            come(&mut strangers, from, next()),
            Err(()),
            "address {from} has its share"
        );
    }
    assert_eq!(strangers.count, MAX_STRANGERS);
    // From elsewhere some more come all the same, and one of those that have most is closed for each, the oldest.
    for _ in 0..100 {
        let room = come(&mut strangers, 9, next()).unwrap();
        assert!(room.is_some());
        assert_eq!(strangers.count, MAX_STRANGERS);
    }
    assert_eq!(strangers.of[&source(9)].len(), 100);
    // Who has shown itself counts no more.
    let all: Vec<(Source, u64)> = strangers
        .of
        .iter()
        .flat_map(|(source, ids)| ids.iter().map(|id| (*source, *id)))
        .collect();
    for (source, id) in all {
        strangers.remove(source, id);
    }
    assert!(strangers.count == 0 && strangers.of.is_empty());
}

#[test]
fn strangers_are_let_in_up_to_a_number() {
    let known = Rc::new(Cell::new(false));
    let mut rig = Rig::of(known.clone());
    let connect = |rig: &Rig| TcpStream::connect(rig.address).unwrap();
    let _all: Vec<TcpStream> = (0..MAX_STRANGERS_OF_SOURCE).map(|_| connect(&rig)).collect();
    rig.until("all are in", |rig| rig.fronts.sessions() == MAX_STRANGERS_OF_SOURCE);
    let mut late = connect(&rig);
    rig.until("one more is closed", |rig| rig.fronts.refused.is_some());
    late.set_nonblocking(false).unwrap();
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
    let said = rig.fronts.take_refused(Time(0)).unwrap();
    assert!(said.contains("127.0.0.1") && said.contains("too many"), "{said}");
    assert_eq!(rig.fronts.sessions(), MAX_STRANGERS_OF_SOURCE, "nobody made room");
    // Who has shown who it is counts no more.
    known.set(true);
    for id in rig.fronts.sessions.keys().copied().collect::<Vec<_>>() {
        rig.fronts.mark(id);
    }
    rig.pass();
    assert_eq!(rig.fronts.strangers.count, 0);
    known.set(false);
    let _one = connect(&rig);
    rig.until("there is room", |rig| {
        rig.fronts.sessions() == MAX_STRANGERS_OF_SOURCE + 1
    });
    assert_eq!(rig.fronts.strangers.count, 1);
}

#[test]
fn strangers_at_a_unix_socket_are_counted_by_their_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nbd");
    let known = Rc::new(Cell::new(false));
    let mut rig = Rig::of(known.clone());
    let make: MakeLocalFront = Box::new(move |_, _, _, _| Box::new(Sink { known: known.clone() }));
    let listener = UnixListener::bind(&path).unwrap();
    rig.fronts.listen_local(&mut rig.driver, listener, make).unwrap();
    let connect = || UnixStream::connect(&path).unwrap();
    let _all: Vec<UnixStream> = (0..MAX_STRANGERS_OF_SOURCE).map(|_| connect()).collect();
    rig.until("all are in", |rig| rig.fronts.sessions() == MAX_STRANGERS_OF_SOURCE);
    let mut late = connect();
    rig.until("one more is closed", |rig| rig.fronts.refused.is_some());
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
    let said = rig.fronts.take_refused(Time(0)).unwrap();
    let whose = format!(
        "(user {}, process {})",
        rustix::process::getuid().as_raw(),
        std::process::id()
    );
    assert!(said.contains(&whose) && said.contains("too many"), "{said}");
    // Whoever comes by the network is another source.
    let _remote = TcpStream::connect(rig.address).unwrap();
    rig.until("there is room", |rig| {
        rig.fronts.sessions() == MAX_STRANGERS_OF_SOURCE + 1
    });
}

/// What a host that has gone has asked for is not begun any more: it may have asked for it again by another path, and what it has asked for since is
/// not to be undone.
#[test]
fn a_host_takes_with_it_what_it_has_asked_for() {
    let mut rig = Rig::new();
    let sink = || {
        let known = Rc::new(Cell::new(true));
        Box::new(Sink { known })
    };
    let [gone, stays] = [(); 2].map(|()| rig.fronts.attach(|_| sink()));
    for front in [gone, stays] {
        let requests = &mut rig.fronts.requests;
        requests.identify(front, HostKey(u128::from(front.0)));
        requests.submit(
            front,
            1,
            VolumeId(1).into(),
            Op::Clear { offset: 0, length: 0 },
            Slice::default(),
        );
        requests.reserve(front, 2, VolumeId(1), HostKey(1), reservation::Command::Unlock);
        requests.list(front, 3, &Who::Program);
    }
    rig.fronts.detach(&mut rig.driver, gone);
    assert_eq!(rig.fronts.take_gone(), [gone]);
    let left = |rig: &Rig, meant: FrontId| {
        let of = |request: &&FrontRequest| request.front_of_host() == Some(meant);
        rig.fronts.requests.queue.iter().filter(of).count()
    };
    assert_eq!((left(&rig, gone), left(&rig, stays)), (0, 2));
    assert_eq!(rig.fronts.requests.queue.len(), 4, "to be told of volumes does no harm");
    assert_eq!(rig.fronts.drop_hosts(&mut rig.driver), 1);
    assert_eq!(left(&rig, stays), 0);
}

/// Of NBD: it asks for that again by the connection that it makes next, and goes on.
#[test]
fn a_host_that_has_not_said_whose_its_io_is_takes_with_it_what_it_has_asked_for() {
    let mut rig = Rig::new();
    let [host, stranger] = [true, false].map(|known| {
        let known = Rc::new(Cell::new(known));
        rig.fronts.attach(|_| Box::new(Sink { known }))
    });
    let clear = Op::Clear { offset: 0, length: 0 };
    let requests = &mut rig.fronts.requests;
    requests.submit(host, 1, VolumeId(1).into(), clear, Slice::default());
    rig.fronts.detach(&mut rig.driver, stranger);
    assert!(rig.fronts.take_gone().is_empty(), "nothing of it waits");
    rig.fronts.detach(&mut rig.driver, host);
    assert_eq!(rig.fronts.take_gone(), [host]);
    assert!(rig.fronts.requests.queue.is_empty());
    assert_eq!(rig.fronts.ended(), 0, "it held no lock");
}

#[test]
fn refusals_are_told_now_and_then() {
    let mut fronts = Fronts::default();
    let peer = Peer::Remote("192.0.2.1:1234".parse().unwrap());
    assert_eq!(fronts.take_refused(Time(0)), None);
    for _ in 0..1000 {
        fronts.refuse(peer, "it may not");
    }
    let said = fronts.take_refused(Time(1)).unwrap();
    assert!(
        said.contains("192.0.2.1") && said.contains("it may not") && said.contains("999"),
        "{said}"
    );
    fronts.refuse(peer, "it may not");
    assert_eq!(fronts.take_refused(Time(2)), None);
    assert!(fronts.take_refused(Time(2).plus(REFUSALS_PAUSE)).is_some());
}

#[test]
fn a_host_whose_machine_vanishes_while_it_is_told_something_is_let_go() {
    let mut rig = Rig::new();
    let hosts = [(); 2].map(|()| TcpStream::connect(rig.address).unwrap());
    for mut host in &hosts {
        host.write_all(b"hello").unwrap();
        let mut answer = [0];
        rig.until("it is answered", |_| {
            host.set_nonblocking(true).unwrap();
            host.read(&mut answer).is_ok()
        });
    }
    assert_eq!(rig.fronts.sessions(), 2);
    amita_testkit::loopback::vanish(&hosts[0]).unwrap();
    (&hosts[0]).write_all(b"and then").unwrap();
    rig.until("it is let go", |rig| rig.fronts.sessions() == 1);
    // The other one is quiet, and there.
    (&hosts[1]).write_all(b"hello").unwrap();
    rig.until("the other is answered", |_| (&hosts[1]).read(&mut [0]).is_ok());
}

#[test]
fn one_client_leaves_room_for_others() {
    const MOST: usize = 3;
    let mut rig = Rig::new();
    rig.fronts.most_of_client = MOST;
    let mut held: Vec<TcpStream> = (0..MOST).map(|_| TcpStream::connect(rig.address).unwrap()).collect();
    rig.until("they are taken", |rig| rig.fronts.sessions() == MOST);
    let mut more = TcpStream::connect(rig.address).unwrap();
    more.set_nonblocking(true).unwrap();
    rig.until("it is turned away", |_| matches!(more.read(&mut [0]), Ok(0)));
    assert_eq!(rig.fronts.sessions(), MOST);
    // Who goes makes room.
    held.pop();
    rig.until("one has gone", |rig| rig.fronts.sessions() < MOST);
    let mut next = TcpStream::connect(rig.address).unwrap();
    next.set_nonblocking(true).unwrap();
    next.write_all(b"hello").unwrap();
    rig.until("it is served", |_| matches!(next.read(&mut [0]), Ok(1)));
}
