"""Hosts that were left a volume, for it was another attachment's there.

Of an attachment that ends Cinder says whose host it is, and not which one it
is. Of two of one host that end at one time each finds the other one in
Cinder's database, and neither takes the host off. By NVMe/TCP Nova ends one
after the other; by iSCSI nobody does. So what was left is looked at again,
each time that the scheduler is told of the backend: where Cinder knows of no
attachment there any more, the host is taken off.

Cinder's database tells of an attachment before its host is let in, at first
without the host. So where one has none yet nothing is done; and a host is let
in, and looked at, by turns (`turn`), in all processes of a backend: what was
not in the database at the look is let in after it.

A process that ends forgets: then the host is taken off with the next detach
of its own, or the volume's deletion.
"""

import logging
import threading

from cinder import context
from cinder import coordination
from cinder import exception
from cinder import objects
from tooz import coordination as tooz

from amita_cinder import errors

LOG = logging.getLogger(__name__)

# Nothing is at it: neither Cinder itself has it attached, nor is anybody
# about to.
AT_REST = ('available', 'in-use')
MIGRATED = (None, 'none', 'success', 'error')

turn = coordination.synchronized('amita-{volume.id}')


def _name(volume_id):
    """Of the lock by which a volume's turns go."""
    return f'amita-{volume_id}'


def forget_turns(volume_id):
    coordination.synchronized_remove(_name(volume_id))


class Left:

    def __init__(self, take_off, has):
        """`take_off` takes a host off a volume; `has` tells whether an
        attachment is of a host."""
        self._take_off, self._has = take_off, has
        self._known = set()
        self._guard = threading.Lock()

    def add(self, volume, host):
        with self._guard:
            self._known.add((volume.id, host))

    def discard(self, volume, host):
        self._forget(volume.id, host)

    def _forget(self, volume_id, host):
        with self._guard:
            self._known.discard((volume_id, host))

    def look(self):
        with self._guard:
            known = sorted(self._known)
        for volume_id, host in known:
            try:
                self._look_at(volume_id, host)
            except (exception.CinderException, errors.ApiError,
                    tooz.ToozError) as error:
                LOG.warning('whether %s has volume %s for no attachment is '
                            'looked at later: %s', host, volume_id, error)
                return

    def _look_at(self, volume_id, host):
        # Not by `synchronized`, which goes on without the lock where it is
        # not to wait for it.
        lock = coordination.COORDINATOR.get_lock(_name(volume_id))
        if not lock.acquire(blocking=False):
            return
        try:
            if self._is_settled(volume_id, host):
                self._forget(volume_id, host)
        finally:
            lock.release()

    def _is_settled(self, volume_id, host):
        """Is there nothing more to look at?"""
        admin = context.get_admin_context()
        try:
            volume = objects.Volume.get_by_id(admin, volume_id)
        except exception.VolumeNotFound:
            return True
        attachments = objects.VolumeAttachmentList.get_all_by_volume_id(
            admin, volume_id)
        if (volume.status not in AT_REST or
                volume.migration_status not in MIGRATED or
                any(not one.connector or self._has(one, host)
                    for one in attachments)):
            return False
        LOG.info('volume %s is taken from %s: of its attachments there none '
                 'is left', volume.name, host)
        self._take_off(volume, host)
        return True
