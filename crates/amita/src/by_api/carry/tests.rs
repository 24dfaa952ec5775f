//! With a metadata server, and no nodes: what a command may, says and leaves in the audit log.

mod largest;

use super::*;
use amita_audit::Whence;
use amita_control::access::Caller;
use amita_control::admin::{self, DEFAULT_CHUNK_BYTES, PoolSpec};
use amita_identity::{Name, OperatorRole};
use amita_keys::{DhchapSecret, SealKey};
use amita_metadata::Call;
use amita_metadata::server::{self, Config, Handle};
use amita_types::map::{self, Live};
use amita_types::placement::Level;
use amita_types::{ClusterId, StoreId};
use std::time::Duration;
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId(9);

struct World {
    carrier: Carrier,
    _metadata: Handle,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let seal_key = folder.path().join("seal.key");
        SealKey::generate().save(&seal_key).expect("a sealing key");
        let listen = "127.0.0.1:0".parse().expect("an address");
        let metadata = server::start(Config::new(listen, folder.path().join("metadata"))).expect("a server");
        let client = Client::connect(&[metadata.address().to_string()]).expect("a client");
        admin::init_cluster(&client, CLUSTER).expect("a cluster");
        for number in 1..=3 {
            let node = admin::register_node(&client, &format!("n{number}"), "127.0.0.1:1", None, 2).expect("a node");
            let live = Live {
                stores: None,
                session: 1,
                pid: 1,
                version: map::METADATA_VERSION,
            };
            let live = serde_json::to_vec(&live).expect("plain data");
            client.txn(&Call::put(map::live_key(node.id), live)).expect("it lives");
            let store = StoreId(u128::from(node.id.0) << 64 | 7);
            let record = admin::store_record(store, node.id, "/dev/x", 64 << 30);
            admin::register_store(&client, &record).expect("a store");
        }
        let pool = PoolSpec {
            name: "main".to_owned(),
            copies: 3,
            min_copies: 2,
            groups: 8,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
            level: Level::Node,
            class: None,
        };
        admin::create_pool(&client, &pool).expect("a pool");
        World {
            carrier: Carrier::new(client).sealing_by(Some(seal_key)),
            _metadata: metadata,
            _folder: folder,
        }
    }

    fn run_as(&self, role: OperatorRole, line: &str, confirmed: Option<&str>, ends_at: Option<u64>) -> Outcome {
        let line = CommandLine {
            confirmed: confirmed.map(str::to_owned),
            ..words(line)
        };
        let behalf = OnBehalf {
            ends_at,
            ..behalf(role)
        };
        self.carrier.run(&line, behalf)
    }

    /// With what files hold, by TLS or without.
    fn run_with(&self, line: &str, files: &[(&str, &str)], is_private: bool) -> Outcome {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let line = CommandLine {
            files: files.collect(),
            ..words(line)
        };
        let behalf = OnBehalf {
            is_private,
            ..behalf(OperatorRole::Admin)
        };
        self.carrier.run(&line, behalf)
    }

    fn run(&self, line: &str) -> Outcome {
        self.run_as(OperatorRole::Admin, line, None, None)
    }

    fn done(&self, line: &str) -> String {
        let outcome = self.run(line);
        assert_eq!(outcome.exit_code, 0, "{line}: {outcome:?}");
        outcome.stdout
    }
}

fn words(line: &str) -> CommandLine {
    CommandLine {
        arguments: line.split(' ').map(str::to_owned).collect(),
        confirmed: None,
        files: amita_api::Files::default(),
    }
}

fn behalf(role: OperatorRole) -> OnBehalf {
    let name = Name::operator(CLUSTER, role, "alice").expect("a name");
    OnBehalf {
        caller: Caller::of(&name, Whence::default()),
        tells_refusals: true,
        ends_at: None,
        is_private: true,
    }
}

#[test]
fn a_command_is_done_as_who_asks_and_their_role_decides() {
    let world = World::new();
    let made = world.run_as(
        OperatorRole::Operator,
        "volume create db --pool main --size 1G",
        None,
        None,
    );
    assert_eq!((made.exit_code, made.is_denied), (0, false), "{made:?}");
    let listed = world.run_as(OperatorRole::Viewer, "volume show db --json", None, None);
    let shown: serde_json::Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(shown["size_bytes"], serde_json::json!(1 << 30), "{listed:?}");
    let refused = world.run_as(
        OperatorRole::Viewer,
        "volume create other --pool main --size 1G",
        None,
        None,
    );
    assert_eq!((refused.exit_code, refused.is_denied), (1, true), "{refused:?}");
    assert!(
        refused.stderr.starts_with("amita: ") && refused.stderr.contains("volume.create"),
        "{refused:?}"
    );
    let refused = world.run_as(
        OperatorRole::Viewer,
        "volume create other --pool main --size 1G --json",
        None,
        None,
    );
    let error: serde_json::Value = serde_json::from_str(&refused.stderr).expect("JSON");
    assert_eq!(error["error"]["exit"], serde_json::json!(1), "{refused:?}");
    let audit = world.done("audit list");
    let told = |what: &str| {
        audit
            .lines()
            .filter(|line| line.contains("volume.create") && line.contains(what))
            .count()
    };
    assert!(told("alice") >= 4, "begun, done, and refused twice: {audit}");
}

#[test]
fn how_it_ends_is_told_as_the_program_tells_it() {
    let world = World::new();
    let missing = world.run("volume show none");
    assert_eq!(missing.exit_code, Kind::NotFound.code(), "{missing:?}");
    assert!(
        missing.stderr.starts_with("amita: ") && missing.stdout.is_empty(),
        "{missing:?}"
    );
    let wrong = world.run("volume create db --pool main --size 10000");
    assert_eq!(wrong.exit_code, Kind::Usage.code());
    assert!(wrong.stderr.contains("12288"), "{wrong:?}");
    let wrong = world.run("volume create db --pool main --size 10000 --json");
    let error: serde_json::Value = serde_json::from_str(&wrong.stderr).expect("JSON");
    assert_eq!(error["error"]["code"], serde_json::json!("usage"));
    let help = world.run("volume create --help");
    assert_eq!((help.exit_code, help.stderr.as_str()), (0, ""));
    assert!(help.stdout.contains("--size"), "{help:?}");
    let twice = ["", "again"].map(|_| world.run("volume create db --pool main --size 1G").exit_code);
    assert_eq!(twice, [0, Kind::Conflict.code()]);
}

#[test]
fn what_is_of_the_machine_is_not_done_for_others() {
    let world = World::new();
    for (line, says) in [
        ("serve", "is not carried out by nodes"),
        ("disk format /dev/null", "is not carried out by nodes"),
        (
            "volume import /etc/passwd db --pool main",
            "is not carried out by nodes",
        ),
        ("audit list --ca /etc", "with ca"),
        ("inspect --html /tmp/x", "with html"),
        ("disk list /dev/null", "with paths"),
        ("status --watch", "with watch"),
        ("events --follow", "with follow"),
        (
            "host add nqn.2014-08.org.example:h --dhchap-key /etc/passwd --seal-key /etc/passwd",
            "is not carried out by nodes with",
        ),
        (
            "--metadata 127.0.0.1:1 status",
            "--metadata is for whoever gives a command",
        ),
        ("status --identity /etc", "--identity is for whoever gives a command"),
        ("status --by-api 127.0.0.1:1", "--by-api is for whoever gives a command"),
        (
            "status --insecure-network",
            "--insecure-network is for whoever gives a command",
        ),
    ] {
        let refused = world.run(line);
        assert_eq!(refused.exit_code, Kind::Usage.code(), "{line}: {refused:?}");
        assert!(refused.stderr.contains(says), "{line}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{line}: {refused:?}");
    }
    // Making a volume smaller reads and writes its data.
    world.done("volume create db --pool main --size 1G");
    let smaller = world.run("volume resize db --size 512M --shrink");
    assert_ne!(smaller.exit_code, 0, "{smaller:?}");
    assert!(!world.done("volume show db --json").contains("536870912"));
}

#[test]
fn what_destroys_is_done_when_it_was_confirmed() {
    let world = World::new();
    world.done("volume create db --pool main --size 1G");
    world.done("volume delete db --keep 1h");
    let asked = world.run("volume purge db");
    let (name, lost) = asked.question.clone().expect("a question");
    assert_eq!((name.as_str(), asked.exit_code), ("db", 1));
    assert!(lost.contains("for good"), "{lost}");
    let wrong = world.run_as(OperatorRole::Admin, "volume purge db", Some("other"), None);
    assert!(wrong.question.is_some(), "{wrong:?}");
    let done = world.run_as(OperatorRole::Admin, "volume purge db", Some("db"), None);
    assert_eq!((done.exit_code, done.question), (0, None));
}

#[test]
fn a_token_is_a_secret_and_makes_none_that_lasts_longer() {
    let world = World::new();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time");
    let soon = (now + Duration::from_secs(3600)).as_secs();
    let line = "token create ci --role viewer";
    let refused = world.run_as(OperatorRole::Admin, line, None, Some(soon));
    assert_eq!(refused.exit_code, Kind::Usage.code(), "{refused:?}");
    assert!(refused.stderr.contains("longer than the token"), "{refused:?}");
    let shorter = "token create ci --role viewer --life 10m";
    let made = world.run_as(OperatorRole::Admin, shorter, None, Some(soon));
    assert_eq!((made.exit_code, made.is_secret), (0, true), "{made:?}");
    assert!(world.run(line).is_secret);
    assert!(!world.run("token list").is_secret);
}

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732";

#[test]
fn keys_are_what_was_sent_and_no_files_of_the_node() {
    let world = World::new();
    let key = DhchapSecret::generate(None, NQN, &mut amita_keys::system_random).to_text();
    let line = format!("host add {NQN} --dhchap-key /home/alice/key");
    let made = world.run_with(&line, &[("/home/alice/key", key.as_str())], true);
    assert_eq!((made.exit_code, made.is_secret), (0, true), "{made:?}");
    assert!(made.stdout.contains("has to prove: CHAP"), "{made:?}");
    // A file of the node is not read, whatever its name.
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own");
    std::fs::write(&own, &*key).expect("written");
    let line = format!("host key {NQN} --dhchap-key {}", own.display());
    for files in [&[][..], &[("elsewhere", key.as_str())]] {
        let refused = world.run_with(&line, files, true);
        assert_eq!(refused.exit_code, Kind::Unreadable.code(), "{refused:?}");
        assert!(refused.stderr.contains("was not sent"), "{refused:?}");
    }
    // What is wrong with a key is said, and not the key.
    let wrong = world.run_with(&line, &[(own.to_str().expect("text"), "DHHC-1:00:hush:")], true);
    assert_eq!(wrong.exit_code, Kind::Usage.code(), "{wrong:?}");
    assert!(!wrong.stderr.contains("hush"), "{wrong:?}");
    // What is made is told once, and kept by nobody: neither the log nor a list has any of them.
    let made = world.run_with(&format!("host key {NQN} --generate-dhchap"), &[], true);
    let secret = made.stdout.split_whitespace().find(|word| word.starts_with("DHHC-1:"));
    let secret = secret.unwrap_or_else(|| panic!("{made:?}"));
    assert!(made.is_secret && secret != key.as_str());
    for line in ["audit list --json", "host list --json"] {
        let told = world.done(line);
        assert!(told.contains(NQN) && !told.contains("DHHC-1:"), "{line}: {told}");
    }
}

#[test]
fn a_secret_is_neither_taken_nor_told_where_others_could_read_it() {
    let world = World::new();
    world.done(&format!("host add {NQN}"));
    for (line, files) in [
        (format!("host key {NQN} --generate-tls"), &[][..]),
        (format!("host key {NQN} --tls-key key"), &[("key", "hush")][..]),
        (
            "notify add webhook w --url https://a.example/x --secret-file s".to_owned(),
            &[("s", "hush")][..],
        ),
    ] {
        let refused = world.run_with(&line, files, false);
        assert_eq!(refused.exit_code, Kind::Usage.code(), "{line}: {refused:?}");
        assert!(
            refused.stderr.contains("by HTTPS only") && !refused.stderr.contains("hush"),
            "{refused:?}"
        );
    }
    // What has none is done.
    let changed = world.run_with(&format!("host key {NQN} --remove-tls"), &[], false);
    assert_eq!((changed.exit_code, changed.is_secret), (0, false), "{changed:?}");
}

#[test]
fn secrets_of_initiators_are_sealed_by_the_node_and_told_by_nobody() {
    let world = World::new();
    let name = "iqn.1993-08.org.debian:01:9c11913aa8b";
    let line = format!("initiator key {name} --chap-secret /home/alice/secret");
    let made = world.run_with(&line, &[("/home/alice/secret", "hush-hush-hush\n")], true);
    assert_eq!((made.exit_code, made.is_secret), (0, true), "{made:?}");
    assert!(made.stdout.contains("has to prove: CHAP"), "{made:?}");
    // What was not sent is not looked for here; what is wrong with a secret is said, and not the secret; and nothing is taken or made where
    // others could read it.
    for (line, files, is_private, kind) in [
        (line.clone(), &[][..], true, Kind::Unreadable),
        (line.clone(), &[("/home/alice/secret", "hush")], true, Kind::Usage),
        (line, &[("/home/alice/secret", "hush-hush-hush")], false, Kind::Usage),
        (format!("initiator key {name} --generate-chap"), &[], false, Kind::Usage),
    ] {
        let refused = world.run_with(&line, files, is_private);
        assert_eq!(refused.exit_code, kind.code(), "{line}: {refused:?}");
        assert!(!refused.stderr.contains("hush"), "{refused:?}");
    }
    let made = world.run_with(&format!("initiator key {name} --generate-chap-target"), &[], true);
    let secret = made.stdout.lines().find(|line| line.contains("chap-target-secret"));
    let secret = secret.and_then(|line| line.split_whitespace().last());
    let secret = secret.unwrap_or_else(|| panic!("{made:?}"));
    assert!(made.is_secret && secret.len() == 16, "{made:?}");
    for line in ["audit list --json", "initiator list --json"] {
        let told = world.done(line);
        assert!(
            told.contains(name) && !told.contains("hush") && !told.contains(secret),
            "{line}: {told}"
        );
    }
    // What has none is done.
    let changed = world.run_with(
        &format!("initiator key {name} --remove-chap --remove-chap-target"),
        &[],
        false,
    );
    assert_eq!((changed.exit_code, changed.is_secret), (0, false), "{changed:?}");
}

#[test]
fn a_channel_is_made_with_the_secret_that_was_sent() {
    let world = World::new();
    let line = "notify add webhook pager --url-file url --secret-file secret --json";
    let files = [("url", "https://hooks.example/T0/path\n"), ("secret", "hush\n")];
    let made = world.run_with(line, &files, true);
    assert_eq!((made.exit_code, made.is_secret), (0, true), "{made:?}");
    let shown: serde_json::Value = serde_json::from_str(&made.stdout).expect("JSON");
    assert_eq!(shown["has_secret"], serde_json::json!(true), "{shown}");
    for line in ["notify list --json", "audit list --json"] {
        let told = world.done(line);
        assert!(
            told.contains("pager") && !told.contains("hush") && !told.contains("T0/path"),
            "{told}"
        );
    }
    // A node without a sealing key makes none.
    let bare = Carrier {
        seal_key: None,
        volume_keys: None,
        ..world.carrier.clone()
    };
    let line = CommandLine {
        files: [("secret".to_owned(), "hush".to_owned())].into_iter().collect(),
        ..words("notify add webhook other --url https://hooks.example/x --secret-file secret")
    };
    let refused = bare.run(&line, behalf(OperatorRole::Admin));
    assert_ne!(refused.exit_code, 0, "{refused:?}");
    assert!(!refused.stderr.contains("hush"), "{refused:?}");
}

#[test]
fn where_the_metadata_is_away_another_node_may_do_better() {
    let client = Client::connect(&["127.0.0.1:1".to_owned()]).expect("a client");
    let world = Carrier::new(client);
    let outcome = world.run(&words("volume list"), behalf(OperatorRole::Viewer));
    assert_eq!(outcome.exit_code, Kind::Unreachable.code(), "{outcome:?}");
    assert!(outcome.away.is_some(), "{outcome:?}");
}

/// The environment of this process is the node's.
#[test]
fn nothing_is_taken_from_the_environment() {
    fn look(command: &clap::Command, found: &mut usize) {
        for argument in command.get_arguments() {
            assert_eq!(
                argument.get_env(),
                None,
                "{} of {}",
                argument.get_id(),
                command.get_name()
            );
            *found += 1;
        }
        command.get_subcommands().for_each(|sub| look(sub, found));
    }
    let mut found = 0;
    look(&commands(), &mut found);
    assert!(found > 200, "{found}");
}
