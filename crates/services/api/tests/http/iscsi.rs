//! iSCSI by the API: secrets come in, are sealed, and come out nowhere; and what an initiator needs is what the command line prints.

use super::every::{INITIATOR, OTHER_INITIATOR, put, world};
use super::world::{Said, World};
use amita_control::admin::{self, TargetChange, chap_field};
use amita_control::audit;
use amita_control::guide::iscsi::{Chap, Guide, Portal};
use amita_identity::OperatorRole::{Admin, Operator, Viewer};
use amita_keys::SealKey;
use amita_metadata::{Call, Transact};
use amita_types::{NodeId, map};
use serde_json::{Value, json};

fn keys() -> String {
    format!("/api/v1/initiators/{INITIATOR}/keys")
}

#[tokio::test]
async fn a_secret_is_sealed_and_nobody_is_shown_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seal");
    let seal = SealKey::generate();
    seal.save(&file).unwrap();
    let world = world().sealing(&file);
    let secrets = json!({ "chap": "hidden-secret-1", "chap_target": "hidden-secret-2", "chap_user": "esx" });
    world
        .ask(Viewer, "PATCH", &keys(), Some(secrets.clone()))
        .await
        .is(403, "denied");
    let said = world.ask(Operator, "PATCH", &keys(), Some(secrets)).await.done(200);
    assert_eq!(
        (&said.body["chap"], &said.body["chap_target"], &said.body["chap_user"]),
        (&json!(true), &json!(true), &json!("esx"))
    );
    let kept = admin::initiator(&*world.meta, INITIATOR).unwrap();
    let opened = |field, sealed: Option<String>| seal.unseal(INITIATOR, field, &sealed.unwrap()).unwrap().to_string();
    assert_eq!(opened(chap_field::INITIATOR, kept.chap), "hidden-secret-1");
    assert_eq!(opened(chap_field::TARGET, kept.chap_target), "hidden-secret-2");
    // Nothing that is kept has it, the audit log included.
    assert!(audit::bounds(&*world.meta).unwrap().head.is_some());
    let all = world.meta.txn(&Call::prefix("")).unwrap();
    for found in all.values(0) {
        let text = String::from_utf8_lossy(&found.value);
        assert!(!text.contains("hidden-secret"), "{}", found.key);
    }
    // What the audit log tells of the change is that there are secrets, sealed or not.
    let log: Vec<_> = all
        .values(0)
        .iter()
        .filter(|found| found.key.starts_with(&audit::prefix()))
        .collect();
    assert!(!log.is_empty());
    for found in log {
        assert!(
            !String::from_utf8_lossy(&found.value).contains("sealed:1:"),
            "{}",
            found.key
        );
    }
    assert!(!said.body.to_string().contains("hidden"));
    let gone = json!({ "chap_target": null });
    let said = world.ask(Operator, "PATCH", &keys(), Some(gone)).await.done(200);
    assert_eq!(
        (&said.body["chap"], &said.body["chap_target"]),
        (&json!(true), &json!(false))
    );
}

#[tokio::test]
async fn what_is_no_secret_is_refused_and_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seal");
    let world = world();
    let ask = async |world: &World, body| world.ask(Admin, "PATCH", &keys(), Some(body)).await;
    let good = json!({ "chap": "hidden-secret-1" });
    ask(&world, good.clone()).await.is(409, "wrong-state");
    let world = world.sealing(&file);
    ask(&world, good.clone()).await.is(409, "wrong-state");
    SealKey::generate().save(&file).unwrap();
    for bad in [
        json!({ "chap": "hidden" }),
        json!({ "chap": "hidden\u{7}secret" }),
        json!({ "chap": "hidden-secret".repeat(20) }),
        // RFC 7143, 9.2.1.
        json!({ "chap": "hidden-secret-1", "chap_target": "hidden-secret-1" }),
        json!({ "chap_target": "hidden-secret-1" }),
    ] {
        let said = ask(&world, bad).await;
        assert!(!said.body.to_string().contains("hidden"), "{said:?}");
        said.is(422, "bad-setting");
    }
    assert_eq!(admin::initiator(&*world.meta, INITIATOR).unwrap().chap, None);
    ask(&world, good).await.done(200);
    // The initiator's own stays: the targets' is compared with it.
    let same = json!({ "chap_target": "hidden-secret-1" });
    ask(&world, same).await.is(422, "bad-setting");
    let exchanged = json!({ "chap": "hidden-secret-2", "chap_target": "hidden-secret-1" });
    ask(&world, exchanged).await.done(200);
}

async fn attachment(world: &World, initiator: Option<&str>) -> Said {
    let query = initiator.map_or_else(String::new, |name| format!("?initiator={}", name.replace(':', "%3A")));
    let path = format!("/api/v1/volumes/disk/iscsi-attachment{query}");
    world.ask(Viewer, "GET", &path, None).await
}

fn serve(world: &World, node: &str, number: u32, portals: &[&str]) {
    let portals: Vec<std::net::SocketAddr> = portals.iter().map(|at| at.parse().unwrap()).collect();
    admin::register_iscsi_gateway(&*world.meta, node, NodeId(number), 1, &portals).unwrap();
}

#[tokio::test]
async fn an_initiator_is_told_the_commands_that_the_command_line_prints() {
    let world = world();
    let alone = attachment(&world, None).await.done(200).body;
    assert_eq!((&alone["portals"], &alone["commands"]), (&json!([]), &Value::Null));
    serve(&world, "n1", 77, &["[2001:db8::1]:3260", "192.0.2.1:3260"]);
    let said = attachment(&world, None).await.done(200).body;
    let portals: Vec<Portal> = ["[2001:db8::1]:3260", "192.0.2.1:3260"]
        .iter()
        .map(|at| Portal::new("n1", at.parse().unwrap(), 1))
        .collect();
    let (iqn, naa) = (said["iqn"].as_str().unwrap(), said["naa"].as_str().unwrap());
    let guide = Guide::new(iqn, INITIATOR, &portals, &Chap::default(), naa);
    let commands = &said["commands"];
    assert_eq!(commands["initiator"], INITIATOR);
    for (system, steps) in [
        ("linux", &guide.linux),
        ("esxi", &guide.esxi),
        ("windows", &guide.windows),
    ] {
        let found = &commands[system];
        assert_eq!(found["prepare"], json!(steps.prepare), "{system}");
        assert_eq!(found["connect"], json!(steps.connect), "{system}");
        assert_eq!(found["disk"], json!(steps.disk), "{system}");
        assert_eq!(
            found["file"],
            json!(steps.file.as_ref().map(|file| &file.name)),
            "{system}"
        );
    }
    assert_eq!(commands["linux"]["lines"][0], "devices {");
    assert_eq!(said["initiators"], json!([{ "initiator": INITIATOR, "luns": [0] }]));
    assert_eq!(attachment(&world, Some(INITIATOR)).await.done(200).body, said);

    // What it has to prove it takes from its own files.
    let keyed = map::IscsiInitiator {
        chap: Some("sealed-one".to_owned()),
        chap_target: Some("sealed-two".to_owned()),
        ..admin::initiator(&*world.meta, INITIATOR).unwrap()
    };
    put(&world.meta, map::iscsi_initiator_key(INITIATOR), &keyed);
    let said = attachment(&world, Some(INITIATOR)).await.done(200).body;
    let text = said["commands"].to_string();
    assert!(
        text.contains("node.session.auth.password_in") && !text.contains("sealed"),
        "{text}"
    );
}

#[tokio::test]
async fn commands_are_for_initiators_that_see_the_lun() {
    let world = world();
    serve(&world, "n1", 77, &["192.0.2.1:3260"]);
    attachment(&world, Some(OTHER_INITIATOR)).await.is(404, "not-found");
    attachment(&world, Some("esx1")).await.is(422, "bad-setting");
    // It may log in, and does not see this LUN.
    let none = admin::Mask::These(Vec::new());
    admin::allow_initiator(&*world.meta, "tgt", OTHER_INITIATOR, &none).unwrap();
    attachment(&world, Some(OTHER_INITIATOR)).await.is(404, "not-found");
    let open = TargetChange {
        any_initiator: Some(true),
        ..TargetChange::default()
    };
    admin::set_target(&*world.meta, "tgt", &open).unwrap();
    attachment(&world, Some(OTHER_INITIATOR)).await.is(404, "not-found");
    let stranger = "iqn.2026-01.io.test:stranger";
    let said = attachment(&world, Some(&stranger.to_ascii_uppercase()))
        .await
        .done(200)
        .body;
    assert_eq!(said["commands"]["initiator"], stranger);
}

#[tokio::test]
async fn a_volume_that_is_a_lun_is_in_use() {
    let world = world();
    admin::remove_namespace(&*world.meta, "sub", 1).unwrap();
    let said = world
        .ask_if(Admin, "DELETE", "/api/v1/volumes/disk", None, Some("*"))
        .await;
    assert!(
        said.body["detail"].as_str().unwrap().contains("LUN 0 of target tgt"),
        "{said:?}"
    );
    said.is(409, "in-use");
    let taken = json!({ "volume": "disk" });
    world
        .ask(Admin, "POST", "/api/v1/targets/bare/luns", Some(taken))
        .await
        .is(409, "in-use");
    let full = json!({ "volume": "db", "lun": 16384 });
    world
        .ask(Admin, "POST", "/api/v1/targets/tgt/luns", Some(full))
        .await
        .is(422, "bad-setting");
}

#[tokio::test]
async fn nodes_tell_of_their_portals_and_the_cluster_of_what_there_is() {
    let world = world();
    let counts = |body: &Value| ["targets", "luns", "initiators"].map(|what| body["counts"][what].as_u64().unwrap());
    let before = counts(&world.ask(Viewer, "GET", "/api/v1/cluster", None).await.done(200).body);
    admin::create_target(&*world.meta, &spec("another")).unwrap();
    let after = counts(&world.ask(Viewer, "GET", "/api/v1/cluster", None).await.done(200).body);
    assert_eq!(after, [before[0] + 1, before[1], before[2]]);
    let node = world.ask(Viewer, "GET", "/api/v1/nodes/n1", None).await.done(200).body;
    assert_eq!(node["iscsi"], json!([]), "{node}");
    let number = u32::try_from(node["id"].as_u64().unwrap()).unwrap();
    let portals = ["[2001:db8::1]:3260", "192.0.2.1:3260"];
    serve(&world, "n1", number, &portals);
    let node = world.ask(Viewer, "GET", "/api/v1/nodes/n1", None).await.done(200).body;
    assert_eq!(node["iscsi"], json!(portals), "{node}");
    // What a node of that name and another number has left behind is none of its portals.
    serve(&world, "n1", number + 1, &portals);
    let node = world.ask(Viewer, "GET", "/api/v1/nodes/n1", None).await.done(200).body;
    assert_eq!(node["iscsi"], json!([]), "{node}");
}

fn spec(name: &str) -> admin::TargetSpec {
    admin::TargetSpec {
        name: name.to_owned(),
        ..admin::TargetSpec::default()
    }
}

/// Of a newer version, or by hand: whoever looks sees all others.
#[tokio::test]
async fn a_record_that_nobody_can_read_hides_no_other() {
    let world = world();
    let odd = json!({ "of": "a newer version" });
    for key in [
        map::iscsi_target_key("odd"),
        map::subsystem_key("odd"),
        map::iscsi_initiator_key("iqn.2026-01.io.test:odd"),
        map::host_key("nqn.2026-01.io.test:odd"),
    ] {
        put(&world.meta, key, &odd);
    }
    for list in ["targets", "subsystems", "initiators", "hosts"] {
        let said = world
            .ask(Viewer, "GET", &format!("/api/v1/{list}"), None)
            .await
            .done(200);
        let items = said.body["items"].as_array().unwrap();
        assert!(!items.is_empty() && !said.body.to_string().contains("odd"), "{list}");
    }
    let path = format!("/api/v1/initiators/{INITIATOR}");
    world.ask(Viewer, "GET", &path, None).await.done(200);
    // What was set is told, and not that something else cannot be read.
    let change = json!({ "chap_user": "esx" });
    world.ask(Operator, "PATCH", &keys(), Some(change)).await.done(200);
    let refused = world.ask(Viewer, "GET", "/api/v1/targets/odd", None).await;
    assert!(refused.body.to_string().contains("cannot be read"), "{}", refused.body);
}
