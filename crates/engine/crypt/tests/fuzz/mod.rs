//! What stands in the metadata of keys, and what Vault answers, out of any bytes. Used by `tests/fuzz.rs` on stable, and under libFuzzer by
//! the targets in `fuzz/`.
//!
//! What must hold: nothing panics; what is read as a record has one text that gives the same record again, and never opens unless it is
//! the one that was made here; no refusal of a record repeats more than a few characters of it; an answer gives no key but the one that
//! the record's check value names.

use amita_crypt::{
    Binding, DataKey, HttpResponse, KeyName, KeyNumber, KeyRing, Next, Provider, SealedFile, Transit, WrappedKey,
    Zeroizing,
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
        if let Ok(next) = transit().unwrap(&wanted, &wrapped) {
            assert!(matches!(next, Next::Ask(_)));
        }
    }
}

/// What Vault says to both questions; the first byte is the status: of success, or any.
pub fn vault_answer(input: &[u8]) {
    let status = match input.first() {
        None | Some(0..=191) => 200,
        Some(other) => 200 + 2 * u16::from(*other),
    };
    let response = |body: &[u8]| HttpResponse {
        status,
        body: Zeroizing::new(body.to_vec()),
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
