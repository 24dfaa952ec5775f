//! Whoever reads this machine's files: what is secret is its owner's alone, and nothing that crashes leaves it behind.

use crate::bystander::Bystander;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, World, binary, eventually, stamped};
use amita_harness::cluster::METADATA_FILE;
use amita_harness::nbd::Client;
use amita_harness::tool;
use rustix::process::Signal;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("its rights");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

/// A command that reads a secret, and the path whose rights are loosened for it.
struct Case {
    loose: PathBuf,
    /// Its rights as they should be, and what they become.
    modes: (u32, u32),
    command: Vec<String>,
    /// It serves when nothing is wrong, instead of ending.
    serves: bool,
}

impl Case {
    fn new(loose: impl Into<PathBuf>, command: &[&str]) -> Case {
        Case {
            loose: loose.into(),
            modes: (0o600, 0o644),
            command: command.iter().map(|&part| part.to_owned()).collect(),
            serves: false,
        }
    }

    fn of_folder(self) -> Case {
        Case {
            modes: (0o700, 0o755),
            ..self
        }
    }

    fn that_serves(self) -> Case {
        Case { serves: true, ..self }
    }

    /// It is refused, with the command that mends it; and that command mends it.
    fn play(&self, world: &World) {
        let (right, loose) = self.modes;
        permit(&self.loose, loose);
        let shown = format!("{:?}", self.command);
        let refused = tool::run(world.folder(), binary(), &self.command, PATIENCE).expect("it ends");
        assert!(!refused.status.success(), "{shown} takes {}", self.loose.display());
        assert!(!refused.text.contains("panicked"), "{}", refused.text);
        let mends = format!("chmod {right:o} {}", self.loose.display());
        assert!(
            refused.text.contains(&mends),
            "{mends:?} is not in what {shown} says:\n{}",
            refused.text
        );
        let done = tool::run(world.folder(), "sh", ["-c", &mends], PATIENCE).expect("it runs");
        done.success().expect("the command that was said");
        if self.serves {
            let process = tool::start(world.folder(), binary(), &self.command).expect("it starts");
            eventually("it serves", || {
                let said = std::fs::read_to_string(process.log()).unwrap_or_default();
                said.contains(" serves") || said.contains("listens on")
            });
        } else {
            let taken = tool::run(world.folder(), binary(), &self.command, PATIENCE).expect("it ends");
            taken
                .success()
                .unwrap_or_else(|why| panic!("{shown} after {mends}: {why}"));
        }
    }
}

/// S11: each file that holds a secret or data, once readable by others.
#[test]
fn loose_files_are_refused_with_the_command_that_mends_them() {
    let mut world = World::with_volume();
    let mut bystander = Bystander::start(&world, 0);
    let endpoint = world.cluster.endpoint().to_owned();
    let (ca, operator) = (world.file("ca"), PathBuf::from(world.operator()));
    let seal = world.file("seal.key");
    world.amita_done(&["host", "seal-key", text(&seal)]);
    let port = || format!("127.0.0.1:{}", amita_harness::ports::free());
    let status = ["status", "--metadata", &endpoint, "--identity", text(&operator)];
    let list = ["cert", "list", "--ca", text(&ca)];
    let spare = PathBuf::from(
        world
            .identity(amita_identity::Role::Gateway, "spare")
            .expect("an identity"),
    );
    let fabric = port();
    let serve = [
        "serve",
        "--metadata",
        &endpoint,
        "--identity",
        text(&spare),
        "--fabric",
        &fabric,
    ];
    let nvme = port();
    let sealed = [&serve[..], &["--nvme", &nvme, "--seal-key", text(&seal)]].concat();
    let sockets = world.file("clients");
    std::fs::create_dir(&sockets).expect("a folder");
    let socket = sockets.join("nbd");
    let local = [&serve[..], &["--nbd-socket", text(&socket)]].concat();

    let mut cases = vec![
        Case::new(operator.join("key.pem"), &status),
        Case::new(&operator, &status).of_folder(),
        Case::new(&ca, &list).of_folder(),
        Case::new(spare.join("key.pem"), &serve).that_serves(),
        Case::new(&sockets, &local).of_folder().that_serves(),
    ];
    let keys = std::fs::read_dir(&ca)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path());
    let keys: Vec<PathBuf> = keys
        .filter(|path| {
            let mode = std::fs::metadata(path).expect("there").permissions().mode();
            path.is_file()
                && mode & 0o077 == 0
                && std::fs::read_to_string(path).is_ok_and(|text| text.contains("PRIVATE KEY"))
        })
        .collect();
    assert!(!keys.is_empty(), "the authority has a key");
    cases.extend(keys.iter().map(|key| Case::new(key, &list)));
    for case in &cases {
        case.play(&world);
        bystander.goes_on();
    }
    // The sealing key is of whoever may read it: said in its own words.
    permit(&seal, 0o644);
    let refused = tool::run(world.folder(), binary(), &sealed, PATIENCE).expect("it ends");
    assert!(
        !refused.status.success() && refused.text.contains("chmod 600"),
        "{}",
        refused.text
    );
    permit(&seal, 0o600);
    bystander.unharmed(&world, 1);

    // A store, and the metadata itself, at their next start.
    assert!(world.cluster.stop_node(2), "it ends in order");
    let store = world.cluster.nodes()[2].stores[0].clone();
    let (fabric, nbd) = (
        world.cluster.nodes()[2].fabric.to_string(),
        world.cluster.nodes()[2].nbd.to_string(),
    );
    let identity = world.file("n3.identity");
    let again = [
        "serve",
        "--metadata",
        &endpoint,
        "--identity",
        text(&identity),
        "--fabric",
        &fabric,
        "--nbd",
        &nbd,
        "--store",
        text(&store),
    ];
    Case::new(&store, &again).that_serves().play(&world);
    world.cluster.start_node(2).expect("it starts");
    world.cluster.await_node(2).expect("it serves");
    world.cluster.kill_metadata();
    let data = world.scratch.stores().join(METADATA_FILE);
    let listen = port();
    let metadata = world.file("metadata.identity");
    let meta = [
        "meta",
        "--listen",
        &listen,
        "--data",
        text(&data),
        "--identity",
        text(&metadata),
    ];
    Case::new(&data, &meta).that_serves().play(&world);
    world.cluster.start_metadata().expect("it comes back");
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("the cluster goes on");
    client.close();
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, &["metadata", "lease", "watch"]].concat());
}

/// Files that a crash has left in a folder.
fn dumps(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path());
    let is_core = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("core"))
    };
    entries.filter(is_core).collect()
}

/// Starts a command in a folder of its own, with all that the system allows for core dumps, and has it abort. The folder, and the
/// limits that the process had.
fn abort(world: &World, name: &str, command: &str) -> (PathBuf, String) {
    let own = world.file("crash").join(name);
    std::fs::create_dir_all(&own).expect("a folder");
    let command = format!(
        "cd '{}' && ulimit -c unlimited && exec '{}' {command}",
        own.display(),
        binary()
    );
    let mut process = tool::start(world.folder(), "bash", ["-c", &command]).expect("it starts");
    eventually("it serves", || {
        let said = std::fs::read_to_string(process.log()).unwrap_or_default();
        said.contains(" serves") || said.contains("listens on")
    });
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.pid())).expect("its limits");
    process.signal(Signal::ABORT).expect("signalled");
    let status = process.wait(PATIENCE).expect("it ends");
    assert!(!status.success(), "{status}");
    (own, limits)
}

/// S18: with all that the system allows for core dumps, a node, the metadata and the authority that abort leave none. Beside
/// them one that was told to leave one, so that it is seen that this machine would have written them.
#[test]
fn a_process_that_aborts_leaves_no_core_dump_and_no_key() {
    let world = World::with_volume();
    let mut bystander = Bystander::start(&world, 0);
    let endpoint = world.cluster.endpoint();
    let port = || format!("127.0.0.1:{}", amita_harness::ports::free());
    let node = |name: &str| {
        let identity = world
            .identity(amita_identity::Role::Gateway, name)
            .expect("an identity");
        format!(
            "serve --metadata {endpoint} --identity '{identity}' --fabric {}",
            port()
        )
    };
    let metadata = format!(
        "meta --listen {} --data metadata.redb --identity '{}'",
        port(),
        text(&world.file("metadata.identity"))
    );
    let authority = format!("ca serve --ca '{}' --listen {}", text(&world.file("ca")), port());
    for (name, command) in [
        ("node", node("silent")),
        ("metadata", metadata),
        ("authority", authority),
    ] {
        let (own, limits) = abort(&world, name, &command);
        assert_eq!(dumps(&own), Vec::<PathBuf>::new(), "a core dump of the {name} was left");
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"))
            .expect("a limit");
        assert_eq!(line.split_whitespace().nth(4), Some("0"), "{name}: {line}");
        bystander.goes_on();
    }

    let (own, _) = abort(&world, "telling", &format!("{} --core-dumps", node("telling")));
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim().starts_with("core") {
        assert_eq!(dumps(&own).len(), 1, "this machine writes core dumps as {pattern:?}");
    } else {
        eprintln!("core dumps go to {pattern:?} here: what a process would leave is not seen");
    }
    bystander.unharmed(&world, 1);
    world.end(&["lease", "is gone"]);
}

/// The log, which everybody may be sent, has no key, no token and no data.
#[test]
fn logs_hold_no_secret() {
    let world = World::with_sockets(&[]);
    let path = world.socket(1);
    let mut client = Client::open_socket(&path, VOLUME, PATIENCE).expect("it opens");
    let data = b"what nobody may read in a log: 5f3a9c";
    let block = [&data[..], &[7; 4096]].concat();
    client.write(0, &block[..4096]).expect("written");
    client.close();
    let mut keys = Vec::new();
    for name in ["n1", "n2", "n3", "metadata", "operator"] {
        let key = std::fs::read_to_string(world.file(&format!("{name}.identity")).join("key.pem")).expect("a key");
        keys.push(key.lines().nth(1).expect("a line").to_owned());
    }
    for node in 0..3 {
        let log = std::fs::read_to_string(world.cluster.node_log(node)).expect("a log");
        assert!(!log.is_empty() && keys.iter().all(|key| !log.contains(key)), "{log}");
        assert!(!log.contains("5f3a9c"), "{log}");
    }
    world.end(&[]);
}
