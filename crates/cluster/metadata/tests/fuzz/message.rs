//! Messages of etcd's API out of any bytes, by the tables of their fields: what the server reads, and what it does not know.

use amita_testkit::fuzz::Input;

/// What a field holds.
#[derive(Clone, Copy)]
pub enum Kind {
    Number,
    Key,
    /// The end of a range.
    End,
    Value,
    Message(Fields),
    /// As many of them as the input wants.
    Messages(Fields),
}

/// Tags and kinds of a message's fields.
pub type Fields = &'static [(u32, Kind)];

use Kind::{End, Key, Message, Messages, Number, Value};

static RANGE: [(u32, Kind); 13] = [
    (1, Key),
    (2, End),
    (3, Number),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, Number),
    (9, Number),
    (10, Number),
    (11, Number),
    (12, Number),
    (13, Number),
];
static PUT: [(u32, Kind); 6] = [(1, Key), (2, Value), (3, Number), (4, Number), (5, Number), (6, Number)];
static DELETE: [(u32, Kind); 3] = [(1, Key), (2, End), (3, Number)];
static COMPARE: [(u32, Kind); 8] = [
    (1, Number),
    (2, Number),
    (3, Key),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Value),
    (64, End),
];
static OP: [(u32, Kind); 4] = [
    (1, Message(&RANGE)),
    (2, Message(&PUT)),
    (3, Message(&DELETE)),
    (4, Message(&TXN)),
];
static TXN: [(u32, Kind); 3] = [(1, Messages(&COMPARE)), (2, Messages(&OP)), (3, Messages(&OP))];
static CREATE: [(u32, Kind); 7] = [
    (1, Key),
    (2, End),
    (3, Number),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
];
static ONE_NUMBER: [(u32, Kind); 2] = [(1, Number), (2, Number)];
static WATCH: [(u32, Kind); 3] = [
    (1, Message(&CREATE)),
    (2, Message(&ONE_NUMBER)),
    (3, Message(&ONE_NUMBER)),
];

/// Paths, the fields of their requests, and whether they are streams.
pub static METHODS: [(&str, Fields, bool); 15] = [
    ("/etcdserverpb.KV/Range", &RANGE, false),
    ("/etcdserverpb.KV/Put", &PUT, false),
    ("/etcdserverpb.KV/DeleteRange", &DELETE, false),
    ("/etcdserverpb.KV/Txn", &TXN, false),
    ("/etcdserverpb.KV/Txn", &TXN, false),
    ("/etcdserverpb.KV/Compact", &ONE_NUMBER, false),
    ("/etcdserverpb.Lease/LeaseGrant", &ONE_NUMBER, false),
    ("/etcdserverpb.Lease/LeaseRevoke", &ONE_NUMBER, false),
    ("/etcdserverpb.Lease/LeaseTimeToLive", &ONE_NUMBER, false),
    ("/etcdserverpb.Lease/LeaseLeases", &ONE_NUMBER, false),
    ("/etcdserverpb.Maintenance/Status", &ONE_NUMBER, false),
    ("/etcdserverpb.Auth/Authenticate", &PUT, false),
    ("/", &PUT, false),
    ("/etcdserverpb.Watch/Watch", &WATCH, true),
    ("/etcdserverpb.Lease/LeaseKeepAlive", &ONE_NUMBER, true),
];

/// Keys begin so that none of them is what the other client keeps, nor a prefix of that.
const KEYS: [&[u8]; 7] = [b"/a", b"/a/1", b"/a/2", b"/b", b"", b"\0", b"/a\xff"];
const ENDS: [&[u8]; 6] = [b"", b"/b", b"/a0", b"/a/2", b"/c", b"\xff"];
/// Transactions within transactions.
const MAX_DEPTH: u32 = 6;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    varint(out, u64::from(tag) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend(value);
}

/// A message with some of its fields.
pub fn of(fields: Fields, input: &mut Input<'_>, depth: u32) -> Vec<u8> {
    let mut out = Vec::new();
    // The first fields are those that most requests need.
    let mask = input.u16() & if input.below(4) == 0 { 0xffff } else { 0x000f };
    for (at, (tag, kind)) in fields.iter().enumerate() {
        if mask >> at & 1 == 0 {
            continue;
        }
        match kind {
            Number => {
                let value = if input.below(3) == 0 {
                    input.edge()
                } else {
                    u64::from(input.byte() & 7)
                };
                varint(&mut out, u64::from(*tag) << 3);
                varint(&mut out, value);
            }
            Key => bytes(&mut out, *tag, KEYS[input.below(KEYS.len())]),
            End => bytes(&mut out, *tag, ENDS[input.below(ENDS.len())]),
            Value => {
                let count = input.below(40);
                bytes(&mut out, *tag, input.take(count));
            }
            Message(_) | Messages(_) if depth >= MAX_DEPTH => {}
            Message(inner) => bytes(&mut out, *tag, &of(inner, input, depth + 1)),
            Messages(inner) => {
                // Now and then more than a transaction may have.
                let count = if input.below(40) == 0 { 140 } else { input.below(4) };
                for _ in 0..count {
                    bytes(&mut out, *tag, &of(inner, input, depth + 1));
                }
            }
        }
    }
    out
}

/// Makes something else of a message.
pub fn spoil(message: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..1 + input.below(3) {
        let at = input.place(message.len() + 1);
        match input.below(4) {
            0 => message.truncate(at),
            1 => drop(message.splice(at..at, input.take(6).iter().copied())),
            2 => {
                // A field that nobody knows, of any wire type.
                varint(message, input.edge());
                message.extend(input.take(9));
            }
            _ => message
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= input.byte()),
        }
    }
}
