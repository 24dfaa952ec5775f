"""os-brick in a guest connects what the driver tells it: the whole way from
Cinder's driver to a disk of a stock kernel, and back.

The driver is at this machine, as cinder-volume is, and os-brick at another
one, as nova-compute is. What is handed over goes through JSON, as RPC does.
"""

import hashlib
import json

import pytest
from oslo_utils import units

import things
from amita_cinder import names
from hypervisor import Failed
from hypervisor import Hypervisor
from things import there

NVME = 'NVMEOF'
PAGES = 64


@pytest.fixture(scope='module')
def hypervisor(cluster):
    made = Hypervisor('compute1')
    yield made
    made.end()


@pytest.fixture(scope='module')
def connector(hypervisor):
    return hypervisor.call('properties')


def tell(driver, volume, connector):
    """What os-brick is handed."""
    driver.validate_connector(connector)
    told = driver.initialize_connection(volume, connector)
    things.attached(volume, connector)
    assert told['driver_volume_type'] == 'nvmeof'
    return json.loads(json.dumps(told['data']))


def live(hypervisor, data):
    return [address for state, address in hypervisor.call(
        'paths', data['target_nqn']) if state == 'live']


def of_volume(driver, volume, offset, pages):
    """SHA-256 of a part of a volume, as the cluster has it."""
    found, at = hashlib.sha256(), 0
    for chunk in driver.client.download(
            names.volume_path(volume.name, 'export'), units.Mi):
        found.update(chunk[max(offset - at, 0):
                           max(offset + pages * 4096 - at, 0)])
        at += len(chunk)
        # All of it is read: what is cut short would be an error.
    return found.hexdigest()


def test_a_host_is_what_os_brick_says_of_it(hypervisor, connector):
    # By its daemon for what needs rights, as Nova has it.
    assert any('Running privsep helper' in line
               for line in hypervisor.call('log', 1000))
    assert connector['nqn'].startswith('nqn.2014-08.org.nvmexpress:uuid:')
    assert connector['nvme_native_multipath'] is True
    assert connector['multipath'] is True


def test_a_volume_is_a_disk_with_all_paths_grows_and_goes(
        driver, made, cluster, hypervisor, connector):
    volume = made()
    data = tell(driver, volume, connector)
    device = hypervisor.call('connect', NVME, data)
    path = device['path']
    assert device['type'] == 'block' and path.startswith('/dev/nvme')
    hypervisor.until('all paths are live', lambda: len(
        live(hypervisor, data)) == len(data['portals']) == 3)
    addresses = live(hypervisor, data)
    for address, port, _ in data['portals']:
        assert any(f'traddr={address},trsvcid={port}' in one
                   for one in addresses), addresses
    assert hypervisor.call('size', path) == units.Gi
    # Connecting once more, as another instance does, gives the same disk.
    assert hypervisor.call('connect', NVME, data) == device

    written = hypervisor.call('write', path, units.Mi, 'first', PAGES)
    assert hypervisor.call('digest', path, units.Mi, PAGES) == written
    assert of_volume(driver, volume, units.Mi, PAGES) == written

    driver.extend_volume(volume, 2)
    assert hypervisor.call('extend', NVME, data) == 2 * units.Gi
    assert hypervisor.call('size', path) == 2 * units.Gi
    last = 2 * units.Gi - PAGES * 4096
    end = hypervisor.call('write', path, last, 'end', PAGES)
    assert hypervisor.call('digest', path, last, PAGES) == end
    assert hypervisor.call('digest', path, units.Mi, PAGES) == written

    hypervisor.call('disconnect', NVME, data, device, False)
    hypervisor.until('nothing is left of it',
                     lambda: not hypervisor.call('left'))
    assert driver.terminate_connection(volume, connector) is False
    number = there(driver, volume)['id']
    assert driver.client.find(f'/subsystems/cinder-{number}') is None

    # What was written is there by the new name, too.
    again = tell(driver, volume, connector)
    assert again['target_nqn'] != data['target_nqn']
    device = hypervisor.call('connect', NVME, again)
    assert hypervisor.call('digest', device['path'], units.Mi,
                           PAGES) == written
    hypervisor.call('disconnect', NVME, again, device, False)
    driver.terminate_connection(volume, connector)
    assert not hypervisor.call('left')


def test_a_snapshot_is_read_beside_its_volume_and_not_written(
        driver, made, hypervisor, connector):
    volume = made()
    data = tell(driver, volume, connector)
    device = hypervisor.call('connect', NVME, data)
    before = hypervisor.call('write', device['path'], 0, 'before', PAGES)
    snapshot = things.snapshot(volume)
    driver.create_snapshot(snapshot)
    after = hypervisor.call('write', device['path'], 0, 'after', PAGES)
    told = driver.initialize_connection_snapshot(snapshot, connector)
    of = json.loads(json.dumps(told['data']))
    second = hypervisor.call('connect', NVME, of)
    assert second['path'] != device['path']
    assert hypervisor.call('digest', second['path'], 0, PAGES) == before
    assert hypervisor.call('digest', device['path'], 0, PAGES) == after
    with pytest.raises(Failed):
        hypervisor.call('write', second['path'], 0, 'no', 1)
    # One goes, and the other one stays.
    hypervisor.call('disconnect', NVME, of, second, False)
    driver.terminate_connection_snapshot(snapshot, connector)
    assert hypervisor.call('digest', device['path'], 0, PAGES) == after
    hypervisor.call('disconnect', NVME, data, device, False)
    driver.terminate_connection(volume, connector)
    hypervisor.until('nothing is left of them',
                     lambda: not hypervisor.call('left'))


def test_who_was_taken_off_writes_no_more(driver, made, hypervisor,
                                          connector):
    """A forced detach of a host that goes on: it is cut off, another one
    has the volume, and what the first one had queued never arrives."""
    volume = made()
    data = tell(driver, volume, connector)
    device = hypervisor.call('connect', NVME, data)
    hypervisor.until('all paths are live',
                     lambda: len(live(hypervisor, data)) == 3)
    first = hypervisor.call('write', device['path'], 0, 'mine', PAGES)
    driver.terminate_connection(volume, connector, force=True)
    things.attached(volume)
    other = things.connector(7)
    told = driver.initialize_connection(volume, other)
    assert told['data']['target_nqn'] != data['target_nqn']
    assert hypervisor.call('try_to_write', device['path'], 0, 'late',
                           10) != 'written'
    assert live(hypervisor, data) == []
    assert of_volume(driver, volume, 0, PAGES) == first
    # It is let in again, as when its instances are started once more: by the
    # new name, and what it had queued has no way.
    again = tell(driver, volume, connector)
    hypervisor.call('disconnect', NVME, data, device, True)
    device = hypervisor.call('connect', NVME, again)
    assert hypervisor.call('digest', device['path'], 0, PAGES) == first
    hypervisor.call('disconnect', NVME, again, device, False)
    driver.terminate_connection(volume, None, force=True)
    hypervisor.until('nothing is left of it',
                     lambda: not hypervisor.call('left'))
    assert of_volume(driver, volume, 0, PAGES) == first


def test_a_volume_by_iscsi_is_a_disk_by_dm_multipath_with_chap(
        make_driver, made, cluster, hypervisor, connector):
    driver = make_driver(amita_protocol='iscsi', use_chap_auth=True,
                         amita_chap_key='a key of some length')
    volume = made()
    driver.validate_connector(connector)
    told = driver.initialize_connection(volume, connector)
    things.attached(volume, connector)
    data = json.loads(json.dumps(told['data']))
    assert data['auth_method'] == 'CHAP'
    device = hypervisor.call('connect', 'ISCSI', data)
    path = device['path']
    disks, portals = hypervisor.call('legs', path)
    assert len(disks) == 3, (device, disks, portals)
    assert portals == sorted(data['target_portals'])
    assert hypervisor.call('size', path) == units.Gi
    written = hypervisor.call('write', path, units.Mi, 'by iscsi', PAGES)
    assert hypervisor.call('digest', path, units.Mi, PAGES) == written
    assert of_volume(driver, volume, units.Mi, PAGES) == written
    driver.extend_volume(volume, 2)
    assert hypervisor.call('extend', 'ISCSI', data) == 2 * units.Gi
    assert hypervisor.call('size', path) == 2 * units.Gi
    end = hypervisor.call('write', path, 2 * units.Gi - PAGES * 4096, 'end',
                          PAGES)
    assert hypervisor.call('digest', path, 2 * units.Gi - PAGES * 4096,
                           PAGES) == end
    hypervisor.call('disconnect', 'ISCSI', data, device, False)
    hypervisor.until('nothing is left of it',
                     lambda: not hypervisor.call('left'))
    driver.terminate_connection(volume, connector)
    number = there(driver, volume)['id']
    assert driver.client.find(f'/targets/cinder-{number}') is None


def test_a_disk_goes_on_where_a_node_is_killed(driver, made, cluster,
                                               hypervisor, connector):
    """The last one. Each node is a path and holds a copy: the owner, whose
    path is the first, is killed while the host writes."""
    volume = made()
    data = tell(driver, volume, connector)
    device = hypervisor.call('connect', NVME, data)
    hypervisor.until('all paths are live',
                     lambda: len(live(hypervisor, data)) == 3)
    hypervisor.call('begin_writing', device['path'], 0)
    hypervisor.until('it writes', lambda: hypervisor.call('rounds')[0] > 2)
    address = data['portals'][0][0]
    (owner,) = [name for name in cluster.nodes
                if cluster.address(name) == address]
    cluster.kill(owner)
    try:
        hypervisor.until('a path is missed',
                         lambda: len(live(hypervisor, data)) == 2)
        seen = hypervisor.call('rounds')[0]
        hypervisor.until('it writes on', lambda: hypervisor.call(
            'rounds')[0] > seen + 2 or hypervisor.call('rounds')[1])
        # A host that comes is told of the others alone.
        cluster.until('the dead one is known', lambda: not any(
            node['name'] == owner and node['alive']
            for node in driver.client.list('/nodes')))
        second = made()
        of = tell(driver, second, connector)
        assert address not in [portal[0] for portal in of['portals']]
        other = hypervisor.call('connect', NVME, of)
        hypervisor.call('disconnect', NVME, of, other, False)
        driver.terminate_connection(second, connector)
    finally:
        cluster.start_node(owner)
    hypervisor.until('the path is back',
                     lambda: len(live(hypervisor, data)) == 3)
    count, error, found, wanted = hypervisor.call('end_writing')
    assert error is None and count > 4 and found == wanted
    hypervisor.call('disconnect', NVME, data, device, False)
    driver.terminate_connection(volume, connector)
    hypervisor.until('nothing is left of it',
                     lambda: not hypervisor.call('left'))
