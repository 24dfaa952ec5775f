//! Nothing that is printed for people or logs has a secret in it.

use crate::*;
use amita_testkit::Random as Numbers;
use amita_types::VolumeId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Debug;

const TOKEN: &str = "hvs.CAESIJmq3vB4mT0Zq8";
const PASSPHRASE: &str = "correct horse battery staple";

fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut numbers = Numbers::new(seed);
    move |bytes: &mut [u8]| bytes.fill_with(|| numbers.bits() as u8)
}

/// Does the text have six bytes of the secret in a row, in any way that bytes are printed?
fn shows(text: &str, secret: &[u8]) -> bool {
    let squeezed: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    let lower = squeezed.to_lowercase();
    let raw = text.as_bytes().windows(6);
    let base64 = STANDARD.encode(secret);
    let mut in_base64 = base64
        .as_bytes()
        .windows(12)
        .map(|part| String::from_utf8_lossy(part).into_owned());
    raw.clone().any(|part| secret.windows(6).any(|bytes| bytes == part))
        || in_base64.any(|part| squeezed.contains(&part))
        || secret.windows(6).any(|bytes| {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
            let escaped: String = bytes
                .iter()
                .flat_map(|byte| std::ascii::escape_default(*byte))
                .map(char::from)
                .collect();
            lower.contains(&hex) || squeezed.contains(&list.join(",")) || squeezed.contains(&escaped)
        })
}

/// All that `Debug` makes of it.
fn dump(what: &dyn Debug) -> String {
    format!("{what:?}\n{what:#?}\n{what:x?}\n{what:#X?}\n")
}

#[test]
fn the_search_finds_what_it_is_for() {
    let secret: Vec<u8> = (100..164).collect();
    for text in [
        dump(&secret),
        dump(&&secret[20..26]),
        dump(&STANDARD.encode(&secret)),
        dump(&crate::hex::Hex([101_u8, 102, 103, 104, 105, 106])),
        dump(&String::from_utf8_lossy(&secret[..20])),
        dump(&std::ffi::OsStr::new("defghi")),
    ] {
        assert!(shows(&text, &secret), "{text}");
    }
    assert!(!shows(&dump(&"something else, 100, 101, 102, 103, 104"), &secret));
}

#[test]
fn no_debug_output_has_a_secret_in_it() {
    let key = DataKey::generate(&mut random(1));
    let secret_key = key.expose().to_vec();
    let mut kek = Zeroizing::new([0; 32]);
    random(2)(&mut kek[..]);
    let secret_kek = kek.to_vec();
    let binding = Binding {
        tenant: Some("acme".into()),
        key: KeyName {
            volume: VolumeId(3),
            image: VolumeId(7),
            number: KeyNumber(1),
        },
    };
    let mut file = SealedFile::new(vec![kek]).unwrap();
    let mut passphrase = Passphrase::new(PASSPHRASE, Cost::LEAST, &mut random(3)).unwrap();
    let mut transit = Transit::new("transit", "amita", Some("team"), TOKEN).unwrap();
    let by_file = file.wrap(&binding, &key, &mut random(4)).unwrap();
    let by_passphrase = passphrase.wrap(&binding, &key, &mut random(5)).unwrap();
    let by_transit = transit.wrap(&binding, &key, &mut random(6)).unwrap();
    let Next::Ask(question) = &by_transit else {
        unreachable!()
    };
    let Request::Http(request) = question.request() else {
        unreachable!()
    };
    let answer = Response::Http(HttpResponse {
        status: 200,
        body: request.body.clone(),
    });
    let mut kmip = Kmip::new("amita", KmipWay::Encrypt, KmipVersion::USUAL).unwrap();
    let by_kmip = kmip.wrap(&binding, &key, &mut random(7)).unwrap();
    let Next::Ask(asked) = &by_kmip else { unreachable!() };
    let Request::Kmip(request) = asked.request() else {
        unreachable!()
    };
    let message = Response::Kmip(Zeroizing::new(request.bytes().to_vec()));
    let opened = file
        .unwrap(&binding, &WrappedKey::parse(&wrapped_text(&by_file)).unwrap())
        .unwrap();
    let ring = KeyRing::new(binding.key);
    let mut text = String::new();
    let dumps: [&dyn Debug; 15] = [
        &key,
        &BlockCipher::new(&key),
        &file,
        &passphrase,
        &transit,
        &by_file,
        &by_passphrase,
        &by_transit,
        question.request(),
        &answer,
        &kmip,
        &by_kmip,
        &message,
        &opened,
        &key.check_value(),
    ];
    for one in dumps {
        text += &dump(one);
    }
    // What goes wrong is printed as well.
    let mut other = binding.clone();
    other.key.number = KeyNumber(2);
    let wrapped = by_file.done().unwrap();
    let wrong: Vec<KeyError> = vec![
        file.unwrap(&other, &wrapped).unwrap_err(),
        passphrase.unwrap(&binding, &wrapped).unwrap_err(),
        SealedFile::new(vec![Zeroizing::new([9; 32])])
            .unwrap()
            .unwrap(&binding, &wrapped)
            .unwrap_err(),
        WrappedKey::parse(&wrapped.to_text()[1..]).unwrap_err(),
    ];
    for error in wrong {
        text += &format!("{error}\n{}", dump(&error));
    }
    text += &dump(&Keychain::new(&ring, vec![(binding.key, key)]).unwrap());
    let secrets: [(&str, &[u8]); 4] = [
        ("the data key", &secret_key),
        ("the key-encryption key", &secret_kek),
        ("the token", TOKEN.as_bytes()),
        ("the passphrase", PASSPHRASE.as_bytes()),
    ];
    assert!(
        text.len() > 2000 && text.contains("DataKey(..)") && text.contains("Transit(transit/amita)"),
        "{text}"
    );
    for (what, secret) in secrets {
        assert!(!shows(&text, secret), "{what} in {text}");
    }
}

fn wrapped_text(next: &Next<WrappedKey>) -> String {
    match next {
        Next::Done(wrapped) => wrapped.to_text(),
        Next::Ask(_) => unreachable!("a file asks nobody"),
    }
}

/// What wipes when it is dropped has something to drop.
#[test]
fn secrets_are_wiped() {
    assert!(
        std::mem::needs_drop::<DataKey>()
            && std::mem::needs_drop::<BlockCipher>()
            && std::mem::needs_drop::<Passphrase>()
    );
    fn wipes<T: zeroize::ZeroizeOnDrop>() {}
    wipes::<Zeroizing<[u8; DATA_KEY_BYTES]>>();
}
