use super::*;
use proptest::prelude::*;

#[test]
fn pairs_are_taken_apart() {
    let text = b"InitiatorName=iqn.2026-01.test:a\0SessionType=Normal\0TargetAlias=a=b, c\0X#NodeArchitecture=\0";
    let pairs = parse(text).expect("right");
    assert_eq!(
        pairs,
        [
            ("InitiatorName", "iqn.2026-01.test:a"),
            ("SessionType", "Normal"),
            ("TargetAlias", "a=b, c"),
            ("X#NodeArchitecture", ""),
        ]
    );
    assert_eq!(find(&pairs, "SessionType"), Some("Normal"));
    assert_eq!(find(&pairs, "sessiontype"), None, "keys are case sensitive");
    assert_eq!(parse(b"\0\0"), Ok(Vec::new()));
    assert_eq!(parse(b"A=b"), Ok(vec![("A", "b")]), "the last null is missing");
}

#[test]
fn what_is_no_text_is_refused() {
    for wrong in [
        &b"NoEqualSign\0"[..],
        b"=value\0",
        b"1Key=value\0",
        b"Key with space=value\0",
        b"Key=\xff\0",
        b"Key=a\0Key=b\0",
    ] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
    let long = format!("{}=a\0", "K".repeat(64));
    assert!(parse(long.as_bytes()).is_err());
    let many: String = (0..129).map(|n| format!("K{n}=a\0")).collect();
    assert!(parse(many.as_bytes()).is_err());
}

#[test]
fn numbers_are_decimal_or_hexadecimal() {
    assert_eq!(parse_number("262144"), Some(262_144));
    assert_eq!(parse_number("0x1f"), Some(31));
    assert_eq!(parse_number("0X1F"), Some(31));
    for wrong in ["", "0x", "-1", "+1", "1k", "1f", "18446744073709551616", " 1"] {
        assert_eq!(parse_number(wrong), None, "{wrong}");
    }
    assert_eq!(
        [parse_boolean("Yes"), parse_boolean("No"), parse_boolean("yes")],
        [Some(true), Some(false), None]
    );
}

#[test]
fn binary_values_have_two_forms() {
    assert_eq!(decode_binary("0x0a0B", 16), Some(vec![0x0a, 0x0b]));
    assert_eq!(decode_binary("0xabc", 16), Some(vec![0x0a, 0xbc]));
    assert_eq!(decode_binary("0bAQID", 16), Some(vec![1, 2, 3]));
    assert_eq!(decode_binary("0bAQ==", 16), Some(vec![1]));
    for wrong in ["", "0", "0x", "0xg0", "0b*", "0b", "abcd", "0x\u{e9}0"] {
        assert_eq!(decode_binary(wrong, 16), None, "{wrong}");
    }
    assert_eq!(decode_binary("0x010203", 2), None);
    assert_eq!(decode_binary("0bAQID", 2), None);
    assert_eq!(encode_hex(&[0, 0x9f]), "0x009f");
}

#[test]
fn what_is_put_together_has_an_end() {
    let mut gathered = Gathered::default();
    for _ in 0..2 {
        gathered.add(&[b'a'; 8192]).expect("room");
    }
    assert!(gathered.add(b"a").is_err());
    assert!(gathered.is_empty(), "nothing is kept of it");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(pairs in prop::collection::btree_map("[A-Z][a-zA-Z0-9.+@_-]{0,20}", "[ -~]{0,40}", 0..20)) {
        let mut text = Text::new();
        for (key, value) in &pairs {
            text.push(key, value);
        }
        let back = parse(text.as_bytes()).expect("right");
        let back: std::collections::BTreeMap<_, _> = back.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        prop_assert_eq!(back, pairs);
    }

    #[test]
    fn any_bytes_are_text_or_not(bytes in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,60}") {
        let _ = parse(&bytes);
        let _ = (parse_number(&text), decode_binary(&text, 16), parse_boolean(&text));
    }

    #[test]
    fn binary_values_come_back(bytes in prop::collection::vec(any::<u8>(), 1..100)) {
        prop_assert_eq!(decode_binary(&encode_hex(&bytes), 100), Some(bytes));
    }
}
