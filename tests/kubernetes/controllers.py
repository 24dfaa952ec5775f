"""What kubelet does for the pods of the driver's controller: it starts their containers as the manifest says, as processes."""

import base64
import os
import re
from pathlib import Path

import kube
from report import until

NAMESPACE, NAME = "amita-csi", "amita-csi-controller"
# Containers that are left out: whether others live, this test sees itself.
LEFT_OUT = {"liveness"}
SOCKET = "csi.sock"
USER = 65532


class Container:
    def __init__(self, pod, spec):
        self.pod, self.spec, self.name = pod, spec, spec["name"]
        self.process = None
        self.port = None

    def program(self):
        image = self.spec["image"].split("@")[0].split("/")[-1].split(":")[0]
        return self.pod.binary if image == "amita" else self.pod.plane.tools / image

    def limit_kib(self):
        return kube.size(self.spec["resources"]["limits"]["memory"]) // 1024

    def start(self):
        if self.process:
            self.process.again()
            return
        env = {one["name"]: self._value(one) for one in self.spec.get("env", [])}
        words = [self._word(word, env) for word in self.spec.get("command", [])[1:] + self.spec["args"]]
        if self.program() != self.pod.binary:
            # Of what every pod has of its account, the name of the namespace is read from a file, and where the API is from the environment.
            words.append(f"--kubeconfig={self.pod.configuration}")
            env["POD_NAMESPACE"] = NAMESPACE
        user = self.pod.user() if os.geteuid() == 0 else None
        self.process = self.pod.processes.start(
            f"{self.pod.name}-{self.name}", [self.program(), *words], env=env, host=self.pod.name, user=user)

    def _word(self, word, env):
        for mount in self.spec.get("volumeMounts", []):
            word = word.replace(f"{mount['mountPath']}/", f"{self.pod.volumes[mount['name']]}/")
        found = re.fullmatch(r"--http-endpoint=.*:(\d+)", word)
        if found:
            # Ports of a pod are its own; here all of them are on one host.
            self.port = self.port or self.pod.processes.ports.free()
            word = f"--http-endpoint=127.0.0.1:{self.port}"
        return re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], word)

    def _value(self, one):
        if "value" in one:
            return one["value"]
        source = one["valueFrom"]
        if "fieldRef" in source:
            thing = self.pod.thing
            for part in source["fieldRef"]["fieldPath"].split("."):
                thing = thing[part]
            return thing
        key = source["secretKeyRef"]
        return base64.b64decode(self.pod.secret(key["name"])[key["key"]]).decode()


class ControllerPod:
    """A pod of the Deployment, as its ReplicaSet has made it."""

    def __init__(self, plane, processes, binary, folder, thing):
        self.plane, self.processes, self.binary, self.thing = plane, processes, binary, thing
        self.name = thing["metadata"]["name"]
        self.folder = Path(folder) / self.name
        self.folder.mkdir(parents=True)
        self._own(self.folder)
        self.volumes = {volume["name"]: self._volume(volume) for volume in thing["spec"]["volumes"]}
        self.configuration = self.folder / "kubeconfig"
        token = plane.token_of(thing["spec"]["serviceAccountName"], NAMESPACE, thing)
        self.configuration.touch(0o600)
        self.configuration.write_text(kube.configuration(plane.port, self._readable(plane.authority.certificate), token))
        self._own(self.configuration)
        specs = [spec for spec in thing["spec"]["containers"] if spec["name"] not in LEFT_OUT]
        self.containers = {spec["name"]: Container(self, spec) for spec in specs}

    def user(self):
        return self.thing["spec"]["securityContext"]["runAsUser"]

    def _own(self, path):
        if os.geteuid() == 0:
            os.chown(path, self.user(), self.user())

    def _readable(self, path):
        copy = self.folder / path.name
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o644)
        return copy

    def secret(self, name):
        return self.plane.api.get("Secret", name, NAMESPACE)["data"]

    def _volume(self, volume):
        """A folder with what the volume has."""
        folder = self.folder / volume["name"]
        if "projected" in volume:
            return folder
        folder.mkdir()
        self._own(folder)
        if "secret" in volume:
            data = self.secret(volume["secret"]["secretName"])
            for item in volume["secret"]["items"]:
                path = folder / item["path"]
                path.write_bytes(base64.b64decode(data[item["key"]]))
                # Its group reads it (fsGroup), which is the user's here.
                path.chmod(0o640)
                self._own(path)
        return folder

    def start(self):
        """The driver first, so that sidecars find its socket; kubelet starts all at one time, and those that find none try again."""
        for container in self.containers.values():
            container.start()

    def kill(self):
        for container in self.containers.values():
            container.process.kill()

    def healthy(self):
        """Those sidecars that say they are."""
        import urllib.request
        found = []
        for container in self.containers.values():
            if container.port:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{container.port}/healthz/leader-election", timeout=5) as answer:
                        if answer.status == 200:
                            found.append(container.name)
                except OSError:
                    pass
        return found


class Controllers:
    """Both of them."""

    def __init__(self, plane, pods):
        self.plane, self.pods = plane, pods

    def leaders(self):
        """Which pod leads, of each sidecar."""
        return {lease["metadata"]["name"]: lease["spec"].get("holderIdentity") for lease in self.plane.api.list("Lease", NAMESPACE)}

    def leading(self):
        """The pod whose provisioner leads, and the others."""
        holder = self.leaders()["csi-amita-io"]
        lead = next(pod for pod in self.pods if pod.name == holder)
        return lead, [pod for pod in self.pods if pod is not lead]

    def started(self):
        def look():
            leaders = self.leaders()
            names = {pod.name for pod in self.pods}
            return leaders if len(leaders) == 4 and set(leaders.values()) <= names else None

        return until("each sidecar has a leader", 60, look)

    def containers(self):
        return [container for pod in self.pods for container in pod.containers.values()]

    def note_memory(self):
        for container in self.containers():
            container.process.note_memory()
