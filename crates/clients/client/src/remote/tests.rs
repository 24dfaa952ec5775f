//! The volumes of a program through a server of volumes in memory, over sockets; with servers that go away.

use super::*;
use crate::payload::Done;
use crate::{IoError, Local, OpenError, Volume};
use amita_frontend::memory::{Server, Volumes};
use amita_identity::{Authority, Name};
use amita_nbd::memory::Nbd;
use amita_nbd::{TlsAcceptor, TlsMode};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

fn serve(volumes: &Volumes, at: &str) -> Server {
    let nbd = Nbd::from(amita_nbd::Config::default());
    Server::tcp(at.parse().unwrap(), nbd, volumes.clone(), Pool::heap()).unwrap()
}

fn volumes() -> Volumes {
    let volumes = Volumes::new();
    volumes.add("disk", 16 * MIB, 4 << 20, false);
    volumes
}

fn config(nodes: &[SocketAddr]) -> Config {
    let mut config = Config::new(Vec::new());
    config.nodes = nodes.iter().map(SocketAddr::to_string).collect();
    config.buffer_bytes = 64 << 20;
    config.node_patience = Duration::from_secs(30);
    config
}

fn write(local: &mut Local, volume: &Volume, offset: u64, fill: u8, bytes: usize) {
    let mut buffer = local.buffer(bytes).expect("memory");
    buffer.fill(fill);
    local.write(volume, offset, buffer.freeze(), offset).expect("it begins");
}

fn settle(local: &mut Local) -> Vec<Done> {
    let (mut done, until) = (Vec::new(), Instant::now() + PATIENCE);
    while local.under_way() > 0 {
        assert!(Instant::now() < until, "{} requests do not end", local.under_way());
        local.wait(Duration::from_millis(100), &mut done);
    }
    done
}

fn read(local: &mut Local, volume: &Volume, offset: u64, bytes: u32) -> Vec<u8> {
    local.read(volume, offset, bytes, 7).expect("it begins");
    let done = settle(local);
    assert_eq!(done[0].result, Ok(()));
    done[0].payload.to_vec()
}

#[test]
fn a_volume_is_used_through_a_node() {
    let server = serve(&volumes(), "127.0.0.1:0");
    let mut local = Local::connect(&config(&[server.address().unwrap()])).unwrap();
    let unknown = local.open("nothing").unwrap_err();
    assert!(
        matches!(
            unknown,
            Error::Open {
                why: OpenError::NotFound,
                ..
            }
        ),
        "{unknown}"
    );
    let volume = local.open("disk").unwrap();
    assert_eq!(volume.size_bytes(), 16 * MIB);
    // Longer than is under way at one time, and not of whole blocks.
    for at in 0..12 {
        write(&mut local, &volume, at * MIB + 5, at as u8 + 1, 1 << 20);
        if at % 4 == 3 {
            assert!(settle(&mut local).iter().all(|done| done.result.is_ok()));
        }
    }
    for at in 0..12 {
        assert!(
            read(&mut local, &volume, at * MIB + 5, 1 << 20)
                .iter()
                .all(|byte| *byte == at as u8 + 1)
        );
    }
    local.discard(&volume, 0, 4 * MIB, 1).unwrap();
    local.write_zeroes(&volume, 5 * MIB + 1, MIB, 2).unwrap();
    local.flush(&volume, 3).unwrap();
    assert!(settle(&mut local).iter().all(|done| done.result.is_ok()));
    assert!(read(&mut local, &volume, 0, 1 << 20).iter().all(|byte| *byte == 0));
    assert!(
        read(&mut local, &volume, 5 * MIB + 1, 1 << 20)
            .iter()
            .all(|byte| *byte == 0)
    );
    assert_eq!(read(&mut local, &volume, 6 * MIB + 1, 1), [6]);
    local.close_volume(&volume).unwrap();
    assert!(local.read(&volume, 0, 1, 1).is_err());
    local.close();
}

/// What was begun ends, also what is sent part by part, after the volume was closed.
#[test]
fn a_volume_is_closed_under_a_long_discard() {
    let volumes = Volumes::new();
    volumes.add("large", 64 << 30, 4 << 20, false);
    let server = serve(&volumes, "127.0.0.1:0");
    let mut local = Local::connect(&config(&[server.address().unwrap()])).unwrap();
    let volume = local.open("large").unwrap();
    for tag in 0..3 {
        local.discard(&volume, 0, 64 << 30, tag).unwrap();
    }
    local.close_volume(&volume).unwrap();
    let done = settle(&mut local);
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|done| done.result.is_ok()));
    // It is used again, by another connection.
    let volume = local.open("large").unwrap();
    write(&mut local, &volume, 0, 1, 4096);
    assert!(settle(&mut local)[0].result.is_ok());
    local.close();
}

/// A core that is woken from elsewhere, and used by several threads.
#[test]
fn queues_share_a_core_that_uses_nodes() {
    let server = serve(&volumes(), "127.0.0.1:0");
    let client = crate::Client::connect(&config(&[server.address().unwrap()])).unwrap();
    let volume = client.open("disk").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (client, volume) = (&client, &volume);
            scope.spawn(move || {
                let mut queue = client.queue(4).unwrap();
                for round in 0..50 {
                    let offset = (thread * 50 + round) * 4096;
                    let mut buffer = queue.buffer(4096).expect("memory");
                    buffer.fill(thread as u8 + 1);
                    queue.write(volume, offset, buffer.freeze(), round).unwrap();
                    let mut done = Vec::new();
                    while done.is_empty() {
                        queue.wait(Duration::from_secs(1), &mut done);
                    }
                    assert_eq!((done[0].tag, done[0].result), (round, Ok(())));
                }
            });
        }
    });
    client.close();
}

/// A cluster's authority, and the identities that it makes.
struct Ca {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Ca {
    fn new(cluster: u128) -> Ca {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(
            &folder.path().join("ca"),
            amita_types::ClusterId(cluster),
            Clock::system(),
        )
        .unwrap();
        Ca { folder, authority }
    }

    fn identity(&self, role: Role, name: &str) -> std::path::PathBuf {
        let full = Name::new(self.authority.cluster(), role, name).unwrap();
        let folder = self.folder.path().join(format!("{role}-{name}"));
        self.authority.make_identity(&folder, &full).unwrap();
        folder
    }

    /// A server of NBD that shows this identity, to whoever asks.
    fn serve(&self, role: Role, name: &str) -> Server {
        let live = Live::open(&self.identity(role, name), Clock::system()).unwrap();
        let tls = TlsAcceptor::of(TlsMode::Require, live.open_server_config(&[Role::Client]));
        let config = amita_nbd::Config {
            tls: Some(tls),
            cluster: Some(self.authority.cluster()),
            ..amita_nbd::Config::default()
        };
        let at = "127.0.0.1:0".parse().unwrap();
        Server::tcp(at, Nbd::from(config), volumes(), Pool::heap()).unwrap()
    }
}

/// Only nodes and gateways of its own cluster are told which volume a program wants.
#[test]
fn who_is_no_node_of_the_cluster_is_not_believed() {
    let (ours, others) = (Ca::new(1), Ca::new(2));
    let mine = ours.identity(Role::Client, "mine");
    let connect = |server: &Server| {
        let mut settings = config(&[server.address().unwrap()]);
        settings.identity = Some(mine.clone());
        settings.open_patience = Duration::from_millis(500);
        Local::connect(&settings).unwrap().open("disk").map(drop)
    };
    for role in [Role::Node, Role::Gateway] {
        connect(&ours.serve(role, "right")).unwrap();
    }
    for server in [
        ours.serve(Role::Client, "impostor"),
        ours.serve(Role::Operator, "impostor"),
        others.serve(Role::Node, "foreign"),
    ] {
        let why = connect(&server).unwrap_err().to_string();
        assert!(why.contains("ertificate"), "{why}");
    }
    // Nor who does not speak TLS.
    let plain = serve(&volumes(), "127.0.0.1:0");
    let why = connect(&plain).unwrap_err().to_string();
    assert!(why.contains("TLS"), "{why}");
}

/// The nodes stand in a file of the identity, where no settings name them.
#[test]
fn nodes_are_named_by_the_identity() {
    let ours = Ca::new(1);
    let mine = ours.identity(Role::Client, "mine");
    let server = ours.serve(Role::Node, "n1");
    let mut settings = config(&[]);
    settings.identity = Some(mine.clone());
    let why = |settings: &Config| match Local::connect(settings) {
        Err(Error::Setting { setting: "nodes", why }) => why,
        other => panic!("{:?}", other.err()),
    };
    assert!(why(&settings).contains("none is named"));
    let file = mine.join("nodes");
    std::fs::write(&file, [0xff, 0xfe, b'\n']).unwrap();
    assert!(why(&settings).contains("readable"), "{}", why(&settings));
    std::fs::write(&file, "# by hand\n\n").unwrap();
    assert!(why(&settings).contains("none is named"));
    std::fs::write(&file, format!("# by hand\n {} \n", server.address().unwrap())).unwrap();
    Local::connect(&settings).unwrap().open("disk").unwrap();
}

/// What was not answered is sent again to the next node; what was answered is there.
#[test]
fn a_node_that_goes_is_replaced_by_another() {
    let volumes = volumes();
    let first = serve(&volumes, "127.0.0.1:0");
    let second = serve(&volumes, "127.0.0.1:0");
    let nodes = [first.address().unwrap(), second.address().unwrap()];
    let mut local = Local::connect(&config(&nodes)).unwrap();
    let volume = local.open("disk").unwrap();
    write(&mut local, &volume, 0, 1, 4096);
    settle(&mut local);
    // Whichever serves it: both go, one after the other, and one comes back.
    drop(first);
    write(&mut local, &volume, 4096, 2, 4096);
    assert!(settle(&mut local).iter().all(|done| done.result.is_ok()));
    drop(second);
    write(&mut local, &volume, 8192, 3, 4096);
    let mut done = Vec::new();
    local.wait(Duration::from_millis(300), &mut done);
    assert!(done.is_empty(), "nobody serves it");
    let _again = serve(&volumes, &nodes[1].to_string());
    assert!(settle(&mut local).iter().all(|done| done.result.is_ok()));
    for block in 0..3 {
        assert_eq!(read(&mut local, &volume, block * 4096, 1), [block as u8 + 1]);
    }
}

/// A node that opens every volume, and closes then, or says nothing any more: how often it did.
fn opener(volume: &str, closes: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (asked, description) = (count.clone(), volume.to_owned());
    let reply = |kind: u32, data: &[u8]| {
        let numbers = [7, kind, data.len() as u32].map(u32::to_be_bytes).concat();
        [&0x3_e889_0455_65a9_u64.to_be_bytes()[..], &numbers, data].concat()
    };
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The end of the greeting; the export, its description, and that it is open.
            let greeting = [b"NBDMAGIC".as_slice(), b"IHAVEOPT", &[0, 3]].concat();
            let export = [&[0, 0][..], &(16 * MIB).to_be_bytes(), &[0, 1]].concat();
            let said = [&[0, 2][..], description.as_bytes()].concat();
            let open = [reply(3, &export), reply(3, &said), reply(1, &[])].concat();
            let mut heard = [0; 4 + 16];
            let works = stream.write_all(&greeting).and_then(|()| stream.read_exact(&mut heard));
            if works.and_then(|()| stream.write_all(&open)).is_ok() {
                asked.fetch_add(1, Ordering::Relaxed);
            }
            if !closes {
                silent.push(stream);
            }
        }
    });
    (address, count)
}

/// A node that opens a volume, and is of no use then, is as one that does not open it: another one is asked, with pauses, and not for ever.
#[test]
fn a_node_that_opens_and_serves_nothing_is_left() {
    let server = serve(&volumes(), "127.0.0.1:0");
    let mut local = Local::connect(&config(&[server.address().unwrap()])).unwrap();
    let volume = local.open("disk").unwrap();
    let description = "volume 1, in chunks of 4194304 bytes";
    assert_eq!(volume.chunk_bytes(), 4 << 20);
    local.close();
    drop(server);

    for closes in [true, false] {
        let (alone, count) = opener(description, closes);
        let mut settings = config(&[alone]);
        settings.node_patience = Duration::from_secs(3);
        let mut local = Local::connect(&settings).unwrap();
        let volume = local.open("disk").unwrap();
        local.read(&volume, 0, 4096, 1).unwrap();
        assert_eq!(settle(&mut local)[0].result, Err(IoError::Lost));
        let asked = count.load(Ordering::Relaxed);
        assert!((1..40).contains(&asked), "it was asked {asked} times");
        local.close();

        // Beside one that serves: chance says which of the two is asked first.
        let server = serve(&volumes(), "127.0.0.1:0");
        while count.load(Ordering::Relaxed) == asked {
            let mut local = Local::connect(&config(&[alone, server.address().unwrap()])).unwrap();
            let volume = local.open("disk").unwrap();
            for at in 0..64 {
                write(&mut local, &volume, at * 4096, at as u8 + 1, 4096);
            }
            assert!(settle(&mut local).iter().all(|done| done.result.is_ok()));
            assert_eq!(read(&mut local, &volume, 63 * 4096, 1), [64]);
            local.close();
        }
    }
}

/// A dead address beside a living one: who knows no such volume says so.
#[test]
fn a_volume_that_is_not_there_is_told_though_a_node_is_away() {
    let server = serve(&volumes(), "127.0.0.1:0");
    let gone = serve(&volumes(), "127.0.0.1:0");
    let nodes = [server.address().unwrap(), gone.address().unwrap()];
    drop(gone);
    let mut local = Local::connect(&config(&nodes)).unwrap();
    let why = local.open("nothing").unwrap_err();
    assert!(
        matches!(
            why,
            Error::Open {
                why: OpenError::NotFound,
                ..
            }
        ),
        "{why}"
    );
    local.open("disk").unwrap();
}

#[test]
fn a_volume_that_nobody_serves_for_long_is_lost() {
    let server = serve(&volumes(), "127.0.0.1:0");
    let mut config = config(&[server.address().unwrap()]);
    config.node_patience = Duration::from_millis(500);
    let mut local = Local::connect(&config).unwrap();
    let volume = local.open("disk").unwrap();
    drop(server);
    write(&mut local, &volume, 0, 1, 4096);
    assert_eq!(settle(&mut local)[0].result, Err(IoError::Lost));
    assert!(matches!(local.read(&volume, 0, 1, 1), Err(Error::Lost { .. })));
}

/// Another volume of the same name is not written to.
#[test]
fn a_volume_that_was_made_anew_is_another_one() {
    let server = serve(&volumes(), "127.0.0.1:0");
    let address = server.address().unwrap();
    let mut local = Local::connect(&config(&[address])).unwrap();
    let volume = local.open("disk").unwrap();
    drop(server);
    let others = Volumes::new();
    others.add("one before", MIB, 4 << 20, false);
    others.add("disk", 16 * MIB, 4 << 20, false);
    let _server = serve(&others, &address.to_string());
    write(&mut local, &volume, 0, 1, 4096);
    assert_eq!(settle(&mut local)[0].result, Err(IoError::Lost));
}

#[test]
fn what_is_for_gateways_is_refused() {
    let good = config(&["127.0.0.1:1".parse().unwrap()]);
    let mut stores = good.clone();
    stores.stores = vec!["/dev/x".into()];
    let mut name = good.clone();
    name.name = Some("n".to_owned());
    let mut nowhere = good.clone();
    nowhere.nodes = vec!["no such place".to_owned()];
    // In plain text, to whoever answers there.
    let mut plain = good.clone();
    plain.nodes = vec!["127.0.0.1:1".to_owned(), "192.0.2.1:10809".to_owned()];
    let cases = [
        (stores, "stores"),
        (name, "name"),
        (nowhere, "nodes"),
        (plain.clone(), "identity"),
    ];
    plain.insecure_network = true;
    Local::connect(&plain).expect("it was asked for");
    for (config, what) in cases {
        match Local::connect(&config) {
            Err(Error::Setting { setting, .. }) => assert_eq!(setting, what),
            Err(why) => panic!("{what}: {why}"),
            Ok(_) => panic!("{what}"),
        }
    }
    // Where nobody answers, it is said who did not.
    let mut patient = good;
    patient.open_patience = Duration::from_millis(300);
    let why = Local::connect(&patient).unwrap().open("disk").unwrap_err().to_string();
    assert!(why.contains("127.0.0.1:1"), "{why}");
}

#[test]
fn what_has_data_is_told_to_gateways_and_nothing_is_sent_for_it() {
    let server = serve(&volumes(), "127.0.0.1:0");
    let mut local = Local::connect(&config(&[server.address().unwrap()])).unwrap();
    let volume = local.open("disk").unwrap();
    local.allocated(&volume, 0, 5).expect("it begins");
    let done = settle(&mut local);
    assert_eq!((done[0].tag, done[0].result), (5, Err(IoError::Invalid)));
    write(&mut local, &volume, 0, 9, 4096);
    assert!(settle(&mut local)[0].result.is_ok());
    assert_eq!(read(&mut local, &volume, 0, 4096), [9; 4096]);
}
