//! Hosts that have to show who they are.

use super::*;
use crate::auth::{HostConfig, Initiator, Message, Negotiate, Reason, Step};
use crate::tls::{Dialect, Psk, TlsStream};
use crate::{Secret, auth};
use amita_keys::{DhchapSecret, Hash, TlsKey};
use auth::Group;

const ATR: u32 = 1 << 17;
const OTHER: &str = "nqn.2026-01.test:other";

fn texts() -> (String, String, String) {
    let fill = |value: u8| move |out: &mut [u8]| out.fill(value);
    (
        DhchapSecret::generate(Some(Hash::Sha256), HOST, &mut fill(1))
            .to_text()
            .to_string(),
        DhchapSecret::generate(None, NQN, &mut fill(2)).to_text().to_string(),
        TlsKey::generate(Hash::Sha256, &mut fill(3)).to_text().to_string(),
    )
}

/// A gateway whose host has to show these; the groups are small ones.
fn world(dhchap: bool, tls: bool) -> World {
    let config = Config {
        auth_groups: vec![Group::Null, Group::Ffdhe2048],
        ..Config::default()
    };
    let mut world = World::with(config);
    let (secret, controller, key) = texts();
    world.change(&mut [], |subsystem| {
        subsystem.hosts = vec![Arc::new(HostAccess {
            nqn: HOST.into(),
            dhchap: dhchap.then(|| Secret(secret)),
            dhchap_controller: dhchap.then(|| Secret(controller)),
            tls: tls.then(|| Secret(key)),
        })];
    });
    world
}

fn initiator(secret: &str, both: bool, group: Group) -> Initiator {
    let (_, controller, _) = texts();
    let config = HostConfig {
        hostnqn: HOST.into(),
        subnqn: NQN.into(),
        secret: DhchapSecret::parse(secret).unwrap(),
        controller_secret: both.then(|| DhchapSecret::parse(&controller).unwrap()),
        hashes: Hash::ALL.to_vec(),
        groups: vec![group],
        transaction: 9,
    };
    Initiator::new(config, Box::new(|out| out.fill(7)))
}

fn auth_command(kind: u8, id: u16, bytes: usize) -> Sqe {
    let mut command = Sqe::new(0x7f, id, u32::from(kind)).transport(bytes);
    command.0[41..44].copy_from_slice(&[1, 1, 0xe9]);
    command.dword(11, bytes as u32)
}

/// Messages go in a capsule, and the last one by R2T.
fn auth_send(host: &mut Host, world: &mut World, message: &[u8]) -> (u8, u8) {
    let mut command = auth_command(5, 2, message.len());
    command.0[39] = 0x01;
    host.run(world, command, message).0
}

fn auth_receive(host: &mut Host, world: &mut World, bytes: usize) -> ((u8, u8), Vec<u8>) {
    host.run(world, auth_command(6, 3, bytes), &[])
}

/// Goes through the authentication; whether the host is content.
fn authenticate(host: &mut Host, world: &mut World, initiator: &mut Initiator) -> Step {
    loop {
        match initiator.step() {
            Step::Send(message) => assert_eq!(auth_send(host, world, &message), (0, 0)),
            Step::Receive => {
                let (status, message) = auth_receive(host, world, 4096);
                assert_eq!(status, (0, 0));
                initiator.received(&message);
            }
            end => return end,
        }
    }
}

fn connected(world: &mut World, queue: u16, controller: u16) -> (Host, u32) {
    let mut host = Host::greeted(world, 0, 0, 1);
    host.command_with(
        world,
        connect_command(queue, 32, 0),
        &connect_data(NQN, HOST, 1, controller),
    );
    let answer = host.one();
    assert_eq!(answer.status(), (0, 0), "{answer:?}");
    (host, answer.result())
}

#[test]
fn a_host_with_a_secret_authenticates_each_queue() {
    let mut world = world(true, false);
    for (both, group) in [(false, Group::Null), (true, Group::Ffdhe2048)] {
        let (mut host, result) = connected(&mut world, 0, 0xffff);
        assert_eq!(result & !0xffff, ATR, "it is told so");
        // Nothing else is taken until then: Property Get, Property Set, Identify, an I/O command.
        for command in [
            Sqe::new(0x7f, 5, 4).dword(11, 0x1c),
            Sqe::new(0x7f, 5, 0).dword(11, 0x14).dword(12, 0x0046_0001),
            Sqe::new(6, 5, 0).dword(10, 1).transport(4096),
            read(5, 1, 0, 1),
        ] {
            assert_eq!(host.run(&mut world, command, &[]).0, (1, 0x91));
        }
        let (secret, ..) = texts();
        let end = authenticate(&mut host, &mut world, &mut initiator(&secret, both, group));
        assert_eq!(end, Step::Done);
        host.property_set(&mut world, 0x14, 0x0046_0001);

        let (mut io, result) = connected(&mut world, 1, result as u16);
        assert_eq!(result & !0xffff, ATR);
        assert_eq!(io.run(&mut world, read(5, 1, 0, 1), &[]).0, (1, 0x91));
        let end = authenticate(&mut io, &mut world, &mut initiator(&secret, both, group));
        assert_eq!(end, Step::Done);
        assert_eq!(io.run(&mut world, read(5, 1, 0, 1), &[]).0, (0, 0));
        // It may do it again, and is served meanwhile.
        let mut again = initiator(&secret, both, group);
        let Step::Send(negotiate) = again.step() else { panic!() };
        assert_eq!(auth_send(&mut io, &mut world, &negotiate), (0, 0));
        assert_eq!(io.run(&mut world, read(5, 1, 0, 1), &[]).0, (0, 0));
        assert_eq!(authenticate(&mut io, &mut world, &mut again), Step::Done);
        assert_eq!(io.run(&mut world, read(5, 1, 0, 1), &[]).0, (0, 0));
    }
}

#[test]
fn a_wrong_secret_ends_the_connection() {
    let mut world = world(true, false);
    let (_, wrong, _) = texts();
    for group in [Group::Null, Group::Ffdhe2048] {
        let (mut host, _) = connected(&mut world, 0, 0xffff);
        let end = authenticate(&mut host, &mut world, &mut initiator(&wrong, false, group));
        assert_eq!(end, Step::Failed(Reason::Failed));
        assert!(matches!(&host.closed, Some(CloseReason::Refused(why)) if why.contains("the secret does not match")));
    }
    // A host that finds the controller's secret wrong says so, and the connection ends.
    world.change(&mut [], |subsystem| {
        let host = Arc::make_mut(&mut subsystem.hosts[0]);
        host.dhchap_controller = host.dhchap.clone();
    });
    let (mut host, _) = connected(&mut world, 0, 0xffff);
    let (secret, ..) = texts();
    let end = authenticate(&mut host, &mut world, &mut initiator(&secret, true, Group::Null));
    assert_eq!(end, Step::Failed(Reason::Failed));
    assert!(matches!(host.closed, Some(CloseReason::Refused(_))));
}

#[test]
fn a_new_secret_counts_when_the_host_authenticates_itself_again() {
    let mut world = world(true, false);
    let (old, new, _) = texts();
    let (mut host, _) = connected(&mut world, 0, 0xffff);
    assert_eq!(
        authenticate(&mut host, &mut world, &mut initiator(&old, false, Group::Null)),
        Step::Done
    );
    let text = new.clone();
    world.change(&mut [&mut host], |subsystem| {
        Arc::make_mut(&mut subsystem.hosts[0]).dhchap = Some(Secret(text));
    });
    // It goes on being served, and shows the new one when it likes.
    let get = Sqe::new(0x7f, 5, 4).dword(11, 0x1c);
    assert_eq!(host.run(&mut world, get, &[]).0, (0, 0));
    assert_eq!(
        authenticate(&mut host, &mut world, &mut initiator(&new, false, Group::Null)),
        Step::Done
    );
    let end = authenticate(&mut host, &mut world, &mut initiator(&old, false, Group::Null));
    assert_eq!(end, Step::Failed(Reason::Failed));
    assert!(host.closed.is_some());
}

#[test]
fn a_host_that_does_not_authenticate_itself_is_not_waited_for() {
    let mut world = world(true, false);
    let (mut host, _) = connected(&mut world, 0, 0xffff);
    let deadline = host.front.deadline().unwrap();
    assert!(deadline <= Time(0).plus(world.port.config().handshake_timeout));
    world.now = deadline;
    host.tick(&mut world);
    assert_eq!(host.closed, Some(CloseReason::Timeout));
}

#[test]
fn authentication_commands_out_of_place() {
    let mut world = world(true, false);
    // Before Connect; on a queue that needs none.
    let mut host = Host::greeted(&mut world, 0, 0, 1);
    assert_eq!(auth_receive(&mut host, &mut world, 4096).0, (0, 0x0c));
    let mut free = super::World::new();
    let mut admin = Host::admin(&mut free);
    assert_eq!(auth_receive(&mut admin, &mut free, 4096).0, (0, 0x0c));
    assert_eq!(auth_send(&mut admin, &mut free, &[0; 72]), (0, 0x0c));

    let (mut host, _) = connected(&mut world, 0, 0xffff);
    // Nothing is to be said yet; fields that are wrong; room that is too small, or not described.
    assert_eq!(auth_receive(&mut host, &mut world, 4096).0, (0, 0x0c));
    let mut wrong = auth_command(6, 3, 4096);
    wrong.0[43] = 0xe8;
    assert_eq!(host.run(&mut world, wrong, &[]).0, (0, 0x02));
    assert_eq!(host.run(&mut world, auth_command(5, 3, 4097), &[]).0, (0, 0x02));
    let negotiate = Message::Negotiate(Negotiate::of(&[Hash::Sha256], &[Group::Null])).encode(1);
    assert_eq!(auth_send(&mut host, &mut world, &negotiate), (0, 0));
    assert_eq!(auth_receive(&mut host, &mut world, 47).0, (0, 0x02));
    let small = auth_command(6, 3, 4096).transport(100);
    assert_eq!(host.run(&mut world, Sqe(small.0), &[]).0, (0, 0x0f));
    let (status, message) = auth_receive(&mut host, &mut world, 48);
    assert_eq!((status, message.len()), ((0, 0), 48));
}

/// A host behind TLS.
struct Secure {
    host: Host,
    tls: TlsStream,
    inbox: Inbox,
}

impl Secure {
    fn open(world: &mut World, psk: &Psk) -> Secure {
        let mut secure = Secure {
            host: Host::open(world),
            tls: TlsStream::connect(psk).unwrap(),
            inbox: Inbox::new(),
        };
        secure.exchange(world);
        secure
    }

    /// Sends what the client has to say until nobody says anything; what came back in plain text is the host's output.
    fn exchange(&mut self, world: &mut World) {
        let mut plain = Vec::new();
        let mut out = Outbox::new();
        loop {
            self.tls.encrypt(&mut out, &world.pool).unwrap();
            let mut said = Vec::new();
            while let Some(segments) = out.next_send() {
                segments.iter().for_each(|segment| said.extend_from_slice(segment));
                out.sent(segments);
            }
            self.host.send(world, &said);
            let answered = std::mem::take(&mut self.host.output);
            if said.is_empty() && answered.is_empty() {
                break;
            }
            for chunk in answered.chunks(4096) {
                let mut buffer = self.inbox.start_receive(&world.pool, 64 << 10).unwrap();
                buffer[..chunk.len()].copy_from_slice(chunk);
                self.inbox.received(buffer, chunk.len());
                while let Ok(true) = self
                    .tls
                    .decrypt(&mut self.inbox, &mut out, &world.pool, 4096, &|_, _| None)
                {}
            }
            let len = self.tls.inbox.len();
            plain.extend_from_slice(&self.tls.inbox.take(len));
        }
        self.host.output = plain;
    }

    fn send(&mut self, world: &mut World, bytes: &[u8]) {
        self.tls.outbox.append(&world.pool, bytes);
        self.exchange(world);
    }

    fn command(&mut self, world: &mut World, command: Sqe, data: &[u8]) -> Pdu {
        let bytes = self.host.capsule(command, data);
        self.send(world, &bytes);
        let mut pdus = self.host.pdus();
        pdus.pop().expect("an answer")
    }

    fn connect(&mut self, world: &mut World, queue: u16, data: &[u8]) -> Pdu {
        self.send(world, &hello(0, 0, 1));
        assert_eq!(self.host.one().kind, kind::IC_RESPONSE);
        self.command(world, connect_command(queue, 32, 0), data)
    }
}

fn psk(host: &str, subsystem: &str) -> Psk {
    let key = TlsKey::parse(&texts().2).unwrap();
    Psk::derive(&key, 1, host, subsystem, Dialect::Standard).unwrap()
}

#[test]
fn a_host_reads_and_writes_through_tls() {
    let mut world = world(false, true);
    let mut admin = Secure::open(&mut world, &psk(HOST, NQN));
    let answer = admin.connect(&mut world, 0, &connect_data(NQN, HOST, 1, 0xffff));
    assert_eq!((answer.status(), answer.result() & !0xffff), ((0, 0), 0));
    let controller = answer.result() as u16;
    let enable = Sqe::new(0x7f, 0, 0).dword(11, 0x14).dword(12, 0x0046_0001);
    assert_eq!(admin.command(&mut world, enable, &[]).status(), (0, 0));

    let mut io = Secure::open(&mut world, &psk(HOST, NQN));
    let answer = io.connect(&mut world, 1, &connect_data(NQN, HOST, 1, controller));
    assert_eq!(answer.status(), (0, 0));
    let data = pattern(5, 16 << 10);
    let command = write(1, 1, 3, 4).capsule(data.len());
    assert_eq!(io.command(&mut world, command, &data).status(), (0, 0));
    let bytes = io.host.capsule(read(2, 1, 3, 4), &[]);
    io.send(&mut world, &bytes);
    let pdus = io.host.pdus();
    let read: Vec<u8> = pdus.iter().flat_map(|pdu| pdu.data.clone()).collect();
    assert!(read == data);

    // Silence gives memory back, once, and everything goes on.
    assert_eq!(
        io.host.front.deadline(),
        Some(world.now.plus(std::time::Duration::from_secs(1)))
    );
    world.now = io.host.front.deadline().unwrap();
    io.host.tick(&mut world);
    assert_eq!(io.host.front.deadline(), None);
    assert_eq!(io.command(&mut world, super::read(3, 1, 0, 1), &[]).status(), (0, 0));
}

#[test]
fn a_host_with_a_key_must_use_it() {
    let mut world = world(false, true);
    let mut plain = Host::greeted(&mut world, 0, 0, 1);
    plain.command_with(
        &mut world,
        connect_command(0, 32, 0),
        &connect_data(NQN, HOST, 1, 0xffff),
    );
    let answer = plain.one();
    assert_eq!((answer.status(), answer.result()), ((1, 0x84), 1 << 16 | 512));
    assert_eq!(
        plain.closed,
        Some(CloseReason::Refused("the host has to use TLS".into()))
    );
    // What is where is seen without, too.
    let mut discovery = Host::greeted(&mut world, 0, 0, 1);
    let data = connect_data(DISCOVERY, HOST, 1, 0xffff);
    discovery.command_with(&mut world, connect_command(0, 32, 0), &data);
    assert_eq!(discovery.one().status(), (0, 0));
    let mut discovery = Secure::open(&mut world, &psk(HOST, DISCOVERY));
    assert_eq!(discovery.connect(&mut world, 0, &data).status(), (0, 0));
}

#[test]
fn a_host_is_who_it_has_shown_to_be() {
    let mut world = world(false, true);
    let (_, _, key) = texts();
    world.change(&mut [], |subsystem| {
        let mut other = HostAccess::clone(&subsystem.hosts[0]);
        other.nqn = OTHER.into();
        other.tls = Some(Secret(key));
        subsystem.hosts.push(Arc::new(other));
    });
    // As another host, or to what it was not here for.
    for (host, subsystem, data) in [
        (HOST, NQN, connect_data(NQN, OTHER, 1, 0xffff)),
        (HOST, DISCOVERY, connect_data(NQN, HOST, 1, 0xffff)),
        (HOST, NQN, connect_data(DISCOVERY, HOST, 1, 0xffff)),
    ] {
        let mut secure = Secure::open(&mut world, &psk(host, subsystem));
        let answer = secure.connect(&mut world, 0, &data);
        assert_eq!(answer.status(), (1, 0x84));
        assert!(matches!(&secure.host.closed, Some(CloseReason::Refused(why)) if why.contains("another name")));
    }
}

#[test]
fn a_stranger_gets_an_alert() {
    let mut world = world(false, true);
    for (host, alert) in [(psk(OTHER, NQN), 115), (psk(HOST, "nqn.2026-01.test:b"), 115)] {
        let mut secure = Host::open(&mut world);
        let mut out = Outbox::new();
        let mut client = TlsStream::connect(&host).unwrap();
        client.encrypt(&mut out, &world.pool).unwrap();
        let segments = out.next_send().unwrap();
        let said: Vec<u8> = segments.iter().flat_map(|segment| segment.to_vec()).collect();
        secure.send(&mut world, &said);
        assert_eq!(secure.output, [0x15, 3, 3, 0, 2, 2, alert]);
        assert!(matches!(secure.closed, Some(CloseReason::Tls(_))));
    }
    // Not everything that begins like TLS is.
    let mut host = Host::open(&mut world);
    host.send(&mut world, &[0x16; 200]);
    assert_eq!(host.output, [0x15, 3, 3, 0, 2, 2, 50]);
    assert!(matches!(host.closed, Some(CloseReason::Tls(_))));
}

#[test]
fn both_go_together() {
    let mut world = world(true, true);
    let mut secure = Secure::open(&mut world, &psk(HOST, NQN));
    let answer = secure.connect(&mut world, 0, &connect_data(NQN, HOST, 1, 0xffff));
    assert_eq!((answer.status(), answer.result() & !0xffff), ((0, 0), ATR));
    let get = Sqe::new(0x7f, 5, 4).dword(11, 0x1c);
    assert_eq!(secure.command(&mut world, get, &[]).status(), (1, 0x91));
}
