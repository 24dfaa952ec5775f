"""The backup driver: Cinder's backup service, by tasks of Amita's nodes.

Nodes back volumes up into a repository that the cluster knows, read what has
changed since the last backup, and send it compressed and sealed: nothing of a
volume goes through the host of cinder-backup but what is restored. Cinder
attaches the volume there in any case, and the driver leaves that alone.

Each call is a task under a name that follows from Cinder's own ids. A call
that was cut off finds the task of before, and a node that dies is followed by
another one.
"""

import json
import logging
import os
import time

from oslo_config import cfg
from oslo_utils import units

from cinder.backup import driver
from cinder import exception
from cinder import objects
from cinder.objects import fields
from cinder.volume import configuration

from amita_cinder import errors
from amita_cinder import names
from amita_cinder import options
from amita_cinder import replication
from amita_cinder.client import quoted
from amita_cinder.names import volume_path

LOG = logging.getLogger(__name__)

OPTIONS = [
    cfg.StrOpt('amita_backup_backend',
               help='The section of a backend with the driver for Amita: how '
                    'nodes are reached and who asks is said there, and the '
                    'volumes that are backed up are that cluster\'s. The '
                    'only one of enabled_backends where it is not set.'),
    cfg.StrOpt('amita_backup_repository',
               help='The repository that backups go to, as the cluster knows '
                    'it (amita backup repository add).'),
    cfg.ListOpt('amita_backup_containers',
                default=[],
                help='Other repositories of the cluster, into which a user '
                     'may have a backup made by naming one as its '
                     'container; none where it is not set.'),
    cfg.IntOpt('amita_backup_timeout',
               default=86400, min=60, max=2592000,
               help='Seconds after which a backup, or a restore, is taken '
                    'back.'),
]
cfg.CONF.register_opts(OPTIONS)

# What the token has to allow; the role operator does.
NEEDED = ('backup.create', 'backup.restore', 'backup.forget', 'backup.cancel',
          'backup.remove-task', 'volume.export-data', 'volume.delete')
# Looks at a task follow each other after this, at first and in the end.
FIRST_SECONDS = 0.2
LAST_SECONDS = 5.0
CHUNK_BYTES = units.Mi
# It is in no state that anything changes by itself.
ENDED = ('done', 'failed', 'cancelled')
# Of a volume that is restored into, as it is or as it is made.
RESTORING = (fields.VolumeStatus.RESTORING_BACKUP,
             fields.VolumeStatus.CREATING)


def task_path(name, *more):
    return '/'.join(['/backup-tasks', quoted(name), *map(quoted, more)])


def failed(reason):
    return exception.BackupDriverException(reason=reason)


def told(method):
    """What the API refuses becomes an exception of Cinder's for backups."""
    def wrapper(self, backup, *args, **kwargs):
        try:
            return method(self, backup, *args, **kwargs)
        except errors.ApiError as error:
            what = f'{method.__name__} of {backup.id}'
            raise failed(errors.sentence(what, error)) from error
    return wrapper


class Cancelled(Exception):
    """Cinder wants it no longer."""


class AmitaBackupDriver(driver.BackupDriver):
    """Backups of volumes of an Amita cluster, in a repository of its own.

    `backup_driver = amita_cinder.backup.AmitaBackupDriver`
    """

    def __init__(self, context, site=None):
        super().__init__(context)
        self.support_force_delete = True
        self.site = site or self._site()
        self.client = self.site.client

    @staticmethod
    def get_driver_options():
        return OPTIONS

    @staticmethod
    def _site():
        section = cfg.CONF.amita_backup_backend
        if not section:
            sections = cfg.CONF.enabled_backends or []
            if len(sections) != 1:
                raise options.wrong('amita_backup_backend', section)
            section = sections[0]
        settings = configuration.Configuration(options.OPTIONS,
                                               config_group=section)
        options.endpoints(settings.safe_get('amita_api_endpoints'))
        return replication.near(settings)

    def check_for_setup_error(self):
        name = cfg.CONF.amita_backup_repository
        if not name:
            raise options.wrong('amita_backup_repository', name)
        self._check(name)
        for other in cfg.CONF.amita_backup_containers:
            try:
                self._check(other)
            except exception.BackupDriverException as error:
                # It keeps no backup from the one that is there.
                LOG.warning('amita_backup_containers: %s', error)

    def _check(self, name):
        try:
            myself = self.client.get('/self').body
            lacking = [one for one in NEEDED if one not in myself['may']]
            if lacking:
                raise failed(f'{myself["name"]} ({myself["role"]}) may not '
                             f'{", ".join(lacking)}')
            self.client.get(f'/backup-repositories/{quoted(name)}')
        except errors.ApiError as error:
            raise failed(errors.sentence(
                f'repository {name} cannot be used', error)) from error

    # Tasks

    def _carry_out(self, name, body, is_wanted=lambda: True):
        """Has nodes do it, and waits for that: what it has come to."""
        until = time.monotonic() + cfg.CONF.amita_backup_timeout
        pause = FIRST_SECONDS
        task = self.client.post('/backup-tasks', {'name': name, **body}).body
        why = None
        while task['state'] not in ENDED:
            if task['why'] != why:
                why = task['why']
                if why:
                    LOG.warning('backup task %s does not go on: %s', name,
                                '; '.join(why))
            if not is_wanted():
                # Who calls has to take it back, with what it has made.
                raise Cancelled()
            if time.monotonic() + pause > until:
                ended = self._take_back(name)
                if ended is not None and ended['state'] == 'done':
                    # It was quicker than that, and nobody else knows of what
                    # it has made.
                    return ended['result']
                raise failed(f'backup task {name} was not over in time, and '
                             f'is taken back: {"; ".join(task["why"])}')
            time.sleep(pause)
            pause = min(pause * 1.5, LAST_SECONDS)
            found = self.client.find(task_path(name))
            if found is None:
                if not is_wanted():
                    raise Cancelled()
                raise failed(f'backup task {name} was removed by somebody '
                             f'else before its end')
            task = found.body
        for note in task['notes']:
            LOG.info('backup task %s: %s', name, note)
        if task['state'] != 'done':
            if not is_wanted():
                raise Cancelled()
            # The next call of that name is to begin anew.
            self._remove(name)
            reason = '; '.join(task['why']) or 'it was taken back'
            raise failed(f'backup task {name} has failed: {reason}')
        return task['result']

    def _take_back(self, name):
        """Ends a task, and removes what is known of it: what that was at its
        end, for it may have been done before. None: there is no such task."""
        ended = self._end(name)
        if ended is not None:
            self._remove(name)
        return ended

    def _end(self, name):
        """The same, and what is known of it stays."""
        try:
            self.client.post(task_path(name, 'cancel'))
        except errors.Refused as error:
            if errors.is_missing(error):
                return None
            # It has ended.
            if error.code != 'wrong-state':
                raise
        until = time.monotonic() + self.client.patience
        while time.monotonic() < until:
            found = self.client.find(task_path(name))
            if found is None:
                return None
            if found.body['state'] in ENDED:
                return found.body
            time.sleep(FIRST_SECONDS)
        raise errors.NoAnswer(f'backup task {name} does not end')

    def _remove(self, name):
        try:
            self.client.delete(task_path(name))
        except errors.ApiError as error:
            LOG.debug('backup task %s stays for now: %s', name, error)

    # Backups

    def _known(self, backup):
        """The point of a backup, and what that is called."""
        try:
            known = json.loads(backup.service_metadata or '')
            return known['point'], known['name']
        except (ValueError, KeyError, TypeError) as error:
            raise exception.InvalidBackup(
                reason=f'{backup.id} does not say which point it is: '
                       f'{backup.service_metadata!r}') from error

    def _repository(self, backup):
        name = backup.container or cfg.CONF.amita_backup_repository
        if not name:
            raise options.wrong('amita_backup_repository', name)
        return name

    def _offered(self, backup):
        """The repository that a backup is to go to. Its container is what
        some user has said, who is not to choose among all that the cluster
        knows: others' are there, too, and the token may use each."""
        name = self._repository(backup)
        if name not in (cfg.CONF.amita_backup_repository,
                        *cfg.CONF.amita_backup_containers):
            raise failed(f'container {name} is not offered here: '
                         f'amita_backup_containers says which repositories '
                         f'are, beside amita_backup_repository')
        return name

    @told
    def backup(self, backup, volume_file, backup_metadata=True):
        """Backs the volume up, or the snapshot: what Cinder has attached is
        not read."""
        volume = objects.Volume.get_by_id(self.context, backup.volume_id)
        if volume.encryption_key_id:
            raise failed(f'volume {volume.id} is encrypted with a key of '
                         f'Cinder\'s, and a repository of Amita\'s has no '
                         f'place for what leads to that')
        found = self.site.volumes.find(volume)
        if found is None:
            raise failed(f'volume {volume.id} is none of the cluster that '
                         f'amita_backup_backend names')
        wanted = {'volume': found.thing['name']}
        if backup.snapshot_id:
            snapshot = objects.Snapshot.get_by_id(self.context,
                                                  backup.snapshot_id)
            taken = self.site.volumes.find_snapshot(found.thing, snapshot)
            if taken is None:
                raise failed(f'there is no snapshot {snapshot.id}')
            wanted['snapshot'] = taken.thing['name']
        repository = self._offered(backup)
        task = names.backup_task(backup.id)
        try:
            made = self._carry_out(task, {
                'repository': repository, 'backup': wanted,
                'limit_seconds': cfg.CONF.amita_backup_timeout,
            }, lambda: self._is_kept(backup))
        except Cancelled:
            # It is deleted by force. That call may have come before there
            # was a task, and then it has found nothing.
            LOG.info('backup %s is being deleted, and is made no more',
                     backup.id)
            self._give_up(backup)
            return {}
        # Before the task goes: what is not known here is not found again.
        backup.container = repository
        backup.service_metadata = json.dumps(
            {'point': made['point'], 'name': made['point_name']},
            separators=(',', ':'))
        backup.save()
        self._remove(task)
        return {'container': repository,
                'service_metadata': backup.service_metadata}

    @staticmethod
    def _is_kept(backup):
        with backup.as_read_deleted():
            backup.refresh()
        return backup.status not in (fields.BackupStatus.DELETING,
                                     fields.BackupStatus.DELETED)

    @told
    def restore(self, backup, volume_id, volume_file, volume_is_new):
        """Restores into a volume of its own, and copies that over what
        Cinder has attached: the target is in use, and no other program may
        write it."""
        point, called = self._known(backup)
        volume = objects.Volume.get_by_id(self.context, volume_id)
        if volume.encryption_key_id:
            # Cinder attaches what lies below its encryption: what is written
            # there would be in the clear, and the header of LUKS gone.
            raise failed(f'volume {volume.id} is encrypted with a key of '
                         f'Cinder\'s, and no backup in a repository of '
                         f'Amita\'s can be restored into it')
        self._drop_left(volume_id)
        task = names.restore_task(volume_id)
        between = names.restored(volume_id)
        # One that a call of before was cut off at may be of another backup.
        self._drop(task, between)
        try:
            self._carry_out(task, {
                'repository': self._repository(backup),
                'restore': {'point': point, 'point_name': called,
                            'to': between, 'pool': self._pool(volume)},
                'limit_seconds': cfg.CONF.amita_backup_timeout,
            }, lambda: self._is_restoring(backup))
            self._stays_encrypted(between, volume)
            self._copy(backup, between, volume_file, volume_is_new)
        except Cancelled:
            raise exception.BackupRestoreCancel(back_id=backup.id,
                                                vol_id=volume_id) from None
        finally:
            self._drop(task, between)

    def _stays_encrypted(self, between, volume):
        """Is the target encrypted at rest, too, where what was backed up
        is? Else the copy would be there in the clear."""
        made = self.client.find(volume_path(between))
        if made is None or not made.body['encrypted']:
            return
        found = self.site.volumes.find(volume)
        if found is None or not found.thing['encrypted']:
            raise failed(f'what is restored was encrypted at rest, and '
                         f'volume {volume.id} is not: restore it into a '
                         f'volume of a type with amita:encrypted')

    def _pool(self, volume):
        """The pool of the target; of one that is another backend's the first
        of the section, or of the cluster."""
        found = self.site.volumes.find(volume)
        if found is not None:
            return found.thing['pool']
        offered = self.site.configuration.amita_pools
        if offered:
            return offered[0]
        for pool in self.client.list('/pools'):
            return pool['name']
        raise failed('the cluster has no pool')

    @staticmethod
    def _is_restoring(backup):
        with backup.as_read_deleted():
            backup.refresh()
        return backup.status == fields.BackupStatus.RESTORING

    def _copy(self, backup, name, volume_file, is_new):
        copied = 0
        chunks = self.client.download(volume_path(name, 'export'),
                                      CHUNK_BYTES)
        for number, chunk in enumerate(chunks):
            if number % 256 == 0 and not self._is_restoring(backup):
                raise Cancelled()
            volume_file.seek(copied)
            if not is_new or chunk.count(0) != len(chunk):
                volume_file.write(chunk)
            copied += len(chunk)
        volume_file.flush()
        try:
            number = volume_file.fileno()
        except (OSError, AttributeError):
            # Not all that Cinder hands over is a file.
            LOG.debug('what is restored is not synchronised by the driver')
            return
        # What could not be written is told here, and nowhere else.
        os.fsync(number)

    def _drop(self, task, name):
        """Ends a restore, and the volume between goes for good."""
        try:
            known = self.client.find(task_path(task))
            if known is not None:
                self._end(task)
            found = self.client.find(volume_path(name))
            if found is not None:
                self.client.delete(volume_path(name), if_match=found.tag,
                                   now=True)
            # Last: by the task it is known that there is such a volume.
            if known is not None:
                self._remove(task)
        except errors.ApiError as error:
            # The next restore begins with it.
            LOG.warning('volume %s, by which a backup was restored, is there '
                        'still: %s', name, error)

    def _drop_left(self, but):
        """What restores have left whose cinder-backup was killed: into volumes
        of this Cinder, those that were deleted too, that nobody restores
        into now."""
        prefix = names.restore_task('')
        seen = self.context.elevated(read_deleted='yes')
        try:
            found = list(self.client.list('/backup-tasks'))
        except errors.ApiError as error:
            LOG.warning('what restores have left is not looked for: %s', error)
            return
        for task in (one['name'] for one in found):
            volume_id = task.removeprefix(prefix)
            if volume_id in (task, but):
                continue
            try:
                volume = objects.Volume.get_by_id(seen, volume_id)
            except exception.NotFound:
                # Another Cinder's: it may be restored into just now.
                continue
            if volume.status not in RESTORING:
                self._drop(task, names.restored(volume_id))

    @told
    def delete_backup(self, backup):
        self._give_up(backup)

    def _give_up(self, backup):
        made = self._made(backup)
        if made is None:
            return
        point, called = made
        forget = names.forget_task(backup.id)
        try:
            self._carry_out(forget, {
                'repository': self._repository(backup),
                'forget': {'point': point, 'point_name': called},
                'limit_seconds': cfg.CONF.amita_backup_timeout})
        finally:
            self._take_back(forget)

    def _made(self, backup):
        """The point of a backup that is given up, and what that is called;
        none: there is none."""
        if backup.service_metadata:
            return self._known(backup)
        # It did not come to its end, or nobody heard of that. Cut off from
        # here on, the point stays, and is found in the repository.
        task = self._take_back(names.backup_task(backup.id))
        if task is not None and task['result'] is not None:
            return task['result']['point'], task['result']['point_name']
        # By force it is deleted while it is made: it may have come to its
        # end, and its task be gone with that, since Cinder has read this.
        with backup.as_read_deleted():
            backup.refresh()
        return self._known(backup) if backup.service_metadata else None

    # Records of backups

    def export_record(self, backup):
        """Which point it is. Cinder exports service_metadata and container
        itself, and takes them over behind import_record alone."""
        point, called = self._known(backup)
        return {'point': point, 'name': called}

    def import_record(self, backup, driver_info):
        """Is it of this driver? The backup has nothing but its id yet."""
        if not isinstance(driver_info, dict) or \
                not {'point', 'name'} <= driver_info.keys():
            raise exception.InvalidBackup(
                reason=f'the record of {backup.id} does not say which point '
                       f'of a repository it is')
