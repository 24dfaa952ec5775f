"""Volumes and snapshots that were there before Cinder, and stay after it."""

import math

from oslo_utils import units

from cinder import context
from cinder import exception
from cinder import objects
from cinder.volume import volume_utils

from amita_cinder import errors
from amita_cinder import names
from amita_cinder.names import snapshot_path
from amita_cinder.names import volume_path
from amita_cinder.volumes import LOOKS
from amita_cinder.volumes import tagged


def gigabytes(size_bytes):
    return math.ceil(size_bytes / units.Gi)


def _invalid(existing_ref, reason):
    return exception.ManageExistingInvalidReference(existing_ref=existing_ref,
                                                    reason=reason)


def _name(existing_ref, what):
    name = existing_ref.get('source-name')
    if not name:
        raise _invalid(existing_ref,
                       f'give the {what} by "source-name"')
    return name


class Manager:

    def __init__(self, volumes):
        self.volumes = volumes
        self.client = volumes.client

    # Volumes

    def find(self, volume, existing_ref):
        """The volume that is meant, by "source-name" or "source-id" (the
        number that stays). A call that was cut off may have renamed it."""
        number = existing_ref.get('source-id')
        if number is not None:
            found = [one for one in self.client.list('/volumes')
                     if str(one['id']) == str(number)
                     and not one['name'].startswith(names.BEING_MOVED)]
            name = found[0]['name'] if found else None
        else:
            name = _name(existing_ref, 'volume')
        answer = name and self.client.find(volume_path(name))
        if answer:
            return tagged(answer)
        there = self.volumes.find(volume)
        if there is None:
            raise _invalid(existing_ref, 'there is no such volume')
        return there

    def check(self, volume, existing_ref, thing):
        """May it be managed?"""
        if self._is_anothers(thing, volume):
            raise exception.ManageExistingAlreadyManaged(
                volume_ref=existing_ref)
        reason = self.unsafe(thing, self._mirrored(volume))
        if reason:
            raise _invalid(existing_ref, reason)

    @staticmethod
    def _is_anothers(thing, volume):
        """Has Cinder it as another volume, of whichever backend? One without
        the label is what its name says, as everywhere."""
        known = thing['labels'].get(names.VOLUME) or \
            volume_utils.extract_id_from_volume_name(thing['name'])
        return bool(known) and (volume is None or known != volume.name_id) \
            and (_exists(objects.Volume, known) or _is_name_id(known))

    def _mirrored(self, volume=None):
        """Mirrors by the names of their volumes; but for the one of this
        volume, which a call that was cut off has begun."""
        own = volume and names.mirror(volume.name_id)
        return {name: mirror['name']
                for mirror in self.client.list('/mirrors')
                if mirror['name'] != own for name in mirror['volumes']}

    def unsafe(self, thing, mirrored):
        """Why it is not to be managed; none: it may be."""
        if thing['name'] in mirrored:
            return f'mirror {mirrored[thing["name"]]} has it: amita mirror ' \
                   f'remove it'
        if thing['name'].startswith(names.BEING_MOVED):
            return 'it is the other half of a move'
        if thing['exported']:
            return 'it is exported by NBD: amita nbd unexport it'
        if thing['importing']:
            return 'an image is being copied into it'
        for kind in ('attachment', 'iscsi-attachment'):
            told = self.client.find(volume_path(thing['name'], kind))
            if told is not None:
                where = told.body.get('subsystem') or told.body.get('target')
                # One of a driver's own that lets nobody in is nothing.
                if where != names.service(thing) or \
                        told.body.get('hosts') or told.body.get('initiators'):
                    return f'hosts have it by {where}: detach it'
        return None

    def size(self, volume, existing_ref):
        found = self.find(volume, existing_ref)
        self.check(volume, existing_ref, found.thing)
        return gigabytes(found.thing['size_bytes'])

    def take(self, volume, existing_ref):
        """Labels first, then the name: whoever is cut off between finds it
        by its label."""
        for _ in range(LOOKS):
            found = self.find(volume, existing_ref)
            self.check(volume, existing_ref, found.thing)
            try:
                return self._take(volume, existing_ref, found)
            except errors.Refused as error:
                # By somebody else, or by this call: the answer was lost.
                if error.code != 'changed':
                    raise
                last = error
        raise last

    def _take(self, volume, existing_ref, found):
        thing = found.thing
        pool = self.volumes.pool_of(volume)
        if thing['pool'] != pool:
            raise exception.ManageExistingVolumeTypeMismatch(
                reason=f'it lies in pool {thing["pool"]}, and is to be '
                       f'managed as one of pool {pool}')
        labels = self.volumes.labels(
            volume, thing['labels'].get(names.SOURCE, ''),
            thing['labels'].get(names.BLOCK, self.volumes.configuration
                                .amita_block_bytes))
        labels[names.SIZE] = str(gigabytes(thing['size_bytes']) * units.Gi)
        if thing['name'] != volume.name:
            labels[names.WAS] = thing['name']
        # Cinder counts whole GiB: so many it has from now on.
        body = {'labels': labels}
        if thing['size_bytes'] < int(labels[names.SIZE]):
            body['size_bytes'] = int(labels[names.SIZE])
        self.client.patch(volume_path(thing['name']), body,
                          if_match=found.tag)
        if thing['name'] != volume.name:
            self.client.post(volume_path(thing['name'], 'rename'),
                             {'name': volume.name})
        return tagged(self.client.get(volume_path(volume.name)))

    def leave(self, volume):
        """It stays, with its name and its data, and is Cinder's no more."""
        found = self.volumes.find(volume)
        if found is None:
            return
        # Its logical block stays what it is, whoever manages it next.
        gone = {key: None for key in names.OWN
                if key != names.BLOCK and key in found.thing['labels']}
        if gone:
            self.client.patch(volume_path(found.thing['name']),
                              {'labels': gone})

    def list(self, cinder_volumes, marker, limit, offset, sort_keys,
             sort_dirs, pools):
        managed = {volume.name: volume.id for volume in cinder_volumes}
        by_id = {volume.name_id: volume.id for volume in cinder_volumes}
        entries = []
        for thing in self.client.list('/volumes'):
            if thing['pool'] not in pools or \
                    thing['name'].startswith(names.BEING_MOVED):
                continue
            known = managed.get(thing['name']) or by_id.get(
                thing['labels'].get(names.VOLUME))
            entries.append({
                'reference': {'source-name': thing['name']},
                'size': gigabytes(thing['size_bytes']),
                'safe_to_manage': known is None,
                'reason_not_safe': 'already managed' if known else None,
                'cinder_id': known,
                'extra_info': {'number': str(thing['id']),
                               'pool': thing['pool']},
                'thing': thing})
        page = volume_utils.paginate_entries_list(
            entries, marker, limit, offset, sort_keys, sort_dirs)
        # Who has it is asked for those that are shown alone.
        mirrored = self._mirrored() if page else {}
        for entry in page:
            thing = entry.pop('thing')
            if entry['safe_to_manage']:
                reason = 'already managed' if self._is_anothers(
                    thing, None) else self.unsafe(thing, mirrored)
                entry.update(safe_to_manage=reason is None,
                             reason_not_safe=reason)
        return page

    # Snapshots

    def find_snapshot(self, snapshot, existing_ref):
        found = self.volumes.get(snapshot.volume)
        name = _name(existing_ref, 'snapshot')
        answer = self.client.find(snapshot_path(found.thing['name'], name))
        if answer is None or answer.body['mark']:
            raise _invalid(existing_ref,
                           f'volume {found.thing["name"]} has no such '
                           f'snapshot')
        taken = answer.body
        known = taken['labels'].get(names.SNAPSHOT)
        if known and known != snapshot.id and _exists(objects.Snapshot, known):
            raise exception.ManageExistingAlreadyManaged(
                volume_ref=existing_ref)
        # A snapshot's labels never change: who has managed it, Cinder knows.
        if any(other.id != snapshot.id and
               taken['name'] in self.volumes.snapshot_names(other)
               for other in objects.SnapshotList.get_all_for_volume(
                   context.get_admin_context(), snapshot.volume_id)):
            raise exception.ManageExistingAlreadyManaged(
                volume_ref=existing_ref)
        if names.TEMPORARY in taken['labels']:
            raise _invalid(existing_ref, 'it is taken for a clone, and goes')
        return taken

    def snapshot_size(self, snapshot, existing_ref):
        return gigabytes(self.find_snapshot(snapshot, existing_ref)
                         ['size_bytes'])

    def take_snapshot(self, snapshot, existing_ref):
        """A snapshot keeps its name, for it cannot be renamed: Cinder's own
        records have it (`provider_id`)."""
        return {'provider_id':
                self.find_snapshot(snapshot, existing_ref)['name']}

    def list_snapshots(self, cinder_snapshots, marker, limit, offset,
                       sort_keys, sort_dirs):
        """Those of volumes that Cinder has."""
        managed = {}
        for snapshot in cinder_snapshots:
            for name in self.volumes.snapshot_names(snapshot):
                managed[snapshot.volume_name, name] = snapshot.id
        of = {thing['name']: thing['labels'].get(names.VOLUME)
              for thing in self.client.list('/volumes')}
        entries = []
        for taken in self.client.list('/snapshots'):
            volume_id = of.get(taken['volume'])
            if not volume_id or taken['mark'] or \
                    names.TEMPORARY in taken['labels']:
                continue
            known = managed.get((taken['volume'], taken['name']))
            entries.append({
                'reference': {'source-name': taken['name']},
                'size': gigabytes(taken['size_bytes']),
                'safe_to_manage': known is None,
                'reason_not_safe': 'already managed' if known else None,
                'cinder_id': known,
                'extra_info': None,
                'source_reference': {'source-name': taken['volume']}})
        return volume_utils.paginate_entries_list(
            entries, marker, limit, offset, sort_keys, sort_dirs)


def _exists(kind, known):
    """Has Cinder one of that id?"""
    try:
        return kind.exists(context.get_admin_context(), known)
    except (errors.ApiError, exception.CinderException, ValueError):
        return True


def _is_name_id(known):
    """Has Cinder a volume that has this id at the backend, and another one to
    its users? A migration by copying leaves such, and the record that had it
    as its own is deleted."""
    try:
        return bool(objects.VolumeList.get_all(
            context.get_admin_context(), limit=1,
            filters={'_name_id': known}))
    except exception.CinderException:
        return True
