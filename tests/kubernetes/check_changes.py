"""Volumes that grow, and classes of attributes."""

import kube
from machines import attach, until_attached, until_gone
from report import until
from world import MIB

GOLD, SILVER = {"iops": "20000", "bandwidth": "500000000"}, {"iops": "5000"}


def grown(world):
    report, api = world.report, world.api
    _, disk, _ = world.made("disk", mebibytes=64)
    _, files, _ = world.made("files", mebibytes=64, block=False)
    attach(api, "grows", disk["metadata"]["name"], world.machines[0])
    until_attached(api, "grows")
    for name in ("disk", "files"):
        api.change("PersistentVolumeClaim", name, {"spec": {"resources": {"requests": {"storage": "96Mi"}}}})

    def is_grown():
        return kube.size(api.get("PersistentVolumeClaim", "disk")["status"]["capacity"]["storage"]) == 96 * MIB

    _, took = until("the disk has grown", 60, is_grown)
    report.equal(world.behind(disk)["size_bytes"], 96 * MIB, "a disk has grown while it was attached")
    report.ok("its claim says so", f"{took:.2f} s")

    def waits():
        claim = api.get("PersistentVolumeClaim", "files")
        return claim if kube.condition(claim, "FileSystemResizePending") == "True" else None

    claim, took = until("the file system's claim waits for its node", 60, waits)
    report.equal(world.behind(files)["size_bytes"], 96 * MIB, "a volume with a file system has grown")
    report.equal(claim["status"]["allocatedResourceStatuses"], {"storage": "NodeResizePending"}, "its file system is the node's to grow")
    volume = api.get("PersistentVolume", files["metadata"]["name"])
    report.equal(kube.size(volume["spec"]["capacity"]["storage"]), 96 * MIB, "its persistent volume says so")
    api.delete("VolumeAttachment", "grows")
    until_gone(api, "VolumeAttachment", "grows")
    for name in ("disk", "files"):
        world.delete_claim(name)


def modified(world):
    report, api = world.report, world.api
    for name, parameters in (("gold", GOLD), ("silver", SILVER), ("misspelt", {"iopps": "1"})):
        world.attributes_class(name, parameters)
    claim, volume, _ = world.made("disk", attributes="gold")
    limits = lambda: world.storage.ask(f"/volumes/{volume['metadata']['name']}/limits")
    gold = limits()
    report.check("20000" in str(gold) and "500000000" in str(gold), "a claim begins with the limits of its class", gold)
    report.equal(claim["status"].get("currentVolumeAttributesClassName"), "gold", "its class, as Kubernetes has it")

    def takes(name):
        api.change("PersistentVolumeClaim", "disk", {"spec": {"volumeAttributesClassName": name}})

    takes("silver")
    current = lambda: api.get("PersistentVolumeClaim", "disk")["status"].get("currentVolumeAttributesClassName") == "silver"
    _, took = until("the class is another one", 60, current)
    silver = limits()
    report.check("5000" in str(silver) and silver != gold, "its limits are those of another class", f"{took:.2f} s, {silver}")
    report.equal(api.get("PersistentVolume", volume["metadata"]["name"])["spec"].get("volumeAttributesClassName"), "silver", "its persistent volume says so")
    takes("misspelt")

    def infeasible():
        status = api.get("PersistentVolumeClaim", "disk")["status"]
        return (status.get("modifyVolumeStatus") or {}).get("status") == "Infeasible" and status

    status, _ = until("a class that cannot be is infeasible", 60, infeasible)
    report.equal(status["currentVolumeAttributesClassName"], "silver", "a class that cannot be is told as infeasible, and the one before stays")
    report.ok("the claim has the reason", world.said("disk", "VolumeModifyFailed", "iopps").splitlines()[0][-60:])
    report.equal(limits(), silver, "limits as before")
    takes("silver")
    until("it is as it was", 60, lambda: not api.get("PersistentVolumeClaim", "disk")["status"].get("modifyVolumeStatus"))
    report.equal(api.get("PersistentVolumeClaim", "disk")["status"]["currentVolumeAttributesClassName"], "silver", "it is taken back; its class")
    world.delete_claim("disk")
    for name in ("gold", "silver", "misspelt"):
        api.delete("VolumeAttributesClass", name)


CHAPTERS = [("volumes that grow", grown), ("classes of attributes", modified)]
