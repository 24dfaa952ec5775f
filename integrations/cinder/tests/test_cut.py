"""Every call is cut at each of its requests, before it is carried out and
after, and given again: as when cinder-volume is killed, or a node dies with
an answer. In the end all is as if nothing had happened, and nothing is left.
"""

import pytest
from oslo_utils import units

from cinder import exception
from cinder.volume import volume_utils

from amita_cinder import errors
from amita_cinder import names
import things
from things import snapshots
from things import there

# More requests than any call makes.
MOST = 60


class Cut(Exception):
    """The process was killed."""


class Knife:
    """Cuts a client at a request that changes something."""

    def __init__(self, client):
        self.client = client
        self.ask = client.ask
        self.at = None
        self.after = False
        self.seen = 0
        client.ask = self._ask

    def _ask(self, method, path, **more):
        if method == 'GET' or self.at is None:
            return self.ask(method, path, **more)
        self.seen += 1
        if self.seen != self.at:
            return self.ask(method, path, **more)
        if self.after:
            self.ask(method, path, **more)
        # Nothing more is done by that process: neither undone nor ended.
        self.client.ask = self._dead
        raise Cut()

    def _dead(self, method, path, **more):
        raise Cut()

    def cut(self, call, at, after):
        """Was it cut?"""
        self.at, self.after, self.seen = at, after, 0
        try:
            call()
            return False
        except Cut:
            return True
        finally:
            self.at = None
            self.client.ask = self._ask

    def close(self):
        self.client.ask = self.ask


@pytest.fixture
def knife(driver):
    made = Knife(driver.client)
    yield made
    made.close()


def everything(driver):
    """Names of all that there is."""
    found = {f'volume {one["name"]}' for one in driver.client.list('/volumes')}
    found |= {f'snapshot {one["volume"]}@{one["name"]}'
              for one in driver.client.list('/snapshots')}
    for kind in ('subsystems', 'targets', 'jobs'):
        found |= {f'{kind} {one.get("name") or one["id"]}'
                  for one in driver.client.list(f'/{kind}')}
    return found


def each_cut(driver, knife, begin, call, check, end):
    """For each place at which it can be cut."""
    cuts = 0
    for after in (False, True):
        for at in range(1, MOST):
            before = everything(driver)
            made = begin()
            was_cut = knife.cut(lambda: call(*made), at, after)
            cuts += was_cut
            call(*made)
            check(*made)
            # Given once more, it changes nothing.
            now = everything(driver)
            call(*made)
            assert everything(driver) == now, (at, after)
            end(*made)
            assert everything(driver) == before, (at, after)
            if not was_cut:
                break
    assert cuts >= 2
    return cuts


def test_making_and_growing(driver, knife):
    kind = things.volume_type(qos={'total_iops_sec': '500', 'weight': '200'})

    def check(volume):
        assert there(driver, volume)['size_bytes'] == units.Gi
        path = names.volume_path(volume.name, 'limits')
        assert driver.client.get(path).body['iops']['both']['rate'] == 500
    each_cut(driver, knife, lambda: (things.volume(kind=kind),),
             driver.create_volume, check, driver.delete_volume)


def test_deleting(driver, knife):
    def begin():
        volume = things.volume()
        driver.create_volume(volume)
        driver.create_snapshot(things.snapshot(volume))
        taken = snapshots(driver, volume)[0]
        driver.volumes.drop_snapshot(volume.name, taken)
        driver.volumes.take_snapshot(there(driver, volume), 'cut-off',
                                     {names.TEMPORARY: 'x'})
        driver.initialize_connection(volume, things.connector())
        return (volume,)

    def gone(volume):
        assert there(driver, volume) is None
    each_cut(driver, knife, begin, driver.delete_volume, gone,
             lambda volume: None)


def with_source(driver):
    source = things.volume()
    driver.create_volume(source)
    return source


def test_cloning(driver, knife):
    def check(volume, source):
        found = there(driver, volume)
        assert found['size_bytes'] == 2 * units.Gi
        assert found['parent'].startswith(f'{source.name}@')
        assert snapshots(driver, source) == []

    def end(volume, source):
        driver.delete_volume(volume)
        driver.delete_volume(source)
    each_cut(driver, knife,
             lambda: (things.volume(size=2), with_source(driver)),
             driver.create_cloned_volume, check, end)


def test_cloning_into_another_pool(driver, knife):
    def check(volume, source):
        found = there(driver, volume)
        assert found['size_bytes'] == 2 * units.Gi
        assert found['pool'] == 'archive'
        assert found['labels'][names.VOLUME] == volume.id

    def end(volume, source):
        driver.delete_volume(volume)
        driver.delete_volume(source)
    each_cut(driver, knife,
             lambda: (things.volume(size=2, pool='archive'),
                      with_source(driver)),
             driver.create_cloned_volume, check, end)


def test_snapshots(driver, knife):
    def begin():
        return (things.snapshot(with_source(driver)),)

    def check(snapshot):
        assert snapshots(driver, snapshot.volume) == [snapshot.name]

    def end(snapshot):
        knife.cut(lambda: driver.delete_snapshot(snapshot), 1, True)
        driver.delete_snapshot(snapshot)
        driver.delete_volume(snapshot.volume)
    each_cut(driver, knife, begin, driver.create_snapshot, check, end)


@pytest.mark.parametrize('protocol, path', [('nvme', '/subsystems'),
                                            ('iscsi', '/targets')])
def test_attaching_and_detaching(make_driver, protocol, path):
    driver = make_driver(amita_protocol=protocol, use_chap_auth=True,
                         amita_chap_key='a key of some length')
    knife = Knife(driver.client)
    told = {}

    def attach(volume):
        told[volume.id] = driver.initialize_connection(volume,
                                                       things.connector())

    def check(volume):
        number = there(driver, volume)['id']
        answer = driver.client.get(f'{path}/cinder-{number}').body
        assert driver.service.hosts(answer) == [
            driver.service.host(things.connector())]
        assert told[volume.id]['data'][
            'target_nqn' if protocol == 'nvme' else 'target_iqn'] == \
            answer['nqn' if protocol == 'nvme' else 'iqn']

    def end(volume):
        knife.cut(lambda: driver.terminate_connection(
            volume, things.connector()), 1, True)
        driver.terminate_connection(volume, things.connector())
        driver.delete_volume(volume)
    try:
        each_cut(driver, knife, lambda: (with_source(driver),), attach, check,
                 end)
    finally:
        knife.close()


def test_detaching_one_of_two(driver, knife):
    def begin():
        volume = with_source(driver)
        for number in (1, 2):
            driver.initialize_connection(volume, things.connector(number))
        return (volume,)

    def check(volume):
        number = there(driver, volume)['id']
        answer = driver.client.get(f'/subsystems/cinder-{number}').body
        assert answer['hosts'] == [things.connector(2)['nqn']]
    each_cut(driver, knife, begin,
             lambda volume: driver.terminate_connection(volume,
                                                        things.connector(1)),
             check, driver.delete_volume)


def test_changing_the_type(driver, knife):
    kind = things.volume_type(qos={'total_iops_sec': '700'})
    host = {'host': f'{things.HOST}#archive', 'capabilities': {}}

    def check(volume):
        found = there(driver, volume)
        assert found['pool'] == 'archive'
        path = names.volume_path(volume.name, 'limits')
        assert driver.client.get(path).body['iops']['both']['rate'] == 700
    each_cut(driver, knife, lambda: (with_source(driver),),
             lambda volume: driver.retype(things.CONTEXT, volume, kind, {},
                                          host),
             check, driver.delete_volume)


def test_managing_and_leaving(driver, knife):
    count = 0

    def begin():
        nonlocal count
        count += 1
        name = f'by-hand-{count}'
        driver.client.post('/volumes', {'name': name, 'pool': 'main',
                                        'size_bytes': units.Gi + 4096})
        return things.volume(size=2), {'source-name': name}

    def check(volume, reference):
        assert there(driver, volume)['size_bytes'] == 2 * units.Gi

    def end(volume, reference):
        knife.cut(lambda: driver.unmanage(volume), 1, True)
        driver.unmanage(volume)
        driver.delete_volume(volume)
    each_cut(driver, knife, begin, driver.manage_existing, check, end)


def test_groups(driver, knife, monkeypatch):
    monkeypatch.setattr(volume_utils, 'is_group_a_cg_snapshot_type',
                        lambda thing: isinstance(thing, things.Consistent))

    def begin():
        volumes = [with_source(driver), with_source(driver)]
        of = things.Consistent()
        return of, [things.snapshot(volume, of.id) for volume in volumes]

    def take(of, taken):
        driver.create_group_snapshot(things.CONTEXT, of, taken)

    def check(of, taken):
        sets = {one['set'] for one in driver.client.list('/snapshots')
                if one['labels'].get(names.GROUP_SNAPSHOT) == of.id}
        assert len(sets) == 1

    def end(of, taken):
        knife.cut(lambda: driver.delete_group_snapshot(things.CONTEXT, of,
                                                       taken), 2, True)
        driver.delete_group_snapshot(things.CONTEXT, of, taken)
        for snapshot in taken:
            driver.delete_volume(snapshot.volume)
    each_cut(driver, knife, begin, take, check, end)


def test_groups_from_others(driver, knife, monkeypatch):
    monkeypatch.setattr(volume_utils, 'is_group_a_cg_snapshot_type',
                        lambda thing: isinstance(thing, things.Consistent))

    def begin():
        sources = [with_source(driver), with_source(driver)]
        return (things.Consistent(), things.Consistent(), sources,
                [things.volume(), things.volume()])

    def call(group, of, sources, made):
        driver.create_group_from_src(things.CONTEXT, group, made,
                                     source_group=of, source_vols=sources)

    def check(group, of, sources, made):
        assert all(there(driver, volume)['parent'] for volume in made)
        assert not any(snapshots(driver, volume) for volume in sources)

    def end(group, of, sources, made):
        for volume in [*made, *sources]:
            driver.delete_volume(volume)
    each_cut(driver, knife, begin, call, check, end)


def test_going_back(driver, knife):
    def begin():
        volume = with_source(driver)
        snapshot = things.snapshot(volume)
        driver.create_snapshot(snapshot)
        driver.initialize_connection(volume, things.connector())
        return volume, snapshot

    def check(volume, snapshot):
        assert there(driver, volume)['size_bytes'] == units.Gi
        assert snapshots(driver, volume) == [snapshot.name]

    def end(volume, snapshot):
        driver.delete_snapshot(snapshot)
        driver.delete_volume(volume)
    each_cut(driver, knife, begin,
             lambda volume, snapshot: driver.revert_to_snapshot(
                 things.CONTEXT, volume, snapshot), check, end)


def test_two_processes_at_one_time(make_driver):
    """Attaching and detaching the same volume by two processes: whoever is
    told that a host may connect, may."""
    import threading
    drivers = [make_driver(), make_driver()]
    volume = with_source(drivers[0])
    failed = []

    def run(number):
        driver, connector = drivers[number], things.connector(number + 1)
        try:
            for _ in range(6):
                told = driver.initialize_connection(volume, connector)
                attachment = driver.client.get(
                    names.volume_path(volume.name, 'attachment')).body
                if connector['nqn'] not in attachment['hosts'] or \
                        attachment['nqn'] != told['data']['target_nqn']:
                    failed.append((number, told, attachment))
                driver.terminate_connection(volume, connector)
        except Exception as error:
            failed.append((number, repr(error)))
    threads = [threading.Thread(target=run, args=(number,))
               for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drivers[0].delete_volume(volume)
    assert not failed


def test_two_processes_make_the_same(make_driver):
    import threading
    drivers = [make_driver(), make_driver()]
    source = with_source(drivers[0])
    snapshot = things.snapshot(source)
    drivers[0].create_snapshot(snapshot)
    for make in ('create_volume', 'create_volume_from_snapshot'):
        volume = things.volume()
        failed = []

        def run(driver):
            try:
                if make == 'create_volume':
                    driver.create_volume(volume)
                else:
                    driver.create_volume_from_snapshot(volume, snapshot)
            except Exception as error:
                failed.append(repr(error))
        threads = [threading.Thread(target=run, args=(driver,))
                   for driver in drivers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        drivers[0].delete_volume(volume)
        assert there(drivers[1], volume) is None
    drivers[0].delete_snapshot(snapshot)
    drivers[0].delete_volume(source)


def test_what_cannot_be_finished_is_undone(driver, monkeypatch):
    """Limits are refused after the volume was made: Cinder may make it
    elsewhere, and nothing is left here."""
    before = everything(driver)
    kind = things.volume_type(qos={'weight': '5000'})
    with pytest.raises(exception.VolumeBackendAPIException):
        driver.create_volume(things.volume(kind=kind))
    source = with_source(driver)
    with pytest.raises(exception.VolumeBackendAPIException):
        driver.create_cloned_volume(things.volume(kind=kind), source)
    driver.delete_volume(source)
    assert everything(driver) == before


def test_without_a_node_nothing_is_told_to_be_done(make_driver):
    driver = make_driver()
    driver.client.endpoints = ['https://127.0.0.1:1']
    driver.client.patience = 0.3
    for call in (lambda: driver.create_volume(things.volume()),
                 lambda: driver.delete_volume(things.volume())):
        with pytest.raises(exception.VolumeBackendAPIException) as caught:
            call()
        assert 'no node of the cluster answers' in str(caught.value)
    told = driver.get_volume_stats(refresh=True)
    assert told['backend_state'] == 'down'
    with pytest.raises(errors.NoAnswer):
        driver.client.get('/volumes')


class Deaf:
    """Each answer to a change is lost once: the client asks again, with what
    it asked before."""

    def __init__(self, client):
        self.send = client._send
        self.lost = 0
        client._send = self._send

    def _send(self, endpoint, method, path, *more):
        if method != 'GET':
            self.lost += 1
            try:
                self.send(endpoint, method, path, *more)
            except errors.Refused:
                pass
        return self.send(endpoint, method, path, *more)


@pytest.mark.parametrize('protocol', ['nvme', 'iscsi'])
def test_each_answer_is_lost_once(make_driver, protocol, monkeypatch):
    monkeypatch.setattr(volume_utils, 'is_group_a_cg_snapshot_type',
                        lambda thing: isinstance(thing, things.Consistent))
    driver = make_driver(amita_protocol=protocol, use_chap_auth=True,
                         amita_chap_key='a key of some length')
    before = everything(driver)
    deaf = Deaf(driver.client)
    kind = things.volume_type(qos={'total_iops_sec': '500', 'weight': '200'})
    volume = things.volume(kind=kind, status='creating')
    driver.create_volume(volume)
    volume.host = f'{things.HOST}#archive'
    driver.create_volume(volume)
    volume.status = 'available'
    driver.extend_volume(volume, 2)
    volume.size = 2
    snapshot = things.snapshot(volume)
    driver.create_snapshot(snapshot)
    clone, new, copy = (things.volume(size=3, pool=pool)
                        for pool in ('archive', 'archive', 'main'))
    driver.create_cloned_volume(clone, volume)
    driver.create_volume_from_snapshot(new, snapshot)
    driver.create_volume_from_snapshot(copy, snapshot)
    for number in (1, 2):
        driver.initialize_connection(volume, things.connector(number))
    driver.initialize_connection_snapshot(snapshot, things.connector())
    driver.terminate_connection_snapshot(snapshot, things.connector())
    for number in (1, 2):
        driver.terminate_connection(volume, things.connector(number))
    host = {'host': f'{things.HOST}#main', 'capabilities': {}}
    assert driver.retype(things.CONTEXT, copy, kind, {}, host)[0]
    assert driver.retype(things.CONTEXT, volume, kind, {}, host)[0]
    driver.initialize_connection(volume, things.connector())
    driver.revert_to_snapshot(things.CONTEXT, volume, snapshot)
    driver.unmanage(new)
    managed = things.volume(size=3, pool='archive')
    driver.manage_existing(managed, {'source-name': new.name})
    driver.accept_transfer(things.CONTEXT, managed, 'user', 'another')
    original = things.volume(size=3)
    driver.update_migrated_volume(things.CONTEXT, original, managed,
                                  'available')
    of = things.Consistent()
    taken = [things.snapshot(one, of.id) for one in (volume, clone)]
    driver.create_group_snapshot(things.CONTEXT, of, taken)
    driver.delete_group_snapshot(things.CONTEXT, of, taken)
    driver.delete_snapshot(snapshot)
    for one in (volume, clone, copy, original):
        driver.delete_volume(one)
    assert everything(driver) == before
    assert deaf.lost > 30
