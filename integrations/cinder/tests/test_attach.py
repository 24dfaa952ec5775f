"""Who has a volume: at real nodes, and what hosts are told by os-brick's own
reading of it.

No disk is connected: that needs a kernel with nvme-tcp or an initiator.
"""

import copy
import json
import time

import pytest

from cinder import coordination
from cinder import exception
from cinder.db import api as db
from cinder.volume import volume_types
from os_brick.initiator import connector as brick
from os_brick.initiator.connectors import base_iscsi
from os_brick.initiator.connectors import nvmeof

from amita_cinder import names
import things
from things import there

ONE, TWO = things.connector(1), things.connector(2)


def service(driver, volume, path='/subsystems'):
    number = there(driver, volume)['id']
    answer = driver.client.find(f'{path}/cinder-{number}')
    return answer and answer.body


def test_a_host_is_told_what_os_brick_takes(driver, made, cluster):
    volume = made()
    told = driver.initialize_connection(volume, ONE)
    assert told['driver_volume_type'] == 'nvmeof'
    data = told['data']
    assert driver.initialize_connection(volume, ONE) == told
    read = nvmeof.NVMeOFConnProps(copy.deepcopy(data))
    (target,) = read.targets
    assert not read.is_replicated
    assert target.nqn == data['target_nqn']
    assert target.uuid == data['vol_uuid']
    assert target.host_nqn == ONE['nqn']
    assert {(portal.address, int(portal.port), portal.transport)
            for portal in target.portals} == {
        ('127.0.0.1', cluster.ports[name]['nvme'], 'tcp')
        for name in cluster.nodes}
    attachment = driver.client.get(
        names.volume_path(volume.name, 'attachment')).body
    assert attachment['uuid'] == data['vol_uuid']
    assert attachment['block_bytes'] == 512
    # The connector that Nova makes of its type.
    made_by_type = brick.InitiatorConnector.factory(
        'NVMEOF', None, use_multipath=True)
    assert isinstance(made_by_type, nvmeof.NVMeOFConnector)
    driver.terminate_connection(volume, ONE)
    assert service(driver, volume) is None


def test_two_hosts_have_it_until_the_last_has_gone(driver, made):
    volume = made()
    first = driver.initialize_connection(volume, ONE)
    second = driver.initialize_connection(volume, TWO)
    assert first['data']['target_nqn'] == second['data']['target_nqn']
    assert service(driver, volume)['hosts'] == sorted([ONE['nqn'],
                                                       TWO['nqn']])
    things.attached(volume, ONE, TWO)
    assert driver.terminate_connection(volume, ONE) is False
    assert service(driver, volume)['hosts'] == [TWO['nqn']]
    assert driver.terminate_connection(volume, ONE) is False
    things.attached(volume, TWO)
    assert driver.terminate_connection(volume, TWO) is False
    assert service(driver, volume) is None
    # What a lost host had queued by the old name has no way back.
    again = driver.initialize_connection(volume, ONE)
    assert again['data']['target_nqn'] != first['data']['target_nqn']
    assert again['data']['vol_uuid'] == first['data']['vol_uuid']


def test_two_instances_on_one_host_share_it(driver, made):
    volume = made(multiattach=True)
    driver.initialize_connection(volume, ONE)
    things.attached(volume, ONE, ONE)
    assert driver.terminate_connection(volume, ONE) is True
    assert service(driver, volume)['hosts'] == [ONE['nqn']]
    things.attached(volume, ONE)
    # Cinder itself has had it there, beside the instance.
    volume.status = 'uploading'
    assert driver.terminate_connection(volume, ONE) is True
    volume.status = 'in-use'
    assert driver.terminate_connection(volume, ONE) is False
    assert service(driver, volume) is None


class Recorded:
    """A volume and its attachments as Cinder's database has them."""

    def __init__(self, volume):
        self.volume = volume
        db.volume_create(things.CONTEXT, {
            'id': volume.id, 'size': volume.size, 'host': volume.host,
            'status': 'in-use', 'use_quota': True,
            'volume_type_id': volume_types.get_default_volume_type(
                things.CONTEXT)['id']})

    def attach(self, connector=None):
        return db.volume_attach(things.CONTEXT, {
            'volume_id': self.volume.id, 'attach_status': 'attached',
            'connector': connector and json.dumps(connector)}).id

    def end(self, attachment):
        db.attachment_destroy(things.CONTEXT, attachment)

    def status(self, status):
        db.volume_update(things.CONTEXT, self.volume.id, {'status': status})


@pytest.mark.parametrize('protocol', ['nvme', 'iscsi'])
def test_two_instances_that_go_from_one_host_at_one_time(make_driver, made,
                                                         protocol):
    """Each is told that the other one is there, and it is taken off later:
    when Cinder knows of none, and nobody may be about to attach it."""
    driver = make_driver(amita_protocol=protocol)
    path = driver.service.PATH
    volume = made(multiattach=True)
    known = Recorded(volume)
    driver.initialize_connection(volume, ONE)
    things.attached(volume, ONE, ONE)
    attachments = [known.attach(ONE), known.attach(ONE)]
    for _ in attachments:
        assert driver.terminate_connection(volume, ONE) is True

    def is_left():
        driver.get_volume_stats(refresh=True)
        return service(driver, volume, path) is not None
    assert is_left()
    known.end(attachments[0])
    assert is_left()
    # Another one has been promised, of a host that is not known yet.
    coming = known.attach()
    known.end(attachments[1])
    assert is_left()
    known.end(coming)
    known.status('uploading')
    assert is_left()
    known.status('available')
    turn = coordination.COORDINATOR.get_lock(f'amita-{volume.id}')
    with turn:
        assert is_left(), 'it is being attached'
    other = driver.initialize_connection(volume, TWO)['data']
    kept = known.attach(TWO)
    assert is_left()
    assert driver.service.hosts(service(driver, volume, path)) == [
        TWO[driver.service.HOST]]
    things.attached(volume, TWO)
    assert driver.terminate_connection(volume, TWO) is False
    known.end(kept)
    assert not is_left()
    # Nothing is remembered: it is attached there again, and stays.
    again = driver.initialize_connection(volume, ONE)['data']
    key = 'target_nqn' if protocol == 'nvme' else 'target_iqn'
    assert again[key] != other[key]
    assert is_left()
    driver.terminate_connection(volume, None)


def test_a_lost_host_is_taken_off_without_being_asked(driver, made):
    volume = made()
    driver.initialize_connection(volume, ONE)
    driver.initialize_connection(volume, TWO)
    driver.terminate_connection(volume, None, force=True)
    assert service(driver, volume) is None
    driver.terminate_connection(volume, None, force=True)


def test_what_a_cut_attachment_has_left_keeps_no_volume(driver, made):
    volume = made()
    driver.initialize_connection(volume, ONE)
    things.attached(volume, ONE)
    with pytest.raises(exception.VolumeIsBusy) as caught:
        driver.delete_volume(volume)
    assert ONE['host'] in str(caught.value)
    # By Cinder's records nobody has it.
    things.attached(volume)
    number = there(driver, volume)['id']
    driver.delete_volume(volume)
    assert driver.client.find(f'/subsystems/cinder-{number}') is None


def test_a_service_that_lets_nobody_in_is_made_anew(driver, made):
    volume = made()
    driver.initialize_connection(volume, ONE)
    before = service(driver, volume)
    driver.client.delete(
        f'/subsystems/{before["name"]}/hosts/{ONE["nqn"]}')
    told = driver.initialize_connection(volume, TWO)
    assert told['data']['target_nqn'] != before['nqn']
    assert service(driver, volume)['hosts'] == [TWO['nqn']]


def test_a_volume_that_an_operator_has_given_away_is_said(driver, made,
                                                          cluster):
    volume = made()
    cluster.amita('volume', 'attach', volume.name, '--host', TWO['nqn'])
    began = time.monotonic()
    with pytest.raises(exception.VolumeBackendAPIException):
        driver.initialize_connection(volume, ONE)
    assert time.monotonic() - began < 10
    assert service(driver, volume) is None
    with pytest.raises(exception.VolumeIsBusy):
        driver.delete_volume(volume)
    cluster.amita('subsystem', 'delete', volume.name, '--force')


def test_a_snapshot_is_attached_for_a_backup(driver, made):
    volume = made()
    snapshot = things.snapshot(volume)
    driver.create_snapshot(snapshot)
    driver.initialize_connection(volume, ONE)
    told = driver.initialize_connection_snapshot(snapshot, ONE)
    assert told['data']['access_mode'] == 'ro'
    assert nvmeof.NVMeOFConnProps(copy.deepcopy(told['data'])).readonly
    driver.terminate_connection_snapshot(snapshot, ONE)
    assert service(driver, volume)['hosts'] == [ONE['nqn']]
    # One that was left does not keep the snapshot.
    driver.initialize_connection_snapshot(snapshot, ONE)
    driver.delete_snapshot(snapshot)
    driver.terminate_connection_snapshot(snapshot, ONE)


def test_a_host_without_a_name_is_refused(driver, make_driver):
    for made_by in (driver, make_driver(amita_protocol='iscsi')):
        with pytest.raises(exception.InvalidConnectorException):
            made_by.validate_connector({'host': 'compute-1'})
        made_by.validate_connector(ONE)


def test_as_many_portals_as_are_wanted_the_owner_first(make_driver, made,
                                                       cluster):
    volume = made()
    driver = make_driver(amita_portals=2, amita_gateways=['n2', 'n3'],
                         amita_block_bytes=4096)
    told = driver.initialize_connection(volume, ONE)
    assert {int(port) for _, port, _ in told['data']['portals']} == {
        cluster.ports[name]['nvme'] for name in ('n2', 'n3')}
    # A volume keeps the block that it was made with.
    path = names.volume_path(volume.name, 'attachment')
    assert driver.client.get(path).body['block_bytes'] == 512
    driver.terminate_connection(volume, ONE)
    one = make_driver(amita_portals=1)
    assert len(one.initialize_connection(volume, ONE)['data'][
        'portals']) == 1
    one.terminate_connection(volume, ONE)


def test_iscsi_by_several_portals_with_chap(make_driver, made, cluster):
    driver = make_driver(amita_protocol='iscsi', use_chap_auth=True,
                         amita_chap_key='a key of some length')
    volume = made()
    told = driver.initialize_connection(volume, ONE)
    assert told['driver_volume_type'] == 'iscsi'
    data = told['data']
    assert driver.initialize_connection(volume, ONE) == told
    targets = _Reader()._get_all_targets(data)
    assert {(portal, iqn, lun) for portal, iqn, lun in targets} == {
        (f'127.0.0.1:{cluster.ports[name]["iscsi"]}', data['target_iqn'], 0)
        for name in cluster.nodes}
    assert len(list(_Reader()._iterate_all_targets(data))) == 3
    assert data['auth_method'] == 'CHAP'
    known = driver.client.get(
        f'/initiators/{names_of(ONE)}').body
    assert known['chap'] and known['chap_user'] == data['auth_username']
    found = service(driver, volume, '/targets')
    assert found['chap_required']
    other = driver.initialize_connection(volume, TWO)['data']
    assert other['auth_password'] != data['auth_password']
    single = driver.initialize_connection(volume, {**TWO, 'multipath': False})
    assert 'target_portals' not in single['data']
    driver.terminate_connection(volume, ONE)
    found = service(driver, volume, '/targets')
    assert [access['initiator'] for access in found['initiators']] == \
        [TWO['initiator']]
    driver.terminate_connection(volume, TWO)
    assert service(driver, volume, '/targets') is None
    again = driver.initialize_connection(volume, ONE)['data']
    assert again['target_iqn'] != data['target_iqn']
    assert again['auth_password'] == data['auth_password']
    driver.terminate_connection(volume, None)


def names_of(connector):
    from amita_cinder.client import quoted
    return quoted(connector['initiator'])


class _Reader(base_iscsi.BaseISCSIConnector):
    def __init__(self):
        pass


# What it reads is tried, and not how it connects.
_Reader.__abstractmethods__ = frozenset()


def test_a_volume_in_a_target_moves_too(make_driver, made):
    driver = make_driver(amita_protocol='iscsi')
    volume = made()
    told = driver.initialize_connection(volume, ONE)
    host = {'host': f'{things.HOST}#archive', 'capabilities': {}}
    assert driver.retype(things.CONTEXT, volume, things.volume_type(), {},
                         host) == (True, None)
    again = driver.initialize_connection(volume, ONE)
    # The owner, whose portal is the first, may be another one.
    for key in ('target_iqn', 'target_lun'):
        assert again['data'][key] == told['data'][key]
    assert set(again['data']['target_portals']) == \
        set(told['data']['target_portals'])
    driver.terminate_connection(volume, ONE)


def test_a_deletion_ends_what_the_other_protocol_has_left(make_driver, made):
    driver = make_driver(amita_protocol='iscsi')
    volume = made()
    driver.initialize_connection(volume, ONE)
    make_driver(amita_protocol='nvme').delete_volume(volume)
    assert there(driver, volume) is None


def test_two_hosts_that_go_at_one_time_leave_nothing(driver, make_driver,
                                                     made, monkeypatch):
    """Each sees the other one on the list: neither is the last."""
    volume = made()
    for host in (ONE, TWO):
        driver.initialize_connection(volume, host)
    name = service(driver, volume)['name']
    ask, other = driver.client.ask, make_driver().client

    def between(method, path, **more):
        if method == 'DELETE' and other.find(
                f'/subsystems/{name}').body['hosts'].count(TWO['nqn']):
            other.delete(f'/subsystems/{name}/hosts/{TWO["nqn"]}')
        return ask(method, path, **more)
    monkeypatch.setattr(driver.client, 'ask', between)
    driver.terminate_connection(volume, ONE)
    assert service(driver, volume) is None


def test_who_cannot_be_told_where_is_let_in_nowhere(driver, made,
                                                    monkeypatch):
    """Cinder knows of no attachment that failed, and would end none."""
    volume = made()
    monkeypatch.setattr(driver.service, '_portals', lambda gateways: [])
    with pytest.raises(exception.VolumeBackendAPIException):
        driver.initialize_connection(volume, ONE)
    assert service(driver, volume) is None


def test_what_was_left_keeps_no_volume_from_another_protocol(
        driver, make_driver, made):
    """Moved to a backend of the other protocol, while nobody has it by
    Cinder's records: it can be attached there."""
    iscsi = make_driver(amita_protocol='iscsi')
    volume = made()
    driver.initialize_connection(volume, ONE)
    host = {'host': f'{things.HOST}2#main', 'capabilities': {
        'location_info': f'amita:{driver.cluster_id}',
        'storage_protocol': ['iSCSI', 'iscsi']}}
    things.attached(volume, ONE)
    assert driver.migrate_volume(things.CONTEXT, volume, host) == \
        (False, None)
    assert service(driver, volume)['hosts'] == [ONE['nqn']]
    things.attached(volume)
    assert driver.migrate_volume(things.CONTEXT, volume, host) == (True, None)
    assert service(driver, volume) is None
    iscsi.initialize_connection(volume, TWO)
    iscsi.terminate_connection(volume, TWO)
