"""Volumes and snapshots, as Cinder means them, by requests of the API.

Each function looks at what is there, does the first thing that is missing,
and goes on; none relies on having done something before. So whatever was cut
off is done again by the same call, in this process or in another one.
"""

import collections
import logging
import time

from oslo_utils import units

from cinder import exception
from cinder.volume import volume_utils

from amita_cinder import errors
from amita_cinder import jobs
from amita_cinder import names
from amita_cinder.client import quoted
from amita_cinder.names import snapshot_path
from amita_cinder.names import volume_path

LOG = logging.getLogger(__name__)

# How often something that others change meanwhile is looked at anew.
LOOKS = 8
# A snapshot of a volume is taken at a time: others are waited for so often,
# a second each.
TURNS = 30

Tagged = collections.namedtuple('Tagged', ('thing', 'tag'))


def tagged(answer):
    return Tagged(answer.body, answer.tag)


class Volumes:

    def __init__(self, client, configuration):
        self.client = client
        self.configuration = configuration

    # Looking

    def find(self, volume):
        """The volume of Cinder's; none: there is none.

        By its name first, as it was made; one that an operator has renamed
        is known by its label.
        """
        answer = self.client.find(volume_path(volume.name))
        if answer is not None and self._is(answer.body, volume):
            return tagged(answer)
        wanted = f'{names.VOLUME}={volume.name_id}'
        for found in self.client.list('/volumes', label=wanted):
            if not found['name'].startswith(names.BEING_MOVED):
                answer = self.client.find(volume_path(found['name']))
                if answer is not None and self._is(answer.body, volume):
                    return tagged(answer)
        return None

    @staticmethod
    def _is(found, volume):
        """One without the label has the name: it is a copy that was cut
        off, or an operator has taken the label away."""
        return found['labels'].get(names.VOLUME, volume.name_id) == \
            volume.name_id

    def get(self, volume):
        found = self.find(volume)
        if found is None:
            raise exception.VolumeNotFound(volume_id=volume.id)
        return found

    def snapshot_names(self, snapshot):
        """What it may be called: as it was managed; by its own name; as one
        of a set, of which a call that was cut off has told nobody."""
        if snapshot.provider_id:
            return [snapshot.provider_id]
        called = [snapshot.name]
        if snapshot.group_snapshot_id:
            called.append(names.group_snapshot(snapshot.group_snapshot_id))
        return called

    def find_snapshot(self, found, snapshot):
        for name in self.snapshot_names(snapshot):
            answer = self.client.find(snapshot_path(found['name'], name))
            if answer is not None and not answer.body['mark']:
                return tagged(answer)
        return None

    def get_snapshot(self, snapshot):
        """The volume of a snapshot, and the snapshot."""
        found = self.find(snapshot.volume)
        taken = found and self.find_snapshot(found.thing, snapshot)
        if not taken:
            raise exception.SnapshotNotFound(snapshot_id=snapshot.id)
        return found, taken

    # Making

    def pool_of(self, volume):
        pool = volume_utils.extract_host(volume.host, 'pool')
        if not pool:
            raise exception.InvalidVolume(
                reason=f'volume {volume.id} is of no pool of this backend: '
                       f'its host is {volume.host}')
        return pool

    def labels(self, volume, source, block_bytes):
        return {names.VOLUME: volume.name_id,
                names.PROJECT: names.label(volume.project_id),
                names.SOURCE: source,
                names.SIZE: str(volume.size * units.Gi),
                names.BLOCK: str(block_bytes)}

    def _begun(self, volume, pool):
        """What calls before this one have made of it. One whose answer was
        lost may have made it in another pool, which the scheduler has given
        up since: that goes, for nobody else would ever delete it."""
        there = self.find(volume)
        if there is None or there.thing['pool'] == pool or \
                names.VOLUME not in there.thing['labels'] or \
                volume.status != 'creating':
            return there
        try:
            self.client.delete(volume_path(there.thing['name']),
                               if_match=there.tag, now=True)
        except errors.Refused as error:
            if not errors.is_missing(error):
                raise
        return None

    def create(self, volume, encrypted):
        """An empty one; and was it made by this call?"""
        pool = self.pool_of(volume)
        there = self._begun(volume, pool)
        if there is not None:
            return self.made_before(volume, there, '', pool), False
        body = {'name': volume.name, 'pool': pool,
                'size_bytes': volume.size * units.Gi,
                'encrypted': encrypted,
                'labels': self.labels(
                    volume, '', self.configuration.amita_block_bytes)}
        try:
            return tagged(self.client.post('/volumes', body)), True
        except errors.Refused as error:
            return self._faster(volume, error, '', pool), False

    def _faster(self, volume, error, source, pool):
        """Of two at one time the other one has made it."""
        there = self.find(volume) if errors.is_code(error, 'exists') else None
        if there is None:
            raise error
        return self.made_before(volume, there, source, pool)

    @staticmethod
    def made_before(volume, there, source, pool):
        """What a call that was cut off has left, if it is that."""
        known = there.thing['labels'].get(names.SOURCE, source)
        if known != source or there.thing['pool'] != pool:
            raise exception.VolumeBackendAPIException(
                data=f'there is a volume {there.thing["name"]} already, of '
                     f'pool {there.thing["pool"]} and made from '
                     f'{known or "nothing"}: delete it, or give it another '
                     f'name')
        return there

    def create_from(self, volume, of, snapshot, source, encrypted):
        """A volume that begins as a snapshot of `of`; and was it made by
        this call? Where it lies in the same pool nothing is copied."""
        pool = self.pool_of(volume)
        there = self._begun(volume, pool)
        is_clone = of['pool'] == pool and (of['encrypted'] or not encrypted)
        if there is not None and (is_clone or names.VOLUME in
                                  there.thing['labels']):
            return self.made_before(volume, there, source, pool), False
        block_bytes = of['labels'].get(names.BLOCK,
                                       self.configuration.amita_block_bytes)
        labels = self.labels(volume, source, block_bytes)
        if not is_clone:
            return self._copy(volume, of, snapshot, pool, encrypted, labels)
        body = {'name': volume.name, 'labels': labels}
        try:
            made = self.client.post(
                snapshot_path(of['name'], snapshot, 'clones'), body)
            return tagged(made), True
        except errors.Refused as error:
            return self._faster(volume, error, source, pool), False

    def _copy(self, volume, of, snapshot, pool, encrypted, labels):
        """The same in another pool. A copy has no labels before it is whole:
        one without is not, or was cut off between."""
        job = jobs.find(self.client, 'copy', volume.name)
        there = self.client.find(volume_path(volume.name))
        is_own = False
        if job is None and there is None:
            body = {'name': volume.name, 'pool': pool, 'snapshot': snapshot,
                    'encrypted': encrypted}
            rate = self.configuration.amita_migration_rate
            if rate:
                body['limit_bytes_per_second'] = rate
            job = self.client.post(volume_path(of['name'], 'copies'),
                                   body).body
            is_own = True
        if job is not None:
            jobs.wait(self.client, job,
                      self.configuration.amita_migration_timeout)
        there = self.client.find(volume_path(volume.name))
        if there is None:
            raise exception.VolumeBackendAPIException(
                data=f'the copy of {of["name"]}@{snapshot} into pool {pool} '
                     f'was taken back; ask for it again')
        if there.body['pool'] != pool:
            return self.made_before(volume, tagged(there), '', pool), is_own
        made = self.client.patch(volume_path(volume.name), {'labels': labels})
        return tagged(made), is_own

    def grow(self, found, size_bytes):
        """Makes it as large; never smaller."""
        if found.thing['size_bytes'] >= size_bytes:
            return found
        return tagged(self.client.patch(volume_path(found.thing['name']),
                                        {'size_bytes': size_bytes}))

    def undo(self, found):
        """What a call has made, and will not tell of, goes for good: whoever
        asks next may ask elsewhere. Where that fails it is told in the log."""
        name = found.thing['name']
        try:
            self.client.delete(volume_path(name), if_match='*', now=True,
                               snapshots=True)
        except errors.ApiError as error:
            if not errors.is_missing(error):
                LOG.warning('volume %s was made and could not be taken back: '
                            '%s; delete it', name, error)

    # Ending

    def delete(self, volume, end_of_service):
        """`end_of_service` takes the volume from hosts: nobody may have it
        by Cinder's own records when it is deleted."""
        for _ in range(LOOKS):
            found = self.find(volume)
            if found is None:
                return
            thing = found.thing
            end_of_service(thing)
            snapshots = list(self.client.list(
                volume_path(thing['name'], 'snapshots')))
            now = self._goes_for_good(thing, snapshots)
            takes_along = self._end_own_snapshots(thing, snapshots, now)
            # What is the volume's own may have changed by that.
            found = self.find(volume)
            if found is None:
                return
            try:
                self.client.delete(volume_path(thing['name']),
                                   if_match=found.tag, now=now or None,
                                   snapshots=now and takes_along or None)
                return
            except errors.Refused as error:
                if errors.is_missing(error):
                    return
                if error.code == 'wrong-state':
                    self._end_of_jobs(thing['name'], error)
                elif error.code == 'in-use':
                    raise exception.VolumeIsBusy(
                        f'volume {volume.id} cannot be deleted: {error}')
                elif error.code != 'changed':
                    raise
            time.sleep(0.2)
        raise errors.NoAnswer(f'volume {volume.id} changes again and again; '
                              f'delete it again')

    def _goes_for_good(self, thing, snapshots):
        """What its pool keeps for no time goes for good, too, and the API
        refuses that where there are snapshots and nobody speaks of them."""
        if self.configuration.amita_delete == 'now':
            return True
        if not snapshots:
            return False
        pool = self.client.find(f'/pools/{quoted(thing["pool"])}')
        return pool is not None and pool.body['recycle_seconds'] == 0

    def _end_own_snapshots(self, thing, snapshots, now):
        """Those that were taken for clones by calls that were cut off. Where
        the volume goes for good, nobody else's go with it but what a backup
        has left: the next one of the volume would delete that. Is there
        such?"""
        left = False
        for taken in snapshots:
            if names.TEMPORARY in taken['labels']:
                self.drop_snapshot(thing['name'], taken['name'])
            elif _is_of_backup(taken):
                left = True
        if now:
            self._keep_for_others(thing, snapshots)
        return left

    def _keep_for_others(self, thing, snapshots):
        others = [taken['name'] for taken in snapshots
                  if names.TEMPORARY not in taken['labels'] and
                  not _is_of_backup(taken)]
        if others:
            raise exception.VolumeIsBusy(
                f'volume {thing["name"]} is to go for good '
                f'({self._why_for_good(thing)}), and has snapshots that '
                f'Cinder does not know: {", ".join(others[:10])}; delete '
                f'them first')

    def look_before_deletion(self, volume, mirror):
        """Is it one that `delete` would keep for others' snapshots? Behind
        the end of its mirror it would be there without its copy."""
        found = self.find(volume)
        if found is None:
            return
        thing = found.thing
        snapshots = [
            taken for taken in self.client.list(
                volume_path(thing['name'], 'snapshots'))
            if taken['labels'].get(names.MIRROR) != mirror['id']]
        if self._goes_for_good(thing, snapshots):
            self._keep_for_others(thing, snapshots)

    def _why_for_good(self, thing):
        if self.configuration.amita_delete == 'now':
            return 'amita_delete = now'
        return f'pool {thing["pool"]} keeps nothing: amita pool recycle'

    def _end_of_jobs(self, name, error):
        """It is being copied or moved: by a call that was cut off."""
        for kind in ('copy', 'migrate', 'rekey'):
            job = jobs.find(self.client, kind, name)
            if job is not None:
                jobs.cancel(self.client, job)
                jobs.wait(self.client, job, self.configuration
                          .amita_migration_timeout)
                return
        raise error

    # Snapshots

    def take_snapshot(self, thing, name, labels):
        """Takes one, or finds it."""
        path = volume_path(thing['name'], 'snapshots')
        body = {'name': name, 'labels': labels}
        for _ in range(TURNS):
            there = self.client.find(snapshot_path(thing['name'], name))
            if there is not None:
                return there.body
            try:
                return self.client.post(path, body).body
            except errors.Refused as error:
                if not errors.is_code(error, 'exists') and \
                        not is_anothers_turn(error):
                    raise
                last = error
            time.sleep(1)
        raise last

    def drop_snapshot(self, volume, name):
        """By its name; one that clones need is hidden, and goes with them."""
        for _ in range(LOOKS):
            there = self.client.find(snapshot_path(volume, name))
            if there is None or not there.body['name']:
                return
            try:
                self.client.delete(snapshot_path(volume, name),
                                   if_match=there.tag)
                return
            except errors.Refused as error:
                if errors.is_missing(error):
                    return
                if error.code != 'changed':
                    raise
        raise errors.NoAnswer(f'snapshot {volume}@{name} changes again and '
                              f'again; delete it again')

    def end_of_temporary(self, volume, name):
        """What it was taken for is done, or has failed: either is told, and
        not that it stays. It goes with its volume at the latest."""
        try:
            self.drop_snapshot(volume, name)
        except errors.ApiError as error:
            LOG.warning('snapshot %s@%s stays: %s', volume, name, error)

    def delete_snapshot(self, snapshot, end_of_service):
        found = self.find(snapshot.volume)
        taken = found and self.find_snapshot(found.thing, snapshot)
        if not taken:
            return
        end_of_service(found.thing, taken.thing)
        try:
            self.drop_snapshot(found.thing['name'], taken.thing['name'])
        except errors.Refused as error:
            if error.code == 'in-use':
                raise exception.SnapshotIsBusy(
                    f'snapshot {snapshot.id} cannot be deleted: {error}')
            raise

    # Moving

    def move(self, found, pool, encrypted):
        """Into another pool, and encrypted where that is wanted, while hosts
        use it; returns the volume as it is then."""
        name = found.thing['name']
        for kind in ('migrate', 'rekey'):
            job = jobs.find(self.client, kind, name)
            if job is not None:
                LOG.info('volume %s is being moved already: %s', name,
                         job['id'])
                self._wait(job)
        found = tagged(self.client.get(volume_path(name)))
        thing = found.thing
        encrypt = encrypted and not thing['encrypted']
        if thing['pool'] == pool and not encrypt:
            return found
        body = {'encrypted': True} if encrypt else {}
        if self.configuration.amita_migration_rate:
            body['limit_bytes_per_second'] = \
                self.configuration.amita_migration_rate
        if thing['pool'] == pool:
            job = self.client.post(volume_path(name, 'rekey'), body).body
        else:
            body['pool'] = pool
            job = self.client.post(volume_path(name, 'migrate'), body).body
        self._wait(job)
        found = tagged(self.client.get(volume_path(name)))
        if found.thing['pool'] != pool or \
                encrypt and not found.thing['encrypted']:
            raise exception.VolumeMigrationFailed(
                reason=f'the move of volume {name} to pool {pool} was taken '
                       f'back: it is in pool {found.thing["pool"]} still')
        return found

    def _wait(self, job):
        jobs.wait(self.client, job, self.configuration.amita_migration_timeout)

    def revert(self, volume, snapshot, end_of_service):
        """What was written since the snapshot is gone then, as Cinder means
        it; all snapshots stay."""
        for _ in range(LOOKS):
            found, taken = self.get_snapshot(snapshot)
            name = found.thing['name']
            end_of_service(found.thing)
            reserved = self.client.get(volume_path(name, 'reservation')).body
            if reserved['registrants'] or reserved['locked']:
                # Whoever has reserved it has it no more; a gateway may have it
                # open still, and is asked to close it by the revert.
                self.client.delete(volume_path(name, 'reservation'),
                                   force=True)
            found = self.get(volume)
            try:
                self.client.post(
                    snapshot_path(name, taken.thing['name'], 'revert'),
                    {'keep_snapshot': False}, if_match=found.tag)
                return
            except errors.Refused as error:
                if error.code != 'changed':
                    raise
        raise errors.NoAnswer(f'volume {volume.id} changes again and again')


def _is_of_backup(taken):
    return taken['mark'] or names.BACKUP in taken['labels']


def is_anothers_turn(error):
    """Another snapshot of the volume is being taken. The API says that by the
    code of all that others are at, and nodes from before by another one."""
    return (errors.is_code(error, 'raced', 'bad-setting', 'wrong-state')
            and 'is being taken' in str(error))
