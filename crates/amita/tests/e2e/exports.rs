//! What is served by NBD, and to whom.

use crate::world::{PATIENCE, VOLUME, World, eventually, stamped};
use amita_harness::nbd::Client;

#[test]
fn a_volume_is_served_while_it_is_exported() {
    let world = World::with_volume();
    world.amita_done(&["volume", "create", "second", "--pool", "demo", "--size", "8M"]);
    let address = world.cluster.nodes()[1].nbd;
    let open = || Client::open(address, "second", PATIENCE);
    let refused = open().expect_err("nobody has exported it").to_string();
    let unknown = Client::open(address, "nothing", PATIENCE)
        .expect_err("there is none")
        .to_string();
    assert_eq!(
        refused.replace("second", "nothing"),
        unknown,
        "what is said of a volume that is there, and of one that is not"
    );
    let list = world.done("nbdinfo", &["--list", &world.uri(1).replace(VOLUME, "")]);
    assert!(list.contains(VOLUME) && !list.contains("second"), "{list}");

    // At once: the gateway waits for the record.
    world.amita_done(&["nbd", "export", "second", "--client", "somebody"]);
    assert!(open().is_err(), "it is exported to somebody else");
    world.amita_done(&["nbd", "export", "second", "--any-client"]);
    let listed = world.json(&["nbd", "list"]);
    let second = listed
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"] == "second"));
    assert_eq!(second.expect("it is exported")["any_client"], true, "{listed}");
    let mut client = open().expect("it is exported");
    client.write(0, &stamped(0, 1)).expect("written");

    // Who has it open is cut off.
    world.amita_done(&["nbd", "unexport", "second"]);
    eventually("the client is cut off", || client.read(0, &mut [0; 4096]).is_err());
    assert!(open().is_err());
    let again = world.amita_done(&["nbd", "unexport", "second"]);
    assert!(again.contains("was not exported"), "{again}");

    world.amita_done(&["nbd", "export", "second", "--any-client", "--read-only"]);
    let mut client = open().expect("it is exported");
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 1));
    assert!(client.write(0, &stamped(0, 2)).is_err(), "read-only");
    world.end(&[]);
}

#[test]
fn a_volume_has_one_protocol_unless_both_are_asked_for() {
    let world = World::with_volume();
    world.amita_done(&["volume", "create", "second", "--pool", "demo", "--size", "8M"]);
    world.amita_done(&["nbd", "export", "second", "--any-client"]);
    world.amita_done(&["subsystem", "create", "s"]);
    let refused = world.amita(&["namespace", "add", "s", "second"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("amita nbd unexport second"), "{}", refused.text);
    world.amita_done(&["nbd", "unexport", "second"]);
    world.amita_done(&["namespace", "add", "s", "second"]);
    let refused = world.amita(&["nbd", "export", "second", "--any-client"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    world.amita_done(&["nbd", "export", "second", "--any-client", "--shared"]);
    for arguments in [
        &["nbd", "export", "second"][..],
        &["nbd", "export", "second", "--client", ""],
    ] {
        let refused = world.amita(arguments);
        assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    }
    world.end(&[]);
}
