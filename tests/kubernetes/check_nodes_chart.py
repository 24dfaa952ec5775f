"""The chart of the cluster itself, as Helm renders it: each set of values, what is refused, and that what it promises is so."""

import json
import re
import subprocess

from processes import run
from report import Failed

HERE = ["--namespace", "amita", "--kube-version", "1.31.0"]
# Others' kinds: the validator has no description of them.
NOT_KNOWN = ["PodMonitor"]
# The newest release whose descriptions the validator has.
KUBERNETES = "1.30"
REFUSED = [
    ("node.replicas=3", "node"), ("nodes.replicas=0", "replicas"), ("nodes.cores=0", "cores"), ("image.digest=", "has no digest"),
    ("image.digest=sha256:12", "digest"), ("image.repository=", "repository"), ("nodes.disks=null", "a node needs a disk"),
    ("nodes.disks[0].size=big", "size"), ("nodes.devices[0]=/dev/sdb", "not both"), ("nodes.devices[0]=sdb", "devices"),
    ("metadata.endpoints[0]=http://etcd:2379", "endpoints"), ("authority.address=ca", "address"), ("authority.cluster=1", "cluster"),
    ("identities.certManager.enabled=true", "issuer is needed"), ("nodes.terminationGracePeriodSeconds=5", "terminationGracePeriodSeconds"),
    ("nodes.seccomp.type=Default", "type"), ("nodes.extraArgs[0]=serve", "extraArgs"), ("nodes.ports.fabric=0", "fabric"),
    ("networkPolicy.enabled=true,nodes.hostNetwork=true", "machine's network"), ("localVolumes.volumes[0].machine=m1", "path"),
]


def refused(words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout if done.returncode else None


def sets(chart):
    return sorted((chart / "ci").glob("*.yaml"))


def every_set(given, chart, report, documents):
    helps = {part: run([given.binary, part, "--help"]) for part in ("serve", "meta")}
    for values in sets(chart):
        run([given.helm, "lint", "--strict", chart, "--values", values])
        yaml = run([given.helm, "template", "amita", chart, *HERE, "--values", values])
        found = documents(given.helm, yaml, given.work)
        folder = given.work / f"validated-{values.stem}"
        folder.mkdir()
        for number, thing in enumerate(found):
            if thing["kind"] not in NOT_KNOWN:
                (folder / f"{number}.json").write_text(json.dumps(thing))
        run([given.validator, "--version", KUBERNETES, folder])
        kinds = {thing["kind"] for thing in found}
        if kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}:
            raise Failed(f"{values.name}: somebody has rights in Kubernetes: {kinds}")
        for thing in found:
            if thing["kind"] == "StatefulSet":
                workload(values.stem, thing, helps)
        report.ok(f"values {values.stem}: lint, rendered, known to Kubernetes {KUBERNETES}", f"{len(found)} things")


def workload(name, thing, helps):
    pod = thing["spec"]["template"]["spec"]
    where = f"{name}, {thing['metadata']['name']}"
    is_node = thing["metadata"]["name"].endswith("-node")
    privileged = name == "devices" and is_node

    def must(is_so, what):
        if not is_so:
            raise Failed(f"{where}: {what}")

    must(pod["automountServiceAccountToken"] is False, "it gets a token of Kubernetes")
    must(privileged or pod["securityContext"]["runAsNonRoot"], "it is root")
    kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
    must(("hostPath" in kinds) == privileged, f"volumes {kinds}")
    containers = pod["containers"] + pod.get("initContainers", [])
    names = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in thing["spec"]["volumeClaimTemplates"]}
    for own in containers:
        must("@sha256:" in own["image"] or name == "devices", f"image {own['image']}")
        security = own["securityContext"]
        if not security.get("privileged"):
            must(security["capabilities"] == {"drop": ["ALL"]} and not security["allowPrivilegeEscalation"] and security["readOnlyRootFilesystem"],
                 f"{own['name']} may more than nothing")
        else:
            must(privileged, f"{own['name']} is privileged")
        mounted = [mount["name"] for mount in own["volumeMounts"] + own.get("volumeDevices", [])]
        must(set(mounted) <= names and len(set(mounted)) == len(mounted), f"{own['name']} mounts {mounted}")
        # What the program reads by itself it knows.
        for variable in own.get("env", []):
            if variable["name"].startswith("AMITA_") and variable["name"] != "AMITA_NODE":
                must(any(f"[env: {variable['name']}=" in text for text in helps.values()), f"amita reads no {variable['name']}")
        for word in own.get("args", []):
            must(word in ("$(POD_NAME)", "metadata", "--follow") or f"{word.split('=')[0]} " in helps["serve"], f"amita serve knows no {word}")
    if is_node:
        spec, main = thing["spec"], pod["containers"][0]
        must(spec["podManagementPolicy"] == "Parallel" and spec["updateStrategy"] == {"type": "RollingUpdate"}, "how it is updated")
        apart = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        must(apart, "two nodes may share a machine")
        left = {variable["name"]: variable.get("value") for variable in main["env"]}
        must(int(left["LEAVE_SECONDS"]) < pod["terminationGracePeriodSeconds"], "no time to end is left")
        must(main["readinessProbe"]["exec"] and main["lifecycle"]["preStop"] and main["startupProbe"] and main["livenessProbe"], "probes")


def refusals(given, chart, report):
    least = chart / "ci/least.yaml"
    for value, words in REFUSED:
        said = refused([given.helm, "template", "amita", chart, *HERE, "--values", least, "--set", value])
        if said is None or words not in said:
            raise Failed(f"--set {value}: {said or 'was taken'}")
    report.ok("values that cannot be are refused", f"{len(REFUSED)}")


def documented(given, chart, report):
    """Each value of the schema is in the README, and each has a default that is checked."""
    schema, text = json.loads((chart / "values.schema.json").read_text()), (chart / "README.md").read_text()
    count = 0
    for top, below in schema["properties"].items():
        if top == "global":
            continue
        for key in below.get("properties", {}) or [None]:
            count += 1
            lines = [line for line in text.splitlines() if f"`{top}" in line]
            if not (any(f"`{top}.{key}" in line or f"`.{key}" in line for line in lines) if key else lines):
                raise Failed(f"README.md says nothing of {top}.{key}")
    report.ok("each value is in README.md", f"{count}")
    for script in sorted((chart / "files").glob("*.sh")):
        run(["dash" if shell_is("dash") else "sh", "-n", script])
    profile = json.loads((chart / "files/seccomp.json").read_text())
    names = {name for rule in profile["syscalls"] for name in rule["names"]}
    if names & {"io_uring_setup", "io_uring_enter", "io_uring_register"} or not {"mount", "ptrace", "bpf", "setns", "unshare"} <= names:
        raise Failed("the profile of seccomp")
    report.ok("scripts are of sh, and the profile of seccomp lets io_uring through")


def shell_is(name):
    return re.search(rf"\b{name}$", run(["readlink", "-f", "/bin/sh"]).strip()) is not None


def play(given, chart, report, documents):
    every_set(given, chart, report, documents)
    refusals(given, chart, report)
    documented(given, chart, report)
