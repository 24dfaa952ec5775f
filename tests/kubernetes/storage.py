"""A cluster of Amita: a metadata server and three nodes on loopback, whose API is served as docs/operating/page.md says."""

import http.client
import json
import ssl
import urllib.parse
from pathlib import Path

from processes import run
from report import until

NODES, COPIES = 3, 3
STORE_SIZE = "512M"
POOL = "main"
DRIVER = "csi.amita.io"
START_PATIENCE = 60


class Storage:
    def __init__(self, processes, binary, folder, authority):
        self.processes, self.binary, self.folder = processes, binary, folder
        self.authority, self.authority_file = authority, authority.certificate
        folder.mkdir()
        self.apis = []
        self.ca_server = f"127.0.0.1:{processes.ports.free()}"
        self.metadata = f"127.0.0.1:{processes.ports.free()}"
        self.admin = folder / "admin"

    def amita(self, *words):
        return run([self.binary, *words], env={"AMITA_METADATA": f"https://{self.metadata}", "AMITA_IDENTITY": str(self.admin)})

    def start(self):
        ca = self.folder / "ca"
        run([self.binary, "cluster", "init", "--ca", ca, "--identity", self.admin])
        self._serve("amita-ca", "ca", "serve", "--ca", ca, "--listen", self.ca_server)
        until("the authority serves", START_PATIENCE, lambda: "serves on" in self._log("amita-ca"))
        self._serve("amita-meta", "meta", "--identity", self._identity(ca, "metadata"), "--listen", self.metadata, "--data", self.folder / "metadata.redb")
        until("the metadata serves", START_PATIENCE, lambda: "listens on" in self._log("amita-meta"))
        certificate, key = self.authority.server("amita-api")
        for number in range(1, NODES + 1):
            name, store = f"n{number}", self.folder / f"n{number}.store"
            run([self.binary, "disk", "format", "--size", STORE_SIZE, store], seconds=300)
            api = f"127.0.0.1:{self.processes.ports.free()}"
            self.apis.append(api)
            self._serve(
                f"amita-{name}", "serve", "--identity", self._identity(ca, name), "--metadata", f"https://{self.metadata}", "--store", store,
                "--fabric", f"127.0.0.1:{self.processes.ports.free()}", "--nvme", f"127.0.0.1:{self.processes.ports.free()}",
                "--api", api, "--api-certificate", certificate, "--api-key", key, "--history", "off",
            )
        until("all stores serve", START_PATIENCE, self._stores_serve)
        self.amita("pool", "create", POOL, "--copies", str(COPIES))
        # Shown once, in the first line.
        self.token = self.amita("token", "create", "csi", "--role", "operator", "--life", "2d").splitlines()[0].strip()
        self.viewer = self.amita("token", "create", "test", "--role", "viewer", "--life", "2d").splitlines()[0].strip()
        self.context = ssl.create_default_context(cafile=str(self.authority_file))
        # Who names a protocol is shown the certificate for browsers.
        self.context.set_alpn_protocols(["http/1.1"])

    def _serve(self, name, *words):
        self.processes.start(name, [self.binary, *words])

    def _log(self, name):
        return (self.processes.logs / f"{name}.log").read_text(errors="replace")

    def _identity(self, ca, name):
        token, folder = self.folder / f"{name}.token", self.folder / f"{name}.identity"
        token.touch(0o600)
        token.write_text(json.loads(run([self.binary, "node", "token", name, "--ca", ca, "--json"]))["token"] + "\n")
        run([self.binary, "node", "join", name, "--ca-server", self.ca_server, "--token-file", token, "--identity", folder])
        return folder

    def _stores_serve(self):
        try:
            stores = json.loads(self.amita("disk", "list", "--json"))
        except RuntimeError:
            return False
        return sum(1 for store in stores if store["alive"]) == NODES

    def ask(self, path):
        """An answer of the first node's API; none: there is no such thing."""
        connection = http.client.HTTPSConnection(self.apis[0], context=self.context, timeout=60)
        try:
            connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {self.viewer}"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text.decode(errors='replace')}")
        return json.loads(text)

    def all(self, path, **query):
        items, after = [], None
        while True:
            asked = {**query, "limit": 1000, **({"after": after} if after else {})}
            piece = self.ask(f"{path}?{urllib.parse.urlencode(asked)}")
            items += piece["items"]
            after = piece.get("next")
            if not after:
                return items

    def volumes(self):
        """Those of the driver."""
        return self.all("/volumes", label=f"csi.amita.io/driver={DRIVER}")

    def volume(self, name):
        return self.ask(f"/volumes/{name}")

    def of_claim(self, claim):
        """The volumes that were made for a claim of that name."""
        return [volume for volume in self.volumes() if volume["labels"].get("csi.storage.k8s.io/pvc/name") == claim]

    def snapshots(self):
        """Those of volumes that are not in the recycle bin."""
        names = {volume["name"] for volume in self.all("/volumes")}
        return [taken for taken in self.all("/snapshots") if taken["volume"] in names and not taken.get("hidden") and not taken.get("mark")]

    def deleted(self):
        return self.all("/deleted-volumes")

    def subsystems(self):
        """Who has what: the hosts of each volume's number."""
        found = {}
        for subsystem in self.all("/subsystems"):
            before, _, number = subsystem["name"].rpartition("-")
            if before.startswith("csi-") and number.isdigit():
                found[int(number)] = [nqn.removeprefix("nqn.2014-08.org.nvmexpress:uuid:") for nqn in subsystem["hosts"]]
        return found

    def pool(self):
        return self.ask(f"/pools/{POOL}")

    def write_files(self, folder):
        """What a secret of the driver is made of."""
        token = Path(folder) / "token"
        token.touch(0o600)
        token.write_text(self.token)
        authority = Path(folder) / "ca.pem"
        authority.write_bytes(self.authority_file.read_bytes())
        return token, authority
