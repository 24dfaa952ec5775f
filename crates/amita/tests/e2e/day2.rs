//! `docs/operating/day2`, command by command: a cluster of real processes, the fault that a page is about, the page's blocks as a
//! person would paste them into shells, and what the page says of its end. Then every byte is what it was.

use crate::world::{PATIENCE, binary, scratch};
use amita_harness::cluster::{authority, identity};
use amita_harness::scratch::Scratch;
use amita_harness::{ports, tool};
use amita_identity::{Authority, Clock, Name, Role};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
const STORE_BYTES: u64 = 96 << 20;

/// A page: how many nodes there are at first, and what goes wrong, as lines of a shell.
struct Page {
    name: &'static str,
    nodes: usize,
    fault: &'static str,
    /// Besides that all data is there.
    check: &'static str,
}

impl Page {
    /// This page's cluster has etcd, and no identities.
    fn has_etcd(&self) -> bool {
        self.name == "lost-quorum"
    }
}

const PAGES: &[Page] = &[
    Page {
        name: "add-a-node",
        nodes: 3,
        fault: "",
        check: "",
    },
    Page {
        name: "remove-a-node",
        nodes: 4,
        fault: "",
        check: "amita node list | fails grep n4",
    },
    Page {
        name: "replace-a-disk",
        nodes: 3,
        fault: "kill -9 $n3; wait $n3 || true; rm n3.disk",
        check: "amita disk list | fails grep 'n3.disk$'",
    },
    Page {
        name: "lost-quorum",
        nodes: 3,
        // What the members that die have agreed on is known to the one that is left.
        fault: "sleep 2; kill -9 $m2 $m3; fails amita status",
        check: "",
    },
    Page {
        name: "full-pool",
        nodes: 3,
        fault: "for name in old big; do amita volume create $name --pool fast --size 128M; amita nbd export $name --any-client --shared; done
            head -c 32M /dev/urandom | nbdcopy --flush - nbd://$nbd1/old
            until amita volume delete old; do sleep 0.2; done
            head -c 128M /dev/urandom | fails nbdcopy --flush - nbd://$nbd1/big",
        check: "nbdcopy --flush some.img nbd://$nbd1/big",
    },
    Page {
        name: "wrong-clock",
        nodes: 3,
        fault: "kill $n3; tail --pid=$n3 -f /dev/null; mv n3.identity n3.first; mv n3.later n3.identity
            fails env $(cat n3.env) amita serve",
        check: "",
    },
    Page {
        name: "expired-certificate",
        nodes: 3,
        fault: "until_it_says 'n3 is missed' 'Node n3 does not hold its lease' amita status",
        // The node looks at its own every five seconds: where the new one came first, only the others have said it.
        check: "grep -iE 'has ended|certificate expired' n3.log",
    },
    Page {
        name: "lost-node",
        nodes: 4,
        fault: "kill -9 $n4; wait $n4 || true; rm n4.disk",
        check: "amita node list | fails grep n4",
    },
    Page {
        name: "restore-metadata",
        nodes: 3,
        // Stores have their copies of the records within seconds.
        fault: "sleep 3; kill -9 $meta; rm metadata.redb",
        check: "amita volume list | grep disk0",
    },
    Page {
        name: "power-cut",
        nodes: 3,
        fault: "kill -9 $n1 $meta $n2 $n3; wait $n1 $meta $n2 $n3 || true",
        check: "",
    },
];

/// What a comment `# until ...` of a page waits for, as a pattern of `grep -E` (of the whole output as one line).
const UNTIL: &[(&str, &str)] = &[
    ("n4 serves its store", "n4 +yes "),
    (
        "groups are in sync on n4",
        "n4 +yes +[0-9.]+ [KMGT]iB +[1-9][0-9]* +[1-9]",
    ),
    (
        "nothing is to move",
        r"health  ok.* fast +([0-9]+) +\1 +0 +0 +0 +0 +0 +0 ",
    ),
    ("n4's store is drained", "n4 +(yes|NO) +draining, 0 to go"),
    ("n4 does not live", "n4 +[0-9]+ +NO "),
    ("n4 is missed", "Node n4 does not hold its lease"),
    ("n3 lives", "n3 +[0-9]+ +yes "),
    ("n3 serves the new store", r"n3 +yes .*n3\.disk\.new"),
    ("the old store is drained", "n3 +NO +draining, 0 to go"),
    ("it is said that writes fail", "error: .*[Ww]rites"),
    ("there is room", "(n[123] +yes +[^%]* [1-6]?[0-9] %.*){3}"),
    ("m1 is healthy", "is healthy"),
    ("m2 is added", "added to cluster"),
    ("m3 is added", "added to cluster"),
    ("both are healthy", "is healthy.* is healthy"),
    ("all three are healthy", "is healthy.* is healthy.* is healthy"),
    ("the nodes live", "nodes +3 of 3 alive"),
    ("the health is ok", "health  ok"),
];

/// What a page's commands stand in. The shell is the parent of all processes, so that they end with it.
const BEFORE: &str = r#"set -eu
until_it_says() { { set +x; } 2>/dev/null; for n in $(seq 450); do last=$("${@:3}" 2>&1) || true; if echo "$last" | tr '\n' ' ' | grep -qE "$2"; then echo "$last"; echo "so it is: $1"; set -x; return; fi; sleep 0.2; done; echo "$last"; return 1; }
fails() { if "$@"; then echo "it did not fail: $*"; return 1; fi; }
store() { amita disk list | awk -v path="$1" '$NF == path { print $1 }'; }
start() { env $(cat n$1.env) amita serve >>n$1.log 2>&1 & eval "n$1=$!"; }
set -x
"#;
const CLUSTER: &str = "for i in $(seq NODES); do amita disk format --size SIZE $PWD/n$i.disk; start $i; done
until_it_says 'all serve' 'stores +NODES of NODES serve' amita status
amita pool create fast
amita volume create disk0 --pool fast --size 16M
amita nbd export disk0 --any-client --shared
head -c 16M /dev/urandom > some.img
nbdcopy --flush some.img nbd://$nbd1/disk0
";
// The status believes a lease until it ends: a node that it counts may not serve yet.
const AFTER: &str = "until nbdcopy nbd://$nbd1/disk0 copy.img; do sleep 0.2; done
cmp -n 16777216 some.img copy.img
jobs -pr | xargs -r kill; wait; echo 'the page is done'
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(name: &str) -> String {
    let path = root().join("docs/operating/day2").join(format!("{name}.md"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of all blocks marked as shell, in order; other blocks must be marked as text.
fn commands(page: &str) -> Vec<&str> {
    let (mut found, mut block) = (Vec::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(kind), None) => {
                assert!(["sh", "text"].contains(&kind), "a block of {kind:?}");
                block = Some(kind);
            }
            (Some(_), Some(_)) => block = None,
            (None, Some("sh")) => found.push(line),
            (None, _) => {}
        }
    }
    found
}

/// Where a page's cluster is on this machine.
struct Place {
    folder: PathBuf,
    authority: u16,
    metadata: u16,
    /// Of the members of etcd: for clients, for one another.
    clients: [u16; 3],
    peers: [u16; 3],
    nbd: [u16; 4],
}

impl Place {
    fn new(folder: &Path) -> Place {
        let free = |_| ports::free();
        Place {
            folder: folder.to_owned(),
            authority: ports::free(),
            metadata: ports::free(),
            clients: [(); 3].map(free),
            peers: [(); 3].map(free),
            nbd: [(); 4].map(free),
        }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("written");
    }

    /// What ends with the shell that starts it, also when this test is killed.
    fn wrap(&self, name: &str, program: &str) {
        let path = format!("bin/{name}");
        self.write(
            &path,
            &format!("#!/bin/sh\nexec setpriv --pdeathsig KILL -- '{program}' \"$@\"\n"),
        );
        std::fs::set_permissions(self.folder.join(path), PermissionsExt::from_mode(0o755)).expect("executable");
    }

    /// The settings of the nodes, as the pages have them.
    fn settings(&self, endpoints: &str, secure: bool) {
        for (node, nbd) in (1..).zip(self.nbd) {
            let mut text = format!("AMITA_NAME=n{node}\nAMITA_METADATA={endpoints}\n");
            let disk = self.file(&format!("n{node}.disk"));
            let _ = writeln!(
                text,
                "AMITA_STORES={disk}\nAMITA_FABRIC=127.0.0.1:{}",
                ports::free_row(4)
            );
            let _ = writeln!(text, "AMITA_NBD=127.0.0.1:{nbd}");
            if secure {
                let folder = self.file(&format!("n{node}.identity"));
                let _ = writeln!(text, "AMITA_IDENTITY={folder}");
            }
            self.write(&format!("n{node}.env"), &text);
        }
    }

    /// Members of etcd, and the lines that start them.
    fn etcd(&self) -> String {
        let program = tool::find("etcd").expect("etcd is installed");
        self.wrap("etcd", &program.display().to_string());
        let member = |number: usize| format!("m{}=http://127.0.0.1:{}", number + 1, self.peers[number]);
        let all = [0, 1, 2].map(member).join(",");
        let mut lines = String::new();
        for (number, (client, peer)) in (1..).zip(self.clients.iter().zip(self.peers)) {
            let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let mut text = format!(
                "ETCD_NAME=m{number}\nETCD_DATA_DIR={}\n",
                self.file(&format!("m{number}"))
            );
            let _ = writeln!(
                text,
                "ETCD_LISTEN_CLIENT_URLS={client}\nETCD_ADVERTISE_CLIENT_URLS={client}"
            );
            let _ = writeln!(
                text,
                "ETCD_LISTEN_PEER_URLS={peer}\nETCD_INITIAL_ADVERTISE_PEER_URLS={peer}"
            );
            self.write(&format!("m{number}.env"), &text);
            let _ = writeln!(
                lines,
                "env $(cat m{number}.env) ETCD_INITIAL_CLUSTER={all} etcd >>m{number}.log 2>&1 & m{number}=$!"
            );
        }
        let endpoints = self.clients.map(|port| format!("http://127.0.0.1:{port}")).join(",");
        self.settings(&endpoints, false);
        lines + &format!("export AMITA_METADATA={endpoints}\n")
    }

    /// The authority, everybody's identities, the embedded metadata, and the lines that start them.
    fn secure(&self, page: &Page) -> String {
        let own = authority(&self.folder).expect("an authority");
        let mut roles = vec![(Role::Node, "metadata"), (Role::Operator, "operator")];
        roles.extend(
            ["n1", "n2", "n3", "n4"]
                .iter()
                .take(page.nodes)
                .map(|name| (Role::Node, *name)),
        );
        // One whose certificate ends while the page's cluster runs; one that was made by a clock that was ahead.
        match page.name {
            "expired-certificate" => {
                let short = own.with_leaf_life(Duration::from_secs(60)).expect("a life");
                self.third(&short, "n3.identity");
            }
            "wrong-clock" => {
                let later = Clock::system().now().after(2 * DAY);
                let ahead = Authority::open(&self.folder.join("ca"), Clock::standing(later)).expect("the authority");
                self.third(&ahead.with_leaf_life(DAY).expect("a life"), "n3.later");
            }
            _ => {}
        }
        let own = authority(&self.folder).expect("an authority");
        for (role, name) in roles {
            identity(&own, &self.folder, role, name).expect("an identity");
        }
        self.write(
            "meta.env",
            &format!(
                "AMITA_META_LISTEN=127.0.0.1:{}\nAMITA_META_DATA={}\nAMITA_IDENTITY={}\n",
                self.metadata,
                self.file("metadata.redb"),
                self.file("metadata.identity")
            ),
        );
        let endpoint = format!("https://127.0.0.1:{}", self.metadata);
        self.settings(&endpoint, true);
        format!(
            "amita ca serve --ca {} --listen 127.0.0.1:{} >>ca.log 2>&1 &\nenv $(cat meta.env) amita meta >>meta.log 2>&1 & meta=$!
export AMITA_METADATA={endpoint} AMITA_IDENTITY={}\n",
            self.file("ca"),
            self.authority,
            self.file("operator.identity")
        )
    }

    fn third(&self, authority: &Authority, folder: &str) {
        let name = Name::new(authority.cluster(), Role::Node, "n3").expect("a name");
        let folder = self.folder.join(folder);
        authority.make_identity(&folder, &name).expect("an identity");
    }

    /// A command of a page as it is given here: what stands for a host's own things is that host's.
    fn here(&self, command: &str, host: &str, page: &Page) -> String {
        let file = |name: &str| self.file(name);
        let mut replacements = vec![
            ("/etc/amita/meta.env", file("meta.env")),
            ("/var/lib/amita/ca", file("ca")),
            ("10.0.0.9:7600", format!("127.0.0.1:{}", self.authority)),
            ("$(pidof amita)", format!("${host}")),
            ("$(pidof etcd)", format!("${host}")),
            ("/etc/amita/node.env", file(&format!("{host}.env"))),
            ("/etc/amita/identity", file(&format!("{host}.identity"))),
            ("/dev/nvme0n1", file(&format!("{host}.disk"))),
            ("/dev/nvme1n1", file(&format!("{host}.disk.new"))),
            ("/etc/default/etcd", file(&format!("{host}.env"))),
            ("/var/lib/etcd/default", file(host)),
            ("amita disk format", format!("amita disk format --size {STORE_BYTES}")),
            ("71aa", format!("$(store {})", file("n3.disk.new"))),
        ];
        let old = if page.name == "replace-a-disk" { "n3" } else { "n4" };
        replacements.push(("5d0e", format!("$(store {})", file(&format!("{old}.disk")))));
        let mut command = command.to_owned();
        for (there, here) in replacements {
            command = command.replace(there, &here);
        }
        for (number, (client, peer)) in (1..).zip(self.clients.iter().zip(self.peers)) {
            command = command.replace(&format!("10.0.0.1{number}:2379"), &format!("127.0.0.1:{client}"));
            command = command.replace(&format!("10.0.0.1{number}:2380"), &format!("127.0.0.1:{peer}"));
        }
        command
    }

    /// A line of a page: a command, and what its remark says of where or until when.
    fn line(&self, line: &str, page: &Page) -> String {
        let (command, remark) = line.split_once("# ").unwrap_or((line, ""));
        let (command, host) = (command.trim_end(), remark.strip_prefix("on ").unwrap_or_default());
        let command = self.here(command, host, page);
        let Some(what) = remark.strip_prefix("until ") else {
            return command;
        };
        let known = UNTIL.iter().find(|(known, _)| *known == what);
        let (_, pattern) = known.unwrap_or_else(|| panic!("the test does not know how to wait until {what:?}"));
        format!("until_it_says \"{what}\" '{pattern}' {command}")
    }

    /// The whole of it, ending at the first command that fails.
    fn script(&self, page: &Page) -> String {
        let services = if page.has_etcd() {
            self.etcd()
        } else {
            self.secure(page)
        };
        let cluster = CLUSTER.replace("NODES", &page.nodes.to_string());
        let cluster = cluster.replace("SIZE", &STORE_BYTES.to_string());
        let text = text(page.name);
        let steps: Vec<String> = commands(&text).iter().map(|line| self.line(line, page)).collect();
        let steps = steps.join("\n");
        for foreign in ["10.0.0.", "/etc/", "/var/lib", "/dev/nvme", "$(pidof"] {
            assert!(!steps.contains(foreign), "{foreign} is not of this machine:\n{steps}");
        }
        assert!(steps.lines().count() > 2, "{} has no steps", page.name);
        let nbd = format!("PATH='{}':$PATH\nnbd1=127.0.0.1:{}\n", self.file("bin"), self.nbd[0]);
        let begun = "echo 'the page begins'";
        let parts = [
            &nbd, BEFORE, &services, &cluster, page.fault, begun, &steps, page.check, AFTER,
        ];
        parts.map(str::trim_end).join("\n")
    }
}

/// What a test shows when it fails: the last lines of each log.
fn logs(folder: &Path) -> String {
    let mut shown = String::new();
    for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(12)..].join("\n");
            let _ = writeln!(shown, "{}:\n{last}", entry.path().display());
        }
    }
    shown
}

fn run(name: &str) {
    let page = PAGES.iter().find(|page| page.name == name).expect("a page");
    let scratch: Scratch = scratch(6 * STORE_BYTES);
    let folder = scratch.stores();
    std::fs::create_dir(folder.join("bin")).expect("a folder");
    let place = Place::new(folder);
    place.wrap("amita", binary());
    let script = place.script(page);
    place.write("page.sh", &script);
    let run = tool::run(folder, "bash", ["page.sh"], 6 * PATIENCE).expect("the shell runs");
    // What a command said, not what the shell shows of the command.
    let is_done = run.text.lines().any(|line| line == "the page is done");
    assert!(
        run.status.success() && is_done,
        "{}:\n{}\n{script}\n{}",
        run.status,
        run.text,
        logs(folder)
    );
    let waits = commands(&text(name))
        .iter()
        .filter(|line| line.contains("# until "))
        .count();
    let (_, since) = run.text.split_once("\nthe page begins\n").expect("it has begun");
    let met = since.lines().filter(|line| line.starts_with("so it is: ")).count();
    assert_eq!(met, waits, "not all signs of {name} were seen:\n{}", run.text);
    assert!(!run.text.contains("panicked"), "{}", run.text);
}

#[test]
fn a_node_is_added() {
    run("add-a-node");
}

#[test]
fn a_node_is_removed() {
    run("remove-a-node");
}

#[test]
fn a_dead_disk_is_replaced() {
    run("replace-a-disk");
}

#[test]
fn a_lost_quorum_comes_back() {
    run("lost-quorum");
}

#[test]
fn a_full_pool_has_room_again() {
    run("full-pool");
}

#[test]
fn a_node_behind_a_wrong_clock_is_let_in_again() {
    run("wrong-clock");
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn an_expired_certificate_is_replaced() {
    run("expired-certificate");
}

#[test]
fn a_lost_node_is_given_up() {
    run("lost-node");
}

#[test]
fn lost_metadata_is_restored() {
    run("restore-metadata");
}

#[test]
fn everything_comes_back_after_a_power_cut() {
    run("power-cut");
}

#[test]
fn every_page_is_run_by_a_test_and_in_the_index() {
    let folder = root().join("docs/operating/day2");
    let index = text("README");
    let mut pages = 0;
    for entry in std::fs::read_dir(folder).expect("the pages").flatten() {
        let name = entry.file_name().to_string_lossy().replace(".md", "");
        if name == "README" {
            continue;
        }
        pages += 1;
        assert!(PAGES.iter().any(|page| page.name == name), "no test runs {name}");
        let call = format!("    run(\"{name}\");\n");
        assert!(include_str!("day2.rs").contains(&call), "no test runs {name}");
        assert!(index.contains(&format!("({name}.md)")), "{name} is not in the index");
        let page = text(&name);
        for part in ["**When**", "**What hosts notice**", "## Steps", "## Done", "## Not so"] {
            assert!(page.contains(part), "{name} has no {part:?}");
        }
    }
    assert_eq!(pages, PAGES.len());
}
