"""Cinder itself: its API, scheduler and volume manager, with this driver at
real nodes. What a user asks for by REST is done, and Amita has it."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
import requests

import cinder
from amita_cinder import names
import things

PATIENCE = 90
PROJECT, ANOTHER = 'a' * 32, 'b' * 32
CONF = '''
[DEFAULT]
debug = False
log_file = {folder}/cinder.log
state_path = {folder}
transport_url = fake://
auth_strategy = noauth
api_paste_config = {paste}
resource_query_filters_file = {filters}
rootwrap_config = {folder}/rootwrap.conf
enabled_backends = nvme,iscsi
default_volume_type = __DEFAULT__
scheduler_driver_init_wait_time = 1
# Services of one process report as one of them: the others are not down.
service_down_time = 86400
periodic_interval = 5
backend_stats_polling_interval = 5
periodic_fuzzy_delay = 0
quota_volumes = -1
quota_gigabytes = -1
quota_snapshots = -1
quota_groups = -1
{cluster}
[database]
connection = sqlite:///{folder}/cinder.sqlite?timeout=60
[coordination]
backend_url = file://{folder}/coordination
[oslo_concurrency]
lock_path = {folder}/locks
[oslo_messaging_notifications]
driver = noop
[nvme]
volume_backend_name = nvme
amita_protocol = nvme
{section}
{more}
[iscsi]
volume_backend_name = iscsi
amita_protocol = iscsi
amita_pools = main
{section}
'''
SECTION = '''volume_driver = amita_cinder.driver.AmitaDriver
amita_api_endpoints = {endpoints}
amita_api_token_file = {token}
amita_api_ca = {ca}
amita_api_cluster_certificates = True
amita_delete = now
amita_attach_wait = 0
amita_detach_wait = 0.2
amita_migration_timeout = 300
max_over_subscription_ratio = 100
'''


class Stand:
    """Cinder in a process of its own, and its REST API."""

    def __init__(self, folder, cluster, clustered=False, eventlet=False,
                 token='token', more=''):
        """`more` are settings of the first backend."""
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        etc = data_files()
        for one in ('locks', 'coordination'):
            (self.folder / one).mkdir()
        shutil.copy(etc / 'rootwrap.conf', self.folder)
        section = SECTION.format(
            endpoints=','.join(cluster.endpoints()),
            token=cluster.file(token), ca=cluster.operator / 'ca.pem')
        (self.folder / 'cinder.conf').write_text(CONF.format(
            folder=self.folder, section=section, more=more,
            paste=etc / 'api-paste.ini',
            filters=etc / 'resource_filters.json',
            cluster='cluster = rack' if clustered else ''))
        self.log = open(self.folder / 'stand.log', 'wb')
        self.process = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).with_name('stand.py'),
             self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, env={
                **os.environ, 'OS_CINDER_DISABLE_EVENTLET_PATCHING':
                str(not eventlet).lower()})
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(self.last_words())
        self.session = requests.Session()
        self.session.headers.update({
            'X-Auth-Token': f'admin:{PROJECT}', 'Accept': 'application/json',
            'OpenStack-API-Version': 'volume 3.70'})

    def last_words(self):
        self.log.flush()
        said = (self.folder / 'stand.log').read_text()[-3000:]
        log = self.folder / 'cinder.log'
        return said + (log.read_text()[-6000:] if log.exists() else '')

    def ask(self, method, path, body=None, wanted=None):
        answer = self.session.request(
            method, f'{self.url}/v3/{PROJECT}{path}', json=body, timeout=60)
        if wanted is None:
            assert answer.status_code < 300, (method, path, answer.text,
                                              self.last_words())
        else:
            assert answer.status_code == wanted, (method, path, answer.text)
        return answer.json() if answer.content else None

    def until(self, what, holds, failed=lambda: False):
        until = time.monotonic() + PATIENCE
        while True:
            found = holds()
            if found:
                return found
            if failed() or time.monotonic() > until:
                raise AssertionError(f'{what}\n{self.last_words()}')
            time.sleep(0.2)

    def status(self, kind, thing, wanted, patience=PATIENCE):
        """Waits until it is so; another end of it fails."""
        one = kind.rstrip('s').replace('-', '_')

        def look():
            found = self.ask('GET', f'/{kind}/{thing}')[one]
            assert found['status'] == wanted or \
                not found['status'].startswith('error'), \
                (found, self.last_words())
            return found if found['status'] == wanted else None
        return self.until(f'{kind} {thing} is {wanted}', look)

    def gone(self, kind, thing):
        def look():
            answer = self.session.get(
                f'{self.url}/v3/{PROJECT}/{kind}/{thing}', timeout=60)
            if answer.status_code == 404:
                return True
            (found,) = answer.json().values()
            assert not found['status'].startswith('error'), \
                (found, self.last_words())
            return False
        self.until(f'{kind} {thing} is gone', look)

    def action(self, volume, name, body):
        return self.ask('POST', f'/volumes/{volume}/action', {name: body})

    def make(self, **more):
        body = {'size': 1, 'volume_type': 'nvme', **more}
        made = self.ask('POST', '/volumes', {'volume': body})['volume']
        return self.status('volumes', made['id'], 'available')

    def delete(self, *volumes):
        for volume in volumes:
            self.ask('DELETE', f'/volumes/{volume}')
        for volume in volumes:
            self.gone('volumes', volume)

    def type(self, name, specs=None, qos=None):
        made = self.ask('POST', '/types', {'volume_type': {
            'name': name, 'extra_specs': specs or {}}})['volume_type']
        if qos:
            found = self.ask('POST', '/qos-specs', {'qos_specs': {
                'name': name, 'consumer': 'back-end', **qos}})['qos_specs']
            self.ask('GET', f'/qos-specs/{found["id"]}/associate?vol_type_id='
                            f'{made["id"]}')
        return made['id']

    def stop_service(self, host):
        self.process.stdin.write(host + '\n')
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == 'stopped'

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def data_files():
    """What the wheel of Cinder brings for /etc/cinder."""
    files = importlib.metadata.files('cinder')
    (paste,) = [file for file in files if file.name == 'api-paste.ini']
    return pathlib.Path(paste.locate()).resolve().parent


@pytest.fixture(scope='module')
def stand(cluster):
    made = Stand(cluster.file('cinder'), cluster)
    try:
        made.until('all services are up', lambda: len([
            one for one in made.ask('GET', '/os-services')['services']
            if one['state'] == 'up']) == 3)
        made.type('nvme', {'volume_backend_name': 'nvme'})
        made.type('iscsi', {'volume_backend_name': 'iscsi'})
        made.type('gold', {'volume_backend_name': 'nvme',
                           'multiattach': '<is> True'},
                  {'total_iops_sec': '900'})
        made.type('archive', {'volume_backend_name': 'nvme',
                              'pool_name': 'archive'})
        made.until('pools are known', lambda: len(made.ask(
            'GET', '/scheduler-stats/get_pools')['pools']) == 3)
        yield made
    finally:
        made.stop()


@pytest.fixture
def at_amita(driver):
    """What Amita has of a volume of Cinder's."""
    def look(volume):
        answer = driver.client.find(names.volume_path(f'volume-{volume}'))
        return answer and answer.body
    look.client = driver.client
    return look


def test_a_volume_from_its_making_to_its_end(stand, at_amita):
    volume = stand.make(name='db')['id']
    assert at_amita(volume)['size_bytes'] == 1 << 30
    stand.action(volume, 'os-extend', {'new_size': 2})
    stand.status('volumes', volume, 'available')
    assert at_amita(volume)['size_bytes'] == 2 << 30
    snapshot = stand.ask('POST', '/snapshots', {'snapshot': {
        'volume_id': volume, 'name': 'monday'}})['snapshot']['id']
    stand.status('snapshots', snapshot, 'available')
    copy = stand.make(size=3, snapshot_id=snapshot)['id']
    assert at_amita(copy)['parent'] == f'volume-{volume}@snapshot-{snapshot}'
    clone = stand.make(size=2, source_volid=volume)['id']
    assert at_amita(clone)['parent']
    stand.action(volume, 'revert', {'snapshot_id': snapshot})
    stand.status('volumes', volume, 'available')
    stand.ask('DELETE', f'/snapshots/{snapshot}')
    stand.gone('snapshots', snapshot)
    stand.delete(volume, copy, clone)
    assert not any(map(at_amita, (volume, copy, clone)))


def attach(stand, volume, number, mode='rw'):
    """As a host, and not as an instance: of that Cinder would ask Nova when
    it is detached."""
    made = stand.ask('POST', '/attachments', {'attachment': {
        'volume_uuid': volume, 'connector': things.connector(number),
        'mode': mode}})['attachment']
    stand.ask('POST', f'/attachments/{made["id"]}/action',
              {'os-complete': {}})
    return made


@pytest.mark.parametrize('kind, protocol', [('nvme', 'nvmeof'),
                                            ('iscsi', 'iscsi')])
def test_attachments_as_nova_asks_for_them(stand, at_amita, kind, protocol):
    volume = stand.make(volume_type=kind)['id']
    made = attach(stand, volume, 1)
    told = made['connection_info']
    assert told['driver_volume_type'] == protocol
    assert told['access_mode'] == 'rw' and told['encrypted'] is False
    stand.status('volumes', volume, 'in-use')
    number = at_amita(volume)['id']
    path = {'nvme': f'/subsystems/cinder-{number}',
            'iscsi': f'/targets/cinder-{number}'}[kind]
    assert at_amita.client.find(path)
    # Snapshots and clones of what is used, and its growth.
    snapshot = stand.ask('POST', '/snapshots', {'snapshot': {
        'volume_id': volume}})['snapshot']['id']
    stand.status('snapshots', snapshot, 'available')
    stand.ask('DELETE', f'/snapshots/{snapshot}')
    stand.gone('snapshots', snapshot)
    stand.ask('DELETE', f'/volumes/{volume}', wanted=400)
    stand.ask('DELETE', f'/attachments/{made["id"]}')
    stand.status('volumes', volume, 'available')
    assert at_amita.client.find(path) is None
    stand.delete(volume)


def test_one_volume_at_two_hosts(stand, at_amita):
    volume = stand.make(volume_type='gold')['id']
    path = names.volume_path(f'volume-{volume}', 'limits')
    assert at_amita.client.get(path).body['iops']['both']['rate'] == 900
    first, second = attach(stand, volume, 1), attach(stand, volume, 2)
    number = at_amita(volume)['id']
    subsystem = f'/subsystems/cinder-{number}'
    assert len(at_amita.client.get(subsystem).body['hosts']) == 2
    stand.ask('DELETE', f'/attachments/{first["id"]}')
    assert at_amita.client.get(subsystem).body['hosts'] == [
        things.connector(2)['nqn']]
    stand.ask('DELETE', f'/attachments/{second["id"]}')
    stand.status('volumes', volume, 'available')
    stand.delete(volume)


def test_a_volume_that_is_used_changes_its_type_and_its_pool(stand, at_amita):
    volume = stand.make(volume_type='nvme')['id']
    # It may have been placed in either pool.
    types = {'main': 'archive', 'archive': 'only-main'}
    stand.type('only-main', {'volume_backend_name': 'nvme',
                             'pool_name': 'main'})
    pool = at_amita(volume)['pool']
    other = {'main': 'archive', 'archive': 'main'}[pool]
    made = attach(stand, volume, 1)
    stand.status('volumes', volume, 'in-use')

    def retype(kind):
        stand.action(volume, 'os-retype', {'new_type': kind,
                                           'migration_policy': 'on-demand'})
        return stand.until(f'it is of type {kind}', lambda: stand.ask(
            'GET', f'/volumes/{volume}')['volume']['volume_type'] == kind)
    retype(types[pool])
    found = stand.status('volumes', volume, 'in-use')
    assert at_amita(volume)['pool'] == other
    assert found['os-vol-host-attr:host'] == f'one@nvme#{other}'
    stand.ask('DELETE', f'/attachments/{made["id"]}')
    stand.status('volumes', volume, 'available')
    retype('nvme')
    stand.status('volumes', volume, 'available')
    stand.action(volume, 'os-migrate_volume', {
        'host': f'one@nvme#{pool}', 'force_host_copy': False})
    stand.until('it has moved', lambda: stand.ask(
        'GET', f'/volumes/{volume}')['volume'][
            'os-vol-host-attr:host'] == f'one@nvme#{pool}')
    assert at_amita(volume)['pool'] == pool
    # To the other backend of the same cluster nothing is copied either.
    stand.type('either', {})
    retype('either')
    stand.status('volumes', volume, 'available')
    stand.action(volume, 'os-migrate_volume', {
        'host': 'one@iscsi#main', 'force_host_copy': False})
    stand.until('it is of the other backend', lambda: stand.ask(
        'GET', f'/volumes/{volume}')['volume'][
            'os-vol-host-attr:host'] == 'one@iscsi#main')
    assert at_amita(volume)['pool'] == 'main'
    stand.delete(volume)
    assert at_amita(volume) is None


def test_a_volume_by_iscsi_changes_its_type_where_it_is(stand, at_amita):
    """Nothing is copied for it: the scheduler tells protocols otherwise than
    drivers do."""
    stand.type('iscsi-slow', {'volume_backend_name': 'iscsi'},
               {'total_iops_sec': '300'})
    volume = stand.make(volume_type='iscsi')['id']
    number = at_amita(volume)['id']
    stand.action(volume, 'os-retype', {'new_type': 'iscsi-slow',
                                       'migration_policy': 'never'})
    stand.until('it is of the other type', lambda: stand.ask(
        'GET', f'/volumes/{volume}')['volume']['volume_type'] == 'iscsi-slow')
    stand.status('volumes', volume, 'available')
    assert at_amita(volume)['id'] == number
    limits = at_amita.client.get(f'/volumes/volume-{volume}/limits').body
    assert limits['iops']['both']['rate'] == 300
    stand.delete(volume)


def test_groups_with_snapshots_of_one_moment(stand, at_amita):
    kind = stand.ask('POST', '/group_types', {'group_type': {
        'name': 'consistent', 'group_specs': {
            'consistent_group_snapshot_enabled': '<is> True'}}})
    kind = kind['group_type']['id']
    stand.ask('POST', f'/group_types/{kind}/group_specs', {'group_specs': {
        'consistent_group_snapshot_enabled': '<is> True'}})
    wanted = [one['id'] for one in stand.ask('GET', '/types')['volume_types']
              if one['name'] == 'nvme']
    group = stand.ask('POST', '/groups', {'group': {
        'group_type': kind, 'volume_types': wanted, 'name': 'shop'}})
    group = group['group']['id']
    stand.status('groups', group, 'available')
    volumes = [stand.make(group_id=group)['id'] for _ in range(2)]
    taken = stand.ask('POST', '/group_snapshots', {'group_snapshot': {
        'group_id': group, 'name': 'monday'}})['group_snapshot']['id']
    stand.status('group_snapshots', taken, 'available')
    sets = {one['set'] for one in at_amita.client.list('/snapshots')
            if one['volume'] in [f'volume-{volume}' for volume in volumes]}
    assert len(sets) == 1 and None not in sets
    copy = stand.ask('POST', '/groups/action', {'create-from-src': {
        'group_snapshot_id': taken, 'name': 'copy'}})['group']['id']
    stand.status('groups', copy, 'available')
    clone = stand.ask('POST', '/groups/action', {'create-from-src': {
        'source_group_id': group, 'name': 'clone'}})['group']['id']
    stand.status('groups', clone, 'available')
    made = [one for one in stand.ask('GET', '/volumes/detail')['volumes']
            if one['group_id'] in (copy, clone)]
    assert len(made) == 4
    assert all(at_amita(one['id'])['parent'] for one in made)
    stand.ask('DELETE', f'/group_snapshots/{taken}')
    stand.gone('group_snapshots', taken)
    for one in (copy, clone, group):
        stand.ask('POST', f'/groups/{one}/action',
                  {'delete': {'delete-volumes': True}})
        stand.gone('groups', one)
    assert not any(at_amita(volume) for volume in volumes)


def test_volumes_from_before_cinder(stand, at_amita):
    at_amita.client.post('/volumes', {'name': 'from-before', 'pool': 'main',
                                      'size_bytes': 1 << 30})
    listed = stand.ask('GET', '/manageable_volumes/detail?host='
                              'one@nvme%23main')['manageable-volumes']
    (mine,) = [one for one in listed
               if one['reference'] == {'source-name': 'from-before'}]
    assert mine['safe_to_manage']
    made = stand.ask('POST', '/manageable_volumes', {'volume': {
        'host': 'one@nvme#main', 'ref': {'source-name': 'from-before'},
        'volume_type': 'nvme', 'name': 'managed'}})['volume']['id']
    stand.status('volumes', made, 'available')
    assert at_amita(made)['labels'][names.WAS] == 'from-before'
    at_amita.client.post(f'/volumes/volume-{made}/snapshots',
                         {'name': 'before'})
    taken = stand.ask('POST', '/manageable_snapshots', {'snapshot': {
        'volume_id': made, 'ref': {'source-name': 'before'}}})
    taken = taken['snapshot']['id']
    stand.status('snapshots', taken, 'available')
    # Neither has two records, of whichever backend: one's deletion would be
    # the other one's end.
    listed = stand.ask('GET', '/manageable_volumes/detail?host='
                              'one@iscsi%23main')['manageable-volumes']
    (mine,) = [one for one in listed
               if one['reference'] == {'source-name': f'volume-{made}'}]
    assert not mine['safe_to_manage']
    second = stand.ask('POST', '/manageable_snapshots', {'snapshot': {
        'volume_id': made, 'ref': {'source-name': 'before'}}})
    second = second['snapshot']['id']
    stand.until('it is refused', lambda: stand.ask(
        'GET', f'/snapshots/{second}')['snapshot']['status'].startswith(
            'error'))
    stand.ask('DELETE', f'/snapshots/{second}')
    stand.gone('snapshots', second)
    clone = stand.make(snapshot_id=taken)['id']
    stand.ask('POST', f'/snapshots/{taken}/action', {'os-unmanage': {}})
    stand.gone('snapshots', taken)
    stand.action(made, 'os-unmanage', {})
    stand.gone('volumes', made)
    found = at_amita(made)
    assert found and found['labels'] == {names.BLOCK: '512'}
    stand.delete(clone)
    at_amita.client.delete(f'/volumes/volume-{made}/snapshots/before',
                           if_match='*')
    at_amita.client.delete(f'/volumes/volume-{made}', if_match='*', now=True)


def test_what_cannot_be_made_is_an_error_and_goes(stand, at_amita):
    stand.type('wrong', {'volume_backend_name': 'nvme',
                         'amita:iopss': '1'})
    made = stand.ask('POST', '/volumes', {'volume': {
        'size': 1, 'volume_type': 'wrong'}})['volume']['id']
    stand.until('it is an error', lambda: stand.ask(
        'GET', f'/volumes/{made}')['volume']['status'] == 'error')
    assert at_amita(made) is None
    stand.delete(made)


def test_a_transfer_changes_whose_it_is(stand, at_amita):
    volume = stand.make()['id']
    transfer = stand.ask('POST', '/volume-transfers', {'transfer': {
        'volume_id': volume}})['transfer']
    answer = stand.session.post(
        f'{stand.url}/v3/{ANOTHER}/volume-transfers/{transfer["id"]}/accept',
        json={'accept': {'auth_key': transfer['auth_key']}},
        headers={'X-Auth-Token': f'eve:{ANOTHER}'}, timeout=60)
    assert answer.status_code < 300, answer.text
    stand.until('its project is noted', lambda: at_amita(volume)['labels'][
        names.PROJECT] == ANOTHER)
    stand.delete(volume)


def test_a_cluster_of_two_goes_on_with_one(cluster, at_amita):
    """Active-active: two volume services of one cluster; one ends."""
    stand = Stand(cluster.file('clustered'), cluster, clustered=True)
    try:
        stand.type('nvme', {'volume_backend_name': 'nvme'})
        stand.until('pools are known', lambda: len(stand.ask(
            'GET', '/scheduler-stats/get_pools')['pools']) >= 3)
        volumes = [stand.ask('POST', '/volumes', {'volume': {
            'size': 1, 'volume_type': 'nvme'}})['volume']['id']
            for _ in range(4)]
        for volume in volumes:
            found = stand.status('volumes', volume, 'available')
            assert found['cluster_name'].startswith('rack@nvme#')
        made = attach(stand, volumes[0], 1)
        stand.stop_service('one@nvme')
        stand.ask('DELETE', f'/attachments/{made["id"]}')
        stand.status('volumes', volumes[0], 'available')
        stand.delete(*volumes)
        assert not any(map(at_amita, volumes))
    finally:
        stand.stop()


def test_by_eventlet(cluster, at_amita):
    """As Cinder 29 runs where nothing else is said: all else here is by
    native threads."""
    stand = Stand(cluster.file('eventlet'), cluster, eventlet=True)
    try:
        stand.type('nvme', {'volume_backend_name': 'nvme'})
        stand.until('pools are known', lambda: len(stand.ask(
            'GET', '/scheduler-stats/get_pools')['pools']) == 3)
        volume = stand.make()['id']
        clone = stand.make(source_volid=volume)['id']
        made = attach(stand, volume, 1)
        stand.status('volumes', volume, 'in-use')
        stand.ask('DELETE', f'/attachments/{made["id"]}')
        stand.status('volumes', volume, 'available')
        assert at_amita(clone)['parent']
        stand.delete(volume, clone)
        assert not any(map(at_amita, (volume, clone)))
    finally:
        stand.stop()


def test_the_versions_are_those_that_are_named():
    assert importlib.metadata.version('cinder').startswith('29.')
    assert importlib.metadata.version('os-brick').startswith('7.1')
    assert os.path.exists(cinder.__file__)
