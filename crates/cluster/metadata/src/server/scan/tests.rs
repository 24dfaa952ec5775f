use super::*;
use crate::call::{Call, Compare, Op};
use crate::wire::convert::Span;
use proptest::prelude::*;
use prost::Message;

fn op(key: usize) -> Op {
    Op::Get {
        key: format!("/k{key}"),
    }
}

fn request(compares: usize, then: usize, otherwise: usize) -> wire::TxnRequest {
    let compare = |key| Compare::Version {
        key: format!("/k{key}"),
        equals: 1,
    };
    wire::TxnRequest::from(&Call {
        compares: (0..compares).map(compare).collect(),
        then: (0..then).map(op).collect(),
        otherwise: (0..otherwise).map(op).collect(),
    })
}

#[test]
fn as_many_as_are_served_and_no_more() {
    let scan = |request: &wire::TxnRequest| wire::TxnRequest::scan(&request.encode_to_vec());
    assert!(scan(&request(MAX_OPS, MAX_OPS, MAX_OPS)).is_ok());
    for (a, b, c) in [(MAX_OPS + 1, 0, 0), (0, MAX_OPS + 1, 0), (0, 0, MAX_OPS + 1)] {
        let error = scan(&request(a, b, c)).expect_err("too many");
        assert_eq!(error.message(), words::TOO_MANY_OPS);
    }
    // The smallest operation is two bytes long.
    let many: Vec<u8> = [0x12, 0].repeat(500_000);
    assert!(wire::TxnRequest::scan(&many).is_err());
    let nested = wire::TxnRequest {
        success: vec![wire::RequestOp {
            request: Some(wire::RequestUnion::Txn(request(0, 1, 0))),
        }],
        ..wire::TxnRequest::default()
    };
    assert_eq!(scan(&nested).expect_err("nested").code(), tonic::Code::Unimplemented);
}

/// A valid message in which some bytes are others, are missing or are too many.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let valid = (0..4_usize, 0..4_usize, 0..4_usize).prop_map(|(a, b, c)| request(a, b, c).encode_to_vec());
    (
        valid,
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<prop::sample::Index>(),
        any::<bool>(),
    )
        .prop_map(|(mut bytes, changes, cut, is_cut)| {
            for (index, byte) in changes {
                if !bytes.is_empty() {
                    let index = index.index(bytes.len());
                    bytes[index] = byte;
                }
            }
            if is_cut && !bytes.is_empty() {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        })
}

/// Everything that is done to what a stranger sends, until it is refused or is a call.
fn take(bytes: &[u8]) {
    if wire::TxnRequest::scan(bytes).is_ok()
        && let Ok(request) = wire::TxnRequest::decode(bytes)
    {
        let parts = [request.compare.len(), request.success.len(), request.failure.len()];
        assert!(parts.iter().all(|part| *part <= MAX_OPS), "what is decoded was counted");
        if let Ok(call) = Call::try_from(request) {
            let mut state = crate::model::State::new();
            let answer = state.answer_bytes(&call, usize::MAX);
            if let Ok(reply) = state.txn(&call) {
                let encoded = wire::TxnResponse::from(&reply).encoded_len();
                assert!(
                    encoded <= answer,
                    "{encoded} bytes were answered, and {answer} foreseen: {call:?}"
                );
            }
            state.check();
        }
    }
    if let Ok(request) = wire::RangeRequest::decode(bytes) {
        let _ = Span::parse(&request.key, &request.range_end);
    }
    if let Ok(request) = wire::WatchRequest::decode(bytes)
        && let Some(wire::WatchUnion::Create(create)) = request.request_union
    {
        let _ = Span::parse(&create.key, &create.range_end);
    }
    if let Ok(request) = wire::PutRequest::decode(bytes) {
        let _ = wire::convert::put_op(request);
    }
    if let Ok(request) = wire::DeleteRangeRequest::decode(bytes) {
        let _ = wire::convert::delete_op(&request);
    }
    let _ = wire::LeaseGrantRequest::decode(bytes);
    let _ = wire::LeaseTimeToLiveRequest::decode(bytes);
    let _ = wire::AlarmRequest::decode(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_counted(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        take(&bytes);
    }

    #[test]
    fn nearly_valid_messages_are_refused_or_counted(bytes in nearly()) {
        take(&bytes);
    }
}
