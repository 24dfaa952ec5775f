//! What stands in the metadata of keys, and what Vault or a KMIP server answers, out of any bytes. Used by `tests/fuzz.rs` on stable, and under libFuzzer by
//! the targets in `fuzz/`.
//!
//! What must hold: nothing panics; what is read as a record has one text that gives the same record again, and never opens unless it is
//! the one that was made here; no refusal of a record repeats more than a few characters of it; an answer gives no key but the one that
//! the record's check value names.

use amita_crypt::{
    Binding, DataKey, HttpResponse, KeyName, KeyNumber, KeyRing, Kmip, KmipProbed, KmipVersion, KmipWay, Next,
    Provider, Response, SealedFile, Transit, WrappedKey, Zeroizing,
};
use amita_types::VolumeId;
use std::sync::OnceLock;

/// A refusal may show so many characters of what was wrong in a row: the digits of a number, or the id of a key-encryption key.
const MAX_SHOWN: usize = 20;
const CHECK: &str = "e941bbba3dc505392e683340c310ff94";

fn counting(bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = at as u8;
    }
}

fn file() -> SealedFile {
    let mut kek = Zeroizing::new([0; 32]);
    counting(&mut kek[..]);
    SealedFile::new(vec![kek]).expect("a key")
}

fn transit() -> Transit {
    Transit::new("transit", "amita", None, "token").expect("names")
}

fn kmip(way: KmipWay) -> Kmip {
    Kmip::new("amita", way, KmipVersion::USUAL).expect("a name")
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

/// The one that opens.
fn right() -> &'static str {
    static RIGHT: OnceLock<String> = OnceLock::new();
    RIGHT.get_or_init(|| {
        let key = DataKey::generate(&mut counting);
        let wrapped = file().wrap(&binding(), &key, &mut counting).expect("it wraps");
        wrapped.done().expect("nobody to ask").to_text()
    })
}

/// Records of each kind, and a ring of keys.
pub fn seeds() -> Vec<Vec<u8>> {
    let head = |rest: &str| {
        format!(
            r#"{{"version":1,"algorithm":"aes-256-xts","tenant":"acme","volume":3,"image":7,"number":1,"check":"{CHECK}","by":{rest}}}"#
        )
    };
    let passphrase = format!(
        concat!(
            r#"{{"passphrase":{{"kek":"0011223344556677","salt":"{}","argon2id":{{"memory-kib":65536,"passes":3,"lanes":4}},"#,
            r#""nonce":"{}","wrapped":"{}"}}}}"#
        ),
        "5a".repeat(16),
        "0b".repeat(12),
        "c3".repeat(80)
    );
    let texts = [
        right().into(),
        head(&passphrase),
        head(
            r#"{"transit":{"mount":"transit","key":"amita","wrapped":"vault:v1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}}"#,
        ),
        head(&format!(
            r#"{{"kmip":{{"key":"amita","cluster":"00000000000000000000000000000001","nonce":"{}","wrapped":"{}"}}}}"#,
            "0b".repeat(12),
            "c3".repeat(80)
        )),
        r#"[{"from":0,"key":{"volume":1,"image":1,"number":1}},{"from":5,"key":{"volume":1,"image":1,"number":2}}]"#
            .into(),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}

/// Answers of both kinds, and refusals.
pub fn answers() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"data":{"plaintext":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="}}"#,
        r#"{"request_id":"b2f1","data":{"ciphertext":"vault:v3:AAECAwQFBgcICQoLDA0ODxAREhM=","key_version":3},"warnings":null}"#,
        r#"{"errors":["cipher: message authentication failed"]}"#,
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// One item of TTLV.
fn item(tag: u32, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((tag << 8) | u32::from(kind)).to_be_bytes().to_vec();
    bytes.extend((value.len() as u32).to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Answers of a KMIP server's to the three operations, and a refusal.
pub fn messages() -> Vec<Vec<u8>> {
    let number = |tag, kind, value: u32| item(tag, kind, &value.to_be_bytes());
    let version = [number(0x42_006a, 2, 1), number(0x42_006b, 2, 4)].concat();
    let header = [
        item(0x42_0069, 1, &version),
        item(0x42_0092, 9, &[0; 8]),
        number(0x42_000d, 2, 1),
    ];
    let header = item(0x42_007a, 1, &header.concat());
    let whole = |inside: &[Vec<u8>]| {
        let batch = item(0x42_000f, 1, &inside.concat());
        item(0x42_007b, 1, &[header.clone(), batch].concat())
    };
    let done = |operation, payload: &[Vec<u8>]| {
        let payload = [&[item(0x42_0094, 7, b"amita")], payload].concat().concat();
        whole(&[
            number(0x42_005c, 5, operation),
            number(0x42_007f, 5, 0),
            item(0x42_007c, 1, &payload),
        ])
    };
    let mut key = [0; 64];
    counting(&mut key);
    let block = [
        number(0x42_0042, 5, 1),
        item(0x42_0045, 1, &item(0x42_0043, 8, &key[..32])),
        number(0x42_0028, 5, 3),
        number(0x42_002a, 2, 256),
    ];
    let object = item(0x42_008f, 1, &item(0x42_0040, 1, &block.concat()));
    vec![
        done(0x1f, &[item(0x42_00c2, 8, &key), item(0x42_00ff, 8, &key[..16])]),
        done(0x20, &[item(0x42_00c2, 8, &key)]),
        done(0x0a, &[number(0x42_0057, 5, 2), object]),
        whole(&[
            number(0x42_005c, 5, 0x0a),
            number(0x42_007f, 5, 1),
            number(0x42_007e, 5, 1),
            item(0x42_007d, 7, b"there is none"),
        ]),
    ]
}

/// What a KMIP server says to all questions.
pub fn kmip_answer(input: &[u8]) {
    let response = || Response::Kmip(Zeroizing::new(input.to_vec()));
    let key = DataKey::generate(&mut counting);
    for way in [KmipWay::Encrypt, KmipWay::Get] {
        let Ok(Next::Ask(question)) = kmip(way).wrap(&binding(), &key, &mut counting) else {
            panic!("a server is asked");
        };
        let made = question.answer(&response());
        // What was made here opens by the same answer, where it is a key.
        let (label, _) = right().split_once("{\"sealed-file\"").expect("by a file");
        let record = format!(
            r#"{label}{{"kmip":{{"key":"amita","nonce":"{}","wrapped":"{}"}}}}}}"#,
            "0b".repeat(12),
            "c3".repeat(80)
        );
        let record = match &made {
            Ok(wrapped) => WrappedKey::parse(&wrapped.to_text()).expect("its own text"),
            Err(_) => WrappedKey::parse(&record).expect("a record"),
        };
        let Ok(Next::Ask(question)) = kmip(way).unwrap(&binding(), &record) else {
            panic!("a server is asked");
        };
        match question.answer(&response()) {
            Ok(opened) => assert_eq!(opened.check_value(), record.check_value()),
            Err(why) => assert!(way == KmipWay::Encrypt || made.is_err(), "{why}"),
        }
        if let Ok(KmipProbed(Some(second))) = kmip(way).probe(&mut counting).answer(&response()) {
            assert!(second.answer(&response()).is_err(), "what binds nothing is refused");
        }
    }
}

/// Does what was said show a long piece of the text?
fn shows(said: &str, text: &str) -> bool {
    let characters: Vec<char> = text.chars().collect();
    let mut pieces = characters
        .windows(MAX_SHOWN + 1)
        .map(|piece| piece.iter().collect::<String>());
    pieces.any(|piece| said.contains(&piece))
}

/// A record of a data key, or a ring.
pub fn wrapped_key(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(ring) = serde_json::from_str::<KeyRing>(&text) {
        let again = serde_json::to_string(&ring).expect("numbers");
        assert_eq!(serde_json::from_str::<KeyRing>(&again).expect("its own text"), ring);
    }
    let wrapped = match WrappedKey::parse(&text) {
        Ok(wrapped) => wrapped,
        Err(why) => return assert!(!shows(&why.to_string(), &text), "{why}"),
    };
    let own = wrapped.to_text();
    assert_eq!(WrappedKey::parse(&own).expect("its own text"), wrapped);
    // Asked for exactly what it says, and for what was wrapped here.
    for wanted in [wrapped.binding().clone(), binding()] {
        match file().unwrap(&wanted, &wrapped) {
            Ok(Next::Done(key)) => assert!(own == right() && key.check_value() == wrapped.check_value()),
            Ok(Next::Ask(question)) => panic!("a file asks nobody, not {question:?}"),
            Err(why) => assert!(!shows(&why.to_string(), &text), "{why}"),
        }
        for next in [
            transit().unwrap(&wanted, &wrapped),
            kmip(KmipWay::Encrypt).unwrap(&wanted, &wrapped),
        ] {
            assert!(matches!(next, Err(_) | Ok(Next::Ask(_))));
        }
    }
}

/// What Vault says to both questions; the first byte is the status: of success, or any.
pub fn vault_answer(input: &[u8]) {
    let status = match input.first() {
        None | Some(0..=191) => 200,
        Some(other) => 200 + 2 * u16::from(*other),
    };
    let response = |body: &[u8]| {
        Response::Http(HttpResponse {
            status,
            body: Zeroizing::new(body.to_vec()),
        })
    };
    let key = DataKey::generate(&mut counting);
    for body in [input, input.get(1..).unwrap_or_default()] {
        let Ok(Next::Ask(question)) = transit().wrap(&binding(), &key, &mut counting) else {
            panic!("Vault is asked");
        };
        // What it gives for a wrapped key stands in a record that is read again.
        if let Ok(wrapped) = question.answer(&response(body)) {
            assert_eq!(WrappedKey::parse(&wrapped.to_text()).expect("its own text"), wrapped);
        }
        let (label, _) = right().split_once("{\"sealed-file\"").expect("by a file");
        let record = format!(r#"{label}{{"transit":{{"mount":"transit","key":"amita","wrapped":"vault:v1:AAAA"}}}}}}"#);
        let record = WrappedKey::parse(&record).expect("a record");
        let Ok(Next::Ask(question)) = transit().unwrap(&binding(), &record) else {
            panic!("Vault is asked");
        };
        if let Ok(opened) = question.answer(&response(body)) {
            assert_eq!(opened.check_value(), record.check_value());
        }
    }
}
