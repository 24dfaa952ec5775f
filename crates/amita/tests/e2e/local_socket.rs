//! NBD by a Unix socket: the clients that people have, the file's rights, and what a killed process leaves behind.

use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, eventually, pattern, stamped,
    verify_job,
};
use amita_harness::nbd::Client;
use amita_harness::tool;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn same(left: &str, right: &str) -> bool {
    std::fs::read(left).expect("read") == std::fs::read(right).expect("read")
}

#[test]
fn stock_clients_use_it_with_several_connections_and_cores() {
    let world = World::with_sockets(&["--cores", "2"]);
    let uri = world.cluster.socket_uri(0, VOLUME).expect("a socket");
    let text = world.done("nbdinfo", &["--json", &uri]);
    let info: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], VOLUME_BYTES, "{text}");
    assert_eq!(export["can_multi_conn"], true, "{text}");
    let list = world.done("nbdinfo", &["--list", &uri.replace(VOLUME, "")]);
    assert!(list.contains(&format!("export=\"{VOLUME}\"")), "{list}");

    let (source, copy) = (world.file("source"), world.file("copy").display().to_string());
    std::fs::write(&source, pattern(7, VOLUME_BYTES as usize)).expect("written");
    let source = source.display().to_string();
    world.done("nbdcopy", &["--connections=4", "--flush", &source, &uri]);
    world.done("nbdcopy", &["--connections=4", &uri, &copy]);
    assert!(same(&source, &copy), "nbdcopy read back something else");
    let said = world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", &source, &uri]);
    assert!(said.contains("Images are identical"), "{said}");
    // By the network, and by another gateway, it is the same volume.
    world.done("nbdcopy", &[&world.uri(0), &copy]);
    assert!(same(&source, &copy), "by the network there is something else");
    let other = world.cluster.socket_uri(1, VOLUME).expect("a socket");
    world.done("nbdcopy", &[&other, &copy]);
    assert!(same(&source, &copy), "at another gateway there is something else");
    let report = verify_job("local", &uri, 0, 32 << 20, 5)
        .run(world.folder(), PATIENCE)
        .expect("all blocks are right");
    assert_eq!(
        (report.write.ios, report.read.ios),
        ((32 << 20) / 4096, (32 << 20) / 4096)
    );

    let listed = world.json(&["node", "list"]);
    let socket = world.socket(0);
    assert_eq!(listed[0]["nbd_socket"], socket.display().to_string(), "{listed}");
    let facts = std::fs::symlink_metadata(&socket).expect("the socket");
    assert_eq!(facts.mode() & 0o777, 0o600);
    world.end(&[]);
}

#[test]
fn who_may_open_the_file_may_use_what_is_for_any_client_and_nothing_else() {
    let world = World::with_sockets(&[]);
    let path = world.socket(0);
    world.amita_done(&["volume", "create", "second", "--pool", "demo", "--size", "8M"]);
    world.amita_done(&["nbd", "export", "second", "--client", "ann"]);
    let open = |volume: &str| Client::open_socket(&path, volume, PATIENCE);
    let refused = open("second").expect_err("it is ann's").to_string();
    let unknown = open("nothing").expect_err("there is none").to_string();
    assert_eq!(refused.replace("second", "nothing"), unknown);
    let mut client = open(VOLUME).expect("it is for any client");
    client.write(0, &stamped(0, 1)).expect("written");

    world.amita_done(&["nbd", "export", "second", "--any-client", "--read-only"]);
    let mut reader = open("second").expect("it is exported");
    assert!(reader.write(0, &stamped(0, 1)).is_err(), "read-only");
    world.amita_done(&["nbd", "unexport", "second"]);
    eventually("who has it open is cut off", || reader.read(0, &mut [0; 4096]).is_err());

    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("the one that was there goes on");
    assert!(read == stamped(0, 1));
    world.end(&[]);
}

#[test]
fn a_dead_ones_socket_is_replaced_and_a_living_ones_is_not() {
    let mut world = World::with_sockets(&[]);
    let path = world.socket(0);
    let mut client = Client::open_socket(&path, VOLUME, PATIENCE).expect("it opens");
    client.write(0, &stamped(0, 1)).expect("written");
    let fabric = format!("127.0.0.1:{}", amita_harness::ports::free());
    let shown = path.display().to_string();
    let arguments = ["--fabric", &fabric, "--nbd-socket", &shown];
    let mut second = world.serve("second", &arguments);
    assert_eq!(second.wait(PATIENCE).expect("it gives up").code(), Some(5));
    let said = std::fs::read_to_string(second.log()).expect("a log");
    assert!(
        said.contains(&shown) && said.contains("another process serves there"),
        "{said}"
    );
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("the first one goes on");
    drop(client);

    world.cluster.kill_node(0);
    assert!(path.exists(), "a killed process removes nothing");
    world.cluster.start_node(0).expect("it starts");
    world.cluster.await_node(0).expect("it serves again");
    let mut client = Client::open_socket(&path, VOLUME, PATIENCE).expect("it opens again");
    client.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 1));
    client.close();

    // A folder that others get into is refused, with what mends it; and what mends it does.
    assert!(world.cluster.stop_node(0), "it ends in order");
    assert!(!path.exists(), "it is removed at the end");
    let folder = path.parent().expect("a folder");
    std::fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("set");
    let mut loose = world.serve("second", &arguments);
    assert_eq!(loose.wait(PATIENCE).expect("it gives up").code(), Some(2));
    let said = std::fs::read_to_string(loose.log()).expect("a log");
    let mends = format!("chmod 700 {}", folder.display());
    assert!(said.contains(&mends), "{said}");
    tool::run(world.folder(), "sh", ["-c", &mends], PATIENCE)
        .and_then(|output| output.success())
        .expect("the command that was said");
    world.cluster.start_node(0).expect("it starts");
    world.cluster.await_node(0).expect("it serves again");
    let refused = tool::run(
        world.folder(),
        binary(),
        ["serve", "--nbd-socket", &shown, "--nbd-socket-mode", "0666"],
        PATIENCE,
    );
    let refused = refused.expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}
