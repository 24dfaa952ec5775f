//! `amita demo --keep` and `--stop` as scripts rely on them, and that nothing stays behind.

use crate::world::{PATIENCE, binary, eventually, unexpected_in};
use amita_harness::process::Process;
use amita_harness::tool;
use rustix::process::Signal;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

fn amita(folder: &Path, arguments: &[&str]) -> Process {
    tool::start(folder, binary(), arguments).expect("the command starts")
}

fn finish(mut process: Process) -> String {
    let status = process.wait(PATIENCE).expect("it ends");
    let said = std::fs::read_to_string(process.log()).expect("a log");
    assert!(status.success(), "{status}:\n{said}");
    said
}

fn is_running(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')')
        .is_some_and(|end| !stat[end + 1..].trim_start().starts_with('Z'))
}

#[test]
fn keep_writes_the_facts_and_stop_ends_everything() {
    let parent = tempfile::tempdir().expect("a folder");
    let (folder, stores) = (parent.path().join("cluster"), parent.path().join("stores"));
    let (shown, stores_shown) = (folder.display().to_string(), stores.display().to_string());
    let arguments = [
        "demo",
        "--keep",
        "--dir",
        &shown,
        "--nodes",
        "4",
        "--size",
        "64M",
        "--store-dir",
        &stores_shown,
    ];
    let said = finish(amita(parent.path(), &arguments));
    assert!(said.contains("--stop"), "it says how to end it:\n{said}");
    let text = std::fs::read_to_string(folder.join("cluster.json")).expect("cluster.json");
    let facts: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let nodes = facts["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 4, "{text}");
    assert_eq!(facts["volume"]["size_bytes"], 64 << 20, "{text}");
    let mut pids: Vec<u64> = nodes.iter().filter_map(|node| node["pid"].as_u64()).collect();
    pids.extend(facts["metadata"]["pid"].as_u64());
    assert_eq!(pids.len(), 5, "{text}");
    assert!(pids.iter().all(|&pid| is_running(pid)), "{text}");
    for disk in nodes.iter().flat_map(|node| node["disks"].as_array().expect("disks")) {
        let disk = Path::new(disk.as_str().expect("a path"));
        assert!(
            disk.is_file() && disk.starts_with(stores.canonicalize().expect("there")),
            "{text}"
        );
    }
    // Commands work on it with the variables that it names, and not without.
    let env = facts["env"].as_object().expect("variables");
    let asked = |env: Vec<(&str, &str)>| {
        let mut command = Command::new(binary());
        command
            .args(["status", "--json"])
            .env_remove("AMITA_IDENTITY")
            .envs(env);
        command.output().expect("it runs")
    };
    let all = env
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    let told = asked(all.collect());
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let endpoint = facts["metadata"]["endpoint"].as_str().expect("an endpoint");
    let stranger = asked(vec![("AMITA_METADATA", endpoint)]);
    assert_eq!(
        stranger.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&stranger.stderr)
    );
    let nqn = facts["volume"]["nqn"].as_str().expect("a subsystem");
    assert!(nqn.starts_with("nqn.") && nqn.ends_with(":demo"), "{text}");
    for node in nodes {
        let portal: SocketAddr = node["nvme"].as_str().expect("a portal").parse().expect("an address");
        TcpStream::connect(portal).expect("somebody listens there");
    }
    let uris = facts["volume"]["nbd"].as_array().expect("URIs");
    assert_eq!(uris.len(), 4, "{text}");
    let local = facts["volume"]["nbd_unix"].as_array().expect("URIs of sockets");
    assert_eq!(local.len(), 4, "{text}");
    for uri in uris.iter().chain(local) {
        let info = tool::run(
            parent.path(),
            "nbdinfo",
            ["--size", uri.as_str().expect("a URI")],
            PATIENCE,
        );
        assert_eq!(
            info.expect("nbdinfo runs").success().expect("it opens").text.trim(),
            (64 << 20).to_string()
        );
    }
    // A second one there is refused, and harms nothing.
    let mut second = amita(parent.path(), &arguments);
    assert_eq!(second.wait(PATIENCE).expect("it ends").code(), Some(5));
    assert!(pids.iter().all(|&pid| is_running(pid)), "the first cluster was harmed");
    let logs: Vec<String> = (1..=4)
        .flat_map(|node| unexpected_in(&folder.join(format!("n{node}.log")), &[]))
        .collect();
    assert!(logs.is_empty(), "{}", logs.join("\n"));

    finish(amita(parent.path(), &["demo", "--stop", "--dir", &shown]));
    assert!(pids.iter().all(|&pid| !is_running(pid)), "a process is left");
    assert!(!folder.exists() && !stores.exists(), "files are left");
}

#[test]
fn the_demo_tells_its_story_and_leaves_nothing() {
    let parent = tempfile::tempdir().expect("a folder");
    let (folder, stores) = (parent.path().join("cluster"), parent.path().join("stores"));
    let (shown, stores_shown) = (folder.display().to_string(), stores.display().to_string());
    let said = finish(amita(
        parent.path(),
        &["demo", "--dir", &shown, "--size", "64M", "--store-dir", &stores_shown],
    ));
    for part in [
        "random write",
        "random read",
        "pause of writes at the kill",
        "read back and is right",
    ] {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    assert!(!folder.exists() && !stores.exists(), "files are left");
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let parent = tempfile::tempdir().expect("a folder");
    let (folder, stores) = (parent.path().join("cluster"), parent.path().join("stores"));
    let (shown, stores_shown) = (folder.display().to_string(), stores.display().to_string());
    let mut demo = amita(
        parent.path(),
        &["demo", "--dir", &shown, "--size", "64M", "--store-dir", &stores_shown],
    );
    // The next step measures under load, for many seconds.
    eventually("data was copied", || {
        assert!(
            demo.ended().expect("asked").is_none(),
            "it ended by itself:\n{}",
            demo.last_words()
        );
        let said = std::fs::read_to_string(demo.log()).expect("its log");
        said.contains("with nbdcopy")
    });
    let started = children_below(parent.path());
    demo.signal(Signal::INT).expect("signalled");
    assert_eq!(
        demo.wait(PATIENCE).expect("it ends").code(),
        Some(130),
        "{}",
        demo.last_words()
    );
    assert!(started.iter().all(|&pid| !is_running(pid)), "a process is left");
    assert!(!folder.exists() && !stores.exists(), "files are left");
}

/// Processes whose command line names a folder.
fn children_below(folder: &Path) -> Vec<u64> {
    let wanted = folder.display().to_string();
    std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse::<u64>().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&wanted) && (line.contains("\0serve\0") || line.contains("\0meta\0"))
        })
        .collect()
}
