use super::*;
use amita_testkit::Random as Numbers;
use amita_types::VolumeId;
use amita_types::map::{KeyName, KeyNumber};

const TEXT: &str = "correct horse battery staple";

fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut numbers = Numbers::new(seed);
    move |bytes: &mut [u8]| bytes.fill_with(|| numbers.bits() as u8)
}

fn binding() -> Binding {
    Binding {
        tenant: Some("acme".into()),
        key: KeyName {
            volume: VolumeId(1),
            image: VolumeId(2),
            number: KeyNumber(3),
        },
    }
}

fn passphrase(text: &str, seed: u64) -> Passphrase {
    Passphrase::new(text, Cost::LEAST, &mut random(seed)).unwrap()
}

fn wrap(by: &mut Passphrase, key: &DataKey) -> WrappedKey {
    by.wrap(&binding(), key, &mut random(9)).unwrap().done().unwrap()
}

fn unwrap(by: &mut Passphrase, wrapped: &WrappedKey) -> Result<DataKey, KeyError> {
    by.unwrap(&binding(), wrapped).map(|next| next.done().unwrap())
}

/// The reference implementation's own test of Argon2id, version 1.3 (phc-winner-argon2, `src/test.c`): one lane, two passes, 64 MiB.
#[test]
fn it_is_argon2id_of_the_reference() {
    let cost = Cost {
        memory_kib: 64 << 10,
        passes: 2,
        lanes: 1,
    };
    let key = stretch(b"password", b"somesalt", cost).unwrap();
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7");
}

#[test]
fn another_node_opens_by_the_text_alone() {
    let key = DataKey::generate(&mut random(1));
    let wrapped = wrap(&mut passphrase(TEXT, 2), &key);
    let read = WrappedKey::parse(&wrapped.to_text()).unwrap();
    assert_eq!(read, wrapped);
    // Another salt of its own, and the line end of a file.
    let mut other = passphrase(&format!("{TEXT}\r\n"), 3);
    let opened = unwrap(&mut other, &read).unwrap();
    assert_eq!(opened.expose(), key.expose());
    assert!(
        read.wrapped_by().ends_with("(Argon2id, 19456 KiB, 2 passes, 1 lanes)"),
        "{}",
        read.wrapped_by()
    );
}

#[test]
fn a_wrong_passphrase_is_told_from_a_changed_record() {
    let key = DataKey::generate(&mut random(1));
    let mut right = passphrase(TEXT, 2);
    let text = wrap(&mut right, &key).to_text();
    let wrapped = WrappedKey::parse(&text).unwrap();
    for wrong in [
        "correct horse battery stable",
        "Correct horse battery staple",
        " correct horse battery staple",
    ] {
        let refused = unwrap(&mut passphrase(wrong, 3), &wrapped).unwrap_err();
        assert!(
            matches!(refused, KeyError::OtherPassphrase { .. }),
            "{wrong}: {refused}"
        );
    }
    let By::Passphrase {
        salt,
        wrapped: bytes,
        nonce,
        ..
    } = &wrapped.by
    else {
        unreachable!()
    };
    // The last digit of what is authenticated, and of what says how.
    let flipped = |bytes: &dyn fmt::Display| {
        let from = bytes.to_string();
        let last = if from.ends_with('0') { "1" } else { "0" };
        text.replace(&from, &format!("{}{last}", &from[..from.len() - 1]))
    };
    for changed in [flipped(bytes), flipped(nonce), flipped(&wrapped.check_value())] {
        let refused = unwrap(&mut right, &WrappedKey::parse(&changed).unwrap()).unwrap_err();
        assert!(matches!(refused, KeyError::Damaged { .. }), "{refused}");
    }
    // With another salt or cost the passphrase gives another key.
    for changed in [flipped(salt), text.replace("\"passes\":2", "\"passes\":3")] {
        let refused = unwrap(&mut right, &WrappedKey::parse(&changed).unwrap()).unwrap_err();
        assert!(matches!(refused, KeyError::OtherPassphrase { .. }), "{refused}");
    }
}

#[test]
fn a_salt_is_stretched_once() {
    let key = DataKey::generate(&mut random(1));
    let mut one = passphrase(TEXT, 2);
    let wrapped = wrap(&mut one, &key);
    wrap(&mut one, &key);
    unwrap(&mut one, &wrapped).unwrap();
    assert_eq!(one.made.len(), 1);
    let mut other = passphrase(TEXT, 3);
    let theirs = wrap(&mut other, &key);
    unwrap(&mut one, &theirs).unwrap();
    assert_eq!(one.made.len(), 2);
}

#[test]
fn costs_have_bounds_on_both_sides() {
    let refused = |cost: Cost| {
        assert_eq!(cost.check(), Err(BadPassphrase::Cost { cost }));
        let made = Passphrase::new(TEXT, cost, &mut random(1));
        assert_eq!(made.err(), Some(BadPassphrase::Cost { cost }));
    };
    type Change = fn(&mut Cost);
    let changes: [(Change, Change); 3] = [
        (|cost| cost.memory_kib -= 1, |cost| cost.memory_kib += 1),
        (|cost| cost.passes -= 1, |cost| cost.passes += 1),
        (|cost| cost.lanes -= 1, |cost| cost.lanes += 1),
    ];
    for (less, more) in changes {
        let (mut below, mut above) = (Cost::LEAST, Cost::MOST);
        less(&mut below);
        more(&mut above);
        refused(below);
        refused(above);
    }
    assert!(Cost::RECOMMENDED.check().is_ok() && Cost::MOST.check().is_ok());
}

/// A record cannot make a node take its memory, or make a key of next to nothing.
#[test]
fn a_record_with_another_cost_is_not_read() {
    let key = DataKey::generate(&mut random(1));
    let text = wrap(&mut passphrase(TEXT, 2), &key).to_text();
    for (from, to) in [
        ("\"memory-kib\":19456", "\"memory-kib\":4294967295"),
        ("\"memory-kib\":19456", "\"memory-kib\":8"),
        ("\"passes\":2", "\"passes\":4294967295"),
        ("\"passes\":2", "\"passes\":1"),
        ("\"lanes\":1", "\"lanes\":0"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        let refused = WrappedKey::parse(&changed).unwrap_err();
        assert!(
            matches!(
                refused,
                KeyError::Passphrase {
                    why: BadPassphrase::Cost { .. },
                    ..
                }
            ),
            "{refused}"
        );
    }
}

#[test]
fn a_passphrase_has_a_length() {
    let made = |text: &str| Passphrase::new(text, Cost::LEAST, &mut random(1)).map(|_| ());
    assert_eq!(made("elevenchars\n"), Err(BadPassphrase::Short { characters: 11 }));
    assert_eq!(made("twelve chars"), Ok(()));
    assert_eq!(made("zwölf Zeichn"), Ok(()));
    assert_eq!(made(&"x".repeat(1025)), Err(BadPassphrase::Long { bytes: 1025 }));
}
