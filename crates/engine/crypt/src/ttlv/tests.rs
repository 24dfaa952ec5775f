use super::*;

const MESSAGE: u32 = 0x42_007b;
const INSIDE: u32 = 0x42_0094;

fn item(tag: u32, kind: u8, length: u32, value: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = tag.to_be_bytes();
    let mut bytes = vec![a, b, c, kind];
    bytes.extend(length.to_be_bytes());
    bytes.extend(value);
    bytes
}

fn message(inside: &[u8]) -> Vec<u8> {
    item(MESSAGE, STRUCTURE, inside.len() as u32, inside)
}

/// The examples of the specification (OASIS KMIP 1.4, section 9.1.2).
#[test]
fn the_examples_of_the_specification_are_read_and_written() {
    let hex = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|digit| *digit != b' ').collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    };
    let tag = 0x42_0020;
    for (text, value) in [
        ("42 00 20 02 00 00 00 04 00 00 00 08 00 00 00 00", Value::Integer(8)),
        ("42 00 20 03 00 00 00 08 01 B6 9B 4B A5 74 92 00", Value::Other),
        (
            "42 00 20 04 00 00 00 10 00 00 00 00 03 FD 35 EB 6B C2 DF 46 18 08 00 00",
            Value::Other,
        ),
        (
            "42 00 20 05 00 00 00 04 00 00 00 FF 00 00 00 00",
            Value::Enumeration(255),
        ),
        ("42 00 20 06 00 00 00 08 00 00 00 00 00 00 00 01", Value::Other),
        (
            "42 00 20 07 00 00 00 0B 48 65 6C 6C 6F 20 57 6F 72 6C 64 00 00 00 00 00",
            Value::Text("Hello World"),
        ),
        (
            "42 00 20 08 00 00 00 03 01 02 03 00 00 00 00 00",
            Value::Bytes(&[1, 2, 3]),
        ),
        ("42 00 20 09 00 00 00 08 00 00 00 00 47 DA 67 F8", Value::Other),
        ("42 00 20 0A 00 00 00 04 00 0D 2F 00 00 00 00 00", Value::Other),
        (
            "42 00 20 01 00 00 00 20 42 00 04 05 00 00 00 04 00 00 00 FE 00 00 00 00 42 00 05 02 00 00 00 04 00 00 00 FF 00 00 00 00",
            Value::Structure(vec![
                Item {
                    tag: 0x42_0004,
                    value: Value::Enumeration(254),
                },
                Item {
                    tag: 0x42_0005,
                    value: Value::Integer(255),
                },
            ]),
        ),
    ] {
        let bytes = hex(text);
        let whole = message(&bytes);
        assert_eq!(
            read(&whole, MESSAGE),
            Ok(vec![Item {
                tag,
                value: value.clone()
            }]),
            "{text}"
        );
        let written = Writer::message(MESSAGE, |writer| {
            match &value {
                Value::Integer(value) => writer.integer(tag, *value),
                Value::Enumeration(value) => writer.enumeration(tag, *value),
                Value::Text(value) => writer.text(tag, value),
                Value::Bytes(value) => writer.bytes(tag, value),
                Value::Structure(_) => writer.structure(tag, |inside| {
                    inside.enumeration(0x42_0004, 254).integer(0x42_0005, 255);
                }),
                Value::Other => {
                    // Nobody here writes these.
                    writer.0.extend_from_slice(&bytes);
                    writer
                }
            };
        });
        assert_eq!(*written, whole, "{text}");
    }
}

#[test]
fn what_is_no_message_is_not_read() {
    let eight = [0; 8];
    let many = item(INSIDE, BOOLEAN, 8, &eight).repeat(MAX_ITEMS + 1);
    let mut deep = Vec::new();
    for _ in 0..MAX_DEPTH {
        deep = item(INSIDE, STRUCTURE, deep.len() as u32, &deep);
    }
    let bad = |kind, bytes| BadTtlv::Length { kind, bytes };
    for (inside, why) in [
        (vec![0x42], BadTtlv::Cut),
        (vec![0; 7], BadTtlv::Cut),
        (item(INSIDE, BYTES, 9, &eight), BadTtlv::Cut),
        (item(INSIDE, BYTES, u32::MAX, &eight), BadTtlv::Cut),
        (item(INSIDE, BYTES, u32::MAX - 6, &eight), BadTtlv::Cut),
        // Four bytes of a value, and none behind it.
        (item(INSIDE, INTEGER, 4, &[0; 4]), BadTtlv::Cut),
        (item(INSIDE, INTEGER, 8, &eight), bad(INTEGER, 8)),
        (item(INSIDE, ENUMERATION, 0, &[]), bad(ENUMERATION, 0)),
        (item(INSIDE, INTERVAL, 8, &eight), bad(INTERVAL, 8)),
        (item(INSIDE, DATE_TIME, 0, &[]), bad(DATE_TIME, 0)),
        (item(INSIDE, LONG_INTEGER, 4, &eight), bad(LONG_INTEGER, 4)),
        (item(INSIDE, DATE_TIME_EXTENDED, 4, &eight), bad(DATE_TIME_EXTENDED, 4)),
        (item(INSIDE, BIG_INTEGER, 0, &[]), bad(BIG_INTEGER, 0)),
        (item(INSIDE, BIG_INTEGER, 5, &eight), bad(BIG_INTEGER, 5)),
        (item(INSIDE, STRUCTURE, 4, &eight), bad(STRUCTURE, 4)),
        (item(INSIDE, BOOLEAN, 8, &[0, 0, 0, 0, 0, 0, 0, 2]), BadTtlv::Boolean),
        (item(INSIDE, BOOLEAN, 8, &[1, 0, 0, 0, 0, 0, 0, 1]), BadTtlv::Boolean),
        (item(INSIDE, INTEGER, 4, &[0, 0, 0, 1, 0, 0, 0, 1]), BadTtlv::Fill),
        (item(INSIDE, BYTES, 1, &[1, 0, 0, 0, 0, 9, 0, 0]), BadTtlv::Fill),
        (item(INSIDE, TEXT, 2, &[0xff, 0xfe, 0, 0, 0, 0, 0, 0]), BadTtlv::Text),
        (item(INSIDE, 0, 8, &eight), BadTtlv::Type { kind: 0 }),
        (item(INSIDE, 12, 8, &eight), BadTtlv::Type { kind: 12 }),
        (many, BadTtlv::Many),
        (deep, BadTtlv::Deep),
    ] {
        let mut whole = message(&inside);
        // The message itself is to be well.
        let length = inside.len().next_multiple_of(8);
        whole[4..8].copy_from_slice(&(length as u32).to_be_bytes());
        if inside.len() % 8 != 0 {
            whole.truncate(HEAD_BYTES + inside.len());
            assert_eq!(read(&whole, MESSAGE), Err(BadTtlv::Cut));
            whole = message(&inside);
            assert!(read(&whole, MESSAGE).is_err(), "{why}");
            let found = items(&inside, 1, &mut 0);
            assert_eq!(found, Err(why));
            continue;
        }
        assert_eq!(read(&whole, MESSAGE), Err(why), "{why}");
    }
    let good = message(&item(INSIDE, TEXT, 1, b"a\0\0\0\0\0\0\0"));
    assert!(read(&good, MESSAGE).is_ok());
    assert_eq!(read(&[&good[..], &[0]].concat(), MESSAGE), Err(BadTtlv::Behind));
    for length in 0..good.len() {
        assert_eq!(read(&good[..length], MESSAGE), Err(BadTtlv::Cut), "{length}");
    }
    let (found, wanted) = (MESSAGE, INSIDE);
    assert_eq!(read(&good, INSIDE), Err(BadTtlv::Tag { found, wanted }));
}

/// A length is believed only as far as a message may be long, before anything is made room for.
#[test]
fn the_length_of_a_message_has_an_end() {
    let head = |length: u32| -> [u8; 8] { item(MESSAGE, STRUCTURE, length, &[]).try_into().unwrap() };
    let longest = MAX_MESSAGE_BYTES - HEAD_BYTES;
    assert_eq!(length(head(longest as u32), MESSAGE), Ok(MAX_MESSAGE_BYTES));
    for (bytes, told) in [
        (longest as u32 + 8, MAX_MESSAGE_BYTES as u64 + 8),
        (u32::MAX - 7, 1 << 32),
    ] {
        assert_eq!(length(head(bytes), MESSAGE), Err(BadTtlv::Long { bytes: told }));
    }
    let bad = |kind, bytes| Err(BadTtlv::Length { kind, bytes });
    assert_eq!(length(head(9), MESSAGE), bad(STRUCTURE, 9));
    let text: [u8; 8] = item(MESSAGE, TEXT, 8, &[]).try_into().unwrap();
    assert_eq!(length(text, MESSAGE), bad(TEXT, 8));
    // What HTTP or TLS say is neither.
    assert!(matches!(length(*b"HTTP/1.1", MESSAGE), Err(BadTtlv::Tag { .. })));
    assert!(matches!(
        length([0x15, 3, 3, 0, 2, 2, 40, 0], MESSAGE),
        Err(BadTtlv::Tag { .. })
    ));
}

#[test]
fn no_value_is_shown() {
    let whole = Writer::message(MESSAGE, |writer| {
        writer
            .bytes(INSIDE, b"secret")
            .text(INSIDE, "secret")
            .integer(INSIDE, 7);
    });
    let shown = format!("{:?}", read(&whole, MESSAGE).unwrap());
    assert!(!shown.contains("secret") && shown.contains("Bytes(6)"), "{shown}");
}
