//! NBD over TLS with a stock client.

use crate::world::{VOLUME, VOLUME_BYTES, World, certificates, certtool, scratch};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_gateway_that_requires_tls_serves_it_and_nothing_else() {
    let keys = scratch(1 << 20);
    certificates(keys.folder());
    let file = |name: &str| keys.folder().join(name).display().to_string();
    let world = World::serving(&[
        "--tls-certificate",
        &file("server-cert.pem"),
        "--tls-key",
        &file("server-key.pem"),
        "--tls-required",
    ]);
    let plain = world.tool("nbdinfo", &["--size", &world.uri(0)]);
    assert!(
        !plain.status.success(),
        "a client without TLS was served: {}",
        plain.text
    );
    let address = world.cluster.nodes()[0].nbd;
    let uri = format!("nbds://{address}/{VOLUME}?tls-certificates={}", keys.folder().display());
    assert_eq!(
        world.done("nbdinfo", &["--size", &uri]).trim(),
        VOLUME_BYTES.to_string()
    );
    let (source, copy) = (world.file("source"), world.file("copy"));
    std::fs::write(&source, crate::world::pattern(8, VOLUME_BYTES as usize)).expect("written");
    world.done("nbdcopy", &[&source.display().to_string(), &uri]);
    world.done("nbdcopy", &[&uri, &copy.display().to_string()]);
    assert!(
        std::fs::read(&source).expect("read") == std::fs::read(&copy).expect("read"),
        "not what was written"
    );
    world.end(&[]);
}

/// The folder of a client of that name, with a certificate of the authority in `folder`.
fn client(folder: &Path, name: &str) -> String {
    let own = folder.join(name);
    std::fs::create_dir(&own).expect("a folder");
    std::fs::copy(folder.join("ca-cert.pem"), own.join("ca-cert.pem")).expect("copied");
    let template = format!("cn = {name}\ntls_www_client\nsigning_key\nexpiration_days = 2\n");
    std::fs::write(own.join("client.info"), template).expect("written");
    certtool(
        &own,
        &["--generate-privkey", "--key-type=ecdsa", "--outfile=client-key.pem"],
    );
    certtool(
        &own,
        &[
            "--generate-certificate",
            "--load-privkey=client-key.pem",
            "--load-ca-certificate=../ca-cert.pem",
            "--load-ca-privkey=../ca-key.pem",
            "--template=client.info",
            "--outfile=client-cert.pem",
        ],
    );
    own.display().to_string()
}

#[test]
fn each_client_has_the_volumes_that_are_exported_to_it() {
    let keys = scratch(1 << 20);
    certificates(keys.folder());
    let file = |name: &str| keys.folder().join(name).display().to_string();
    let world = World::serving(&[
        "--tls-certificate",
        &file("server-cert.pem"),
        "--tls-key",
        &file("server-key.pem"),
        "--tls-client-authorities",
        &file("ca-cert.pem"),
    ]);
    world.amita_done(&["volume", "create", "second", "--pool", "demo", "--size", "8M"]);
    world.amita_done(&["nbd", "export", VOLUME, "--client", "ann"]);
    world.amita_done(&[
        "nbd",
        "export",
        "second",
        "--client",
        "ann",
        "--client",
        "bob",
        "--read-only",
    ]);
    let listed = world.json(&["volume", "list"]);
    assert_eq!(listed[0]["export"]["clients"], serde_json::json!(["ann"]), "{listed}");
    let address = world.cluster.nodes()[0].nbd;
    let (ann, bob) = (client(keys.folder(), "ann"), client(keys.folder(), "bob"));
    let uri = |volume: &str, folder: &str| format!("nbds://{address}/{volume}?tls-certificates={folder}");

    let plain = world.tool("nbdinfo", &["--size", &world.uri(0)]);
    assert!(!plain.status.success(), "without a certificate: {}", plain.text);
    for (volume, folder, let_in) in [
        (VOLUME, &ann, true),
        ("second", &ann, true),
        (VOLUME, &bob, false),
        ("second", &bob, true),
        ("nothing", &ann, false),
    ] {
        let said = world.tool("nbdinfo", &["--size", &uri(volume, folder)]);
        assert_eq!(said.status.success(), let_in, "{volume} of {folder}: {}", said.text);
    }
    let list = world.done("nbdinfo", &["--list", &uri("", &bob)]);
    assert!(list.contains("second") && !list.contains(VOLUME), "{list}");
    let source = world.file("source");
    std::fs::write(&source, crate::world::pattern(8, 1 << 20)).expect("written");
    let source = source.display().to_string();
    let refused = world.tool("nbdcopy", &[&source, &uri("second", &bob)]);
    assert!(!refused.status.success(), "it was written: {}", refused.text);
    world.done("nbdcopy", &[&source, &uri(VOLUME, &ann)]);
    world.end(&[]);
}

#[test]
fn a_certificate_that_is_none_is_named() {
    let world = World::metadata_only(1);
    let nothing = world.file("nothing.pem");
    std::fs::write(&nothing, "no certificate").expect("written");
    let path = nothing.display().to_string();
    let mut node = world.serve("a", &["--tls-certificate", &path, "--tls-key", &path]);
    assert_eq!(node.wait(PATIENCE).expect("it gives up").code(), Some(1));
    let said = std::fs::read_to_string(node.log()).expect("a log");
    assert!(said.contains(&path) && said.contains("certificate"), "{said}");
    world.end(&[]);
}
