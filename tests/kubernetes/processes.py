"""Processes and ports of this test: all of them end with it, however it ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

LAUNCH = Path(__file__).with_name("launch.py")
# Below the range from which kernels take ports for outgoing connections, by blocks, of which each is one process's of the tests: the tests in Rust
# claim them by the same names (tools/harness/src/ports.rs).
FIRST, BLOCK, BLOCKS = 20_000, 16, 750
PATIENCE = 10.0


class Ports:
    """Free ports on 127.0.0.1, no port twice, and none that another test has."""

    def __init__(self):
        self.claims, self.left = [], []
        self.next = os.getpid() * 7 % BLOCKS
        self.tried = 0

    def free(self):
        while True:
            while not self.left:
                self._claim()
            port = self.left.pop(0)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    continue

    def _claim(self):
        if self.tried == BLOCKS:
            raise RuntimeError("all ports for tests are taken")
        self.tried += 1
        block, self.next = self.next, (self.next + 1) % BLOCKS
        first = FIRST + block * BLOCK
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0amita-test-ports-{first}")
        except OSError:
            claim.close()
            return
        self.claims.append(claim)
        self.left = list(range(first, first + BLOCK))


class Process:
    """A program that runs, with its log. `host`: the host's name that it sees; `user`: who it is, where that may be chosen."""

    def __init__(self, name, words, log, env=None, host=None, user=None):
        self.name, self.words, self.log = name, [str(word) for word in words], Path(log)
        self.env, self.host, self.user = env or {}, host, user
        self.killed = False
        self.peak_kib = 0
        self._start()

    def _start(self):
        usual = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        settings = [self.host or "", "" if self.user is None else str(self.user), str(os.getpid())]
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-I", str(LAUNCH), *settings, *self.words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**usual, **self.env}, start_new_session=True,
            )
        self.since = time.monotonic()

    def again(self):
        """Starts it anew as it was."""
        assert self.ended() is not None, f"{self.name} runs"
        self.killed = False
        self._start()

    def ended(self):
        return self.child.poll()

    def note_memory(self):
        """Its memory at its largest, over all of its lives."""
        try:
            status = Path(f"/proc/{self.child.pid}/status").read_text()
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peak_kib = max(self.peak_kib, int(line.split()[1]))

    def kill(self):
        self.note_memory()
        self.killed = True
        self.child.kill()
        self.child.wait()

    def ask_to_end(self):
        if self.ended() is None:
            self.note_memory()
            self.killed = True
            self.child.send_signal(signal.SIGTERM)

    def end(self, patience=PATIENCE):
        self.ask_to_end()
        try:
            self.child.wait(patience)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def last_words(self, lines=12):
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


class Processes:
    """All that this test has started."""

    def __init__(self, logs):
        self.logs = Path(logs)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.all = []
        self.ports = Ports()

    def start(self, name, words, **settings):
        process = Process(name, words, self.logs / f"{name}.log", **settings)
        self.all.append(process)
        return process

    def dead(self):
        """Those that have ended, and nobody has ended them."""
        return [process for process in self.all if process.ended() is not None and not process.killed]

    def end(self):
        # Those that were started last ask the others.
        for process in reversed(self.all):
            process.ask_to_end()
        until = time.monotonic() + PATIENCE
        for process in reversed(self.all):
            process.end(max(0.1, until - time.monotonic()))
        self.all = []


def run(words, env=None, given=None, seconds=60):
    """Runs a command to its end; what it said."""
    usual = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    words = [str(word) for word in words]
    done = subprocess.run(
        words, env={**usual, **(env or {})}, input=given, text=True, timeout=seconds,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
