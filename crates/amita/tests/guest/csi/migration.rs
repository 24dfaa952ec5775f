//! A virtual machine moves from one node to another while it writes to its disk, as KubeVirt has it: a raw volume of several nodes is published to both, QEMU runs at
//! the first one with the disk that the driver shows there, and hands its guest over to a QEMU at the second. Nodes are guests here, and the virtual machine is a
//! guest of theirs: a program that writes and verifies, and no more (`tests/guest/vm`).

use super::lost::{At, STAGING, Volume, ask, bring, controller, delete, end, id_of, make, take_off, unstage};
use super::{MIB, Pod};
use crate::cluster::Gateways;
use crate::steps::Steps;
use crate::target::Target;
use amita_csi::wire::common::{
    VolumeCapability, VolumeCapabilityAccessMode, VolumeCapabilityAccessModeMode as Mode,
    VolumeCapabilityAccessTypeOneOf as AccessType, VolumeCapabilityBlockVolume,
};
use amita_csi::wire::node::*;
use amita_harness::guest;
use amita_harness::ports;
use amita_harness::qmp::Monitor;
use amita_harness::scratch::Scratch;
use amita_harness::tool;
use amita_terminal::error::{Context as _, Failure, Result};
use amita_terminal::interrupt;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What scripts may use beside the driver's.
const VM: &str = concat!(
    include_str!("../../../../../tests/guest/common.sh"),
    include_str!("../../../../../tests/guest/nvme.sh"),
    include_str!("../../../../../tests/guest/vm/vm.sh")
);
/// Where the pod of the virtual machine has its disk.
const DISK: &str = "/tmp/csi/publish/pvc-1/pod";
/// What of the disk the virtual machine uses.
const USED_MIB: u64 = 8;
/// How long something of the virtual machine may take: it is emulated twice.
const PATIENCE: Duration = Duration::from_secs(300);
/// The same, as a shell has it.
const WAIT: u64 = PATIENCE.as_secs();
/// The ports of a node: the monitor of its QEMU, and where that takes a virtual machine.
const MONITOR: u16 = 4445;
const INCOMING: u16 = 4446;

struct Node {
    pod: Pod,
    driver: At,
    monitor: u16,
    incoming: u16,
    _scratch: Scratch,
}

impl Node {
    fn boot(name: &str, gateways: &Gateways) -> Node {
        let (monitor, incoming) = (ports::free(), ports::free());
        let scratch = Scratch::make("vm", None, None, 0).expect("a folder");
        let writer = scratch.folder().join("writer");
        let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/guest/vm/build");
        let made = tool::run(scratch.folder(), build, [&writer.display().to_string()], PATIENCE);
        made.and_then(|output| output.success()).expect("a program");
        let files = guest::files().expect("what guests are made from");
        let pod = Pod::boot_with(name, gateways, |config| {
            config.forwards.extend([(monitor, MONITOR), (incoming, INCOMING)]);
            config.shares.extend([files.clone(), scratch.folder().to_owned()]);
        });
        let node = Node {
            driver: At::Port(pod.port),
            pod,
            monitor,
            incoming,
            _scratch: scratch,
        };
        let prepare = format!("vm_prepare '{}' '{}'", files.display(), writer.display());
        node.sh(&prepare).expect("an emulator in the guest");
        node
    }

    fn sh(&self, script: &str) -> Result<String> {
        self.pod.sh(&format!("{VM}\n{script}"))
    }

    /// The monitor of the QEMU that runs here, as soon as it answers.
    fn monitor(&self) -> Result<Monitor> {
        let found = interrupt::poll(PATIENCE, Duration::from_millis(200), || {
            let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.monitor)) else {
                return Ok(None);
            };
            let context = || "the monitor's stream".to_owned();
            stream.set_read_timeout(Some(PATIENCE)).context(context)?;
            // Where QEMU does not listen yet, the emulated network ends the connection.
            Ok(Monitor::over(stream.try_clone().context(context)?, stream).ok())
        })?;
        found.ok_or_else(|| Failure::new(format!("no QEMU at {}", self.pod.guest.name())))
    }

    /// By how many milliseconds the clock here is ahead of this machine's, and how far off that may be.
    fn clock(&self) -> Result<(i64, i64)> {
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_millis() as i64)
        };
        let mut best = (0, i64::MAX);
        for _ in 0..5 {
            let before = now();
            let there = self.pod.guest.run("echo $EPOCHREALTIME", Duration::from_secs(60))?;
            let after = now();
            let there: f64 = there.success()?.text.trim().parse().context(|| "a time".to_owned())?;
            let error = (after - before) / 2;
            if error < best.1 {
                best = ((there * 1000.0) as i64 - (before + error), error);
            }
        }
        Ok(best)
    }

    /// When I/O was seen to have ended here, by this machine's clock.
    fn times(&self) -> Result<(Vec<i64>, i64)> {
        let (ahead, error) = self.clock()?;
        let text = self.sh("cat $vm/watch.log >&2; tail -n +2 $vm/times")?;
        let times: std::result::Result<Vec<i64>, _> = text.lines().map(str::parse).collect();
        let times = times.context(|| format!("these are no times: {text}"))?;
        Ok((times.into_iter().map(|time| time - ahead).collect(), error))
    }
}

fn block() -> Option<VolumeCapability> {
    Some(VolumeCapability {
        access_mode: Some(VolumeCapabilityAccessMode {
            mode: Mode::MultiNodeMultiWriter as i32,
        }),
        access_type: Some(AccessType::Block(VolumeCapabilityBlockVolume {})),
    })
}

/// Has the volume published to a node, staged there, and shown to a pod; its qualified name.
fn show(gateways: &Gateways, controller: &At, node: &Node, host: &str, volume: &Volume) -> Result<String> {
    let told = bring(gateways, controller, &node.driver, host, volume)?;
    // Whoever has it reserved would keep the other one from it.
    for word in ["exclusive", "preempt"] {
        if told.contains_key(word) {
            return Err(Failure::new(format!("one of several nodes was told {word}: {told:?}")));
        }
    }
    let publish = NodePublishVolumeRequest {
        volume_id: volume.id.clone(),
        publish_context: told.clone(),
        staging_target_path: STAGING.to_owned(),
        target_path: DISK.to_owned(),
        volume_capability: block(),
        volume_context: volume.context.clone(),
        ..Default::default()
    };
    let _: NodePublishVolumeResponse = ask(gateways, &node.driver, "csi.v1.Node/NodePublishVolume", &publish)?;
    Ok(told["nqn"].clone())
}

/// Takes the volume from a node whose pod has ended.
fn take_away(gateways: &Gateways, controller: &At, node: &Node, host: &str, volume: &Volume) -> Result<()> {
    let hide = NodeUnpublishVolumeRequest {
        volume_id: volume.id.clone(),
        target_path: DISK.to_owned(),
    };
    let _: NodeUnpublishVolumeResponse = ask(gateways, &node.driver, "csi.v1.Node/NodeUnpublishVolume", &hide)?;
    unstage(gateways, &node.driver, volume)?;
    take_off(gateways, controller, host, volume)?;
    node.sh("clean").map(drop)
}

/// Waits until a migration has come to its end, which must be a good one; what QEMU tells of it.
fn migrated(source: &mut Monitor) -> Result<Value> {
    let mut last = Value::Null;
    let done = interrupt::poll(PATIENCE, Duration::from_millis(500), || {
        last = source.ask("query-migrate", json!({}))?;
        match last["status"].as_str() {
            Some("completed") => Ok(Some(())),
            Some("failed" | "cancelled") => Err(Failure::new(format!("QEMU does not migrate it: {last}"))),
            _ => Ok(None),
        }
    })?;
    match done {
        Some(()) => Ok(last),
        None => Err(Failure::new(format!("it does not come to an end: {last}"))),
    }
}

/// The longest time without an end of I/O.
fn longest(times: &[i64]) -> i64 {
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.max().unwrap_or_default()
}

#[test]
#[ignore = "two guests, with a guest each: for a soak"]
fn a_virtual_machine_moves_to_another_node_while_it_writes() {
    let gateways = Gateways::start(64 * MIB).expect("a cluster");
    let (controller, process) = controller(&gateways);
    let (alpha, beta) = (Node::boot("worker-1", &gateways), Node::boot("worker-2", &gateways));
    let portals = gateways.portals().len();
    let mut steps = Steps::of("a virtual machine that moves", &[]);
    for node in [&alpha, &beta] {
        steps.step("a node starts", || node.sh("drivers; by_port; uname -r"));
    }
    let (one, two) = (id_of(&gateways, &alpha.driver), id_of(&gateways, &beta.driver));
    let volume = make(
        &gateways,
        &controller,
        ("pvc-1", None),
        block(),
        &[("nvmeKeepAliveTmo", "30")],
    );
    let mut nqn = String::new();
    steps.step("both nodes have it, by all paths, and nobody has it reserved", || {
        nqn = show(&gateways, &controller, &alpha, &one, &volume)?;
        let other = show(&gateways, &controller, &beta, &two, &volume)?;
        if nqn != other {
            return Err(Failure::new(format!("they are told of two subsystems: {nqn}, {other}")));
        }
        let mut seen = Vec::new();
        for node in [&alpha, &beta] {
            seen.push(node.sh(&format!(
                "[ -b {DISK} ] || fail 'no disk'
                 await_paths {nqn} {portals}
                 one_best() {{ [ \"$(ana {nqn} | grep -c ' optimized')\" -eq 1 ]; }}
                 await 60 'one path is the best' one_best
                 ana {nqn}
                 nvme resv-report $(device {nqn}) --eds --output-format=json | tr -d ' \\n\\t' | tee /tmp/csi/report
                 grep -q '\"rtype\":0' /tmp/csi/report && grep -q '\"regctl\":0' /tmp/csi/report || fail 'it is reserved'
                 vm_watch"
            ))?);
        }
        Ok(seen.concat())
    });
    let mut source = None;
    steps.step("a virtual machine writes at the first", || {
        alpha.sh(&format!("vm_start {DISK}"))?;
        source = Some(alpha.monitor()?);
        alpha.sh(&format!("vm_said '^round' 3 {WAIT}; cat $vm/said"))
    });
    let mut source = source.expect("a QEMU");
    steps.step("it moves to the second", || {
        beta.sh(&format!("vm_start {DISK} -incoming defer"))?;
        let mut target = beta.monitor()?;
        target.ask("migrate-incoming", json!({"uri": format!("tcp:0.0.0.0:{INCOMING}")}))?;
        let to = format!("tcp:{}:{}", guest::US, beta.incoming);
        source.ask("migrate", json!({"uri": to}))?;
        let told = migrated(&mut source)?;
        let (here, there) = (
            source.ask("query-status", json!({}))?,
            target.ask("query-status", json!({}))?,
        );
        if here["status"] != "postmigrate" || there["status"] != "running" {
            return Err(Failure::new(format!("it runs at {there}, and is {here} where it was")));
        }
        Ok(format!(
            "{} ms in all, {} ms without a processor, {} MiB of memory were sent in {} passes",
            told["total-time"],
            told["downtime"],
            told["ram"]["transferred"].as_u64().unwrap_or_default() >> 20,
            told["ram"]["dirty-sync-count"]
        ))
    });
    steps.step("its first QEMU ends, and the first node lets go of the disk", || {
        source.ask("quit", json!({}))?;
        let said = alpha.sh("await 60 'the end of QEMU' vm_ended
             cat $vm/log; [ \"$(cat $vm/status)\" = 0 ] || fail \"it has ended with $(cat $vm/status)\"
             tail -n 1 $vm/said; touch $vm/watched; sleep 1")?;
        let times = alpha.times()?;
        take_away(&gateways, &controller, &alpha, &one, &volume)?;
        // No gateway lets it in any more.
        let refused = alpha.sh(&format!(
            "! connect {} {} {nqn} --hostid {one} --hostnqn nqn.2014-08.org.nvmexpress:uuid:{one} 2>&1 || fail 'it is let in still'",
            gateways.portals()[0].ip(),
            gateways.portals()[0].port()
        ))?;
        pauses(times, &beta).map(|text| format!("{said}{text}\n{refused}"))
    });
    steps.step("it goes on at the second, and every block is right", || {
        let said = beta.sh(&format!(
            "vm_said '^round' 3 {WAIT}
             echo x >$vm/stop.in
             vm_said '^sum' 1 {WAIT}
             await {WAIT} 'the end of QEMU' vm_ended
             touch $vm/watched
             cat $vm/log $vm/said
             [ \"$(cat $vm/status)\" = 33 ] || fail \"it has ended with $(cat $vm/status)\"
             there=$(dd if={DISK} bs=1M count={USED_MIB} iflag=direct status=none | cksum)
             [ \"sum $there\" = \"$(grep '^sum' $vm/said) $(({USED_MIB} << 20))\" ] || fail \"the disk is another one: $there\"
             no_errors"
        ))?;
        Ok(said)
    });
    steps.step("it is let go of", || {
        take_away(&gateways, &controller, &beta, &two, &volume)?;
        alpha.sh("clean")?;
        delete(&gateways, &controller, &volume)
    });
    steps.finish();
    end(gateways, process, (alpha, beta));
}

/// What was seen of I/O from outside, before the switch, across it and behind it.
fn pauses((first, error): (Vec<i64>, i64), beta: &Node) -> Result<String> {
    let (second, other_error) = beta.times()?;
    let last = *first
        .last()
        .ok_or_else(|| Failure::new("no I/O was seen at the first node"))?;
    // Before it has the machine, its QEMU may have read the disk's first block.
    let second: Vec<i64> = second.into_iter().filter(|time| *time > last).collect();
    let next = *second
        .first()
        .ok_or_else(|| Failure::new("no I/O was seen at the second node"))?;
    Ok(format!(
        "no I/O for {} ms (to {} ms) from the last one at the first node to the next one at the second; otherwise for {} ms at most at the first, where the machine's start is among it, and {} ms at the second until now",
        next - last,
        error + other_error,
        longest(&first),
        longest(&second)
    ))
}
