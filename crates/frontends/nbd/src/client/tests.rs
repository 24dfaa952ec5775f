//! The client's end against the server's, in one thread; and against servers that lie.

use super::*;
use crate::wire::Errno;
use crate::{Config, NbdFront, TlsAcceptor, TlsFiles, TlsMode};
use amita_frontend::front::{Flow, Front};
use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::service::{FrontId, Who};
use amita_reactor::Time;
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;

const FRONT: FrontId = FrontId(3);

/// A connection, and the front that serves it.
struct Pair {
    pool: Pool,
    front: NbdFront,
    service: MemoryService,
    /// Of the server.
    inbox: Inbox,
    outbox: Outbox,
    client: Connection,
    /// What the client decrypts into.
    client_pool: Pool,
    client_inbox: Inbox,
    client_outbox: Outbox,
    words: Vec<Word>,
}

fn put(inbox: &mut Inbox, pool: &Pool, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut buffer = inbox.start_receive(pool, 256 << 10).unwrap();
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        inbox.received(buffer, count);
        rest = &rest[count..];
    }
}

fn sent(outbox: &mut Outbox) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(segments) = outbox.next_send() {
        segments.iter().for_each(|segment| all.extend_from_slice(segment));
        outbox.sent(segments);
    }
    all
}

impl Pair {
    fn new(config: Config, dial: Dial) -> Pair {
        let pool = Pool::heap();
        let volumes = Volumes::new();
        volumes.add("vol", 8 << 20, 1 << 20, false);
        let mut outbox = Outbox::new();
        let front = NbdFront::accept(Arc::new(config), FRONT, Who::Local, Time(0), &mut outbox);
        Pair {
            front,
            service: MemoryService::new(volumes, pool.clone()),
            inbox: Inbox::new(),
            outbox,
            client: Connection::new(dial),
            client_pool: pool.clone(),
            client_inbox: Inbox::new(),
            client_outbox: Outbox::new(),
            words: Vec::new(),
            pool,
        }
    }

    fn plain(export: &str) -> Pair {
        let dial = Dial {
            export: export.to_owned(),
            tls: None,
        };
        Pair::new(Config::default(), dial)
    }

    fn hear(&mut self) -> Result<(), String> {
        self.client.received(
            &mut self.client_inbox,
            &mut self.client_outbox,
            &self.client_pool,
            &mut self.words,
        )
    }

    /// Everything happens until nothing does.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let to_client = sent(&mut self.outbox);
            if !to_client.is_empty() {
                put(&mut self.client_inbox, &self.pool, &to_client);
                self.hear()?;
            }
            self.client.flush(&mut self.client_outbox, &self.pool);
            let to_server = sent(&mut self.client_outbox);
            let mut flow = Flow::Go;
            if !to_server.is_empty() {
                put(&mut self.inbox, &self.pool, &to_server);
                let Pair {
                    front,
                    service,
                    inbox,
                    outbox,
                    pool,
                    ..
                } = self;
                flow = front.received(Time(0), inbox, outbox, pool, service);
            }
            self.service.run();
            while let Some((_, event)) = self.service.events.pop_front() {
                let _ = self
                    .front
                    .event(Time(0), event, &mut self.outbox, &self.pool, &mut self.service);
            }
            let Pair {
                front,
                service,
                inbox,
                outbox,
                pool,
                ..
            } = self;
            let ended = front.end_pass(Time(0), inbox, outbox, pool, service);
            for flow in [flow, ended] {
                if let Flow::Close { reason } = flow {
                    return Err(format!("{reason:?}"));
                }
            }
            if to_client.is_empty() && to_server.is_empty() && self.outbox.queued_bytes() == 0 {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, command: u16, cookie: u64, offset: u64, length: u32, data: Slice) {
        let ask = Ask {
            command,
            cookie,
            offset,
            length,
        };
        self.client.ask(ask, data, &mut self.client_outbox, &self.pool);
    }

    fn answers(&mut self) -> Vec<(u64, u32, Vec<u8>)> {
        self.settle().unwrap();
        let answers = self.words.drain(..).map(|word| match word {
            Word::Answer { cookie, error, data } => (cookie, error, data.to_vec()),
            other => panic!("{other:?}"),
        });
        let mut answers: Vec<_> = answers.collect();
        answers.sort();
        answers
    }

    fn opens(&mut self) {
        self.settle().unwrap();
        let [
            Word::Open {
                size_bytes,
                read_only,
                description,
                chunk_bytes,
            },
        ] = &self.words[..]
        else {
            panic!("{:?}", self.words);
        };
        assert_eq!((*size_bytes, *read_only), (8 << 20, false));
        assert!(description.starts_with("volume "), "{description}");
        assert_eq!(*chunk_bytes, Some(1 << 20));
        self.words.clear();
    }

    /// Writes, reads, zeroes, and what goes wrong.
    fn works(&mut self) {
        self.opens();
        let data: Vec<u8> = (0..100_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
        self.ask(command::WRITE, 1, 5_000, 100_000, Slice::copy_from(&data));
        self.ask(command::FLUSH, 2, 0, 0, Slice::default());
        assert_eq!(self.answers(), [(1, 0, vec![]), (2, 0, vec![])]);
        self.ask(command::READ, 3, 5_000, 100_000, Slice::default());
        self.ask(command::READ, 4, 0, 4_096, Slice::default());
        assert_eq!(self.answers(), [(3, 0, data), (4, 0, vec![0; 4_096])]);
        self.ask(command::WRITE_ZEROES, 5, 0, 1 << 20, Slice::default());
        self.answers();
        self.ask(command::READ, 6, 5_000, 100_000, Slice::default());
        self.ask(command::READ, 7, 8 << 20, 1, Slice::default());
        let beyond = Errno::Inval as u32;
        assert_eq!(self.answers(), [(6, 0, vec![0; 100_000]), (7, beyond, vec![])]);
    }
}

#[test]
fn in_plain_text() {
    Pair::plain("vol").works();
}

/// A server's settings and a client's, with certificates that were made for this.
fn tls() -> (
    impl Fn(TlsMode) -> Config,
    impl Fn(bool) -> Dial,
    CertificateDer<'static>,
) {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["node".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
        client_authorities: None,
    };
    std::fs::write(&files.certificate, certificate.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    let certificate = certificate.der().clone();
    let acceptors = [TlsMode::Allow, TlsMode::Require].map(|mode| (mode, TlsAcceptor::load(mode, &files).unwrap()));
    let config = move |mode| Config {
        tls: acceptors
            .iter()
            .find(|(known, _)| *known == mode)
            .map(|(_, acceptor)| acceptor.clone()),
        ..Config::default()
    };
    let root = certificate.clone();
    let dial = move |trusted: bool| {
        let mut roots = RootCertStore::empty();
        if trusted {
            roots.add(root.clone()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Dial {
            export: "vol".to_owned(),
            tls: Some((Arc::new(config), ServerName::try_from("node").unwrap())),
        }
    };
    (config, dial, certificate)
}

#[test]
fn through_tls() {
    let (config, dial, certificate) = tls();
    let mut pair = Pair::new(config(TlsMode::Require), dial(true));
    pair.works();
    assert_eq!(pair.client.chain().unwrap()[0], certificate);
    // A server that is not who it should be is told nothing, not even the volume's name.
    let mut pair = Pair::new(config(TlsMode::Allow), dial(false));
    let why = pair.settle().unwrap_err();
    assert!(why.contains("UnknownIssuer") || why.contains("certificate"), "{why}");
    assert_eq!(pair.service.asked_by, None);
    // And one without TLS is of no use.
    let mut pair = Pair::new(Config::default(), dial(true));
    let why = pair.settle().unwrap_err();
    assert!(why.contains("does not speak TLS"), "{why}");
    assert_eq!(pair.service.asked_by, None);
}

/// What came while there was no memory for it is there when there is some again, though nothing more comes.
#[test]
fn what_there_is_no_memory_for_waits() {
    let (config, dial, _) = tls();
    let mut pair = Pair::new(config(TlsMode::Require), dial(true));
    pair.opens();
    pair.client_pool = Pool::new(amita_reactor::PoolConfig::with_total(16 << 20)).unwrap();
    let mut all = Vec::new();
    for bytes in [1 << 20, 64 << 10, 4 << 10, 1] {
        all.extend(std::iter::from_fn(|| {
            Inbox::new().start_receive(&pair.client_pool, bytes)
        }));
    }
    assert!(!all.is_empty());
    pair.ask(command::READ, 1, 0, 100_000, Slice::default());
    pair.settle().unwrap();
    assert!(pair.words.is_empty() && pair.client.is_short(), "{:?}", pair.words);
    pair.hear().unwrap();
    assert!(pair.words.is_empty() && pair.client.is_short());
    all.clear();
    pair.hear().unwrap();
    assert!(!pair.client.is_short());
    assert_eq!(pair.answers(), [(1, 0, vec![0; 100_000])]);
}

/// Whoever has ended TLS is gone: nothing of what he sends all the same is kept.
#[test]
fn the_end_of_tls_is_the_end() {
    let (config, dial, _) = tls();
    let more = vec![0x17; 1 << 20];
    let mut pair = Pair::new(config(TlsMode::Require), dial(true));
    pair.opens();
    let tls = pair.client.tls.as_mut().unwrap();
    tls.close();
    tls.encrypt(&mut pair.client_outbox, &pair.pool);
    pair.client_outbox.append(&pair.pool, &more);
    let why = pair.settle().unwrap_err();
    assert_eq!(why, "Goodbye");
    // The other way round.
    let mut pair = Pair::new(config(TlsMode::Require), dial(true));
    pair.opens();
    pair.client.leave(&mut pair.client_outbox, &pair.pool);
    let _ = pair.settle();
    put(&mut pair.client_inbox, &pair.pool, &sent(&mut pair.outbox));
    put(&mut pair.client_inbox, &pair.pool, &more);
    let why = pair.hear().unwrap_err();
    assert!(why.contains("ended TLS"), "{why}");
}

#[test]
fn what_is_not_there_is_refused() {
    let mut pair = Pair::plain("other");
    pair.settle().unwrap();
    let [Word::Refused { unknown: true, why }] = &pair.words[..] else {
        panic!("{:?}", pair.words);
    };
    assert!(why.contains("other"), "{why}");
}

/// What a client makes of these bytes of a server.
fn heard(tls: bool, parts: &[&[u8]]) -> (Result<(), String>, Vec<Word>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let tls = tls.then(|| (Arc::new(config), ServerName::try_from("node").unwrap()));
    let mut client = Connection::new(Dial {
        export: "vol".to_owned(),
        tls,
    });
    let (pool, mut inbox, mut outbox, mut words) = (Pool::heap(), Inbox::new(), Outbox::new(), Vec::new());
    for part in parts {
        put(&mut inbox, &pool, part);
        if let Err(why) = client.received(&mut inbox, &mut outbox, &pool, &mut words) {
            return (Err(why), words);
        }
    }
    (Ok(()), words)
}

fn greeting() -> Vec<u8> {
    [&INIT_PASSWD.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &[0, 3]].concat()
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let head = Writer::<20>::new().u64(OPTION_REPLY_MAGIC).u32(option).u32(kind);
    [head.u32(data.len() as u32).as_bytes(), data].concat()
}

fn open_replies() -> Vec<u8> {
    let export = Writer::<12>::new().u16(info::EXPORT).u64(1 << 20).u16(1);
    let first = option_reply(opt::GO, reply::INFO, export.as_bytes());
    [first, option_reply(opt::GO, reply::ACK, &[])].concat()
}

#[test]
fn a_server_that_lies_is_left() {
    let (fine, words) = heard(false, &[&greeting(), &open_replies()]);
    assert!(
        fine.is_ok()
            && matches!(
                words[..],
                [Word::Open {
                    size_bytes: 1_048_576,
                    ..
                }]
            )
    );
    let ack = option_reply(opt::STARTTLS, reply::ACK, &[]);
    let long = option_reply(opt::GO, reply::INFO, &[0; 5_000]);
    let answer = Writer::<16>::new().u32(SIMPLE_REPLY_MAGIC).u32(0).u64(9);
    let many: Vec<u8> = (0..100)
        .flat_map(|_| option_reply(opt::GO, reply::INFO, &[0, 9]))
        .collect();
    let cases: [(bool, &[&[u8]]); 8] = [
        // A web server.
        (false, &[b"HTTP/1.1 400 Bad Request\r\n\r\n"]),
        // Words of somebody in between, before those that TLS protects.
        (true, &[&greeting(), &[ack.clone(), open_replies()].concat()]),
        // TLS was asked for, and another option is answered.
        (true, &[&greeting(), &open_replies()]),
        (
            true,
            &[&greeting(), &option_reply(opt::STARTTLS, reply::ERR_UNSUP, b"no")],
        ),
        (false, &[&greeting(), &long]),
        (false, &[&greeting(), &option_reply(opt::GO, reply::ACK, &[])]),
        (false, &[&greeting(), &many]),
        (false, &[&greeting(), &open_replies(), answer.as_bytes()]),
    ];
    for (number, (tls, parts)) in cases.into_iter().enumerate() {
        let (result, _) = heard(tls, parts);
        assert!(result.is_err(), "case {number}");
    }
}

proptest! {
    #[test]
    fn nonsense_never_panics(
        tls: bool,
        greets: bool,
        opens: bool,
        mut parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..4),
    ) {
        if opens {
            parts.insert(0, open_replies());
        }
        if greets {
            parts.insert(0, greeting());
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let _ = heard(tls, &parts);
    }
}
