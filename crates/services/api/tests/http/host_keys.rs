//! Keys of hosts come in by the API, are sealed, and come out nowhere.

use super::world::World;
use amita_control::admin::{self, HostKeys, field};
use amita_control::audit;
use amita_identity::OperatorRole::{Admin, Operator, Viewer};
use amita_keys::{DhchapSecret, Hash, SealKey, TlsKey, system_random};
use amita_metadata::{Call, Transact};
use serde_json::json;

const HOST: &str = "nqn.2026-01.io.test:one";

fn path() -> String {
    format!("/api/v1/hosts/{HOST}/keys")
}

#[tokio::test]
async fn a_key_is_sealed_and_nobody_is_shown_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seal");
    let seal = SealKey::generate();
    seal.save(&file).unwrap();
    let world = World::new().sealing(&file);
    admin::add_host(&*world.meta, HOST, &HostKeys::default()).unwrap();
    let dhchap = DhchapSecret::generate(Some(Hash::Sha256), HOST, &mut system_random).to_text();
    let tls = TlsKey::generate(Hash::Sha256, &mut system_random).to_text();
    let keys = json!({ "dhchap": *dhchap, "tls": *tls });
    world
        .ask(Viewer, "PATCH", &path(), Some(keys.clone()))
        .await
        .is(403, "denied");
    let said = world.ask(Operator, "PATCH", &path(), Some(keys)).await.done(200);
    assert_eq!(
        (&said.body["dhchap"], &said.body["dhchap_controller"], &said.body["tls"]),
        (&json!(true), &json!(false), &json!(true))
    );
    let kept = admin::host(&*world.meta, HOST).unwrap();
    let opened = seal.unseal(HOST, field::DHCHAP, &kept.dhchap.unwrap()).unwrap();
    assert_eq!(*opened, *dhchap);
    // Nothing that is kept has it, the audit log included.
    assert!(audit::bounds(&*world.meta).unwrap().head.is_some());
    let all = world.meta.txn(&Call::prefix("")).unwrap();
    for found in all.values(0) {
        let text = String::from_utf8_lossy(&found.value);
        for secret in [&dhchap, &tls] {
            assert!(!text.contains(secret.as_str()), "{}", found.key);
        }
    }
    assert!(!said.body.to_string().contains(dhchap.as_str()));
    let said = world
        .ask(Operator, "PATCH", &path(), Some(json!({ "dhchap": null })))
        .await;
    assert_eq!(said.done(200).body["dhchap"], false);
    assert!(
        admin::host(&*world.meta, HOST).unwrap().tls.is_some(),
        "what is not named stays"
    );
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seal");
    let world = World::new();
    admin::add_host(&*world.meta, HOST, &HostKeys::default()).unwrap();
    let good = DhchapSecret::generate(Some(Hash::Sha256), HOST, &mut system_random).to_text();
    let ask = async |world: &World, body| world.ask(Admin, "PATCH", &path(), Some(body)).await;
    ask(&world, json!({ "dhchap": *good })).await.is(409, "wrong-state");
    // Its file is not there.
    let world = world.sealing(&file);
    ask(&world, json!({ "dhchap": *good })).await.is(409, "wrong-state");
    SealKey::generate().save(&file).unwrap();
    let said = ask(&world, json!({ "dhchap": "DHHC-1:00:hunter2:" })).await;
    assert!(!said.body.to_string().contains("hunter2"), "{said:?}");
    said.is(422, "bad-setting");
    // A host proves itself first.
    ask(&world, json!({ "dhchap_controller": *good }))
        .await
        .is(422, "bad-setting");
    assert_eq!(admin::host(&*world.meta, HOST).unwrap().dhchap, None);
}
