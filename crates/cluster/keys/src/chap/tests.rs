use super::*;
use crate::system_random;
use proptest::prelude::*;

#[test]
fn a_secret_has_96_bits_at_least_and_is_what_initiators_keep() {
    let long = "x".repeat(MAX_CHAP_SECRET_BYTES);
    for good in ["twelve-bytes", "with a space in it", &long] {
        assert_eq!(ChapSecret::parse(good).unwrap().text(), good);
        for end in ["\n", "\r\n"] {
            assert_eq!(ChapSecret::parse(&format!("{good}{end}")).unwrap().text(), good);
        }
    }
    assert_eq!(ChapSecret::parse("elevenbytes"), Err(ChapError::Length { given: 11 }));
    assert_eq!(ChapSecret::parse(""), Err(ChapError::Length { given: 0 }));
    assert_eq!(
        ChapSecret::parse(&format!("{long}x")),
        Err(ChapError::Length { given: 256 })
    );
    assert_eq!(
        ChapSecret::parse("twelve\tbytes"),
        Err(ChapError::Character { place: 7 })
    );
    assert_eq!(
        ChapSecret::parse("twelve bytes\u{e4}"),
        Err(ChapError::Character { place: 13 })
    );
    // Only the last line break is the file's.
    assert_eq!(
        ChapSecret::parse("twelve-bytes\n\n"),
        Err(ChapError::Character { place: 13 })
    );
    assert_eq!(ChapSecret::parse(" twelve bytes"), Err(ChapError::Space));
    assert_eq!(ChapSecret::parse("twelve bytes "), Err(ChapError::Space));
}

#[test]
fn both_sides_do_not_prove_the_same() {
    let [one, other] = ["secret-of-one", "secret-of-two"].map(|text| ChapSecret::parse(text).unwrap());
    assert_eq!(other.other_than(&one), Ok(()));
    assert_eq!(one.other_than(&one), Err(ChapError::Same));
}

#[test]
fn what_is_made_is_a_secret_that_all_initiators_take() {
    let made = ChapSecret::generate(&mut system_random);
    assert_eq!(made.text().len(), 16);
    assert_eq!(ChapSecret::parse(made.text()), Ok(made.clone()));
    assert_ne!(ChapSecret::generate(&mut system_random), made);
    // Each character says six bits: none is left out, and none is there twice.
    let mut count = 0;
    let all: Vec<String> = (0..4)
        .map(|_| {
            let mut random = |out: &mut [u8]| {
                for byte in out {
                    *byte = count;
                    count += 1;
                }
            };
            ChapSecret::generate(&mut random).text().to_owned()
        })
        .collect();
    assert_eq!(all.concat().as_bytes(), ALPHABET);
}

#[test]
fn what_stays_is_compared_with_what_comes() {
    const NAME: &str = "iqn.1993-08.org.debian:01:a";
    let (key, other) = (SealKey::generate(), SealKey::generate());
    let [one, two] = ["secret-of-one", "secret-of-two"].map(|text| ChapSecret::parse(text).unwrap());
    let side = |field: &'static str, new: Option<&'static str>, kept: Option<&ChapSecret>| {
        let new = new.map(|text| ChapSecret::parse(text).unwrap());
        (field, new, kept.map(|kept| key.seal(NAME, field, kept.text()).unwrap()))
    };
    let seal =
        |own: Option<&'static str>, target: Option<&'static str>, kept: [Option<&ChapSecret>; 2], key: &SealKey| {
            let (own, target) = (side("chap", own, kept[0]), side("chap_target", target, kept[1]));
            let [own, target] = [&own, &target].map(|(field, new, kept)| ChapSide {
                field,
                new: new.as_ref(),
                kept: kept.as_deref(),
            });
            seal_pair(NAME, &own, &target, key)
        };
    let (own, target) = seal(Some("secret-of-one"), None, [None, Some(&two)], &key).unwrap();
    assert_eq!(*key.unseal(NAME, "chap", &own.unwrap()).unwrap(), "secret-of-one");
    assert_eq!(target, None, "what stays is not written");
    for (own, target, kept) in [
        (Some("secret-of-one"), Some("secret-of-one"), [None, None]),
        (Some("secret-of-one"), None, [None, Some(&one)]),
        (None, Some("secret-of-one"), [Some(&one), None]),
        (None, Some("secret-of-one"), [Some(&one), Some(&two)]),
    ] {
        let result = seal(own, target, kept, &key);
        assert!(matches!(result, Err(PairError::Chap(ChapError::Same))), "{result:?}");
    }
    let result = seal(Some("secret-of-one"), None, [None, Some(&two)], &other);
    assert!(
        matches!(result, Err(PairError::Seal(SealError::OtherKey { .. }))),
        "{result:?}"
    );
    // Where nothing is set, nothing is looked at.
    assert_eq!(
        seal(None, None, [Some(&one), Some(&one)], &other).unwrap(),
        (None, None)
    );
}

#[test]
fn nothing_shows_a_secret() {
    let secret = ChapSecret::parse("hidden-secret").unwrap();
    assert_eq!(format!("{secret:?}"), "ChapSecret(secret)");
    for wrong in ["hidden", "hidden\tsecret", " hidden-secret"] {
        let why = ChapSecret::parse(wrong).unwrap_err();
        assert!(!format!("{why} {why:?}").contains("hidden"), "{why}");
    }
}

proptest! {
    #[test]
    fn any_text_is_judged_and_what_is_good_stays(text in any::<String>()) {
        if let Ok(secret) = ChapSecret::parse(&text) {
            let again = ChapSecret::parse(secret.text());
            prop_assert_eq!(again, Ok(secret));
        }
    }

    #[test]
    fn printable_texts_of_the_right_length_are_good(text in "[!-~][ -~]{10,253}[!-~]") {
        prop_assert_eq!(ChapSecret::parse(&text).map(|secret| secret.text().to_owned()), Ok(text));
    }
}
