"""Groups whose snapshots are of one moment.

Amita takes them as a set: all snapshots of it have one name, and either all
are taken or none is. A group itself is nothing at Amita. Groups of types
without `consistent_group_snapshot_enabled` are the volume manager's own.
"""

import logging
import time

from cinder.objects import fields
from cinder.volume import volume_utils

from amita_cinder import errors
from amita_cinder import names
from amita_cinder import volumes as storage

LOG = logging.getLogger(__name__)


def only_consistent(group_or_snapshot):
    """The manager does what is not implemented one by one."""
    if not volume_utils.is_group_a_cg_snapshot_type(group_or_snapshot):
        raise NotImplementedError()


def take_set(volumes, things, name, labels):
    """Takes snapshots of all of these volumes at one moment, or finds them.
    """
    path = names.snapshot_path
    for _ in range(storage.TURNS):
        there = [thing for thing in things
                 if volumes.client.find(path(thing['name'], name))]
        if len(there) == len(things):
            return
        # Of a set that is there in part some were deleted since: it is of no
        # use, and a new one has another moment.
        for thing in there:
            volumes.drop_snapshot(thing['name'], name)
        try:
            volumes.client.post('/snapshot-sets', {
                'name': name, 'labels': labels,
                'volumes': [thing['name'] for thing in things]})
            return
        except errors.Refused as error:
            if not errors.is_code(error, 'exists') and \
                    not storage.is_anothers_turn(error):
                raise
            last = error
        time.sleep(1)
    raise last


def create_snapshot(volumes, group_snapshot, snapshots):
    name = names.group_snapshot(group_snapshot.id)
    if snapshots:
        things = [volumes.get(snapshot.volume).thing
                  for snapshot in snapshots]
        take_set(volumes, things, name,
                 {names.GROUP_SNAPSHOT: group_snapshot.id})
    return ({'status': fields.GroupSnapshotStatus.AVAILABLE},
            [{'id': snapshot.id, 'provider_id': name,
              'status': fields.SnapshotStatus.AVAILABLE}
             for snapshot in snapshots])


def delete_each(things, delete, deleted, failed):
    """Deletes all that can be; says of each what became of it."""
    updates = []
    state = deleted
    for thing in things:
        try:
            delete(thing)
            status = deleted
        except Exception:
            LOG.exception('%s could not be deleted', thing.id)
            status = state = failed
        updates.append({'id': thing.id, 'status': status})
    return {'status': state}, updates


def clone_group(driver, volumes, group, pairs):
    """A group from another one, as that was at one moment."""
    name = names.clone_snapshot(group.id)
    things = [volumes.get(source).thing for _, source in pairs]
    take_set(volumes, things, name, {names.TEMPORARY: group.id})
    try:
        updates = []
        for (volume, source), thing in zip(pairs, things):
            driver.make_from(volume, thing, name,
                             f'volume {source.name_id}')
            updates.append({'id': volume.id, 'status': 'available'})
    finally:
        for thing in things:
            volumes.end_of_temporary(thing['name'], name)
    return {'status': fields.GroupStatus.AVAILABLE}, updates
