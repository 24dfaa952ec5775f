"""What the manifest makes, as docs/orchestrators/kubernetes.md says it is installed; and that its controllers begin."""

import re
from pathlib import Path

import kube
from controllers import NAME, NAMESPACE, Controllers, ControllerPod
from machines import Machine
from processes import run
from report import until
from storage import DRIVER

DEPLOY = Path(__file__).parents[2] / "deploy"
WATCHED = [f"system:serviceaccount:{NAMESPACE}:{NAME}"]


def snapshot_controller(plane, processes):
    """The CRDs, and the controller of snapshots, of which a Kubernetes has one whatever drivers it has."""
    plane.kubectl("create", "-f", plane.tools / "crds")
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    plane.kubectl("apply", "-f", plane.tools / "rbac-snapshot-controller.yaml")
    configuration = plane.folder / "snapshot-controller.kubeconfig"
    configuration.touch(0o600)
    token = plane.token_of("snapshot-controller", "kube-system")
    configuration.write_text(kube.configuration(plane.port, plane.authority.certificate, token))
    processes.start("snapshot-controller", [
        plane.tools / "snapshot-controller", f"--kubeconfig={configuration}", "--leader-election=true", "--leader-election-namespace=kube-system"])


def manifest(helm, *more):
    """The plain one; or, with Helm, that of the chart with groups of snapshots."""
    if not helm:
        return (DEPLOY / "kubernetes/amita-csi.yaml").read_text()
    values = [word for value in ("sidecars.snapshotter.groups=true", *more) for word in ("--set", value)]
    return run([helm, "template", "amita-csi", DEPLOY / "helm/amita-csi", "--namespace", NAMESPACE, "--kube-version", "1.37.0",
                "--values", DEPLOY / "kubernetes/values.yaml", *values])


def upgrades(plane, report, helm):
    """What may be switched later on is taken by the server over what is there, and what may not is as the chart's README says."""
    own = "storageClasses[0].name=amita"
    for value in ("inlineVolumes.enabled=true", "topology.enabled=true,topology.site=one", "node.iscsi.enabled=true",
                  f"{own},storageClasses[1].name=kept,storageClasses[1].reclaimPolicy=Retain"):
        plane.kubectl("apply", "--dry-run=server", "-f", "-", given=manifest(helm, value))
        report.ok("an upgrade is taken", value)
    for value in ("reclaimPolicy=Retain", "volumeBindingMode=WaitForFirstConsumer", "parameters.pool=other"):
        try:
            plane.kubectl("apply", "--dry-run=server", "-f", "-", given=manifest(helm, f"{own},storageClasses[0].{value}"))
        except RuntimeError as why:
            said = str(why).splitlines()[-1]
            report.check("immutable" in said or "updates to" in said, "a class is refused that is another one", f"{value}: {said}")
        else:
            report.fail(f"a class was changed: {value}")


def install(plane, storage, processes, report, given):
    """Applies the manifest, with the addresses of the cluster in it, and starts what its Deployment has."""
    folder = given.work
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged")
    token, authority = storage.write_files(folder)
    plane.kubectl("-n", NAMESPACE, "create", "secret", "generic", "amita-csi", f"--from-file={token}", f"--from-file={authority}")
    text, changed = re.subn(r"--by-api=\S+", f"--by-api={','.join(storage.apis)}", manifest(given.helm))
    report.equal(changed, 1, "addresses in the manifest")
    said = plane.kubectl("apply", "-f", "-", given=text).splitlines()
    report.check(len(said) == text.count("\nkind: ") and all(line.endswith(" created") for line in said), "the manifest is taken as it is", f"{len(said)} things")
    driver = plane.api.get("CSIDriver", DRIVER)["spec"]
    report.check(driver["attachRequired"] and driver["storageCapacity"], "the driver is known", "attachRequired, storageCapacity")
    deployment = plane.api.get("Deployment", NAME, NAMESPACE)
    wanted = deployment["spec"]["replicas"]

    def look():
        found = plane.api.list("Pod", NAMESPACE, label="app.kubernetes.io/component=controller")
        return found if len(found) == wanted else None

    things, _ = until("the Deployment has its pods", 30, look)
    report.check(wanted == 2, "pods of the controller", f"{wanted}")
    hosts = [Machine(plane.api, f"controller-{number}") for number in range(wanted)]
    pods = []
    for host, thing in zip(hosts, things):
        host.run(thing)
        thing = plane.api.get("Pod", thing["metadata"]["name"], NAMESPACE)
        pods.append(ControllerPod(plane, processes, storage.binary, folder, thing))
    for host, pod in zip(hosts, pods):
        pod.start()
        host.started(pod.thing)
    controllers = Controllers(plane, pods)
    leaders, took = controllers.started()
    report.ok("each sidecar has a leader", f"{', '.join(sorted(leaders))}; after {took:.1f} s")
    for pod in pods:
        sidecars = [container.name for container in pod.containers.values() if container.port]
        healthy, _ = until("all sidecars say that they are well", 30, lambda pod=pod, all_of=sidecars: pod.healthy() == all_of and all_of)
        report.check(len(healthy) == 4, "sidecars that say they are well", f"{pod.name}: {', '.join(healthy)}")
    log = pods[0].containers["amita"].process.log
    until("the driver has reached the cluster", 30, lambda: "the cluster answers" in log.read_text(errors="replace"))
    report.ok("the driver reaches the cluster by the token and the authority of its secret")
    available = lambda: plane.api.get("Deployment", NAME, NAMESPACE)["status"].get("availableReplicas") == wanted
    until("the Deployment is available", 30, available)
    report.ok("the Deployment is available", f"{wanted} of {wanted}")
    if given.helm:
        upgrades(plane, report, given.helm)
    return controllers
