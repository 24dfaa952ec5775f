//! Identities, by the commands alone: the authority is made and served, machines join, renew, are revoked, and the authority is
//! exchanged.

use crate::load::Load;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, World, binary, eventually};
use amita_harness::probe::Probe;
use amita_harness::process::Process;
use amita_harness::rotation::exchange_authority;
use amita_harness::{ports, tool};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An authority that is served on loopback.
struct Authority<'a> {
    world: &'a World,
    folder: PathBuf,
    server: Process,
    address: String,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

impl<'a> Authority<'a> {
    /// In a folder of that name, with an operator beside it.
    fn new(world: &'a World, name: &str) -> Authority<'a> {
        let (ca, admin) = (world.file(name), world.file(&format!("{name}-admin")));
        world.amita_done(&["cluster", "init", "--ca", text(&ca), "--identity", text(&admin)]);
        let address = format!("127.0.0.1:{}", ports::free());
        let arguments = ["ca", "serve", "--ca", text(&ca), "--listen", &address];
        let server = tool::start(world.folder(), binary(), arguments).expect("the server starts");
        eventually("the authority serves", || {
            let log = std::fs::read_to_string(server.log()).unwrap_or_default();
            log.contains("serves on")
        });
        Authority {
            world,
            folder: ca,
            server,
            address,
        }
    }

    /// A metadata server of this authority, and its endpoint.
    fn metadata(&self) -> (Process, String) {
        let token = self.token(&["node", "token", "metadata"]);
        self.join("node", "metadata", &token, "metadata").expect("it joins");
        let (folder, data) = (self.world.file("metadata"), self.world.file("secure.redb"));
        let address = format!("127.0.0.1:{}", ports::free());
        let mut arguments = vec!["meta", "--listen", &address, "--data", text(&data)];
        arguments.extend(["--identity", text(&folder), "--ca-server", &self.address]);
        let server = tool::start(self.world.folder(), binary(), arguments).expect("it starts");
        eventually("the metadata serves", || server.last_words().contains("listens on"));
        (server, format!("https://{address}"))
    }

    fn ca(&self, arguments: &[&str]) -> Vec<String> {
        let all = arguments.iter().map(|&argument| argument.to_owned());
        all.chain(["--ca".to_owned(), text(&self.folder).to_owned()]).collect()
    }

    /// A command with the authority's folder, which must succeed.
    fn done(&self, arguments: &[&str]) -> serde_json::Value {
        let all = self.ca(arguments);
        self.world.json(&all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn token(&self, arguments: &[&str]) -> PathBuf {
        let made = self.done(arguments);
        let file = self.world.file("token");
        std::fs::write(&file, format!("{}\n", made["token"].as_str().expect("a token"))).expect("written");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its rights");
        file
    }

    /// `None`: it was refused, with this code and these words.
    fn join(&self, what: &str, name: &str, token: &Path, folder: &str) -> Result<(), (Option<i32>, String)> {
        let folder = self.world.file(folder);
        let arguments = [
            what,
            "join",
            name,
            "--ca-server",
            &self.address,
            "--token-file",
            text(token),
            "--identity",
            text(&folder),
        ];
        let found = self.world.amita(&arguments);
        match found.status.success() {
            true => Ok(()),
            false => Err((found.status.code(), found.text)),
        }
    }

    fn show(&self, folder: &str) -> serde_json::Value {
        self.world.json(&["cert", "show", text(&self.world.file(folder))])
    }

    fn renew(&self, folder: &str) -> Result<(), String> {
        let folder = self.world.file(folder);
        let found = self.world.amita(&[
            "cert",
            "renew",
            "--ca-server",
            &self.address,
            "--identity",
            text(&folder),
        ]);
        if found.status.success() {
            Ok(())
        } else {
            Err(found.text)
        }
    }
}

/// Its certificate says what it may, a renewed one by what was noted since.
fn a_client_has_what_it_was_granted(world: &World, authority: &Authority<'_>) {
    let folder = world.file("tenants");
    let create = |tenant| ["client", "create", "tenants", "--tenant", tenant];
    authority.done(&[&create("acme")[..], &["--identity", text(&folder)]].concat());
    let before = authority.show("tenants")["capability"].clone();
    assert_eq!(before["tenant"], "acme", "{before}");
    let other = authority.ca(&[&create("other")[..], &["--token"]].concat());
    let other = world.amita(&other.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(other.status.code(), Some(5), "{}", other.text);
    authority.done(&["client", "change", "tenants", "--volume", "3", "--volume", "12"]);
    authority.renew("tenants").expect("renewed");
    let after = authority.show("tenants")["capability"].clone();
    assert_eq!(after["tenant"], "", "{after}");
    assert_eq!(after["entries"][1]["number"], 12, "{after}");
    let listed = authority.done(&["client", "list"]);
    assert_eq!(listed[0]["entries"], after["entries"], "{listed}");
    assert_eq!(listed[0]["life_s"], 86_400, "{listed}");
}

#[test]
fn a_cluster_gets_its_certificates_by_commands_alone() {
    let world = World::plain();
    let authority = Authority::new(&world, "ca");
    // Nothing is overwritten.
    let again = world.amita(&[
        "cluster",
        "init",
        "--ca",
        text(&world.file("ca")),
        "--identity",
        text(&world.file("x")),
    ]);
    assert_eq!(again.status.code(), Some(5), "{}", again.text);
    assert!(!world.file("x").join("key.pem").exists());

    let token = authority.token(&["node", "token", "n1"]);
    let secret = std::fs::read_to_string(&token).expect("read");
    let in_argv = authority
        .join("node", "n1", Path::new(secret.trim()), "n1")
        .expect_err("a token in argv");
    assert_eq!(in_argv.0, Some(2), "{}", in_argv.1);
    assert!(!in_argv.1.contains(secret.trim()), "{}", in_argv.1);
    authority.join("node", "n1", &token, "n1").expect("it joins");
    let twice = authority.join("node", "n1", &token, "n1-again").expect_err("used");
    assert!(twice.1.contains("not taken"), "{}", twice.1);
    let there = authority.join("node", "n1", &token, "n1").expect_err("it is there");
    assert_eq!(there.0, Some(5), "{}", there.1);

    let shown = authority.show("n1");
    let name = shown["name"].as_str().expect("a name");
    assert!(name.starts_with("amita://") && name.ends_with("/node/n1"), "{shown}");
    assert_eq!(shown["ok"], true, "{shown}");
    let first = shown["serial"].as_str().expect("a number").to_owned();

    // A client and an operator: made here, and by a token.
    let app = world.file("app");
    authority.done(&["client", "create", "app", "--identity", text(&app)]);
    assert!(
        authority.show("app")["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("/client/app"))
    );
    let token = authority.token(&["operator", "create", "eve", "--token"]);
    let wrong = authority
        .join("client", "eve", &token, "eve")
        .expect_err("another role");
    assert!(wrong.1.contains("operator eve"), "{}", wrong.1);
    let token = authority.token(&["operator", "create", "eve", "--token"]);
    authority.join("operator", "eve", &token, "eve").expect("it joins");

    authority.renew("n1").expect("renewed");
    let second = authority.show("n1")["serial"].as_str().expect("a number").to_owned();
    assert_ne!(first, second);

    // What others could have read is refused, with what mends it.
    let key = world.file("n1").join("key.pem");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).expect("set");
    let loose = authority.renew("n1").expect_err("loose");
    assert!(loose.contains(&format!("chmod 600 {}", key.display())), "{loose}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("set");

    // The authority is exchanged, and everybody follows by renewing.
    authority.done(&["ca", "rotate", "--signs-after", "0s"]);
    let waiting = authority.ca(&["ca", "rotate", "--finish"]);
    let refused = world.amita(&waiting.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        !refused.status.success() && refused.text.contains("node/n1"),
        "{}",
        refused.text
    );
    for folder in ["ca-admin", "n1", "app", "eve"] {
        authority.renew(folder).expect("renewed");
    }
    assert_eq!(authority.show("n1")["authorities"], 2);
    authority.done(&["ca", "rotate", "--finish"]);
    authority.renew("n1").expect("renewed");
    let shown = authority.show("n1");
    assert_eq!(
        (&shown["authorities"], &shown["ok"]),
        (&1.into(), &true.into()),
        "{shown}"
    );

    let revoked = authority.done(&["cert", "revoke", "node/n1"]);
    let serials: Vec<&str> = revoked["revoked"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["serial"].as_str())
        .collect();
    assert_eq!(serials.len(), 4, "all of its certificates: {revoked}");
    let refused = authority.renew("n1").expect_err("revoked");
    assert!(refused.contains("revoked"), "{refused}");
    authority.renew("app").expect("others go on");
    a_client_has_what_it_was_granted(&world, &authority);
    let listed = authority.done(&["cert", "list"]);
    let valid = listed.as_array().expect("a list").iter();
    assert!(
        valid
            .clone()
            .all(|one| one["name"].as_str().is_some_and(|name| !name.ends_with("/node/n1"))),
        "{listed}"
    );
    let log = std::fs::read_to_string(authority.server.log()).expect("a log");
    assert!(!log.contains("ERROR") && !log.contains("amita-join-1."), "{log}");
    drop(authority);
    world.end(&[]);
}

#[test]
fn a_node_serves_as_who_it_is_in_the_cluster_of_its_identity() {
    let world = World::plain();
    let authority = Authority::new(&world, "ca");
    let cluster = authority.done(&["ca", "show"])["cluster"]
        .as_str()
        .expect("an id")
        .to_owned();
    let token = authority.token(&["node", "token", "n7"]);
    authority.join("node", "n7", &token, "n7").expect("it joins");
    let folder = world.file("n7");
    let fabric = format!("127.0.0.1:{}", ports::free());
    let (secure, plain) = (authority.metadata(), world.cluster.endpoint());
    let serve_at = |metadata: &str, name: Option<&str>, folder: &Path| {
        let mut all = vec!["serve", "--metadata", metadata, "--identity", text(folder)];
        all.extend(["--fabric", &fabric, "--ca-server", &authority.address]);
        all.extend(name.iter().flat_map(|name| ["--name", name]));
        if metadata == plain {
            all.push("--insecure-network");
        }
        tool::start(world.folder(), binary(), all).expect("the process starts")
    };
    let serve = |name: Option<&str>, folder: &Path| serve_at(&secure.1, name, folder);
    let mut wrong = serve(Some("n8"), &folder);
    assert_eq!(
        wrong.wait(PATIENCE).expect("it gives up").code(),
        Some(2),
        "{}",
        wrong.last_words()
    );
    assert!(wrong.last_words().contains("call it n7"), "{}", wrong.last_words());

    let mut node = serve(None, &folder);
    eventually("the node serves", || node.last_words().contains("(n7) serves"));
    let admin = world.file("ca-admin");
    let status = ["status", "--json", "--metadata", &secure.1, "--identity", text(&admin)];
    let status = world.done(binary(), &status);
    assert!(status.contains(&cluster), "{status}");
    // Who has an identity does not speak plainly unless told to.
    let mut open = tool::start(
        world.folder(),
        binary(),
        [
            "serve",
            "--metadata",
            plain,
            "--identity",
            text(&folder),
            "--fabric",
            &fabric,
        ],
    )
    .expect("the process starts");
    assert!(!open.wait(PATIENCE).expect("it gives up").success());
    assert!(
        open.last_words().contains("--insecure-network"),
        "{}",
        open.last_words()
    );
    assert_eq!(
        node.stop().and_then(|status| status.code()),
        Some(0),
        "{}",
        node.last_words()
    );

    // A token is good with its own authority only; and the metadata is not of the other's cluster.
    let other = Authority::new(&world, "other");
    let token = other.token(&["node", "token", "n7"]);
    let refused = authority
        .join("node", "n7", &token, "foreign")
        .expect_err("not its authority");
    assert!(refused.1.contains("not believed here"), "{}", refused.1);
    other.join("node", "n7", &token, "foreign").expect("it joins");
    let mut stranger = serve(None, &world.file("foreign"));
    assert!(!stranger.wait(PATIENCE).expect("it gives up").success());
    assert!(
        stranger.last_words().contains("not believed here"),
        "{}",
        stranger.last_words()
    );
    // Other metadata of the same cluster: to this node it is an older copy of what it has known, until it is told to forget that.
    std::fs::remove_file(folder.join("metadata-seen.n7")).expect("it remembers");
    let mut ours = serve_at(plain, None, &folder);
    eventually("the node serves", || ours.last_words().contains("(n7) serves"));
    assert!(ours.stop().is_some_and(|status| status.success()));
    let mut foreign = serve_at(plain, None, &world.file("foreign"));
    assert_eq!(
        foreign.wait(PATIENCE).expect("it gives up").code(),
        Some(1),
        "{}",
        foreign.last_words()
    );
    assert!(
        foreign
            .last_words()
            .contains(&format!("the metadata is of cluster {cluster}")),
        "{}",
        foreign.last_words()
    );
    // Nor does an operator serve.
    let mut operator = serve(None, &world.file("ca-admin"));
    assert_eq!(
        operator.wait(PATIENCE).expect("it gives up").code(),
        Some(2),
        "{}",
        operator.last_words()
    );
    drop(other);
    drop(authority);
    world.end(&[]);
}

/// All certificates, twice, and the authority: whoever writes meanwhile sees no error and no wrong block, nobody is evicted,
/// and a node that starts afterwards is let in.
#[test]
fn everything_is_exchanged_under_load_and_nobody_notices() {
    let mut world = World::with_volume();
    let second = "disk1";
    world.amita_done(&["volume", "create", second, "--pool", "demo", "--size", "16M"]);
    world.cluster.offer_by_nbd(second).expect("offered");
    let load = Load::start(&world, 0, Some("--rate_iops=2000"));
    let probe = Probe::start(vec![world.cluster.nodes()[1].nbd], second, 0).expect("it writes");
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    exchange_authority(&world.cluster).expect("exchanged");
    let pause = probe.finish(begun).expect("writes go on");
    println!(
        "the longest pause was {:?}, where 999 of 1000 stay below {:?}",
        pause.length, pause.usual
    );
    assert_eq!(pause.reopened, 0, "a client lost its gateway");
    assert!(load.finish() > 0);
    // Connections to the metadata that rest on the old one are made anew.
    let ended = "the certificate is by no authority that is trusted here";
    let unexpected = world.unexpected_lines(&[ended]);
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));

    world.cluster.kill_node(2);
    world.cluster.start_node(2).expect("it starts");
    world.cluster.await_node(2).expect("it is let in");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, &[ended]].concat());
}
