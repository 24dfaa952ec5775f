"""Who has a volume: attachments by hand, by the controller for pods, and when a machine is lost."""

import time

from machines import OUT_OF_SERVICE, attach, pod_of, until_attached, until_gone
from report import stays, until
from storage import DRIVER
from world import CLASS

# A volume is to be at another node within that time, counted from when Kubernetes takes it from the lost one.
MOVED_SECONDS = 30


def by_hand(world):
    report, api = world.report, world.api
    one, two = world.machines[:2]
    _, volume, _ = world.made("disk")
    name = volume["metadata"]["name"]
    attach(api, "first", name, one)
    attached, took = until_attached(api, "first")
    report.equal(world.hosts_of(volume), [one.host], f"a volume is attached after {took:.2f} s, and its machine is let in")
    told = attached["status"]["attachmentMetadata"]
    report.check(bool(told) and any("nqn." in value for value in told.values()), "the node is told where it is", f"{', '.join(sorted(told))}")
    attach(api, "second", name, two)

    def look():
        return api.get("VolumeAttachment", "second").get("status", {}).get("attachError")

    error, _ = until("another machine is refused", 30, look)
    report.check(world.hosts_of(volume) == [one.host], "another machine is refused, and told why", error["message"][-90:])
    # The claim is deleted while it is attached: it goes when it is not.
    api.delete("PersistentVolumeClaim", "disk")
    waits = stays(3, lambda: world.behind(volume) is not None and "csi.amita.io/deleted" not in world.behind(volume)["labels"])
    report.check(waits, "a claim that is deleted while it is attached keeps its volume", "3 s")
    api.delete("VolumeAttachment", "first")
    took = until_gone(api, "VolumeAttachment", "first")
    report.ok("it is detached", f"{took:.2f} s")
    api.delete("VolumeAttachment", "second")
    until_gone(api, "VolumeAttachment", "second")
    until_gone(api, "PersistentVolume", name)
    report.check(world.behind(volume) is None and world.hosts_of(volume) is None, "then it goes, and nothing is left of its attachment")


def one_after_the_other(world):
    report, api = world.report, world.api
    one, two = world.machines[:2]
    _, volume, _ = world.made("disk")
    attach(api, "first", volume["metadata"]["name"], one)
    until_attached(api, "first")
    attach(api, "second", volume["metadata"]["name"], two)
    until("another machine is refused", 30, lambda: api.get("VolumeAttachment", "second").get("status", {}).get("attachError"))
    api.delete("VolumeAttachment", "first")
    begun = time.monotonic()
    until_gone(api, "VolumeAttachment", "first")
    until_attached(api, "second", 90)
    report.equal(world.hosts_of(volume), [two.host], f"it is the next machine's {time.monotonic() - begun:.1f} s after the first is to let go")
    api.delete("VolumeAttachment", "second")
    until_gone(api, "VolumeAttachment", "second")
    _, shared, _ = world.made("shared", modes=["ReadWriteMany"])
    for number, machine in enumerate((one, two)):
        attach(api, f"shared-{number}", shared["metadata"]["name"], machine)
        until_attached(api, f"shared-{number}")
    report.equal(sorted(world.hosts_of(shared)), sorted([one.host, two.host]), "a disk for several nodes is both machines'")
    api.delete("VolumeAttachment", "shared-0")
    until_gone(api, "VolumeAttachment", "shared-0")
    report.equal(world.hosts_of(shared), [two.host], "and the other's when one lets go")
    api.delete("VolumeAttachment", "shared-1")
    until_gone(api, "VolumeAttachment", "shared-1")
    for name in ("disk", "shared"):
        world.delete_claim(name)


def by_pods(world):
    """The controller of Kubernetes attaches for pods, and detaches when kubelet has let go."""
    report, api = world.report, world.api
    machine = world.machines[2]
    _, volume, _ = world.made("disk")
    api.make("Pod", pod_of("user", "disk", machine))
    wanted = f"kubernetes.io/csi/{DRIVER}^{volume['spec']['csi']['volumeHandle']}"
    _, took = until("the node is told that its volume is attached", 60, lambda: wanted in machine.attached())
    report.equal(world.hosts_of(volume), [machine.host], f"a pod has its volume after {took:.2f} s")
    machine.use([wanted])
    api.delete("Pod", "user")
    machine.ended(api.get("Pod", "user"))
    report.check(stays(5, lambda: world.hosts_of(volume) == [machine.host]), "what kubelet has mounted still is not detached", "5 s")
    machine.use([])
    _, took = until("it is detached", 60, lambda: not world.attachments(volume))
    report.equal(world.hosts_of(volume), None, f"it is detached {took:.2f} s after kubelet has let go; it is had by")
    report.equal(machine.attached(), [], "and the node is told so")
    world.delete_claim("disk")


def lost(world):
    """A machine is lost with a volume mounted: it is tainted, and the volume goes to another one."""
    report, api = world.report, world.api
    old, new = world.machines[3:5]
    template = pod_of("ignored", "ignored")["spec"]
    template.pop("volumes")
    api.make("StatefulSet", {
        "metadata": {"name": "database"},
        "spec": {
            "serviceName": "database", "replicas": 1, "selector": {"matchLabels": {"app": "database"}},
            "template": {"metadata": {"labels": {"app": "database"}}, "spec": template},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"storageClassName": CLASS, "accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "resources": {"requests": {"storage": "64Mi"}}},
            }],
        },
    })
    pod, _ = until("the set has its pod", 30, lambda: api.find("Pod", "database-0"))
    _, volume, _ = world.bound("data-database-0")
    old.run(pod)
    handle = f"kubernetes.io/csi/{DRIVER}^{volume['spec']['csi']['volumeHandle']}"
    until("it is attached", 60, lambda: handle in old.attached())
    old.use([handle])
    old.started(api.get("Pod", "database-0"))
    report.equal(world.hosts_of(volume), [old.host], "the pod of a set has its volume at one machine")
    first = pod["metadata"]["uid"]
    old.ready(False)
    api.delete("Pod", "database-0")
    waits = stays(10, lambda: world.hosts_of(volume) == [old.host] and api.get("Pod", "database-0")["metadata"]["uid"] == first)
    report.check(waits, "while a machine is only silent, nothing is taken from it", "10 s, its pod is Terminating")
    begun = time.monotonic()
    old.taint([OUT_OF_SERVICE])
    taken = {}

    def moved():
        now = time.monotonic() - begun
        found = api.find("Pod", "database-0")
        if "pod" not in taken and found and found["metadata"]["uid"] != first:
            taken["pod"] = now
            new.run(found)
        there = world.attachments(volume)
        going = there.get(old.name)
        if "asked" not in taken and (going is None or going["metadata"].get("deletionTimestamp")):
            taken["asked"] = now
        if "detached" not in taken and going is None:
            taken["detached"] = now
        if there.get(new.name, {}).get("status", {}).get("attached"):
            taken["attached"] = now
        return "attached" in taken

    until("the volume is at another machine", 150, moved, every=0.05)
    report.equal(world.hosts_of(volume), [new.host], "the volume is at another machine, and there alone")
    steps = ", ".join(f"{what} {at:.1f} s" for what, at in sorted(taken.items(), key=lambda step: step[1]))
    report.note(f"after the taint: {steps}")
    # When the next pod is there is Kubernetes's: it collects pods of lost machines every 20 s. What the driver has to do begins when both are.
    took = taken["attached"] - taken["asked"]
    report.check(taken["asked"] <= taken["detached"] <= taken["attached"], "it was taken from the one before it was given to the other")
    report.check(took <= MOVED_SECONDS, "from when Kubernetes has it taken until it is attached", f"{took:.1f} s")
    report.check(taken["attached"] <= 60, "from the taint on", f"{taken['attached']:.1f} s")
    api.delete("StatefulSet", "database")
    pod, _ = until("the set is gone", 30, lambda: api.find("StatefulSet", "database") is None and api.find("Pod", "database-0"))
    api.delete("Pod", "database-0", at_once=True)
    until("it is detached", 60, lambda: world.hosts_of(volume) is None)
    old.use([])
    old.taint(None)
    old.ready(True)
    world.delete_claim("data-database-0")


CHAPTERS = [
    ("attachments by hand", by_hand), ("one machine after the other", one_after_the_other), ("attachments for pods", by_pods),
    ("a machine is lost", lost),
]
