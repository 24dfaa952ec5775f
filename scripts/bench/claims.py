"""One run of scripts/bench-csi: AMITA CLUSTER FOLDER CLAIMS WORKERS; the cluster is one that `amita demo` has started there."""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

AMITA, CLUSTER, PLACE = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
CLAIMS, WORKERS = int(sys.argv[4]), int(sys.argv[5])
MACHINES = 10
MIB = 1 << 20
# Sidecars wait for a second before they ask again, and longer each time: here calls are to be in each other's way.
AGAIN_SECONDS = 0.2
PATIENCE_SECONDS = 300
# Statuses of gRPC after which a sidecar asks again.
DEADLINE_EXCEEDED, ABORTED, UNAVAILABLE = "4", "10", "14"
PR_SET_PDEATHSIG = 1


# Protocol buffers: what calls have, and the two kinds of fields that answers have.

def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """Numbers and values, of varints and of bytes."""
    found, at = {}, 0

    def read():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        key = read()
        value = read()
        if key & 7 == 2:
            value, at = message[at:at + value], at + value
        found[key >> 3] = value
    return found


# A raw block device, read and written by one machine.
DISK = field(1, b"") + field(3, field(1, 1))
PARAMETERS = {"pool": "demo", "onDelete": "now"}


def creation(claim):
    parameters = b"".join(field(4, field(1, key) + field(2, value)) for key, value in PARAMETERS.items())
    return field(1, f"pvc-burst-{claim}") + field(2, field(1, 64 * MIB)) + field(3, DISK) + parameters


def machine(claim):
    return f"0f8fad5b-d9cb-469f-a165-{claim % MACHINES:012x}"


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Controller:
    def __init__(self):
        self.facts = json.loads((CLUSTER / "cluster.json").read_text())
        self.socket = PLACE / "csi.sock"
        self.process = None
        self.start()

    def start(self):
        self.socket.unlink(missing_ok=True)
        words = [AMITA, "csi", "controller", "--endpoint", f"unix://{self.socket}", "--by-api", urllib.parse.urlsplit(self.facts["api"]).netloc,
                 "--identity", self.facts["env"]["AMITA_IDENTITY"]]
        with open(PLACE / "csi.log", "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
        until = time.monotonic() + 30
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit("the controller does not serve: " + (PLACE / "csi.log").read_text()[-2000:])
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def call(self, place, method, message):
        """The status of gRPC (none: the connection ended), the answer or why, and how long it took."""
        sent, head, said = (PLACE / f"{place}-{name}" for name in ("sent", "head", "said"))
        sent.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
        for old in (head, said):
            old.unlink(missing_ok=True)
        words = ["curl", "--silent", "--show-error", "--max-time", "60", "--http2-prior-knowledge", "--unix-socket", self.socket, "--header",
                 "Content-Type: application/grpc", "--header", "TE: trailers", "--data-binary", f"@{sent}", "--dump-header", head, "--output", said,
                 "--write-out", "%{time_total}", f"http://csi/csi.v1.Controller/{method}"]
        ran = subprocess.run(words, capture_output=True, text=True)
        lines = head.read_text().splitlines() if head.exists() else []
        heads = dict(line.split(": ", 1) for line in lines if ": " in line)
        status = heads.get("grpc-status")
        if status == "0":
            return status, said.read_bytes()[5:], float(ran.stdout)
        return status, urllib.parse.unquote(heads.get("grpc-message", ran.stderr)), 0.0


class Storm:
    """A call of each claim, until each has its answer; the controller is killed when a half has."""

    def __init__(self, controller, method, request):
        self.controller, self.method, self.request = controller, method, request
        self.lock = threading.Lock()
        self.next, self.answers, self.took, self.waited = 0, {}, [], []
        self.aborted, self.other, self.why, self.failed = 0, 0, {}, None
        begun = time.monotonic()
        threads = [threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in range(WORKERS)]
        for thread in threads:
            thread.start()
        while len(self.answers) < CLAIMS // 2 and not self.failed:
            time.sleep(0.005)
        self.killed_at = len(self.answers)
        controller.kill()
        controller.start()
        for thread in threads:
            thread.join()
        if self.failed:
            sys.exit(f"{method}: {self.failed}")
        self.lasted = time.monotonic() - begun
        self._print()

    def _work(self, worker):
        while not self.failed:
            with self.lock:
                claim, self.next = self.next, self.next + 1
            if claim >= CLAIMS:
                return
            self._until_answered(worker, claim)

    def _until_answered(self, worker, claim):
        begun = time.monotonic()
        while not self.failed:
            status, said, took = self.controller.call(f"worker-{worker}", self.method, self.request(claim))
            with self.lock:
                if status == "0":
                    self.answers[claim] = said
                    self.took.append(took)
                    self.waited.append(time.monotonic() - begun)
                    return
                if status == ABORTED:
                    self.aborted += 1
                    self.why[said] = self.why.get(said, 0) + 1
                else:
                    self.other += 1
                if status not in (None, DEADLINE_EXCEEDED, ABORTED, UNAVAILABLE) or time.monotonic() > begun + PATIENCE_SECONDS:
                    self.failed = f"claim {claim}: status {status}, {said}"
            time.sleep(AGAIN_SECONDS)

    def _print(self):
        def spread(values):
            values = sorted(values)
            return " / ".join(f"{values[(len(values) - 1) * percent // 100]:.2f}" for percent in (50, 99, 100))
        print(f"| {WORKERS} | {self.method} | {self.lasted:.1f} | {spread(self.took)} | {spread(self.waited)} | {self.aborted} | {self.other} | "
              f"{self.killed_at} |", flush=True)


def listed(*words):
    return json.loads(subprocess.run([AMITA, *words, "list", "--json"], env={**os.environ, **environment}, check=True, capture_output=True).stdout)


def check(holds, what):
    if not holds:
        sys.exit(f"it is not so: {what}")


controller = Controller()
environment = {name: controller.facts["env"][name] for name in ("AMITA_METADATA", "AMITA_IDENTITY")}
before = len(listed("volume"))
load = os.getloadavg()[0]
print("| workers | call | all done, s | a call, p50 / p99 / most, s | a claim, p50 / p99 / most, s | aborted | other | killed at |\n" + "| --- " * 8 + "|")
made = Storm(controller, "CreateVolume", creation)
volumes = {claim: fields(fields(answer)[1])[2].decode() for claim, answer in made.answers.items()}
check(len(volumes) == CLAIMS == len(set(volumes.values())), "each claim has a volume of its own")
check(len(listed("volume")) == before + CLAIMS, "there are no others")
published = Storm(controller, "ControllerPublishVolume", lambda claim: field(1, volumes[claim]) + field(2, machine(claim)) + field(3, DISK))
found = listed("subsystem")
check(sum(len(one["hosts"]) == 1 for one in found if "csi-" in one["name"]) == CLAIMS, "each volume is one machine's")
taken = Storm(controller, "ControllerUnpublishVolume", lambda claim: field(1, volumes[claim]) + field(2, machine(claim)))
check(not any("csi-" in one["name"] for one in listed("subsystem")), "no volume is any machine's")
deleted = Storm(controller, "DeleteVolume", lambda claim: field(1, volumes[claim]))
check(len(listed("volume")) == before, "no volume is left")
for storm in (made, published, taken, deleted):
    for why, count in sorted(storm.why.items(), key=lambda item: -item[1])[:3]:
        print(f"{storm.method}, {count} times: {why}")
print(f"load before and after: {load:.1f}, {os.getloadavg()[0]:.1f}; {os.cpu_count()} processors")
controller.kill()
