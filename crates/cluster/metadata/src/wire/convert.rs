//! From calls to etcd's messages and back: the client uses one direction, the embedded server the other.
//!
//! Whatever comes in is checked: a message that does not say what it should, or says more than is understood here, is an
//! error and is never guessed at.

use super::{CompareTarget, EventType, RequestUnion, ResponseUnion, TargetUnion};
use crate::call::{Call, Compare, Event, KeyValue, LeaseId, Op, OpReply, Record, Reply};
use bytes::Bytes;

/// What is wrong with a message, in words.
pub(crate) type Malformed = String;

/// The end of the range of all keys that start with `prefix`: etcd writes a prefix as a range. `[0]` is "to the end".
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// What a pair of key and range end names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Key(String),
    /// All keys with a prefix.
    Prefix(String),
}

impl Span {
    pub(crate) fn parse(key: &[u8], range_end: &[u8]) -> Result<Span, Malformed> {
        let all = key == [0] && range_end == [0];
        let text = if all { String::new() } else { text(key)? };
        if range_end.is_empty() {
            Ok(Span::Key(text))
        } else if all || (!text.is_empty() && range_end == prefix_end(key)) {
            Ok(Span::Prefix(text))
        } else {
            Err("ranges other than a prefix are not served".to_owned())
        }
    }

    pub(crate) fn matches(&self, key: &str) -> bool {
        match self {
            Span::Key(own) => own == key,
            Span::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }

    /// The part of it that a prefix search finds.
    pub(crate) fn prefix(&self) -> &str {
        match self {
            Span::Key(text) | Span::Prefix(text) => text,
        }
    }
}

/// A prefix as etcd's pair of key and range end.
pub(crate) fn prefix_range(prefix: &str) -> (Vec<u8>, Vec<u8>) {
    if prefix.is_empty() {
        (vec![0], vec![0])
    } else {
        (prefix.as_bytes().to_vec(), prefix_end(prefix.as_bytes()))
    }
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| format!("the key {bytes:?} is not UTF-8"))
}

/// Revisions and counts are `int64` there and never negative.
pub(crate) fn unsigned(value: i64, what: &str) -> Result<u64, Malformed> {
    u64::try_from(value).map_err(|_| format!("{what} is {value}, below zero"))
}

/// The largest that fits: no server reaches it.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn lease(id: i64) -> Option<LeaseId> {
    (id != 0).then_some(LeaseId(id))
}

/// The value of a record, as bytes that need no copy.
struct Value(KeyValue);

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0.value
    }
}

impl From<&KeyValue> for super::KeyValue {
    fn from(value: &KeyValue) -> super::KeyValue {
        super::KeyValue {
            key: value.key.clone().into_bytes(),
            create_revision: signed(value.create_revision),
            mod_revision: signed(value.mod_revision),
            version: signed(value.version),
            value: Bytes::from_owner(Value(value.clone())),
            lease: value.lease.map_or(0, |lease| lease.0),
        }
    }
}

impl TryFrom<super::KeyValue> for KeyValue {
    type Error = Malformed;
    fn try_from(value: super::KeyValue) -> Result<KeyValue, Malformed> {
        Ok(KeyValue::from(Record {
            key: text(&value.key)?,
            value: value.value.into(),
            mod_revision: unsigned(value.mod_revision, "mod_revision")?,
            create_revision: unsigned(value.create_revision, "create_revision")?,
            version: unsigned(value.version, "version")?,
            lease: lease(value.lease),
        }))
    }
}

impl From<&Event> for super::Event {
    fn from(event: &Event) -> super::Event {
        match event {
            Event::Put(value) => super::Event {
                r#type: EventType::Put.into(),
                kv: Some(value.into()),
            },
            Event::Delete { key, mod_revision } => super::Event {
                r#type: EventType::Delete.into(),
                kv: Some(super::KeyValue {
                    key: key.clone().into_bytes(),
                    mod_revision: signed(*mod_revision),
                    ..super::KeyValue::default()
                }),
            },
        }
    }
}

impl TryFrom<super::Event> for Event {
    type Error = Malformed;
    fn try_from(event: super::Event) -> Result<Event, Malformed> {
        let kind = EventType::try_from(event.r#type).map_err(|_| format!("an event of type {}", event.r#type))?;
        let value = KeyValue::try_from(event.kv.ok_or("an event without a key")?)?;
        Ok(match kind {
            EventType::Put => Event::Put(value),
            EventType::Delete => Event::Delete {
                key: value.key.clone(),
                mod_revision: value.mod_revision,
            },
        })
    }
}

impl From<&Call> for super::TxnRequest {
    fn from(call: &Call) -> super::TxnRequest {
        let ops = |ops: &[Op]| ops.iter().map(super::RequestOp::from).collect();
        super::TxnRequest {
            compare: call.compares.iter().map(super::Compare::from).collect(),
            success: ops(&call.then),
            failure: ops(&call.otherwise),
        }
    }
}

impl TryFrom<super::TxnRequest> for Call {
    type Error = Malformed;
    fn try_from(request: super::TxnRequest) -> Result<Call, Malformed> {
        let ops = |ops: Vec<super::RequestOp>| ops.into_iter().map(Op::try_from).collect::<Result<Vec<_>, _>>();
        Ok(Call {
            compares: request
                .compare
                .into_iter()
                .map(Compare::try_from)
                .collect::<Result<_, _>>()?,
            then: ops(request.success)?,
            otherwise: ops(request.failure)?,
        })
    }
}

impl From<&Compare> for super::Compare {
    fn from(compare: &Compare) -> super::Compare {
        let (target, union) = match compare {
            Compare::ModRevision { equals, .. } => (CompareTarget::Mod, TargetUnion::ModRevision(signed(*equals))),
            Compare::CreateRevision { equals, .. } => {
                (CompareTarget::Create, TargetUnion::CreateRevision(signed(*equals)))
            }
            Compare::Version { equals, .. } => (CompareTarget::Version, TargetUnion::Version(signed(*equals))),
            Compare::Value { equals, .. } => (CompareTarget::Value, TargetUnion::Value(equals.clone())),
        };
        super::Compare {
            result: 0,
            target: target.into(),
            key: compare.key().as_bytes().to_vec(),
            target_union: Some(union),
            range_end: Vec::new(),
        }
    }
}

impl TryFrom<super::Compare> for Compare {
    type Error = Malformed;
    fn try_from(compare: super::Compare) -> Result<Compare, Malformed> {
        if compare.result != 0 || !compare.range_end.is_empty() {
            return Err("comparisons other than = with one key are not served".to_owned());
        }
        let key = text(&compare.key)?;
        let target = CompareTarget::try_from(compare.target)
            .map_err(|_| format!("comparison with target {} is not served", compare.target))?;
        // A value of zero need not be on the wire.
        let number = |union: Option<TargetUnion>| match union {
            None => Ok(0),
            Some(TargetUnion::Version(n)) if target == CompareTarget::Version => unsigned(n, "version"),
            Some(TargetUnion::CreateRevision(n)) if target == CompareTarget::Create => unsigned(n, "create_revision"),
            Some(TargetUnion::ModRevision(n)) if target == CompareTarget::Mod => unsigned(n, "mod_revision"),
            Some(_) => Err("a comparison whose target and value differ".to_owned()),
        };
        Ok(match target {
            CompareTarget::Mod => Compare::ModRevision {
                key,
                equals: number(compare.target_union)?,
            },
            CompareTarget::Create => Compare::CreateRevision {
                key,
                equals: number(compare.target_union)?,
            },
            CompareTarget::Version => Compare::Version {
                key,
                equals: number(compare.target_union)?,
            },
            CompareTarget::Value => match compare.target_union {
                Some(TargetUnion::Value(equals)) => Compare::Value { key, equals },
                _ => return Err("a comparison of a value without a value".to_owned()),
            },
        })
    }
}

impl From<&Op> for super::RequestOp {
    fn from(op: &Op) -> super::RequestOp {
        let request = match op {
            Op::Get { key } => RequestUnion::Range(super::RangeRequest {
                key: key.as_bytes().to_vec(),
                ..Default::default()
            }),
            Op::Prefix { key } => {
                let (key, range_end) = prefix_range(key);
                RequestUnion::Range(super::RangeRequest {
                    key,
                    range_end,
                    ..Default::default()
                })
            }
            Op::Put { key, value, lease } => RequestUnion::Put(super::PutRequest {
                key: key.as_bytes().to_vec(),
                value: value.clone(),
                lease: lease.map_or(0, |lease| lease.0),
                ..Default::default()
            }),
            Op::Delete { key } => RequestUnion::DeleteRange(super::DeleteRangeRequest {
                key: key.as_bytes().to_vec(),
                ..Default::default()
            }),
            Op::DeletePrefix { key } => {
                let (key, range_end) = prefix_range(key);
                RequestUnion::DeleteRange(super::DeleteRangeRequest {
                    key,
                    range_end,
                    ..Default::default()
                })
            }
        };
        super::RequestOp { request: Some(request) }
    }
}

impl TryFrom<super::RequestOp> for Op {
    type Error = Malformed;
    fn try_from(op: super::RequestOp) -> Result<Op, Malformed> {
        match op.request.ok_or("an operation that says nothing")? {
            RequestUnion::Range(request) => {
                if request != plain_range(&request) {
                    return Err("options of a range inside a transaction are not served".to_owned());
                }
                range_op(&request)
            }
            RequestUnion::Put(request) => put_op(request),
            RequestUnion::DeleteRange(request) => delete_op(&request),
            RequestUnion::Txn(_) => Err("transactions inside transactions are not served".to_owned()),
        }
    }
}

/// The same range without options (`serializable` may be ignored: every read is linearizable).
pub(crate) fn plain_range(request: &super::RangeRequest) -> super::RangeRequest {
    super::RangeRequest {
        key: request.key.clone(),
        range_end: request.range_end.clone(),
        serializable: request.serializable,
        ..Default::default()
    }
}

pub(crate) fn range_op(request: &super::RangeRequest) -> Result<Op, Malformed> {
    Ok(match Span::parse(&request.key, &request.range_end)? {
        Span::Key(key) => Op::Get { key },
        Span::Prefix(key) => Op::Prefix { key },
    })
}

pub(crate) fn put_op(request: super::PutRequest) -> Result<Op, Malformed> {
    if request.prev_kv || request.ignore_value || request.ignore_lease {
        return Err("prev_kv, ignore_value and ignore_lease are not served".to_owned());
    }
    Ok(Op::Put {
        key: text(&request.key)?,
        value: request.value,
        lease: lease(request.lease),
    })
}

pub(crate) fn delete_op(request: &super::DeleteRangeRequest) -> Result<Op, Malformed> {
    if request.prev_kv {
        return Err("prev_kv is not served".to_owned());
    }
    Ok(match Span::parse(&request.key, &request.range_end)? {
        Span::Key(key) => Op::Delete { key },
        Span::Prefix(key) => Op::DeletePrefix { key },
    })
}

pub(crate) fn header(revision: u64) -> Option<super::ResponseHeader> {
    // One server, one member: any numbers that stay the same do.
    Some(super::ResponseHeader {
        cluster_id: 1,
        member_id: 1,
        revision: signed(revision),
        raft_term: 1,
    })
}

impl From<&Reply> for super::TxnResponse {
    fn from(reply: &Reply) -> super::TxnResponse {
        let responses = reply.results.iter().map(|result| super::ResponseOp {
            response: Some(match result {
                OpReply::Values(values) => ResponseUnion::Range(super::RangeResponse {
                    header: header(reply.revision),
                    count: signed(values.len() as u64),
                    kvs: values.iter().map(super::KeyValue::from).collect(),
                    more: false,
                }),
                OpReply::Put => ResponseUnion::Put(super::PutResponse {
                    header: header(reply.revision),
                }),
                OpReply::Deleted(deleted) => ResponseUnion::DeleteRange(super::DeleteRangeResponse {
                    header: header(reply.revision),
                    deleted: signed(*deleted),
                }),
            }),
        });
        super::TxnResponse {
            header: header(reply.revision),
            succeeded: reply.succeeded,
            responses: responses.collect(),
        }
    }
}

/// The revision that a response was made at.
pub(crate) fn revision(header: Option<&super::ResponseHeader>) -> Result<u64, Malformed> {
    unsigned(header.ok_or("a response without a header")?.revision, "revision")
}

/// Reads the response to `call`: it must answer every operation of the branch taken, with what was asked for.
pub(crate) fn reply(call: &Call, response: super::TxnResponse) -> Result<Reply, Malformed> {
    let ops = if response.succeeded {
        &call.then
    } else {
        &call.otherwise
    };
    if ops.len() != response.responses.len() {
        return Err(format!(
            "{} responses to {} operations",
            response.responses.len(),
            ops.len()
        ));
    }
    let mut results = Vec::with_capacity(ops.len());
    for (op, response) in ops.iter().zip(response.responses) {
        results.push(match (op, response.response) {
            (Op::Get { .. } | Op::Prefix { .. }, Some(ResponseUnion::Range(range))) if !range.more => OpReply::Values(
                range
                    .kvs
                    .into_iter()
                    .map(KeyValue::try_from)
                    .collect::<Result<_, _>>()?,
            ),
            (Op::Put { .. }, Some(ResponseUnion::Put(_))) => OpReply::Put,
            (Op::Delete { .. } | Op::DeletePrefix { .. }, Some(ResponseUnion::DeleteRange(range))) => {
                OpReply::Deleted(unsigned(range.deleted, "deleted")?)
            }
            (op, response) => return Err(format!("{response:?} as the response to {op:?}")),
        });
    }
    Ok(Reply {
        revision: revision(response.header.as_ref())?,
        succeeded: response.succeeded,
        results,
    })
}

#[cfg(test)]
mod tests;
