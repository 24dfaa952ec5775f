"""The driver at real nodes, without Cinder's services."""

import hashlib
import os
import uuid

import pytest

from cinder.db import api as db
from cinder import exception
from cinder.volume import volume_types
from cinder.volume import volume_utils
from oslo_utils import units

from amita_cinder import groups
from amita_cinder import names
from amita_cinder import stats
import things
from things import snapshots
from things import there


def test_a_volume_is_made_grown_and_deleted(driver, made):
    volume = made(size=1)
    found = there(driver, volume)
    assert found['size_bytes'] == units.Gi and found['pool'] == 'main'
    assert found['labels'] == {
        names.VOLUME: volume.id, names.PROJECT: 'a-project',
        names.SOURCE: '', names.SIZE: str(units.Gi), names.BLOCK: '512'}
    driver.create_volume(volume)
    driver.extend_volume(volume, 3)
    driver.extend_volume(volume, 3)
    driver.extend_volume(volume, 2)
    assert there(driver, volume)['size_bytes'] == 3 * units.Gi
    assert driver.get_pool(volume) == 'main'
    driver.delete_volume(volume)
    driver.delete_volume(volume)
    assert there(driver, volume) is None


def test_what_is_gone_is_deleted_and_detached_without_an_error(driver):
    volume = things.volume()
    driver.delete_volume(volume)
    driver.delete_snapshot(things.snapshot(volume))
    driver.terminate_connection(volume, things.connector())
    driver.terminate_connection(volume, None)
    driver.unmanage(volume)
    for call in (lambda: driver.extend_volume(volume, 2),
                 lambda: driver.initialize_connection(volume,
                                                      things.connector())):
        with pytest.raises(exception.VolumeNotFound):
            call()
    with pytest.raises(exception.VolumeNotFound):
        driver.create_snapshot(things.snapshot(volume))
    with pytest.raises(exception.SnapshotNotFound):
        driver.create_volume_from_snapshot(things.volume(),
                                           things.snapshot(volume))


def test_a_volume_of_somebody_elses_is_not_taken(driver, made):
    volume = things.volume()
    driver.client.post('/volumes', {
        'name': volume.name, 'pool': 'archive', 'size_bytes': units.Gi})
    try:
        with pytest.raises(exception.VolumeBackendAPIException) as caught:
            driver.create_volume(volume)
        assert 'archive' in str(caught.value)
        driver.client.patch(names.volume_path(volume.name),
                            {'labels': {names.VOLUME: 'another'}})
        driver.delete_volume(volume)
        assert there(driver, volume)
    finally:
        driver.client.delete(names.volume_path(volume.name), if_match='*',
                             now=True)


def test_what_a_lost_answer_has_left_in_another_pool_goes(driver, made):
    volume = made(status='creating')
    number = there(driver, volume)['id']
    volume.host = f'{things.HOST}#archive'
    driver.create_volume(volume)
    found = there(driver, volume)
    assert found['pool'] == 'archive' and found['id'] != number
    # Not one that was made: that is somebody's data.
    volume.status = 'available'
    volume.host = f'{things.HOST}#main'
    with pytest.raises(exception.VolumeBackendAPIException):
        driver.create_volume(volume)
    assert there(driver, volume)['id'] == found['id']


def test_a_volume_that_an_operator_has_renamed_is_found(driver, made):
    volume = made()
    driver.client.post(names.volume_path(volume.name, 'rename'),
                       {'name': 'renamed-by-hand'})
    driver.extend_volume(volume, 2)
    driver.create_snapshot(things.snapshot(volume))
    assert driver.volumes.find(volume).thing['name'] == 'renamed-by-hand'
    driver.volumes.drop_snapshot('renamed-by-hand',
                                 list(driver.client.list(
                                     '/volumes/renamed-by-hand/snapshots'))
                                 [0]['name'])
    driver.delete_volume(volume)
    assert driver.volumes.find(volume) is None


def test_snapshots_and_what_begins_as_one(driver, made):
    volume = made()
    snapshot = things.snapshot(volume)
    driver.create_snapshot(snapshot)
    driver.create_snapshot(snapshot)
    assert snapshots(driver, volume) == [snapshot.name]
    new = things.volume(size=2)
    made.kept.append(new)
    driver.create_volume_from_snapshot(new, snapshot)
    driver.create_volume_from_snapshot(new, snapshot)
    found = there(driver, new)
    assert found['size_bytes'] == 2 * units.Gi
    assert found['parent'] == f'{volume.name}@{snapshot.name}'
    driver.delete_snapshot(snapshot)
    driver.delete_snapshot(snapshot)
    assert snapshots(driver, volume) == []
    # What the clone needs is hidden, and keeps nobody from deleting.
    driver.delete_volume(volume)
    assert there(driver, volume) is None and there(driver, new)


def test_a_clone_leaves_no_snapshot_behind(driver, made):
    volume = made()
    clone = things.volume(size=2)
    made.kept.append(clone)
    driver.create_cloned_volume(clone, volume)
    driver.create_cloned_volume(clone, volume)
    assert there(driver, clone)['size_bytes'] == 2 * units.Gi
    assert snapshots(driver, volume) == []
    of_clone = things.volume(size=2)
    made.kept.append(of_clone)
    driver.create_cloned_volume(of_clone, clone)
    assert there(driver, of_clone)['parent']


def test_a_clone_into_another_pool_is_a_copy(driver, made):
    volume = made()
    clone = things.volume(size=2, pool='archive')
    made.kept.append(clone)
    driver.create_cloned_volume(clone, volume)
    found = there(driver, clone)
    assert found['pool'] == 'archive' and found['parent'] is None
    assert found['labels'][names.VOLUME] == clone.id
    assert found['size_bytes'] == 2 * units.Gi
    driver.create_cloned_volume(clone, volume)
    assert snapshots(driver, volume) == []


def test_a_size_that_the_quota_refuses_leaves_nothing(driver, made, cluster):
    volume = made()
    snapshot = things.snapshot(volume)
    driver.create_snapshot(snapshot)
    asked = driver.client.get('/pools/main').body['asked']
    cluster.amita('pool', 'quota', 'main', '--provisioned',
                  str(asked['provisioned_bytes'] + 2 * units.Gi))
    try:
        clone = things.volume(size=5)
        with pytest.raises(exception.VolumeBackendAPIException) as caught:
            driver.create_volume_from_snapshot(clone, snapshot)
        assert 'quota' in str(caught.value)
        assert there(driver, clone) is None
        with pytest.raises(exception.VolumeBackendAPIException):
            driver.create_volume(things.volume(size=50))
        told = stats.pool(driver.client.get('/pools/main').body, 20.0, 0)
        assert told['free_capacity_gb'] <= 2
    finally:
        cluster.amita('pool', 'quota', 'main', '--none')


def test_a_misspelt_type_makes_nothing(driver):
    volume = things.volume(kind=things.volume_type({'amita:iopss': '1'}))
    with pytest.raises(exception.InvalidVolumeType):
        driver.create_volume(volume)
    assert there(driver, volume) is None


def limited(told, measure):
    return any((told.get(measure) or {}).values())


def test_limits_of_types_and_their_change(driver, made):
    slow = things.volume_type(qos={'total_iops_sec': '500',
                                   'read_bytes_sec': '10485760'})
    volume = made(kind=slow)
    path = names.volume_path(volume.name)
    told = driver.client.get(f'{path}/limits').body
    assert told['iops']['both']['rate'] == 500
    assert told['bandwidth']['read']['rate'] == 10485760
    growing = things.volume_type(qos={'total_iops_sec_per_gb': '100',
                                      'weight': '300'})
    host = {'host': f'{things.HOST}#main', 'capabilities': {}}
    assert driver.retype(things.CONTEXT, volume, growing, {}, host) == \
        (True, None)
    told = driver.client.get(f'{path}/limits').body
    assert told['iops']['both']['rate'] == 100
    assert not limited(told, 'bandwidth')
    assert driver.client.get(f'{path}/priority').body['weight'] == 300
    volume.volume_type = growing
    driver.extend_volume(volume, 4)
    assert driver.client.get(f'{path}/limits').body['iops']['both'][
        'rate'] == 400
    assert driver.retype(things.CONTEXT, volume, things.volume_type(), {},
                         host)[0]
    told = driver.client.get(f'{path}/limits').body
    assert not limited(told, 'iops') and not limited(told, 'bandwidth')


def test_a_volume_moves_between_pools_with_its_snapshots(driver, made):
    volume = made()
    snapshot = things.snapshot(volume)
    driver.create_snapshot(snapshot)
    number = there(driver, volume)['id']
    host = {'host': f'{things.HOST}#archive', 'capabilities': {}}
    for _ in range(2):
        assert driver.retype(things.CONTEXT, volume, things.volume_type(),
                             {}, host) == (True, None)
        assert there(driver, volume)['pool'] == 'archive'
    assert there(driver, volume)['id'] == number
    assert snapshots(driver, volume) == [snapshot.name]
    here = stats.location(driver.cluster_id)
    other = {'host': 'other@amita2#main',
             'capabilities': {'location_info': here}}
    assert driver.migrate_volume(things.CONTEXT, volume, other) == \
        (True, None)
    assert there(driver, volume)['pool'] == 'main'
    for capabilities in ({}, {'location_info': 'amita:another'},
                         {'location_info': 'LVMVolumeDriver:x'}):
        elsewhere = {'host': 'h@lvm#pool', 'capabilities': capabilities}
        assert driver.migrate_volume(things.CONTEXT, volume, elsewhere) == \
            (False, None)


def test_a_move_to_a_pool_that_is_not_there_changes_nothing(driver, made):
    slow = things.volume_type(qos={'total_iops_sec': '500'})
    volume = made(kind=slow)
    host = {'host': f'{things.HOST}#none', 'capabilities': {}}
    with pytest.raises(exception.VolumeBackendAPIException):
        driver.retype(things.CONTEXT, volume, things.volume_type(), {}, host)
    path = names.volume_path(volume.name, 'limits')
    assert driver.client.get(path).body['iops']['both']['rate'] == 500
    assert there(driver, volume)['pool'] == 'main'


def test_encryption_at_rest_by_the_type(driver, made):
    secret = things.volume_type({'amita:encrypted': '<is> True'})
    encrypted = made(kind=secret)
    assert there(driver, encrypted)['encrypted']
    plain = made()
    assert not there(driver, plain)['encrypted']
    clone = things.volume(kind=secret)
    made.kept.append(clone)
    # A clone shares blocks: of what is in the clear a copy is made.
    driver.create_cloned_volume(clone, plain)
    found = there(driver, clone)
    assert found['encrypted'] and found['parent'] is None
    of_encrypted = things.volume()
    made.kept.append(of_encrypted)
    driver.create_cloned_volume(of_encrypted, encrypted)
    found = there(driver, of_encrypted)
    assert found['encrypted'] and found['parent']
    driver.initialize_connection(plain, things.connector())
    host = {'host': f'{things.HOST}#main', 'capabilities': {}}
    assert driver.retype(things.CONTEXT, plain, secret, {}, host)[0]
    assert there(driver, plain)['encrypted']
    # It stays so: to have it in the clear takes an administrator of Amita.
    assert driver.retype(things.CONTEXT, plain, things.volume_type(), {},
                         {'host': f'{things.HOST}#archive'})[0]
    found = there(driver, plain)
    assert found['encrypted'] and found['pool'] == 'archive'
    driver.terminate_connection(plain, things.connector())


def test_what_cinder_has_copied_gets_its_name(driver, made):
    original, new = things.volume(), made()
    told = driver.update_migrated_volume(things.CONTEXT, original, new,
                                         'available')
    assert told['_name_id'] is None
    found = there(driver, original)
    assert found['labels'][names.VOLUME] == original.id
    made.kept.append(original)
    # Where the name is taken it stays what it is.
    second = made()
    told = driver.update_migrated_volume(things.CONTEXT, original, second,
                                         'available')
    assert told['_name_id'] == second.id and there(driver, second)


def image(cluster, driver, volume):
    path = names.volume_path(volume.name)
    return hashlib.sha256(b''.join(driver.client.download(
        f'{path}/export', 1 << 20))).hexdigest()


def write(driver, volume, data):
    path = cluster_file(driver, 'image')
    with open(path, 'wb') as file:
        file.write(data)
    found = driver.volumes.get(volume)
    driver.client.upload(names.volume_path(volume.name, 'data'),
                         lambda: open(path, 'rb'), len(data), found.tag,
                         as_it_is=True)


def cluster_file(driver, name):
    folder = os.path.dirname(driver.configuration.amita_api_token_file)
    return os.path.join(folder, name)


def test_a_volume_is_reverted_to_a_snapshot_and_grown_since(driver, made,
                                                            cluster):
    volume = made()
    write(driver, volume, b'first' + bytes(4091))
    first = image(cluster, driver, volume)
    snapshot, later = things.snapshot(volume), things.snapshot(volume)
    driver.create_snapshot(snapshot)
    write(driver, volume, b'second' + bytes(4090))
    driver.create_snapshot(later)
    assert image(cluster, driver, volume) != first
    for _ in range(2):
        driver.revert_to_snapshot(things.CONTEXT, volume, snapshot)
    assert image(cluster, driver, volume) == first
    assert set(snapshots(driver, volume)) == {snapshot.name, later.name}
    driver.extend_volume(volume, 2)
    driver.revert_to_snapshot(things.CONTEXT, volume, later)
    assert there(driver, volume)['size_bytes'] == 2 * units.Gi
    driver.delete_snapshot(snapshot)
    driver.delete_snapshot(later)
    assert snapshots(driver, volume) == []


def test_volumes_are_managed_and_left(driver, made):
    name = 'made-by-hand'
    driver.client.post('/volumes', {
        'name': name, 'pool': 'main', 'size_bytes': units.Gi + 4096,
        'labels': {'team': 'db'}})
    driver.client.post(f'/volumes/{name}/snapshots', {'name': 'monday'})
    volume = things.volume(size=2)
    made.kept.append(volume)
    reference = {'source-name': name}
    listed = driver.get_manageable_volumes([], None, 1000, 0, ['size'],
                                           ['asc'])
    mine = [one for one in listed if one['reference'] == reference]
    assert mine[0]['safe_to_manage'] and mine[0]['size'] == 2
    assert driver.manage_existing_get_size(volume, reference) == 2
    driver.manage_existing(volume, reference)
    driver.manage_existing(volume, reference)
    found = there(driver, volume)
    assert found['size_bytes'] == 2 * units.Gi
    assert found['labels'][names.WAS] == name
    assert found['labels']['team'] == 'db'
    listed = driver.get_manageable_volumes([volume], None, 1000, 0, ['size'],
                                           ['asc'])
    mine = [one for one in listed if one['cinder_id'] == volume.id]
    assert not mine[0]['safe_to_manage']

    snapshot = things.snapshot(volume)
    wanted = {'source-name': 'monday'}
    listed = driver.get_manageable_snapshots([], None, 1000, 0, ['size'],
                                             ['asc'])
    assert wanted in [one['reference'] for one in listed
                      if one['safe_to_manage']]
    assert driver.manage_existing_snapshot_get_size(snapshot, wanted) == 2
    snapshot.update(driver.manage_existing_snapshot(snapshot, wanted))
    listed = driver.get_manageable_snapshots([snapshot], None, 1000, 0,
                                             ['size'], ['asc'])
    assert [one['cinder_id'] for one in listed
            if one['reference'] == wanted] == [snapshot.id]
    clone = things.volume(size=2)
    made.kept.append(clone)
    driver.create_volume_from_snapshot(clone, snapshot)
    driver.unmanage_snapshot(snapshot)
    driver.delete_snapshot(snapshot)
    assert snapshots(driver, volume) == []

    driver.unmanage(volume)
    driver.unmanage(volume)
    assert there(driver, volume)['labels'] == {'team': 'db',
                                               names.BLOCK: '512'}
    again = things.volume(size=2)
    driver.manage_existing(again, {'source-id': str(found['id'])})
    made.kept[made.kept.index(volume)] = again
    assert there(driver, again)['id'] == found['id']


@pytest.mark.parametrize('reference', [
    {}, {'source-name': 'none'}, {'source-id': '999999'}])
def test_a_reference_to_nothing_is_refused(driver, reference):
    with pytest.raises(exception.ManageExistingInvalidReference):
        driver.manage_existing_get_size(things.volume(), reference)


def test_what_hosts_have_is_not_managed(driver, cluster):
    cluster.amita('volume', 'create', 'held', '--pool', 'main', '--size',
                  '1G')
    cluster.amita('volume', 'attach', 'held', '--host',
                  things.connector(9)['nqn'])
    reference = {'source-name': 'held'}
    try:
        with pytest.raises(exception.ManageExistingInvalidReference) as why:
            driver.manage_existing_get_size(things.volume(), reference)
        assert 'detach' in str(why.value)
        listed = driver.get_manageable_volumes([], None, 1000, 0, ['size'],
                                               ['asc'])
        mine = [one for one in listed if one['reference'] == reference]
        assert not mine[0]['safe_to_manage'] and mine[0]['reason_not_safe']
    finally:
        cluster.amita('subsystem', 'delete', 'held', '--force')
        driver.client.delete('/volumes/held', if_match='*', now=True)


@pytest.fixture
def record():
    """Records of Cinder's database."""
    there = []

    def make(**values):
        made = db.volume_create(things.CONTEXT, {
            'id': str(uuid.uuid4()), 'project_id': 'a-project', 'size': 1,
            'host': f'{things.HOST}2#main', 'status': 'available',
            'volume_type_id': volume_types.get_default_volume_type()['id'],
            **values})
        there.append(made['id'])
    yield make
    for one in there:
        db.volume_destroy(things.CONTEXT, one)


def test_what_cinder_has_is_not_managed_a_second_time(driver, made, record):
    """By a backend that does not know of it."""
    migrated, labelless, plain = made(), made(), made()
    # A migration by copying has left it so: the record of the copy is gone.
    record(_name_id=migrated.id)
    record(id=plain.id)
    record(id=labelless.id)
    driver.client.patch(names.volume_path(labelless.name),
                        {'labels': {names.VOLUME: None}})
    before = [there(driver, one) for one in (migrated, labelless, plain)]
    listed = {one['reference']['source-name']: one
              for one in driver.get_manageable_volumes(
                  [], None, 1000, 0, ['size'], ['asc'])}
    for volume in (migrated, labelless, plain):
        new = things.volume()
        with pytest.raises(exception.ManageExistingAlreadyManaged):
            driver.manage_existing(new, {'source-name': volume.name})
        assert listed[volume.name]['safe_to_manage'] is False
        assert listed[volume.name]['reason_not_safe'] == 'already managed'
    assert [there(driver, one)
            for one in (migrated, labelless, plain)] == before


@pytest.fixture
def consistent(monkeypatch):
    monkeypatch.setattr(volume_utils, 'is_group_a_cg_snapshot_type',
                        lambda thing: isinstance(thing, things.Consistent))


def test_a_group_is_snapshotted_at_one_moment(driver, made, consistent):
    group = things.Consistent()
    assert driver.create_group(things.CONTEXT, group) == \
        {'status': 'available'}
    volumes = [made(), made(pool='archive'), made()]
    assert driver.update_group(things.CONTEXT, group, volumes, []) == \
        (None, None, None)
    of_group = things.Consistent()
    taken = [things.snapshot(volume, of_group.id) for volume in volumes]
    for _ in range(2):
        model, updates = driver.create_group_snapshot(things.CONTEXT,
                                                      of_group, taken)
        assert model == {'status': 'available'}
        assert {update['status'] for update in updates} == {'available'}
    called = {one['set'] for one in driver.client.list('/snapshots')
              if one['labels'].get(names.GROUP_SNAPSHOT) == of_group.id}
    assert len(called) == 1 and None not in called
    # Found without what the answer said, too: that may have been lost.
    new = [things.volume(pool=('main', 'archive', 'main')[number])
           for number in range(3)]
    made.kept.extend(new)
    driver.create_group_from_src(things.CONTEXT, things.Consistent(), new,
                                 of_group, taken)
    assert all(there(driver, volume)['parent'] for volume in new)
    model, updates = driver.delete_group_snapshot(things.CONTEXT, of_group,
                                                  taken)
    assert model == {'status': 'deleted'} and len(updates) == 3
    assert snapshots(driver, volumes[0]) == []
    more = [things.volume(), things.volume(pool='archive'), things.volume()]
    made.kept.extend(more)
    driver.create_group_from_src(things.CONTEXT, things.Consistent(), more,
                                 source_group=group, source_vols=volumes)
    assert all(there(driver, volume)['parent'] for volume in more)
    assert snapshots(driver, volumes[1]) == []
    model, updates = driver.delete_group(things.CONTEXT, group, volumes)
    assert model == {'status': 'deleted'}
    assert [there(driver, volume) for volume in volumes] == [None] * 3


def test_groups_of_other_types_are_the_managers(driver, consistent):
    for call in (lambda: driver.create_group(things.CONTEXT, things.group()),
                 lambda: driver.delete_group(things.CONTEXT, things.group(),
                                             []),
                 lambda: driver.update_group(things.CONTEXT, things.group()),
                 lambda: driver.create_group_snapshot(things.CONTEXT,
                                                      things.group(), [])):
        with pytest.raises(NotImplementedError):
            call()


def test_a_set_is_of_all_or_of_none(driver, made):
    volumes = [made(), made()]
    found = [driver.volumes.get(volume).thing for volume in volumes]
    groups.take_set(driver.volumes, found, 'set', {})
    driver.volumes.drop_snapshot(volumes[0].name, 'set')
    groups.take_set(driver.volumes, found, 'set', {})
    sets = {one['set'] for volume in volumes for one in driver.client.list(
        names.volume_path(volume.name, 'snapshots'))}
    assert len(sets) == 1


def test_what_goes_for_good_takes_no_snapshot_of_others_with_it(
        driver, make_driver, made):
    volume = made()
    path = names.volume_path(volume.name, 'snapshots')
    driver.client.post(path, {'name': 'by-hand'})
    driver.client.post(path, {'name': 'cut-off',
                              'labels': {names.TEMPORARY: 'x'}})
    with pytest.raises(exception.VolumeIsBusy) as caught:
        driver.delete_volume(volume)
    assert 'by-hand' in str(caught.value)
    assert snapshots(driver, volume) == ['by-hand']
    # By the recycle bin it goes with all, and can be had back.
    make_driver(amita_delete='recycle').delete_volume(volume)
    kept = [one for one in driver.client.list('/deleted-volumes')
            if one['name'] == volume.name]
    assert len(kept) == 1
    driver.client.delete(f'/deleted-volumes/{kept[0]["id"]}', if_match='*')


def left_by_backups(driver, volume):
    """What backups have in a volume: the mark of one that is done, and the
    snapshot of one whose node has died."""
    path = names.volume_path(volume.name, 'snapshots')
    for name in ('backup-0', 'backup-1'):
        driver.client.post(path, {
            'name': name, 'labels': {names.BACKUP: f'vault/7/{name}'}})
    driver.client.delete(f'{path}/backup-0', if_match='*', keep_mark=True)
    assert [one['mark'] for one in driver.client.list(path)] == [True, False]


@pytest.fixture
def keeps_nothing(driver, cluster):
    """Pool archive, whose deleted volumes are kept for no time."""
    before = driver.client.get('/pools/archive').body['recycle_seconds']
    cluster.amita('pool', 'recycle', 'archive', '--keep', '0s')
    yield 'archive'
    cluster.amita('pool', 'recycle', 'archive', '--keep', f'{before}s')


def test_what_backups_have_left_goes_with_what_goes_for_good(
        driver, make_driver, keeps_nothing):
    recycles = make_driver(amita_delete='recycle')
    for deletes, pool in ((driver, 'main'), (recycles, keeps_nothing)):
        volume = things.volume(pool=pool)
        driver.create_volume(volume)
        left_by_backups(driver, volume)
        path = names.volume_path(volume.name, 'snapshots')
        driver.client.post(path, {'name': 'monday'})
        with pytest.raises(exception.VolumeIsBusy) as caught:
            deletes.delete_volume(volume)
        assert 'monday' in str(caught.value)
        assert 'backup-' not in str(caught.value)
        driver.volumes.drop_snapshot(volume.name, 'monday')
        deletes.delete_volume(volume)
        assert there(driver, volume) is None
        assert volume.name not in [
            one['name'] for one in driver.client.list('/deleted-volumes')]


def test_the_scheduler_is_told(driver, make_driver, made):
    made(size=2)
    told = driver.get_volume_stats(refresh=True)
    assert told['storage_protocol'] == 'NVMe-TCP'
    assert told['backend_state'] == 'up'
    pools = {pool['pool_name']: pool for pool in told['pools']}
    assert set(pools) == {'main', 'archive'}
    main = pools['main']
    assert 0 < main['free_capacity_gb'] <= main['total_capacity_gb'] < 2
    assert main['provisioned_capacity_gb'] >= 2
    assert main['amita_copies'] == 3 and main['multiattach']
    assert main['location_info'] == f'amita:{driver.cluster_id}'
    only = make_driver(amita_pools=['archive'], amita_protocol='iscsi')
    told = only.get_volume_stats(refresh=True)
    assert [pool['pool_name'] for pool in told['pools']] == ['archive']
    assert told['storage_protocol'] == 'iSCSI'
    with pytest.raises(exception.InvalidConfigurationValue):
        make_driver(amita_pools=['none'])


def test_who_may_too_little_is_told_when_the_driver_starts(cluster,
                                                           make_driver):
    file = cluster.file('viewer')
    file.touch(mode=0o600)
    said = cluster.amita('token', 'create', 'looks', '--role', 'viewer')
    file.write_text(said.split()[0])
    with pytest.raises(exception.VolumeBackendAPIException) as caught:
        make_driver(amita_api_token_file=str(file))
    assert 'operator' in str(caught.value)


def test_a_certificate_in_place_of_a_token(cluster, make_driver):
    folder = cluster.file('cinder.id')
    driver = make_driver(amita_api_token_file=None,
                         amita_api_certificate=str(folder / 'cert.pem'),
                         amita_api_key=str(folder / 'key.pem'))
    myself = driver.client.get('/self').body
    assert (myself['proof'], myself['role']) == ('certificate', 'operator')


def test_a_node_that_proves_nothing_is_not_believed(cluster, make_driver,
                                                    tmp_path):
    # Names of hosts are checked where nothing else is said.
    for other in ({'amita_api_cluster_certificates': False},
                  {'amita_api_ca': None,
                   'amita_api_cluster_certificates': False}):
        with pytest.raises(exception.VolumeBackendAPIException):
            make_driver(amita_api_patience=1.0, **other)


def test_a_server_with_the_certificate_of_a_client_is_no_node(cluster,
                                                              make_driver):
    import importlib
    import ssl
    import threading
    http_server = importlib.import_module('http.server')
    folder = cluster.file('cinder.id')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / 'cert.pem', folder / 'key.pem')
    server = http_server.HTTPServer(('127.0.0.1', 0),
                                    http_server.BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever,
                              kwargs={'poll_interval': 0.02}, daemon=True)
    thread.start()
    try:
        with pytest.raises(exception.VolumeBackendAPIException):
            make_driver(amita_api_patience=1.0, amita_api_endpoints=[
                f'https://127.0.0.1:{server.server_port}'])
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize('protocol, spellings', [
    ('nvme', 'NVMe-TCP'), ('iscsi', ['iSCSI', 'iscsi']), ('iscsi', 'iSCSI')])
def test_a_type_is_changed_as_the_scheduler_tells_the_protocol(
        make_driver, made, protocol, spellings):
    """It puts a list of all spellings into the capabilities."""
    driver = make_driver(amita_protocol=protocol)
    volume = made()
    kind = things.volume_type(qos={'total_iops_sec': '700'})
    host = {'host': f'{things.HOST}#main', 'capabilities': {
        'location_info': f'amita:{driver.cluster_id}',
        'storage_protocol': spellings}}
    assert driver.retype(things.CONTEXT, volume, kind, {}, host) == \
        (True, None)
    host['capabilities']['storage_protocol'] = ['FC', 'fc']
    assert driver.retype(things.CONTEXT, volume, kind, {}, host) is False


@pytest.mark.parametrize('protocol', ['nvme', 'iscsi'])
def test_what_hosts_have_by_a_driver_is_not_managed(make_driver, made,
                                                    protocol):
    """Another cloud's, or one that this Cinder has lost the record of: its
    label names a volume that is not known here."""
    driver = make_driver(amita_protocol=protocol)
    volume = made()
    driver.initialize_connection(volume, things.connector())
    reference = {'source-name': volume.name}
    with pytest.raises(exception.ManageExistingInvalidReference) as why:
        driver.manage_existing(things.volume(), reference)
    assert 'detach' in str(why.value)
    listed = driver.get_manageable_volumes([], None, 1000, 0, ['size'],
                                           ['asc'])
    mine = [one for one in listed if one['reference'] == reference]
    assert not mine[0]['safe_to_manage']
    driver.terminate_connection(volume, things.connector())
    assert driver.manage_existing_get_size(things.volume(), reference) == 1


def test_the_block_of_a_disk_stays_where_it_is_left(driver, make_driver,
                                                    made):
    volume = made()
    driver.unmanage(volume)
    again = things.volume()
    make_driver(amita_block_bytes=4096).manage_existing(
        again, {'source-name': volume.name})
    made.kept[made.kept.index(volume)] = again
    assert there(driver, again)['labels'][names.BLOCK] == '512'
