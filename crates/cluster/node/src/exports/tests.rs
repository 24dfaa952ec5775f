use super::*;
use crate::control::Record;
use amita_types::map::{self, Export as ExportRecord};
use serde::Serialize;

const VOLUME: VolumeId = VolumeId(7);

fn put(view: &mut View, key: String, value: &impl Serialize) {
    let value = Some(serde_json::to_vec(value).unwrap());
    let revision = 1;
    let created = 1;
    view.apply(&Record {
        key,
        value,
        revision,
        created,
    });
}

fn view() -> View {
    let mut view = View::default();
    for (id, name) in [(VOLUME, "disk"), (VolumeId(8), "other")] {
        let volume = Volume::new(id, name, "fast", 4096);
        put(&mut view, map::volume_key(name), &volume);
    }
    view
}

fn export() -> ExportRecord {
    ExportRecord {
        volume: VOLUME,
        clients: vec!["db1".to_owned()],
        tenants: Vec::new(),
        any_client: false,
        read_only: false,
        shared: false,
    }
}

fn client(name: &str) -> Who {
    Who::Client(name.into())
}

fn names(view: &View, who: &Who) -> Vec<String> {
    listed(view, who).into_iter().map(|export| export.name).collect()
}

#[test]
fn nothing_is_served_that_was_not_exported() {
    let view = view();
    for who in [client("db1"), Who::Local, Who::Stranger] {
        assert_eq!(judge(&view, VOLUME, &who), None);
        assert!(listed(&view, &who).is_empty());
    }
    assert_eq!(names(&view, &Who::Program), ["disk", "other"]);
}

#[test]
fn an_export_is_for_whom_it_names() {
    let mut view = view();
    put(&mut view, map::export_key(VOLUME), &export());
    assert_eq!(judge(&view, VOLUME, &client("db1")), Some(Grant { read_only: false }));
    assert_eq!(
        names(&view, &client("db1")),
        ["disk"],
        "and of the others nothing is told"
    );
    for who in [client("db2"), client("DB1"), client(""), Who::Local, Who::Stranger] {
        assert_eq!(judge(&view, VOLUME, &who), None, "{who:?}");
        assert!(listed(&view, &who).is_empty());
    }
}

#[test]
fn who_proves_nothing_is_let_in_where_the_export_says_so_and_from_this_machine_alone() {
    let mut view = view();
    let any = ExportRecord {
        any_client: true,
        read_only: true,
        ..export()
    };
    put(&mut view, map::export_key(VOLUME), &any);
    for who in [client("db1"), client("db2"), Who::Local] {
        assert_eq!(judge(&view, VOLUME, &who), Some(Grant { read_only: true }), "{who:?}");
    }
    assert!(listed(&view, &Who::Local)[0].read_only);
    assert_eq!(judge(&view, VOLUME, &Who::Stranger), None);
}

fn with(name: &str, tenant: &str, entries: &[(Scope, Rights)]) -> Who {
    let entry = |&(scope, rights)| capability::Entry { scope, rights };
    let grant = capability::Grant::new(tenant, entries.iter().map(entry).collect()).unwrap();
    Who::Client(amita_frontend::Client {
        name: name.into(),
        grant: Some(grant.into()),
    })
}

const FULL: Option<Grant> = Some(Grant { read_only: false });
const READ_ONLY: Option<Grant> = Some(Grant { read_only: true });

#[test]
fn a_certificate_grants_its_volumes_and_the_volumes_of_its_pools() {
    let mut view = view();
    let pool = map::Pool {
        id: amita_types::PoolId(3),
        name: "fast".to_owned(),
        kind: map::PoolKind::Replicated {
            copies: 3,
            min_copies: 2,
        },
        groups: 4,
        chunk_bytes: 4 << 20,
        failure_domain: amita_types::placement::Level::default(),
        class: None,
    };
    put(&mut view, map::pool_key("fast"), &pool);
    let volume = with("a", "", &[(Scope::Volume(VOLUME), Rights::ALL)]);
    assert_eq!(judge(&view, VOLUME, &volume), FULL);
    assert_eq!(judge(&view, VolumeId(8), &volume), None);
    assert_eq!(names(&view, &volume), ["disk"]);
    let reader = with("a", "", &[(Scope::Volume(VOLUME), Rights::READ)]);
    assert_eq!(judge(&view, VOLUME, &reader), READ_ONLY);
    assert!(listed(&view, &reader)[0].read_only);
    // Who may write and not read has no use of it.
    let writer = Rights::new(2).unwrap();
    assert_eq!(
        judge(&view, VOLUME, &with("a", "", &[(Scope::Volume(VOLUME), writer)])),
        None
    );
    let of_pool = |id| with("a", "", &[(Scope::Pool(amita_types::PoolId(id)), Rights::ALL)]);
    assert_eq!(names(&view, &of_pool(3)), ["disk", "other"]);
    assert!(names(&view, &of_pool(4)).is_empty());
    // A volume in a pool that nobody knows is in no pool.
    let mut unknown = self::view();
    assert!(names(&unknown, &of_pool(3)).is_empty());
    put(&mut unknown, map::export_key(VOLUME), &export());
    assert_eq!(judge(&unknown, VOLUME, &of_pool(3)), None);
}

#[test]
fn what_is_to_be_a_copy_is_for_no_client_whatever_its_certificate_grants() {
    let mut view = view();
    put(&mut view, map::export_key(VOLUME), &export());
    let mut record = map::Copying {
        volume: VOLUME,
        name: "disk".to_owned(),
        source: VolumeId(8),
        of: "other".to_owned(),
        snapshot: "copy-7".to_owned(),
        takes: true,
        snapshots: false,
        limit_bytes_per_s: None,
        asked_at: 1,
        cancelled: false,
        whole: false,
        paused: None,
        ails: None,
        moving: None,
        place: map::CopyPlace::default(),
    };
    let key = map::copying_key(VOLUME);
    let granted = with("db1", "", &[(Scope::Volume(VOLUME), Rights::ALL)]);
    assert_eq!(judge(&view, VOLUME, &granted), FULL);
    put(&mut view, key.clone(), &record);
    put(&mut view, map::copier_key(VolumeId(8)), &"n1");
    let point = Source {
        volume: VOLUME,
        snapshot: amita_types::SnapshotId(1),
    };
    for who in [&granted, &client("db1"), &Who::Local] {
        assert_eq!(judge(&view, VOLUME, who), None, "{who:?}");
        assert_eq!(judge_source(&view, point, who), None, "{who:?}");
        assert!(names(&view, who).is_empty());
    }
    assert_eq!(
        judge(
            &view,
            VolumeId(8),
            &with("a", "", &[(Scope::Volume(VolumeId(8)), Rights::ALL)])
        ),
        FULL
    );
    assert_eq!(judge(&view, VOLUME, &Who::Program), FULL, "who makes it opens it");
    // It is whole, and then its record goes.
    record.whole = true;
    put(&mut view, key.clone(), &record);
    assert_eq!(judge(&view, VOLUME, &granted), FULL);
    record.whole = false;
    put(&mut view, key.clone(), &record);
    assert_eq!(judge(&view, VOLUME, &granted), None);
    let gone = Record {
        key: key.clone(),
        value: None,
        revision: 2,
        created: 0,
    };
    assert!(view.apply(&gone).concerns_exports(), "clients wait for it");
    assert_eq!(judge(&view, VOLUME, &granted), FULL);
    // What nobody can read may say that it is none yet.
    put(&mut view, key, &"?");
    assert_eq!(judge(&view, VOLUME, &granted), None);
}

#[test]
fn a_tenants_clients_have_what_is_exported_to_the_tenant() {
    let mut view = view();
    let exported = |tenants: &[&str], read_only| ExportRecord {
        clients: Vec::new(),
        tenants: tenants.iter().map(|name| (*name).to_owned()).collect(),
        read_only,
        ..export()
    };
    let member = |tenant, rights| with("a", tenant, &[(Scope::Tenant, rights)]);
    put(&mut view, map::export_key(VOLUME), &exported(&["acme"], false));
    assert_eq!(judge(&view, VOLUME, &member("acme", Rights::ALL)), FULL);
    assert_eq!(judge(&view, VOLUME, &member("acme", Rights::READ)), READ_ONLY);
    for other in ["acm", "acme2", "ACME", "other"] {
        assert_eq!(judge(&view, VOLUME, &member(other, Rights::ALL)), None, "{other}");
    }
    // Of the tenant, but without a right to what is the tenant's; and a name that is a tenant's is a name.
    let single = with("a", "acme", &[(Scope::Volume(VolumeId(8)), Rights::ALL)]);
    assert_eq!(judge(&view, VOLUME, &single), None);
    assert_eq!(judge(&view, VOLUME, &client("acme")), None);
    put(&mut view, map::export_key(VOLUME), &exported(&["acme"], true));
    assert_eq!(judge(&view, VOLUME, &member("acme", Rights::ALL)), READ_ONLY);
}

#[test]
fn the_wider_of_two_rights_counts() {
    let mut view = view();
    let read_only = ExportRecord {
        read_only: true,
        ..export()
    };
    put(&mut view, map::export_key(VOLUME), &read_only);
    let by = |rights| with("db1", "", &[(Scope::Volume(VOLUME), rights)]);
    assert_eq!(judge(&view, VOLUME, &by(Rights::ALL)), FULL);
    assert_eq!(judge(&view, VOLUME, &by(Rights::READ)), READ_ONLY);
    put(&mut view, map::export_key(VOLUME), &export());
    assert_eq!(judge(&view, VOLUME, &by(Rights::READ)), FULL);
    // And a namespace is served to neither.
    let shared = |shared| ExportRecord { shared, ..export() };
    put(&mut view, map::subsystem_key("s"), &subsystem());
    assert_eq!(judge(&view, VOLUME, &by(Rights::ALL)), None);
    put(&mut view, map::export_key(VOLUME), &shared(true));
    assert_eq!(judge(&view, VOLUME, &by(Rights::ALL)), FULL);
}

fn subsystem() -> map::Subsystem {
    map::Subsystem {
        name: "s".to_owned(),
        nqn: "nqn".to_owned(),
        serial: "1".to_owned(),
        gateways: Vec::new(),
        any_host: false,
        tls_required: false,
        hosts: Vec::new(),
        namespaces: vec![map::Namespace {
            nsid: 1,
            volume: VOLUME,
            uuid: map::Namespace::uuid_of(amita_types::ClusterId(1), VOLUME),
            block_bytes: 4096,
            snapshot: None,
        }],
    }
}

#[test]
fn a_namespace_is_served_only_where_that_was_asked_for() {
    let mut view = view();
    put(&mut view, map::export_key(VOLUME), &export());
    put(&mut view, map::subsystem_key("s"), &subsystem());
    assert_eq!(judge(&view, VOLUME, &client("db1")), None);
    let shared = ExportRecord {
        shared: true,
        ..export()
    };
    put(&mut view, map::export_key(VOLUME), &shared);
    assert!(judge(&view, VOLUME, &client("db1")).is_some());
}

#[test]
fn a_lun_is_served_only_where_that_was_asked_for() {
    let mut view = view();
    put(&mut view, map::export_key(VOLUME), &export());
    let target = |name: &str, shared, snapshot| map::IscsiTarget {
        name: name.to_owned(),
        iqn: format!("iqn.2026-11.io.amita:test:{name}"),
        gateways: Vec::new(),
        any_initiator: false,
        chap_required: false,
        initiators_move: false,
        space_warning_percent: None,
        initiators: Vec::new(),
        luns: vec![map::IscsiLun {
            number: 0,
            volume: VOLUME,
            uuid: map::Namespace::uuid_of(amita_types::ClusterId(1), VOLUME),
            block_bytes: 512,
            snapshot,
            shared,
        }],
    };
    let key = map::iscsi_target_key("t");
    put(&mut view, key.clone(), &target("t", false, None));
    assert_eq!(judge(&view, VOLUME, &client("db1")), None);
    let shared = ExportRecord {
        shared: true,
        ..export()
    };
    put(&mut view, map::export_key(VOLUME), &shared);
    assert!(judge(&view, VOLUME, &client("db1")).is_some());
    put(&mut view, map::export_key(VOLUME), &export());
    // The LUN may be shared instead; and who only reads a snapshot is in nobody's way.
    put(&mut view, key.clone(), &target("t", true, None));
    assert!(judge(&view, VOLUME, &client("db1")).is_some());
    let snapshot = map::NamespaceSnapshot {
        number: amita_types::SnapshotId(1),
        size_bytes: 4096,
    };
    put(&mut view, key.clone(), &target("t", false, Some(snapshot)));
    assert!(judge(&view, VOLUME, &client("db1")).is_some());
    put(&mut view, key, &target("t", false, None));
    assert_eq!(judge(&view, VOLUME, &client("db1")), None);
}

#[test]
fn a_record_that_cannot_be_read_lets_nobody_in() {
    let mut view = view();
    put(&mut view, map::export_key(VOLUME), &export());
    put(&mut view, map::export_key(VOLUME), &"rubbish");
    assert_eq!(judge(&view, VOLUME, &client("db1")), None);
}
