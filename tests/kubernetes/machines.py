"""Machines of Kubernetes that have no kubelet: what it would say is said by hand."""

import uuid

from report import until
from storage import DRIVER

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


class Machine:
    """A node, and the host that it is to storage."""

    def __init__(self, api, name):
        self.api, self.name = api, name
        self.host = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.amita.test"))
        # Kubelet says by an annotation that it leaves attaching to the controller.
        annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        api.make("Node", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": annotations}})
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "200"}
        api.change("Node", name, {"status": {"capacity": capacity, "allocatable": capacity}}, part="status")
        self.ready(True)
        # As the registrar of the node's part has kubelet write it.
        api.make("CSINode", {"metadata": {"name": name}, "spec": {"drivers": [{"name": DRIVER, "nodeID": self.host, "topologyKeys": []}]}})

    def ready(self, is_ready):
        state = {"type": "Ready", "status": "True" if is_ready else "Unknown", "reason": "Test"}
        self.api.change("Node", self.name, {"status": {"conditions": [state]}}, part="status")

    def taint(self, taints):
        self.api.change("Node", self.name, {"spec": {"taints": taints}})

    def attached(self):
        """What the controller says is attached."""
        status = self.api.get("Node", self.name)["status"]
        return [volume["name"] for volume in status.get("volumesAttached") or []]

    def use(self, volumes):
        """What kubelet says is mounted, or may be."""
        self.api.change("Node", self.name, {"status": {"volumesInUse": volumes or None}}, part="status")

    def run(self, pod):
        """What a scheduler does: a pod is this machine's."""
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]},
                   "target": {"apiVersion": "v1", "kind": "Node", "name": self.name}}
        self.api.ask("POST", self.api.path("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], "binding"), binding)

    def started(self, pod):
        """What kubelet says of a pod whose containers run."""
        names = [container["name"] for container in pod["spec"]["containers"]]
        running = {"state": {"running": {}}, "ready": True, "restartCount": 0, "image": "", "imageID": ""}
        status = {
            "phase": "Running", "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")],
            "containerStatuses": [{"name": name, **running} for name in names],
        }
        self.api.change("Pod", pod["metadata"]["name"], {"status": status}, pod["metadata"]["namespace"], "status")

    def ended(self, pod):
        """What kubelet does when the containers of a pod that is being deleted have ended."""
        self.api.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], at_once=True)


def pod_of(name, claim, machine=None):
    spec = {
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": "registry.example/nothing", "volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }
    if machine:
        spec["nodeName"] = machine.name
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def attachments(api, volume):
    """The attachments of a persistent volume, by their machines."""
    found = [one for one in api.list("VolumeAttachment") if one["spec"]["source"].get("persistentVolumeName") == volume]
    return {one["spec"]["nodeName"]: one for one in found}


def attach(api, name, volume, machine):
    spec = {"attacher": DRIVER, "nodeName": machine.name, "source": {"persistentVolumeName": volume}}
    api.make("VolumeAttachment", {"metadata": {"name": name}, "spec": spec})


def until_attached(api, name, seconds=60):
    def look():
        found = api.get("VolumeAttachment", name)
        return found if found.get("status", {}).get("attached") else None

    return until(f"{name} is attached", seconds, look)


def until_gone(api, kind, name, seconds=60, namespace="default"):
    return until(f"{kind} {name} is gone", seconds, lambda: api.find(kind, name, namespace) is None)[1]
