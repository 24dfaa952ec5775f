"""The chart of the cluster itself (deploy/helm/amita), its pods as processes; scripts/test-chart-nodes starts it."""

import argparse
import ctypes
import faulthandler
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import check_nodes_chart
import check_nodes_plane
from pods import DISK_BYTES, Pod, Volumes, documents
from processes import Processes, run
from report import Failed, Report, until

CHART = Path(__file__).parents[2] / "deploy/helm/amita"
RELEASE, NAMESPACE = "amita", "amita"
NODES, COPIES = 3, 3
PR_SET_PDEATHSIG = 1
PATIENCE = 120
REGION = "48M"


def render(helm, values, folder):
    yaml = run([helm, "template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", "1.37.0", "--values", values])
    return documents(helm, yaml, folder)


class Load:
    """fio, by NBD at a gateway beside Kubernetes: random writes, then each block is read and checked, again and again. It keeps the longest I/O."""

    def __init__(self, uri, folder):
        self.uri, self.folder = uri, folder
        self.ends, self.passes, self.longest_ms, self.why = threading.Event(), 0, 0.0, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.passes or not self.ends.is_set():
            said = subprocess.run(
                ["fio", "--name=through", "--ioengine=nbd", f"--uri={self.uri}", "--rw=randwrite", "--bs=4k", "--iodepth=16", f"--size={REGION}",
                 "--rate_iops=2500", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", f"--randseed={self.passes + 1}", "--output-format=json"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            if said.returncode:
                self.why = f"fio, pass {self.passes + 1}: exit code {said.returncode}\n{said.stdout[-2000:]}{said.stderr[-2000:]}"
                return
            job = json.loads(said.stdout[said.stdout.index("{"):])["jobs"][0]
            if job["error"]:
                self.why = f"fio, pass {self.passes + 1}: error {job['error']}"
                return
            self.longest_ms = max(self.longest_ms, *(job[way]["lat_ns"]["max"] / 1e6 for way in ("read", "write")))
            self.passes += 1

    def must_go_on(self):
        if self.why:
            raise Failed(self.why)

    def end(self):
        self.ends.set()
        self.thread.join(PATIENCE)
        self.must_go_on()


class Cluster:
    def __init__(self, given, processes, report):
        self.given, self.processes, self.report = given, processes, report
        self.found = render(given.helm, CHART / "ci/least.yaml", given.work)
        self.volumes = Volumes(given.work / "volumes", given.binary)
        sets = {thing["metadata"]["name"]: thing for thing in self.found if thing["kind"] == "StatefulSet"}
        scripts = next(thing for thing in self.found if thing["kind"] == "ConfigMap")
        self.volumes.files(scripts["metadata"]["name"], scripts["data"], 0o555)
        self.secrets = set()
        # Addresses of pods: those of loopback that no other run has, most likely. A pod that starts anew has another one.
        self.network, self.last = f"127.{random.randint(64, 126)}.{random.randint(1, 254)}", 0
        pod = lambda name, number: Pod(self.volumes, sets[f"{RELEASE}-{name}"], number, self.secrets, processes.logs)
        self.authority, self.metadata = pod("authority", 0), pod("metadata", 0)
        self.nodes = [pod("node", number) for number in range(sets[f"{RELEASE}-node"]["spec"]["replicas"])]
        self.load, self.plane, self.kubelet = None, None, None
        self.chart, self.documents = CHART, documents
        self.found_min_ready = sets[f"{RELEASE}-node"]["spec"]["minReadySeconds"]

    def address(self):
        self.last += 1
        return f"{self.network}.{self.last}"

    def pods(self):
        return [*self.nodes, self.metadata, self.authority]

    def ready(self, pod):
        return until(f"{pod.name} is ready", PATIENCE, lambda: pod.probe("readinessProbe") is None, 0.5)[1]

    def amita(self, *words):
        """As the admin, in the authority's pod."""
        return self.authority.execute("amita", *words, AMITA_IDENTITY="/state/authority/admin", AMITA_METADATA="https://amita-metadata:2379")

    def record(self, name):
        return next(node for node in json.loads(self.amita("node", "list", "--json")) if node["name"] == name)

    def token(self, name, *more):
        return self.authority.execute("amita", "node", "token", name, "--ca", "/state/authority/ca", *more).splitlines()[0] + "\n"


def begins(cluster, report):
    authority, metadata = cluster.authority, cluster.metadata
    authority.begin(cluster.address())
    cluster.volumes.name("amita-authority", authority.address)
    cluster.ready(authority)
    report.ok("the authority is made, and served")
    # Pods wait for their tokens: nobody has to be first.
    starts = []
    for pod in [metadata, *cluster.nodes]:
        pod.address = cluster.address()
        thread = threading.Thread(target=lambda pod=pod: guarded(starts, pod, lambda: pod.begin(pod.address)), daemon=True)
        thread.start()
        starts.append(thread)
    cluster.volumes.name("amita-metadata", metadata.address)
    time.sleep(2)
    report.check(all(thread.is_alive() for thread in starts), "pods wait for tokens")
    cluster.secrets.add("amita-join")
    cluster.volumes.files("amita-join", {name: cluster.token(name) for name in ["metadata", *(pod.name for pod in cluster.nodes)]}, 0o440)
    # kubelet has files of Secrets read by the group that the pod has.
    for file in (cluster.volumes.folder / "amita-join").iterdir():
        os.chown(file, 0, metadata.security["fsGroup"])
    for thread in list(starts):
        if isinstance(thread, threading.Thread):
            thread.join(PATIENCE)
    failed = [why for why in starts if not isinstance(why, threading.Thread)]
    report.check(not failed, "every pod has joined, and disks were made stores of", "; ".join(failed) or f"{len(starts)}")
    cluster.ready(metadata)
    for pod in cluster.nodes:
        cluster.ready(pod)
        found = pod.probe("startupProbe"), pod.probe("livenessProbe")
        report.equal(found, (None, None), f"{pod.name} is ready, started and lives")
    shutil.rmtree(cluster.volumes.folder / "amita-join")
    cluster.secrets.clear()
    report.ok("the Secret with tokens is deleted: nobody needs it any more")
    own = cluster.nodes[0]
    status = Path(f"/proc/{own.inner(own.child)}/status").read_text()
    rights = {line.split()[0]: line.split()[1:] for line in status.splitlines() if line.startswith(("Uid:", "CapEff:", "CapBnd:", "NoNewPrivs:"))}
    report.equal((rights["Uid:"][0], int(rights["CapEff:"][0], 16), int(rights["CapBnd:"][0], 16), rights["NoNewPrivs:"]), ("65532", 0, 0, ["1"]),
                 "a node is nobody, without a capability")


def guarded(told, pod, do):
    try:
        do()
    except Exception as why:  # noqa: BLE001 - whoever waits tells it
        told.append(f"{pod.name}: {why}")


def is_used(cluster, report):
    cluster.amita("pool", "create", "main", "--copies", str(COPIES), "--min-copies", "2")
    cluster.amita("volume", "create", "disk", "--pool", "main", "--size", "64M")
    cluster.amita("nbd", "export", "disk", "--any-client")
    folder, ports = cluster.given.work, cluster.processes.ports
    token = folder / "gateway.token"
    token.touch(0o600)
    token.write_text(cluster.token("gateway", "--gateway"))
    run([cluster.given.binary, "node", "join", "gateway", "--gateway", "--ca-server", f"{cluster.authority.address}:7600", "--token-file", token,
         "--identity", folder / "gateway"])
    nbd = ports.free()
    cluster.processes.start("gateway", [
        cluster.given.binary, "serve", "--identity", folder / "gateway", "--metadata", f"https://{cluster.metadata.address}:2379",
        "--fabric", f"127.0.0.1:{ports.free()}", "--nbd", f"127.0.0.1:{nbd}", "--history", "off"])
    until("the gateway serves", PATIENCE, lambda: "serves" in (cluster.processes.logs / "gateway.log").read_text(errors="replace"))
    for pod in cluster.nodes:
        cluster.ready(pod)
    cluster.load = Load(f"nbd://127.0.0.1:{nbd}/disk", folder)
    until("fio has gone through once", PATIENCE, lambda: cluster.load.passes or cluster.load.why)
    cluster.load.must_go_on()
    report.ok("fio writes, and checks every block")


def update(cluster, report):
    """As the StatefulSet's controller: from the last one to the first, and each waits for the one before to be ready."""
    for pod in reversed(cluster.nodes):
        before, since = pod.address, len(pod.log.read_bytes())
        hook, end = pod.end()
        report.check(cluster.record(pod.name).get("maintenance"), f"{pod.name} left in maintenance", f"preStop {hook:.1f} s, its end {end:.1f} s")
        # What is written meanwhile it lacks.
        time.sleep(3)
        pod.begin(cluster.address())
        why = []
        _, took = until(f"{pod.name} is ready", PATIENCE, lambda pod=pod, why=why: (said := pod.probe("readinessProbe")) is None or why.append(said), 0.2)
        report.check(any("in sync" in one for one in why), f"{pod.name} was not ready while it lacked blocks", why[-1].splitlines()[-1] if why else "")
        report.check(not cluster.record(pod.name).get("maintenance"), f"{pod.name} is ready", f"after {took:.1f} s; {before} became {pod.address}")
        report.check(b"amita: node" in pod.log.read_bytes()[since:], f"{pod.name} serves")
        cluster.load.must_go_on()


def metadata_and_authority(cluster, report):
    for pod in (cluster.metadata, cluster.authority):
        pod.end()
        # Its Service stays where it is, and so does its address here.
        pod.begin(pod.address)
        cluster.ready(pod)
        report.ok(f"{pod.name} is updated")
    for pod in cluster.nodes:
        cluster.ready(pod)
    cluster.load.must_go_on()


def two_at_once(cluster, report):
    """Two machines are to be emptied, and nobody has heard of the budget: one node goes, the other one waits for it."""
    one, other = cluster.nodes[:2]
    gone, told = [], []

    def leaves(pod):
        pod.end()
        gone.append(pod)

    threads = [threading.Thread(target=lambda pod=pod: guarded(told, pod, lambda: leaves(pod)), daemon=True) for pod in (one, other)]
    for thread in threads:
        thread.start()
    until("one has gone", PATIENCE, lambda: gone or told)
    time.sleep(8)
    report.equal((len(gone), told), (1, []), "one goes, and the other one stays")
    cluster.load.must_go_on()
    first = gone[0]
    first.begin(cluster.address())
    cluster.ready(first)
    until("the other one has gone", PATIENCE, lambda: len(gone) == 2 or told)
    report.equal(told, [], "the other one goes when the first one is in sync again")
    gone[1].begin(cluster.address())
    cluster.ready(gone[1])
    cluster.load.must_go_on()


def a_container_that_is_started_anew(cluster, report):
    """Its liveness probe has failed, for example: the hook is run, and the pod stays, with its /tmp."""
    pod = cluster.nodes[0]
    pod.end()
    report.check(cluster.record(pod.name).get("maintenance"), f"{pod.name} left in maintenance")
    pod.start_anew()
    cluster.ready(pod)
    report.check(not cluster.record(pod.name).get("maintenance"), "a container that is started anew in its pod ends what its last stop has begun")
    cluster.load.must_go_on()


def an_operators_maintenance(cluster, report):
    pod = cluster.nodes[2]
    cluster.amita("node", "maintenance", "on", pod.name)
    pod.end()
    pod.begin(cluster.address())
    cluster.ready(pod)
    report.check(cluster.record(pod.name).get("maintenance"), "what an operator has begun is not ended by a restart")
    cluster.amita("node", "maintenance", "off", pod.name)


def a_disk_that_is_somebodys(cluster, report):
    pod = cluster.nodes[2]
    pod.end()
    disk = cluster.volumes.folder / f"disk-0-{pod.name}"
    kept = disk.rename(disk.with_suffix(".kept"))
    # A RAID's mark lies at the end (mdadm's version 1.0), a file system's at the front.
    for what, at, mark in (("a RAID", DISK_BYTES - 8192, bytes.fromhex("fc4e2ba901000000")), ("a file system", 0, b"XFSB\0\0\x10\0")):
        with disk.open("wb") as file:
            file.truncate(DISK_BYTES)
            file.seek(at)
            file.write(mark + bytes(248))
        if what == "a RAID":
            raid_checksum(disk, at)
        before = disk.read_bytes()
        try:
            pod.begin(cluster.address())
            pod.kill()
            raise Failed(f"a pod began over {what}")
        except RuntimeError as why:
            report.check("was not touched" in str(why), f"a pod does not begin over {what}", str(why).splitlines()[-1][:150])
        report.check(disk.read_bytes() == before, "and nothing of it was changed")
    disk.unlink()
    kept.rename(disk)
    pod.begin(cluster.address())
    cluster.ready(pod)
    report.ok("with its own disk it begins")
    cluster.load.must_go_on()


def raid_checksum(disk, at):
    """A superblock of md that is whole: its own place in it (8 KiB before the end), and its sum."""
    with disk.open("r+b") as file:
        block = bytearray(256)
        block[0:8] = bytes.fromhex("fc4e2ba901000000")
        block[16:32] = bytes(range(16))
        block[144:152] = (at // 512).to_bytes(8, "little")
        total = sum(int.from_bytes(block[i:i + 4], "little") for i in range(0, 256, 4))
        block[216:220] = ((total & 0xffffffff) + (total >> 32) & 0xffffffff).to_bytes(4, "little")
        file.seek(at)
        file.write(block)


def certificates(cluster, report):
    """cert-manager's driver, whose part openssl plays: the pod takes what is in its volume, and each later one."""
    given = cluster.given
    sets = [thing for thing in render(given.helm, CHART / "ci/cert-manager.yaml", given.work) if thing["kind"] == "StatefulSet"]
    thing = next(thing for thing in sets if thing["metadata"]["name"] == f"{RELEASE}-node")
    # Its claims are others than those of the cluster that runs.
    thing["metadata"]["name"] = "certified"
    pod = Pod(cluster.volumes, thing, 0, set(), cluster.processes.logs)
    pod.address = cluster.address()
    volume = next(volume for volume in pod.spec["volumes"] if "csi" in volume)
    asked = {key.removeprefix("csi.cert-manager.io/"): value for key, value in volume["csi"]["volumeAttributes"].items()}
    uri = asked["uri-sans"].replace("${POD_NAME}", pod.name)
    folder = cluster.volumes.folder / f"{pod.name}-{volume['name']}"
    folder.mkdir()
    make_certificate(given.work / "issuer", folder, uri, asked)
    inits = {container["name"]: container for container in pod.spec["initContainers"]}
    code, said, why = pod.run(inits["identity"])
    report.check(code == 0, "the identity is taken", f"{said}{why}".strip())
    shown = pod.execute("amita", "cert", "show", "--json")
    report.check('"ok": true' in shown and uri in shown, "and is one that amita takes", uri)
    follows = pod._start(inits["identity-renewal"])
    try:
        # It has what there is by then.
        time.sleep(3)
        make_certificate(given.work / "issuer", folder, uri, asked)
        kept = cluster.volumes.folder / f"state-{pod.name}/identity"
        whole = lambda: all((kept / file).read_bytes() == (folder / file).read_bytes() for file in ("cert.pem", "key.pem", "ca.pem"))
        until("the next one is taken", PATIENCE, whole, 1)
        report.check('"ok": true' in pod.execute("amita", "cert", "show", "--json"), "it is taken by the container beside the node")
    finally:
        os.kill(pod.inner(follows), signal.SIGTERM)
        report.equal(follows.wait(10), 0, "who follows it ends when told")


def make_certificate(issuer, folder, uri, asked):
    if not issuer.exists():
        issuer.mkdir()
        run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", issuer / "key.pem",
             "-out", issuer / "ca.pem", "-subj", "/CN=issuer", "-days", "2"])
    usages = {"server auth": "serverAuth", "client auth": "clientAuth"}
    extended = ",".join(usages[usage] for usage in asked["key-usages"].split(",") if usage in usages)
    (issuer / "ext").write_text(f"basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage={extended}\nsubjectAltName=critical,URI:{uri}\n")
    assert asked["key-encoding"] == "PKCS8"
    run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", folder / asked["privatekey-file"]])
    run(["openssl", "req", "-new", "-key", folder / asked["privatekey-file"], "-subj", "/", "-out", issuer / "csr"])
    run(["openssl", "x509", "-req", "-in", issuer / "csr", "-CA", issuer / "ca.pem", "-CAkey", issuer / "key.pem", "-CAcreateserial", "-days", "1",
         "-extfile", issuer / "ext", "-out", folder / asked["certificate-file"]])
    shutil.copy(issuer / "ca.pem", folder / asked["ca-file"])
    for file in folder.iterdir():
        os.chown(file, 0, int(asked["fs-group"]))
        file.chmod(0o640)


def ends(cluster, report):
    cluster.load.end()
    report.ok("no I/O has failed, no block was wrong", f"{cluster.load.passes} passes of fio; the longest I/O took {cluster.load.longest_ms:.0f} ms")


CHAPTERS = [
    ("the chart", lambda cluster, report: check_nodes_chart.play(cluster.given, CHART, report, documents)),
    ("a cluster begins", begins), ("it is used", is_used), ("a rolling update of the nodes", update),
    ("an update of metadata and authority", metadata_and_authority), ("two nodes leave at once", two_at_once),
    ("a container is started anew", a_container_that_is_started_anew),
    ("an operator's maintenance", an_operators_maintenance), ("a disk that is somebody's", a_disk_that_is_somebodys),
    ("certificates of cert-manager", certificates), ("fio's end", ends),
]
AT_A_CONTROL_PLANE = [
    ("what admission says", check_nodes_plane.admission), ("StatefulSets begin", check_nodes_plane.begins), ("it is used", is_used),
    ("the controller's rolling update", check_nodes_plane.update), ("a machine is emptied", check_nodes_plane.emptied),
    ("one more disk of each node", check_nodes_plane.one_more_disk), ("fio's end", ends),
]


def interrupted(number, _frame):
    sys.exit(f"ended by {signal.Signals(number).name}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/test-chart-nodes", description=__doc__)
    parser.add_argument("--logs", metavar="DIR", type=Path, help="where the logs of all pods go to at the end")
    parser.add_argument("--kubernetes", action="store_true", help="the StatefulSets at a real control plane, whose controllers update them")
    for hidden in ("--tools", "--helm", "--validator", "--binary", "--work"):
        parser.add_argument(hidden, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    faulthandler.enable()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.chmod(given.work, 0o711)
    processes, report = Processes(given.work / "logs"), Report()
    cluster = Cluster(given, processes, report)
    try:
        for name, play in AT_A_CONTROL_PLANE if given.kubernetes else CHAPTERS:
            report.begin(name)
            begun = time.monotonic()
            try:
                play(cluster, report)
            except Exception as why:  # noqa: BLE001 - it is told, and ends the run
                if not isinstance(why, Failed):
                    traceback.print_exc(file=sys.stdout)
                report.fail(f"{type(why).__name__}: {why}")
                break
            finally:
                report.seconds[name] = time.monotonic() - begun
    finally:
        if cluster.kubelet:
            cluster.kubelet.end()
        for pod in cluster.pods():
            pod.kill()
        processes.end()
        if given.logs:
            shutil.copytree(processes.logs, given.logs, dirs_exist_ok=True)
    if report.failures:
        for log in sorted(processes.logs.iterdir()):
            print(f"-- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:]))
    report.end()
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
