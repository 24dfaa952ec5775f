use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11";

/// What `nvme gen-dhchap-key -n HOST -m M -s 000102...` of nvme-cli 2.13 prints.
const DHCHAP: [(Option<Hash>, u8, &str); 4] = [
    (None, 32, "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"),
    (
        Some(Hash::Sha256),
        32,
        "DHHC-1:01:g4kkvxqM6SdtUwrTyVkfWRy564Zlg0uT2QlShmui4OMtmQLp:",
    ),
    (
        Some(Hash::Sha384),
        48,
        "DHHC-1:02:J6YC77g9b4oSBCRLbT4kNRMRb/YNvUQcf90O5DQUtnmi4lT8xETD51br7CH96ufJKZ6xAw==:",
    ),
    (
        Some(Hash::Sha512),
        64,
        "DHHC-1:03:00pFOU1QU1qBc8FyQslxVKYqDKVT6D8n0I4X7IzDsgcTxwxNAWj/XV4y5HX9/RopfS7+12Tyy384IbDZ5/5NHodBns0=:",
    ),
];

#[test]
fn secrets_are_those_of_nvme_cli() {
    for (transform, bytes, text) in DHCHAP {
        let raw: Vec<u8> = (0..bytes).collect();
        let made = DhchapSecret::from_raw(transform, HOST, &raw);
        assert_eq!(*made.to_text(), text);
        assert_eq!(DhchapSecret::parse(text).unwrap(), made);
        // A line break from a file is forgiven.
        assert_eq!(DhchapSecret::parse(&format!("{text}\n")).unwrap(), made);
    }
}

/// What `nvme gen-tls-key -m M -s 000102...` of nvme-cli 2.13 prints.
#[test]
fn tls_keys_are_those_of_nvme_cli() {
    for (hash, bytes, text) in [
        (
            Hash::Sha256,
            32,
            "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        ),
        (
            Hash::Sha384,
            48,
            "NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:",
        ),
    ] {
        let made = TlsKey::generate(hash, &mut |out| {
            assert_eq!(out.len(), bytes);
            for (index, byte) in out.iter_mut().enumerate() {
                *byte = index as u8;
            }
        });
        assert_eq!(*made.to_text(), text);
        assert_eq!(TlsKey::parse(text).unwrap(), made);
        assert_eq!(made.cipher_hash(), hash);
        let plain = TlsKey::parse(&text.replace(&format!(":0{}:", hash.id()), ":00:")).unwrap();
        assert_eq!((plain.transform(), plain.cipher_hash()), (None, hash));
    }
}

#[test]
fn what_is_no_key_is_refused_and_told_why() {
    let good = DHCHAP[1].2;
    let form = KeyError::Form {
        prefix: "DHHC-1",
        make: "nvme gen-dhchap-key",
    };
    for wrong in [
        "",
        ":",
        "DHHC-1",
        "DHHC-2:01:AAAA:",
        &good[..good.len() - 1],
        &format!("{good}:"),
        &format!("x{good}"),
    ] {
        assert_eq!(DhchapSecret::parse(wrong).unwrap_err(), form, "{wrong}");
    }
    let of = |text: &str| DhchapSecret::parse(text).unwrap_err();
    assert!(matches!(of(&good.replace(":01:", ":04:")), KeyError::Hash { given, .. } if given == "04"));
    assert!(matches!(of(&good.replace(":01:", ":1:")), KeyError::Hash { .. }));
    assert_eq!(of(&good.replace('k', "*")), KeyError::Base64);
    assert_eq!(
        of("DHHC-1:01:AAAA:").to_string(),
        "the key has 0 bytes, where 32, 48 or 64 are demanded"
    );
    assert_eq!(of(&good.replace("g4kk", "g4kl")), KeyError::Sum);
    // A key of another length than its hash has.
    assert!(matches!(
        of(&good.replace(":01:", ":02:")),
        KeyError::Length {
            given: 32,
            wanted: "48"
        }
    ));
    assert!(matches!(TlsKey::parse(good), Err(KeyError::Form { .. })));
    let tls = TlsKey::generate(Hash::Sha256, &mut system_random).to_text();
    assert!(matches!(
        TlsKey::parse(&tls.replace(":01:", ":02:")),
        Err(KeyError::Length {
            given: 32,
            wanted: "48"
        })
    ));
    assert!(matches!(
        TlsKey::parse(&tls.replace(":01:", ":03:")),
        Err(KeyError::Hash { .. })
    ));
    let long = interchange::encode("NVMeTLSkey-1", 0, &[7; 64]);
    assert!(matches!(TlsKey::parse(&long), Err(KeyError::Length { given: 64, .. })));
}

#[test]
fn two_secrets_are_never_the_same() {
    for transform in [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)] {
        let one = DhchapSecret::generate(transform, HOST, &mut system_random);
        let other = DhchapSecret::generate(transform, HOST, &mut system_random);
        assert!(one != other);
        assert_eq!(DhchapSecret::parse(&one.to_text()).unwrap(), one);
        assert_eq!(transform.is_none(), one.key_for(HOST) == one.key_for("another"));
    }
}

#[test]
fn nothing_shows_a_key() {
    let secret = DhchapSecret::generate(None, HOST, &mut system_random);
    let key = TlsKey::generate(Hash::Sha384, &mut system_random);
    assert_eq!(format!("{secret:?} {key:?}"), "DhchapSecret(secret) TlsKey(secret)");
    let seal = SealKey::generate();
    assert_eq!(format!("{seal:?}"), format!("SealKey({})", seal.id()));
    assert_eq!(seal.id().len(), 16);
}

#[test]
fn derived_keys_are_one_for_each_purpose() {
    let key = SealKey::generate();
    let derive = |key: &SealKey, purpose: &str| key.derive(purpose).iter().map(|one| **one).collect::<Vec<[u8; 32]>>();
    assert_eq!(derive(&key, "tokens"), derive(&key, "tokens"));
    assert_eq!(derive(&key, "tokens").len(), 1);
    assert_ne!(derive(&key, "tokens"), derive(&key, "others"));
    assert_ne!(derive(&key, "tokens"), derive(&SealKey::generate(), "tokens"));
}

#[test]
fn a_sealed_text_opens_only_in_its_place() {
    let key = SealKey::generate();
    let text = DHCHAP[1].2;
    let sealed = key.seal(HOST, "dhchap", text).unwrap();
    assert!(is_sealed(&sealed) && !is_sealed(text));
    assert!(!sealed.contains(&text[10..20]));
    assert_eq!(*key.unseal(HOST, "dhchap", &sealed).unwrap(), text);
    // Sealed twice, it looks different.
    assert_ne!(key.seal(HOST, "dhchap", text).unwrap(), sealed);
    for (nqn, field) in [(HOST, "tls"), ("nqn.other", "dhchap"), (HOST, ""), ("", "dhchap")] {
        assert!(matches!(
            key.unseal(nqn, field, &sealed),
            Err(SealError::Damaged { .. })
        ));
    }
    // The border between the two is bound as well.
    let sealed = key.seal("ab", "c", text).unwrap();
    assert!(matches!(key.unseal("a", "bc", &sealed), Err(SealError::Damaged { .. })));

    let other = SealKey::generate().seal(HOST, "dhchap", text).unwrap();
    let error = key.unseal(HOST, "dhchap", &other).unwrap_err();
    assert!(
        matches!(&error, SealError::OtherKey { key_id, .. } if key_id.len() == 16),
        "{error}"
    );
    assert!(matches!(
        key.unseal(HOST, "dhchap", text),
        Err(SealError::NotSealed { .. })
    ));
    for wrong in [
        "sealed:1:",
        "sealed:1:AAAA",
        "sealed:1:!!!!",
        &format!("sealed:1:{}", "A".repeat(5000)),
    ] {
        assert!(
            matches!(key.unseal(HOST, "dhchap", wrong), Err(SealError::Damaged { .. })),
            "{wrong}"
        );
    }
    assert!(matches!(
        key.seal(HOST, "dhchap", &"x".repeat(1025)),
        Err(SealError::TooLong { .. })
    ));
}

proptest! {
    #[test]
    fn no_changed_byte_goes_unnoticed(at in 0usize..60, bit in 0u8..8, text in "[ -~]{1,40}") {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let key = SealKey::generate();
        let sealed = key.seal(HOST, "tls", &text).unwrap();
        prop_assert_eq!(&*key.unseal(HOST, "tls", &sealed).unwrap(), &text);
        let mut bytes = STANDARD.decode(sealed.strip_prefix("sealed:1:").unwrap()).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let changed = format!("sealed:1:{}", STANDARD.encode(bytes));
        prop_assert!(key.unseal(HOST, "tls", &changed).is_err());
    }

    #[test]
    fn no_text_panics(text in "(DHHC-1|NVMeTLSkey-1|sealed:1)?:?[ -~]{0,80}") {
        let _ = DhchapSecret::parse(&text);
        let _ = TlsKey::parse(&text);
        prop_assert!(SealKey::generate().unseal("a", "b", &text).is_err());
    }
}

#[test]
fn the_file_is_of_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seal.key");
    let key = SealKey::generate();
    key.save(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let sealed = key.seal(HOST, "tls", "text").unwrap();
    let loaded = SealKey::load(&path).unwrap();
    assert_eq!(*loaded.unseal(HOST, "tls", &sealed).unwrap(), "text");
    // It is not overwritten.
    let error = SealKey::generate().save(&path).unwrap_err();
    assert!(error.to_string().contains("seal.key"), "{error}");
    assert_eq!(SealKey::load(&path).unwrap().id(), key.id());

    for mode in [0o640, 0o604, 0o660] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = SealKey::load(&path).unwrap_err();
        assert!(matches!(error, SealError::Permissions { mode: m, .. } if m == mode));
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
}

#[test]
fn the_file_is_of_who_reads_it() {
    for (owner, user, may) in [
        (1000, 1000, true),
        (0, 1000, true),
        (0, 0, true),
        (1000, 0, false),
        (1001, 1000, false),
    ] {
        assert_eq!(
            crate::sealed::may_own(owner, user),
            may,
            "{owner}'s file, read by {user}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seal.key");
    SealKey::generate().save(&path).unwrap();
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
        let error = SealKey::load(&path).unwrap_err();
        assert!(matches!(error, SealError::Owner { owner: 12_345, .. }), "{error}");
        assert!(error.to_string().contains("chown"), "{error}");
    }
}

#[test]
fn a_new_sealing_key_goes_in_front_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new, both) = (
        folder.path().join("old"),
        folder.path().join("new"),
        folder.path().join("both"),
    );
    let (first, second) = (SealKey::generate(), SealKey::generate());
    first.save(&old).unwrap();
    second.save(&new).unwrap();
    let text = format!(
        "# changed today\n\n{}{}",
        fs::read_to_string(&new).unwrap(),
        fs::read_to_string(&old).unwrap()
    );
    let write = |text: &str| {
        fs::write(&both, text).unwrap();
        fs::set_permissions(&both, fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(&text);
    let key = SealKey::load(&both).unwrap();
    assert_eq!(key.id(), second.id());
    let sealed = first.seal(HOST, "tls", "text").unwrap();
    assert_eq!(*key.unseal(HOST, "tls", &sealed).unwrap(), "text");
    assert!(second.unseal(HOST, "tls", &sealed).is_err());

    for (wrong, line) in [("amita-seal-1:AAAA:", 1), ("# one\nnonsense", 2)] {
        write(wrong);
        assert!(matches!(SealKey::load(&both), Err(SealError::Content { line: l, .. }) if l == line));
    }
    for wrong in ["", "# nothing\n", &"#".repeat(5000)] {
        write(wrong);
        assert!(matches!(SealKey::load(&both), Err(SealError::NoKey { .. })));
    }
    assert!(matches!(
        SealKey::load(folder.path()),
        Err(SealError::NoKey { .. } | SealError::Permissions { .. })
    ));
    assert!(matches!(
        SealKey::load(&folder.path().join("absent")),
        Err(SealError::File { .. })
    ));
}
