//! Limits in volumes' records.

use super::*;
use amita_types::map::{LIMITS_SINCE, Limit, Limits};

pub(super) fn with_volume(version: u32) -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "db", "main", 1 << 30).unwrap();
    let mut record = cluster(&meta).unwrap();
    record.version = version;
    meta.txn(&Call::put(map::cluster_key(), json(&record))).unwrap();
    meta
}

fn iops(limits: &mut Limits, rate: u64, burst: u64) {
    limits.iops.both = Some(Limit {
        rate,
        burst,
        peak: None,
    });
}

#[test]
fn limits_are_the_volume_s_and_stay_with_it() {
    let meta = with_volume(LIMITS_SINCE);
    assert_eq!(limits(&meta, "db").unwrap(), Limits::default());
    let set = set_limits(&meta, "db", |limits| iops(limits, 1_000, 200)).unwrap();
    assert_eq!(limits(&meta, "db").unwrap(), set);
    resize_volume(&meta, "db", 2 << 30).unwrap();
    assert_eq!(limits(&meta, "db").unwrap(), set);
    // What was not said stays.
    let more = set_limits(&meta, "db", |limits| {
        limits.bandwidth.write = Some(Limit {
            rate: 1 << 20,
            burst: 1 << 20,
            peak: None,
        });
    });
    assert_eq!(more.unwrap().iops, set.iops);
    set_limits(&meta, "db", |limits| *limits = Limits::default()).unwrap();
    assert_eq!(volume(&meta, "db").unwrap().limits, None);
}

#[test]
fn what_cannot_be_kept_is_refused_and_named() {
    let meta = with_volume(LIMITS_SINCE);
    let refused = set_limits(&meta, "db", |limits| iops(limits, 1_000, 100)).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("iops: of a rate of 1000 a second the burst must be at least 102"),
        "{refused}"
    );
    set_limits(&meta, "db", |limits| iops(limits, 0, 100)).unwrap_err();
    assert!(matches!(limits(&meta, "none").unwrap_err(), AdminError::NoSuch { .. }));
    let older = with_volume(LIMITS_SINCE - 1);
    let refused = set_limits(&older, "db", |limits| iops(limits, 1_000, 200)).unwrap_err();
    assert!(refused.to_string().contains("amita cluster finalize"), "{refused}");
    assert_eq!(volume(&older, "db").unwrap().limits, None);
}

#[test]
fn limits_of_tenants_and_pools_have_records_of_their_own() {
    let meta = with_volume(LIMITS_SINCE);
    let (tenant, pool) = (Jointly::Tenant("acme"), Jointly::Pool("main"));
    assert_eq!(joint_limits(&meta, tenant).unwrap(), Limits::default());
    let set = set_joint_limits(&meta, tenant, |limits| iops(limits, 1_000, 200)).unwrap();
    assert_eq!(joint_limits(&meta, tenant).unwrap(), set);
    assert_eq!(joint_limits(&meta, pool).unwrap(), Limits::default());
    set_joint_limits(&meta, pool, |limits| iops(limits, 9_000, 2_000)).unwrap();
    set_joint_limits(&meta, Jointly::Pool("none"), |limits| iops(limits, 9_000, 2_000)).unwrap_err();
    set_joint_limits(&meta, Jointly::Tenant(""), |limits| iops(limits, 9_000, 2_000)).unwrap_err();
    set_joint_limits(&meta, tenant, |limits| iops(limits, 1_000, 100)).unwrap_err();
    set_joint_limits(&meta, tenant, |limits| *limits = Limits::default()).unwrap();
    assert_eq!(joint_limits(&meta, tenant).unwrap(), Limits::default());
    set_tenant(&meta, "db", Some("acme")).unwrap();
    let id = volume(&meta, "db").unwrap().id;
    assert_eq!(
        (tenancies(&meta).unwrap()[0].volume, tenancies(&meta).unwrap().len()),
        (id, 1)
    );
    let told = || volume_statuses(&meta).unwrap().remove(0).tenant;
    assert_eq!(told().as_deref(), Some("acme"));
    set_tenant(&meta, "db", None).unwrap();
    assert_eq!(told(), None);
    assert_eq!(tenancies(&meta).unwrap(), []);
    set_tenant(&meta, "none", None).unwrap_err();
}
