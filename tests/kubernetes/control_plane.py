"""A control plane of Kubernetes: etcd, kube-apiserver and kube-controller-manager, as processes on loopback. There is no kubelet and no scheduler."""

import json
import secrets

import kube
from pki import Authority, new_key
from processes import run
from report import until

# Those that claims, pods and their volumes need; what they are called by --controllers.
CONTROLLERS = [
    "persistentvolume-binder-controller", "persistentvolume-attach-detach-controller", "persistentvolume-expander-controller",
    "persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller", "volumeattributesclass-protection-controller",
    "ephemeral-volume-controller", "serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
    "namespace-controller", "garbage-collector-controller", "deployment-controller", "replicaset-controller", "statefulset-controller",
    "disruption-controller", "taint-eviction-controller", "pod-garbage-collector-controller",
]
START_PATIENCE = 90


class ControlPlane:
    def __init__(self, processes, tools, folder, manager_qps):
        self.processes, self.tools, self.folder, self.manager_qps = processes, tools, folder, manager_qps
        folder.mkdir()
        self.authority = Authority(folder / "pki")
        self.port = processes.ports.free()
        self.tokens = {name: secrets.token_hex(16) for name in ("admin", "manager")}
        self.audit = folder / "audit.log"
        # A thousand claims are some hundred MB of it.
        self.api = kube.Api(self.port, self.authority.certificate, self.tokens["admin"])

    def start(self, watched):
        """`watched`: the users whose requests are kept."""
        self._etcd()
        self._server(watched)
        self._manager()

    def _etcd(self):
        client, peer = self.processes.ports.free(), self.processes.ports.free()
        self.etcd = f"http://127.0.0.1:{client}"
        self.processes.start("etcd", [
            self.tools / "etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", self.etcd, "--advertise-client-urls", self.etcd,
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--log-level", "warn",
        ])

    def _server(self, watched):
        certificate, key = self.authority.server("kube-apiserver")
        accounts = self.folder / "accounts.pem"
        new_key("RSA", accounts)
        self.accounts = accounts
        users = self.folder / "tokens.csv"
        users.write_text(f'{self.tokens["admin"]},admin,admin,"system:masters"\n{self.tokens["manager"]},system:kube-controller-manager,manager\n')
        users.chmod(0o600)
        policy = self.folder / "audit.json"
        policy.write_text(json.dumps({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [{"level": "Metadata", "users": watched}, {"level": "None"}],
        }))
        self.processes.start("kube-apiserver", [
            self.tools / "kube-apiserver", f"--etcd-servers={self.etcd}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}", f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", "--authorization-mode=RBAC",
            f"--token-auth-file={users}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={accounts}", f"--service-account-key-file={accounts}", "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none", "--allow-privileged=true", "--profiling=false",
            f"--audit-log-path={self.audit}", f"--audit-policy-file={policy}", "--audit-log-maxsize=2000",
        ])
        until("kube-apiserver is ready", START_PATIENCE, self._is_ready)
        # Roles and priority classes that it makes itself.
        until("its own roles are there", START_PATIENCE, lambda: self.api.find("ClusterRole", "system:kube-controller-manager"))

    def _is_ready(self):
        self._all_live()
        try:
            return self.api.ask("GET", "/readyz") == "ok"
        except (OSError, kube.Refused):
            return False

    def _all_live(self):
        for process in self.processes.dead():
            raise RuntimeError(f"{process.name} has ended:\n{process.last_words()}")

    def _manager(self):
        configuration = self.folder / "manager.kubeconfig"
        configuration.write_text(kube.configuration(self.port, self.authority.certificate, self.tokens["manager"]))
        configuration.chmod(0o600)
        self.processes.start("kube-controller-manager", [
            self.tools / "kube-controller-manager", f"--kubeconfig={configuration}", f"--authentication-kubeconfig={configuration}",
            f"--authorization-kubeconfig={configuration}", "--bind-address=127.0.0.1", f"--secure-port={self.processes.ports.free()}",
            f"--cert-dir={self.folder / 'manager'}", f"--service-account-private-key-file={self.accounts}",
            f"--root-ca-file={self.authority.certificate}", "--use-service-account-credentials=true", "--leader-elect=false",
            f"--controllers={','.join(CONTROLLERS)}", "--profiling=false",
            f"--kube-api-qps={self.manager_qps}", f"--kube-api-burst={self.manager_qps * 3 // 2}",
        ])
        until("namespaces have accounts", START_PATIENCE, lambda: self.api.find("ServiceAccount", "default"))
        self._all_live()

    def kubectl(self, *words, given=None):
        configuration = self.folder / "admin.kubeconfig"
        if not configuration.exists():
            configuration.touch(0o600)
            configuration.write_text(kube.configuration(self.port, self.authority.certificate, self.tokens["admin"]))
        return run([self.tools / "kubectl", f"--kubeconfig={configuration}", f"--cache-dir={self.folder / 'kubectl'}", *words], given=given)

    def token_of(self, account, namespace, pod=None):
        """A token of a service account, as a pod has it."""
        spec = {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 24 * 3600}
        if pod:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        path = self.api.path("ServiceAccount", account, namespace, "token")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return self.api.ask("POST", path, asked)["status"]["token"]

    def requests(self):
        """What those have asked for who are watched."""
        found = []
        for path in sorted(self.folder.glob("audit*.log")):
            with path.open() as lines:
                found += [json.loads(line) for line in lines if line.endswith("\n")]
        return found
