//! Settings that are for the whole cluster.

use super::input::{Body, Known};
use crate::condition::{Identity, IfMatch};
use crate::page::Tagged;
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin;
use amita_types::condition;
use amita_types::recovery as records;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(thresholds, set_thresholds))
        .routes(routes!(recovery, set_recovery))
}

/// From where on stores, and the stores of a pool together, count as full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Thresholds {
    /// Percent of a store's capacity at which it is time to add disks.
    pub near_full_percent: u8,
    /// Percent of a store's capacity at which writes will fail soon.
    pub full_percent: u8,
    /// Three percents of the capacity of a pool's stores together, ascending, at each of which it is said.
    pub pool_percents: [u8; condition::POOL_LEVELS],
}

impl From<condition::Thresholds> for Thresholds {
    fn from(found: condition::Thresholds) -> Thresholds {
        Thresholds {
            near_full_percent: found.near_full_percent,
            full_percent: found.full_percent,
            pool_percents: found.pool_percents,
        }
    }
}

/// What of the thresholds is to be another; what is not there stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ThresholdsChange {
    /// Percent of a store's capacity at which it is time to add disks: at least 3, and below `full_percent`.
    pub near_full_percent: Option<u8>,
    /// Percent of a store's capacity at which writes will fail soon.
    pub full_percent: Option<u8>,
    /// Three percents of the capacity of a pool's stores together, ascending, at each of which it is said.
    pub pool_percents: Option<[u8; condition::POOL_LEVELS]>,
}

/// What becomes of a store that is much slower than its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SlowPolicy {
    /// It is read from last.
    Off,
    /// And a person is told.
    Propose,
    /// And it is evicted where there are copies enough, one at a time, and tried again later.
    Evict,
}

impl From<SlowPolicy> for records::SlowPolicy {
    fn from(policy: SlowPolicy) -> records::SlowPolicy {
        match policy {
            SlowPolicy::Off => records::SlowPolicy::Off,
            SlowPolicy::Propose => records::SlowPolicy::Propose,
            SlowPolicy::Evict => records::SlowPolicy::Evict,
        }
    }
}

impl From<records::SlowPolicy> for SlowPolicy {
    fn from(policy: records::SlowPolicy) -> SlowPolicy {
        match policy {
            records::SlowPolicy::Off => SlowPolicy::Off,
            records::SlowPolicy::Propose => SlowPolicy::Propose,
            records::SlowPolicy::Evict => SlowPolicy::Evict,
        }
    }
}

/// What becomes of a node whose network loses much of what it sends or is sent. Each includes what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SickPolicy {
    /// Nothing is decided.
    Off,
    /// A person is told what is sick, and what would be done about it.
    Propose,
    /// Its stores get no more groups; where nodes have two networks, the bad one is left for the other.
    Avoid,
    /// Its stores are evicted where there are copies enough, one node at a time, and tried again later.
    Isolate,
}

impl From<SickPolicy> for records::SickPolicy {
    fn from(policy: SickPolicy) -> records::SickPolicy {
        match policy {
            SickPolicy::Off => records::SickPolicy::Off,
            SickPolicy::Propose => records::SickPolicy::Propose,
            SickPolicy::Avoid => records::SickPolicy::Avoid,
            SickPolicy::Isolate => records::SickPolicy::Isolate,
        }
    }
}

/// What becomes of a store whose disk predicts its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SickDisks {
    /// Nothing, and nobody is told: an inspection alone finds it.
    Off,
    /// A person is told, with what would be done.
    Propose,
    /// And it is drained, one at a time, where others have the space.
    Drain,
}

impl From<SickDisks> for records::SickDisks {
    fn from(policy: SickDisks) -> records::SickDisks {
        match policy {
            SickDisks::Off => records::SickDisks::Off,
            SickDisks::Propose => records::SickDisks::Propose,
            SickDisks::Drain => records::SickDisks::Drain,
        }
    }
}

impl From<records::SickPolicy> for SickPolicy {
    fn from(policy: records::SickPolicy) -> SickPolicy {
        match policy {
            records::SickPolicy::Off => SickPolicy::Off,
            records::SickPolicy::Propose => SickPolicy::Propose,
            records::SickPolicy::Avoid => SickPolicy::Avoid,
            records::SickPolicy::Isolate => SickPolicy::Isolate,
        }
    }
}

impl From<records::SickDisks> for SickDisks {
    fn from(policy: records::SickDisks) -> SickDisks {
        match policy {
            records::SickDisks::Off => SickDisks::Off,
            records::SickDisks::Propose => SickDisks::Propose,
            records::SickDisks::Drain => SickDisks::Drain,
        }
    }
}

/// What recovery of one level may take, on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Limits {
    /// Bytes a second; 0: no limit.
    pub bytes_per_second: u64,
    /// Requests a second; 0: no limit.
    pub iops: u32,
    /// Windows of up to 128 KiB under way at once; 0: no limit.
    pub windows: u16,
}

impl From<records::Limits> for Limits {
    fn from(found: records::Limits) -> Limits {
        Limits {
            bytes_per_second: found.bytes_per_s,
            iops: found.iops,
            windows: found.windows,
        }
    }
}

/// What becomes of stores that are much slower than their peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SlowStores {
    /// What is done.
    pub policy: SlowPolicy,
    /// It must have been slow for so many seconds without a pause.
    pub after_seconds: u32,
    /// One that was evicted is tried again after so many seconds; then after twice as many, and so on.
    pub rest_seconds: u32,
    /// The most evictions in an hour, of the whole cluster.
    pub per_hour: u32,
}

/// What becomes of nodes whose network is sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SickNetworks {
    /// What is done.
    pub policy: SickPolicy,
    /// It must have been sick for so many seconds; its node is isolated after twice as many.
    pub after_seconds: u32,
    /// One that was isolated is tried again after so many seconds; then after twice as many, and so on.
    pub rest_seconds: u32,
    /// The most nodes that are isolated in an hour, of the whole cluster.
    pub per_hour: u32,
}

/// How hard recovery works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Recovery {
    /// It gives way to clients, beside keeping to the limits.
    pub automatic: bool,
    /// The clients' p99 latency that is still well, in percent of the one without recovery.
    pub p99_percent: u32,
    /// The clients' throughput that is still well, in percent of the one without recovery. Work that is not urgent (rebalance, scrub; copies, moves and
    /// backups of volumes) stops half way to that: at 85 where this is 70.
    pub iops_percent: u32,
    /// Bytes a second of each node that bringing lost copies back keeps whatever the clients feel; 0: what it keeps by itself.
    pub least_bytes_per_second: u64,
    /// For groups that have no copy to spare.
    pub critical: Limits,
    /// For groups that lack a copy.
    pub degraded: Limits,
    /// For data that is to lie elsewhere.
    pub rebalance: Limits,
    /// For copies that are compared.
    pub scrub: Limits,
    /// What becomes of slow stores.
    pub slow_stores: SlowStores,
    /// What becomes of nodes whose network is sick.
    pub sick_networks: SickNetworks,
    /// What becomes of stores whose disks predict their failure.
    pub sick_disks: SickDisks,
}

impl From<records::Recovery> for Recovery {
    fn from(found: records::Recovery) -> Recovery {
        let (slow, sick) = (found.slow_stores, found.sick_networks);
        Recovery {
            automatic: found.automatic,
            p99_percent: found.p99_percent,
            iops_percent: found.iops_percent,
            least_bytes_per_second: found.least_bytes_per_s,
            critical: found.critical.into(),
            degraded: found.degraded.into(),
            rebalance: found.rebalance.into(),
            scrub: found.scrub.into(),
            slow_stores: SlowStores {
                policy: slow.policy.into(),
                after_seconds: slow.after_s,
                rest_seconds: slow.rest_s,
                per_hour: slow.per_hour,
            },
            sick_networks: SickNetworks {
                policy: sick.policy.into(),
                after_seconds: sick.after_s,
                rest_seconds: sick.rest_s,
                per_hour: sick.per_hour,
            },
            sick_disks: found.sick_disks.into(),
        }
    }
}

/// What of the limits of a level is to be another; what is not there stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsChange {
    /// Bytes a second of each node; 0: no limit.
    pub bytes_per_second: Option<u64>,
    /// Requests a second of each node; 0: no limit.
    pub iops: Option<u32>,
    /// Windows of up to 128 KiB under way at once on each node; 0: no limit.
    pub windows: Option<u16>,
}

impl LimitsChange {
    fn apply(self, limits: &mut records::Limits) {
        limits.bytes_per_s = self.bytes_per_second.unwrap_or(limits.bytes_per_s);
        limits.iops = self.iops.unwrap_or(limits.iops);
        limits.windows = self.windows.unwrap_or(limits.windows);
    }
}

/// What is to become of slow stores otherwise; what is not there stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowStoresChange {
    /// What is done.
    pub policy: Option<SlowPolicy>,
    /// It must have been slow for so many seconds without a pause.
    pub after_seconds: Option<u32>,
    /// One that was evicted is tried again after so many seconds; then after twice as many, and so on.
    pub rest_seconds: Option<u32>,
    /// The most evictions in an hour, of the whole cluster.
    pub per_hour: Option<u32>,
}

impl SlowStoresChange {
    fn apply(self, slow: &mut records::SlowStores) {
        slow.policy = self.policy.map_or(slow.policy, records::SlowPolicy::from);
        slow.after_s = self.after_seconds.unwrap_or(slow.after_s);
        slow.rest_s = self.rest_seconds.unwrap_or(slow.rest_s);
        slow.per_hour = self.per_hour.unwrap_or(slow.per_hour);
    }
}

/// What is to become of nodes whose network is sick otherwise; what is not there stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SickNetworksChange {
    /// What is done.
    pub policy: Option<SickPolicy>,
    /// It must have been sick for so many seconds; its node is isolated after twice as many.
    pub after_seconds: Option<u32>,
    /// One that was isolated is tried again after so many seconds; then after twice as many, and so on.
    pub rest_seconds: Option<u32>,
    /// The most nodes that are isolated in an hour, of the whole cluster.
    pub per_hour: Option<u32>,
}

impl SickNetworksChange {
    fn apply(self, sick: &mut records::SickNetworks) {
        sick.policy = self.policy.map_or(sick.policy, records::SickPolicy::from);
        sick.after_s = self.after_seconds.unwrap_or(sick.after_s);
        sick.rest_s = self.rest_seconds.unwrap_or(sick.rest_s);
        sick.per_hour = self.per_hour.unwrap_or(sick.per_hour);
    }
}

/// What of recovery is to be another; what is not there stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoveryChange {
    /// Is it to give way to clients, beside keeping to the limits?
    pub automatic: Option<bool>,
    /// The clients' p99 latency that is still well, in percent of the one without recovery.
    pub p99_percent: Option<u32>,
    /// The clients' throughput that is still well, in percent of the one without recovery. Work that is not urgent (rebalance, scrub; copies, moves and
    /// backups of volumes) stops half way to that: at 85 where this is 70.
    pub iops_percent: Option<u32>,
    /// Bytes a second of each node that bringing lost copies back keeps whatever the clients feel; 0: what it keeps by itself.
    pub least_bytes_per_second: Option<u64>,
    /// For groups that have no copy to spare.
    #[serde(default)]
    pub critical: LimitsChange,
    /// For groups that lack a copy.
    #[serde(default)]
    pub degraded: LimitsChange,
    /// For data that is to lie elsewhere.
    #[serde(default)]
    pub rebalance: LimitsChange,
    /// For copies that are compared.
    #[serde(default)]
    pub scrub: LimitsChange,
    /// What becomes of slow stores.
    #[serde(default)]
    pub slow_stores: SlowStoresChange,
    /// What becomes of nodes whose network is sick.
    #[serde(default)]
    pub sick_networks: SickNetworksChange,
    /// What becomes of stores whose disks predict their failure.
    pub sick_disks: Option<SickDisks>,
}

impl RecoveryChange {
    fn apply(self, settings: &mut records::Recovery) {
        settings.automatic = self.automatic.unwrap_or(settings.automatic);
        settings.p99_percent = self.p99_percent.unwrap_or(settings.p99_percent);
        settings.iops_percent = self.iops_percent.unwrap_or(settings.iops_percent);
        settings.least_bytes_per_s = self.least_bytes_per_second.unwrap_or(settings.least_bytes_per_s);
        self.critical.apply(&mut settings.critical);
        self.degraded.apply(&mut settings.degraded);
        self.rebalance.apply(&mut settings.rebalance);
        self.scrub.apply(&mut settings.scrub);
        self.slow_stores.apply(&mut settings.slow_stores);
        self.sick_networks.apply(&mut settings.sick_networks);
        settings.sick_disks = self.sick_disks.map_or(settings.sick_disks, records::SickDisks::from);
    }
}

/// From where on stores and pools count as full.
#[utoipa::path(get, path = "/settings/thresholds", operation_id = "showThresholds", tag = "settings",
    responses((status = 200, body = Thresholds, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn thresholds(State(api): State<Api>, asker: Asker) -> Result<Tagged<Thresholds>, Problem> {
    let found = api.run(asker, |session| Ok(admin::thresholds(&session.reader())?));
    Ok(Tagged(StatusCode::OK, found.await?.into()))
}

/// Says from where on stores and pools count as full; it holds at once.
#[utoipa::path(patch, path = "/settings/thresholds", operation_id = "changeThresholds", tag = "settings",
    request_body = ThresholdsChange, params(Known),
    responses((status = 200, body = Thresholds, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn set_thresholds(
    State(api): State<Api>,
    asker: Asker,
    known: IfMatch,
    Body(change): Body<ThresholdsChange>,
) -> Result<Tagged<Thresholds>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::PoolThresholds, "")?;
        let held = known.check(session, |meta| {
            let found = admin::thresholds(meta)?;
            let records = vec![condition::thresholds_key()];
            let identity = Identity::of(&Thresholds::from(found), records);
            Ok((found, identity))
        })?;
        if change == ThresholdsChange::default() {
            return Ok(*held.shown());
        }
        held.act(Action::PoolThresholds, "", |meta| {
            admin::set_thresholds(meta, |own| {
                own.near_full_percent = change.near_full_percent.unwrap_or(own.near_full_percent);
                own.full_percent = change.full_percent.unwrap_or(own.full_percent);
                own.pool_percents = change.pool_percents.unwrap_or(own.pool_percents);
            })
        })
    });
    Ok(Tagged(StatusCode::OK, changed.await?.into()))
}

/// How hard recovery works, and what becomes of slow stores.
#[utoipa::path(get, path = "/settings/recovery", operation_id = "showRecovery", tag = "settings",
    responses((status = 200, body = Recovery, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn recovery(State(api): State<Api>, asker: Asker) -> Result<Tagged<Recovery>, Problem> {
    let found = api.run(asker, |session| Ok(admin::recovery(&session.reader())?));
    Ok(Tagged(StatusCode::OK, found.await?.into()))
}

/// Says how hard recovery works, and what becomes of slow stores; all nodes go by it at once.
#[utoipa::path(patch, path = "/settings/recovery", operation_id = "changeRecovery", tag = "settings",
    request_body = RecoveryChange, params(Known),
    responses((status = 200, body = Recovery, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn set_recovery(
    State(api): State<Api>,
    asker: Asker,
    known: IfMatch,
    Body(change): Body<RecoveryChange>,
) -> Result<Tagged<Recovery>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::RecoverySet, "")?;
        let held = known.check(session, |meta| {
            let found = admin::recovery(meta)?;
            let identity = Identity::of(&Recovery::from(found.clone()), vec![records::recovery_key()]);
            Ok((found, identity))
        })?;
        if change == RecoveryChange::default() {
            return Ok(held.shown().clone());
        }
        held.act(Action::RecoverySet, "", |meta| {
            admin::set_recovery(meta, |settings| change.apply(settings))
        })
    });
    Ok(Tagged(StatusCode::OK, changed.await?.into()))
}
