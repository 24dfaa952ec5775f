"""The chart of the cluster itself at a real control plane: admission takes it, and the controllers of Kubernetes carry its update out."""

import subprocess
import time

import check_nodes_chart
import kube
from control_plane import ControlPlane
from kubelet import Kubelet
from processes import run
from report import Failed, until

NAMESPACE, OPEN = "amita", "amita-open"
PATIENCE = 300


def rendered(given, chart, values, namespace, *more):
    return run([given.helm, "template", "amita", chart, "--namespace", namespace, "--kube-version", "1.37.0", "--values", values, *more])


def admission(cluster, report):
    """Everything is taken by a server's dry run; pods by Pod Security's admission where they say so, and refused where they must be."""
    given, chart = cluster.given, cluster.chart
    plane = cluster.plane = ControlPlane(cluster.processes, given.tools, given.work / "kubernetes", 50)
    plane.start([])
    report.ok("a control plane of Kubernetes", plane.api.ask("GET", "/version")["gitVersion"])
    for name, level in ((NAMESPACE, "restricted"), (OPEN, "privileged")):
        plane.kubectl("create", "namespace", name)
        plane.kubectl("label", "namespace", name, f"pod-security.kubernetes.io/enforce={level}")
        until("it has its account", 60, lambda name=name: plane.api.find("ServiceAccount", "default", name))
    for values in check_nodes_chart.sets(chart):
        is_restricted = values.stem in ("least", "cert-manager")
        for namespace in (NAMESPACE, OPEN):
            found = cluster.documents(given.helm, rendered(given, chart, values, namespace), given.work)
            for thing in found:
                if thing["kind"] not in check_nodes_chart.NOT_KNOWN:
                    plane.kubectl("create", "--dry-run=server", "-f", "-", given=kube.json.dumps(thing))
                if thing["kind"] == "StatefulSet":
                    taken = pod_is_taken(plane, namespace, thing)
                    wanted = namespace == OPEN or is_restricted or not thing["metadata"]["name"].endswith("-node")
                    if (taken is None) != wanted:
                        raise Failed(f"{values.stem}, {thing['metadata']['name']} in {namespace}: {taken or 'was taken'}")
        report.ok(f"values {values.stem} are taken by the server", "its nodes by the profile restricted" if is_restricted else "its nodes by privileged alone")


def pod_is_taken(plane, namespace, thing):
    """What admission says of a pod of it; none: it is taken."""
    template = thing["spec"]["template"]
    spec = dict(template["spec"])
    # The account is the chart's, and is not there yet.
    spec["serviceAccountName"] = "default"
    spec["volumes"] = spec["volumes"] + [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} for claim in thing["spec"]["volumeClaimTemplates"]]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried", "namespace": namespace, "labels": template["metadata"]["labels"]}, "spec": spec}
    try:
        plane.api.ask("POST", plane.api.path("Pod", "", namespace) + "?dryRun=All", pod)
    except kube.Refused as why:
        return str(why)
    return None


def begins(cluster, report):
    plane, given = cluster.plane, cluster.given
    stays = {}

    def address(name):
        # A Service stays where it is; pods of nodes do not.
        if "-node-" in name:
            return cluster.address()
        if name not in stays:
            stays[name] = cluster.address()
            cluster.volumes.name(name.rsplit("-", 1)[0], stays[name])
        return stays[name]

    cluster.kubelet = Kubelet(plane, cluster.volumes, NAMESPACE, cluster.secrets, address, cluster.processes.logs)
    text = rendered(given, cluster.chart, cluster.chart / "ci/least.yaml", NAMESPACE)
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", given=text)
    names = ["amita-authority-0", "amita-metadata-0", *(f"amita-node-{number}" for number in range(3))]
    until("all pods are there", 60, lambda: set(names) <= cluster.kubelet.pods.keys())
    cluster.authority = cluster.kubelet.pods["amita-authority-0"]
    until("the authority is ready", PATIENCE, lambda: ("ready", "amita-authority-0") in cluster.kubelet.events)
    folder = given.work / "tokens"
    folder.mkdir()
    for name in ["metadata", *names[2:]]:
        (folder / name).write_text(cluster.token(name))
    plane.kubectl("-n", NAMESPACE, "create", "secret", "generic", "amita-join", f"--from-file={folder}")
    wait_for_nodes(cluster)
    plane.kubectl("-n", NAMESPACE, "delete", "secret", "amita-join")
    cluster.nodes = [cluster.kubelet.pods[name] for name in names[2:]]
    cluster.metadata = cluster.kubelet.pods["amita-metadata-0"]
    report.ok("pods of StatefulSets have joined by the Secret, and are ready", "3 nodes")


def wait_for_nodes(cluster):
    def look():
        if cluster.kubelet.failures:
            raise Failed("; ".join(cluster.kubelet.failures))
        if cluster.load:
            cluster.load.must_go_on()
        found = cluster.plane.api.get("StatefulSet", "amita-node", NAMESPACE)
        status = found["status"]
        return (status.get("observedGeneration") == found["metadata"]["generation"] and status.get("availableReplicas") == 3
                and status.get("updatedReplicas") == 3 and status.get("currentRevision") == status.get("updateRevision"))

    return until("the StatefulSet is updated, and all of it available", PATIENCE, look, 0.5)[1]


def evict(plane, name):
    """None: it was let go."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    try:
        plane.api.ask("POST", plane.api.path("Pod", name, NAMESPACE, "eviction"), body)
    except kube.Refused as why:
        return why
    return None


def update(cluster, report):
    """An update by the StatefulSet's own controller, and somebody who empties a machine in its middle."""
    plane, kubelet = cluster.plane, cluster.kubelet
    before = len(kubelet.events)
    # What is changed: the arguments of the nodes.
    values = ["--set", "nodes.extraArgs={--scrub-days=7}"]
    text = rendered(cluster.given, cluster.chart, cluster.chart / "ci/least.yaml", NAMESPACE, *values)
    begun = time.monotonic()
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", given=text)
    until("the first node has gone", PATIENCE, lambda: ("gone", "amita-node-2") in kubelet.events[before:])
    why = evict(plane, "amita-node-0")
    report.check(why is not None and why.status == 429, "who empties another machine meanwhile is put off by the budget", str(why))
    wait_for_nodes(cluster)
    took = time.monotonic() - begun
    happened = [(what, name) for what, name in kubelet.events[before:] if "-node-" in name and what in ("gone", "ready")]
    wanted = [(what, f"amita-node-{number}") for number in (2, 1, 0) for what in ("gone", "ready")]
    report.equal(happened, wanted, "one node after the other, each when the one before was in sync")
    report.ok("the update of three nodes", f"{took:.0f} s, with {cluster.found_min_ready} s behind each")
    cluster.nodes = [kubelet.pods[pod.name] for pod in cluster.nodes]
    for pod in cluster.nodes:
        words = subprocess.run(["cat", f"/proc/{pod.inner(pod.child)}/cmdline"], stdout=subprocess.PIPE, check=True).stdout.split(b"\0")
        if b"--scrub-days=7" not in words:
            raise Failed(f"{pod.name} runs with {words}")
    report.ok("each runs with what was changed")


def emptied(cluster, report):
    """A machine is emptied: its node goes by the budget, and the next one only when it is back."""
    plane, kubelet = cluster.plane, cluster.kubelet
    before = len(kubelet.events)
    report.equal(evict(plane, "amita-node-1"), None, "a node is evicted when all are in sync")
    until("it has gone", PATIENCE, lambda: ("gone", "amita-node-1") in kubelet.events[before:])
    why = evict(plane, "amita-node-2")
    report.check(why is not None and why.status == 429, "the next one is not, while that is away", str(why))
    wait_for_nodes(cluster)
    until("the next one may go", 60, lambda: evict(plane, "amita-node-2") is None, 1)
    until("it has gone", PATIENCE, lambda: ("gone", "amita-node-2") in kubelet.events[before:])
    wait_for_nodes(cluster)
    report.ok("and is, when that is back and in sync")
    cluster.nodes = [kubelet.pods[pod.name] for pod in cluster.nodes]


def one_more_disk(cluster, report):
    """What an upgrade alone cannot do, as the chart's README says how it is done."""
    plane, kubelet = cluster.plane, cluster.kubelet
    disks = ",".join(f"nodes.disks[{number}].size=1Ti,nodes.disks[{number}].storageClassName=amita-local" for number in range(2))
    # With what the update before this has changed.
    text = rendered(cluster.given, cluster.chart, cluster.chart / "ci/least.yaml", NAMESPACE, "--set", f"{disks},nodes.extraArgs={{--scrub-days=7}}")
    try:
        plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", given=text)
    except RuntimeError as why:
        # By its words up to Kubernetes 1.36, and since.
        is_it = "updates to statefulset spec" in str(why) or "spec.volumeClaimTemplates: Invalid value" in str(why)
        report.check(is_it, "an upgrade alone is refused", str(why).splitlines()[-1][:150])
    else:
        report.fail("an upgrade with one more disk of each node was taken")
    plane.kubectl("-n", NAMESPACE, "delete", "statefulset", "amita-node", "--cascade=orphan")
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", given=text)
    for number in range(3):
        before, name = len(kubelet.events), f"amita-node-{number}"
        until(f"{name} may go", 60, lambda name=name: evict(plane, name) is None, 1)
        until(f"{name} is ready", PATIENCE, lambda before=before, name=name: ("ready", name) in kubelet.events[before:] or kubelet.failures)
        cluster.load.must_go_on()
    wait_for_nodes(cluster)
    cluster.nodes = [kubelet.pods[pod.name] for pod in cluster.nodes]
    # Of each of them a pod says that it serves before it is ready.
    found = [len(pod.environment(pod.main)["AMITA_STORES"].split(",")) for pod in cluster.nodes]
    report.equal(found, [2, 2, 2], "each node has another disk, when its pod was made anew")
