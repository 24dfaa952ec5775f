use super::*;
use prost::Message;

#[test]
fn prefixes_end_where_etcd_ends_them() {
    assert_eq!(prefix_end(b"/a/"), b"/a0");
    assert_eq!(prefix_end(b"a\xff"), b"b");
    assert_eq!(prefix_end(b"\xff\xff"), [0]);
    assert_eq!(prefix_end(b""), [0]);
    assert_eq!(Span::parse(b"/a/", b"/a0"), Ok(Span::Prefix("/a/".into())));
    assert_eq!(Span::parse(b"/a/", b""), Ok(Span::Key("/a/".into())));
    assert_eq!(Span::parse(&[0], &[0]), Ok(Span::Prefix(String::new())));
    for (key, end) in [(&b"a"[..], &b"c"[..]), (b"a", &[0]), (b"", b"b"), (b"\xff", b"")] {
        assert!(Span::parse(key, end).is_err(), "{key:?}..{end:?}");
    }
}

/// Encoded by hand from the numbers in `rpc.proto`.
#[test]
fn field_numbers_are_etcds() {
    let put = super::super::PutRequest {
        key: b"k".to_vec(),
        value: b"v".to_vec(),
        lease: 7,
        ..Default::default()
    };
    assert_eq!(put.encode_to_vec(), b"\x0a\x01k\x12\x01v\x18\x07");
    let compare = super::super::Compare::from(&Compare::ModRevision {
        key: "k".into(),
        equals: 0,
    });
    assert_eq!(compare.encode_to_vec(), b"\x10\x02\x1a\x01k\x30\x00");
}

#[test]
fn calls_survive_the_wire() {
    let call = Call {
        compares: vec![
            Compare::ModRevision {
                key: "a".into(),
                equals: 0,
            },
            Compare::CreateRevision {
                key: "b".into(),
                equals: 5,
            },
            Compare::Version {
                key: "c".into(),
                equals: 1,
            },
            Compare::Value {
                key: "d".into(),
                equals: vec![],
            },
        ],
        then: vec![
            Op::Get { key: "a".into() },
            Op::Prefix { key: "/p/".into() },
            Op::Prefix { key: String::new() },
            Op::Put {
                key: "e".into(),
                value: vec![0, 1],
                lease: Some(LeaseId(9)),
            },
        ],
        otherwise: vec![Op::Delete { key: "a".into() }, Op::DeletePrefix { key: "/p/".into() }],
    };
    let bytes = super::super::TxnRequest::from(&call).encode_to_vec();
    let decoded = super::super::TxnRequest::decode(bytes.as_slice()).unwrap();
    assert_eq!(Call::try_from(decoded), Ok(call));
}

#[test]
fn what_is_not_understood_is_refused() {
    let greater = super::super::Compare {
        result: 1,
        key: b"k".to_vec(),
        ..Default::default()
    };
    assert!(Compare::try_from(greater).is_err());
    let mixed = super::super::Compare {
        target: CompareTarget::Mod.into(),
        target_union: Some(TargetUnion::Version(1)),
        ..Default::default()
    };
    assert!(Compare::try_from(mixed).is_err());
    let limited = super::super::RangeRequest {
        key: b"k".to_vec(),
        limit: 1,
        ..Default::default()
    };
    assert!(
        Op::try_from(super::super::RequestOp {
            request: Some(RequestUnion::Range(limited))
        })
        .is_err()
    );
    let call = Call::get("k");
    let short = super::super::TxnResponse {
        header: header(3),
        succeeded: true,
        responses: vec![],
    };
    assert!(reply(&call, short).is_err());
    let negative = super::super::KeyValue {
        mod_revision: -1,
        ..Default::default()
    };
    assert!(KeyValue::try_from(negative).is_err());
}
