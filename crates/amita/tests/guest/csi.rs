//! The driver of CSI where a node is a real one: csi-sanity whole, and disks that come and go by NVMe/TCP, in a guest with a stock kernel. The controller
//! and the node run in the guest, by the binary that is tested; they reach the nodes of the cluster beside it as pods would.

mod iscsi;
mod lost;
mod migration;
mod secret;

use crate::cluster::{Gateways, binary};
use crate::host::PATIENCE;
use crate::steps::Steps;
use amita_harness::csi_sanity::{Case, Outcome, cases, program, that_are};
use amita_harness::guest::{Config, Guest, US};
use amita_harness::scratch::Scratch;
use amita_terminal::error::{Context as _, Failure, Result};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Starts both parts of the driver, waits for their sockets, and makes what `suite` needs. `BINARY`, `SANITY`, `APIS` and `IDENTITY` are put before it.
const LIBRARY: &str = r#"
fail() { tail -n 20 /tmp/csi/*.log >&2; dmesg | tail -n 8 >&2; echo "FAILED: $*" >&2; exit 1; }
drivers() {
    modprobe -qa nvme-tcp
    mkdir -p /tmp/csi
    [ -e /etc/machine-id ] || tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
    RUST_LOG=info "$BINARY" csi controller --endpoint unix:///tmp/csi/controller.sock --by-api "$APIS" --identity "$IDENTITY" >/tmp/csi/controller.log 2>&1 &
    RUST_LOG=info "$BINARY" csi node --endpoint unix:///tmp/csi/node.sock --node "$(cat /proc/sys/kernel/hostname)" >/tmp/csi/node.log 2>&1 &
    for wait in $(seq 300); do
        [ -S /tmp/csi/controller.sock ] && [ -S /tmp/csi/node.sock ] && return 0
        sleep 0.1
    done
    fail 'the driver does not serve'
}
by_port() { # The node's socket is port 9000 of this machine.
    python3 -S -E -c '
import socket, threading
def pump(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
port = socket.socket()
port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
port.bind(("", 9000))
port.listen()
while True:
    client, _ = port.accept()
    driver = socket.socket(socket.AF_UNIX)
    driver.connect("/tmp/csi/node.sock")
    for pair in ((client, driver), (driver, client)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
' >/tmp/csi/port.log 2>&1 &
    sleep 1
}
suite() { # REPORT [OPTION...]: what it said goes to a file, and is shown where it failed
    local report=$1
    shift
    printf 'pool: demo\nonDelete: now\nnvmeKeepAliveTmo: "30"\n' >/tmp/csi/class.yaml
    printf 'iops: "5000"\nbandwidth: "500000000"\n' >/tmp/csi/mutable.yaml
    "$SANITY" --csi.endpoint=unix:///tmp/csi/node.sock --csi.controllerendpoint=unix:///tmp/csi/controller.sock \
        --csi.mountdir=/tmp/csi/mount --csi.stagingdir=/tmp/csi/staging --csi.testvolumeparameters=/tmp/csi/class.yaml \
        --csi.testvolumemutableparameters=/tmp/csi/mutable.yaml --csi.testvolumesize=67108864 --csi.testvolumeexpandsize=134217728 \
        --ginkgo.junit-report="$report" --ginkgo.seed=1 --ginkgo.no-color "$@" >/tmp/csi/suite.log 2>&1 || { cat /tmp/csi/suite.log; fail 'the suite'; }
}
# Nothing of a volume is left at this machine.
clean() {
    ! grep -E ' /tmp/csi/(mount|staging)' /proc/self/mountinfo || fail 'something is mounted'
    # The node asks gateways now and then what there is, by a path that it ends when it was told.
    for wait in $(seq 100); do
        grep -qs . /sys/class/nvme/nvme*/subsysnqn || return 0
        sleep 0.1
    done
    fail "a path is left: $(grep -s . /sys/class/nvme/nvme*/subsysnqn)"
}
"#;

/// A guest with the driver in it.
struct Pod {
    guest: Guest,
    settings: String,
    /// Where the node's socket is reached from here, after `by_port`.
    port: u16,
    _scratch: Scratch,
}

impl Pod {
    fn boot(name: &str, gateways: &Gateways) -> Pod {
        Pod::boot_with(name, gateways, |_| ())
    }

    /// A guest of which `more` is wanted.
    fn boot_with(name: &str, gateways: &Gateways, more: impl FnOnce(&mut Config)) -> Pod {
        let scratch = Scratch::make("csi", None, None, 0).expect("a folder");
        let sanity = program().expect("the suite");
        let operator = gateways
            .cluster
            .operator()
            .expect("an identity")
            .expect("a cluster with identities");
        let program = Path::new(binary()).canonicalize().expect("a binary");
        let apis = gateways.cluster.apis().expect("nodes with an API").into_values();
        // What listens on this machine's 127.0.0.1 is at another address in the guest.
        let apis: Vec<String> = apis.map(|api| api.replace("127.0.0.1", &US.to_string())).collect();
        let mut config = Config::new(name, scratch.folder());
        config.memory_mib = 2048;
        let port = amita_harness::ports::free();
        config.forwards = vec![(port, 9000)];
        let folder = |path: &Path| path.parent().expect("a folder").to_owned();
        config.shares = vec![folder(&program), folder(&sanity), operator.clone()];
        more(&mut config);
        let settings = format!(
            "BINARY='{}'\nSANITY='{}'\nIDENTITY='{}'\nAPIS='{}'\n",
            program.display(),
            sanity.display(),
            operator.display(),
            apis.join(",")
        );
        let guest = Guest::boot(&config).expect("a guest");
        Pod {
            guest,
            settings,
            port,
            _scratch: scratch,
        }
    }

    fn sh(&self, script: &str) -> Result<String> {
        let text = format!("{}{LIBRARY}\n{script}\n", self.settings);
        let mut output = self.guest.run(&text, PATIENCE)?;
        output.name = format!("{}: {script}", self.guest.name());
        Ok(output.success()?.text)
    }

    /// Runs the suite, or what of it these options choose; its cases.
    fn suite(&self, options: &str) -> Result<Vec<Case>> {
        let report = self.sh(&format!(
            "suite /tmp/csi/report.xml {options} && clean && cat /tmp/csi/report.xml"
        ))?;
        let cases = cases(&report)?;
        match that_are(&cases, Outcome::Failed) {
            failed if failed.is_empty() => Ok(cases),
            failed => Err(Failure::new(format!("{failed:#?}"))),
        }
    }
}

fn told(cases: &[Case]) -> String {
    let mut slowest: Vec<&Case> = cases.iter().collect();
    slowest.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let slowest = slowest
        .iter()
        .take(3)
        .map(|case| format!("{:.1} s {}", case.seconds, case.name));
    format!(
        "{} cases passed, {} do not concern the driver\n{}",
        that_are(cases, Outcome::Passed).len(),
        that_are(cases, Outcome::Skipped).len(),
        slowest.collect::<Vec<_>>().join("\n")
    )
}

/// No case may be left out but those that the driver says it has nothing for.
fn only_known(cases: &[Case], known: &[&str]) -> Result<()> {
    let skipped = that_are(cases, Outcome::Skipped);
    let mut unknown = skipped
        .iter()
        .filter(|name| !known.iter().any(|known| name.contains(known)));
    match unknown.next() {
        None => Ok(()),
        Some(name) => Err(Failure::new(format!("{name} was left out"))),
    }
}

/// So many cases of version 5.6.0 are for what the driver offers.
const ALL: usize = 93;
/// As in `e2e/csi/sanity.rs`.
const NOT_OURS: [&str; 5] = [
    "pagination should detect volumes added between pages",
    "should fail when publishing more volumes than the node max attach limit",
    "should fail when the volume is already published but is incompatible",
    "should succeed when creating a snapshot with accessibility requirements",
    "Health",
];

#[test]
#[ignore = "a minute and a half, beside which nothing runs: scripts/soak runs it"]
fn the_suite_of_kubernetes() {
    let gateways = Gateways::start(64 * MIB).expect("a cluster");
    let pod = Pod::boot("worker-1", &gateways);
    let mut steps = Steps::of("csi-sanity", &[]);
    steps.step("the driver starts", || pod.sh("drivers; ls -l /tmp/csi"));
    steps.step("whole, with ext4", || {
        let cases = pod.suite("")?;
        only_known(&cases, &NOT_OURS)?;
        match that_are(&cases, Outcome::Passed).len() {
            ALL => Ok(told(&cases)),
            other => Err(Failure::new(format!(
                "{other} cases passed, and {ALL} are of this driver's concern"
            ))),
        }
    });
    steps.step("the node, with disks", || {
        pod.suite("--csi.testvolumeaccesstype=block --ginkgo.focus='Node Service'")
            .map(|cases| told(&cases))
    });
    steps.step("what was done on the way", || {
        let said = pod.sh("grep -c 'has nothing, and gets ext4' /tmp/csi/node.log; grep -c . /tmp/csi/node.log")?;
        let formatted: u32 = said
            .lines()
            .next()
            .unwrap_or_default()
            .parse()
            .context(|| format!("no number: {said}"))?;
        match formatted {
            0 => Err(Failure::new("no disk was ever formatted")),
            some => Ok(format!("{some} disks were formatted")),
        }
    });
    steps.finish();
    drop(pod);
    gateways.end();
}
