"""Stands in for kubelets and the scheduler: pods that StatefulSets have at a real control plane are run as processes (pods.py), and what kubelets would
say of them is said: addresses, phases, and whether they are ready, as their probes tell."""

import base64
import os
import shutil
import threading
import time
import traceback

import kube
from machines import Machine
from pods import Pod

LOOK = 0.3


class Kubelet:
    def __init__(self, plane, volumes, namespace, secrets, address, logs):
        self.plane, self.volumes, self.namespace, self.secrets = plane, volumes, namespace, secrets
        self.address, self.logs = address, logs
        self.pods, self.machines, self.seen, self.services = {}, {}, set(), {}
        # What happened, in its order: (what, pod).
        self.events, self.failures = [], []
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        while not self.ended.is_set():
            try:
                self._secrets()
                for thing in self.plane.api.list("Pod", self.namespace):
                    uid = thing["metadata"]["uid"]
                    if uid not in self.seen and not thing["metadata"].get("deletionTimestamp"):
                        self.seen.add(uid)
                        threading.Thread(target=self._run, args=(thing,), daemon=True).start()
            except (OSError, kube.Refused) as why:
                if not self.ended.is_set():
                    self.failures.append(f"kubelet: {why}")
            time.sleep(LOOK)

    def _secrets(self):
        there = {secret["metadata"]["name"]: secret for secret in self.plane.api.list("Secret", self.namespace)}
        for name in list(self.secrets - there.keys()):
            self.secrets.discard(name)
            shutil.rmtree(self.volumes.folder / name, ignore_errors=True)
        for name in there.keys() - self.secrets:
            texts = {key: base64.b64decode(value).decode() for key, value in there[name].get("data", {}).items()}
            folder = self.volumes.files(name, texts, 0o440)
            for file in folder.iterdir():
                os.chown(file, 0, 65532)
            self.secrets.add(name)

    def _machine(self, name):
        with self.lock:
            if name not in self.machines:
                self.machines[name] = Machine(self.plane.api, f"machine-of-{name}")
            return self.machines[name]

    def _run(self, thing):
        name = thing["metadata"]["name"]
        try:
            self._play(thing, name)
        except Exception as why:  # noqa: BLE001 - whoever waits tells it
            if not self.ended.is_set():
                traceback.print_exc()
                self.failures.append(f"{name}: {why}")

    def _play(self, thing, name):
        api = self.plane.api
        self._machine(name).run(thing)
        owner = api.get("StatefulSet", thing["metadata"]["ownerReferences"][0]["name"], self.namespace)
        # As the API has it, defaults and all; what it was made of says what is claimed.
        owner["spec"]["template"]["spec"] = {**thing["spec"], "volumes": owner["spec"]["template"]["spec"]["volumes"]}
        pod = Pod(self.volumes, owner, int(name.rsplit("-", 1)[1]), self.secrets, self.logs)
        for container in [*pod.spec["containers"], *pod.spec.get("initContainers", [])]:
            claimed = [mount for mount in container["volumeMounts"] if not mount["mountPath"].startswith("/var/run/secrets/")]
            container["volumeMounts"] = claimed
        self.pods[name] = pod
        pod.address = self.address(name)
        self._say(thing, pod, "Pending", False)
        pod.begin(pod.address)
        self.events.append(("started", name))
        ready = False
        self._say(thing, pod, "Running", ready)
        while not self.ended.is_set():
            found = api.find("Pod", name, self.namespace)
            if found["metadata"].get("deletionTimestamp"):
                pod.end()
                self.events.append(("gone", name))
                api.delete("Pod", name, self.namespace, at_once=True)
                return
            if pod.child.poll() is not None:
                raise RuntimeError(f"the container has ended: {pod.child.returncode}")
            now = pod.probe("readinessProbe") is None
            if now != ready:
                ready = now
                self.events.append(("ready" if ready else "not ready", name))
                self._say(thing, pod, "Running", ready)
            time.sleep(LOOK)

    def _say(self, thing, pod, phase, ready):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state = "True" if ready else "False"
        conditions = [{"type": kind, "status": state, "lastTransitionTime": now} for kind in ("ContainersReady", "Ready")]
        running = {"state": {"running": {"startedAt": now}}, "ready": ready, "restartCount": 0, "image": "", "imageID": ""}
        status = {"phase": phase, "podIP": pod.address, "podIPs": [{"ip": pod.address}], "hostIP": pod.address,
                  "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"}, *conditions],
                  "containerStatuses": [{"name": "amita", **running}]}
        self.plane.api.change("Pod", thing["metadata"]["name"], {"status": status}, self.namespace, "status")

    def end(self):
        self.ended.set()
        self.thread.join(5)
        for pod in self.pods.values():
            pod.kill()
