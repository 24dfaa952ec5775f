"""Pods of StatefulSets as processes: what a kubelet would do of them, as far as processes on one machine can.

A container is a process in a mount namespace and a PID namespace of its own, below a root that has the machine's programs, the volumes of its pod and
nothing else; as the user, with the groups and without the capabilities that its manifest says. Init containers, hooks, probes and the signal at the end
are taken from the manifest. Not there: limits of resources, seccomp, a network of its own (a pod has an address of loopback), a scheduler.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

DISK_BYTES = 512 << 20
LINKS = ("bin", "sbin", "lib", "lib64")


class Volumes:
    """What outlives pods: claims; and what is the same in all of them: ConfigMaps, Secrets, and names of the network."""

    def __init__(self, folder, binary):
        self.folder, self.binary = folder, binary
        self.hosts = folder / "hosts"
        self.folder.mkdir()
        self.hosts.write_text("127.0.0.1 localhost\n")

    def claim(self, pod, template):
        """A claim's folder, or its disk."""
        place = self.folder / f"{template['metadata']['name']}-{pod}"
        if not place.exists():
            if template["spec"]["volumeMode"] == "Block":
                with place.open("wb") as disk:
                    disk.truncate(DISK_BYTES)
                place.chmod(0o660)
            else:
                place.mkdir()
        return place

    def files(self, name, texts, mode):
        """The files of a ConfigMap or a Secret: root's."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        for file, text in texts.items():
            (place / file).write_text(text)
            (place / file).chmod(mode)
        return place

    def name(self, name, address):
        """A Service. The file stays what it is: it is mounted."""
        kept = [line for line in self.hosts.read_text().splitlines() if not line.endswith(f" {name}")]
        self.hosts.write_text("\n".join([*kept, f"{address} {name}", ""]))


class Pod:
    """The pod of a StatefulSet by its number."""

    def __init__(self, volumes, thing, number, secrets, logs):
        self.volumes, self.thing, self.logs = volumes, thing, logs
        self.spec = thing["spec"]["template"]["spec"]
        self.name = f"{thing['metadata']['name']}-{number}"
        self.secrets = secrets
        self.address, self.child, self.sidecars = None, None, []
        self.security = self.spec["securityContext"]
        self.main = self.spec["containers"][0]
        self.log = logs / f"{self.name}.log"

    def _mounts(self, container):
        """Where what is found: (folder or file, path, read only)."""
        owner = self.security["fsGroup"]
        claims = {template["metadata"]["name"]: template for template in self.thing["spec"].get("volumeClaimTemplates", [])}
        found = []
        for device in container.get("volumeDevices", []):
            disk = self.volumes.claim(self.name, claims[device["name"]])
            # A file has to be its user's to become a store; a disk has not.
            os.chown(disk, self.security["runAsUser"], owner)
            found.append((disk, device["devicePath"], False))
        named = {volume["name"]: volume for volume in self.spec["volumes"]}
        for mount in container["volumeMounts"]:
            if mount["name"] in claims:
                place = self.volumes.claim(self.name, claims[mount["name"]])
                own_group(place, owner)
            else:
                place = self._volume(named[mount["name"]])
            found.append((place, mount["mountPath"], mount.get("readOnly", False)))
        return found

    def _volume(self, volume):
        if "emptyDir" in volume:
            place = self.volumes.folder / f"{self.name}-{volume['name']}"
            if not place.exists():
                place.mkdir()
                own_group(place, self.security["fsGroup"])
            return place
        if "csi" in volume:
            # What a driver for volumes of a pod's own makes: whoever tests writes it.
            place = self.volumes.folder / f"{self.name}-{volume['name']}"
            place.mkdir(exist_ok=True)
            return place
        if "configMap" in volume:
            return self.volumes.folder / volume["configMap"]["name"]
        secret = volume["secret"]
        if secret["secretName"] not in self.secrets:
            assert secret["optional"], f"there is no Secret {secret['secretName']}"
        place = self.volumes.folder / secret["secretName"]
        place.mkdir(exist_ok=True)
        own_group(place, self.security["fsGroup"])
        return place

    def environment(self, container):
        found = {}
        for variable in container.get("env", []):
            if "valueFrom" not in variable:
                found[variable["name"]] = variable.get("value", "")
            else:
                path = variable["valueFrom"]["fieldRef"]["fieldPath"]
                found[variable["name"]] = {"metadata.name": self.name, "status.podIP": self.address}[path]
        return found

    def words(self, container, words=None, env=None):
        """How the container's own words, or these ones, are run in it."""
        variables = {**self.environment(container), **(env or {})}
        own = words or [*container["command"], *container.get("args", [])]
        own = [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word) for word in own]
        security = container["securityContext"]
        assert security["capabilities"]["drop"] == ["ALL"] and security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        root = self.volumes.folder / "root"
        root.mkdir(exist_ok=True)
        script = ["set -e", f"root={shlex.quote(str(root))}", 'mount -t tmpfs -o mode=0755 root "$root"', 'cd "$root"', "mkdir usr etc proc dev tmp state"]
        script += [f"ln -s usr/{link} {link}" for link in LINKS]
        script += ["mount --rbind /usr usr", "mount -t tmpfs -o mode=0755 own usr/local/bin", "touch usr/local/bin/amita",
                   f"mount --bind {shlex.quote(str(self.volumes.binary))} usr/local/bin/amita", "mount --bind /etc etc",
                   f"mount --bind {shlex.quote(str(self.volumes.hosts))} etc/hosts", "mount -t proc proc proc",
                   "for one in null zero urandom; do touch dev/$one; mount --bind /dev/$one dev/$one; done"]
        for place, path, read_only in self._mounts(container):
            make = f"mkdir -p {path[1:]}" if place.is_dir() else f"mkdir -p {os.path.dirname(path)[1:]}; touch {path[1:]}"
            script += [make, f"mount --bind {shlex.quote(str(place))} {path[1:]}"]
            script += [f"mount -o remount,bind,ro {path[1:]}"] if read_only else []
        groups = ",".join(str(group) for group in [self.security["fsGroup"], *self.security.get("supplementalGroups", [])])
        script += ['mount -o remount,ro "$root"',
                   f'exec chroot . setpriv --reuid={self.security["runAsUser"]} --regid={self.security["runAsGroup"]} --groups={groups} '
                   '--bounding-set=-all --inh-caps=-all --no-new-privs -- env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin "$@"']
        given = [f"{name}={value}" for name, value in variables.items()]
        return ["unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-c", "\n".join(script), "pod", *given, *own]

    def run(self, container, words=None, seconds=300, env=None):
        """In the container, to its end: exit code and what was said."""
        done = subprocess.run(self.words(container, words, env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=seconds, check=False)
        return done.returncode, done.stdout, done.stderr

    def execute(self, *words, **env):
        """As `kubectl exec`."""
        code, said, why = self.run(self.main, list(words), env=env)
        if code:
            raise RuntimeError(f"{self.name}: {' '.join(words)}: exit code {code}\n{said}{why}")
        return said

    def _start(self, container):
        with self.log.open("ab") as log:
            return subprocess.Popen(self.words(container), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def begin(self, address):
        """Its init containers are run, each to its end, and its containers are started. A failed one ends it."""
        self.address = address
        shutil.rmtree(self.volumes.folder / f"{self.name}-tmp", ignore_errors=True)
        for container in self.spec.get("initContainers", []):
            if container.get("restartPolicy") == "Always":
                self.sidecars.append(self._start(container))
                continue
            code, said, why = self.run(container)
            with self.log.open("a") as log:
                log.write(f"-- {container['name']}: exit code {code}\n{said}{why}")
            if code:
                raise RuntimeError(f"{self.name}: {container['name']}: exit code {code}: {said}{why}")
        self.child = self._start(self.main)

    def start_anew(self):
        """Its containers alone, in the pod that there is."""
        for container in self.spec.get("initContainers", []):
            if container.get("restartPolicy") == "Always":
                self.sidecars.append(self._start(container))
        self.child = self._start(self.main)

    def inner(self, child):
        """The container's first process: what is behind `unshare`."""
        found = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        return int(found[0]) if found else None

    def probe(self, kind):
        """Is it as the probe of this kind says? Why not, where it is not."""
        probe = self.main[kind]
        ports = {port["name"]: port["containerPort"] for port in self.main["ports"]}
        if "exec" in probe:
            code, said, why = self.run(self.main, probe["exec"]["command"], seconds=probe["timeoutSeconds"] + 15)
            return None if code == 0 else f"{said}{why}".strip() or f"exit code {code}"
        if "httpGet" in probe:
            place = f"http://{self.address}:{ports[probe['httpGet']['port']]}{probe['httpGet']['path']}"
            try:
                with urllib.request.urlopen(place, timeout=probe["timeoutSeconds"]) as answer:
                    return None if answer.status == 200 else f"{answer.status}"
            except (OSError, urllib.error.URLError) as why:
                return str(why)
        import socket
        try:
            socket.create_connection((self.address, ports[probe["tcpSocket"]["port"]]), timeout=1).close()
            return None
        except OSError as why:
            return str(why)

    def _probe_until(self, ended):
        while not ended.wait(0.3):
            try:
                self.probe("readinessProbe")
            except subprocess.TimeoutExpired:
                pass

    def end(self):
        """preStop, then SIGTERM, then, behind the grace period, SIGKILL: as kubelet does. It asks all the while whether the pod is ready, and nothing
        else. How long the hook and the signal took."""
        grace = self.spec.get("terminationGracePeriodSeconds", 30)
        begun = time.monotonic()
        hook = self.main.get("lifecycle", {}).get("preStop")
        told = begun
        if hook:
            ended = threading.Event()
            probes = threading.Thread(target=self._probe_until, args=(ended,), daemon=True)
            probes.start()
            self.run(self.main, hook["exec"]["command"], seconds=grace)
            told = time.monotonic()
            ended.set()
            probes.join()
            # One falls between the hook and the signal, at least.
            self.probe("readinessProbe")
        signalled = time.monotonic()
        for child in [self.child, *reversed(self.sidecars)]:
            os.kill(self.inner(child), signal.SIGTERM)
            child.wait(max(1, grace - (time.monotonic() - begun)))
        self.child, self.sidecars = None, []
        return told - begun, time.monotonic() - signalled

    def kill(self):
        for child in [self.child, *self.sidecars]:
            if child and child.poll() is None:
                # Behind `unshare`, which ends with it: it would live on without that.
                os.kill(self.inner(child) or child.pid, signal.SIGKILL)
                child.wait()
        self.child, self.sidecars = None, []


def own_group(place, group):
    """As kubelet does for fsGroup."""
    os.chown(place, -1, group)
    place.chmod(0o2775)


def documents(helm, yaml, folder):
    """Helm itself turns them into JSON, by a chart that has them as a file."""
    own = folder / "as-json"
    shutil.rmtree(own, ignore_errors=True)
    (own / "templates").mkdir(parents=True)
    (own / "Chart.yaml").write_text("apiVersion: v2\nname: as-json\nversion: 0.1.0\n")
    (own / "all.yaml").write_text(yaml)
    (own / "templates/all.yaml").write_text(
        '{{- range splitList "\\n---\\n" (printf "\\n%s" (.Files.Get "all.yaml")) }}\n---\n{{ . | fromYaml | toJson }}\n{{- end }}\n')
    said = subprocess.run([helm, "template", "x", own], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [document for document in found if document.get("kind")]
