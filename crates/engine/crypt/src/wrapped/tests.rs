use super::*;
use crate::provider::sealed_file::SealedFile;
use crate::provider::{Next, Provider};
use zeroize::Zeroizing;

/// The record of data key 00 .. 3f, wrapped with key-encryption key 00 .. 1f and nonce 00 .. 0b: made by another implementation, Python's
/// `cryptography` 48, by what `Label::associated` and the ids say in words.
const RECORD: &str = concat!(
    r#"{"version":1,"algorithm":"aes-256-xts","tenant":"acme","volume":3,"image":7,"number":1,"#,
    r#""check":"e941bbba3dc505392e683340c310ff94","by":{"sealed-file":{"kek":"c6aa7ebb8323b8fa","nonce":"000102030405060708090a0b","#,
    r#""wrapped":"4703d418c1e0c41c85489d80bde4766293c79527e46e496b207eff9e01741ead21318cdf8be434b"#,
    r#"f5c8d55c6a4aa0617de6852be6ee395ed07ae102224decbd187df98b69a1259a324bba0d410fabe35"}}}"#
);

fn counting(bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = at as u8;
    }
}

fn file(first: u8) -> SealedFile {
    let mut kek = Zeroizing::new([0; 32]);
    counting(&mut kek[..]);
    kek.iter_mut().for_each(|byte| *byte ^= first);
    SealedFile::new(vec![kek]).unwrap()
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

fn unwrap(provider: &mut dyn Provider, binding: &Binding, wrapped: &WrappedKey) -> Result<DataKey, KeyError> {
    provider
        .unwrap(binding, wrapped)
        .map(|next| next.done().expect("nobody to ask"))
}

#[test]
fn the_record_is_what_another_implementation_makes() {
    let key = DataKey::generate(&mut counting);
    let wrapped = file(0).wrap(&binding(), &key, &mut counting).unwrap();
    let wrapped = wrapped.done().unwrap();
    assert_eq!(wrapped.to_text(), RECORD);
    let read = WrappedKey::parse(RECORD).unwrap();
    assert_eq!(read, wrapped);
    assert_eq!(read.binding(), &binding());
    assert_eq!(read.wrapped_by(), "sealed-file c6aa7ebb8323b8fa");
    let opened = unwrap(&mut file(0), &binding(), &read).unwrap();
    assert_eq!(opened.expose(), key.expose());
}

#[test]
fn a_key_without_a_tenant_is_not_one_of_a_tenant() {
    let key = DataKey::generate(&mut counting);
    let mut nobodys = binding();
    nobodys.tenant = None;
    let wrapped = file(0).wrap(&nobodys, &key, &mut counting).unwrap().done().unwrap();
    let text = wrapped.to_text();
    assert!(!text.contains("tenant"), "{text}");
    let read = WrappedKey::parse(&text).unwrap();
    assert!(unwrap(&mut file(0), &nobodys, &read).is_ok());
    let refused = unwrap(&mut file(0), &binding(), &read).unwrap_err();
    assert!(matches!(refused, KeyError::Tenant { .. }), "{refused}");
    // Given a tenant by whoever can write the record, it does not open.
    let changed = text.replace("\"volume\"", "\"tenant\":\"acme\",\"volume\"");
    let refused = unwrap(&mut file(0), &binding(), &WrappedKey::parse(&changed).unwrap()).unwrap_err();
    assert!(matches!(refused, KeyError::Damaged { .. }), "{refused}");
}

#[test]
fn what_was_cut_off_is_none() {
    for length in 0..RECORD.len() {
        let refused = WrappedKey::parse(&RECORD[..length]).unwrap_err();
        assert!(matches!(refused, KeyError::Form { .. }), "{length}: {refused}");
    }
}

#[test]
fn what_was_changed_does_not_open() {
    let (mut parsed, mut opened) = (0, 0);
    for at in 0..RECORD.len() {
        for byte in *b"019af \"\\,:{z" {
            let mut changed = RECORD.as_bytes().to_vec();
            if changed[at] == byte {
                continue;
            }
            changed[at] = byte;
            let changed = String::from_utf8(changed).unwrap();
            let Ok(wrapped) = WrappedKey::parse(&changed) else {
                continue;
            };
            parsed += 1;
            opened += usize::from(unwrap(&mut file(0), &binding(), &wrapped).is_ok());
        }
    }
    // Digits of the numbers and the bytes are read; nothing that is read opens.
    assert!(parsed > 1000, "{parsed}");
    assert_eq!(opened, 0);
}

/// Every field is looked at before anything is opened, or is authenticated.
#[test]
fn a_record_in_anothers_place_is_said_to_be_that() {
    let read = WrappedKey::parse(RECORD).unwrap();
    let elsewhere = |change: &dyn Fn(&mut Binding)| {
        let mut other = binding();
        change(&mut other);
        unwrap(&mut file(0), &other, &read).unwrap_err()
    };
    let changes: [&dyn Fn(&mut Binding); 3] = [
        &|other| other.key.volume = VolumeId(4),
        &|other| other.key.image = VolumeId(3),
        &|other| other.key.number = KeyNumber(2),
    ];
    for change in changes {
        let refused = elsewhere(change);
        assert!(matches!(refused, KeyError::Elsewhere { .. }), "{refused}");
    }
    let refused = elsewhere(&|other| other.tenant = Some("acme2".into()));
    assert!(matches!(refused, KeyError::Tenant { .. }), "{refused}");
    // And where the record is made to say what is expected of it.
    for (from, to) in [
        ("\"volume\":3", "\"volume\":4"),
        ("\"image\":7", "\"image\":3"),
        ("\"number\":1", "\"number\":2"),
        ("\"acme\"", "\"acme2\""),
    ] {
        let wrapped = WrappedKey::parse(&RECORD.replace(from, to)).unwrap();
        let refused = unwrap(&mut file(0), &wrapped.binding().clone(), &wrapped).unwrap_err();
        assert!(matches!(refused, KeyError::Damaged { .. }), "{to}: {refused}");
    }
}

#[test]
fn another_key_encryption_key_is_named() {
    let read = WrappedKey::parse(RECORD).unwrap();
    let refused = unwrap(&mut file(1), &binding(), &read).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "data key 1 of volume 3 (image 7) was wrapped with key-encryption key c6aa7ebb8323b8fa, which is not in this node's file: give it \
         the cluster's, with that line"
    );
}

#[test]
fn a_key_that_is_another_one_is_found_before_it_is_used() {
    let label = WrappedKey::parse(RECORD).unwrap().label;
    let other: Vec<u8> = (1..=64).collect();
    let refused = label.accept(&other).unwrap_err();
    assert!(matches!(refused, KeyError::OtherKey { .. }), "{refused}");
    assert!(refused.to_string().ends_with("nothing was read with it"), "{refused}");
    let refused = label.accept(&other[..32]).unwrap_err();
    assert!(
        matches!(
            refused,
            KeyError::NoKey {
                why: BadKey::Length { given: 32 },
                ..
            }
        ),
        "{refused}"
    );
    let refused = label.accept(&[1; 64]).unwrap_err();
    assert!(
        matches!(
            refused,
            KeyError::NoKey {
                why: BadKey::Halves,
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn a_later_version_is_said_to_be_that() {
    let later = r#"{"version": 2, "cipher": "something", "of": []}"#;
    let refused = WrappedKey::parse(later).unwrap_err();
    assert!(matches!(refused, KeyError::Version { version: 2 }), "{refused}");
}

#[test]
fn records_have_bounds_and_no_more_fields() {
    let form = |text: &str| {
        assert!(
            matches!(WrappedKey::parse(text), Err(KeyError::Form { .. })),
            "{text:.80}"
        )
    };
    form("");
    form("[]");
    form(&format!("{RECORD} {}", " ".repeat(MAX_RECORD_BYTES)));
    form(&RECORD.replace("\"number\":1,", "\"number\":1,\"more\":1,"));
    form(&RECORD.replace("\"number\":1,", "\"number\":1,\"number\":1,"));
    form(&RECORD.replace("\"nonce\"", "\"more\":1,\"nonce\""));
    form(&RECORD.replace("\"number\":1,", ""));
    form(&RECORD.replace("\"number\":1", "\"number\":-1"));
    form(&RECORD.replace("acme", ""));
    form(&RECORD.replace("acme", &"a".repeat(MAX_TENANT_BYTES + 1)));
    form(&RECORD.replace("sealed-file", "kmip"));
    form(&RECORD.replace("sealed-file", "pkcs11"));
    form(&RECORD.replace("c6aa7ebb8323b8fa", "C6AA7EBB8323B8FA"));
    assert!(WrappedKey::parse(&RECORD.replace("acme", &"a".repeat(MAX_TENANT_BYTES))).is_ok());
}

/// Two records never have the same bytes authenticated, whatever their texts run into.
#[test]
fn parts_do_not_run_into_each_other() {
    let key = DataKey::generate(&mut counting);
    let label = Label::new(&binding(), &key);
    let transit = |mount: &str, key: &str| {
        label.associated(&Told::Transit {
            mount,
            key,
            cluster: None,
        })
    };
    assert_ne!(transit("ab", "c"), transit("a", "bc"));
    let kek = Hex([1; KEK_ID_BYTES]);
    let mut all = vec![transit("ab", "c"), label.associated(&Told::SealedFile { kek: &kek })];
    for cost in [Cost::LEAST, Cost::RECOMMENDED] {
        let salt = &Hex([2; SALT_BYTES]);
        all.push(label.associated(&Told::Passphrase { kek: &kek, salt, cost }));
    }
    let mut other = binding();
    other.tenant = Some(String::new());
    all.push(Label::new(&other, &key).associated(&Told::SealedFile { kek: &kek }));
    other.tenant = None;
    all.push(Label::new(&other, &key).associated(&Told::SealedFile { kek: &kek }));
    for (at, one) in all.iter().enumerate() {
        assert!(all[at + 1..].iter().all(|later| later != one), "{at}");
    }
}

#[test]
fn nobody_has_to_be_asked_of_a_file() {
    let key = DataKey::generate(&mut counting);
    let next = file(0).wrap(&binding(), &key, &mut counting).unwrap();
    assert!(matches!(next, Next::Done(_)));
}
