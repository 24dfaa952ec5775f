"""What holds for the whole run: rights, memory, logs."""

import collections
import re

from controllers import NAME, NAMESPACE

# Where the CRDs of groups of snapshots are there, and the manifest has not said that it has groups, the snapshotter asks for them once as it
# begins, is refused, and goes on without.
EXPECTED = {("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents", "list")}


def rights(world):
    """Nothing was refused to the controller, so that no right is missing; and which rights it has not used."""
    report = world.report
    requests = world.plane.requests()
    report.check(len(requests) > 50, "requests of the controller that were looked at", f"{len(requests)}")
    refused, used = collections.Counter(), set()
    for one in requests:
        thing = one.get("objectRef")
        if not thing:
            continue
        resource = thing["resource"] + (f"/{thing['subresource']}" if thing.get("subresource") else "")
        what = (thing.get("apiGroup", ""), resource, one["verb"])
        used.add(what)
        if one.get("responseStatus", {}).get("code") == 403 and what not in EXPECTED:
            refused[what] += 1
    report.equal(dict(refused), {}, "rights that were missing")
    given = set()
    for kind, namespace in (("ClusterRole", None), ("Role", NAMESPACE)):
        for rule in world.api.get(kind, NAME, namespace)["rules"]:
            given |= {(group, resource, verb) for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]}
    report.check(len(given & used) > 15, "rights that were used", f"{len(given & used)} of {len(given)}")
    unused = collections.defaultdict(list)
    for group, resource, verb in sorted(given - used):
        unused[f"{resource}.{group}" if group else resource].append(verb)
    report.note("not used in this run: " + "; ".join(f"{resource} {' '.join(verbs)}" for resource, verbs in unused.items()))


def memory(world):
    world.controllers.note_memory()
    for container in world.controllers.containers():
        peak, limit = container.process.peak_kib, container.limit_kib()
        world.report.check(0 < peak < limit, f"memory of {container.pod.name[-5:]} {container.name}", f"{peak // 1024} MiB at most, of {limit // 1024}")


def logs(world):
    """Nobody has ended who was not killed, and the driver has not panicked."""
    report = world.report
    report.equal([process.name for process in world.processes.dead()], [], "processes that have ended by themselves")
    looked_at = 0
    for container in world.controllers.containers():
        text = container.process.log.read_text(errors="replace")
        looked_at += len(text)
        found = re.search(r".*(panicked at|^panic: |fatal error: ).*", text, re.MULTILINE)
        report.check(found is None, f"no panic in the log of {container.pod.name[-5:]} {container.name}", found[0] if found else f"{len(text.splitlines())} lines")
    report.check(looked_at > 1000, "logs that were looked at", f"{looked_at} bytes")
    driver = [container for container in world.controllers.containers() if container.name == "amita"]
    errors = [line for container in driver for line in container.process.log.read_text(errors="replace").splitlines() if re.search(r"\bERROR\b", line)]
    report.equal(errors, [], "errors that the driver tells of")


CHAPTERS = [("rights of the controller", rights), ("memory of its containers", memory), ("logs and processes", logs)]
