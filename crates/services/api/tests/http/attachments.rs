//! What a host needs to use a volume by NVMe over TCP: the commands are those of `amita volume attach`.

use super::every::{HOST, OTHER_HOST, put, world};
use super::world::{Said, World};
use amita_control::admin::{self, Served, SubsystemChange};
use amita_control::guide::{Gateway, Guide, Proofs};
use amita_identity::OperatorRole::Viewer;
use amita_types::map;
use serde_json::{Value, json};

async fn attachment(world: &World, host: Option<&str>) -> Said {
    let query = host.map_or_else(String::new, |host| format!("?host={}", host.replace(':', "%3A")));
    let path = format!("/api/v1/volumes/disk/attachment{query}");
    world.ask(Viewer, "GET", &path, None).await
}

fn serve(world: &World, node: &str, nvme: &str) {
    let served = Served {
        fabric: "127.0.0.1:1",
        fabric2: None,
        nbd: None,
        nbd_socket: None,
        nvme: Some(nvme),
        metrics: None,
        api: None,
        cores: 2,
        gateway: false,
        unprotected: false,
    };
    admin::register(&*world.meta, node, &served).unwrap();
}

#[tokio::test]
async fn a_host_is_told_the_commands_that_the_command_line_prints() {
    let world = world();
    let alone = attachment(&world, None).await.done(200).body;
    assert_eq!((&alone["gateways"], &alone["commands"]), (&json!([]), &Value::Null));
    serve(&world, "n1", "[2001:db8::1]:4420");
    serve(&world, "n2", "192.0.2.2:4421");
    let said = attachment(&world, None).await.done(200).body;
    let gateway = |node: &str, traddr: &str, trsvcid| Gateway {
        node: node.to_owned(),
        traddr: traddr.to_owned(),
        trsvcid,
        owner: false,
        alive: true,
    };
    let gateways = [gateway("n1", "2001:db8::1", 4420), gateway("n2", "192.0.2.2", 4421)];
    let nqn = said["nqn"].as_str().unwrap();
    let guide = Guide::new(nqn, HOST, &gateways, Proofs::default());
    let commands = &said["commands"];
    assert_eq!(commands["host"], HOST);
    for (field, printed) in [
        ("prepare", json!(guide.prepare)),
        ("connect", json!(guide.connect)),
        ("connect_all", json!(guide.connect_all)),
        ("permanent_file", json!(guide.permanent_file)),
        ("permanent", json!(guide.permanent)),
    ] {
        assert_eq!(commands[field], printed, "{field}");
    }
    let uuid = said["uuid"].as_str().unwrap();
    assert_eq!(commands["disk"], format!("/dev/disk/by-id/nvme-uuid.{uuid}"));
    assert_eq!(attachment(&world, Some(HOST)).await.done(200).body, said);

    // What it has to prove it takes from its own files.
    let keyed = map::Host {
        dhchap: Some("sealed-one".to_owned()),
        tls: Some("sealed-two".to_owned()),
        ..admin::host(&*world.meta, HOST).unwrap()
    };
    put(&world.meta, map::host_key(HOST), &keyed);
    let said = attachment(&world, Some(HOST)).await.done(200).body;
    let commands = &said["commands"];
    assert!(
        commands["connect"][1].as_str().unwrap().ends_with(" --tls"),
        "{commands}"
    );
    assert_eq!(commands["connect_all"], Value::Null);
    assert!(!commands.to_string().contains("sealed"), "{commands}");
}

#[tokio::test]
async fn commands_are_for_hosts_that_may_connect() {
    let world = world();
    serve(&world, "n1", "192.0.2.1:4420");
    attachment(&world, Some(OTHER_HOST)).await.is(404, "not-found");
    attachment(&world, Some("db1")).await.is(422, "bad-setting");
    let open = SubsystemChange {
        any_host: Some(true),
        ..SubsystemChange::default()
    };
    admin::set_subsystem(&*world.meta, "sub", &open).unwrap();
    // One that nobody knows has nothing to prove.
    let stranger = "nqn.2026-01.io.test:stranger";
    let said = attachment(&world, Some(stranger)).await.done(200).body;
    assert_eq!(said["commands"]["host"], stranger);
    let connect = said["commands"]["connect"][0].as_str().unwrap();
    assert!(connect.contains(&format!("--hostnqn={stranger} ")), "{connect}");
    // Nobody is named, and nobody is known that may.
    admin::deny_host(&*world.meta, "sub", HOST).unwrap();
    let said = attachment(&world, None).await.done(200).body;
    assert_eq!((&said["any_host"], &said["commands"]), (&true.into(), &Value::Null));
}
