//! Every operation of the specification: that it can be done, by whom, and what is refused.

use super::world::{World, volume};
use amita_api::specification;
use amita_control::access::Action;
use amita_control::admin::{
    self, BackupChange, BackupTaskWish, ExportSpec, HostKeys, KeepChange, LunSpec, Mask, PolicyChange, PolicyTarget,
    PoolSpec, RepositoryChange, SubsystemSpec, TargetSpec, WishedWork,
};
use amita_control::audit;
use amita_identity::OperatorRole::{self, Admin, Viewer};
use amita_metadata::{Call, Transact};
use amita_types::map::{self, About, Snapshot, SnapshotName, SnapshotState, Volume};
use amita_types::placement::Level;
use amita_types::{Generation, NodeId, SnapshotId, StoreId, VolumeId};
use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

/// Those that have tests of their own: streams, the data of volumes, what makes secrets, commands, and what other ends of mirrors ask.
const APART: [&str; 20] = [
    "listBackupPoints",
    "joinMirror",
    "lookAtMirrorLink",
    "tellMirrorPeer",
    "cutMirrorPoint",
    "declineMirrorDemotion",
    "renewMirrorToken",
    "readMirrorPoint",
    "revertVolume",
    "compareVolume",
    "exportVolumeData",
    "importVolumeData",
    "listVersions",
    "watchEvents",
    "watchChanges",
    "listTokens",
    "createToken",
    "revokeToken",
    "showSelf",
    "runCommand",
];
pub const HOST: &str = "nqn.2026-01.io.test:one";
pub const OTHER_HOST: &str = "nqn.2026-01.io.test:two";
pub const INITIATOR: &str = "iqn.2026-01.io.test:one";
pub const OTHER_INITIATOR: &str = "iqn.2026-01.io.test:two";
/// A store that no group needs.
pub const SPARE: StoreId = StoreId(1 << 64 | 99);

/// What an operation is tried with, and what it answers then.
pub struct Case {
    pub path: String,
    pub body: Option<Value>,
    pub status: u16,
}

/// A world in which each case can be done.
pub fn world() -> World {
    let world = World::new();
    let meta = &*world.meta;
    admin::register_node(meta, "n4", "127.0.0.1:4", None, 2).unwrap();
    admin::register_node(meta, "n1", "127.0.0.1:1", Some("127.0.0.1:9"), 2).unwrap();
    let spare = PoolSpec {
        name: "spare".to_owned(),
        copies: 2,
        min_copies: 1,
        groups: 4,
        chunk_bytes: admin::DEFAULT_CHUNK_BYTES,
        level: Level::Node,
        class: None,
    };
    admin::create_pool(meta, &spare).unwrap();
    // When no pool asks for stores any more.
    let first = admin::nodes(meta).unwrap()[0].id;
    admin::register_store(meta, &admin::store_record(SPARE, first, "/dev/y", 64 << 30)).unwrap();
    for name in ["db", "other", "disk", "old"] {
        admin::create_volume(meta, name, "main", 1 << 30).unwrap();
    }
    open(meta, "db");
    snapshot(meta, "db", "monday");
    snapshot(meta, "other", "tuesday");
    admin::clone_volume(meta, "db", "monday", "copy", &About::of(VolumeId(0))).unwrap();
    admin::flatten_volume(meta, "copy", Duration::from_secs(1)).unwrap();
    let recycle = admin::Fate::Recycle {
        deleted_at: 1,
        purge_at: 1000,
    };
    admin::carry_out(meta, admin::Deletion::of("old", false, recycle), &mut || false).unwrap();
    let export = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    admin::export_volume(meta, "other", &export).unwrap();
    let subsystem = SubsystemSpec {
        name: "sub".to_owned(),
        ..SubsystemSpec::default()
    };
    admin::create_subsystem(meta, &subsystem).unwrap();
    admin::create_subsystem(
        meta,
        &SubsystemSpec {
            name: "empty".to_owned(),
            ..subsystem
        },
    )
    .unwrap();
    admin::add_namespace(meta, "sub", "disk", None, 4096).unwrap();
    for host in [HOST, OTHER_HOST] {
        admin::add_host(meta, host, &HostKeys::default()).unwrap();
    }
    admin::allow_host(meta, "sub", HOST).unwrap();
    targets(meta);
    let policy = PolicyChange {
        target: Some(PolicyTarget::Pool("main".to_owned())),
        schedule: Some("@daily".to_owned()),
        keep: KeepChange {
            last: Some(2),
            ..KeepChange::default()
        },
        ..PolicyChange::default()
    };
    admin::create_policy(meta, "nightly", &policy).unwrap();
    backups(meta);
    alerts(meta);
    super::mirrors::add(meta, "dr", super::mirrors::OTHER, &[]);
    world
}

/// Two repositories of backups, one of which a policy backs up into.
fn backups(meta: &Mutex<amita_metadata::model::State>) {
    for name in ["off-site", "unused"] {
        let repository = RepositoryChange {
            address: Some("/backup".to_owned()),
            key_file: Some("/etc/amita/backup.key".to_owned()),
            ..RepositoryChange::default()
        };
        admin::add_backup_repository(meta, name, &repository).unwrap();
    }
    let policy = BackupChange {
        target: Some(PolicyTarget::Volume("db".to_owned())),
        repository: Some("off-site".to_owned()),
        schedule: Some("@daily".to_owned()),
        keep: KeepChange {
            last: Some(2),
            ..KeepChange::default()
        },
        verify: admin::VerifyChange {
            schedule: Some("@monthly".to_owned()),
            ..admin::VerifyChange::default()
        },
        ..BackupChange::default()
    };
    admin::create_backup_policy(meta, "weekly", &policy, std::time::Duration::ZERO).unwrap();
    // One that goes on, and one that has ended.
    let wish = BackupTaskWish {
        repository: "off-site".to_owned(),
        work: WishedWork::Backup {
            of: "db".to_owned(),
            full: false,
        },
        limit_s: None,
    };
    for name in ["once", "over"] {
        admin::create_backup_task(meta, name, &wish, std::time::Duration::ZERO).unwrap();
    }
    admin::cancel_backup_task(meta, "over", std::time::Duration::ZERO).unwrap();
}

/// Two targets of iSCSI, one with a LUN that one of two initiators sees.
fn targets(meta: &Mutex<amita_metadata::model::State>) {
    for name in ["tgt", "bare"] {
        let spec = TargetSpec {
            name: name.to_owned(),
            ..TargetSpec::default()
        };
        admin::create_target(meta, &spec).unwrap();
    }
    let lun = LunSpec {
        of: "disk".to_owned(),
        number: None,
        block_bytes: 512,
        shared: true,
    };
    admin::add_lun(meta, "tgt", &lun).unwrap();
    for name in [INITIATOR, OTHER_INITIATOR] {
        admin::add_initiator(meta, name).unwrap();
    }
    admin::allow_initiator(meta, "tgt", INITIATOR, &Mask::These(vec![0])).unwrap();
}

/// An alert, and whom it is told.
fn alerts(meta: &Mutex<amita_metadata::model::State>) {
    let mut alerts = amita_notify::Alerts::default();
    alerts.step(&[alert()], amita_notify::now());
    put(meta, amita_notify::records::alerts_key(), &alerts);
    let origin = "https://hooks.example.org:443".to_owned();
    let kind = amita_notify::ChannelKind::Webhook { origin };
    let channel = amita_notify::Channel::new("hook", kind, "eve", 1);
    amita_notify::admin::add_channel(meta, &channel).unwrap();
    let silence = amita_notify::Silence {
        id: SILENCE.to_owned(),
        matches: amita_notify::Match::default(),
        from: 1,
        until: 2,
        by: "eve".to_owned(),
        why: "work".to_owned(),
        made_at: 1,
    };
    put(meta, amita_notify::records::silence_key(SILENCE), &silence);
}

const SILENCE: &str = "0123456789ab";

fn alert() -> amita_notify::alert::Condition {
    amita_notify::alert::Condition {
        code: "store-failed".to_owned(),
        severity: amita_notify::Severity::Critical,
        object: "s1".to_owned(),
        labels: BTreeMap::new(),
        what: "Store s1 fails.".to_owned(),
        advice: "Replace it.".to_owned(),
        at_once: true,
    }
}

/// The volume was opened once.
fn open(meta: &Mutex<amita_metadata::model::State>, name: &str) {
    let volume = Volume {
        generation: Generation(1),
        ..admin::volume(meta, name).unwrap()
    };
    put(meta, map::volume_key(name), &volume);
}

pub fn put<T: serde::Serialize>(meta: &Mutex<amita_metadata::model::State>, key: String, record: &T) {
    meta.txn(&Call::put(key, serde_json::to_vec(record).unwrap())).unwrap();
}

/// A sealed snapshot, as an owner leaves it.
pub fn snapshot(meta: &Mutex<amita_metadata::model::State>, volume: &str, name: &str) {
    let volume = admin::volume(meta, volume).unwrap();
    let number = SnapshotId(1);
    let record = Snapshot {
        volume: volume.id,
        number,
        name: name.to_owned(),
        size_bytes: volume.size_bytes,
        taken_at: 1,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(volume.generation),
    };
    put(meta, map::snapshot_key(volume.id, number), &record);
    let named = SnapshotName { number, data: None };
    put(meta, map::snapshot_name_key(volume.id, name), &named);
}

pub fn cases(world: &World) -> BTreeMap<&'static str, Case> {
    let meta = &*world.meta;
    let store = StoreId(u128::from(NodeId(1).0) << 64 | 7);
    let old = admin::trash(meta).unwrap()[0].trashed.volume;
    let flattened = admin::volume(meta, "copy").unwrap().id;
    let case = |path: &str, body: Value, status| Case {
        path: format!("/api/v1{path}"),
        body: Some(body).filter(|body| !body.is_null()),
        status,
    };
    let get = |path: &str| case(path, Value::Null, 200);
    let gone = |path: &str| case(path, Value::Null, 204);
    let clones = "/volumes/db/snapshots/monday/clones";
    BTreeMap::from([
        ("showHealth", get("/health")),
        ("showCluster", get("/cluster")),
        ("showInspection", get("/inspect")),
        ("showLinks", get("/links")),
        ("finalizeCluster", get("/cluster/finalize?force=true")),
        ("listNodes", get("/nodes")),
        ("showNode", get("/nodes/n1")),
        (
            "changeNode",
            case("/nodes/n1", json!({ "rack": "r1", "maintenance": true }), 200),
        ),
        ("removeNode", gone("/nodes/n4")),
        ("listStores", get("/stores?node=n1")),
        ("showStore", get(&format!("/stores/{store}"))),
        (
            "changeStore",
            case(&format!("/stores/{store}"), json!({ "weight": 5, "class": "ssd" }), 200),
        ),
        ("forgetStore", gone(&format!("/stores/{SPARE}"))),
        (
            "replaceStore",
            case(
                &format!("/stores/{store}/replace"),
                json!({ "by": SPARE.to_string() }),
                200,
            ),
        ),
        ("adoptStore", gone(&format!("/stores/{SPARE}/adopt"))),
        ("listPools", get("/pools")),
        (
            "createPool",
            case("/pools", json!({ "name": "new", "copies": 2, "min_copies": 1 }), 201),
        ),
        ("showPool", get("/pools/main")),
        (
            "changePool",
            case(
                "/pools/main",
                json!({ "recycle_seconds": 60, "quota": { "volumes": 9, "snapshots": null } }),
                200,
            ),
        ),
        ("deletePool", gone("/pools/spare")),
        ("listGroups", get("/pools/main/groups?limit=3")),
        ("listVolumes", get("/volumes")),
        ("createVolume", case("/volumes", volume("new"), 201)),
        ("showVolume", get("/volumes/db")),
        ("changeVolume", case("/volumes/db", json!({ "protected": true }), 200)),
        ("deleteVolume", get("/volumes/other")),
        (
            "renameVolume",
            case("/volumes/other/rename", json!({ "name": "another" }), 200),
        ),
        (
            "copyVolume",
            case(
                "/volumes/db/copies",
                json!({ "name": "db2", "pool": "main", "snapshots": true }),
                202,
            ),
        ),
        // There is one pool.
        (
            "migrateVolume",
            case("/volumes/db/migrate", json!({ "pool": "main" }), 422),
        ),
        // It is not encrypted.
        ("rekeyVolume", case("/volumes/db/rekey", json!({}), 422)),
        ("showFlattening", get("/volumes/copy/flatten")),
        ("flattenVolume", case("/volumes/copy/flatten", Value::Null, 202)),
        ("cancelFlattening", get("/volumes/copy/flatten")),
        ("showScrub", get("/volumes/db/scrub")),
        ("scrubVolume", case("/volumes/db/scrub", Value::Null, 202)),
        // Nobody lives who could do it.
        ("moveVolume", case("/volumes/db/move", json!({ "to": "n1" }), 504)),
        (
            "createSnapshot",
            case("/volumes/db/snapshots", json!({ "name": "now" }), 504),
        ),
        (
            "createSnapshotSet",
            case(
                "/snapshot-sets",
                json!({ "name": "now", "volumes": ["db", "other"] }),
                504,
            ),
        ),
        ("clearReservation", get("/volumes/db/reservation")),
        ("showVolumeLimits", get("/volumes/db/limits")),
        (
            "setVolumeLimits",
            case(
                "/volumes/db/limits",
                json!({ "iops": { "both": { "rate": 500 } } }),
                200,
            ),
        ),
        ("clearVolumeLimits", get("/volumes/db/limits")),
        ("showVolumePriority", get("/volumes/db/priority")),
        (
            "setVolumePriority",
            case("/volumes/db/priority", json!({ "weight": 200 }), 200),
        ),
        ("clearVolumePriority", get("/volumes/db/priority")),
        ("showPoolLimits", get("/pools/main/limits")),
        (
            "setPoolLimits",
            case(
                "/pools/main/limits",
                json!({ "iops": { "both": { "rate": 500 } } }),
                200,
            ),
        ),
        ("clearPoolLimits", get("/pools/main/limits")),
        ("showTenantLimits", get("/tenants/acme/limits")),
        (
            "setTenantLimits",
            case(
                "/tenants/acme/limits",
                json!({ "iops": { "both": { "rate": 500 } } }),
                200,
            ),
        ),
        ("clearTenantLimits", get("/tenants/acme/limits")),
        ("showVolumeTenant", get("/volumes/db/tenant")),
        (
            "setVolumeTenant",
            case("/volumes/db/tenant", json!({ "tenant": "acme" }), 200),
        ),
        ("clearVolumeTenant", get("/volumes/db/tenant")),
        ("listAllSnapshots", get("/snapshots?limit=1")),
        ("listSnapshots", get("/volumes/db/snapshots")),
        ("showSnapshot", get("/volumes/db/snapshots/monday")),
        (
            "changeSnapshot",
            case("/volumes/db/snapshots/monday", json!({ "protected": true }), 200),
        ),
        ("deleteSnapshot", get("/volumes/other/snapshots/tuesday")),
        ("listClones", get(clones)),
        (
            "createClone",
            case(clones, json!({ "name": "second", "labels": { "a": "b" } }), 201),
        ),
        ("listSnapshotSets", get("/snapshot-sets")),
        ("listDeletedVolumes", get("/deleted-volumes")),
        ("showDeletedVolume", get(&format!("/deleted-volumes/{old}"))),
        (
            "undeleteVolume",
            case(
                &format!("/deleted-volumes/{old}/undelete"),
                json!({ "name": "back" }),
                200,
            ),
        ),
        ("purgeVolume", get(&format!("/deleted-volumes/{old}"))),
        ("listSnapshotPolicies", get("/snapshot-policies")),
        (
            "createSnapshotPolicy",
            case(
                "/snapshot-policies",
                json!({ "name": "new", "target": { "volumes": ["db"] }, "schedule": "@hourly", "keep": { "last": 3 } }),
                201,
            ),
        ),
        ("showSnapshotPolicy", get("/snapshot-policies/nightly")),
        (
            "changeSnapshotPolicy",
            case("/snapshot-policies/nightly", json!({ "paused": true }), 200),
        ),
        ("deleteSnapshotPolicy", gone("/snapshot-policies/nightly")),
        ("pruneSnapshotPolicy", get("/snapshot-policies/nightly/prune")),
        ("listBackupRepositories", get("/backup-repositories")),
        (
            "addBackupRepository",
            case(
                "/backup-repositories",
                json!({ "name": "new", "address": "s3://backups/a", "key_file": "/k", "s3_credentials": "/c" }),
                201,
            ),
        ),
        ("showBackupRepository", get("/backup-repositories/off-site")),
        (
            "changeBackupRepository",
            case(
                "/backup-repositories/off-site",
                json!({ "limit_bytes_per_second": 1_000_000 }),
                200,
            ),
        ),
        ("removeBackupRepository", gone("/backup-repositories/unused")),
        ("listBackupPolicies", get("/backup-policies")),
        (
            "createBackupPolicy",
            case(
                "/backup-policies",
                json!({
                    "name": "new", "target": { "volumes": ["db"] }, "repository": "off-site", "schedule": "@hourly", "keep": { "last": 3 }
                }),
                201,
            ),
        ),
        ("showBackupPolicy", get("/backup-policies/weekly")),
        (
            "changeBackupPolicy",
            case("/backup-policies/weekly", json!({ "paused": true }), 200),
        ),
        (
            "runBackupPolicy",
            case("/backup-policies/weekly/runs", Value::Null, 202),
        ),
        (
            "verifyBackupPolicy",
            case("/backup-policies/weekly/verifications", Value::Null, 202),
        ),
        ("deleteBackupPolicy", gone("/backup-policies/weekly")),
        ("listBackupTasks", get("/backup-tasks")),
        (
            "createBackupTask",
            case(
                "/backup-tasks",
                json!({ "name": "new", "repository": "off-site", "restore": { "point": 3, "to": "back", "pool": "main" } }),
                202,
            ),
        ),
        ("showBackupTask", get("/backup-tasks/once")),
        ("cancelBackupTask", case("/backup-tasks/once/cancel", Value::Null, 202)),
        ("removeBackupTask", gone("/backup-tasks/over")),
        ("listNbdExports", get("/nbd-exports")),
        ("showNbdExport", get("/nbd-exports/other")),
        (
            "exportVolume",
            case("/nbd-exports/other", json!({ "clients": ["c"] }), 200),
        ),
        ("unexportVolume", gone("/nbd-exports/other")),
        ("listSubsystems", get("/subsystems")),
        ("createSubsystem", case("/subsystems", json!({ "name": "new" }), 201)),
        ("showSubsystem", get("/subsystems/sub")),
        (
            "changeSubsystem",
            case("/subsystems/sub", json!({ "any_host": true }), 200),
        ),
        ("deleteSubsystem", gone("/subsystems/empty")),
        ("listNamespaces", get("/subsystems/sub/namespaces")),
        (
            "addNamespace",
            case("/subsystems/sub/namespaces", json!({ "volume": "db" }), 201),
        ),
        ("removeNamespace", gone("/subsystems/sub/namespaces/1")),
        (
            "allowHost",
            get(&format!("/subsystems/sub/hosts/{}", OTHER_HOST.replace(':', "%3A"))),
        ),
        ("denyHost", get(&format!("/subsystems/sub/hosts/{HOST}"))),
        ("listHosts", get("/hosts")),
        (
            "addHost",
            case("/hosts", json!({ "nqn": "nqn.2026-01.io.test:three" }), 201),
        ),
        ("showHost", get(&format!("/hosts/{HOST}"))),
        (
            "changeHostKeys",
            case(&format!("/hosts/{HOST}/keys"), json!({ "tls": null }), 200),
        ),
        ("removeHost", gone(&format!("/hosts/{OTHER_HOST}"))),
        ("listTargets", get("/targets")),
        ("createTarget", case("/targets", json!({ "name": "new" }), 201)),
        ("showTarget", get("/targets/tgt")),
        (
            "changeTarget",
            case(
                "/targets/tgt",
                json!({ "chap_required": true, "space_warning_percent": 80 }),
                200,
            ),
        ),
        ("deleteTarget", gone("/targets/bare")),
        ("listLuns", get("/targets/tgt/luns")),
        (
            "addLun",
            case("/targets/tgt/luns", json!({ "volume": "db", "lun": 7 }), 201),
        ),
        ("removeLun", gone("/targets/tgt/luns/0")),
        (
            "allowInitiator",
            case(
                &format!("/targets/tgt/initiators/{}", OTHER_INITIATOR.replace(':', "%3A")),
                json!({ "luns": [0] }),
                200,
            ),
        ),
        ("denyInitiator", get(&format!("/targets/tgt/initiators/{INITIATOR}"))),
        ("listInitiators", get("/initiators")),
        (
            "addInitiator",
            case("/initiators", json!({ "name": "iqn.2026-01.io.test:three" }), 201),
        ),
        ("showInitiator", get(&format!("/initiators/{INITIATOR}"))),
        (
            "changeInitiatorKeys",
            case(
                &format!("/initiators/{INITIATOR}/keys"),
                json!({ "chap_target": null }),
                200,
            ),
        ),
        ("removeInitiator", gone(&format!("/initiators/{OTHER_INITIATOR}"))),
        ("showThresholds", get("/settings/thresholds")),
        (
            "changeThresholds",
            case("/settings/thresholds", json!({ "full_percent": 90 }), 200),
        ),
        ("showRecovery", get("/settings/recovery")),
        (
            "changeRecovery",
            case("/settings/recovery", json!({ "scrub": { "windows": 2 } }), 200),
        ),
        ("listEvents", get("/events?order=newest&severity=warning")),
        ("listEventKinds", get("/event-kinds")),
        ("listAudit", get("/audit")),
        ("showHistory", get("/history?object=cluster&metric=iops")),
        ("showHeatmap", get("/history/heatmap?object=cluster")),
        ("listTopTalkers", get("/history/top?of=stores&by=latency")),
        ("showForecast", get("/history/forecast?object=cluster")),
        (
            "showHistoryPart",
            get("/history/part?object=cluster&metric=iops&from=600&to=1200&step=600&resolution=600"),
        ),
        (
            "showTopPart",
            get("/history/top-part?from=600&to=1200&step=600&resolution=600"),
        ),
        ("listTraces", get("/traces?slow=true&limit=5")),
        ("showTracesPart", get("/traces/part")),
        ("listIscsiSessions", get("/iscsi/sessions?limit=5&target=tgt")),
        ("showIscsiSessionsPart", get("/iscsi/sessions/part?core=0&number=1")),
        ("listCounters", get("/counters?limit=5&after=n1")),
        ("showCountersPart", get("/counters/part")),
        ("showCertificates", get("/certificates")),
        ("listJobs", get("/jobs?kind=flatten")),
        ("showJob", get(&format!("/jobs/flatten-{flattened}"))),
        (
            "pauseJob",
            case(&format!("/jobs/flatten-{flattened}/pause"), Value::Null, 200),
        ),
        (
            "resumeJob",
            case(&format!("/jobs/flatten-{flattened}/resume"), Value::Null, 200),
        ),
        (
            "cancelJob",
            case(&format!("/jobs/flatten-{flattened}/cancel"), Value::Null, 204),
        ),
        ("showReservation", get("/volumes/db/reservation")),
        ("showAttachment", get("/volumes/disk/attachment")),
        ("showIscsiAttachment", get("/volumes/disk/iscsi-attachment")),
        ("listAlerts", get("/alerts?state=firing&severity=warning")),
        ("showAlert", get(&format!("/alerts/{}", alert().id()))),
        (
            "acknowledgeAlert",
            case(
                &format!("/alerts/{}/acknowledge", alert().id()),
                json!({ "note": "on it" }),
                200,
            ),
        ),
        ("listSilences", get("/silences")),
        (
            "addSilence",
            case(
                "/silences",
                json!({ "matches": { "codes": ["node-*"] }, "until": amita_notify::now() + 3600, "why": "work" }),
                201,
            ),
        ),
        ("removeSilence", gone(&format!("/silences/{SILENCE}"))),
        ("listChannels", get("/channels")),
        (
            "addChannel",
            case(
                "/channels",
                json!({ "name": "new", "syslog": { "by": "tcp", "server": "logs.example.org:514" } }),
                201,
            ),
        ),
        ("showChannel", get("/channels/hook")),
        ("removeChannel", gone("/channels/hook")),
        ("listMirrors", get("/mirrors?limit=3")),
        (
            "createMirror",
            case(
                "/mirrors",
                json!({ "name": "new", "volumes": ["db"], "addresses": ["n1.near.example:7480"] }),
                201,
            ),
        ),
        (
            "createMirrorToken",
            case(
                "/mirrors/dr/token",
                json!({ "addresses": ["n1.near.example:7480"] }),
                201,
            ),
        ),
        ("showMirror", get("/mirrors/dr")),
        (
            "changeMirror",
            case(
                "/mirrors/dr",
                json!({ "interval_s": 30, "keep": 4, "limit_bytes_per_second": null }),
                200,
            ),
        ),
        (
            "demoteMirror",
            case("/mirrors/dr/demote", json!({ "force": false }), 202),
        ),
        // It is primary.
        (
            "promoteMirror",
            case("/mirrors/dr/promote", json!({ "force": false }), 409),
        ),
        (
            "resyncMirror",
            case("/mirrors/dr/resync", json!({ "dry_run": false }), 409),
        ),
        ("pauseMirror", case("/mirrors/dr/pause", Value::Null, 200)),
        ("resumeMirror", case("/mirrors/dr/resume", Value::Null, 200)),
        ("removeMirror", gone("/mirrors/dr")),
        // No node lives that could.
        ("testChannel", case("/channels/hook/test", Value::Null, 504)),
    ])
}

/// An operation of the specification.
pub struct Operation {
    pub id: String,
    pub method: String,
    pub path: String,
    said: Value,
}

impl Operation {
    fn changes(&self) -> bool {
        self.method != "GET"
    }

    /// Who may, as the specification says.
    fn roles(&self) -> BTreeSet<String> {
        let roles = self.said["x-amita-roles"].as_array().unwrap();
        roles.iter().map(|role| role.as_str().unwrap().to_owned()).collect()
    }

    /// Does it take `If-Match`, and is that needed?
    pub fn if_match(&self) -> Option<bool> {
        let parameters = self.said["parameters"].as_array()?;
        let found = parameters.iter().find(|parameter| parameter["name"] == "If-Match")?;
        Some(found["required"].as_bool().unwrap_or_default())
    }
}

pub fn operations() -> Vec<Operation> {
    let said: Value = serde_json::to_value(specification()).unwrap();
    let mut all = Vec::new();
    for (path, methods) in said["paths"].as_object().unwrap() {
        for (method, said) in methods.as_object().unwrap() {
            all.push(Operation {
                id: said["operationId"].as_str().unwrap_or_default().to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                said: said.clone(),
            });
        }
    }
    all
}

pub fn tried() -> impl Iterator<Item = Operation> {
    operations()
        .into_iter()
        .filter(|operation| !APART.contains(&operation.id.as_str()))
}

fn audited(world: &World) -> u64 {
    audit::bounds(&*world.meta).unwrap().head.map_or(0, |head| head.seq)
}

/// Who may do all that was done, by the audit log and the one table of rights.
fn roles_of_what_was_done(world: &World, before: u64, operation: &Operation) -> BTreeSet<String> {
    let read = match operation.id.as_str() {
        "listAudit" => Action::AuditRead,
        _ => Action::View,
    };
    let mut actions = vec![read];
    let mut from = before + 1;
    while from <= audited(world) {
        let page = audit::page(&*world.meta, from).unwrap();
        assert!(!page.is_empty(), "record {from} is not there");
        for (number, record) in page {
            from = number + 1;
            let line = amita_audit::Line::parse(&record).unwrap();
            let known = Action::ALL.iter().find(|action| line.record().action == action.name());
            actions.push(*known.unwrap_or_else(|| panic!("{record}")));
        }
    }
    let all = OperatorRole::ALL.iter();
    let may = all.filter(|role| actions.iter().all(|action| action.roles().contains(role)));
    may.map(|role| role.text().to_owned()).collect()
}

pub async fn send(
    world: &World,
    role: OperatorRole,
    operation: &Operation,
    case: &Case,
    tag: Option<&str>,
) -> super::world::Said {
    world
        .ask_if(role, &operation.method, &case.path, case.body.clone(), tag)
        .await
}

#[test]
fn each_has_a_name_of_its_own_a_summary_a_tag_and_its_problems() {
    let mut ids = BTreeSet::new();
    for operation in operations() {
        let Operation { id, said, path, .. } = &operation;
        assert!(!id.is_empty() && ids.insert(id.clone()), "{path}: {id:?}");
        assert!(said["summary"].as_str().is_some_and(|text| text.len() > 5), "{id}");
        assert_eq!(said["tags"].as_array().map(Vec::len), Some(1), "{id}");
        assert!(said["responses"]["default"]["content"].is_object(), "{id}");
    }
    let world = world();
    let known: BTreeSet<String> = cases(&world).into_keys().chain(APART).map(str::to_owned).collect();
    assert_eq!(ids, known);
}

#[tokio::test]
async fn each_is_done_for_an_admin_and_what_changes_something_is_in_the_audit_log() {
    for operation in tried() {
        let world = world();
        let case = cases(&world).remove(operation.id.as_str()).unwrap();
        let before = audited(&world);
        let tag = operation.if_match().filter(|needed| *needed).map(|_| "*");
        let said = send(&world, Admin, &operation, &case, tag).await;
        assert_eq!(said.status.as_u16(), case.status, "{}: {said:?}", operation.id);
        let may = roles_of_what_was_done(&world, before, &operation);
        assert_eq!(operation.roles(), may, "{}: RIGHTS of specification.rs", operation.id);
        // When it begins, and when it has ended.
        let records = audited(&world) - before;
        assert_eq!(records >= 2, operation.changes(), "{}: {records}", operation.id);
    }
}

#[tokio::test]
async fn nobody_does_any_and_a_viewer_only_looks() {
    let empty = World::new();
    for operation in operations() {
        let asked = Request::builder()
            .method(operation.method.as_str())
            .uri(&operation.path);
        empty
            .send(None, asked.body(Body::empty()).unwrap())
            .await
            .is(401, "unauthenticated");
    }
    for operation in tried() {
        // A world of its own: of whoever is refused again and again, not all is told.
        let world = world();
        let case = cases(&world).remove(operation.id.as_str()).unwrap();
        let before = audited(&world);
        let said = send(&world, Viewer, &operation, &case, Some("*")).await;
        match operation.changes() || operation.id == "listAudit" {
            true => said.is(403, "denied"),
            false => assert_eq!(said.status, StatusCode::OK, "{}: {said:?}", operation.id),
        }
        let refused = audited(&world) - before;
        assert_eq!(refused, u64::from(said.status == 403), "{}", operation.id);
    }
}

/// A change of nothing is a change.
#[tokio::test]
async fn who_only_looks_does_not_change_nothing_either() {
    let world = world();
    let mut cases = cases(&world);
    let mut asked = 0;
    for operation in tried().filter(|operation| operation.method == "PATCH") {
        let case = Case {
            body: Some(json!({})),
            ..cases.remove(operation.id.as_str()).unwrap()
        };
        let said = send(&world, Viewer, &operation, &case, None).await;
        assert_eq!(said.status, StatusCode::FORBIDDEN, "{}: {said:?}", operation.id);
        asked += 1;
    }
    assert!(asked >= 9, "{asked}");
}

#[tokio::test]
async fn what_cannot_be_read_or_is_not_there_is_refused_and_changes_nothing() {
    let world = world();
    let mut cases = cases(&world);
    for operation in tried() {
        let Case { path, body, .. } = cases.remove(operation.id.as_str()).unwrap();
        let ask =
            async |path: &str, body: Option<Value>| world.ask_if(Admin, &operation.method, path, body, Some("*")).await;
        if let Some(body) = &body {
            let mut more = body.clone();
            more["surplus"] = 1.into();
            for bad in [more, json!("text"), json!([null, null])] {
                ask(&path, Some(bad)).await.is(400, "bad-request");
            }
        }
        // A tenant is there for whoever names it: it is no record of its own.
        if operation.path.contains("/tenants/{") {
            continue;
        }
        // The first name in the path, which is the last but for those of its parts.
        if let Some(at) = operation.path.split('/').position(|part| part.starts_with('{')) {
            let mut parts: Vec<&str> = path.split('/').collect();
            parts[at] = "4711";
            ask(&parts.join("/"), body.clone()).await.is(404, "not-found");
        }
    }
    assert!(admin::volume(&*world.meta, "new").is_err());
}

#[tokio::test]
async fn what_was_changed_since_is_neither_changed_nor_destroyed() {
    let world = world();
    let mut cases = cases(&world);
    let before = audited(&world);
    let (mut taken, mut needed) = (0, 0);
    for operation in tried() {
        let case = cases.remove(operation.id.as_str()).unwrap();
        let Some(is_needed) = operation.if_match() else {
            continue;
        };
        taken += 1;
        send(&world, Admin, &operation, &case, Some("\"old\""))
            .await
            .is(412, "changed");
        if is_needed {
            needed += 1;
            send(&world, Admin, &operation, &case, None)
                .await
                .is(428, "needs-if-match");
        }
    }
    assert_eq!((needed, audited(&world)), (3, before));
    assert!(taken > 15, "{taken}");
}

/// Each thing that is shown has a tag by which it can be changed, and what was changed another one.
#[tokio::test]
async fn a_tag_is_good_until_something_is_changed() {
    for id in [
        "changeNode",
        "changeStore",
        "changePool",
        "changeVolume",
        "changeSnapshot",
        "changeSnapshotPolicy",
        "changeBackupRepository",
        "changeBackupPolicy",
        "changeSubsystem",
        "changeTarget",
    ] {
        let world = world();
        let operation = tried().find(|operation| operation.id == id).unwrap();
        let case = cases(&world).remove(id).unwrap();
        let shown = world.ask(Viewer, "GET", &case.path, None).await.done(200);
        let changed = send(&world, Admin, &operation, &case, shown.tag.as_deref())
            .await
            .done(200);
        assert!(changed.tag.is_some() && changed.tag != shown.tag, "{id}: {changed:?}");
        let again = world.ask(Viewer, "GET", &case.path, None).await.done(200);
        assert_eq!(again.tag, changed.tag, "{id}");
        send(&world, Admin, &operation, &case, shown.tag.as_deref())
            .await
            .is(412, "changed");
    }
}
