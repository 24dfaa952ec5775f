//! The command line by the API: what a command does, says and ends with is the same as by the metadata, with the rights of who gives it;
//! and where one node is gone, another one carries it out.

mod data;
mod figures;
mod follow;
mod secrets;

use crate::page::{end, gateway, pair};
use crate::world::{A_NODE_IS_GONE, VOLUME, World, binary};
use amita_harness::tool::Output;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// Where the nodes' APIs are, as `--by-api` takes them.
fn apis(world: &World) -> Vec<String> {
    let nodes = world.json(&["node", "list"]);
    let nodes = nodes.as_array().expect("nodes").iter();
    nodes
        .map(|node| node["api"].as_str().expect("an API").to_owned())
        .collect()
}

/// An operator of a workstation: it knows the nodes' APIs, and no metadata.
struct Workstation<'a> {
    world: &'a World,
    by_api: String,
    identity: String,
}

impl Workstation<'_> {
    fn run(&self, arguments: &[&str]) -> Output {
        let who = ["--by-api", &self.by_api, "--identity", &self.identity];
        self.world.tool(binary(), &[arguments, &who].concat())
    }

    fn done(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        said.success().expect("the command succeeds").text
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.done(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{arguments:?} printed no JSON ({why}): {text}"))
    }
}

/// The file of a new token.
fn token_file(world: &World, name: &str, role: &str) -> String {
    let token = world.json(&["token", "create", name, "--role", role]);
    let path = world.file(&format!("{name}.token"));
    std::fs::write(&path, token["secret"].as_str().expect("a secret")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its rights are set");
    path.display().to_string()
}

#[test]
fn a_command_by_the_api_says_and_ends_as_by_the_metadata() {
    let world = World::with_volume();
    let work = Workstation {
        by_api: apis(&world).join(","),
        identity: world.operator_with("operator"),
        world: &world,
    };
    work.done(&["volume", "create", "db", "--pool", "demo", "--size", "64M"]);
    // Read by both ways, it is the same to a byte, and so is what fails.
    for arguments in [
        &["nbd", "list"][..],
        &["nbd", "list", "--json"],
        &["snapshot-policy", "list", "--json"],
        &["backup", "repository", "list", "--json"],
        &["backup", "policy", "list", "--json"],
        &["mirror", "list", "--json"],
        &["mirror", "show", "none"],
        &["subsystem", "list"],
        &["events", "--kinds"],
        &["volume", "label", "db", "team=a", "--json"],
        &["volume", "show", "none"],
        &["volume", "show", "none", "--json"],
        &["volume", "create", "db", "--pool", "demo", "--size", "64M"],
        &["volume", "create", "db", "--pool", "demo", "--size", "64M", "--json"],
        &["volume", "create", "x", "--pool", "none", "--size", "64M", "--json"],
        &["volume", "create", "x", "--pool", "demo", "--size", "10000", "--json"],
    ] {
        let (there, here) = (
            work.run(arguments),
            world.amita(&[arguments, &["--identity", &work.identity]].concat()),
        );
        assert_eq!(there.text, here.text, "{arguments:?}");
        assert_eq!(there.status.code(), here.status.code(), "{arguments:?}: {}", there.text);
    }
    // What destroys is not asked about where nobody can answer, as by the metadata.
    work.done(&["volume", "delete", "db", "--now"]);
    let gone = world.amita(&["volume", "show", "db"]);
    assert_eq!(gone.status.code(), Some(4), "{}", gone.text);
    // It is in the log: who, by what, and from where.
    let audit = world.json(&["audit", "list"]);
    let records = audit.as_array().expect("a list").iter();
    let done = |action: &str| {
        let mut own = records
            .clone()
            .filter(|found| found["action"] == action && found["object"] == "db" && found["outcome"] == "done");
        own.next()
            .unwrap_or_else(|| panic!("{action} is not told: {audit}"))
            .clone()
    };
    for action in ["volume.create", "volume.delete"] {
        let found = done(action).to_string();
        assert!(
            found.contains("eve-operator") && found.contains("certificate"),
            "{found}"
        );
        assert!(found.contains("127.0.0.1") && found.contains("the API of"), "{found}");
    }
    // What only looks leaves nothing.
    let before = audit.as_array().map(Vec::len);
    work.done(&["status"]);
    assert_eq!(world.json(&["audit", "list"]).as_array().map(Vec::len), before);
    world.end(&[]);
}

#[test]
fn roles_are_the_nodes_to_say_and_what_is_of_a_machine_stays_there() {
    let world = World::with_volume();
    let by_api = apis(&world).join(",");
    let viewer = Workstation {
        by_api: by_api.clone(),
        identity: world.operator_with("viewer"),
        world: &world,
    };
    assert_eq!(viewer.json(&["volume", "list"])[0]["name"], VOLUME);
    let create = ["volume", "create", "theirs", "--pool", "demo", "--size", "64M"];
    // By a certificate at the metadata, by it at a node, and by a token: the same code, and the same words but for the name.
    let file = token_file(&world, "watcher", "viewer");
    let at_metadata = world.amita(&[&create[..], &["--identity", &viewer.identity]].concat());
    let at_node = viewer.run(&create);
    let by_token = viewer.run(&[&create[..], &["--api-token-file", &file]].concat());
    for refused in [&at_metadata, &at_node, &by_token] {
        assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
        for word in [
            "volume.create (theirs)",
            "for admin and operator",
            "a viewer",
            "amita operator create",
        ] {
            assert!(refused.text.contains(word), "{word}: {}", refused.text);
        }
    }
    assert_eq!(at_metadata.text, at_node.text);
    assert!(by_token.text.contains("token watcher"), "{}", by_token.text);
    // An operator is no admin: the node says so.
    let operator = Workstation {
        by_api,
        identity: world.operator_with("operator"),
        world: &world,
    };
    let refused = operator.run(&["token", "create", "mine", "--role", "admin"]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    assert!(
        refused.text.contains("token.create") && refused.text.contains("only admin"),
        "{}",
        refused.text
    );
    assert_eq!(world.json(&["token", "list"]).as_array().map(Vec::len), Some(1));
    // A secret is shown once.
    let admin = Workstation {
        by_api: operator.by_api.clone(),
        identity: world.operator(),
        world: &world,
    };
    let made = admin.json(&["token", "create", "shown", "--role", "viewer"]);
    assert!(
        made["secret"]
            .as_str()
            .is_some_and(|secret| secret.starts_with("amita-api-1.")),
        "{made}"
    );
    assert!(!world.json(&["token", "list"]).to_string().contains("amita-api-1."));
    // What a node does for nobody is refused before anything is sent; what needs no cluster is done here.
    for (arguments, says) in [
        (
            &["audit", "ship", "--syslog", "udp:127.0.0.1:1", "--cursor", "x"][..],
            "until it is ended",
        ),
        (&["host", "reseal", "--seal-key", "x"], "goes over no network"),
        (&["volume", "import", "x.img", "x", "--resume"], "--resume"),
        (&["volume", "list", "--metadata", "127.0.0.1:1"], "by which of them"),
    ] {
        let refused = operator.run(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", refused.text);
        assert!(refused.text.contains(says), "{arguments:?}: {}", refused.text);
    }
    assert!(operator.done(&["explain", "pool-full"]).contains("pool"));
    world.end(&[]);
}

#[test]
fn where_a_node_is_gone_the_next_one_carries_it_out() {
    let mut world = World::with_volume();
    let apis = apis(&world);
    let identity = world.operator();
    world.cluster.kill_node(0);
    let work = Workstation {
        by_api: apis.join(","),
        identity: identity.clone(),
        world: &world,
    };
    work.done(&["volume", "create", "after", "--pool", "demo", "--size", "64M"]);
    assert!(work.done(&["volume", "list"]).contains("after"));
    let dead = Workstation {
        by_api: apis[0].clone(),
        identity,
        world: &world,
    };
    let refused = dead.run(&["volume", "list"]);
    assert_eq!(refused.status.code(), Some(3), "{}", refused.text);
    assert!(
        refused.text.contains(&apis[0]) && refused.text.contains("cannot be reached"),
        "{}",
        refused.text
    );
    let refused = dead.run(&["volume", "list", "--json"]);
    let error: Value = serde_json::from_str(&refused.text).unwrap_or_else(|why| panic!("{why}: {}", refused.text));
    assert_eq!(
        (&error["error"]["code"], &error["error"]["exit"]),
        (&json!("unreachable"), &json!(3))
    );
    world.end(A_NODE_IS_GONE);
}

#[test]
fn by_a_token_a_node_is_believed_by_what_it_shows_to_browsers() {
    let world = World::metadata_only(1);
    let (authority, certificate, key) = pair(&world, "browsers");
    let (node, url) = gateway(&world, &["--api-certificate", &certificate, "--api-key", &key]);
    let file = token_file(&world, "ci", "viewer");
    let by_token = |more: &[&str]| {
        let given = ["node", "list", "--json", "--by-api", &url, "--api-token-file", &file];
        world.tool(binary(), &[&given[..], more].concat())
    };
    let said = by_token(&["--api-authority", &authority]);
    let nodes: Value = serde_json::from_str(&said.text).unwrap_or_else(|why| panic!("{why}: {}", said.text));
    let named = |name: &str| {
        nodes
            .as_array()
            .is_some_and(|all| all.iter().any(|node| node["name"] == name))
    };
    assert!(said.status.success() && named("g"), "{nodes}");
    // Another authority's is not believed; nothing was sent to it.
    let (other, ..) = pair(&world, "others");
    let refused = by_token(&["--api-authority", &other]);
    assert_eq!(refused.status.code(), Some(3), "{}", refused.text);
    assert!(refused.text.contains("is not believed"), "{}", refused.text);
    // As nobody nothing is asked; and a token that others may read is not taken.
    let nobody = world.tool(binary(), &["node", "list", "--by-api", &url]);
    assert_eq!(nobody.status.code(), Some(2), "{}", nobody.text);
    assert!(nobody.text.contains("as who?"), "{}", nobody.text);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("its rights are set");
    let loose = by_token(&["--api-authority", &authority]);
    assert!(loose.text.contains("others may read it"), "{}", loose.text);
    end(node);
    world.end(&[]);
}
