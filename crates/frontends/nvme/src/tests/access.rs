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
    let config = HostConfig {
        groups: vec![group],
        ..settings(NQN, secret, both)
    };
    Initiator::new(config, Box::new(|out| out.fill(7)))
}

fn initiator_for(subsystem: &str, secret: &str, both: bool) -> Initiator {
    Initiator::new(settings(subsystem, secret, both), Box::new(|out| out.fill(7)))
}

fn settings(subsystem: &str, secret: &str, both: bool) -> HostConfig {
    let (_, controller, _) = texts();
    HostConfig {
        hostnqn: HOST.into(),
        subnqn: subsystem.into(),
        secret: DhchapSecret::parse(secret).unwrap(),
        controller_secret: both.then(|| DhchapSecret::parse(&controller).unwrap()),
        hashes: Hash::ALL.to_vec(),
        groups: vec![Group::Null],
        transaction: 9,
    }
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

/// The core that a host's connection is on computes nothing for its authentication: it asks, and goes on with other connections.
#[test]
fn nothing_is_computed_where_io_is_done() {
    let mut world = world(true, false);
    let (secret, ..) = texts();
    world.service.computations = Some(std::collections::VecDeque::new());
    let (mut host, _) = connected(&mut world, 0, 0xffff);
    let mut initiator = initiator(&secret, false, Group::Ffdhe2048);
    for _ in 0..2 {
        let Step::Send(message) = initiator.step() else {
            panic!()
        };
        let mut command = auth_command(5, 2, message.len());
        command.0[39] = 0x01;
        host.command_with(&mut world, command, &message);
        assert_eq!(host.pdus(), [], "it waits for what is computed");
        // The answer is not there: it is not for the host to ask yet.
        assert_eq!(auth_receive(&mut host, &mut world, 4096).0, (0, 0x0c));
        let (front, tag, computation) = world.service.computations.as_mut().unwrap().pop_front().unwrap();
        assert!(front == host.id && computation.is_wanted());
        assert_eq!(computation.source().to_string(), "127.0.0.1");
        let result = std::thread::spawn(move || computation.run()).join().unwrap();
        let result = Some(result);
        world.service.events.push_back((front, Event::Computed { tag, result }));
        host.settle(&mut world);
        assert_eq!(host.one().status(), (0, 0));
        assert_eq!(initiator.step(), Step::Receive);
        initiator.received(&auth_receive(&mut host, &mut world, 4096).1);
    }
    assert_eq!(initiator.step(), Step::Done);
    assert_eq!(
        host.run(&mut world, Sqe::new(0x7f, 5, 4).dword(11, 0x1c), &[]).0,
        (0, 0)
    );
}

/// A connection has one computation under way, whatever it sends; when it goes, nobody wants that any more.
#[test]
fn a_connection_has_one_thing_computed_at_a_time() {
    let mut world = world(true, false);
    world.service.computations = Some(std::collections::VecDeque::new());
    for goes in [false, true] {
        let (mut host, _) = connected(&mut world, 0, 0xffff);
        for id in 10..20 {
            let message = Message::Negotiate(Negotiate::of(&Hash::ALL, &[Group::Ffdhe2048])).encode(id);
            let mut command = auth_command(5, id, message.len());
            command.0[39] = 0x01;
            host.command_with(&mut world, command, &message);
        }
        let mut asked = std::mem::take(world.service.computations.as_mut().unwrap());
        assert_eq!(asked.len(), 1);
        let (front, tag, computation) = asked.pop_front().unwrap();
        if goes {
            host.close(&mut world);
            assert!(!computation.is_wanted());
            continue;
        }
        // It is not computed: the connection ends.
        world
            .service
            .events
            .push_back((front, Event::Computed { tag, result: None }));
        host.settle(&mut world);
        assert!(matches!(&host.closed, Some(CloseReason::Refused(why)) if why.contains("try again")));
    }
}

/// Who offers only what is expensive gets nothing, by default.
#[test]
fn large_groups_are_not_computed_with() {
    for group in [Group::Ffdhe6144, Group::Ffdhe8192] {
        let mut world = world(true, false);
        world.port = Rc::new(Port::new(Config::default()));
        world.port.set_catalog(world.board.catalog());
        let (secret, ..) = texts();
        world.service.computations = Some(std::collections::VecDeque::new());
        let (mut host, _) = connected(&mut world, 0, 0xffff);
        let end = authenticate(&mut host, &mut world, &mut initiator(&secret, false, group));
        assert_eq!(end, Step::Failed(Reason::GroupNotUsable));
        assert!(world.service.computations.as_ref().unwrap().is_empty());
    }
    assert_eq!(
        Group::Ffdhe4096.up_to(),
        [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096]
    );
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

/// Whoever is there by an old key is not there any more when there is a new one, whatever it has shown.
#[test]
fn what_a_host_has_to_show_changes_and_its_sessions_end() {
    type Change = fn(&mut Subsystem);
    let (first, ..) = texts();
    // What was there, what is changed, and whether sessions end by it.
    let cases: [(bool, Change, bool, &str); 9] = [
        (
            true,
            |all| Arc::make_mut(&mut all.hosts[0]).dhchap = Some(Secret(texts().1)),
            true,
            "a new key",
        ),
        (
            true,
            |all| Arc::make_mut(&mut all.hosts[0]).dhchap = None,
            true,
            "none any more",
        ),
        (
            true,
            |all| Arc::make_mut(&mut all.hosts[0]).tls = Some(Secret(texts().2)),
            true,
            "TLS as well",
        ),
        (true, |all| all.tls_required = true, true, "TLS for all"),
        (true, |all| all.hosts.clear(), true, "removed"),
        (
            true,
            |all| (all.hosts.clear(), all.any_host = true).1,
            true,
            "removed, and anybody may come",
        ),
        (
            true,
            |all| Arc::make_mut(&mut all.hosts[0]).dhchap_controller = None,
            false,
            "the controllers' key",
        ),
        (
            false,
            |all| Arc::make_mut(&mut all.hosts[0]).dhchap = Some(Secret(texts().1)),
            true,
            "a first key",
        ),
        (false, |all| all.any_host = true, false, "others may come too"),
    ];
    for (dhchap, change, ends, what) in cases {
        let mut world = world(dhchap, false);
        let (mut admin, result) = connected(&mut world, 0, 0xffff);
        let (mut late, _) = connected(&mut world, 0, 0xffff);
        if dhchap {
            let end = authenticate(&mut admin, &mut world, &mut initiator(&first, false, Group::Null));
            assert_eq!(end, Step::Done);
        }
        admin.property_set(&mut world, 0x14, 0x0046_0001);
        let (mut io, _) = connected(&mut world, 1, result as u16);
        if dhchap {
            let end = authenticate(&mut io, &mut world, &mut initiator(&first, false, Group::Null));
            assert_eq!(end, Step::Done);
        }
        // Something else changes: nobody minds.
        world.change(&mut [&mut admin, &mut io, &mut late], |all| all.serial = "2".into());
        assert!(
            admin.closed.is_none() && io.closed.is_none() && late.closed.is_none(),
            "{what}"
        );
        world.change(&mut [&mut admin, &mut io, &mut late], change);
        for host in [&admin, &io, &late] {
            assert_eq!(
                matches!(host.closed, Some(CloseReason::Refused(_))),
                ends,
                "{what}: {:?}",
                host.closed
            );
        }
    }
    // What was taken back does not come in again, by a host that was half way when it was.
    let mut world = world(true, false);
    let (mut host, _) = connected(&mut world, 0, 0xffff);
    world.change(&mut [], |all| {
        Arc::make_mut(&mut all.hosts[0]).dhchap = Some(Secret(texts().1));
    });
    let end = authenticate_to_the_end(&mut host, &mut world, &mut initiator(&first, false, Group::Null));
    assert!(end != Some(Step::Done) || host.closed.is_some());
    host.close(&mut world);
    assert_eq!(world.board.controllers(), 0);
}

/// As [`authenticate`], of a connection that may be closed on the way.
fn authenticate_to_the_end(host: &mut Host, world: &mut World, initiator: &mut Initiator) -> Option<Step> {
    loop {
        match initiator.step() {
            Step::Send(message) => {
                let mut command = auth_command(5, 2, message.len());
                command.0[39] = 0x01;
                host.command_with(world, command, &message);
                host.closed.is_none().then(|| host.pdus())?;
            }
            Step::Receive => {
                host.command(world, auth_command(6, 3, 4096));
                let data = host.pdus().into_iter().find(|pdu| pdu.kind == kind::C2H_DATA)?;
                initiator.received(&data.data);
            }
            end => return Some(end),
        }
    }
}

/// A subsystem that takes TLS only refuses plain connections, whatever the host has to show, and says why to the log.
#[test]
fn a_subsystem_takes_tls_only() {
    let mut world = world(true, true);
    world.change(&mut [], |all| {
        all.tls_required = true;
        let host = Arc::make_mut(&mut all.hosts[0]);
        (host.tls, host.dhchap) = (None, None);
        all.any_host = true;
    });
    for host in [HOST, OTHER] {
        let mut plain = Host::greeted(&mut world, 0, 0, 1);
        plain.command_with(
            &mut world,
            connect_command(0, 32, 0),
            &connect_data(NQN, host, 1, 0xffff),
        );
        assert_eq!(plain.one().status(), (1, 0x84));
        assert!(
            matches!(&plain.closed, Some(CloseReason::Refused(why)) if why.contains("TLS only")),
            "{:?}",
            plain.closed
        );
    }
    assert_eq!(world.board.controllers(), 0);
}

/// The log says what to do where two hosts were given the same identifier.
#[test]
fn a_host_with_the_identifier_of_another_is_refused() {
    let mut world = world(false, false);
    world.change(&mut [], |all| all.any_host = true);
    let connect = |world: &mut World, host: &str, id: u8| {
        let mut queue = Host::greeted(world, 0, 0, 1);
        queue.command_with(world, connect_command(0, 32, 0), &connect_data(NQN, host, id, 0xffff));
        let status = queue.one().status();
        (queue, status)
    };
    let (_first, status) = connect(&mut world, HOST, 1);
    assert_eq!(status, (0, 0));
    let (second, status) = connect(&mut world, OTHER, 1);
    assert_eq!(status, (1, 0x82));
    assert!(
        matches!(&second.closed, Some(CloseReason::Refused(why)) if why.contains("/etc/nvme/hostid")),
        "{:?}",
        second.closed
    );
    assert_eq!(connect(&mut world, OTHER, 2).1, (0, 0));
}

/// Who has something to prove proves it to the discovery controller too, by whichever name it calls that; both ways, where it asks.
#[test]
fn a_host_proves_itself_for_discovery() {
    let mut world = world(true, false);
    let (secret, wrong, _) = texts();
    let unique = world.port.catalog().discovery_nqn.clone();
    for (name, both) in [(DISCOVERY, false), (unique.as_str(), true)] {
        for (secret, good) in [(&secret, true), (&wrong, false)] {
            let mut host = Host::greeted(&mut world, 0, 0, 1);
            host.command_with(
                &mut world,
                connect_command(0, 32, 0),
                &connect_data(name, HOST, 1, 0xffff),
            );
            let answer = host.one();
            assert_eq!((answer.status(), answer.result() & !0xffff), ((0, 0), ATR));
            let mut initiator = initiator_for(name, secret, both);
            let end = authenticate(&mut host, &mut world, &mut initiator);
            assert_eq!(end == Step::Done, good, "{end:?}");
        }
    }
    // Others have nothing to show, and are told what anybody is.
    let mut host = Host::greeted(&mut world, 0, 0, 1);
    host.command_with(
        &mut world,
        connect_command(0, 32, 0),
        &connect_data(DISCOVERY, OTHER, 1, 0xffff),
    );
    assert_eq!(host.one().result() & !0xffff, 0);
}

/// Whoever only claims to be the host has no controller, and no queue of one: however many come, the host gets its own.
#[test]
fn strangers_take_nobodys_place() {
    let mut world = world(true, false);
    let (secret, wrong, _) = texts();
    let mut strangers: Vec<Host> = (0..2 * crate::MAX_CONTROLLERS)
        .map(|_| connected(&mut world, 0, 0xffff).0)
        .collect();
    assert_eq!(world.board.controllers(), 0);
    let (mut host, result) = connected(&mut world, 0, 0xffff);
    let end = authenticate(&mut host, &mut world, &mut initiator(&secret, true, Group::Null));
    assert_eq!(end, Step::Done);
    host.property_set(&mut world, 0x14, 0x0046_0001);
    assert_eq!(world.board.controllers(), 1);

    let number = result as u16;
    let mut queues: Vec<Host> = (0..8).map(|_| connected(&mut world, 1, number).0).collect();
    let (mut io, _) = connected(&mut world, 1, number);
    let end = authenticate(&mut io, &mut world, &mut initiator(&secret, false, Group::Null));
    assert_eq!(end, Step::Done);
    assert_eq!(io.run(&mut world, read(5, 1, 0, 1), &[]).0, (0, 0));
    // That they fail, or go, is nothing to the host.
    for stranger in strangers.iter_mut().chain(&mut queues).step_by(2) {
        authenticate(stranger, &mut world, &mut initiator(&wrong, false, Group::Null));
        assert!(stranger.closed.is_some());
    }
    for stranger in strangers.into_iter().chain(queues) {
        stranger.close(&mut world);
    }
    assert_eq!(io.run(&mut world, read(5, 1, 0, 1), &[]).0, (0, 0));
    assert_eq!(world.board.controllers(), 1);
    host.close(&mut world);
    assert_eq!(world.board.controllers(), 0);
}

/// A queue that has proven itself, and whose controller is gone or whose number is taken, is closed: no command is left that
/// could tell it.
#[test]
fn who_has_proven_itself_too_late_is_closed() {
    let mut world = world(true, false);
    let (secret, ..) = texts();
    let (mut host, result) = connected(&mut world, 0, 0xffff);
    let prove = |world: &mut World, host: &mut Host| {
        let mut initiator = initiator(&secret, false, Group::Null);
        let Step::Send(negotiate) = initiator.step() else {
            panic!()
        };
        assert_eq!(auth_send(host, world, &negotiate), (0, 0));
        assert_eq!(initiator.step(), Step::Receive);
        initiator.received(&auth_receive(host, world, 4096).1);
        let Step::Send(reply) = initiator.step() else { panic!() };
        assert_eq!(auth_send(host, world, &reply), (0, 0));
        host.command(world, auth_command(6, 3, 4096));
    };
    prove(&mut world, &mut host);
    assert_eq!(host.closed, None);
    host.output.clear();
    host.property_set(&mut world, 0x14, 0x0046_0001);
    for queue in [2, 300] {
        let (mut io, _) = connected(&mut world, queue, result as u16);
        let taken = (queue == 2).then(|| connected(&mut world, queue, result as u16).0);
        if let Some(mut taken) = taken {
            prove(&mut world, &mut taken);
            assert_eq!(taken.closed, None);
            std::mem::forget(taken);
        }
        prove(&mut world, &mut io);
        assert!(
            matches!(&io.closed, Some(CloseReason::Refused(why)) if why.contains("no place")),
            "{:?}",
            io.closed
        );
    }
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
        Some(CloseReason::Refused(
            "the host has to use TLS: it has a key for that".into()
        ))
    );
    // What is where is seen without, too.
    let mut discovery = Host::greeted(&mut world, 0, 0, 1);
    let data = connect_data(DISCOVERY, HOST, 1, 0xffff);
    discovery.command_with(&mut world, connect_command(0, 32, 0), &data);
    assert_eq!(discovery.one().status(), (0, 0));
    assert!(discovery.front.is_stranger(), "it has proven nothing");
    let mut discovery = Secure::open(&mut world, &psk(HOST, DISCOVERY));
    assert!(discovery.host.front.is_stranger());
    assert_eq!(discovery.connect(&mut world, 0, &data).status(), (0, 0));
    assert!(!discovery.host.front.is_stranger());
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

/// A key opens a connection from when it was chosen until it is taken back, whatever has been said by then.
#[test]
fn a_key_of_tls_that_was_taken_back_opens_nothing() {
    let mut world = world(false, true);
    let next = || {
        Some(Secret(
            TlsKey::generate(Hash::Sha256, &mut |out: &mut [u8]| out.fill(9))
                .to_text()
                .to_string(),
        ))
    };
    let mut connected = Secure::open(&mut world, &psk(HOST, NQN));
    let answer = connected.connect(&mut world, 0, &connect_data(NQN, HOST, 1, 0xffff));
    assert_eq!(answer.status(), (0, 0));
    let mut silent = Secure::open(&mut world, &psk(HOST, NQN));
    world.change(&mut [&mut connected.host, &mut silent.host], |all| {
        Arc::make_mut(&mut all.hosts[0]).tls = next();
    });
    assert!(matches!(&connected.host.closed, Some(CloseReason::Refused(why)) if why.contains("changed")));
    let answer = silent.connect(&mut world, 0, &connect_data(NQN, HOST, 1, 0xffff));
    assert_eq!(answer.status(), (1, 0x84));
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
