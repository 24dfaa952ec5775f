"""The backup driver: at real nodes, with a repository in a folder; and what
needs no node."""

import io
import json
import os
import types
import uuid

from oslo_config import cfg
from oslo_utils import units
import pytest

from cinder import exception
from cinder import objects
from cinder.objects import fields

from amita_cinder import backup as amita
from amita_cinder import errors
from amita_cinder import names
import things

CONF = cfg.CONF
REPOSITORY = 'cinder-tests'


class Backup:
    """One of Cinder's, without its database."""

    def __init__(self, volume, snapshot=None, **more):
        self.id = str(uuid.uuid4())
        self.volume_id = volume.id
        self.snapshot_id = snapshot.id if snapshot else None
        self.container = None
        self.service_metadata = None
        self.status = fields.BackupStatus.CREATING
        self.saved = 0
        for name, value in more.items():
            setattr(self, name, value)

    def save(self):
        self.saved += 1

    def refresh(self):
        pass

    def as_read_deleted(self):
        import contextlib
        return contextlib.nullcontext()


# What needs no node

def test_names_of_tasks_and_volumes_fit():
    known = str(uuid.uuid4())
    for name in (names.backup_task(known), names.forget_task(known),
                 names.restore_task(known)):
        assert len(name) <= 64
    assert len(names.restored(known)) <= 128
    # The column has 255 characters.
    point = {'point': 2 ** 63, 'name':
             f'task {names.backup_task(known)}/{2 ** 32}/20260131T013000Z'}
    assert len(json.dumps(point, separators=(',', ':'))) < 255


@pytest.mark.parametrize('said', [None, '', 'x', '{}', '[]', '{"point": 1}'])
def test_a_backup_that_names_no_point_is_told(said):
    driver = amita.AmitaBackupDriver(things.CONTEXT,
                                     types.SimpleNamespace(client=None))
    backup = Backup(things.volume(), service_metadata=said)
    with pytest.raises(exception.InvalidBackup):
        driver._known(backup)
    with pytest.raises(exception.InvalidBackup):
        driver.export_record(backup)


def test_a_record_is_imported_into_a_backup_that_has_nothing_yet():
    # Cinder's manager puts in what the record has behind import_record.
    driver = amita.AmitaBackupDriver(things.CONTEXT,
                                     types.SimpleNamespace(client=None))
    exported = Backup(things.volume(),
                      service_metadata='{"point":7,"name":"task t/1/x"}')
    record = json.loads(json.dumps(driver.export_record(exported)))
    driver.import_record(Backup(things.volume()), record)
    for other in ({}, None, {'point': 7}):
        with pytest.raises(exception.InvalidBackup):
            driver.import_record(Backup(things.volume()), other)


class Tasks:
    """Tasks of a cluster without nodes: each is done when it is looked at
    the second time, if `ends`."""

    patience = 1.0

    def __init__(self, ends=True, after_cancel='cancelled'):
        self.ends, self.after_cancel = ends, after_cancel
        self.there, self.asked = {}, []

    def post(self, path, body=None):
        if path.endswith('/cancel'):
            name = path.split('/')[2]
            self.asked.append(('cancel', name))
            if name not in self.there:
                raise errors.Refused(404, 'not-found', name)
            self._end(self.there[name], self.after_cancel)
            return types.SimpleNamespace(body=self.there[name])
        self.asked.append((next(kind for kind in ('backup', 'restore',
                                                  'forget') if kind in body),
                           body['name']))
        self.there[body['name']] = {
            'state': 'running', 'why': [], 'notes': [], 'result': None,
            'kind': self.asked[-1][0]}
        return types.SimpleNamespace(body=dict(self.there[body['name']]))

    @staticmethod
    def _end(task, how):
        task['state'] = how
        if how == 'done':
            task['result'] = {'point': 7, 'point_name': 'task t/1/x'}

    def find(self, path):
        task = self.there.get(path.split('/')[2])
        if task is None:
            return None
        if self.ends or task['kind'] == 'forget':
            self._end(task, 'done')
        return types.SimpleNamespace(body=dict(task), tag='t')

    def delete(self, path, **more):
        self.asked.append(('delete', path.split('/')[2]))
        self.there.pop(path.split('/')[2], None)

    def list(self, path):
        assert path == '/backup-tasks'
        return [{'name': name} for name in self.there]


@pytest.fixture
def alone(monkeypatch):
    """A driver whose cluster has one volume, and no node."""
    volume = things.volume()
    monkeypatch.setattr(objects.Volume, 'get_by_id', lambda *_: volume)
    monkeypatch.setattr(amita, 'FIRST_SECONDS', 0.001)
    CONF.set_override('amita_backup_repository', REPOSITORY)

    def make(client):
        found = types.SimpleNamespace(thing={'name': volume.name,
                                             'pool': 'main'})
        site = types.SimpleNamespace(
            client=client,
            volumes=types.SimpleNamespace(find=lambda *_: found))
        return amita.AmitaBackupDriver(things.CONTEXT, site)
    yield types.SimpleNamespace(make=make, volume=volume)
    CONF.clear_override('amita_backup_repository')
    CONF.clear_override('amita_backup_containers')


def test_a_backup_that_is_deleted_by_force_before_it_has_begun_leaves_nothing(
        alone):
    for ends in (True, False):
        client = Tasks(ends)
        backup = Backup(alone.volume, status=fields.BackupStatus.DELETED)
        assert alone.make(client).backup(backup, io.BytesIO()) == {}
        assert not client.there and not backup.service_metadata


def test_what_a_backup_has_made_that_is_deleted_by_force_is_given_up(alone):
    # It was done before it could be taken back.
    client = Tasks(ends=False, after_cancel='done')
    backup = Backup(alone.volume, status=fields.BackupStatus.DELETING)
    assert alone.make(client).backup(backup, io.BytesIO()) == {}
    assert ('forget', names.forget_task(backup.id)) in client.asked
    assert not client.there


def test_a_deletion_knows_what_came_to_its_end_since_cinder_has_read_it(alone):
    client = Tasks()
    backup = Backup(alone.volume)

    def refresh():
        backup.service_metadata = '{"point":7,"name":"task t/1/x"}'
    backup.refresh = refresh
    alone.make(client).delete_backup(backup)
    assert ('forget', names.forget_task(backup.id)) in client.asked


def test_what_is_done_as_its_time_is_over_is_done(alone, monkeypatch):
    monkeypatch.setattr(amita.time, 'monotonic',
                        iter(range(0, 10 ** 9, 10 ** 6)).__next__)
    client = Tasks(ends=False, after_cancel='done')
    backup = Backup(alone.volume)
    # Its end is looked for once, and that is all the time that there is.
    monkeypatch.setattr(Tasks, 'patience', 10 ** 7)
    made = alone.make(client).backup(backup, io.BytesIO())
    assert json.loads(made['service_metadata'])['point'] == 7
    client = Tasks(ends=False)
    with pytest.raises(exception.BackupDriverException) as caught:
        alone.make(client).backup(Backup(alone.volume), io.BytesIO())
    assert 'not over in time' in str(caught.value)


def test_a_user_chooses_among_the_repositories_that_are_offered(alone):
    client = Tasks()
    with pytest.raises(exception.BackupDriverException) as caught:
        alone.make(client).backup(Backup(alone.volume, container='payroll'),
                                  io.BytesIO())
    assert 'payroll is not offered' in str(caught.value)
    assert not client.asked
    CONF.set_override('amita_backup_containers', ['second', 'third'])
    for container, to in ((None, REPOSITORY), (REPOSITORY, REPOSITORY),
                          ('third', 'third')):
        backup = Backup(alone.volume, container=container)
        made = alone.make(client).backup(backup, io.BytesIO())
        assert made['container'] == to
    # What was made before is found where it is, whatever is offered by now.
    CONF.clear_override('amita_backup_containers')
    alone.make(client).delete_backup(backup)
    assert ('forget', names.forget_task(backup.id)) in client.asked


def test_nothing_is_restored_below_an_encryption_of_cinders(alone):
    alone.volume.encryption_key_id = str(uuid.uuid4())
    client = Tasks()
    backup = Backup(alone.volume, status=fields.BackupStatus.RESTORING,
                    service_metadata='{"point":7,"name":"task t/1/x"}')
    with pytest.raises(exception.BackupDriverException) as caught:
        alone.make(client).restore(backup, alone.volume.id, io.BytesIO(), True)
    assert 'encrypted' in str(caught.value) and not client.asked


@pytest.mark.parametrize('was, target, goes', [
    (True, False, False), (True, None, False),
    (True, True, True), (False, False, True), (False, None, True)])
def test_what_was_encrypted_at_rest_is_not_restored_in_the_clear(
        alone, monkeypatch, was, target, goes):
    client = Tasks()
    find, between = client.find, names.restored(alone.volume.id)
    client.find = lambda path: find(path) if between not in path else \
        types.SimpleNamespace(body={'encrypted': was}, tag='t')
    client.download = lambda *_: [b'secret']
    driver = alone.make(client)
    # None: it is another backend's.
    found = None if target is None else types.SimpleNamespace(
        thing={'name': alone.volume.name, 'pool': 'main', 'encrypted': target})
    driver.site.volumes.find = lambda *_: found
    monkeypatch.setattr(driver, '_pool', lambda _: 'main')
    backup = Backup(alone.volume, status=fields.BackupStatus.RESTORING,
                    service_metadata='{"point":7,"name":"task t/1/x"}')
    file = io.BytesIO()
    if goes:
        driver.restore(backup, alone.volume.id, file, True)
        assert file.getvalue() == b'secret'
    else:
        with pytest.raises(exception.BackupDriverException) as caught:
            driver.restore(backup, alone.volume.id, file, True)
        assert 'amita:encrypted' in str(caught.value) and not file.getvalue()
    assert ('delete', between) in client.asked


def test_what_a_killed_restore_has_left_goes_with_the_next_one(
        alone, monkeypatch):
    volumes = {status: things.volume(status=status) for status in (
        'deleted', 'error_restoring', 'restoring-backup', 'creating')}
    known = {volume.id: volume for volume in volumes.values()}

    def get(context, wanted):
        assert context.read_deleted == 'yes'
        if wanted not in known:
            raise exception.VolumeNotFound(volume_id=wanted)
        return known[wanted]
    monkeypatch.setattr(objects.Volume, 'get_by_id', get)
    client = Tasks()
    elsewhere = str(uuid.uuid4())
    others = [names.restore_task(elsewhere), 'nightly',
              names.backup_task(elsewhere)]
    for name in others + [names.restore_task(known) for known in known]:
        client.there[name] = {'state': 'running', 'result': None,
                              'kind': 'restore'}
    for volume in volumes.values():
        client.there[names.restored(volume.id)] = {'kind': 'volume'}
    alone.make(client)._drop_left(str(uuid.uuid4()))
    stays = [volumes['restoring-backup'].id, volumes['creating'].id]
    assert set(client.there) == {
        *others, *map(names.restore_task, stays), *map(names.restored, stays)}


def test_a_restore_whose_last_writes_fail_has_failed(alone, monkeypatch,
                                                     tmp_path):
    client = types.SimpleNamespace(download=lambda *_: [b'data'])
    backup = Backup(alone.volume, status=fields.BackupStatus.RESTORING)
    driver = alone.make(client)
    driver._copy(backup, 'between', io.BytesIO(), True)

    def fsync(_):
        raise OSError(5, 'Input/output error')
    monkeypatch.setattr(os, 'fsync', fsync)
    with open(tmp_path / 'target', 'wb') as file:
        with pytest.raises(OSError):
            driver._copy(backup, 'between', file, True)


def test_of_several_backends_one_has_to_be_named():
    CONF.set_override('enabled_backends', ['a', 'b'])
    try:
        with pytest.raises(exception.InvalidConfigurationValue) as caught:
            amita.AmitaBackupDriver(things.CONTEXT)
        assert 'amita_backup_backend' in str(caught.value)
    finally:
        CONF.clear_override('enabled_backends')


def test_options_are_told():
    told = {option.name for option in
            amita.AmitaBackupDriver.get_driver_options()}
    assert told == {option.name for option in amita.OPTIONS}
    assert all(name.startswith('amita_backup_') for name in told)


# At real nodes

@pytest.fixture(scope='session')
def repository(cluster):
    folder, key = cluster.file('repository'), cluster.file('backup.key')
    folder.mkdir()
    place = ('--repository', folder, '--key-file', key)
    cluster.run('backup', 'repository', 'init', *place)
    cluster.amita('backup', 'repository', 'add', REPOSITORY, '--address',
                  folder, '--key-file', key)

    def points():
        said = cluster.run('backup', 'list', *place, '--json')
        return [point['point'] for point in json.loads(said)]
    return types.SimpleNamespace(points=points, folder=folder, key=key)


@pytest.fixture
def backups(driver, repository, monkeypatch):
    """The driver, and volumes and snapshots by which it is asked."""
    CONF.set_override('amita_backup_repository', REPOSITORY)
    CONF.set_override('amita_backup_timeout', 300)
    known = {}

    def get(_, wanted):
        return known[wanted]
    monkeypatch.setattr(objects.Volume, 'get_by_id', get)
    monkeypatch.setattr(objects.Snapshot, 'get_by_id', get)

    def knows(*them):
        known.update({one.id: one for one in them})
    yield types.SimpleNamespace(
        driver=amita.AmitaBackupDriver(things.CONTEXT, driver.site),
        knows=knows)
    CONF.clear_override('amita_backup_repository')
    CONF.clear_override('amita_backup_containers')
    CONF.clear_override('amita_backup_timeout')


def write(driver, volume, data, tmp_path):
    path = tmp_path / 'image'
    path.write_bytes(data)
    found = driver.volumes.get(volume)
    driver.client.upload(names.volume_path(volume.name, 'data'),
                         lambda: open(path, 'rb'), len(data), found.tag,
                         as_it_is=True)


def restored(backups, backup, volume, is_new, tmp_path):
    """Restores into a file, as into what Cinder has attached."""
    backup.status = fields.BackupStatus.RESTORING
    path = tmp_path / 'target'
    with open(path, 'wb') as file:
        file.truncate(units.Gi)
        if not is_new:
            for place in (0, units.Gi - 8 * units.Mi):
                file.seek(place)
                file.write(b'x' * 8 * units.Mi)
    with open(path, 'r+b') as file:
        backups.driver.restore(backup, volume.id, file, is_new)
    with open(path, 'rb') as file:
        head = file.read(8 * units.Mi)
        file.seek(-units.Mi, os.SEEK_END)
        return head, file.read()


def tasks(driver):
    return [task['name'] for task in driver.client.list('/backup-tasks')]


def all_volumes(driver):
    return {found['name'] for found in driver.client.list('/volumes')}


def test_the_repository_has_to_be_there(backups):
    backups.driver.check_for_setup_error()
    CONF.set_override('amita_backup_repository', 'elsewhere')
    with pytest.raises(exception.BackupDriverException) as caught:
        backups.driver.check_for_setup_error()
    assert 'elsewhere' in str(caught.value)
    CONF.set_override('amita_backup_repository', None)
    with pytest.raises(exception.InvalidConfigurationValue):
        backups.driver.check_for_setup_error()


def test_a_volume_is_backed_up_restored_and_given_up(
        driver, backups, made, repository, tmp_path):
    volume = made(size=1)
    backups.knows(volume)
    first = os.urandom(units.Mi)
    write(driver, volume, first, tmp_path)
    before = repository.points()
    backup = Backup(volume)
    updates = backups.driver.backup(backup, io.BytesIO())
    assert updates['container'] == REPOSITORY and backup.saved
    backup.service_metadata = updates['service_metadata']
    second = os.urandom(units.Mi)
    write(driver, volume, second, tmp_path)
    later = Backup(volume)
    later.service_metadata = backups.driver.backup(
        later, io.BytesIO())['service_metadata']
    assert len(repository.points()) == len(before) + 2
    assert not tasks(driver)

    target = made(size=1)
    backups.knows(target)
    volumes = all_volumes(driver)
    for which, data, is_new in ((backup, first, True),
                                (later, second, False)):
        head, tail = restored(backups, which, target, is_new, tmp_path)
        assert head == data + bytes(7 * units.Mi)
        assert tail == bytes(units.Mi)
    assert all_volumes(driver) == volumes and not tasks(driver)

    backups.driver.delete_backup(backup)
    backups.driver.delete_backup(backup)
    assert len(repository.points()) == len(before) + 1
    head, _ = restored(backups, later, target, True, tmp_path)
    assert head[:units.Mi] == second
    with pytest.raises(exception.BackupDriverException):
        restored(backups, backup, target, True, tmp_path)
    assert all_volumes(driver) == volumes
    backups.driver.delete_backup(later)
    assert repository.points() == before and not tasks(driver)


def test_a_snapshot_is_backed_up(driver, backups, made, repository, tmp_path):
    volume = made(size=1)
    first = os.urandom(units.Mi)
    write(driver, volume, first, tmp_path)
    snapshot = things.snapshot(volume)
    driver.create_snapshot(snapshot)
    write(driver, volume, os.urandom(units.Mi), tmp_path)
    backups.knows(volume, snapshot)
    backup = Backup(volume, snapshot)
    backup.service_metadata = backups.driver.backup(
        backup, io.BytesIO())['service_metadata']
    assert snapshot.name in things.snapshots(driver, volume)
    head, _ = restored(backups, backup, volume, True, tmp_path)
    assert head[:units.Mi] == first
    backups.driver.delete_backup(backup)
    driver.delete_snapshot(snapshot)


def test_a_backup_that_was_cut_off_is_deleted_with_what_it_has_made(
        driver, backups, made, repository):
    volume = made(size=1)
    backups.knows(volume)
    before = repository.points()
    backup = Backup(volume)
    # Nobody has heard of its end.
    task = names.backup_task(backup.id)
    driver.client.post('/backup-tasks', {
        'name': task, 'repository': REPOSITORY,
        'backup': {'volume': volume.name}})
    backups.driver.delete_backup(backup)
    assert repository.points() == before and not tasks(driver)
    # One that has never begun.
    backups.driver.delete_backup(Backup(volume))


def test_a_restore_that_is_wanted_no_longer_leaves_nothing(
        driver, backups, made, repository):
    volume = made(size=1)
    backups.knows(volume)
    backup = Backup(volume)
    backup.service_metadata = backups.driver.backup(
        backup, io.BytesIO())['service_metadata']
    volumes = all_volumes(driver)
    backup.status = fields.BackupStatus.ERROR
    with pytest.raises(exception.BackupRestoreCancel):
        backups.driver.restore(backup, volume.id, io.BytesIO(), True)
    assert all_volumes(driver) == volumes and not tasks(driver)
    backups.driver.delete_backup(backup)


def test_what_cannot_be_backed_up_is_told(driver, backups, made, repository):
    elsewhere = things.volume()
    locked = made(size=1)
    locked.encryption_key_id = str(uuid.uuid4())
    backups.knows(elsewhere, locked)
    for volume, says in ((elsewhere, 'none of the cluster'),
                         (locked, 'encrypted')):
        with pytest.raises(exception.BackupDriverException) as caught:
            backups.driver.backup(Backup(volume), io.BytesIO())
        assert says in str(caught.value)
    locked.encryption_key_id = None
    unknown = Backup(locked, container='elsewhere')
    CONF.set_override('amita_backup_containers', ['elsewhere'])
    with pytest.raises(exception.BackupDriverException) as caught:
        backups.driver.backup(unknown, io.BytesIO())
    assert 'not offered' not in str(caught.value)
    assert not tasks(driver)
