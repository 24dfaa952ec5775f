use super::*;
use crate::provider::{Request, Response};
use crate::ttlv::{self, Item, Value};
use amita_testkit::Random as Numbers;
use amita_types::VolumeId;
use amita_types::map::{KeyName, KeyNumber};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::collections::BTreeMap;

const UUID: &str = "fb4b5b9c-6188-4c63-8142-fe9c328129fc";
const WAYS: [KmipWay; 2] = [KmipWay::Encrypt, KmipWay::Get];

fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut numbers = Numbers::new(seed);
    move |bytes: &mut [u8]| bytes.fill_with(|| numbers.bits() as u8)
}

fn binding() -> Binding {
    Binding {
        tenant: Some("acme".into()),
        key: KeyName {
            volume: VolumeId(3),
            image: VolumeId(7),
            number: KeyNumber(1),
        },
    }
}

fn kmip(way: KmipWay) -> Kmip {
    Kmip::new(UUID, way, KmipVersion::USUAL).unwrap()
}

/// What of an answer is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Version,
    Operation,
    NoOperation,
    Key,
    NoKey,
    Payload,
    Batch,
    NoBatch,
    Pending,
    Status,
    Twice,
    Data,
    Short,
    Tag,
    NoTag,
    Nonce,
    Object,
    Format,
    Algorithm,
    Bits,
    Length,
    Wrapped,
    Value,
}

/// What a KMIP server does for these three operations, and nothing else: it looks at every item, and a request that has one more or one less, or
/// in another order, ends the test.
struct Server {
    version: KmipVersion,
    keys: BTreeMap<&'static str, [u8; 32]>,
    /// It is older than it says: what is to be authenticated is nothing to it.
    is_old: bool,
    refuses: Option<(Option<u32>, &'static str)>,
    fault: Option<Fault>,
    asked: Vec<u32>,
}

/// The values of exactly these tags, in this order.
fn exactly<'b, 'a, const N: usize>(items: &'b [Item<'a>], tags: [u32; N]) -> [&'b Value<'a>; N] {
    let found: Vec<u32> = items.iter().map(|item| item.tag).collect();
    assert_eq!(found, tags);
    std::array::from_fn(|at| &items[at].value)
}

fn inside<'b, 'a>(value: &'b Value<'a>) -> &'b [Item<'a>] {
    match value {
        Value::Structure(items) => items,
        other => panic!("{other:?} is no structure"),
    }
}

fn of_bytes<'a>(value: &Value<'a>) -> &'a [u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        other => panic!("{other:?} is no bytes"),
    }
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap())
}

fn check_parameters(parameters: &Value<'_>) {
    let given = exactly(
        inside(parameters),
        [code::BLOCK_CIPHER_MODE, code::CRYPTOGRAPHIC_ALGORITHM, code::TAG_LENGTH],
    );
    assert_eq!(
        given,
        [&Value::Enumeration(9), &Value::Enumeration(3), &Value::Integer(16)]
    );
}

impl Server {
    fn new() -> Server {
        Server {
            version: KmipVersion::USUAL,
            keys: BTreeMap::from([(UUID, [1; 32]), ("2", [2; 32])]),
            is_old: false,
            refuses: None,
            fault: None,
            asked: Vec::new(),
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn answer(&mut self, request: &Request) -> Response {
        let Request::Kmip(request) = request else {
            panic!("a KMIP server speaks TTLV");
        };
        assert!(request.bytes().len() < 1024, "it has room");
        let message = ttlv::read(request.bytes(), code::REQUEST_MESSAGE).unwrap();
        let [header, item] = exactly(&message, [code::REQUEST_HEADER, code::BATCH_ITEM]);
        let [version, size, count] = exactly(
            inside(header),
            [code::PROTOCOL_VERSION, code::MAXIMUM_RESPONSE_SIZE, code::BATCH_COUNT],
        );
        let [major, minor] = exactly(
            inside(version),
            [code::PROTOCOL_VERSION_MAJOR, code::PROTOCOL_VERSION_MINOR],
        );
        let KmipVersion(wanted, lesser) = self.version;
        assert_eq!(
            (major, minor),
            (&Value::Integer(wanted.into()), &Value::Integer(lesser.into()))
        );
        assert_eq!((size, count), (&Value::Integer(16384), &Value::Integer(1)));
        let [operation, payload] = exactly(inside(item), [code::OPERATION, code::REQUEST_PAYLOAD]);
        let Value::Enumeration(operation) = *operation else {
            panic!("{operation:?}");
        };
        self.asked.push(operation);
        let payload = inside(payload);
        let Value::Text(name) = payload[0].value else {
            panic!("{payload:?}");
        };
        if let Some((reason, said)) = self.refuses {
            return refusal(operation, reason, said);
        }
        let Some(key) = self.keys.get(name).copied() else {
            return refusal(operation, Some(1), "Could not locate object");
        };
        match operation {
            code::OPERATION_GET => {
                let given = exactly(payload, [code::UNIQUE_IDENTIFIER, code::KEY_FORMAT_TYPE]);
                assert_eq!(given[1], &Value::Enumeration(1));
                self.give(name, &key)
            }
            code::OPERATION_ENCRYPT => {
                let [_, parameters, data, nonce, associated] = exactly(
                    payload,
                    [
                        code::UNIQUE_IDENTIFIER,
                        code::CRYPTOGRAPHIC_PARAMETERS,
                        code::DATA,
                        code::NONCE,
                        code::ADDITIONAL_DATA,
                    ],
                );
                check_parameters(parameters);
                let (mut data, nonce) = (of_bytes(data).to_vec(), of_bytes(nonce));
                let unique = Nonce::try_assume_unique_for_key(nonce).unwrap();
                let tag = cipher(&key)
                    .seal_in_place_separate_tag(unique, Aad::from(self.associated(associated)), &mut data)
                    .unwrap();
                self.encrypted(name, &data, tag.as_ref())
            }
            code::OPERATION_DECRYPT => {
                let [_, parameters, data, nonce, associated, tag] = exactly(
                    payload,
                    [
                        code::UNIQUE_IDENTIFIER,
                        code::CRYPTOGRAPHIC_PARAMETERS,
                        code::DATA,
                        code::NONCE,
                        code::ADDITIONAL_DATA,
                        code::AUTHENTICATION_TAG,
                    ],
                );
                check_parameters(parameters);
                assert_eq!(of_bytes(tag).len(), 16);
                let mut data = [of_bytes(data), of_bytes(tag)].concat();
                let unique = Nonce::try_assume_unique_for_key(of_bytes(nonce)).unwrap();
                let opened = cipher(&key).open_in_place(unique, Aad::from(self.associated(associated)), &mut data);
                match opened {
                    Ok(plain) => self.done(operation, name, |payload| {
                        if !self.is(Fault::Data) {
                            payload.bytes(code::DATA, &plain[usize::from(self.is(Fault::Short))..]);
                        }
                    }),
                    Err(_) => refusal(operation, Some(0x0a), "Decryption failed"),
                }
            }
            other => panic!("operation {other:#x}"),
        }
    }

    fn associated<'a>(&self, given: &Value<'a>) -> &'a [u8] {
        let given = of_bytes(given);
        assert!(given.starts_with(b"amita-crypt wrapped key 1\0") || [PROBE, OTHER].contains(&given));
        if self.is_old { &[] } else { given }
    }

    fn encrypted(&self, name: &str, data: &[u8], tag: &[u8]) -> Response {
        self.done(code::OPERATION_ENCRYPT, name, |payload| {
            if !self.is(Fault::Data) {
                payload.bytes(code::DATA, &data[usize::from(self.is(Fault::Short))..]);
            }
            if self.is(Fault::Nonce) {
                payload.bytes(code::NONCE, &[9; 12]);
            }
            if self.is(Fault::Tag) {
                payload.bytes(code::AUTHENTICATION_TAG, &tag[..12]);
            } else if !self.is(Fault::NoTag) {
                payload.bytes(code::AUTHENTICATION_TAG, tag);
            }
        })
    }

    fn give(&self, name: &str, key: &[u8; 32]) -> Response {
        let pick = |fault, wrong: u32, right: u32| if self.is(fault) { wrong } else { right };
        self.done(code::OPERATION_GET, name, |payload| {
            payload.enumeration(code::OBJECT_TYPE, pick(Fault::Object, 7, 2));
            payload.structure(code::SYMMETRIC_KEY, |object| {
                object.structure(code::KEY_BLOCK, |block| {
                    block.enumeration(code::KEY_FORMAT_TYPE, pick(Fault::Format, 7, 1));
                    if !self.is(Fault::Value) {
                        block.structure(code::KEY_VALUE, |value| {
                            value.bytes(code::KEY_MATERIAL, &key[..if self.is(Fault::Length) { 16 } else { 32 }]);
                        });
                    }
                    block.enumeration(code::CRYPTOGRAPHIC_ALGORITHM, pick(Fault::Algorithm, 2, 3));
                    block.integer(code::CRYPTOGRAPHIC_LENGTH, pick(Fault::Bits, 128, 256) as i32);
                    if self.is(Fault::Wrapped) {
                        block.structure(code::KEY_WRAPPING_DATA, |_| {});
                    }
                });
            });
        })
    }

    /// A success, as servers give it: with the time, and something that nobody here knows.
    fn done(&self, operation: u32, name: &str, give: impl Fn(&mut Writer)) -> Response {
        let pick = |fault, wrong: u32, right: u32| if self.is(fault) { wrong } else { right };
        let batch = |message: &mut Writer| {
            message.structure(code::BATCH_ITEM, |item| {
                if !self.is(Fault::NoOperation) {
                    item.enumeration(code::OPERATION, pick(Fault::Operation, 0x18, operation));
                }
                match self.fault {
                    Some(Fault::Pending) => item.enumeration(code::RESULT_STATUS, 2),
                    Some(Fault::Status) => item.integer(code::RESULT_STATUS, 0),
                    _ => item.enumeration(code::RESULT_STATUS, 0),
                };
                if self.is(Fault::Payload) {
                    return;
                }
                item.structure(code::RESPONSE_PAYLOAD, |payload| {
                    for _ in 0..pick(Fault::Twice, 2, 1) - pick(Fault::NoKey, 1, 0) {
                        payload.text(code::UNIQUE_IDENTIFIER, if self.is(Fault::Key) { "2" } else { name });
                    }
                    give(payload);
                });
            });
        };
        let minor = self.version.1 + u8::from(self.is(Fault::Version));
        answer(
            KmipVersion(self.version.0, minor),
            pick(Fault::Batch, 2, 1),
            |message| {
                if !self.is(Fault::NoBatch) {
                    batch(message);
                }
            },
        )
    }
}

fn answer(version: KmipVersion, count: u32, batch: impl Fn(&mut Writer)) -> Response {
    Response::Kmip(Writer::message(code::RESPONSE_MESSAGE, |message| {
        message.structure(code::RESPONSE_HEADER, |header| {
            header.structure(code::PROTOCOL_VERSION, |spoken| {
                spoken.integer(code::PROTOCOL_VERSION_MAJOR, version.0.into());
                spoken.integer(code::PROTOCOL_VERSION_MINOR, version.1.into());
            });
            header.text(0x54_0001, "of this maker's own");
            header.integer(code::BATCH_COUNT, count as i32);
        });
        batch(message);
    }))
}

/// Some say which operation they refuse, and all may do it by the oldest version.
fn refusal(operation: u32, reason: Option<u32>, said: &str) -> Response {
    answer(KmipVersion(1, 0), 1, |message| {
        message.structure(code::BATCH_ITEM, |item| {
            item.enumeration(code::OPERATION, operation);
            item.enumeration(code::RESULT_STATUS, 1);
            if let Some(reason) = reason {
                item.enumeration(code::RESULT_REASON, reason);
            }
            if !said.is_empty() {
                item.text(code::RESULT_MESSAGE, said);
            }
        });
    })
}

fn question<T: fmt::Debug>(next: Next<T>) -> Question<T> {
    match next {
        Next::Ask(question) => question,
        Next::Done(done) => panic!("{done:?} without having asked"),
    }
}

fn wrap(by: &mut Kmip, server: &mut Server, key: &DataKey) -> Result<WrappedKey, KeyError> {
    let question = question(by.wrap(&binding(), key, &mut random(9))?);
    let response = server.answer(question.request());
    question.answer(&response)
}

fn unwrap(by: &mut Kmip, server: &mut Server, wrapped: &WrappedKey) -> Result<DataKey, KeyError> {
    let question = question(by.unwrap(&binding(), wrapped)?);
    let response = server.answer(question.request());
    question.answer(&response)
}

/// A wrap of a key, and the key.
fn wrapped(way: KmipWay, server: &mut Server) -> (WrappedKey, DataKey) {
    let key = DataKey::generate(&mut random(1));
    (wrap(&mut kmip(way), server, &key).unwrap(), key)
}

fn why(error: KeyError) -> KmipError {
    match error {
        KeyError::Kmip { why, .. } | KeyError::KmipProbe(why) => why,
        other => panic!("{other}"),
    }
}

#[test]
fn both_ways_make_the_same_of_the_same() {
    let mut server = Server::new();
    let (by_server, key) = wrapped(KmipWay::Encrypt, &mut server);
    let (by_us, _) = wrapped(KmipWay::Get, &mut server);
    assert_eq!(by_server.to_text(), by_us.to_text());
    assert_eq!(by_server.wrapped_by(), format!("kmip {UUID}"));
    assert!(by_server.wrapping_key().is_kept_elsewhere());
    assert_eq!(by_server.transit_version(), None);
    let read = WrappedKey::parse(&by_server.to_text()).unwrap();
    assert_eq!(read, by_server);
    for way in WAYS {
        let opened = unwrap(&mut kmip(way), &mut server, &read).unwrap();
        assert_eq!(opened.expose(), key.expose());
        assert!(kmip(way).has(&read.wrapping_key()).unwrap());
    }
    assert_eq!(server.asked, [0x1f, 0x0a, 0x20, 0x0a]);
    let shown = format!(
        "{:?} {:?}",
        kmip(KmipWay::Get),
        kmip(KmipWay::Get).probe(&mut random(1))
    );
    assert!(shown.contains("bytes)"), "{shown}");
}

#[test]
fn names_and_versions_are_checked() {
    for wrong in ["", "a b", "a\"b", "ä", "a\n", "a,b", &"a".repeat(129)] {
        let made = Kmip::new(wrong, KmipWay::Get, KmipVersion::USUAL).map(|_| ());
        assert_eq!(made, Err(BadKmip::Name), "{wrong}");
    }
    for good in ["1", UUID, "name/of=it:1.2@x+y_z", &"a".repeat(128)] {
        assert!(Kmip::new(good, KmipWay::Get, KmipVersion::USUAL).is_ok(), "{good}");
    }
    let mut spoken = Vec::new();
    for text in ["1.0", "1.1", "1.2", "1.3", "1.4", "2.0", "2.1"] {
        let version = KmipVersion::parse(text).unwrap();
        assert_eq!(version.to_string(), text);
        assert!(Kmip::new("1", KmipWay::Get, version).is_ok());
        if Kmip::new("1", KmipWay::Encrypt, version).is_ok() {
            spoken.push(text);
        }
    }
    assert_eq!(spoken, ["1.4", "2.0", "2.1"]);
    for text in ["", "1", "1.5", "1.40", "3.0", "01.4"] {
        assert_eq!(KmipVersion::parse(text), None, "{text}");
    }
    assert_eq!(KmipWay::parse("Encrypt"), None);
    // By another version each.
    let mut server = Server::new();
    server.version = KmipVersion(2, 1);
    let key = DataKey::generate(&mut random(1));
    for way in WAYS {
        let mut by = Kmip::new("2", way, server.version).unwrap();
        let wrapped = wrap(&mut by, &mut server, &key).unwrap();
        assert_eq!(unwrap(&mut by, &mut server, &wrapped).unwrap().expose(), key.expose());
        // Of a node that was given another key nothing is asked.
        let refused = kmip(way).unwrap(&binding(), &wrapped).unwrap_err().to_string();
        assert!(
            refused.contains("the KMIP server's key 2") && refused.contains("give it that one"),
            "{refused}"
        );
        let refused = kmip(way)
            .wrap_by(&wrapped.wrapping_key(), &binding(), &key, &mut random(1))
            .unwrap_err();
        assert!(matches!(refused, KeyError::NotHere { .. }), "{refused}");
    }
}

#[test]
fn an_answer_that_is_not_as_it_should_be_gives_nothing() {
    use Fault as F;
    let of_all = [
        (F::Version, "say version=1.5"),
        (F::Operation, "another operation"),
        (F::NoOperation, "another operation"),
        (F::Key, "another key"),
        (F::NoKey, "another key"),
        (F::Payload, "it gives nothing"),
        (F::Batch, "more answers than"),
        (F::NoBatch, "no answer in it"),
        (F::Pending, "come later"),
        (F::Status, "what has come of it"),
        (F::Twice, "is there twice"),
    ];
    let of_encrypt = [
        (F::Data, "nothing encrypted"),
        (F::Short, "another length"),
        (F::Tag, "16 bytes"),
        (F::NoTag, "nothing is bound"),
        (F::Nonce, "another nonce"),
    ];
    let of_get = [
        (F::Object, "no symmetric key"),
        (F::Format, "raw bytes"),
        (F::Algorithm, "no key of AES"),
        (F::Bits, "256 bits"),
        (F::Length, "256 bits"),
        (F::Wrapped, "wrapped by another key"),
        (F::Value, "no value"),
    ];
    for way in WAYS {
        let mut server = Server::new();
        let (good, key) = wrapped(way, &mut server);
        let own: &[(F, &str)] = if way == KmipWay::Get { &of_get } else { &of_encrypt };
        for (fault, said) in of_all.iter().chain(own) {
            server.fault = Some(*fault);
            let refused = wrap(&mut kmip(way), &mut server, &key).unwrap_err().to_string();
            assert!(refused.contains(said), "{fault:?}: {refused}");
            let probed = kmip(way).probe(&mut random(1));
            let response = server.answer(probed.request());
            assert!(probed.answer(&response).is_err(), "{fault:?}");
            if own == of_encrypt && own.contains(&(*fault, said)) {
                continue;
            }
            let refused = unwrap(&mut kmip(way), &mut server, &good).unwrap_err().to_string();
            assert!(refused.contains(said), "{fault:?}: {refused}");
        }
    }
    let mut server = Server::new();
    let (good, _) = wrapped(KmipWay::Encrypt, &mut server);
    server.fault = Some(F::Data);
    let refused = unwrap(&mut kmip(KmipWay::Encrypt), &mut server, &good).unwrap_err();
    assert!(refused.to_string().contains("nothing decrypted"), "{refused}");
    server.fault = Some(F::Short);
    let refused = unwrap(&mut kmip(KmipWay::Encrypt), &mut server, &good).unwrap_err();
    assert!(matches!(refused, KeyError::NoKey { .. }), "{refused}");
    // What is no message at all, and what is of another protocol.
    for body in [&b""[..], b"HTTP/1.1 400 Bad Request", &[0x42, 0, 0x7b, 1, 0, 0, 0, 8]] {
        let asked = question(kmip(KmipWay::Get).unwrap(&binding(), &good).unwrap());
        let refused = asked
            .answer(&Response::Kmip(Zeroizing::new(body.to_vec())))
            .unwrap_err();
        assert!(matches!(why(refused), KmipError::Ttlv(_)), "{body:?}");
    }
    let asked = question(kmip(KmipWay::Get).unwrap(&binding(), &good).unwrap());
    let http = Response::Http(crate::provider::HttpResponse {
        status: 200,
        body: Zeroizing::default(),
    });
    assert!(matches!(asked.answer(&http).unwrap_err(), KeyError::OtherProtocol));
}

#[test]
fn refusals_say_what_to_do() {
    let mut server = Server::new();
    let (good, _) = wrapped(KmipWay::Encrypt, &mut server);
    let mut refused = |reason, said| {
        server.refuses = Some((reason, said));
        why(unwrap(&mut kmip(KmipWay::Encrypt), &mut server, &good).unwrap_err())
    };
    for (reason, name, what, is_passing, is_of_all) in [
        (Some(0x01), "Item Not Found", "unique identifier", false, true),
        (Some(0x03), "Authentication Not Successful", "cert-file", false, true),
        (Some(0x39), "Not Authorised", "cert-file", false, true),
        (
            Some(0x05),
            "Operation Not Supported",
            "it has to have done once",
            false,
            true,
        ),
        (Some(0x07), "Invalid Field", "the record was changed", false, false),
        (
            Some(0x24),
            "Bad Cryptographic Parameters",
            "the record was changed",
            false,
            false,
        ),
        (Some(0x04), "Invalid Message", "version=", false, true),
        (
            Some(0x0a),
            "Cryptographic Failure",
            "the record was changed",
            false,
            false,
        ),
        (Some(0x100), "General Failure", "the server's log", false, false),
        (Some(0x0c), "Permission Denied", "Cryptographic Usage Mask", false, true),
        (Some(0x43), "Wrong Key Lifecycle State", "activate", false, true),
        (Some(0x36), "Object Destroyed", "restore it", false, true),
        (Some(0x17), "Not Extractable", "way=encrypt", false, true),
        (Some(0x10), "Key Format Type", "256 bits", false, true),
        (Some(0x1a), "Usage Limit Exceeded", "usage limits", false, true),
        (Some(0x2a), "Internal Server Error", "it says so", true, true),
        (Some(0x3a), "Server Limit Exceeded", "it says so", true, true),
        (Some(0x7777), "reason 0x7777", "it says so", false, true),
        (None, "it gives no reason", "it says so", false, true),
    ] {
        let error = refused(reason, "it says so");
        let told = error.to_string();
        assert!(
            told.contains(name) && told.contains(": it says so)") && told.contains(what),
            "{told}"
        );
        assert_eq!(
            (error.is_passing(), error.is_of_all()),
            (is_passing, is_of_all),
            "{told}"
        );
        assert!(!told.contains("way=get"), "what was wrapped is there: {told}");
    }
    // Its words are shortened, and control nobody's terminal.
    let long: &'static str = "x".repeat(1000).leak();
    let KmipError::Refused { said, .. } = refused(Some(1), long) else {
        panic!("a refusal");
    };
    assert_eq!(said, "x".repeat(200));
    let KmipError::Refused { said, .. } = refused(Some(1), "a\u{1b}[31mb") else {
        panic!("a refusal");
    };
    assert_eq!(said, "a[31mb");
}

/// What is bound to a key is authenticated, by the server or here: a record that was changed does not open, whoever changed it.
#[test]
fn a_changed_record_does_not_open() {
    for way in WAYS {
        let mut server = Server::new();
        let (good, _) = wrapped(way, &mut server);
        let text = good.to_text();
        let at = |name: &str| text.find(&format!("\"{name}\":\"")).unwrap() + name.len() + 4;
        for place in [at("check"), at("nonce"), at("wrapped"), text.rfind("\"}}").unwrap() - 1] {
            let mut changed = text.clone();
            let digit = if &changed[place..=place] == "0" { "1" } else { "0" };
            changed.replace_range(place..=place, digit);
            let read = WrappedKey::parse(&changed).unwrap();
            let refused = unwrap(&mut kmip(way), &mut server, &read).unwrap_err().to_string();
            assert!(refused.contains("the record was changed"), "{refused}");
        }
        // Another key has its identifier now.
        server.keys.insert(UUID, [3; 32]);
        let refused = unwrap(&mut kmip(way), &mut server, &good).unwrap_err().to_string();
        assert!(refused.contains("another one than it was"), "{refused}");
        for (from, to) in [(UUID, "a b"), (UUID, ""), (UUID, &"a".repeat(129))] {
            let refused = WrappedKey::parse(&text.replace(from, to)).unwrap_err();
            assert_eq!(why(refused), KmipError::Record);
        }
    }
}

/// One server may serve several clusters with one key: what is one's does not open as another's.
#[test]
fn what_is_wrapped_is_the_clusters() {
    for way in WAYS {
        let mut server = Server::new();
        let key = DataKey::generate(&mut random(1));
        let (mut ours, mut theirs) = (kmip(way), kmip(way));
        ours.of_cluster(ClusterId(1));
        theirs.of_cluster(ClusterId(2));
        let made = wrap(&mut ours, &mut server, &key).unwrap();
        let read = WrappedKey::parse(&made.to_text()).unwrap();
        assert_eq!(unwrap(&mut ours, &mut server, &read).unwrap().expose(), key.expose());
        let asked = server.asked.len();
        let refused = unwrap(&mut theirs, &mut server, &read).unwrap_err().to_string();
        assert!(refused.contains("another one's metadata"), "{refused}");
        assert_eq!(server.asked.len(), asked, "nobody is asked");
        // And who changes what the record says, or leaves it out, has changed what is authenticated.
        let text = made.to_text();
        let at = text.find("\"cluster\"").unwrap();
        let end = at + text[at..].find(',').unwrap();
        let moved = format!("{}\"cluster\":\"{}\"{}", &text[..at], ClusterId(2), &text[end..]);
        let without = format!("{}{}", &text[..at], &text[end + 1..]);
        for changed in [moved, without] {
            let read = WrappedKey::parse(&changed).unwrap();
            let refused = unwrap(&mut theirs, &mut server, &read).unwrap_err().to_string();
            assert!(refused.contains("the record was changed"), "{refused}");
        }
    }
}

#[test]
fn a_server_that_binds_nothing_is_found_out() {
    /// What it refuses, question by question, from the second one on.
    fn ask(server: &mut Server, way: KmipWay, refuses: &[Option<u32>]) -> Result<usize, KeyError> {
        let mut next = Some(kmip(way).probe(&mut random(5)));
        let mut asked = 0usize;
        while let Some(question) = next {
            let refused = asked.checked_sub(1).and_then(|at| *refuses.get(at)?);
            server.refuses = refused.map(|reason| (Some(reason), ""));
            let response = server.answer(question.request());
            next = question.answer(&response)?.0;
            asked += 1;
        }
        Ok(asked)
    }
    let encrypt = KmipWay::Encrypt;
    assert_eq!(ask(&mut Server::new(), encrypt, &[]).unwrap(), 3);
    let mut old = Server::new();
    old.is_old = true;
    let refused = ask(&mut old, encrypt, &[]).unwrap_err();
    assert!(refused.to_string().contains("KMIP 1.4"), "{refused}");
    assert_eq!(why(refused), KmipError::BindsNothing);
    // What is no answer proves nothing, whatever else is refused.
    for (reason, proves) in [
        (0x07, true),
        (0x0a, true),
        (0x24, true),
        (0x100, true),
        (0x01, false),
        (0x03, false),
        (0x0c, false),
        (0x2a, false),
    ] {
        let told = ask(&mut Server::new(), encrypt, &[Some(reason)]);
        assert_eq!(told.is_ok(), proves, "{reason:#x}");
        // Nor where it refuses what is right as well.
        for again in [0x07, 0x0a, 0x100, 0x0c] {
            let told = ask(&mut Server::new(), encrypt, &[Some(reason), Some(again)]);
            assert!(told.is_err(), "{reason:#x}, then {again:#x}");
        }
    }
    // A trouble that has passed was no refusal of what is bound to something else.
    let told = ask(&mut old, encrypt, &[Some(0x100)]).unwrap_err();
    assert_eq!(why(told), KmipError::BindsNothing, "it is asked once more");
    // Where it gives the key nothing of that is to be asked.
    assert_eq!(ask(&mut Server::new(), KmipWay::Get, &[]).unwrap(), 1);
}

#[test]
fn only_who_wraps_for_the_first_time_is_told_to_have_the_key_given() {
    let mut server = Server::new();
    let key = DataKey::generate(&mut random(1));
    for reason in [0x05, 0x07, 0x08, 0x24, 0x3e] {
        server.refuses = Some((Some(reason), ""));
        let told = wrap(&mut kmip(KmipWay::Encrypt), &mut server, &key).unwrap_err();
        assert!(told.to_string().contains("way=get"), "{told}");
        let told = wrap(&mut kmip(KmipWay::Get), &mut server, &key).unwrap_err();
        assert!(!told.to_string().contains("way=get"), "{told}");
        assert!(why(told).is_of_all(), "there is no record");
    }
}

#[test]
fn an_answer_is_looked_at_before_it_is_given_on() {
    let mut server = Server::new();
    let asked = kmip(KmipWay::Get).probe(&mut random(1));
    let bytes = |response| match response {
        Response::Kmip(bytes) => bytes,
        Response::Http(_) => panic!("it is KMIP's"),
    };
    let good = bytes(server.answer(asked.request()));
    let Request::Kmip(request) = asked.request() else {
        panic!("it is KMIP's");
    };
    assert_eq!(look(request, &good), Ok(()));
    assert_eq!(answer_length(*good.first_chunk().unwrap()), Ok(good.len()));
    server.refuses = Some((Some(3), "who are you"));
    let refused = look(request, &bytes(server.answer(asked.request()))).unwrap_err();
    assert!(refused.is_of_all() && !refused.is_passing());
    assert!(look(request, &good[..8]).unwrap_err().is_passing());
}
