"""Snapshots, what is made from them, and clones of claims."""

import kube
from machines import until_gone
from report import until
from storage import DRIVER
from world import MIB

SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot"}


def take(world, name, claim):
    spec = {"volumeSnapshotClassName": "amita", "source": {"persistentVolumeClaimName": claim}}
    world.api.make("VolumeSnapshot", {"metadata": {"name": name}, "spec": spec})

    def look():
        found = world.api.get("VolumeSnapshot", name)
        return found if found.get("status", {}).get("readyToUse") else None

    return until(f"snapshot {name} is ready", 60, look)


def drop(world, name):
    content = world.api.get("VolumeSnapshot", name)["status"]["boundVolumeSnapshotContentName"]
    world.api.delete("VolumeSnapshot", name)
    until_gone(world.api, "VolumeSnapshot", name)
    return until_gone(world.api, "VolumeSnapshotContent", content)


def snapshots(world):
    report, api = world.report, world.api
    before = len(world.storage.snapshots())
    _, volume, _ = world.made("disk", mebibytes=64)
    taken, took = take(world, "monday", "disk")
    report.equal(kube.size(taken["status"]["restoreSize"]), 64 * MIB, f"a snapshot is ready after {took:.2f} s; its size")
    content = api.get("VolumeSnapshotContent", taken["status"]["boundVolumeSnapshotContentName"])
    handle = content["status"]["snapshotHandle"]
    report.check(handle.startswith(volume["spec"]["csi"]["volumeHandle"] + "@"), "its handle", handle)
    found = world.storage.ask(f"/volumes/{volume['metadata']['name']}/snapshots/{handle.split('@')[1]}")
    report.check(found is not None, "Amita has it", f"{len(world.storage.snapshots()) - before} more than before")
    _, restored, took = world.made("restored", mebibytes=64, source={**SNAPSHOT, "name": "monday"})
    parent = world.behind(restored)["labels"].get("csi.amita.io/source")
    report.equal(parent, f"snapshot {handle}", f"a claim from it is bound after {took:.2f} s, and begins as it")
    _, larger, _ = world.made("larger", mebibytes=128, source={**SNAPSHOT, "name": "monday"})
    report.equal(world.behind(larger)["size_bytes"], 128 * MIB, "a larger one")
    _, read, _ = world.made("read", mebibytes=64, modes=["ReadOnlyMany"], source={**SNAPSHOT, "name": "monday"})
    report.equal(world.behind(read)["labels"].get("csi.amita.io/read-only"), "1", "one that many only read")
    world.claim("smaller", mebibytes=32, source={**SNAPSHOT, "name": "monday"})
    report.ok("a smaller one is refused", world.said("smaller", "ProvisioningFailed", "").splitlines()[0][-80:])
    api.delete("PersistentVolumeClaim", "smaller")
    # The source goes first: what was taken of it stays.
    world.delete_claim("disk")
    gone = world.behind(volume)
    report.equal(gone and gone["name"], f"csi-gone-{world.number_of(volume)}", "a volume that was deleted waits for its snapshot as")
    _, late, _ = world.made("late", mebibytes=64, source={**SNAPSHOT, "name": "monday"})
    report.equal(world.behind(late)["labels"].get("csi.amita.io/source"), f"snapshot {handle}", "and a claim from that is bound still")
    took = drop(world, "monday")
    report.check(world.behind(volume) is None, "it goes with its last snapshot", f"{took:.2f} s")
    for name in ("restored", "larger", "read", "late"):
        report.check(world.behind({"restored": restored, "larger": larger, "read": read, "late": late}[name]) is not None, f"claim {name} has its volume still")
        world.delete_claim(name)
    report.equal(len(world.storage.snapshots()), before, "snapshots as before")


def clones(world):
    report = world.report
    before = len(world.storage.snapshots())
    _, volume, _ = world.made("disk", mebibytes=64)
    _, clone, took = world.made("clone", mebibytes=96, source={"kind": "PersistentVolumeClaim", "name": "disk"})
    found = world.behind(clone)
    report.equal(found["size_bytes"], 96 * MIB, f"a larger clone of a claim is bound after {took:.2f} s; its size")
    report.equal(found["labels"].get("csi.amita.io/source"), f"volume {volume['spec']['csi']['volumeHandle']}", "it begins as that")
    report.equal(len(world.storage.snapshots()), before, "no snapshot is left of it")
    finalizers = world.api.get("PersistentVolumeClaim", "disk")["metadata"]["finalizers"]
    report.check(any("cloning" in one for one in finalizers), "the source is held while clones of it are made", finalizers)
    # And let go of when it is deleted, and none of its clones is pending.
    world.delete_claim("disk")
    report.check(world.behind(clone) is not None, "it outlives its source")
    world.delete_claim("clone")


def groups(world):
    """Several claims at one moment."""
    report, api = world.report, world.api
    before = len(world.storage.snapshots())
    api.make("VolumeGroupSnapshotClass", {"metadata": {"name": "amita"}, "driver": DRIVER, "deletionPolicy": "Delete"})
    volumes = {}
    for name in ("data", "log", "other"):
        _, volumes[name], _ = world.made(name, mebibytes=64)
    for name in ("data", "log"):
        api.change("PersistentVolumeClaim", name, {"metadata": {"labels": {"group": "database"}}})
    spec = {"volumeGroupSnapshotClassName": "amita", "source": {"selector": {"matchLabels": {"group": "database"}}}}
    api.make("VolumeGroupSnapshot", {"metadata": {"name": "monday"}, "spec": spec})

    def look():
        found = api.get("VolumeGroupSnapshot", "monday")
        return found if found.get("status", {}).get("readyToUse") else None

    group, took = until("the group is ready", 90, look)
    members, _ = until("it has its snapshots", 60, lambda: len(found := api.list("VolumeSnapshot")) == 2 and found)
    of_claims = {one["spec"]["source"].get("persistentVolumeClaimName"): one["metadata"]["name"] for one in members}
    report.ok("a group of snapshots is ready", f"{took:.1f} s, {len(members)} snapshots")
    taken = [one for one in world.storage.snapshots() if one["set"] is not None]
    wanted = sorted(volumes[name]["metadata"]["name"] for name in ("data", "log"))
    report.equal(sorted(one["volume"] for one in taken), wanted, "Amita has one of each volume of the group, and of no other")
    report.check(len({one["set"] for one in taken}) == 1, "and both are of one moment", f"set {taken[0]['set']}")
    content = group["status"]["boundVolumeGroupSnapshotContentName"]
    handles = {}
    for one in members:
        found = api.get("VolumeSnapshot", one["metadata"]["name"])["status"]["boundVolumeSnapshotContentName"]
        handles[one["metadata"]["name"]] = api.get("VolumeSnapshotContent", found)["status"]["snapshotHandle"]
    one = of_claims.get("log") or next(name for name, handle in handles.items() if volumes["log"]["spec"]["csi"]["volumeHandle"] in handle)
    _, restored, _ = world.made("restored", mebibytes=64, source={**SNAPSHOT, "name": one})
    report.equal(world.behind(restored)["labels"].get("csi.amita.io/source"), f"snapshot {handles[one]}", "a claim is made from one of them")
    api.delete("VolumeGroupSnapshot", "monday")
    until_gone(api, "VolumeGroupSnapshot", "monday")
    until_gone(api, "VolumeGroupSnapshotContent", content)
    until("its snapshots are gone", 60, lambda: not api.list("VolumeSnapshot") and not api.list("VolumeSnapshotContent"))
    report.equal(len(world.storage.snapshots()), before, "snapshots as before, when the group is deleted")
    for name in (*volumes, "restored"):
        world.delete_claim(name)
    api.delete("VolumeGroupSnapshotClass", "amita")


# Of a chart that has them.
GROUPS = [("groups of snapshots", groups)]
CHAPTERS = [("snapshots", snapshots), ("clones of claims", clones)]
