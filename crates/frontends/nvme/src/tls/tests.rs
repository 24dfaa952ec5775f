use super::*;
use crate::admin::DISCOVERY_NQN;
use amita_keys::Hash;
use proptest::prelude::*;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11";
const SUBSYSTEM: &str = "nqn.2026-01.example.amita:subsystem.one";
const KEY_256: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const KEY_384: &str = "NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:";
const KEY_PLAIN: &str = "NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

fn key(text: &str) -> TlsKey {
    TlsKey::parse(text).unwrap()
}

fn derive(text: &str, version: u8, dialect: Dialect) -> Psk {
    Psk::derive(&key(text), version, HOST, SUBSYSTEM, dialect).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 5869, A.3: no salt, no info; and RFC 8448, 3: a label of TLS 1.3.
#[test]
fn hkdf_is_as_the_rfcs_have_it() {
    let prk = derive::extract(Hash::Sha256, &[0x0b; 22]);
    struct Bytes42;
    impl aws_lc_rs::hkdf::KeyType for Bytes42 {
        fn len(&self) -> usize {
            42
        }
    }
    let mut out = [0; 42];
    prk.expand(&[&[]], Bytes42).unwrap().fill(&mut out).unwrap();
    assert_eq!(
        hex(&out),
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    );
    // The early secret of a handshake without a key, and what is derived from it.
    let early = derive::extract(Hash::Sha256, &[0; 32]);
    let derived = derive::expand_label(Dialect::Standard, &early, "derived", &Hash::Sha256.digest(&[]), 32);
    assert_eq!(
        hex(&derived.unwrap()),
        "6f2615a108c702c5678f54fc9dbab69716c076189c48250cebeac3576c3611ba"
    );
}

/// What `nvme check-tls-key` of nvme-cli 2.13 with libnvme 1.13 prints: the identities.
#[test]
fn identities_are_those_of_nvme_cli() {
    for (text, version, wanted) in [
        (KEY_256, 0, "NVMe0R01 HOST SUB"),
        (KEY_384, 0, "NVMe0R02 HOST SUB"),
        (KEY_PLAIN, 0, "NVMe0R01 HOST SUB"),
        (
            KEY_256,
            1,
            "NVMe1R01 HOST SUB WVE64i16I8pOnTPLBCXbDTqHyI4aSbKmVmcM/DfmrFM=",
        ),
        (
            KEY_384,
            1,
            "NVMe1R02 HOST SUB NwbjdbbaDR+IIG6+B6SjnorC7G7IyBX9CEbGKwDnMbX3AA3nke0FfmlwQCX6Lv8F",
        ),
        (
            KEY_PLAIN,
            1,
            "NVMe1R01 HOST SUB P3pJahdnizLNYgaLpO6aR1JO4tJRmG3IT9xKlIwOiSA=",
        ),
    ] {
        let wanted = wanted.replace("HOST", HOST).replace("SUB", SUBSYSTEM);
        let psk = derive(text, version, Dialect::Libnvme);
        assert_eq!(psk.identity.to_string(), wanted);
        assert_eq!(PskIdentity::parse(&wanted).unwrap(), psk.identity);
        // Without a transformation the digest is the same in both dialects; what is derived from it is not.
        let standard = derive(text, version, Dialect::Standard);
        assert_eq!(standard.identity == psk.identity, version == 0 || text == KEY_PLAIN);
        assert!(standard.secret != psk.secret);
    }
}

#[test]
fn what_is_no_identity_is_not_taken_for_one() {
    let long = "n".repeat(224);
    for wrong in [
        "",
        "NVMe",
        "NVMe0R01",
        "NVMe0R01 a",
        "NVMe0R01  b",
        "NVMe0R01 a ",
        "NVMe0R01 a b c",
        "NVMe0R03 a b",
        "NVMe2R01 a b c",
        "NVMe1R01 a b",
        "NVMe1R01 a b c d",
        // A generated key: there are none here.
        "NVMe0G01 a b",
        "NVMe1G01 a b c",
        "nvme0R01 a b",
        &format!("NVMe0R01 {long} b"),
        &format!("NVMe0R01 a {long}"),
    ] {
        assert_eq!(PskIdentity::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn names_that_the_standard_has_no_room_for_have_no_key_in_version_0() {
    let long = "n".repeat(200);
    let derive = |version, dialect| Psk::derive(&key(KEY_256), version, &long, &long, dialect);
    assert!(derive(0, Dialect::Standard).is_none());
    assert!(derive(0, Dialect::Libnvme).is_some());
    assert!(derive(1, Dialect::Standard).is_some());
}

/// Two streams and what is between them.
struct Wire {
    pool: Pool,
    to_server: Inbox,
    to_client: Inbox,
    /// At most so much passes at a time.
    portion: usize,
}

impl Wire {
    fn new() -> Wire {
        Wire {
            pool: Pool::heap(),
            to_server: Inbox::new(),
            to_client: Inbox::new(),
            portion: usize::MAX,
        }
    }

    fn deliver(&self, bytes: &[u8], inbox: &mut Inbox) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut buffer = inbox.start_receive(&self.pool, 4096).unwrap();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            inbox.received(buffer, count);
            rest = &rest[count..];
        }
    }
}

fn drain(outbox: &mut Outbox) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(segments) = outbox.next_send() {
        for segment in &segments {
            all.extend_from_slice(segment);
        }
        outbox.sent(segments);
    }
    all
}

fn nobody(_: &str, _: &str) -> Option<TlsKey> {
    None
}

/// What the client said, and what the server answered.
type Said = (Vec<u8>, Vec<u8>);

/// Lets the two talk until neither has anything to say: what went from the client to the server and back.
fn talk(
    wire: &mut Wire,
    client: &mut TlsStream,
    server: &mut TlsStream,
    keys: Keys<'_>,
) -> Result<Said, (TlsFailure, Vec<u8>)> {
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let mut out = Outbox::new();
    loop {
        client
            .encrypt(&mut out, &wire.pool)
            .map_err(|failure| (failure, Vec::new()))?;
        let said = drain(&mut out);
        let mut answer = Outbox::new();
        let mut to_server = std::mem::take(&mut wire.to_server);
        for portion in said.chunks(wire.portion.min(said.len().max(1))) {
            wire.deliver(portion, &mut to_server);
            loop {
                match server.decrypt(&mut to_server, &mut answer, &wire.pool, 4096, keys) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(failure) => return Err((failure, drain(&mut answer))),
                }
            }
        }
        wire.to_server = to_server;
        server
            .encrypt(&mut answer, &wire.pool)
            .map_err(|failure| (failure, Vec::new()))?;
        let answered = drain(&mut answer);
        let mut to_client = std::mem::take(&mut wire.to_client);
        wire.deliver(&answered, &mut to_client);
        while client
            .decrypt(&mut to_client, &mut out, &wire.pool, 4096, &nobody)
            .map_err(|failure| (failure, Vec::new()))?
        {}
        wire.to_client = to_client;
        there.extend_from_slice(&said);
        back.extend_from_slice(&answered);
        if said.is_empty() && answered.is_empty() && out.queued_bytes() == 0 {
            return Ok((there, back));
        }
    }
}

fn taken(inbox: &mut Inbox) -> Vec<u8> {
    let len = inbox.len();
    inbox.take(len).to_vec()
}

fn known(host: &str, subsystem: &str) -> Option<TlsKey> {
    (host == HOST && subsystem == SUBSYSTEM).then(|| key(KEY_256))
}

#[test]
fn a_host_with_the_key_comes_in() {
    for text in [KEY_256, KEY_384, KEY_PLAIN] {
        for version in [0, 1] {
            for dialect in Dialect::ALL {
                let psk = derive(text, version, dialect);
                let mut client = TlsStream::connect(&psk).unwrap();
                let mut server = TlsStream::accept();
                let mut wire = Wire::new();
                let keys = |_: &str, _: &str| Some(key(text));
                talk(&mut wire, &mut client, &mut server, &keys).unwrap();
                assert_eq!(server.identity(), Some(&psk.identity));
                assert_eq!(client.identity(), Some(&psk.identity));

                client.outbox.append(&wire.pool, b"there");
                server.outbox.append(&wire.pool, b"and back");
                let (said, answered) = talk(&mut wire, &mut client, &mut server, &keys).unwrap();
                assert_eq!(taken(&mut server.inbox), b"there");
                assert_eq!(taken(&mut client.inbox), b"and back");
                // Application data, and nothing of it in clear.
                assert_eq!((said[0], answered[0]), (0x17, 0x17));
                assert!(!said.windows(5).any(|window| window == b"there"));
            }
        }
    }
}

/// What a server says to a client that it refuses: why, and the alert.
fn refused(psk: &Psk, keys: Keys<'_>) -> (TlsFailure, u8) {
    let mut client = TlsStream::connect(psk).unwrap();
    let mut server = TlsStream::accept();
    let mut wire = Wire::new();
    let (failure, said) = talk(&mut wire, &mut client, &mut server, keys).unwrap_err();
    assert_eq!(said[..6], [0x15, 3, 3, 0, 2, 2], "a fatal alert in clear");
    assert_eq!(said.len(), 7, "and nothing else");
    assert_eq!(server.identity(), None);
    // Nothing goes on afterwards, and what still comes in is dropped.
    let mut more = Inbox::new();
    wire.deliver(b"more", &mut more);
    let mut out = Outbox::new();
    assert_eq!(server.decrypt(&mut more, &mut out, &wire.pool, 4096, keys), Ok(false));
    assert!(more.is_empty());
    server.outbox.append(&wire.pool, b"secret");
    server.encrypt(&mut out, &wire.pool).unwrap();
    assert_eq!(out.queued_bytes(), 0);
    // The client understands the alert.
    let mut to_client = Inbox::new();
    wire.deliver(&said, &mut to_client);
    assert!(
        client
            .decrypt(&mut to_client, &mut out, &wire.pool, 4096, &nobody)
            .is_err()
    );
    (failure, said[6])
}

#[test]
fn strangers_and_wrong_keys_are_refused() {
    let psk = derive(KEY_256, 1, Dialect::Standard);
    let (failure, alert) = refused(&psk, &nobody);
    assert_eq!(
        (failure, alert),
        (TlsFailure::UnknownIdentity(psk.identity.to_string()), 115)
    );
    for version in [0, 1] {
        let psk = derive(KEY_PLAIN, version, Dialect::Libnvme);
        assert_eq!(refused(&psk, &known), (TlsFailure::WrongKey(psk.identity.clone()), 51));
    }
    // The right key under a name that is not the host's.
    let other = Psk::derive(
        &key(KEY_256),
        0,
        "nqn.2026-01.example:other",
        SUBSYSTEM,
        Dialect::Standard,
    )
    .unwrap();
    assert!(matches!(refused(&other, &known), (TlsFailure::UnknownIdentity(_), 115)));
    // A key of the other hash than the host is known to have.
    let psk = derive(KEY_384, 0, Dialect::Standard);
    assert!(matches!(refused(&psk, &known), (TlsFailure::WrongKey(_), 51)));
    // A host that proves with SHA-256 a key whose identity names SHA-384, as Debian 13's GnuTLS does.
    let mut hello = client_hello(&derive(KEY_256, 0, Dialect::Standard));
    let at = hello.windows(8).position(|window| window == b"NVMe0R01").unwrap();
    hello[at + 7] = b'2';
    let mut server = TlsStream::accept();
    let (mut inbox, mut out) = (Inbox::new(), Outbox::new());
    let keys = |_: &str, _: &str| Some(key(KEY_384));
    Wire::new().deliver(&hello, &mut inbox);
    let failure = server
        .decrypt(&mut inbox, &mut out, &Pool::heap(), 4096, &keys)
        .unwrap_err();
    assert!(matches!(failure, TlsFailure::WrongHash(_)), "{failure}");
    assert_eq!(drain(&mut out), [0x15, 3, 3, 0, 2, 2, 51]);
}

#[test]
fn what_is_no_handshake_is_refused() {
    let pool = Pool::heap();
    for (bytes, what) in [
        (&b"GET / HTTP/1.1"[..], "no TLS handshake"),
        (&[0x17, 3, 3, 0, 1, 0], "no TLS handshake"),
        (&[0x16, 2, 0, 0, 4, 1, 0, 0, 0], "no TLS handshake"),
        (&[0x16, 3, 1, 0, 0], "no TLS handshake"),
        (&[0x16, 3, 1, 0x40, 1], "no TLS handshake"),
        (
            &[0x16, 3, 1, 0x3f, 0xff],
            "the TLS handshake begins with too long a message",
        ),
        (
            &[0x16, 3, 1, 0, 4, 2, 0, 0, 0],
            "the TLS handshake does not begin with a ClientHello",
        ),
        (
            &[0x16, 3, 1, 0, 4, 1, 1, 0, 0],
            "the TLS handshake begins with too long a message",
        ),
        (&[0x16, 3, 1, 0, 4, 1, 0, 0, 0], "a ClientHello that cannot be read"),
    ] {
        let mut server = TlsStream::accept();
        let (mut inbox, mut out) = (Inbox::new(), Outbox::new());
        Wire::new().deliver(bytes, &mut inbox);
        let failure = server.decrypt(&mut inbox, &mut out, &pool, 4096, &nobody).unwrap_err();
        assert_eq!(failure, TlsFailure::Hello(what));
        assert_eq!(drain(&mut out), [0x15, 3, 3, 0, 2, 2, 50]);
    }
    // A hello without extensions, and one that offers no key.
    let mut hello = vec![0x16, 3, 1, 0, 4 + 2 + 32 + 1 + 4 + 2, 1, 0, 0, 2 + 32 + 1 + 4 + 2, 3, 3];
    hello.extend_from_slice(&[7; 32]);
    hello.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
    let mut server = TlsStream::accept();
    let (mut inbox, mut out) = (Inbox::new(), Outbox::new());
    Wire::new().deliver(&hello, &mut inbox);
    let failure = server.decrypt(&mut inbox, &mut out, &pool, 4096, &nobody).unwrap_err();
    assert_eq!(failure, TlsFailure::NoKeyOffered);
    assert_eq!(drain(&mut out), [0x15, 3, 3, 0, 2, 2, 40]);
}

/// A client's first message.
fn client_hello(psk: &Psk) -> Vec<u8> {
    let mut client = TlsStream::connect(psk).unwrap();
    let mut out = Outbox::new();
    client.encrypt(&mut out, &Pool::heap()).unwrap();
    drain(&mut out)
}

/// The message cut into records of that many bytes.
fn in_records(hello: &[u8], bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in hello[5..].chunks(bytes) {
        out.extend_from_slice(&[0x16, 3, 1]);
        out.extend_from_slice(&(piece.len() as u16).to_be_bytes());
        out.extend_from_slice(piece);
    }
    out
}

#[test]
fn a_first_message_in_several_records_is_understood() {
    let psk = derive(KEY_256, 1, Dialect::Standard);
    let hello = client_hello(&psk);
    for bytes in [1, 3, 4, 5, 100, 1000] {
        let records = in_records(&hello, bytes);
        let Found::Hello(found) = hello::find(&records) else {
            panic!("{bytes} bytes a record")
        };
        assert_eq!(found.offers.len(), 1);
        assert!(found.proves(&found.offers[0], &psk));
        // It is never taken for complete before it is.
        for cut in (0..records.len()).step_by(7) {
            assert!(
                matches!(hello::find(&records[..cut]), Found::Incomplete(more) if more > cut),
                "{cut}"
            );
        }
    }
}

#[test]
fn any_amount_of_data_passes_in_any_portions() {
    let psk = derive(KEY_384, 1, Dialect::Standard);
    let keys = |_: &str, _: &str| Some(key(KEY_384));
    for (portion, bytes) in [(1, 300), (7, 20_000), (1000, 100_000), (usize::MAX, 1 << 20)] {
        let mut wire = Wire::new();
        wire.portion = portion;
        let mut client = TlsStream::connect(&psk).unwrap();
        let mut server = TlsStream::accept();
        talk(&mut wire, &mut client, &mut server, &keys).unwrap();
        let data: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
        // A header, a payload by reference, and another header, as PDUs are.
        for stream in [&mut client, &mut server] {
            stream.outbox.append(&wire.pool, b"head");
            stream.outbox.push(amita_reactor::Slice::copy_from(&data));
            stream.outbox.append(&wire.pool, b"tail");
        }
        let wanted = [b"head", &data[..], b"tail"].concat();
        let (said, _) = talk(&mut wire, &mut client, &mut server, &keys).unwrap();
        assert!(taken(&mut server.inbox) == wanted);
        assert!(taken(&mut client.inbox) == wanted);
        // Small pieces are put together: no more records than the data needs.
        let records = wanted.len().div_ceil(RECORD_BYTES) + 1;
        assert!(
            said.len() <= wanted.len() + records * 22,
            "{} for {}",
            said.len(),
            wanted.len()
        );
    }
}

#[test]
fn idle_connections_give_memory_back_and_go_on() {
    let psk = derive(KEY_256, 1, Dialect::Standard);
    let mut wire = Wire::new();
    let mut client = TlsStream::connect(&psk).unwrap();
    let mut server = TlsStream::accept();
    server.release();
    talk(&mut wire, &mut client, &mut server, &known).unwrap();
    for _ in 0..3 {
        server.release();
        client.release();
        client.outbox.append(&wire.pool, b"there");
        server.outbox.append(&wire.pool, b"back");
        talk(&mut wire, &mut client, &mut server, &known).unwrap();
        assert_eq!(taken(&mut server.inbox), b"there");
        assert_eq!(taken(&mut client.inbox), b"back");
    }
}

#[test]
fn keys_are_renewed_when_the_peer_asks() {
    let psk = derive(KEY_256, 1, Dialect::Standard);
    let mut wire = Wire::new();
    let mut client = TlsStream::connect(&psk).unwrap();
    let mut server = TlsStream::accept();
    talk(&mut wire, &mut client, &mut server, &known).unwrap();
    for _ in 0..3 {
        let Stage::Open(library) = &mut client.stage else {
            panic!()
        };
        library.renew_keys();
        client.outbox.append(&wire.pool, b"there");
        let (said, _) = talk(&mut wire, &mut client, &mut server, &known).unwrap();
        // The message that says so, and the data under the new key: two records.
        let first = 5 + usize::from(u16::from_be_bytes([said[3], said[4]]));
        let second = 5 + usize::from(u16::from_be_bytes([said[first + 3], said[first + 4]]));
        assert_eq!(said.len(), first + second);
        assert_eq!(taken(&mut server.inbox), b"there");
        server.outbox.append(&wire.pool, b"back");
        talk(&mut wire, &mut client, &mut server, &known).unwrap();
        assert_eq!(taken(&mut client.inbox), b"back");
    }
}

#[test]
fn a_peer_that_says_goodbye_is_understood() {
    let psk = derive(KEY_256, 1, Dialect::Standard);
    let mut wire = Wire::new();
    let mut client = TlsStream::connect(&psk).unwrap();
    let mut server = TlsStream::accept();
    talk(&mut wire, &mut client, &mut server, &known).unwrap();
    client.outbox.append(&wire.pool, b"last");
    let mut out = Outbox::new();
    client.encrypt(&mut out, &wire.pool).unwrap();
    client.close(&mut out, &wire.pool);
    let said = drain(&mut out);
    let mut to_server = Inbox::new();
    wire.deliver(&said, &mut to_server);
    while server
        .decrypt(&mut to_server, &mut out, &wire.pool, 4096, &known)
        .unwrap()
    {}
    assert_eq!(taken(&mut server.inbox), b"last");
    assert!(server.is_ended());
}

#[test]
fn damaged_records_end_the_connection() {
    let psk = derive(KEY_256, 1, Dialect::Standard);
    let mut wire = Wire::new();
    let mut client = TlsStream::connect(&psk).unwrap();
    let mut server = TlsStream::accept();
    talk(&mut wire, &mut client, &mut server, &known).unwrap();
    client.outbox.append(&wire.pool, b"there");
    let mut out = Outbox::new();
    client.encrypt(&mut out, &wire.pool).unwrap();
    let mut said = drain(&mut out);
    *said.last_mut().unwrap() ^= 1;
    let mut to_server = Inbox::new();
    wire.deliver(&said, &mut to_server);
    let failure = server.decrypt(&mut to_server, &mut out, &wire.pool, 4096, &known);
    assert!(matches!(failure, Err(TlsFailure::Library(_))), "{failure:?}");
    assert!(server.inbox.is_empty());
}

#[test]
fn keys_come_from_the_settings() {
    use crate::{HostAccess, Secret, Subsystem};
    use std::sync::Arc;
    let host = |nqn: &str, tls: Option<&str>| {
        Arc::new(HostAccess {
            nqn: nqn.into(),
            dhchap: None,
            dhchap_controller: None,
            tls: tls.map(|text| Secret(text.into())),
        })
    };
    let catalog = Catalog {
        discovery_nqn: "nqn.discovery".into(),
        subsystems: vec![Arc::new(Subsystem {
            nqn: SUBSYSTEM.into(),
            serial: String::new(),
            gateways: Vec::new(),
            any_host: true,
            tls_required: false,
            hosts: vec![
                host("nqn.bad", Some("NVMeTLSkey-1:nonsense")),
                host("nqn.none", None),
                host("nqn.one", Some(KEY_256)),
            ],
            namespaces: Vec::new(),
            ana_changes: 0,
        })],
        ..Catalog::default()
    };
    assert_eq!(catalog.tls_key("nqn.one", SUBSYSTEM), Some(key(KEY_256)));
    assert_eq!(catalog.tls_key("nqn.one", "nqn.discovery"), Some(key(KEY_256)));
    assert_eq!(catalog.tls_key("nqn.one", DISCOVERY_NQN), Some(key(KEY_256)));
    for (host, subsystem) in [
        ("nqn.one", "nqn.other"),
        ("nqn.none", SUBSYSTEM),
        ("nqn.bad", SUBSYSTEM),
        ("nqn.stranger", SUBSYSTEM),
        ("nqn.stranger", DISCOVERY_NQN),
    ] {
        assert_eq!(catalog.tls_key(host, subsystem), None, "{host} {subsystem}");
    }
}

proptest! {
    #[test]
    fn no_first_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), tls: bool) {
        let mut bytes = bytes;
        if tls {
            let len = bytes.len();
            bytes.splice(0..0, [0x16, 3, 1, 0, (len + 4) as u8, 1, 0, 0, len as u8]);
        }
        let mut server = TlsStream::accept();
        let (mut inbox, mut out) = (Inbox::new(), Outbox::new());
        Wire::new().deliver(&bytes, &mut inbox);
        let _ = server.decrypt(&mut inbox, &mut out, &Pool::heap(), 4096, &known);
        prop_assert_eq!(server.identity(), None);
    }

    #[test]
    fn a_changed_first_message_lets_nobody_in(at in 0usize..600, bit in 0u8..8) {
        let psk = derive(KEY_256, 1, Dialect::Standard);
        let mut hello = client_hello(&psk);
        let at = at % hello.len();
        hello[at] ^= 1 << bit;
        let mut server = TlsStream::accept();
        let (mut inbox, mut out) = (Inbox::new(), Outbox::new());
        let pool = Pool::heap();
        Wire::new().deliver(&hello, &mut inbox);
        while let Ok(true) = server.decrypt(&mut inbox, &mut out, &pool, 4096, &known) {}
        // The version of the record does not count; everything else is under the binder.
        let answered = drain(&mut out).first() == Some(&0x16);
        prop_assert_eq!(answered, at == 2, "byte {}", at);
        prop_assert_eq!(server.identity(), None);
    }
}
