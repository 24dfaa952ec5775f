use super::*;
use crate::control::Record;
use amita_types::Generation;
use amita_types::map::{self, Export as ExportRecord};
use serde::Serialize;

const VOLUME: VolumeId = VolumeId(7);

fn put(view: &mut View, key: String, value: &impl Serialize) {
    let value = Some(serde_json::to_vec(value).unwrap());
    let revision = 1;
    view.apply(&Record { key, value, revision });
}

fn view() -> View {
    let mut view = View::default();
    for (id, name) in [(VOLUME, "disk"), (VolumeId(8), "other")] {
        let volume = Volume {
            id,
            name: name.to_owned(),
            pool: "fast".to_owned(),
            size_bytes: 4096,
            generation: Generation(0),
            owner: None,
        };
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

#[test]
fn a_namespace_is_served_only_where_that_was_asked_for() {
    let mut view = view();
    let subsystem = map::Subsystem {
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
        }],
    };
    put(&mut view, map::export_key(VOLUME), &export());
    put(&mut view, map::subsystem_key("s"), &subsystem);
    assert_eq!(judge(&view, VOLUME, &client("db1")), None);
    let shared = ExportRecord {
        shared: true,
        ..export()
    };
    put(&mut view, map::export_key(VOLUME), &shared);
    assert!(judge(&view, VOLUME, &client("db1")).is_some());
}

#[test]
fn a_record_that_cannot_be_read_lets_nobody_in() {
    let mut view = view();
    put(&mut view, map::export_key(VOLUME), &export());
    put(&mut view, map::export_key(VOLUME), &"rubbish");
    assert_eq!(judge(&view, VOLUME, &client("db1")), None);
}
