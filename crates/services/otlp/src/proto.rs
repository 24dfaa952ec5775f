//! The messages of OTLP that traces need, with the fields that are written or read here.
//!
//! Names, types and numbers are those of `opentelemetry/proto/collector/trace/v1/trace_service.proto`,
//! `.../trace/v1/trace.proto`, `.../resource/v1/resource.proto` and `.../common/v1/common.proto` of
//! <https://github.com/open-telemetry/opentelemetry-proto>, version 1. What is left out is of proto3's default, which means "none" in each case.

use std::fmt;

/// What is sent: `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportTraceServiceRequest {
    /// One for each resource; a node is one.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// What is answered: `ExportTraceServiceResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportTraceServiceResponse {
    /// Not all was taken, or there is something to be said.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportTracePartialSuccess>,
}

/// `ExportTracePartialSuccess`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportTracePartialSuccess {
    /// So many spans were not taken.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The body of an answer that is no success: `google.rpc.Status`, without its details.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RpcStatus {
    /// gRPC's code; a server of HTTP may leave it out.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `ResourceSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    /// Whose spans they are.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// The spans, by what made them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
    /// The semantic conventions that the resource's attributes follow.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// `Resource`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// Each key once.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// `ScopeSpans`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    /// What made them.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// In no order.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
    /// The semantic conventions that the spans' attributes follow.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InstrumentationScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `Span`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    /// 16 bytes, not all 0.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes, not all 0.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// Of the span that it is part of; empty: it is the root.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// The trace flags of W3C in the lowest 8 bits ([`SAMPLED`]), and whether the parent lies in another process ([`HAS_IS_REMOTE`],
    /// [`IS_REMOTE`]).
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
    /// Of few kinds: the operation, and not its object.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Who asks whom.
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// Nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// Likewise, and not before the start.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// Each key once.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// None: it did not fail.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

/// The trace flag `sampled` of W3C's Trace Context.
pub const SAMPLED: u32 = 0x1;
/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`: the next bit means something.
pub const HAS_IS_REMOTE: u32 = 0x100;
/// `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`: the parent lies in another process.
pub const IS_REMOTE: u32 = 0x200;

/// `Span.SpanKind`, of those that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// Not said.
    Unspecified = 0,
    /// A part of what a process does.
    Internal = 1,
    /// What another process has asked for.
    Server = 2,
    /// A question to another process.
    Client = 3,
}

/// `Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// What went wrong, for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Did it?
    #[prost(enumeration = "StatusCode", tag = "3")]
    pub code: i32,
}

/// `Status.StatusCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// Nothing is said.
    Unset = 0,
    /// It went well, and somebody says so.
    Ok = 1,
    /// It failed.
    Error = 2,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// The attribute's name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// `AnyValue`, of those kinds that are used here.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    /// One of them.
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    pub value: Option<Value>,
}

/// `AnyValue.value`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    String(String),
    /// Yes or no.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Int(i64),
}

impl KeyValue {
    /// An attribute that is a text.
    pub fn text(key: &str, value: impl fmt::Display) -> KeyValue {
        KeyValue::of(key, Value::String(value.to_string()))
    }

    /// An attribute that is a number; one that does not fit is the largest that does.
    #[must_use]
    pub fn number(key: &str, value: u64) -> KeyValue {
        KeyValue::of(key, Value::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// An attribute that is yes or no.
    #[must_use]
    pub fn flag(key: &str, value: bool) -> KeyValue {
        KeyValue::of(key, Value::Bool(value))
    }

    fn of(key: &str, value: Value) -> KeyValue {
        KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        }
    }
}

#[cfg(test)]
mod tests;
