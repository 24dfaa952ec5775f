//! Exports, and what else a volume may be used for at the same time.

use super::*;
use amita_types::map::Export;

fn ground() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for name in ["a", "b"] {
        create_volume(&meta, name, "main", 1 << 30).unwrap();
    }
    let subsystem = SubsystemSpec {
        name: "s".to_owned(),
        ..SubsystemSpec::default()
    };
    create_subsystem(&meta, &subsystem).unwrap();
    meta
}

fn to(clients: &[&str]) -> ExportSpec {
    ExportSpec {
        clients: clients.iter().map(|name| (*name).to_owned()).collect(),
        ..ExportSpec::default()
    }
}

fn shared() -> ExportSpec {
    ExportSpec {
        shared: true,
        ..to(&["x"])
    }
}

fn record(meta: &dyn Transact, name: &str) -> Option<Export> {
    let id = volume(meta, name).unwrap().id;
    get(meta, &map::export_key(id)).unwrap().map(|(found, _)| found)
}

#[test]
fn a_volume_is_exported_as_was_said_last() {
    let meta = ground();
    assert!(record(&meta, "a").is_none());
    let made = export_volume(&meta, "a", &to(&["y", "x", "y"])).unwrap();
    assert_eq!(made.clients, ["x", "y"]);
    assert_eq!(record(&meta, "a"), Some(made.clone()));
    assert_eq!(exports(&meta).unwrap(), [made]);
    let read_only = ExportSpec {
        read_only: true,
        any_client: true,
        ..ExportSpec::default()
    };
    export_volume(&meta, "a", &read_only).unwrap();
    let found = record(&meta, "a").unwrap();
    assert!(found.read_only && found.any_client && found.clients.is_empty());
    let status = status(&meta).unwrap();
    let shown: Vec<bool> = status.volumes.iter().map(|volume| volume.export.is_some()).collect();
    assert_eq!(shown, [true, false]);
    assert!(unexport_volume(&meta, "a").unwrap());
    assert!(!unexport_volume(&meta, "a").unwrap());
    assert!(record(&meta, "a").is_none());
}

#[test]
fn an_export_that_cannot_be_is_refused_and_changes_nothing() {
    let meta = ground();
    let long = "x".repeat(MAX_CLIENT_NAME_BYTES + 1);
    for names in [&[][..], &[""], &["a\nb"], &[long.as_str()]] {
        assert!(export_volume(&meta, "a", &to(names)).is_err(), "{names:?}");
    }
    let many: Vec<String> = (0..=MAX_EXPORT_CLIENTS).map(|number| number.to_string()).collect();
    let many = ExportSpec {
        clients: many,
        ..ExportSpec::default()
    };
    assert!(matches!(export_volume(&meta, "a", &many), Err(AdminError::Full { .. })));
    assert!(matches!(
        export_volume(&meta, "none", &to(&["x"])),
        Err(AdminError::NoSuch { .. })
    ));
    assert!(exports(&meta).unwrap().is_empty());
}

#[test]
fn a_volume_is_not_served_by_both_protocols_unless_asked() {
    let meta = ground();
    add_namespace(&meta, "s", "a", None, 4096).unwrap();
    let refused = export_volume(&meta, "a", &to(&["x"])).unwrap_err();
    assert!(matches!(refused, AdminError::ServedByNvme { nsid: 1, .. }), "{refused}");
    export_volume(&meta, "a", &shared()).unwrap();
    export_volume(&meta, "b", &to(&["x"])).unwrap();
    let refused = add_namespace(&meta, "s", "b", None, 4096).unwrap_err();
    assert!(matches!(refused, AdminError::Exported { .. }), "{refused}");
    export_volume(&meta, "b", &shared()).unwrap();
    add_namespace(&meta, "s", "b", None, 4096).unwrap();
}

/// Metadata in which a volume becomes a namespace just before the `at`-th call.
struct Meanwhile<'a>(&'a Mutex<State>, AtomicUsize, usize);

impl Transact for Meanwhile<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if self.1.fetch_add(1, Ordering::Relaxed) == self.2 {
            add_namespace(self.0, "s", "a", None, 4096).unwrap();
        }
        self.0.txn(call)
    }
}

#[test]
fn nor_when_both_are_wished_at_once() {
    for at in 0..6 {
        let meta = ground();
        let racing = Meanwhile(&meta, AtomicUsize::new(0), at);
        let exported = export_volume(&racing, "a", &to(&["x"]));
        let is_namespace = namespace_of(&meta, "a").unwrap().1.is_some();
        assert!(exported.is_err() || !is_namespace, "before call {at}: both");
        assert_eq!(exported.is_ok(), record(&meta, "a").is_some());
    }
}

#[test]
fn an_export_goes_with_its_volume() {
    let meta = ground();
    let old = export_volume(&meta, "a", &to(&["x"])).unwrap().volume;
    delete_volume(&meta, "a", true, 9, &mut || false).unwrap();
    assert!(get::<Export>(&meta, &map::export_key(old)).unwrap().is_none());
    create_volume(&meta, "a", "main", 4096).unwrap();
    assert!(record(&meta, "a").is_none(), "another volume of the same name");
}
