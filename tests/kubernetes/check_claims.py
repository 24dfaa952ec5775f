"""Claims: bound, refused, kept, late; and the room that there is for them."""

import kube
from report import until, stays
from machines import until_gone
from storage import COPIES, DRIVER
from world import KEPT, LATE, MIB


def bound(world):
    report, api = world.report, world.api
    before = len(world.storage.volumes())
    claim, volume, took = world.made("disk", mebibytes=64)
    source = volume["spec"]["csi"]
    report.check(source["driver"] == DRIVER and volume["spec"]["volumeMode"] == "Block", "a claim of a disk is bound", f"{took:.2f} s")
    report.equal(kube.size(volume["spec"]["capacity"]["storage"]), 64 * MIB, "its size, as Kubernetes has it")
    found = world.behind(volume)
    report.equal(found and found["size_bytes"], 64 * MIB, "its size, as Amita has it")
    labels = {key.removeprefix("csi.storage.k8s.io/"): value for key, value in found["labels"].items() if key.startswith("csi.storage.k8s.io/")}
    report.equal(labels, {"pvc/name": "disk", "pvc/namespace": "default", "pv/name": volume["metadata"]["name"]}, "whose it is stands in its labels")
    report.equal(found["name"], volume["metadata"]["name"], "its name in Amita")
    _, files, took = world.made("files", block=False)
    report.equal(files["spec"]["csi"].get("fsType"), "ext4", "the file system of a claim that names none")
    _, shared, _ = world.made("shared", modes=["ReadWriteMany"])
    report.equal(shared["spec"]["accessModes"], ["ReadWriteMany"], "a disk for several nodes is bound")
    report.equal(len(world.storage.volumes()) - before, 3, "volumes that Amita has more than before")
    for name in ("disk", "files", "shared"):
        world.delete_claim(name)
    report.equal(len(world.storage.volumes()), before, "and no more when the claims were deleted")
    deleted = [one["name"] for one in world.storage.deleted()]
    report.check(volume["metadata"]["name"] in deleted, "which are in the recycle bin of their pool (onDelete: recycle)", f"{len(deleted)} there")


def refused(world):
    report = world.report
    before = len(world.storage.volumes())
    world.storage_class("misspelt", parameters={"pool": "main", "onDelte": "now"})
    world.claim("misspelt", storage_class="misspelt")
    said = world.said("misspelt", "ProvisioningFailed", "onDelte")
    report.ok("a parameter that is none is told at the claim", said.splitlines()[0][-60:])
    # A file system cannot be several nodes' to write.
    world.claim("several", block=False, modes=["ReadWriteMany"])
    said = world.said("several", "ProvisioningFailed", "")
    report.ok("so is what the driver cannot do", said.splitlines()[0][-80:])
    for name in ("misspelt", "several"):
        report.equal(world.api.get("PersistentVolumeClaim", name)["status"]["phase"], "Pending", f"claim {name}")
        world.api.delete("PersistentVolumeClaim", name)
        until_gone(world.api, "PersistentVolumeClaim", name)
    world.api.delete("StorageClass", "misspelt")
    report.equal(len(world.storage.volumes()), before, "volumes as before")


def room(world):
    report, api = world.report, world.api

    def free():
        return world.storage.pool()["free_bytes"] // COPIES

    def look():
        found = [one for one in api.list("CSIStorageCapacity", "amita-csi") if one["storageClassName"] == LATE]
        # Within a fiftieth: what volumes take changes between two looks.
        return found[0] if found and abs(kube.size(found[0].get("capacity", "0")) - free()) <= free() // 50 else None

    # The provisioner asks once a minute.
    told, took = until("a CSIStorageCapacity tells what is free in the pool", 150, look)
    report.check(kube.size(told["capacity"]) > 0, "how much room there is, is told to the scheduler",
                 f"{kube.size(told['capacity']) // MIB} MiB, in the pool {free() // MIB}; after {took:.1f} s")
    owner = told["metadata"]["ownerReferences"][0]
    report.equal((owner["kind"], owner["name"]), ("Deployment", "amita-csi-controller"), "whose that record is")
    report.equal(told.get("nodeTopology"), {}, "it is of all nodes")
    # And the claim that waits for it.
    world.claim("late", storage_class=LATE)
    waits = stays(3, lambda: api.get("PersistentVolumeClaim", "late")["status"]["phase"] == "Pending")
    report.check(waits and not world.storage.of_claim("late"), "a claim that waits for its pod is not made before", "3 s")
    api.change("PersistentVolumeClaim", "late", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": world.machines[0].name}}})
    _, volume, took = world.bound("late")
    report.check(not volume["spec"].get("nodeAffinity"), "it is bound when a node was chosen, and is reached from all", f"{took:.2f} s")
    world.delete_claim("late")


def kept(world):
    """reclaimPolicy Retain, and how it is had back."""
    report, api = world.report, world.api
    claim, volume, _ = world.made("kept", storage_class=KEPT)
    name = volume["metadata"]["name"]
    api.delete("PersistentVolumeClaim", "kept")
    until_gone(api, "PersistentVolumeClaim", "kept")
    until("its volume is released", 30, lambda: api.get("PersistentVolume", name)["status"]["phase"] == "Released")
    report.check(stays(3, lambda: world.behind(volume) is not None), "a volume that is to be retained stays when its claim is deleted", "Released")
    api.delete("PersistentVolume", name)
    until_gone(api, "PersistentVolume", name)
    report.check(stays(3, lambda: world.behind(volume) is not None), "and when its persistent volume is deleted by hand")
    spec = {key: volume["spec"][key] for key in ("capacity", "accessModes", "volumeMode", "storageClassName", "csi")}
    spec |= {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"namespace": "default", "name": "again"}}
    api.make("PersistentVolume", {"metadata": {"name": "again", "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}}, "spec": spec})
    world.claim("again", storage_class=KEPT)
    again, volume, took = world.bound("again")
    report.equal(again["spec"]["volumeName"], "again", "another claim has it by its handle")
    world.delete_claim("again")
    report.check(world.behind(volume) is None, "and it goes with that, where its policy is Delete")


CHAPTERS = [("claims are bound", bound), ("claims that cannot be", refused), ("room, and claims that wait for pods", room), ("volumes that are retained", kept)]
