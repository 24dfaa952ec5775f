//! etcd's v3 messages (`rpc.proto`, `kv.proto` of etcd 3.4), as far as they are used, with its field numbers.
//!
//! They are written out here rather than generated, because generating needs `protoc` on the machine that builds. What
//! is left out is skipped by the decoder, as protobuf wants it. `convert` translates to and from [`crate::call`].
#![allow(missing_docs)]

pub(crate) mod convert;

use bytes::Bytes;

/// The services' methods.
pub(crate) mod path {
    pub const RANGE: &str = "/etcdserverpb.KV/Range";
    pub const PUT: &str = "/etcdserverpb.KV/Put";
    pub const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
    pub const TXN: &str = "/etcdserverpb.KV/Txn";
    pub const COMPACT: &str = "/etcdserverpb.KV/Compact";
    pub const WATCH: &str = "/etcdserverpb.Watch/Watch";
    pub const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
    pub const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
    pub const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
    pub const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
    pub const LEASE_LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";
    pub const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
    pub const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
    pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";
}

/// The words of etcd's errors, which clients match (`api/v3rpc/rpctypes/error.go`).
pub(crate) mod words {
    pub const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
    pub const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";
    pub const LEASE_NOT_FOUND: &str = "etcdserver: requested lease not found";
    pub const LEASE_EXISTS: &str = "etcdserver: lease already exists";
    pub const LEASE_TTL: &str = "etcdserver: too large lease TTL";
    pub const DUPLICATE_KEY: &str = "etcdserver: duplicate key given in txn request";
    pub const EMPTY_KEY: &str = "etcdserver: key is not provided";
    pub const TOO_MANY_OPS: &str = "etcdserver: too many operations in txn request";
    pub const TOO_LARGE: &str = "etcdserver: request is too large";
    pub const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";
    pub const TOO_MANY_REQUESTS: &str = "etcdserver: too many requests";
    /// Our own: etcd has no such limit.
    pub const TOO_MANY_BYTES: &str =
        "amita: the answer would hold more bytes than are free; nothing was done: ask for less at once, or later";
    pub const NO_USERS: &str = "etcdserver: authentication is not enabled";
    pub const WRONG_PASSWORD: &str = "etcdserver: authentication failed, invalid user ID or password";
    pub const NO_USER_NAMED: &str = "etcdserver: user name is empty";
    pub const BAD_TOKEN: &str = "etcdserver: invalid auth token";
    pub const OLD_TOKEN: &str = "etcdserver: revision of auth store is old";
    pub const PERMISSION_DENIED: &str = "etcdserver: permission denied";
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field:meta])* $key:ident : $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub(crate) struct $name { $($(#[$field])* pub $key: $type),* }
    )*};
}

messages! {
    ResponseHeader {
        #[prost(uint64, tag = "1")] cluster_id: u64,
        #[prost(uint64, tag = "2")] member_id: u64,
        #[prost(int64, tag = "3")] revision: i64,
        #[prost(uint64, tag = "4")] raft_term: u64,
    }
    KeyValue {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(int64, tag = "2")] create_revision: i64,
        #[prost(int64, tag = "3")] mod_revision: i64,
        #[prost(int64, tag = "4")] version: i64,
        #[prost(bytes = "bytes", tag = "5")] value: Bytes,
        #[prost(int64, tag = "6")] lease: i64,
    }
    Event {
        #[prost(enumeration = "EventType", tag = "1")] r#type: i32,
        #[prost(message, optional, tag = "2")] kv: Option<KeyValue>,
    }
    RangeRequest {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")] range_end: Vec<u8>,
        #[prost(int64, tag = "3")] limit: i64,
        #[prost(int64, tag = "4")] revision: i64,
        #[prost(int32, tag = "5")] sort_order: i32,
        #[prost(int32, tag = "6")] sort_target: i32,
        #[prost(bool, tag = "7")] serializable: bool,
        #[prost(bool, tag = "8")] keys_only: bool,
        #[prost(bool, tag = "9")] count_only: bool,
        #[prost(int64, tag = "10")] min_mod_revision: i64,
        #[prost(int64, tag = "11")] max_mod_revision: i64,
        #[prost(int64, tag = "12")] min_create_revision: i64,
        #[prost(int64, tag = "13")] max_create_revision: i64,
    }
    RangeResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(message, repeated, tag = "2")] kvs: Vec<KeyValue>,
        #[prost(bool, tag = "3")] more: bool,
        #[prost(int64, tag = "4")] count: i64,
    }
    PutRequest {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")] value: Vec<u8>,
        #[prost(int64, tag = "3")] lease: i64,
        #[prost(bool, tag = "4")] prev_kv: bool,
        #[prost(bool, tag = "5")] ignore_value: bool,
        #[prost(bool, tag = "6")] ignore_lease: bool,
    }
    PutResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
    }
    DeleteRangeRequest {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")] range_end: Vec<u8>,
        #[prost(bool, tag = "3")] prev_kv: bool,
    }
    DeleteRangeResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(int64, tag = "2")] deleted: i64,
    }
    RequestOp {
        #[prost(oneof = "RequestUnion", tags = "1, 2, 3, 4")] request: Option<RequestUnion>,
    }
    ResponseOp {
        #[prost(oneof = "ResponseUnion", tags = "1, 2, 3")] response: Option<ResponseUnion>,
    }
    Compare {
        #[prost(int32, tag = "1")] result: i32,
        #[prost(enumeration = "CompareTarget", tag = "2")] target: i32,
        #[prost(bytes = "vec", tag = "3")] key: Vec<u8>,
        #[prost(oneof = "TargetUnion", tags = "4, 5, 6, 7")] target_union: Option<TargetUnion>,
        #[prost(bytes = "vec", tag = "64")] range_end: Vec<u8>,
    }
    TxnRequest {
        #[prost(message, repeated, tag = "1")] compare: Vec<Compare>,
        #[prost(message, repeated, tag = "2")] success: Vec<RequestOp>,
        #[prost(message, repeated, tag = "3")] failure: Vec<RequestOp>,
    }
    TxnResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(bool, tag = "2")] succeeded: bool,
        #[prost(message, repeated, tag = "3")] responses: Vec<ResponseOp>,
    }
    CompactionRequest {
        #[prost(int64, tag = "1")] revision: i64,
        #[prost(bool, tag = "2")] physical: bool,
    }
    CompactionResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
    }
    WatchRequest {
        #[prost(oneof = "WatchUnion", tags = "1, 2, 3")] request_union: Option<WatchUnion>,
    }
    WatchCreateRequest {
        #[prost(bytes = "vec", tag = "1")] key: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")] range_end: Vec<u8>,
        #[prost(int64, tag = "3")] start_revision: i64,
        #[prost(bool, tag = "4")] progress_notify: bool,
        #[prost(int32, repeated, tag = "5")] filters: Vec<i32>,
        #[prost(bool, tag = "6")] prev_kv: bool,
        #[prost(int64, tag = "7")] watch_id: i64,
    }
    WatchCancelRequest {
        #[prost(int64, tag = "1")] watch_id: i64,
    }
    WatchProgressRequest {}
    WatchResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(int64, tag = "2")] watch_id: i64,
        #[prost(bool, tag = "3")] created: bool,
        #[prost(bool, tag = "4")] canceled: bool,
        #[prost(int64, tag = "5")] compact_revision: i64,
        #[prost(string, tag = "6")] cancel_reason: String,
        #[prost(message, repeated, tag = "11")] events: Vec<Event>,
    }
    LeaseGrantRequest {
        #[prost(int64, tag = "1")] ttl: i64,
        #[prost(int64, tag = "2")] id: i64,
    }
    LeaseGrantResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(int64, tag = "2")] id: i64,
        #[prost(int64, tag = "3")] ttl: i64,
        #[prost(string, tag = "4")] error: String,
    }
    LeaseRevokeRequest {
        #[prost(int64, tag = "1")] id: i64,
    }
    LeaseRevokeResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
    }
    LeaseKeepAliveRequest {
        #[prost(int64, tag = "1")] id: i64,
    }
    /// A `ttl` of zero: the lease does not exist (any more).
    LeaseKeepAliveResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(int64, tag = "2")] id: i64,
        #[prost(int64, tag = "3")] ttl: i64,
    }
    LeaseTimeToLiveRequest {
        #[prost(int64, tag = "1")] id: i64,
        #[prost(bool, tag = "2")] keys: bool,
    }
    /// A `ttl` of -1: the lease does not exist (any more).
    LeaseTimeToLiveResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(int64, tag = "2")] id: i64,
        #[prost(int64, tag = "3")] ttl: i64,
        #[prost(int64, tag = "4")] granted_ttl: i64,
        #[prost(bytes = "vec", repeated, tag = "5")] keys: Vec<Vec<u8>>,
    }
    LeaseLeasesRequest {}
    LeaseLeasesResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(message, repeated, tag = "2")] leases: Vec<LeaseStatus>,
    }
    LeaseStatus {
        #[prost(int64, tag = "1")] id: i64,
    }
    AuthenticateRequest {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] password: String,
    }
    AuthenticateResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(string, tag = "2")] token: String,
    }
    StatusRequest {}
    StatusResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(string, tag = "2")] version: String,
        #[prost(int64, tag = "3")] db_size: i64,
        #[prost(uint64, tag = "4")] leader: u64,
        #[prost(uint64, tag = "5")] raft_index: u64,
        #[prost(uint64, tag = "6")] raft_term: u64,
        #[prost(string, repeated, tag = "8")] errors: Vec<String>,
        #[prost(int64, tag = "9")] db_size_in_use: i64,
    }
    AlarmRequest {
        /// 0: list, 1: raise, 2: lift.
        #[prost(int32, tag = "1")] action: i32,
        #[prost(uint64, tag = "2")] member_id: u64,
        #[prost(int32, tag = "3")] alarm: i32,
    }
    AlarmMember {
        #[prost(uint64, tag = "1")] member_id: u64,
        /// 1: NOSPACE.
        #[prost(int32, tag = "2")] alarm: i32,
    }
    AlarmResponse {
        #[prost(message, optional, tag = "1")] header: Option<ResponseHeader>,
        #[prost(message, repeated, tag = "2")] alarms: Vec<AlarmMember>,
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum RequestUnion {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum ResponseUnion {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum TargetUnion {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes = "vec", tag = "7")]
    Value(Vec<u8>),
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum WatchUnion {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "2")]
    Cancel(WatchCancelRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum EventType {
    Put = 0,
    Delete = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum CompareTarget {
    Version = 0,
    Create = 1,
    Mod = 2,
    Value = 3,
}
