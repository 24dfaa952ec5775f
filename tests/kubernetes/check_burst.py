"""Claims that come all at one time, attached, detached and deleted; controllers are killed in the middle of each storm."""

import collections
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import kube
from machines import attach
from report import Failed, spread
from world import MIB, NOW

# Requests of ours under way at one time.
HANDS = 8
# So long nothing may happen: a lease that is left by one that was killed lasts 15 s, and sidecars wait for 30 s at most before they try again.
QUIET_SECONDS = 180


class Storm:
    """Things of a kind that are to get somewhere. When each did is taken from a watch."""

    def __init__(self, world, kind, is_there):
        self.world, self.kind, self.is_there = world, kind, is_there
        self.asked, self.there = {}, {}
        self.ended, self.broken, self.all_done = threading.Event(), None, None
        _, version = world.api.listed(kind)
        self.watcher = threading.Thread(target=self._watch, args=(version,), daemon=True)
        self.watcher.start()

    def _watch(self, version):
        try:
            self.world.api.watch(self.kind, version, self._handle, self.ended)
        except Exception as why:  # noqa: BLE001 - whoever waits tells it
            self.broken = why

    def _handle(self, event, thing):
        name = thing["metadata"]["name"]
        if name in self.asked and name not in self.there and self.is_there(event, thing):
            self.there[name] = time.monotonic()

    def run(self, names, ask, done, at_half):
        """Asks for each, does `at_half` when the driver has done a half (`done` tells how many it has), and waits for all. How long that took."""
        begun = time.monotonic()

        def one(name):
            self.asked[name] = time.monotonic()
            ask(name)

        with ThreadPoolExecutor(HANDS) as hands:
            asking = [hands.submit(one, name) for name in names]
            half = self._in_the_middle(len(names), done)
            at_half()
            for one_asked in asking:
                one_asked.result()
        self._wait(len(names), done)
        self.ended.set()
        self.watcher.join(10)
        took = [self.there[name] - self.asked[name] for name in names]
        lasted = max(self.there.values()) - begun
        figures = f"in {lasted:.1f} s, each: {spread(took)}; the driver had done all after {self.all_done - begun:.1f} s, killed when it had done {half}"
        return len(took), figures

    def _in_the_middle(self, count, done):
        """Until the driver has done a half; how many it has done then."""
        had, since = 0, time.monotonic()
        while (now := done()) < count // 2:
            if now > had:
                had, since = now, time.monotonic()
            if time.monotonic() - since > QUIET_SECONDS:
                raise Failed(f"{now} of {count} are done, and nothing has happened for {QUIET_SECONDS} s")
            time.sleep(0.01)
        if now >= count:
            raise Failed(f"all {count} were done before anybody could be killed in their middle")
        return now

    def _wait(self, count, done):
        """Until all are there; and notes when the driver has done its part."""
        had, since = 0, time.monotonic()
        while len(self.there) < count or not self.all_done:
            if not self.all_done and done() >= count:
                self.all_done = time.monotonic()
            if self.broken:
                raise RuntimeError(f"the watch has ended: {self.broken}")
            now = len(self.there)
            if now > had:
                had, since = now, time.monotonic()
            if time.monotonic() - since > QUIET_SECONDS:
                missing = sorted(set(self.asked) - set(self.there))
                raise RuntimeError(f"{now} of {count} are there, and nothing has happened for {QUIET_SECONDS} s; missing: {missing[:3]}; "
                                   f"{self.world.events(missing[0]) if missing else ''}")
            time.sleep(0.25)


class Killing:
    """Kills the pod that leads, or all; whoever lives goes on."""

    def __init__(self, world):
        self.world = world
        self.killed = 0

    def leading(self):
        """The others take over: it comes back when all is done."""
        lead, _ = self.world.controllers.leading()
        lead.kill()
        self.killed += 1
        self.world.report.note(f"killed: {lead.name}, which leads, with its sidecars")
        self.away = [lead]

    def all(self):
        """All at once, and kubelet starts them anew."""
        for pod in self.world.controllers.pods:
            pod.kill()
        for pod in self.world.controllers.pods:
            pod.start()
        self.killed += 1
        self.world.report.note("killed: both controllers with their sidecars, and started anew")
        self.away = []

    def back(self):
        for pod in self.away:
            pod.start()
        self.away = []
        self.world.controllers.started()


def burst(world):
    count = world.options.claims
    attached = min(count, world.options.attachments)
    report, api, storage = world.report, world.api, world.storage
    before = storage.volumes()
    names = [f"burst-{number:04}" for number in range(count)]
    killing = Killing(world)

    volumes = lambda: len(storage.volumes()) - len(before)
    hosts = lambda: sum(1 for found in storage.subsystems().values() if found)

    storm = Storm(world, "PersistentVolumeClaim", lambda _, claim: claim["status"].get("phase") == "Bound")
    there, figures = storm.run(names, lambda name: world.claim(name, storage_class=NOW), volumes, killing.leading)
    report.check(there == count, f"{count} claims are bound", figures)
    killing.back()
    of_claims = all_bound(world, names, before)

    chosen = names[:attached]
    machine = {name: world.machines[number % len(world.machines)] for number, name in enumerate(chosen)}
    storm = Storm(world, "VolumeAttachment", lambda _, one: one.get("status", {}).get("attached", False))
    there, figures = storm.run(chosen, lambda name: attach(api, name, of_claims[name], machine[name]), hosts, killing.all)
    report.check(there == attached, f"{attached} volumes are attached", figures)
    killing.back()
    each_its_own(world, {of_claims[name]: machine[name].host for name in chosen})

    storm = Storm(world, "VolumeAttachment", lambda event, _: event == "DELETED")
    there, figures = storm.run(chosen, lambda name: api.delete("VolumeAttachment", name), lambda: attached - hosts(), killing.leading)
    report.check(there == attached, f"{attached} volumes are detached", figures)
    killing.back()
    report.equal(storage.subsystems(), {}, "subsystems that are left")

    by_volume = {volume: name for name, volume in of_claims.items()}
    storm = Storm(world, "PersistentVolume", lambda event, _: event == "DELETED")
    there, figures = storm.run(
        list(by_volume), lambda volume: api.delete("PersistentVolumeClaim", by_volume[volume]), lambda: count - volumes(), killing.all)
    report.check(there == count, f"{count} claims and their volumes are deleted", figures)
    killing.back()
    report.equal(killing.killed, 4, "storms in which controllers were killed")
    nothing_left(world, before)


def each_its_own(world, wanted):
    """Each volume is its machine's, and nobody else's."""
    numbers = {volume["name"]: volume["id"] for volume in world.storage.volumes()}
    hosts = world.storage.subsystems()
    wrong = [volume for volume, host in wanted.items() if hosts.get(numbers[volume]) != [host]]
    world.report.check(not wrong and len(hosts) == len(wanted), "each is its machine's, and nobody else's",
                       f"{len(hosts)} subsystems{f'; wrong: {wrong[:3]}' if wrong else ''}")


def all_bound(world, names, before):
    """Each claim has its volume, once. What each has."""
    report = world.report
    claims = {claim["metadata"]["name"]: claim for claim in world.api.list("PersistentVolumeClaim")}
    volumes = {volume["metadata"]["name"]: volume for volume in world.api.list("PersistentVolume")}
    of_claims = {name: claims[name]["spec"]["volumeName"] for name in names}
    report.equal(len(set(of_claims.values())), len(names), "persistent volumes of them")
    report.equal(len(volumes), len(names), "persistent volumes that there are")
    handles = collections.Counter(volumes[volume]["spec"]["csi"]["volumeHandle"] for volume in of_claims.values())
    report.check(max(handles.values()) == 1 and len(handles) == len(names), "no two have the same", f"{len(handles)} handles")
    there = world.storage.volumes()
    report.equal(len(there) - len(before), len(names), "volumes that Amita has more than before")
    by_claim = collections.Counter(volume["labels"].get("csi.storage.k8s.io/pvc/name") for volume in there)
    twice = [name for name in names if by_claim[name] != 1]
    report.check(not twice, "each claim has one there", f"{sum(by_claim[name] for name in names)}{f'; not so: {twice[:3]}' if twice else ''}")
    known = {f"{volume['id']}:{volume['name']}": volume for volume in there}
    wrong = [handle for handle in handles if handle not in known or known[handle]["size_bytes"] != 64 * MIB]
    report.check(not wrong, "and it is the one that Kubernetes has, of its size", f"{len(handles) - len(wrong)} of {len(handles)}")
    return of_claims


def nothing_left(world, before):
    report = world.report
    for kind in ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment"):
        report.equal([thing["metadata"]["name"] for thing in world.api.list(kind)], [], f"{kind}s that are left")
    names = lambda volumes: sorted(volume["name"] for volume in volumes)
    report.equal(names(world.storage.volumes()), names(before), "volumes that are left")
    kept = [one["name"] for one in world.storage.deleted() if one.get("labels", {}).get("csi.storage.k8s.io/pvc/name", "").startswith("burst-")]
    report.equal(kept, [], "of them in the recycle bin (onDelete: now)")
    report.equal(len(world.storage.snapshots()), 0, "snapshots that are left")


CHAPTERS = [("a burst of claims, and killed controllers", burst)]
