use super::*;
use amita_seal::{Hash, system_random};
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
    impl ring::hkdf::KeyType for Bytes42 {
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

/// Lets the two talk until neither has anything to say: what went from the client to the server and back.
fn talk(
    wire: &mut Wire,
    client: &mut TlsStream,
    server: &mut TlsStream,
    keys: Keys<'_>,
) -> Result<(Vec<u8>, Vec<u8>), (TlsFailure, Vec<u8>)> {
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
                match server.decrypt(&mut to_server, &mut answer, &wire.pool, keys) {
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
            .decrypt(&mut to_client, &mut out, &wire.pool, &nobody)
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
