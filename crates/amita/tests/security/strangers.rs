//! Somebody who has nothing to show, at every port of a cluster in use.

use crate::attacker::{ALERT_BYTES, FABRIC, HTTP2_PREFACE, METADATA, PLAIN_HELLO, Tls, told};
use crate::bystander::Bystander;
use crate::world::{PATIENCE, VOLUME, World, binary, eventually};
use amita_harness::nbd::Client;
use amita_harness::tool;
use amita_nvme_host::{Controller, Error, Host, Settings, commands, discovery_log};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// A host that has a key.
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3733";
/// Somebody of whom nobody has heard.
const NOBODY: &str = "nqn.2014-08.com.example:nobody";
/// What lies in the volumes that are not for strangers.
const MARK: &[u8] = b"what only ann and the host may read";
/// What nodes say of strangers.
const OF_STRANGERS: &[&str] = &["could not prove who it is", "the connection of a host at"];

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A volume of that name whose blocks begin with the mark, exported to nobody.
fn marked(world: &World, name: &str) {
    world.amita_done(&["volume", "create", name, "--pool", "demo", "--size", "4M"]);
    world.amita_done(&["nbd", "export", name, "--any-client"]);
    let mut client = Client::open(world.cluster.nodes()[1].nbd, name, PATIENCE).expect("it is exported");
    let block = [MARK, &[0x5a; 4096]].concat();
    for at in 0..16 {
        client.write(at * 4096, &block[..4096]).expect("written");
    }
    client.close();
    world.amita_done(&["nbd", "unexport", name]);
}

#[test]
fn who_has_nothing_to_show_gets_nothing_at_any_port() {
    let keys = tempfile::tempdir().expect("a folder");
    let seal = keys.path().join("seal.key").display().to_string();
    tool::run(keys.path(), binary(), ["host", "seal-key", &seal], PATIENCE)
        .and_then(|output| output.success())
        .expect("a sealing key");
    let world = World::with_sockets(&["--seal-key", &seal]);
    marked(&world, "hers");
    world.amita_done(&["nbd", "export", "hers", "--client", "ann"]);
    marked(&world, "disk");
    let made = world.json(&["subsystem", "create", "db"]);
    let nqn = made["nqn"].as_str().expect("a name").to_owned();
    world.amita_done(&["namespace", "add", "db", "disk"]);
    let said = world.amita_done(&["host", "add", HOST, "--generate-dhchap", "--seal-key", &seal]);
    let mut secrets: Vec<String> = said
        .split_whitespace()
        .filter(|word| word.starts_with("DHHC-1:"))
        .map(str::to_owned)
        .collect();
    assert_eq!(secrets.len(), 2, "{said}");
    secrets.push(std::fs::read_to_string(&seal).expect("a key").trim().to_owned());
    world.amita_done(&["host", "allow", "db", HOST]);
    let mut bystander = Bystander::start(&world, 0);

    fabric(&world);
    bystander.goes_on();
    metadata(&world);
    bystander.goes_on();
    nbd(&world);
    unix_socket(&world);
    bystander.goes_on();
    nvme(&world, &nqn);
    bystander.goes_on();
    metrics(&world, &secrets);

    bystander.unharmed(&world, 2);
    eventually("strangers are told of", || {
        let log = std::fs::read_to_string(world.cluster.node_log(0)).expect("a log");
        OF_STRANGERS.iter().all(|words| log.contains(words))
    });
    world.end(&[OF_STRANGERS, &["was not let in"]].concat());
}

/// S1, S2: no frame, no hello, no name, whatever is said.
fn fabric(world: &World) {
    let cluster = world.json(&["status"])["cluster"].as_str().expect("an id").to_owned();
    let number = u128::from_str_radix(&cluster.replace('-', ""), 16).expect("an id is a number");
    for node in world.cluster.nodes() {
        for said in [PLAIN_HELLO, HTTP2_PREFACE, &[0x16; 600], &[0; 4096]] {
            let answer = told(node.fabric, said);
            assert!(answer.len() <= ALERT_BYTES, "{} was told {answer:?}", node.name);
            assert!(!holds(&answer, &number.to_le_bytes()), "the cluster's id was told");
        }
        // By TLS without a certificate, as what may be there, and as what may not.
        for protocol in [FABRIC, METADATA, b""] {
            let tls = Tls {
                shows: None,
                protocol,
                is_old: false,
            };
            let found = tls.told(node.fabric, PLAIN_HELLO);
            assert!(found.is_refused(), "{}: {found:?}", node.name);
        }
    }
}

/// S3: not a key is read or written.
fn metadata(world: &World) {
    let endpoint = world.cluster.endpoint();
    let address = world.cluster.metadata_address().expect("it is ours");
    for said in [HTTP2_PREFACE, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", &[0x16; 600]] {
        let answer = told(address, said);
        assert!(answer.len() <= ALERT_BYTES, "a stranger was told {answer:?}");
    }
    for protocol in [METADATA, b"http/1.1", b""] {
        let tls = Tls {
            shows: None,
            protocol,
            is_old: false,
        };
        let found = tls.told(address, HTTP2_PREFACE);
        assert!(found.is_refused(), "{found:?}");
    }
    let plain = format!("http://{address}");
    for arguments in [
        &["status", "--metadata", endpoint][..],
        &["status", "--metadata", &plain, "--insecure-network"],
        &["nbd", "export", "hers", "--any-client", "--metadata", endpoint],
        &["subsystem", "set", "db", "--any-host", "--metadata", &plain],
    ] {
        let found = tool::run(world.folder(), binary(), arguments, PATIENCE).expect("it runs");
        assert!(!found.status.success(), "{arguments:?}: {}", found.text);
        assert!(!found.text.contains("hers"), "{arguments:?}: {}", found.text);
    }
    let volumes = world.json(&["volume", "list"]);
    let hers = volumes
        .as_array()
        .expect("a list")
        .iter()
        .find(|volume| volume["name"] == "hers");
    let export = &hers.expect("it is there")["export"];
    assert_eq!(
        export["clients"],
        serde_json::json!(["ann"]),
        "nothing was changed: {volumes}"
    );
}

/// S5: neither a name nor a byte of what is not exported to everybody.
fn nbd(world: &World) {
    for (number, node) in world.cluster.nodes().iter().enumerate() {
        let list = world.done("nbdinfo", &["--list", &world.uri(number).replace(VOLUME, "")]);
        assert!(list.contains(VOLUME), "{list}");
        assert!(!list.contains("hers") && !list.contains("\"disk\""), "{list}");
        let open = |name: &str| {
            let refused = Client::open(node.nbd, name, PATIENCE).expect_err("it is not for strangers");
            refused.to_string().replace(name, "NAME")
        };
        let unknown = open("nothing");
        assert_eq!(open("hers"), unknown, "it is told that there is such a volume");
        assert_eq!(open("disk"), unknown, "it is told that there is such a volume");
        // A read without having opened anything, behind the flags of a client; the oldstyle; bytes of anything.
        let mut read = vec![0, 0, 0, 3];
        read.extend([0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        read.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0]);
        for said in [&read, &vec![0; 64], &vec![0xff; 4096]] {
            let answer = told(node.nbd, said);
            assert!(!holds(&answer, MARK), "data was told");
            assert!(answer.len() < 1024, "{} bytes", answer.len());
        }
    }
}

/// Another user of the machine cannot open the file.
fn unix_socket(world: &World) {
    let uri = world.cluster.socket_uri(0, VOLUME).expect("a socket");
    world.done("nbdinfo", &["--size", &uri]);
    if !rustix::process::geteuid().is_root() {
        return eprintln!("only root can be another user: not tried");
    }
    let other = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let nbdinfo = [&other[..], &["nbdinfo", "--size", &uri]].concat();
    let refused = world.tool("setpriv", &nbdinfo);
    assert!(!refused.status.success(), "{}", refused.text);
    assert!(refused.text.contains("Permission denied"), "{}", refused.text);
    // Nor may it put another one in its place.
    let path = world.socket(0);
    for command in [["rm", "-f"], ["touch", "--"]] {
        let shown = path.with_extension(command[0]).display().to_string();
        let target = if command[0] == "rm" {
            path.display().to_string()
        } else {
            shown
        };
        let all = [&other[..], &command[..], &[target.as_str()]].concat();
        let tried = world.tool("setpriv", &all);
        assert!(!tried.status.success(), "{command:?}: {}", tried.text);
    }
    assert!(path.exists());
}

/// Connects as somebody, and reads a block.
fn read_as(address: SocketAddr, nqn: &str, host: &Host) -> Result<Vec<u8>, Error> {
    let mut controller = Controller::connect(&Settings::new(address, nqn), host)?;
    controller.enable()?;
    controller.call(&commands::queues(1))?.good("Number of Queues")?;
    let mut queue = controller.io_queue(1, 16)?;
    Ok(queue.call(&commands::read(1, 0, 1, 4096))?.good("Read")?.data)
}

/// S9, S14: who says a host's name and shows nothing is neither served nor told what the host has.
fn nvme(world: &World, nqn: &str) {
    for node in world.cluster.nodes() {
        for name in [HOST, NOBODY] {
            let host = Host::named(name);
            let found = read_as(node.nvme, nqn, &host);
            assert!(
                found.is_err(),
                "{name} has read {} bytes",
                found.map_or(0, |data| data.len())
            );
            if let Ok(log) = discovery_log(&Settings::new(node.nvme, nqn), &host) {
                let named = log.entries.iter().any(|entry| entry.nqn == nqn);
                assert!(!named, "{name} was told of the subsystem");
            }
        }
        let mut garbage = vec![0xff; 8192];
        garbage[0] = 0;
        assert!(!holds(&told(node.nvme, &garbage), MARK));
    }
}

/// A page of a node's figures.
pub fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path}"), &address.to_string())
}

fn ask(address: SocketAddr, line: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let said = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(said.as_bytes()).expect("said");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Figures only, and only to who asks for them by an address of the machine's own.
fn metrics(world: &World, secrets: &[String]) {
    let nodes = world.json(&["node", "list"]);
    let own = key_of(&world.file("n1.identity"));
    for node in nodes.as_array().expect("a list") {
        let address: SocketAddr = node["metrics"]
            .as_str()
            .expect("an address")
            .parse()
            .expect("an address");
        for path in ["GET /metrics", "GET /top", "GET /traces"] {
            let foreign = ask(address, path, "evil.example");
            assert!(!foreign.starts_with("HTTP/1.1 200"), "{foreign}");
            assert!(!foreign.contains("amita_"), "{foreign}");
            let figures = ask(address, path, &address.to_string());
            assert!(figures.starts_with("HTTP/1.1 200"), "{figures}");
            for secret in secrets.iter().chain([&own]) {
                assert!(!figures.contains(secret.as_str()), "{path} shows a key");
            }
            assert!(!holds(figures.as_bytes(), MARK), "{path} shows data");
        }
        for line in ["POST /metrics", "DELETE /top", "GET /../../etc/passwd"] {
            let refused = ask(address, line, &address.to_string());
            assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");
        }
    }
}

/// The text of an identity's key, without its frame.
fn key_of(identity: &Path) -> String {
    let text = std::fs::read_to_string(identity.join("key.pem")).expect("a key");
    text.lines().nth(1).expect("its first line").to_owned()
}
