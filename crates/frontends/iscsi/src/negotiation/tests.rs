use super::*;
use crate::text::{find, parse};
use proptest::prelude::*;

const LOGIN: Phase = Phase::Login { discovery: false };

/// What the keys are answered.
fn answers(negotiation: &mut Negotiation, offers: &[(&str, &str)], phase: Phase) -> Vec<(String, String)> {
    let mut answer = Text::new();
    negotiation
        .take(offers, phase, &mut answer)
        .expect("no key comes twice");
    let pairs = parse(answer.as_bytes()).expect("a text");
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn one(wishes: Wishes, key: &str, value: &str) -> (String, Agreed) {
    let mut negotiation = Negotiation::new(wishes);
    let answer = answers(&mut negotiation, &[(key, value)], LOGIN);
    let [(answered, value)] = &answer[..] else {
        panic!("{key}: {answer:?}")
    };
    assert_eq!(answered, key);
    (value.clone(), negotiation.agreed().clone())
}

fn chosen(key: &str, value: &str) -> String {
    one(Wishes::default(), key, value).0
}

/// What open-iscsi 2.1 sends by default, and what comes of it.
#[test]
fn linux_as_it_comes() {
    let offers = [
        ("HeaderDigest", "None"),
        ("DataDigest", "None"),
        ("DefaultTime2Wait", "2"),
        ("DefaultTime2Retain", "0"),
        ("IFMarker", "No"),
        ("OFMarker", "No"),
        ("ErrorRecoveryLevel", "0"),
        ("InitialR2T", "No"),
        ("ImmediateData", "Yes"),
        ("MaxBurstLength", "16776192"),
        ("FirstBurstLength", "262144"),
        ("MaxOutstandingR2T", "1"),
        ("MaxConnections", "1"),
        ("DataPDUInOrder", "Yes"),
        ("DataSequenceInOrder", "Yes"),
        ("MaxRecvDataSegmentLength", "262144"),
    ];
    let mut negotiation = Negotiation::new(Wishes::default());
    let answer = answers(&mut negotiation, &offers, LOGIN);
    assert_eq!(answer.len(), offers.len() - 1, "what is declared has no answer");
    let agreed = negotiation.agreed();
    assert_eq!(
        *agreed,
        Agreed {
            initial_r2t: true,
            immediate_data: true,
            max_send: 262_144,
            max_burst: 1 << 20,
            first_burst: 65_536,
            time2retain: 0,
            ..Agreed::default()
        }
    );
}

#[test]
fn lists_are_chosen_from_in_the_order_of_the_initiator() {
    assert_eq!(chosen("HeaderDigest", "CRC32C,None"), "CRC32C");
    assert_eq!(chosen("HeaderDigest", "None,CRC32C"), "None");
    assert_eq!(chosen("DataDigest", "MD5,CRC32C"), "CRC32C");
    assert_eq!(chosen("DataDigest", "MD5"), REJECT);
    let required = Wishes {
        digests: Digests::Required,
        ..Wishes::default()
    };
    assert_eq!(one(required.clone(), "DataDigest", "None,CRC32C").0, "CRC32C");
    assert_eq!(one(required, "DataDigest", "None").0, REJECT);
    assert_eq!(
        chosen("TaskReporting", "FastAbort,ResponseFence,RFC3720"),
        "ResponseFence"
    );
    assert_eq!(chosen("TaskReporting", "FastAbort"), REJECT);
}

#[test]
fn each_key_has_its_rule() {
    let rules: &[(&str, &[(&str, &str)])] = &[
        (
            "MaxConnections",
            &[("1", "1"), ("8", "1"), ("0", REJECT), ("65536", REJECT)],
        ),
        ("InitialR2T", &[("Yes", "Yes"), ("No", "Yes"), ("Maybe", REJECT)]),
        ("ImmediateData", &[("Yes", "Yes"), ("No", "No")]),
        (
            "MaxBurstLength",
            &[
                ("512", "512"),
                ("0x1000", "4096"),
                ("16777215", "1048576"),
                ("511", REJECT),
                ("16777216", REJECT),
            ],
        ),
        ("FirstBurstLength", &[("8192", "8192"), ("1048576", "65536")]),
        ("DefaultTime2Wait", &[("0", "2"), ("5", "5"), ("3601", REJECT)]),
        ("DefaultTime2Retain", &[("20", "0"), ("0", "0")]),
        ("MaxOutstandingR2T", &[("1", "1"), ("65535", "8"), ("0", REJECT)]),
        ("DataPDUInOrder", &[("No", "Yes"), ("Yes", "Yes")]),
        ("DataSequenceInOrder", &[("No", "Yes")]),
        ("ErrorRecoveryLevel", &[("2", "0"), ("0", "0"), ("3", REJECT)]),
        ("iSCSIProtocolLevel", &[("1", "1"), ("7", "2"), ("32", REJECT)]),
        ("IFMarker", &[("Yes", "No")]),
        ("OFMarkInt", &[("2048~8192", REJECT)]),
        ("TargetPortalGroupTag", &[("1", REJECT)]),
        ("RDMAExtensions", &[("Yes", NOT_UNDERSTOOD)]),
        ("X-com.example.key", &[("1", NOT_UNDERSTOOD)]),
    ];
    for (key, offers) in rules {
        for (offer, answer) in *offers {
            assert_eq!(chosen(key, offer), *answer, "{key}={offer}");
        }
    }
    let no_r2t = Wishes {
        initial_r2t: false,
        ..Wishes::default()
    };
    assert_eq!(one(no_r2t.clone(), "InitialR2T", "No").0, "No");
    assert!(!one(no_r2t, "InitialR2T", "No").1.initial_r2t);
}

#[test]
fn what_was_refused_changes_nothing() {
    let (_, agreed) = one(Wishes::default(), "MaxBurstLength", "1");
    assert_eq!(agreed, Agreed::default());
}

#[test]
fn a_burst_bounds_what_comes_unasked_in_any_order() {
    for offers in [
        [("FirstBurstLength", "65536"), ("MaxBurstLength", "4096")],
        [("MaxBurstLength", "4096"), ("FirstBurstLength", "65536")],
    ] {
        let mut negotiation = Negotiation::new(Wishes::default());
        let answer = answers(&mut negotiation, &offers, LOGIN);
        assert!(
            answer.contains(&("FirstBurstLength".into(), "4096".into())),
            "{answer:?}"
        );
    }
    let (_, agreed) = one(Wishes::default(), "MaxBurstLength", "4096");
    assert_eq!(agreed.first_burst, 4096, "it was not offered");
}

#[test]
fn a_discovery_session_has_no_use_for_most() {
    let mut negotiation = Negotiation::new(Wishes::default());
    let discovery = Phase::Login { discovery: true };
    let answer = answers(
        &mut negotiation,
        &[
            ("MaxBurstLength", "4096"),
            ("HeaderDigest", "CRC32C"),
            ("ErrorRecoveryLevel", "0"),
        ],
        discovery,
    );
    assert_eq!(
        answer,
        [
            ("MaxBurstLength".into(), IRRELEVANT.into()),
            ("HeaderDigest".into(), "CRC32C".into()),
            ("ErrorRecoveryLevel".into(), "0".into()),
        ]
    );
}

#[test]
fn keys_have_their_time() {
    let mut negotiation = Negotiation::new(Wishes::default());
    let answer = answers(
        &mut negotiation,
        &[
            ("MaxBurstLength", "4096"),
            ("MaxRecvDataSegmentLength", "4096"),
            ("InitiatorAlias", "a"),
        ],
        Phase::FullFeature,
    );
    assert_eq!(answer, [("MaxBurstLength".into(), REJECT.into())]);
    assert_eq!(negotiation.agreed().max_send, 4096);
    let mut again = Text::new();
    let mut login = Negotiation::new(Wishes::default());
    assert!(login.take(&[("InitialR2T", "Yes")], LOGIN, &mut again).is_ok());
    assert!(login.take(&[("InitialR2T", "No")], LOGIN, &mut again).is_err());
}

#[test]
fn what_the_target_takes_is_said_once() {
    let mut negotiation = Negotiation::new(Wishes::default());
    assert_eq!(negotiation.max_receive(), 8192);
    let mut answer = Text::new();
    negotiation.declare(&mut answer);
    negotiation.declare(&mut answer);
    let pairs = parse(answer.as_bytes()).expect("a text");
    assert_eq!(find(&pairs, "MaxRecvDataSegmentLength"), Some("262144"));
    assert_eq!((pairs.len(), negotiation.max_receive()), (1, 262_144));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is offered: every key is answered as the rules have it, and what is agreed is sound.
    #[test]
    fn any_offers(
        offers in prop::collection::btree_map(
            prop::sample::select(NEGOTIATED.to_vec()),
            prop_oneof!["[0-9]{1,8}", "0x[0-9a-f]{1,6}", "Yes|No|None|CRC32C|CRC32C,None", ".{0,8}"],
            0..15,
        ),
        initial_r2t: bool,
    ) {
        let wishes = Wishes { initial_r2t, ..Wishes::default() };
        let mut negotiation = Negotiation::new(wishes);
        let pairs: Vec<Pair<'_>> = offers.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut answer = Text::new();
        prop_assert!(negotiation.take(&pairs, LOGIN, &mut answer).is_ok());
        let answered = parse(answer.as_bytes()).expect("a text");
        for (key, value) in &pairs {
            let is_answer = matches!(*value, REJECT | IRRELEVANT | NOT_UNDERSTOOD);
            prop_assert_eq!(find(&answered, key).is_some(), !is_answer, "{}", key);
        }
        let agreed = negotiation.agreed();
        prop_assert!(agreed.first_burst <= agreed.max_burst && agreed.max_burst <= 1 << 20);
        prop_assert!((512..1 << 24).contains(&agreed.max_burst));
        prop_assert!((1..=8).contains(&agreed.max_outstanding_r2t));
        prop_assert!(agreed.initial_r2t || !initial_r2t);
        // Both ends say the same of what was answered with a number.
        if let Some(value) = find(&answered, "FirstBurstLength").and_then(parse_number) {
            prop_assert_eq!(value, u64::from(agreed.first_burst));
        }
    }
}
