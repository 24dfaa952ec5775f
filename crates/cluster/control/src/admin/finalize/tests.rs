//! A version is raised when all programs know it.

use super::*;
use amita_metadata::model::State;
use amita_types::ClusterId;
use std::sync::Mutex;

fn of_version(version: u32, nodes: &[Option<u32>]) -> Mutex<State> {
    let meta = Mutex::new(State::new());
    let cluster = Cluster {
        id: ClusterId(9),
        version,
    };
    meta.txn(&Call::put(map::cluster_key(), json(&cluster))).unwrap();
    for (at, version) in nodes.iter().enumerate() {
        let node = super::super::register_node(&meta, &format!("n{at}"), "127.0.0.1:1", None, 1).unwrap();
        let Some(version) = *version else { continue };
        let live = Live {
            session: 1,
            pid: 1,
            stores: None,
            version,
        };
        meta.txn(&Call::put(map::live_key(node.id), json(&live))).unwrap();
    }
    meta
}

fn json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap()
}

#[test]
fn a_version_is_raised_when_all_know_it() {
    let newest = Some(METADATA_VERSION);
    let meta = of_version(1, &[newest, newest]);
    assert_eq!(finalize(&meta, false), Ok(true));
    assert_eq!(versions(&meta).unwrap().cluster, METADATA_VERSION);
    assert_eq!(finalize(&meta, false), Ok(false), "again");
    let told = |meta: &Mutex<State>, force| finalize(meta, force).unwrap_err().to_string();
    let older = of_version(1, &[newest, Some(1), None]);
    let why = told(&older, true);
    assert!(why.contains("n1 (1)") && !why.contains("n0"), "{why}");
    let away = of_version(1, &[newest, None]);
    let why = told(&away, false);
    assert!(why.contains("n1") && why.contains("--force"), "{why}");
    assert_eq!(versions(&away).unwrap().cluster, 1);
    assert_eq!(versions(&away).unwrap().away, ["n1"]);
    assert_eq!(finalize(&away, true), Ok(true));
    let newer = of_version(METADATA_VERSION + 1, &[newest]);
    assert!(told(&newer, true).contains("already"));
    assert_eq!(finalize(&Mutex::new(State::new()), true), Err(AdminError::NoCluster));
}

#[test]
fn a_program_that_says_nothing_is_one_of_the_first() {
    let live: Live = serde_json::from_str(r#"{"session":1,"pid":2}"#).unwrap();
    assert_eq!((live.version, live.stores), (1, None));
}
