"""The API of Kubernetes, as far as this test asks it."""

import http.client
import json
import ssl
import threading
import urllib.parse

CORE, STORAGE, RBAC = "/api/v1", "/apis/storage.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
SNAPSHOT, GROUP = "/apis/snapshot.storage.k8s.io/v1", "/apis/groupsnapshot.storage.k8s.io/v1"
# Where things are, and whether they lie in a namespace.
KINDS = {
    "Namespace": (CORE, "namespaces", False),
    "Node": (CORE, "nodes", False),
    "Pod": (CORE, "pods", True),
    "Secret": (CORE, "secrets", True),
    "Event": (CORE, "events", True),
    "ServiceAccount": (CORE, "serviceaccounts", True),
    "PersistentVolume": (CORE, "persistentvolumes", False),
    "PersistentVolumeClaim": (CORE, "persistentvolumeclaims", True),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "ReplicaSet": ("/apis/apps/v1", "replicasets", True),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "StorageClass": (STORAGE, "storageclasses", False),
    "CSIDriver": (STORAGE, "csidrivers", False),
    "CSINode": (STORAGE, "csinodes", False),
    "CSIStorageCapacity": (STORAGE, "csistoragecapacities", True),
    "VolumeAttachment": (STORAGE, "volumeattachments", False),
    "VolumeAttributesClass": (STORAGE, "volumeattributesclasses", False),
    "VolumeSnapshot": (SNAPSHOT, "volumesnapshots", True),
    "VolumeSnapshotContent": (SNAPSHOT, "volumesnapshotcontents", False),
    "VolumeSnapshotClass": (SNAPSHOT, "volumesnapshotclasses", False),
    "VolumeGroupSnapshot": (GROUP, "volumegroupsnapshots", True),
    "VolumeGroupSnapshotContent": (GROUP, "volumegroupsnapshotcontents", False),
    "VolumeGroupSnapshotClass": (GROUP, "volumegroupsnapshotclasses", False),
    "ClusterRole": (RBAC, "clusterroles", False),
    "Role": (RBAC, "roles", True),
}
# What claims and pods of this test lie in.
HERE = "default"


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """Asks as one user. Each thread has a connection of its own."""

    def __init__(self, port, authority, token):
        self.port, self.token = port, token
        self.context = ssl.create_default_context(cafile=str(authority))
        self.mine = threading.local()

    def _connection(self, seconds=60):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=seconds)

    def _headers(self, kind=None):
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        if kind:
            headers["Content-Type"] = kind
        return headers

    def ask(self, method, path, body=None, kind="application/json"):
        data = None if body is None else json.dumps(body)
        while True:
            connection = getattr(self.mine, "connection", None)
            is_new = connection is None
            if is_new:
                connection = self.mine.connection = self._connection()
            try:
                connection.request(method, path, data, self._headers(kind if data else None))
                answer = connection.getresponse()
                text = answer.read()
                break
            except (http.client.HTTPException, OSError):
                connection.close()
                self.mine.connection = None
                # One that was kept may have been closed by the server meanwhile.
                if is_new:
                    raise
        if answer.status >= 300:
            try:
                message = json.loads(text)["message"]
            except (ValueError, KeyError):
                message = text.decode(errors="replace")
            raise Refused(answer.status, message)
        return json.loads(text) if text.startswith(b"{") else text.decode(errors="replace")

    @staticmethod
    def path(kind, name="", namespace=HERE, part=""):
        root, plural, is_in_namespace = KINDS[kind]
        place = f"/namespaces/{namespace}" if is_in_namespace and namespace else ""
        return root + place + "/" + "/".join(word for word in (plural, name, part) if word)

    def get(self, kind, name, namespace=HERE):
        return self.ask("GET", self.path(kind, name, namespace))

    def find(self, kind, name, namespace=HERE):
        """None: there is none."""
        try:
            return self.get(kind, name, namespace)
        except Refused as why:
            if why.status == 404:
                return None
            raise

    def list(self, kind, namespace=HERE, label="", field=""):
        return self.listed(kind, namespace, label, field)[0]

    def listed(self, kind, namespace=HERE, label="", field=""):
        """All of a kind, and the version of the list. `namespace` None: of all."""
        items, goes_on = [], ""
        while True:
            query = {"limit": 500, "labelSelector": label, "fieldSelector": field, "continue": goes_on}
            query = urllib.parse.urlencode({key: value for key, value in query.items() if value})
            answer = self.ask("GET", f"{self.path(kind, '', namespace)}?{query}")
            items += answer["items"]
            goes_on = answer["metadata"].get("continue", "")
            if not goes_on:
                return items, answer["metadata"]["resourceVersion"]

    def make(self, kind, thing, namespace=HERE):
        group = KINDS[kind][0].removeprefix("/apis/").removeprefix("/api/")
        return self.ask("POST", self.path(kind, "", namespace), {"apiVersion": group, "kind": kind, **thing})

    def change(self, kind, name, patch, namespace=HERE, part=""):
        return self.ask("PATCH", self.path(kind, name, namespace, part), patch, "application/merge-patch+json")

    def delete(self, kind, name, namespace=HERE, at_once=False):
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if at_once:
            body["gracePeriodSeconds"] = 0
        return self.ask("DELETE", self.path(kind, name, namespace), body)

    def watch(self, kind, version, handle, ended, namespace=HERE):
        """Tells `handle` what happens to a kind from a version on, until `ended` is set."""
        while not ended.is_set():
            connection = self._connection(seconds=5)
            try:
                query = urllib.parse.urlencode({"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "1", "timeoutSeconds": 600})
                connection.request("GET", f"{self.path(kind, '', namespace)}?{query}", headers=self._headers())
                answer = connection.getresponse()
                if answer.status != 200:
                    raise Refused(answer.status, answer.read().decode(errors="replace"))
                while not ended.is_set():
                    line = answer.readline()
                    if not line:
                        break
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise Refused(event["object"].get("code"), event["object"].get("message"))
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        handle(event["type"], event["object"])
            except TimeoutError:
                # Nothing happened for a while; it goes on from where it was.
                continue
            finally:
                connection.close()


def configuration(port, authority, token):
    """A kubeconfig."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })


def condition(thing, kind):
    """The status of a condition; none: it has none."""
    conditions = thing.get("status", {}).get("conditions", [])
    return next((one["status"] for one in conditions if one["type"] == kind), None)


UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def size(quantity):
    """Bytes of a quantity."""
    digits = quantity.rstrip("KMGTik")
    return int(digits) * UNITS[quantity[len(digits):]]
