"""Everything that a chapter of this test has, and what chapters do with it."""

import kube
from machines import Machine, attachments, until_gone
from report import Failed, until
from storage import DRIVER, POOL

MIB = 2**20
CLASS, LATE, KEPT, NOW = "amita", "amita-late", "amita-retain", "amita-now"
BOUND_PATIENCE = 60


class World:
    def __init__(self, plane, storage, controllers, processes, report, options):
        self.plane, self.api, self.storage = plane, plane.api, storage
        self.controllers, self.processes, self.report, self.options = controllers, processes, report, options
        self.machines = []

    def furnish(self):
        """Machines, and the classes that the manifest has not."""
        self.machines = [Machine(self.api, f"machine-{number}") for number in range(1, 11)]
        self.storage_class(LATE, volumeBindingMode="WaitForFirstConsumer")
        self.storage_class(KEPT, reclaimPolicy="Retain")
        self.storage_class(NOW, parameters={"pool": POOL, "onDelete": "now"})

    def storage_class(self, name, parameters=None, **more):
        self.api.make("StorageClass", {
            "metadata": {"name": name}, "provisioner": DRIVER, "allowVolumeExpansion": True, "parameters": parameters or {"pool": POOL}, **more})

    def attributes_class(self, name, parameters):
        self.api.make("VolumeAttributesClass", {"metadata": {"name": name}, "driverName": DRIVER, "parameters": parameters})

    def claim(self, name, mebibytes=64, storage_class=CLASS, block=True, modes=("ReadWriteOnce",), source=None, attributes=None):
        spec = {
            "storageClassName": storage_class, "accessModes": list(modes), "volumeMode": "Block" if block else "Filesystem",
            "resources": {"requests": {"storage": f"{mebibytes}Mi"}},
        }
        if source:
            spec["dataSource"] = source
        if attributes:
            spec["volumeAttributesClassName"] = attributes
        return self.api.make("PersistentVolumeClaim", {"metadata": {"name": name}, "spec": spec})

    def bound(self, name, seconds=BOUND_PATIENCE):
        """The claim and its volume, and how long it took."""
        def look():
            claim = self.api.get("PersistentVolumeClaim", name)
            return claim if claim["status"].get("phase") == "Bound" else None

        try:
            claim, took = until(f"claim {name} is bound", seconds, look)
        except Failed as why:
            raise Failed(f"{why}; events: {self.events(name)}") from None
        return claim, self.api.get("PersistentVolume", claim["spec"]["volumeName"]), took

    def made(self, name, **what):
        self.claim(name, **what)
        return self.bound(name)

    def events(self, name):
        """What was said of a thing: reason and message."""
        found = self.api.list("Event", kube.HERE, field=f"involvedObject.name={name}")
        return [(event["reason"], event["message"]) for event in found]

    def said(self, name, reason, words, seconds=30):
        """A message of that reason and with those words."""
        def look():
            found = [message for why, message in self.events(name) if why == reason and words in message]
            return found[0] if found else None

        return until(f"an event {reason} of {name} with {words!r}", seconds, look)[0]

    def delete_claim(self, name, seconds=60):
        """Until its volume is gone from Kubernetes."""
        claim = self.api.get("PersistentVolumeClaim", name)
        self.api.delete("PersistentVolumeClaim", name)
        took = until_gone(self.api, "PersistentVolumeClaim", name, seconds)
        return took + until_gone(self.api, "PersistentVolume", claim["spec"]["volumeName"], seconds)

    def clear(self):
        """What a chapter has left that has failed, as far as it goes."""
        for machine in self.machines:
            machine.use([])
            machine.taint(None)
            machine.ready(True)
        kinds = ("StatefulSet", "Pod", "VolumeAttachment", "VolumeSnapshot", "PersistentVolumeClaim", "VolumeAttributesClass")
        for kind in kinds:
            for thing in self.api.list(kind):
                try:
                    self.api.delete(kind, thing["metadata"]["name"], at_once=kind == "Pod")
                except kube.Refused:
                    pass
        try:
            until("what has failed leaves nothing", 90, lambda: not any(self.api.list(kind) for kind in (*kinds, "PersistentVolume")))
        except Failed as why:
            self.report.note(str(why))

    def number_of(self, volume):
        """The number that Amita has for a persistent volume."""
        return int(volume["spec"]["csi"]["volumeHandle"].split(":")[0])

    def behind(self, volume):
        """The volume of Amita behind a persistent one; none: it is gone."""
        number = self.number_of(volume)
        return next((one for one in self.storage.volumes() if one["id"] == number), None)

    def hosts_of(self, volume):
        """Who has a persistent volume, as Amita knows it; none: nobody has it, and nothing is left of its publishing."""
        return self.storage.subsystems().get(self.number_of(volume))

    def attachments(self, volume):
        return attachments(self.api, volume["metadata"]["name"])
