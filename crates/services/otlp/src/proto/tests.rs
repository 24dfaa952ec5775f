//! The bytes of the messages, as the definition of OTLP has them.

use super::*;
use prost::Message;

/// Written out by hand from the field numbers and wire types of the `.proto` files: a key is `number << 3 | type`.
#[test]
fn a_span_has_the_bytes_that_the_definition_gives_it() {
    let span = Span {
        trace_id: vec![0xaa; 16],
        span_id: vec![0xbb; 8],
        parent_span_id: vec![0xcc; 8],
        flags: 0x0000_0301,
        name: "read".to_owned(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: 0x0102_0304_0506_0708,
        end_time_unix_nano: 0x1112_1314_1516_1718,
        attributes: vec![
            KeyValue::text("k", "v"),
            KeyValue::flag("b", true),
            KeyValue::number("n", 5),
        ],
        status: Some(Status {
            message: "no".to_owned(),
            code: StatusCode::Error.into(),
        }),
    };
    let mut bytes = vec![1 << 3 | 2, 16];
    bytes.extend([0xaa; 16]);
    bytes.extend([2 << 3 | 2, 8]);
    bytes.extend([0xbb; 8]);
    bytes.extend([4 << 3 | 2, 8]);
    bytes.extend([0xcc; 8]);
    bytes.extend([5 << 3 | 2, 4, b'r', b'e', b'a', b'd']);
    bytes.extend([6 << 3, 2]);
    bytes.extend([7 << 3 | 1, 8, 7, 6, 5, 4, 3, 2, 1]);
    bytes.extend([8 << 3 | 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
    bytes.extend([9 << 3 | 2, 8, 1 << 3 | 2, 1, b'k', 2 << 3 | 2, 3, 1 << 3 | 2, 1, b'v']);
    bytes.extend([9 << 3 | 2, 7, 1 << 3 | 2, 1, b'b', 2 << 3 | 2, 2, 2 << 3, 1]);
    bytes.extend([9 << 3 | 2, 7, 1 << 3 | 2, 1, b'n', 2 << 3 | 2, 2, 3 << 3, 5]);
    bytes.extend([15 << 3 | 2, 6, 2 << 3 | 2, 2, b'n', b'o', 3 << 3, 2]);
    // The key of field 16 has two bytes.
    bytes.extend([0x85, 0x01, 0x01, 0x03, 0, 0]);
    assert_eq!(span.encode_to_vec(), bytes);
    assert_eq!(Span::decode(&bytes[..]).unwrap(), span);
}

#[test]
fn a_request_wraps_spans_in_scope_and_resource() {
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![KeyValue::text("a", "b")],
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "s".to_owned(),
                    version: "1".to_owned(),
                }),
                spans: vec![Span {
                    name: "x".to_owned(),
                    ..Span::default()
                }],
                schema_url: "u".to_owned(),
            }],
            schema_url: "u".to_owned(),
        }],
    };
    let resource = [&[1 << 3 | 2, 8][..], &[10, 1, b'a', 18, 3, 10, 1, b'b']].concat();
    let scope = [1 << 3 | 2, 6, 10, 1, b's', 18, 1, b'1'];
    let spans = [2 << 3 | 2, 3, 5 << 3 | 2, 1, b'x'];
    let url = [3 << 3 | 2, 1, b'u'];
    let scope_spans = [&scope[..], &spans, &url].concat();
    let length = u8::try_from(scope_spans.len()).unwrap();
    let of_resource = [
        &[1 << 3 | 2, 10][..],
        &resource,
        &[2 << 3 | 2, length],
        &scope_spans,
        &url,
    ]
    .concat();
    let length = u8::try_from(of_resource.len()).unwrap();
    let bytes = [&[1 << 3 | 2, length][..], &of_resource].concat();
    assert_eq!(request.encode_to_vec(), bytes);
}

#[test]
fn an_answer_is_read_and_what_is_not_known_of_it_is_passed_over() {
    // partial_success { rejected_spans: 300, error_message: "full" }, and a field 9 that nobody knows.
    let bytes = [
        1 << 3 | 2,
        9,
        1 << 3,
        0xac,
        0x02,
        2 << 3 | 2,
        4,
        b'f',
        b'u',
        b'l',
        b'l',
        9 << 3,
        1,
    ];
    let answer = ExportTraceServiceResponse::decode(&bytes[..]).unwrap();
    let partial = answer.partial_success.unwrap();
    assert_eq!((partial.rejected_spans, partial.error_message.as_str()), (300, "full"));
    let whole = ExportTraceServiceResponse::decode(&[][..]).unwrap();
    assert_eq!(whole.partial_success, None);
}
